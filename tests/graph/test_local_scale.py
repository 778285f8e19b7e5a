import math

import pytest
import torch
from scipy.stats import skew

from dahgnn import Hypergraph
from dahgnn.graph.local_scale import NEAREST_CANDIDATES, LocalScale, bounded_scales
from dahgnn.graph.neighbours import ExactSearch, knn


def looped(points, k: int, candidates: int = 50, nearest: int = 10) -> list[list[int]]:
    """The definition, one pair at a time: of the candidates, the k of least d_ij / √(μ_i μ_j)."""
    points = points.double()
    n = len(points)
    order, means = [], []
    for i in range(n):
        others = sorted((float((points[i] - points[j]).norm()), j) for j in range(n) if j != i)
        order.append(others[:candidates])
        means.append(sum(d for d, _ in others[:nearest]) / min(nearest, n - 1))
    positive = sorted(mean for mean in means if mean > 0)
    floor = 0.5 * positive[(len(positive) - 1) // 2] if positive else 1.0
    means = [max(mean, floor) for mean in means]
    return [
        [j for _, j in sorted((d / math.sqrt(means[i] * means[j]), j) for d, j in order[i])[:k]]
        for i in range(n)
    ]


def two_densities(n: int = 60, d: int = 3, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    spread = torch.where(torch.arange(n) % 3 == 0, 4.0, 0.5).unsqueeze(1)
    return spread * torch.randn(n, d, generator=generator)


@pytest.mark.parametrize("n", [12, 60, 75])
def test_neighbours_are_those_of_the_definition(n):
    points = two_densities(n)
    assert LocalScale(ExactSearch(points)).among(5).indices.tolist() == looped(points, 5)


def test_distances_are_the_scaled_ones_nearest_first():
    points = two_densities()
    search = LocalScale(ExactSearch(points))
    found = search.among(6)
    true = (points.unsqueeze(1) - points[found.indices]).norm(dim=-1)
    expected = true / (search.scales.unsqueeze(1) * search.scales[found.indices]).sqrt()
    torch.testing.assert_close(found.distances, expected)
    assert (found.distances.diff(dim=1) >= 0).all()


def test_a_new_row_has_a_scale_of_its_own():
    points = two_densities()
    search = LocalScale(ExactSearch(points))
    row = torch.tensor([[0.3, -0.2, 0.1]])
    distances = (points - row).norm(dim=1)
    own = distances.sort().values[:10].mean().clamp_min(0.5 * search.scales.median())
    scaled = distances / (own * search.scales).sqrt()
    scaled[distances.argsort()[NEAREST_CANDIDATES:]] = torch.inf
    found = search.query(row, 4)
    assert found.indices[0].tolist() == scaled.argsort()[:4].tolist()
    torch.testing.assert_close(found.distances[0], scaled.sort().values[:4])


@pytest.mark.parametrize(("n", "k"), [(12, 5), (60, 5), (75, 12), (300, 40)])
@pytest.mark.parametrize("known", [False, True])
def test_both_kinds_of_neighbours_come_from_one_search(n, k, known):
    points = two_densities(n)
    scales = LocalScale(ExactSearch(points)).scales if known else None
    search = LocalScale(ExactSearch(points), scales)
    by_scale, plain = search.among_both(k)
    for found, expected in ((by_scale, search.among(k)), (plain, knn(points, k))):
        assert found.indices.shape == (n, k)
        assert torch.equal(found.indices, expected.indices)
        assert torch.equal(found.distances, expected.distances)
    assert not torch.equal(by_scale.indices.sort(1).values, plain.indices.sort(1).values)


@pytest.mark.parametrize(("n", "k"), [(12, 5), (60, 5), (75, 12), (300, 40)])
def test_new_rows_get_both_kinds_of_neighbours(n, k):
    points = two_densities(n)
    rows = two_densities(30, seed=5)
    search = LocalScale(ExactSearch(points))
    by_scale, plain = search.query_both(rows, k)
    for found, expected in ((by_scale, search.query(rows, k)), (plain, ExactSearch(points).query(rows, k))):
        assert found.indices.shape == (30, k)
        assert torch.equal(found.indices, expected.indices)
        assert torch.equal(found.distances, expected.distances)
    assert not torch.equal(by_scale.indices.sort(1).values, plain.indices.sort(1).values)


def test_all_points_are_neighbours_of_both_kinds():
    points = two_densities(6)
    for both in (
        LocalScale(ExactSearch(points)).among_both(5),
        LocalScale(ExactSearch(points)).query_both(points, 6),
    ):
        by_scale, plain = both
        assert torch.equal(by_scale.indices.sort(1).values, plain.indices.sort(1).values)
        assert not torch.equal(by_scale.distances, plain.distances)


def test_too_many_neighbours_of_both_kinds_are_refused():
    search = LocalScale(ExactSearch(two_densities(6)))
    with pytest.raises(ValueError, match="n_nodes - 1 = 5"):
        search.among_both(6)


def test_known_scales_give_the_same_answers():
    points = two_densities()
    first = LocalScale(ExactSearch(points))
    again = LocalScale(ExactSearch(points), first.scales)
    rows = points[:5] + 0.01
    assert torch.equal(first.query(rows, 3).indices, again.query(rows, 3).indices)
    assert torch.equal(first.among(3).indices, again.among(3).indices)


def test_the_unit_of_the_features_makes_no_difference():
    points = two_densities()
    small = LocalScale(ExactSearch(points)).among(5)
    large = LocalScale(ExactSearch(points * 1024)).among(5)
    assert torch.equal(small.indices, large.indices)


def test_it_takes_the_hubs_away():
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(600, 40, generator=generator)

    def skewness(neighbors):
        return skew(Hypergraph.from_neighbors(neighbors).node_degrees.numpy())

    assert skewness(LocalScale(ExactSearch(points)).among(10)) < skewness(knn(points, 10)) / 2


def test_equal_rows_are_neighbours_of_others_too():
    generator = torch.Generator().manual_seed(2)
    points = torch.cat([torch.zeros(20, 2), torch.randn(40, 2, generator=generator)])
    search = LocalScale(ExactSearch(points))
    found = search.among(5)
    assert found.distances.isfinite().all()
    assert (search.scales > 0).all()
    assert bool((found.indices[20:] < 20).any())


def test_rows_that_are_all_equal_have_neighbours():
    found = LocalScale(ExactSearch(torch.ones(8, 3))).among(3)
    assert found.indices[0].tolist() == [1, 2, 3]
    assert found.distances.eq(0).all()
    assert bounded_scales(torch.zeros(4)).tolist() == [1.0] * 4


def test_fewer_points_than_candidates_are_enough():
    found = LocalScale(ExactSearch(torch.arange(4.0).unsqueeze(1))).query([[1.4]], 4)
    assert sorted(found.indices[0].tolist()) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="n_nodes - 1 = 3"):
        LocalScale(ExactSearch(torch.arange(4.0).unsqueeze(1))).among(4)


def test_many_neighbours_are_chosen_among_more_candidates():
    points = two_densities(300)
    by_scale, by_distance = LocalScale(ExactSearch(points)).among(50), knn(points, 50)
    assert not torch.equal(by_scale.indices.sort(1).values, by_distance.indices.sort(1).values)
