"""Algorithm 1 on a part of a hypergraph: the messages that reach some nodes.

A node's density (3) does not depend on what was sampled: it is that of all its neighbours, or where there are
very many, of the same ones in every batch. The scaling (5) asks for the least and the greatest density and
the greatest score of all nodes, of which a part knows its own alone; whoever calls says which ones count.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dahgnn.config import AttentionConfig
from dahgnn.graph.reach import Reach
from dahgnn.kernels.incidence import Incidence
from dahgnn.kernels.protocol import Vectors
from dahgnn.nn.density import rounding
from dahgnn.ops.fused import attend_rows, similarity_to
from dahgnn.ops.sparse import gather_sum, highest_score, scale_between

# Takes which step it is, 0 to hyperedges and 1 to nodes, and its least and greatest density and its greatest
# score, (3, heads). Returns those that count.
Extremes = Callable[[int, Tensor], Tensor]


def pass_sampled_messages(
    wx: Tensor, e_term: Tensor, vectors: Vectors, reach: Reach, config: AttentionConfig, extremes: Extremes
) -> tuple[Tensor, Tensor]:
    """Sum nodes into hyperedges and hyperedges into the receivers by density-aware attention, (3) to (12).

    Parameters
    ----------
    wx : Tensor, (v, heads, units)
        Rows of WX of the nodes of the reach.
    e_term : Tensor, (h, heads)
        Products of We with the second half of α_X.
    vectors : Vectors
        The other attention vectors.
    reach : Reach
        Who sends to whom.
    config : AttentionConfig
        The switches of the layer; the density is a constant for the gradient.
    extremes : callable
        Says between which densities is scaled, and up to which score; see `Extremes`.

    Returns
    -------
    nodes, hyperedges : Tensor, (r, heads, units), (h, heads, units)
        X̃ of the receivers, and Ẽ.
    """
    density = crowd = None
    if reach.neighbours is not None and config.density:
        density = similarity_to(wx, config.delta, reach.neighbours)
        if reach.neighbour_shares is not None:
            density = density / reach.neighbour_shares.to(density).unsqueeze(1)
        crowd = gather_sum(density, reach.to_hyperedges)  # (9)
        if reach.shares is not None:
            crowd = crowd / reach.shares.to(crowd).unsqueeze(1)
    sending = wx[: reach.senders]
    bias = _scaled(density, sending, vectors.from_node, e_term, reach.to_hyperedges, 0, extremes)
    hyperedges = attend_rows(sending, vectors.from_node, e_term, bias, reach.to_hyperedges)
    to_node = (wx.index_select(0, reach.receivers) * vectors.to_node).sum(-1)
    bias = _scaled(crowd, hyperedges, vectors.from_hyperedge, to_node, reach.to_nodes, 1, extremes)
    nodes = attend_rows(
        hyperedges, vectors.from_hyperedge, to_node, bias, reach.to_nodes, activation=config.final_activation
    )
    return nodes, hyperedges


@torch.no_grad()
def _scaled(
    density: Tensor | None,
    values: Tensor,
    vector: Tensor,
    target: Tensor,
    incidence: Incidence,
    step: int,
    extremes: Extremes,
) -> Tensor | None:
    """Return what the density of the senders adds to their scores, ρ̃ of (5)."""
    if density is None:
        return None
    own = no_extremes(density.new_empty(density.shape[1]))
    if len(incidence.owners):
        peak = highest_score((values * vector).sum(-1), target, incidence)
        own = torch.cat([density.amin(0, keepdim=True), density.amax(0, keepdim=True), peak])
    low, high, peak = extremes(step, own)
    return scale_between(density, peak, rounding(density.dtype), torch.stack([low, high]))


def no_extremes(like: Tensor) -> Tensor:
    """Return the least and greatest density and the greatest score of nobody, for some heads: (3, heads)."""
    ends = like.new_full((3, len(like)), -torch.inf)  # made there: a copy would have the host wait
    ends[0] = torch.inf
    return ends
