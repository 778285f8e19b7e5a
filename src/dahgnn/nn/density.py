"""Density of nodes (3) and hyperedges (9), and its scaling to the attention (5)."""

from __future__ import annotations

import torch
from torch import Tensor

from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.ops.sparse import gather_sum, scale_between, similarity_sum, unit_rows


def rounding(dtype: torch.dtype) -> float:
    """Return the difference up to which densities are equal, as a share of the greatest or of one.

    Without it, the scaling would blow the last bit of equal densities up to the whole range. Densities are
    sums of cosines, so their errors are at least those of numbers near one.
    """
    return 32 * torch.finfo(dtype).eps


def node_density(projected: Tensor, hypergraph: Hypergraph, delta: float, neighbourhood: str) -> Tensor:
    """Sum each node's similarities to its neighbours that are greater than ``delta``, (3).

    Parameters
    ----------
    projected : Tensor, (n, heads, units)
        Rows of WX for each head. The similarity of a zero row to any other is zero.
    hypergraph : Hypergraph
        Tells who is whose neighbour.
    delta : float
        Threshold of the cosine similarity.
    neighbourhood : {"centre", "shared"}
        See `Hypergraph.neighbourhood`.

    Returns
    -------
    Tensor, (n, heads)
    """
    directions = unit_rows(projected)
    return similarity_sum(directions, delta, *hypergraph.neighbourhood(neighbourhood))


def hyperedge_density(density: Tensor, hypergraph: Hypergraph) -> Tensor:
    """Sum the densities of each hyperedge's nodes, (9): (n, heads) → (m, heads)."""
    return gather_sum(density, hypergraph.to_hyperedges)


def scale_density(density: Tensor, attention: Tensor, among: Tensor | None = None) -> Tensor:
    """Scale densities to [0, max(attention)], the ρ̃ of (5), for each head by itself.

    Parameters
    ----------
    density : Tensor, (s, heads)
        Densities of all nodes, or of all hyperedges.
    attention : Tensor, (t, heads)
        Attention values of all incidences.
    among : Tensor, (u, heads), optional
        Densities that the scale is made of instead, for densities of newcomers.

    Returns
    -------
    Tensor, (s, heads)
        Zero where all densities of a head are equal, or where no attention value is positive.
    """
    return scale_between(density, attention.amax(0), rounding(density.dtype), among)
