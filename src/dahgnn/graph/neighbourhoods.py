"""Who is whose neighbour in a hypergraph: the pairs of nodes whose similarity makes the density."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dahgnn.graph.assembly import sort_both_ways
from dahgnn.kernels.incidence import Segments

# Pairs of nodes that share a hyperedge, at the most: a list of half a gigabyte, and four times as much
# while it is made.
_MOST_PAIRS = 1 << 26


def centred_neighbours(by_hyperedge: Segments, centres: Tensor, n_nodes: int) -> tuple[Segments, Segments]:
    """Return the other members of the hyperedges centred at each node, and the converse."""
    centre, node = centres[by_hyperedge.owners()], by_hyperedge.indices
    other = centre != node
    both = sort_both_ways(centre[other], node[other], n_nodes, n_nodes)
    return both.by_row, both.by_column


def shared_neighbours(by_hyperedge: Segments, by_node: Segments) -> tuple[Segments, Segments]:
    """Return the other nodes that share a hyperedge with each node, and the converse, which is the same."""
    from scipy.sparse import csr_array

    n_nodes, device = len(by_node), by_node.indices.device
    sizes = by_hyperedge.offsets.diff().double()
    pairs = min(float((sizes * (sizes - 1)).sum()), n_nodes * (n_nodes - 1))
    if pairs > _MOST_PAIRS:
        raise ValueError(
            "The pairs of nodes that share a hyperedge, whose similarity is the density of neighbourhood "
            f"'shared', must be at most {_MOST_PAIRS:,}. Got up to {pairs:,.0f}. Give the hyperedges "
            "centres, leave out the largest ones, or set density=False."
        )
    offsets, indices = (part.cpu().numpy() for part in (by_node.offsets, by_node.indices))
    incidence = csr_array((indices >= 0, indices, offsets), shape=(n_nodes, len(by_hyperedge)))
    together = incidence @ incidence.T
    together.sort_indices()
    counts = np.diff(together.indptr)
    others = together.indices[together.indices != np.repeat(np.arange(n_nodes), counts)]
    # Every node shares its hyperedges with itself, unless it has none.
    counts = counts - (counts > 0)
    shared = Segments(
        torch.from_numpy(np.concatenate([[0], counts.cumsum()])).to(device, torch.int64),
        torch.from_numpy(others).to(device, torch.int64),
    )
    return shared, shared
