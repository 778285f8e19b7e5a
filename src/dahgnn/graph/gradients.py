"""How far the gradient of some nodes' logits reaches, so that nothing is kept for the other rows."""

from __future__ import annotations

import torch
from torch import Tensor

from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.incidence import Incidence
from dahgnn.kernels.protocol import Places, Reached
from dahgnn.ops.sparse import gather_sum


def reached_from(nodes: Tensor, hypergraph: Hypergraph) -> tuple[Reached, Reached]:
    """Return what the gradient reaches in the first and in the second of two attention layers.

    Parameters
    ----------
    nodes : Tensor of int64, (s,)
        The nodes whose logits have a gradient; the second layer gives no others.
    hypergraph : Hypergraph
        The hypergraph of all nodes.

    Examples
    --------
    >>> hypergraph = Hypergraph.from_hyperedges([[0, 1], [1, 2], [2, 3]], n_nodes=4)
    >>> first, second = reached_from(torch.tensor([0]), hypergraph)
    >>> second.hyperedges.numbers.tolist()
    [0, -1, -1]
    >>> first.nodes.numbers.tolist(), first.hyperedges.numbers.tolist()
    ([0, 1, -1, -1], [0, 1, -1])
    """
    asked = torch.zeros(hypergraph.n_nodes, device=nodes.device)
    asked[nodes] = 1
    above = _touched(asked, hypergraph.to_hyperedges)
    senders = _touched(above, hypergraph.to_nodes).maximum(asked)
    below = _touched(senders, hypergraph.to_hyperedges)
    of_above, of_senders, of_below = (Places.of(flags > 0) for flags in (above, senders, below))
    return Reached(of_senders, of_below), Reached(None, of_above)


def _touched(flags: Tensor, incidence: Incidence) -> Tensor:
    """Return which targets have a flagged source, as numbers over zero."""
    return gather_sum(flags.unsqueeze(1), incidence, None, None).squeeze(1).clamp_max(1)
