import pytest
import torch

from dahgnn.graph import nearest as module
from dahgnn.graph.nearest import Neighbors, knn, nearest, others


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_of_the_points_change_nothing(monkeypatch, dtype):
    # Whole numbers, so that there are many ties.
    points = torch.randint(0, 4, (300, 3), generator=torch.Generator().manual_seed(0)).to(dtype)
    rows = points[::7] + 0.5
    # Not cdist, which rounds equal distances differently.
    squares = (rows.double()[:, None] - points.double()).square().sum(2)
    expected = squares.sqrt().sort(dim=1, stable=True)
    for tile in (1 << 23, 100, 16):
        monkeypatch.setattr(module, "tile_size", lambda _, tile=tile: tile)
        found = nearest(rows, points, 20)
        assert torch.equal(found.indices, expected.indices[:, :20])
        torch.testing.assert_close(found.distances, expected.values[:, :20].to(dtype))


@pytest.mark.parametrize("k", [1, 4, 9])
def test_others_are_the_nearest_of_a_point_without_itself(k):
    points = torch.randint(0, 3, (60, 2), generator=torch.Generator().manual_seed(1)).float()
    found = others(nearest(points, points, k + 1), torch.arange(60))
    expected = knn(points, k)
    assert torch.equal(found.indices, expected.indices)
    assert torch.equal(found.distances, expected.distances)


def test_the_first_of_neighbours():
    neighbors = Neighbors(torch.tensor([[1, 2]]), torch.tensor([[0.5, 1.0]]))
    assert neighbors.first(1).indices.tolist() == [[1]]
    assert neighbors.to("cpu").distances.tolist() == [[0.5, 1.0]]
