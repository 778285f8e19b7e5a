import pytest
import torch
from clustered_rows import clustered

from dahgnn.graph.candidates import MeasuredSearch
from dahgnn.graph.faiss_index import KINDS, FaissIndex
from dahgnn.graph.nearest import knn, nearest


def search_in(points, kind="ivf", effort=4):
    return MeasuredSearch(FaissIndex.build(kind, points, None, 0), points, 1.0, effort)


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_an_exact_search(kind):
    points = clustered(1500)
    found, expected = search_in(points, kind).of_points(torch.arange(1500), 6), knn(points, 6)
    same = found.indices == expected.indices
    assert same.double().mean() > 0.6
    assert torch.equal(found.distances[same], expected.distances[same])
    assert bool((found.distances.diff(dim=1) >= 0).all())
    assert not bool((found.indices == torch.arange(1500).unsqueeze(1)).any())


def test_other_rows_are_measured_as_points_are():
    points, rows = clustered(1500), clustered(40, seed=1)
    search = search_in(points, effort=1000)
    found, expected = search.of_rows(rows, 6), nearest(rows, points, 6)
    assert torch.equal(found.indices, expected.indices)
    assert torch.equal(found.distances, expected.distances)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_has_k_neighbours_however_little_the_index_finds(kind, monkeypatch):
    points = clustered(900)
    search = search_in(points, kind, effort=1)
    answer = FaissIndex.candidates

    def find_few(self, rows, count, effort):
        found = answer(self, rows, count, effort)
        found[:, 3:] = -1  # a list may be as short as that
        return found

    monkeypatch.setattr(FaissIndex, "candidates", find_few)
    found, expected = search.of_points(torch.arange(900), 8), knn(points, 8)
    assert torch.equal(found.indices, expected.indices)
    assert torch.equal(found.distances, expected.distances)
    found, expected = search.of_rows(points[:30] + 0.1, 8), nearest(points[:30] + 0.1, points, 8)
    assert torch.equal(found.indices, expected.indices)
