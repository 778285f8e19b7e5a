"""Who shares hyperedges with whom, and neighbours beside given hyperedges."""

import numpy as np
import pytest
import torch
from hypothesis import given
from oracles import hypergraph_parts, members

from dahgnn import Hypergraph
from dahgnn.graph import membership
from dahgnn.graph.membership import add_neighbours, share_hyperedges
from dahgnn.graph.neighbours import Neighbors


def by_loops(hypergraph):
    """Σₑ wₑ / (|e| − 1) over the hyperedges of both nodes."""
    similar = np.zeros((hypergraph.n_nodes, hypergraph.n_nodes))
    for number, nodes in enumerate(members(hypergraph)):
        weight = 1.0 if hypergraph.weights is None else float(hypergraph.weights[number])
        for one in nodes:
            for other in nodes:
                if one != other:
                    similar[one, other] += weight / (len(nodes) - 1)
    return similar


@given(hypergraph_parts())
def test_similarity_is_that_of_its_formula(parts):
    hypergraph = Hypergraph.from_hyperedges(**parts)
    found = share_hyperedges(hypergraph)
    np.testing.assert_allclose(found.toarray(), by_loops(hypergraph), rtol=1e-12)
    assert (found.data > 0).all()


def test_each_hyperedge_counts_once_in_a_degree():
    hypergraph = Hypergraph.from_hyperedges([[0, 1], [0, 1, 2, 3, 4], [5]], n_nodes=7)
    degrees = share_hyperedges(hypergraph).sum(axis=1)
    assert np.asarray(degrees).ravel() == pytest.approx([2, 2, 1, 1, 1, 0, 0])


def test_the_largest_hyperedges_are_left_out_where_pairs_are_too_many(monkeypatch):
    monkeypatch.setattr(membership, "_MOST_PAIRS", 10)
    hypergraph = Hypergraph.from_hyperedges([[0, 1, 2, 3, 4], [0, 1], [2, 3]], n_nodes=5)
    small = Hypergraph.from_hyperedges([[0, 1], [2, 3]], n_nodes=5)
    np.testing.assert_array_equal(share_hyperedges(hypergraph).toarray(), by_loops(small))


NEIGHBORS = Neighbors(torch.tensor([[1, 2], [0, 2], [3, 1], [2, 0]]), torch.ones(4, 2))


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_added_hyperedges_stand_behind_the_given_ones(centred, weighted):
    given_one = Hypergraph.from_hyperedges(
        [[0, 1], [1, 2, 3]],
        n_nodes=4,
        centres=[1, 3] if centred else None,
        weights=[2.0, 0.5] if weighted else None,
    )
    found = add_neighbours(given_one, NEIGHBORS, np.array([2, 0]))
    assert members(found) == [[0, 1], [1, 2, 3], [1, 2, 3], [0, 1, 2]]
    assert (None if found.centres is None else found.centres.tolist()) == ([1, 3, 2, 0] if centred else None)
    assert (None if found.weights is None else found.weights.tolist()) == (
        [2, 0.5, 1, 1] if weighted else None
    )


def test_nobody_leaves_the_hypergraph_as_it_is():
    hypergraph = Hypergraph.from_hyperedges([[0, 1]], n_nodes=4)
    assert add_neighbours(hypergraph, NEIGHBORS, np.array([], dtype=int)) is hypergraph


def test_weights_of_incidences_count_in_pairs_and_stay_when_neighbours_are_added():
    hypergraph = Hypergraph.from_hyperedges(
        [[0, 1], [1, 2, 3]], n_nodes=4, weights=[3.0, 1.0], incidence_weights=[[2.0, 0.5], [1.0, 4.0, 0.25]]
    )
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = 3 * 2 * 0.5
    for one, other, share in ((1, 2, 1 * 4), (1, 3, 1 * 0.25), (2, 3, 4 * 0.25)):
        expected[one, other] = expected[other, one] = share / 2
    np.testing.assert_allclose(share_hyperedges(hypergraph).toarray(), expected)
    found = add_neighbours(hypergraph, NEIGHBORS, np.array([2]))
    assert found.incidence_weights.tolist() == [2.0, 0.5, 1.0, 4.0, 0.25, 1.0, 1.0, 1.0]
