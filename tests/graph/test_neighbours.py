"""The seam: what a search must do, whatever finds the neighbours."""

import pytest
import torch

from dahgnn.graph.approximate import ApproximateSearch
from dahgnn.graph.neighbours import SEARCHES, ExactSearch, build_search, knn, nearest


def points_and_rows():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(80, 4, generator=generator), torch.randn(9, 4, generator=generator)


@pytest.mark.parametrize("backend", SEARCHES)
def test_a_search_finds_the_neighbours_of_its_points_and_of_other_rows(backend):
    points, rows = points_and_rows()
    search = build_search(points, backend, recall=1.0)
    assert search.n_points == 80
    distances = torch.cdist(points.double(), points.double()).fill_diagonal_(torch.inf)
    found = search.among(5)
    assert torch.equal(found.indices, distances.argsort(1)[:, :5])
    torch.testing.assert_close(
        found.distances.double(), distances.sort(1).values[:, :5], rtol=1e-6, atol=1e-6
    )
    distances = torch.cdist(rows.double(), points.double())
    found = search.query(rows, 7)
    assert torch.equal(found.indices, distances.argsort(1)[:, :7])
    assert torch.equal(found.first(3).indices, found.indices[:, :3])


@pytest.mark.parametrize("backend", SEARCHES)
def test_equal_rows_are_neighbours_of_each_other_the_lower_first(backend):
    search = build_search(torch.tensor([[1.0], [0.0], [0.0], [0.0], [1.0]]), backend, recall=1.0)
    assert search.among(2).indices.tolist() == [[4, 1], [2, 3], [1, 3], [1, 2], [0, 1]]
    assert search.query([[0.0], [0.9]], 5).indices.tolist() == [[1, 2, 3, 0, 4], [0, 4, 1, 2, 3]]


@pytest.mark.parametrize("backend", SEARCHES)
def test_features_of_any_size_and_place_keep_their_neighbours(backend):
    points, _ = points_and_rows()
    for features in (points.double() * 1e-160, points * 1e30, points.double() + 1e8):
        expected = knn(features, 5)
        found = build_search(features, backend, recall=1.0).among(5)
        assert torch.equal(found.indices, expected.indices)
        assert torch.equal(found.distances, expected.distances)


def test_auto_takes_the_exact_search_for_few_rows(monkeypatch):
    points, _ = points_and_rows()
    assert isinstance(build_search(points, "auto"), ExactSearch)
    monkeypatch.setattr("dahgnn.graph.choice._EXACT", 1.0)
    monkeypatch.setattr("dahgnn.graph.choice.ivf_seconds", lambda *_: 0.0)
    assert isinstance(build_search(points, "auto"), ApproximateSearch)


def test_an_unknown_backend_suggests_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'exact'"):
        build_search(torch.ones(3, 2), "exakt")


@pytest.mark.parametrize("k", [0, -1, 5, 100])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match="The 'k' parameter of knn must be"):
        knn(torch.ones(5, 2), k)


def test_k_too_large_says_the_largest():
    with pytest.raises(ValueError, match=r"between 1 and n_nodes - 1 = 99. Got 100\."):
        knn(torch.ones(100, 2), 100)


def test_one_point_has_no_neighbour():
    with pytest.raises(ValueError, match="n_nodes - 1 = 0"):
        knn(torch.ones(1, 2), 1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_features_must_be_finite(bad):
    points = torch.ones(5, 2)
    points[3, 1] = bad
    with pytest.raises(ValueError, match="'features' parameter of knn must be finite"):
        knn(points, 2)


def test_a_tile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="'tile'"):
        knn(torch.ones(5, 2), 2, tile=0)


def test_nearest_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="'queries' parameter of nearest must be of as many columns"):
        nearest(torch.zeros(2, 3), torch.zeros(4, 2), 1)
    with pytest.raises(
        ValueError, match="'k' parameter of nearest must be at most the number of points, 4. Got 5"
    ):
        nearest(torch.zeros(2, 2), torch.zeros(4, 2), 5)
    with pytest.raises(ValueError, match="'queries' parameter of nearest must be finite"):
        nearest(torch.full((1, 2), float("nan")), torch.zeros(4, 2), 1)
