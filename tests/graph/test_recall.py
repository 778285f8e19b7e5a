import pytest
import torch
from clustered_rows import clustered

from dahgnn.graph import recall as module
from dahgnn.graph.candidates import MeasuredSearch
from dahgnn.graph.faiss_index import FaissIndex
from dahgnn.graph.nearest import Neighbors, knn
from dahgnn.graph.recall import Sample, SearchReport, raise_effort


def test_recall_is_the_share_of_neighbours_as_near_as_the_true_ones():
    sample = Sample(torch.arange(2), torch.tensor([[2.0], [1.0]]), 4, complete=False)
    found = Neighbors(torch.zeros(2, 4), torch.tensor([[0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, torch.inf]]))
    share, error = sample.recall(found)
    assert share == 0.75
    assert error == 0
    found = Neighbors(torch.zeros(2, 4), torch.tensor([[1.0, 3.0, 3.0, 3.0], [1.0, 1.0, 1.0, torch.inf]]))
    share, error = sample.recall(found)
    assert share == 0.5
    assert error == pytest.approx(torch.tensor([0.25, 0.75]).std().item() / 2**0.5)


def test_a_sample_knows_the_true_neighbours():
    points = clustered(2000)
    sample = Sample.draw(points, 7, 3)
    assert len(sample.numbers.unique()) == 500
    assert not sample.complete
    assert torch.equal(sample.farthest, knn(points, 7).distances[sample.numbers, -1:])
    assert Sample.draw(points[:50], 7, 3).complete
    assert torch.equal(Sample.draw(points, 7, 3).numbers, sample.numbers)


@pytest.mark.parametrize("asked", [0.5, 0.9, 0.99, 1.0])
def test_the_effort_is_about_the_least_that_is_enough(asked):
    points = clustered(4000, d=12)
    search = MeasuredSearch(FaissIndex.build("ivf", points, None, 0), points, 1.0, 1)
    sample = Sample.draw(points, 10, 0)
    found, report = raise_effort(search, sample, asked)
    assert report.recall >= asked
    assert report.settings == {"lists": 83, "probes": found.effort}
    if found.effort > 1:
        less = int(found.effort / module._CLOSE - 1)
        share, error = sample.recall(search.found(points[sample.numbers], 10, sample.numbers, max(less, 1)))
        assert share - error < asked


def test_what_cannot_be_reached_is_told():
    points = clustered(400)
    search = MeasuredSearch(FaissIndex.build("hnsw", points, torch.arange(300), 0), points, 1.0, 1)
    found, report = raise_effort(search, Sample.draw(points, 10, 0), 1.0)
    assert report.recall < 1
    assert found.effort == search.index.highest_effort


def test_a_report_is_a_line_for_a_reader():
    assert SearchReport(backend="exact", k=5).describe() == "an exact search"
    report = SearchReport(
        backend="hnsw", k=5, recall=0.5, sampled=1000, settings={"links": 16, "width": 2048}
    )
    expected = "hnsw (links 16, width 2,048), which finds 0.500 of the 5 nearest, measured on 1,000 rows"
    assert report.describe() == expected
