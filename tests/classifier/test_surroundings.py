"""Who is near whom: by a metric, as given, and what does not fit."""

import numpy as np
import pytest
import torch

from dahgnn import Hypergraph
from dahgnn.classifier.plan import make_plan
from dahgnn.classifier.surroundings import check_hypergraph, find_surroundings, measure_neighbors
from dahgnn.classifier.workplace import Workplace
from dahgnn.config import ResourceConfig
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.neighbours import build_search, knn
from dahgnn.graph.scaling import choose_scaling

CPU = torch.device("cpu")
HERE = Workplace(plan=make_plan(60, 4, 3, 5, ResourceConfig(), CPU))


@pytest.fixture(scope="module")
def features():
    return choose_scaling(np.random.default_rng(0).normal(size=(60, 4)), "columns").apply(
        np.random.default_rng(0).normal(size=(60, 4))
    )


def same_graph(found, expected):
    """Two graphs have the same similarities."""
    np.testing.assert_allclose(found.similarities.toarray(), expected.similarities.toarray())
    np.testing.assert_allclose(found.degrees, expected.degrees)


def test_neighbours_are_found_by_the_metric(features):
    for metric, search in (
        ("euclidean", build_search(features)),
        ("local-scale", LocalScale(build_search(features))),
    ):
        found = search.among(5)
        around = find_surroundings(features, 5, metric, None, HERE)
        expected = Hypergraph.from_neighbors(found)
        assert torch.equal(around.hypergraph.by_hyperedge.indices, expected.by_hyperedge.indices)
        same_graph(around.graphs.chosen, SimilarityGraph.from_neighbors(found))
        assert around.k == 5
        assert torch.equal(around.radius, found.distances.amax(1))
        assert (around.scales is None) == (metric == "euclidean")
    assert torch.equal(around.scales, search.scales)


def test_labels_spread_over_the_plain_neighbours_too_where_others_are_chosen(features):
    graphs = find_surroundings(features, 5, "local-scale", None, HERE).graphs
    same_graph(graphs.plain, SimilarityGraph.from_neighbors(knn(features, 5)))
    assert (graphs.plain.similarities != graphs.chosen.similarities).nnz > 0
    assert find_surroundings(features, 5, "euclidean", None, HERE).graphs.plain is None
    assert find_surroundings(features, 5, "local-scale", knn(features, 5), HERE).graphs.plain is None


def test_known_neighbours_are_measured(features):
    found = knn(features, 4)
    for given in (found, found.indices, found.indices.numpy().astype(np.int16)):
        measured = measure_neighbors(given, features)
        assert torch.equal(measured.indices, found.indices)
        np.testing.assert_allclose(measured.distances, found.distances, rtol=1e-5)
    around = find_surroundings(features, 9, "local-scale", found, HERE)
    assert (around.k, around.scales) == (4, None)


def test_known_neighbours_in_any_order_are_sorted_by_distance(features):
    found = knn(features, 4)
    measured = measure_neighbors(found.indices[:, [2, 0, 3, 1]], features)
    assert torch.equal(measured.indices, found.indices)
    np.testing.assert_allclose(measured.distances, found.distances, rtol=1e-5)
    plain, shuffled = (
        find_surroundings(features, 4, "euclidean", each, HERE)
        for each in (found.indices, found.indices[:, [2, 0, 3, 1]])
    )
    assert torch.equal(plain.hypergraph.by_node.indices, shuffled.hypergraph.by_node.indices)
    assert (plain.graphs.chosen.similarities != shuffled.graphs.chosen.similarities).nnz == 0


def test_a_row_among_its_own_neighbours_makes_no_difference(features):
    found = knn(features, 4)
    with_self = torch.cat([torch.arange(60)[:, None], found.indices], 1)
    plain, more = (find_surroundings(features, 4, "euclidean", each, HERE) for each in (found, with_self))
    assert plain.k == more.k == 4
    same_graph(more.graphs.chosen, plain.graphs.chosen)
    assert torch.equal(more.radius, plain.radius)


@pytest.mark.parametrize(
    ("hypergraph", "neighbors", "error", "message"),
    [
        (Hypergraph.from_hyperedges([[0, 1]], n_nodes=2), None, ValueError, "of 3 nodes. Got 2"),
        (Hypergraph.from_hyperedges([[0, 1]], n_nodes=3), [[1]], ValueError, "not both"),
        ([[0, 1]], None, TypeError, "a Hypergraph. Got list"),
    ],
)
def test_hypergraphs_that_do_not_fit_are_refused(hypergraph, neighbors, error, message):
    with pytest.raises(error, match=message):
        check_hypergraph(hypergraph, neighbors, 3)
