"""Who shares hyperedges with whom, and hyperedges of nearest neighbours beside given ones.

A hypergraph that comes as such has no distances. Two of its nodes are the more similar the more hyperedges
they share, and the smaller these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import Neighbors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Pairs of nodes in a hyperedge, over all of them, at the most. Beyond, the largest are left out.
_MOST_PAIRS = 1 << 25


def share_hyperedges(hypergraph: Hypergraph) -> csr_array:
    """Return how similar nodes are by the hyperedges that they share, a symmetric matrix (n, n).

    Wᵢⱼ = Σₑ wₑ bᵢₑ bⱼₑ / (|e| − 1) over the hyperedges of both, and 0 for i = j. Without weights b of
    incidences each of its hyperedges adds its weight to the degree of a node, however large it is. Where the
    pairs of nodes are more than a matrix should hold, the largest hyperedges, which tell least of a pair, are
    left out.
    """
    from scipy.sparse import csr_array

    n, m = hypergraph.n_nodes, hypergraph.n_hyperedges
    sizes = hypergraph.by_hyperedge.offsets.diff().cpu().numpy().astype(np.float64)
    weights = np.ones(m) if hypergraph.weights is None else hypergraph.weights.double().cpu().numpy()
    order = np.argsort(sizes, kind="stable")
    kept = np.zeros(m, dtype=bool)
    kept[order[np.cumsum(sizes[order] ** 2) <= _MOST_PAIRS]] = True
    shares = np.where(kept & (sizes > 1), weights / np.maximum(sizes - 1, 1), 0)
    hyperedge, node = (
        each.cpu().numpy() for each in (hypergraph.by_hyperedge.owners(), hypergraph.by_hyperedge.indices)
    )
    of_pairs = np.ones(len(node))
    if hypergraph.incidence_weights is not None:
        of_pairs = hypergraph.incidence_weights.double().cpu().numpy()
    there = shares[hyperedge] > 0
    hyperedge, node, of_pairs = hyperedge[there], node[there], of_pairs[there]
    members = csr_array((of_pairs, (node, hyperedge)), shape=(n, m))
    weighted = csr_array((of_pairs * shares[hyperedge], (node, hyperedge)), shape=(n, m))
    together = csr_array(weighted @ members.T)
    together.setdiag(0)
    together.eliminate_zeros()
    return together


def add_neighbours(hypergraph: Hypergraph, neighbors: Neighbors, nodes: NDArray[Any]) -> Hypergraph:
    """Return the hypergraph with a further hyperedge for some nodes: each with its nearest others.

    Parameters
    ----------
    hypergraph : Hypergraph
        Of n nodes.
    neighbors : Neighbors, (n, k)
        The nearest others of each node.
    nodes : array of int, (s,)
        Who gets a hyperedge, of weight one, behind the given ones.
    """
    if len(nodes) == 0:
        return hypergraph
    some = torch.as_tensor(nodes, dtype=torch.int64)
    members = torch.cat([some[:, None], neighbors.indices.cpu()[some]], 1)  # (s, 1 + k)
    m = hypergraph.n_hyperedges
    added = torch.arange(m, m + len(some)).repeat_interleave(members.shape[1])
    given = hypergraph.to("cpu")
    return Hypergraph.from_incidence(
        torch.cat([given.by_hyperedge.indices, members.flatten()]),
        torch.cat([given.by_hyperedge.owners(), added]),
        n_nodes=hypergraph.n_nodes,
        n_hyperedges=m + len(some),
        centres=_joined(given.centres, some),
        weights=_joined(given.weights, torch.ones(len(some))),
        incidence_weights=_joined(given.incidence_weights, torch.ones(members.numel())),
    ).to(hypergraph.device)


def _joined(given: Tensor | None, added: Tensor) -> Tensor | None:
    return None if given is None else torch.cat([given, added.to(given)])
