"""Algorithm 1 as one operation: density-aware messages from nodes to hyperedges and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dahgnn.config import AttentionConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import ALL, Kernels, MessageSettings, Reached, Vectors
from dahgnn.nn.density import hyperedge_density, node_density, rounding, scale_density
from dahgnn.ops.backend import compiled_for_cpu, kernels_for
from dahgnn.ops.fused import attend_rows, similarity_to
from dahgnn.ops.sparse import NEGATIVE_SLOPE, attend, coefficients, highest_score


class Step(NamedTuple):
    """One direction of a pass, from its senders to its receivers.

    Attributes
    ----------
    values : Tensor, (senders, heads, units)
        What is summed.
    source, target : Tensor, (senders, heads), (receivers, heads)
        The terms of senders and receivers in the attention scores.
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
    to_hyperedges, to_nodes : Step
        The step from nodes to hyperedges, and the step from hyperedges to nodes that follows it.
    """

    to_hyperedges: Step
    to_nodes: Step


def pass_messages(
    wx: Tensor,
    e_term: Tensor,
    vectors: Vectors,
    hypergraph: Hypergraph,
    config: AttentionConfig,
    *,
    nodes: Tensor | None = None,
    reached: Reached = ALL,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum nodes into hyperedges and hyperedges into nodes by density-aware attention, (3) to (12).

    Heads never mix, so several networks on one hypergraph pass their messages together, as heads.

    Parameters
    ----------
    wx : Tensor, (n, heads, units)
        Rows of WX.
    e_term : Tensor, (m, heads)
        Products of We with the second half of α_X.
    vectors : Vectors
        The other attention vectors.
    hypergraph : Hypergraph
        It has n nodes and m hyperedges.
    config : AttentionConfig
        The switches of the layer. No kernel has a gradient through the density, so the reference computes it.
    nodes : Tensor of int64, (s,), optional
        The nodes whose rows are needed, all of them different.
    reached : Reached, optional
        The rows that can get a gradient; a gradient that others are given is not passed on by all backends.
    backend : {"auto", "reference", "kernel"}, optional
        See `ops.backend.using`.

    Returns
    -------
    nodes, hyperedges : Tensor, (n, heads, units) or (s, heads, units), (m, heads, units)
        X̃, or the rows of it that are needed, and Ẽ.
    """
    kernels = None if config.density and config.density_gradient else kernels_for(wx, backend)
    if kernels is None:
        traced = trace(wx, e_term, vectors, hypergraph, config)
        return _select(traced.to_nodes.sums, nodes), traced.to_hyperedges.sums
    selective = compiled_for_cpu(wx, backend)
    fused = _Fused(
        kernels,
        hypergraph.to_hyperedges,
        hypergraph.to_nodes,
        # The density gets no gradient, so that only the forward direction of the neighbourhood is needed.
        hypergraph.neighbourhood(config.neighbourhood)[0] if config.density else None,
        MessageSettings(
            slope=NEGATIVE_SLOPE,
            delta=config.delta if config.density else None,
            tolerance=rounding(wx.dtype),
            activation=config.final_activation,
            chosen=nodes if selective else None,
            kept_nodes=reached.nodes,
            kept_hyperedges=reached.hyperedges,
        ),
    )
    new_nodes, hyperedges = _PassMessages.apply(wx, e_term, *vectors, fused)
    return new_nodes if selective else _select(new_nodes, nodes), hyperedges


def _select(rows: Tensor, nodes: Tensor | None) -> Tensor:
    return rows if nodes is None else rows.index_select(0, nodes)


class _Fused(NamedTuple):
    """What the fused layer needs besides tensors that get a gradient; see `Kernels.messages_forward`."""

    kernels: Kernels
    to_hyperedges: Incidence
    to_nodes: Incidence
    neighbours: Segments | None
    settings: MessageSettings


class _PassMessages(Function):
    """The fused layer; the density is a constant for its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        wx: Tensor,
        e_term: Tensor,
        from_node: Tensor,
        to_node: Tensor,
        from_hyperedge: Tensor,
        fused: _Fused,
    ) -> tuple[Tensor, Tensor]:
        vectors = Vectors(from_node, to_node, from_hyperedge)
        nodes, hyperedges, kept = fused.kernels.messages_forward(
            wx, e_term, vectors, fused.to_hyperedges, fused.to_nodes, fused.neighbours, fused.settings
        )
        ctx.save_for_backward(wx, e_term, *vectors, nodes, hyperedges, *kept)
        ctx.fused = fused
        ctx.set_materialize_grads(False)
        return nodes, hyperedges

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, nodes_gradient: Tensor | None, hyperedges_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        fused: _Fused = ctx.fused
        wx, e_term, *rest = ctx.saved_tensors
        vectors, (nodes, hyperedges, *kept) = Vectors(*rest[:3]), rest[3:]
        if nodes_gradient is None:
            nodes_gradient = torch.zeros_like(nodes)
        wx_gradient, e_gradient, vector_gradients = fused.kernels.messages_backward(
            nodes_gradient, hyperedges_gradient, wx, e_term, vectors, nodes, hyperedges, tuple(kept),
            fused.to_hyperedges, fused.to_nodes, fused.settings,
        )  # fmt: skip
        return (wx_gradient, e_gradient, *vector_gradients.unbind(), None)


def trace(
    wx: Tensor,
    e_term: Tensor,
    vectors: Vectors,
    hypergraph: Hypergraph,
    config: AttentionConfig,
    *,
    fused: bool = False,
) -> Trace:
    """Compute what `pass_messages` gives in the paper's steps, and keep all of them.

    It is plain PyTorch; with ``fused`` those steps that need no gradient are kernels where there are some.
    """
    fused = fused and not torch.is_grad_enabled()

    def constant(tensor: Tensor) -> Tensor:
        return tensor if config.density_gradient else tensor.detach()

    def step(
        values: Tensor,
        vector: Tensor,
        target: Tensor,
        density: Tensor | None,
        incidence: Incidence,
        activation: bool,
    ) -> Step:
        source = (values * vector).sum(-1)
        peak = highest_score(constant(source), constant(target), incidence)
        bias = None if density is None else scale_density(density, peak)
        if fused:
            sums = attend_rows(values, vector, target, bias, incidence, activation=activation)
        else:
            sums = attend(values, source, target, bias, incidence, activation=activation)
        return Step(values, source, target, density, bias, peak.squeeze(0), sums)

    density = None
    if config.density and fused:
        density = similarity_to(wx, config.delta, hypergraph.neighbourhood(config.neighbourhood)[0])
    elif config.density:
        density = node_density(constant(wx), hypergraph, config.delta, config.neighbourhood)
    to_hyperedges = step(wx, vectors.from_node, e_term, density, hypergraph.to_hyperedges, True)
    hyperedges, to_node = to_hyperedges.sums, (wx * vectors.to_node).sum(-1)
    density = None if density is None else hyperedge_density(density, hypergraph)
    to_nodes = step(
        hyperedges, vectors.from_hyperedge, to_node, density, hypergraph.to_nodes, config.final_activation
    )
    return Trace(to_hyperedges, to_nodes)
