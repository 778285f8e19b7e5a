"""Algorithm 1 as one operation: density-aware messages from nodes to hyperedges and back."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.incidence import Incidence
from dahgnn.nn.density import hyperedge_density, node_density, rounding, scale_density
from dahgnn.ops.sparse import NEGATIVE_SLOPE, attend, coefficients, highest_score, kernels_for


class Vectors(NamedTuple):
    """The attention vectors that multiply rows of units, each (heads, units).

    Attributes
    ----------
    from_node : Tensor
        First half of α_X, for the row of the sending node.
    to_node : Tensor
        Second half of α_E, for the row of the receiving node.
    from_hyperedge : Tensor
        First half of α_E, for the row of the sending hyperedge.
    """

    from_node: Tensor
    to_node: Tensor
    from_hyperedge: Tensor


class Step(NamedTuple):
    """One direction of a pass: senders, receivers, and what comes of it.

    Attributes
    ----------
    values : Tensor, (senders, heads, units)
        What is summed.
    source, target : Tensor, (senders, heads), (receivers, heads)
        Their shares of the attention scores.
    density, bias : Tensor, (senders, heads), or None
        The density of the senders, and what it adds to the scores.
    peak : Tensor, (heads,)
        The greatest score, up to which densities are scaled.
    sums : Tensor, (receivers, heads, units)
        What the receivers get.
    """

    values: Tensor
    source: Tensor
    target: Tensor
    density: Tensor | None
    bias: Tensor | None
    peak: Tensor
    sums: Tensor

    def coefficients(self, incidence: Incidence) -> Tensor:
        """Return how much of its receiver each incidence is, (t, heads), in forward order; (6)."""
        return coefficients(self.source, self.target, self.bias, incidence)


class Trace(NamedTuple):
    """What a pass of messages went through, for whoever looks inside or goes on from it.

    Attributes
    ----------
    there, back : Step
        From nodes to hyperedges, and from hyperedges to nodes.
    """

    there: Step
    back: Step


def pass_messages(
    wx: Tensor,
    e_share: Tensor,
    vectors: Vectors,
    hypergraph: Hypergraph,
    *,
    delta: float | None,
    neighbourhood: str,
    density_gradient: bool = False,
    activation: bool = True,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum nodes into hyperedges and hyperedges into nodes by density-aware attention, (3) to (12).

    Heads never mix, so several networks on one hypergraph pass their messages together, as heads.

    Parameters
    ----------
    wx : Tensor, (n, heads, units)
        Rows of WX.
    e_share : Tensor, (m, heads)
        Products of We with the second half of α_X.
    vectors : Vectors
        The other attention vectors.
    hypergraph : Hypergraph
        Of n nodes and m hyperedges.
    delta : float or None
        Threshold of the density; None leaves the density out.
    neighbourhood : {"centre", "shared"}
        See `Hypergraph.neighbourhood`.
    density_gradient : bool
        Whether the gradient flows through the density; no kernel does that.
    activation : bool
        Whether the nodes pass an ELU; the hyperedges always do.
    backend : {"auto", "reference", "kernel"}, optional
        See `ops.using`.

    Returns
    -------
    nodes, hyperedges : Tensor, (n, heads, units), (m, heads, units)
        X̃ and Ẽ.
    """
    kernels = None if density_gradient and delta is not None else kernels_for(wx, backend)
    if kernels is None:
        traced = trace(wx, e_share, vectors, hypergraph, delta, neighbourhood, density_gradient, activation)
        return traced.back.sums, traced.there.sums
    # The gradient of the density is not wanted, so that only its forward direction is needed.
    neighbours = None if delta is None else hypergraph.neighbourhood(neighbourhood)[0]
    settings = {"slope": NEGATIVE_SLOPE, "activation": activation}
    density = {"neighbours": neighbours, "delta": delta, "tolerance": rounding(wx.dtype)}
    paths = hypergraph.to_hyperedges, hypergraph.to_nodes
    return cast(
        tuple[Tensor, Tensor],
        _PassMessages.apply(wx, e_share, *vectors, paths, density, settings, kernels),
    )


class _PassMessages(Function):
    """The fused layer; the density is a constant for its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        wx: Tensor,
        e_share: Tensor,
        from_node: Tensor,
        to_node: Tensor,
        from_hyperedge: Tensor,
        paths: tuple[Incidence, Incidence],
        density: dict[str, Any],
        settings: dict[str, Any],
        kernels: ModuleType,
    ) -> tuple[Tensor, Tensor]:
        vectors = from_node, to_node, from_hyperedge
        nodes, hyperedges, kept = kernels.messages_forward(
            wx, e_share, vectors, *paths, **density, **settings
        )
        ctx.save_for_backward(wx, e_share, *vectors, nodes, hyperedges, *kept)
        ctx.paths, ctx.settings, ctx.kernels = paths, settings, kernels
        ctx.set_materialize_grads(False)
        return nodes, hyperedges

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, to_nodes: Tensor | None, to_hyperedges: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        wx, e_share, *rest = ctx.saved_tensors
        vectors, (nodes, hyperedges, *kept) = tuple(rest[:3]), rest[3:]
        if to_nodes is None:
            to_nodes = torch.zeros_like(nodes)
        wx_gradient, e_gradient, vector_gradients = ctx.kernels.messages_backward(
            to_nodes, to_hyperedges, wx, e_share, vectors, nodes, hyperedges, tuple(kept), *ctx.paths,
            **ctx.settings,
        )  # fmt: skip
        return (wx_gradient, e_gradient, *vector_gradients.unbind(), None, None, None, None)


def trace(
    wx: Tensor,
    e_share: Tensor,
    vectors: Vectors,
    hypergraph: Hypergraph,
    delta: float | None,
    neighbourhood: str,
    density_gradient: bool = False,
    activation: bool = True,
) -> Trace:
    """Compute what `pass_messages` gives in the paper's steps, in plain PyTorch, and keep all of them."""

    def constant(tensor: Tensor) -> Tensor:
        return tensor if density_gradient else tensor.detach()

    def step(
        values: Tensor,
        source: Tensor,
        target: Tensor,
        density: Tensor | None,
        incidence: Incidence,
        activation: bool,
    ) -> Step:
        peak = highest_score(constant(source), constant(target), incidence)
        bias = None if density is None else scale_density(density, peak)
        sums = attend(values, source, target, bias, incidence, activation=activation)
        return Step(values, source, target, density, bias, peak.squeeze(0), sums)

    from_node, to_node = ((wx * vector).sum(-1) for vector in (vectors.from_node, vectors.to_node))
    density = None if delta is None else node_density(constant(wx), hypergraph, delta, neighbourhood)
    there = step(wx, from_node, e_share, density, hypergraph.to_hyperedges, True)
    from_hyperedge = (there.sums * vectors.from_hyperedge).sum(-1)
    density = None if density is None else hyperedge_density(density, hypergraph)
    back = step(there.sums, from_hyperedge, to_node, density, hypergraph.to_nodes, activation)
    return Trace(there, back)
