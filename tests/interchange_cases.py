"""Hypergraphs to exchange, and what it means that two are the same."""

import numpy as np
import torch

from dahgnn import Hypergraph
from dahgnn.graph.names import Names

# Nodes 3 and 5 of six are in none of these, and the first and the last are equal.
HYPEREDGES = [[0, 1, 2], [2, 4], [4], [0, 1, 2]]
WEIGHTS = [2.0, 0.5, 1.0, 4.0]
INCIDENCE_WEIGHTS = [[0.25, 1.0, 8.0], [2.0, 3.0], [0.5], [1.0, 1.0, 1.0]]


def named(*, nodes="abcdef", hyperedges=("w", "x", "y", "z"), labels=None, empty=()):
    return Names(nodes, hyperedges, labels=labels, empty=empty)


def build(*, weights=False, incidence_weights=False, names=None, equal=True, isolated=True):
    """A small hypergraph with what is wanted of it; without isolated nodes there are five."""
    hyperedges = HYPEREDGES if equal else HYPEREDGES[:3]
    if not isolated:
        hyperedges = [[*hyperedges[0], 3], *hyperedges[1:]]
    lists = [[0.75, *each][-len(nodes) :] for each, nodes in zip(INCIDENCE_WEIGHTS, hyperedges, strict=False)]
    flat = [weight for each in lists for weight in each]
    return Hypergraph.from_incidence(
        [node for each in hyperedges for node in each],
        np.repeat(np.arange(len(hyperedges)), list(map(len, hyperedges))),
        n_nodes=6 if isolated else 5,
        n_hyperedges=len(hyperedges),
        weights=WEIGHTS[: len(hyperedges)] if weights else None,
        incidence_weights=flat if incidence_weights else None,
        names=names,
        cover_isolated=False,
    )


def lists(hypergraph):
    return [hypergraph.members(j).tolist() for j in range(hypergraph.n_hyperedges)]


def assert_same(one, other, *, rtol=0.0):
    """Compare members and weights; those that are all one may be None."""
    assert one.n_nodes == other.n_nodes
    assert lists(one) == lists(other)
    for name, count in (("weights", one.n_hyperedges), ("incidence_weights", one.n_incidences)):
        first, second = (getattr(each, name) for each in (one, other))
        ones = torch.ones(count, dtype=torch.float64)
        first, second = (ones if each is None else each for each in (first, second))
        torch.testing.assert_close(first, second, rtol=rtol, atol=0)


def same_names(one, other):
    fields = ("nodes", "hyperedges", "labels", "empty")
    return [getattr(one.names, each) for each in fields] == [getattr(other.names, each) for each in fields]
