"""Clusters of rows, and which rows are typical of them."""

import numpy as np
import pytest
import torch

from dahgnn import Hypergraph
from dahgnn.explorer import clusters as clusters_module
from dahgnn.explorer.clusters import find_clusters

SIZES = (50, 40, 30, 20, 10)


@pytest.fixture
def groups():
    """Five groups of points apart from each other, and the neighbours: (points, group of each, ways)."""
    generator = np.random.default_rng(0)
    group = generator.permutation(np.repeat(np.arange(5), SIZES))
    points = 10 * np.eye(5)[group] + 0.1 * generator.normal(size=(150, 5))
    ways = Hypergraph.from_features(points, k=4).neighbourhood("centre")
    return torch.from_numpy(points).float(), group, ways


def test_clusters_are_the_groups_the_largest_first(groups):
    points, group, ways = groups
    (found,) = find_clusters(points, ways, (5,), 0)
    assert found.of_row.tolist() == group.tolist()
    assert [len(rows) for rows in found.typical] == list(SIZES)


def test_the_nearer_the_neighbours_the_more_typical(groups):
    points, group, ways = groups
    (found,) = find_clusters(points, ways, (5,), 0)
    apart = torch.cdist(points.double(), points.double()).sort(1).values[:, 1:5].mean(1).numpy()
    for number, rows in enumerate(found.typical):
        assert set(rows) == set(np.flatnonzero(group == number))
        assert (np.diff(apart[rows]) > -1e-5).all()


def test_a_cluster_is_covered_by_any_row_and_asked_for_a_free_one(groups):
    points, _, ways = groups
    (found,) = find_clusters(points, ways, (5,), 0)
    taken, free = np.zeros(150, dtype=bool), np.ones(150, dtype=bool)
    taken[found.typical[0][-1]] = True
    assert found.uncovered_row(free, taken) == found.typical[1][0]
    free[found.typical[1][:3]] = False
    assert found.uncovered_row(free, taken) == found.typical[1][3]
    free[found.typical[1]] = False  # a cluster without a free row is passed over
    assert found.uncovered_row(free, taken) == found.typical[2][0]
    taken[[rows[0] for rows in found.typical]] = True
    assert found.uncovered_row(free, taken) is None


def test_only_a_sample_is_clustered_but_all_rows_have_clusters(groups, monkeypatch):
    monkeypatch.setattr(clusters_module, "_MOST_ROWS", 60)
    monkeypatch.setattr(clusters_module, "_ROWS_AT_ONCE", 7)
    points, group, ways = groups
    (found,) = find_clusters(points, ways, (5,), 3)
    assert sum(len(rows) for rows in found.typical) == 60
    assert found.of_row.tolist() == group.tolist()
    monkeypatch.setattr(clusters_module, "_MOST_NUMBERS", 5 * 20)
    assert sum(len(rows) for rows in find_clusters(points, ways, (2,), 3)[0].typical) == 20


def test_rows_are_as_typical_however_many_are_measured_at_once(groups, monkeypatch):
    points, _, ways = groups
    whole = find_clusters(points, ways, (3,), 0)[0]
    monkeypatch.setattr(clusters_module, "_MOST_NUMBERS", 5 * 150)
    parts = find_clusters(points, ways, (3,), 0)[0]
    for one, other in zip(whole.typical, parts.typical, strict=True):
        assert one.tolist() == other.tolist()


def test_neighbours_of_unequal_number(groups):
    points, _, _ = groups
    members = [[0, 1], [1, 2, 3], [3]]
    hypergraph = Hypergraph.from_hyperedges(members, n_nodes=4)
    ways = hypergraph.neighbourhood("centre")
    found = clusters_module._mean_distances(points[:4], np.array([3, 0, 2]), ways)
    expected = []
    for row in (3, 0, 2):
        others = sorted({each for rows in members if row in rows for each in rows} - {row})
        expected.append(float((points[others] - points[row]).norm(dim=1).mean()))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n", [1, 3])
def test_equal_rows_are_one_cluster(n):
    (found,) = find_clusters(torch.ones(n, 2), None, (5,), 0)
    assert found.of_row.tolist() == [0] * n
    assert found.typical[0].tolist() == list(range(n))
