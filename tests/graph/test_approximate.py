import sys
import weakref

import pytest
import torch
from clustered_rows import clustered

from dahgnn.graph import approximate as module
from dahgnn.graph.approximate import ApproximateSearch, build_tuned
from dahgnn.graph.faiss_index import KINDS
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.nearest import ExactSearch, knn


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [10, 50])
def test_as_many_neighbours_are_true_as_were_asked_for(kind, k):
    points = clustered(4000, d=16)
    search = ApproximateSearch(kind, points, recall=0.95)
    found, expected = search.among(k), knn(points, k)
    share = (found.distances <= expected.distances[:, -1:]).double().mean().item()
    assert share >= 0.95
    assert search.report(k).recall == pytest.approx(share, abs=0.02)
    again = ApproximateSearch(kind, points, recall=0.95).among(k)
    assert torch.equal(again.indices, found.indices)
    assert torch.equal(again.distances, found.distances)


@pytest.mark.parametrize("kind", KINDS)
def test_local_scale_takes_an_approximate_search(kind):
    points = clustered(3000)
    search = LocalScale(ApproximateSearch(kind, points, recall=1.0))
    expected = LocalScale(ExactSearch(points))
    assert (search.among(5).indices == expected.among(5).indices).double().mean() > 0.995
    rows = clustered(20, seed=1)
    assert (search.query(rows, 5).indices == expected.query(rows, 5).indices).double().mean() > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_equal_rows_cost_no_more_than_others(kind):
    points = torch.cat([torch.zeros(9000, 4), clustered(2000, d=4), torch.zeros(9000, 4)])
    search = ApproximateSearch(kind, points)
    found = search.among(3)
    # Comparisons of all equal rows with each other grow with their square; the index has the first of them.
    assert search._index.index.ntotal == 2000 + module._COPIES
    assert found.indices[:5].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2]]
    assert found.indices[-1].tolist() == [0, 1, 2]
    assert not bool((found.indices == torch.arange(len(points)).unsqueeze(1)).any())


@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_equal(kind):
    search = ApproximateSearch(kind, torch.full((300, 3), 2.5))
    assert search.among(2).indices[[0, 7]].tolist() == [[1, 2], [0, 1]]
    # More neighbours than copies that an index has at first.
    assert search.among(299).indices[299 - 1].tolist() == [*range(298), 299]
    assert search.query([[2.5, 2.5, 2.5]], 300).indices.tolist() == [list(range(300))]


@pytest.mark.parametrize("kind", KINDS)
def test_one_column_and_few_rows(kind):
    search = ApproximateSearch(kind, torch.tensor([[0.0], [1.0], [3.0]]))
    assert search.among(2).indices.tolist() == [[1, 2], [0, 2], [1, 0]]
    assert search.query([[2.9]], 3).indices.tolist() == [[2, 1, 0]]
    assert ApproximateSearch(kind, torch.ones(1, 2)).query([[0.0, 0.0]], 1).indices.tolist() == [[0]]


def test_what_does_not_fit_is_refused(monkeypatch):
    points = torch.arange(6.0).view(3, 2)
    search = ApproximateSearch("ivf", points)
    with pytest.raises(ValueError, match="n_nodes - 1 = 2. Got 3"):
        search.among(3)
    with pytest.raises(ValueError, match="at most the number of points, 3. Got 4"):
        search.query(points, 4)
    with pytest.raises(
        ValueError, match="'rows' parameter of ApproximateSearch.query must be of as many columns"
    ):
        search.query([[1.0]], 1)
    with pytest.raises(ValueError, match="'recall'"):
        ApproximateSearch("ivf", points, recall=1.5)
    with pytest.raises(ValueError, match="finite"):
        ApproximateSearch("ivf", [[float("nan")]])
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ModuleNotFoundError, match="dahgnn\\[large\\]"):
        search.among(1)


def random_rows():
    """Rows without any neighbourhood, in which lists have to look at nearly everything."""
    return torch.randn(3000, 60, generator=torch.Generator().manual_seed(0))


def test_lists_take_over_where_links_are_not_enough(monkeypatch, caplog):
    monkeypatch.setattr("dahgnn.graph.faiss_index._WIDEST_WALK", 12)
    points = random_rows()
    search = ApproximateSearch("hnsw", points, recall=0.999)
    found, expected = search.among(5), knn(points, 5)
    assert (found.indices == expected.indices).double().mean() >= 0.999
    assert search.report(5).backend == "ivf"
    assert "'hnsw' finds 0." in caplog.text
    search, report = build_tuned("hnsw", points, 5, 0.999, 0)
    assert report.backend == search.index.kind == "ivf"


def test_a_recall_out_of_reach_is_refused(monkeypatch):
    monkeypatch.setattr("dahgnn.graph.recall.Sample.recall", lambda *_: (0.5, 0.0))
    for kind in KINDS:
        with pytest.raises(
            ValueError, match="within reach of 'ivf', at most 0.500. Got 0.95. Ask for a lower"
        ):
            ApproximateSearch(kind, clustered(300)).among(5)


def test_auto_leaves_lists_where_they_would_look_at_too_many(monkeypatch):
    search, report = build_tuned("auto", clustered(12_000), 5, 0.9, 0)
    assert report.backend == search.index.kind == "ivf"
    search, report = build_tuned("auto", random_rows(), 5, 0.9, 0)
    assert report.backend == search.index.kind == "hnsw"
    assert report.recall >= 0.9
    monkeypatch.setattr("dahgnn.graph.faiss_index._WIDEST_WALK", 12)
    search, report = build_tuned("auto", random_rows(), 5, 0.999, 0)
    assert search is None
    assert report.backend == "exact"
    monkeypatch.setattr(module, "_AS_FAST", 0.1)
    monkeypatch.setattr(module, "_MANY_DISTANCES", 10)
    search, report = build_tuned("auto", random_rows(), 5, 0.999, 0)
    assert report.backend == search.index.kind == "ivf"
    expected, its_report = build_tuned("ivf", random_rows(), 5, 0.999, 0)
    assert (report, search.effort) == (its_report, expected.effort)
    numbers = torch.arange(3000)
    here, there = search.of_points(numbers, 5), expected.of_points(numbers, 5)
    assert torch.equal(here.indices, there.indices)
    assert torch.equal(here.distances, there.distances)


@pytest.mark.parametrize("reach", [2048, 12])  # with the latter, links find too few
def test_memory_never_has_two_indexes(monkeypatch, reach):
    monkeypatch.setattr("dahgnn.graph.faiss_index._WIDEST_WALK", reach)
    monkeypatch.setattr(module, "_AS_FAST", 0.1)
    monkeypatch.setattr(module, "_MANY_DISTANCES", 10)
    build, built = module.build_index, []

    def build_alone(kind, *given):
        assert [kind for kind, index in built if index() is not None] == []
        index = build(kind, *given)
        built.append((kind, weakref.ref(index)))
        return index

    monkeypatch.setattr(module, "build_index", build_alone)
    build_tuned("auto", random_rows(), 5, 0.999, 0)
    assert [kind for kind, _ in built] == ["ivf", "hnsw"] + ["ivf"] * (reach == 12)
    built.clear()
    build_tuned("hnsw", random_rows(), 5, 0.999, 0)
    assert [kind for kind, _ in built] == ["hnsw"] + ["ivf"] * (reach == 12)
    built.clear()
    ApproximateSearch("hnsw", random_rows(), recall=0.999).among(5)
    assert [kind for kind, _ in built] == ["hnsw"] + ["ivf"] * (reach == 12)
