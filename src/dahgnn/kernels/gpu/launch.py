"""The GPU kernels as `ops` and `attention` see them: the twins of `kernels_cpu` and of the reference."""

from __future__ import annotations

from torch import Tensor

from dahgnn.kernels.gpu.backward import messages_backward
from dahgnn.kernels.gpu.density import node_density
from dahgnn.kernels.gpu.forward import Density, attend
from dahgnn.kernels.gpu.rows import gather_sum, grouped_product, grouped_product_backward
from dahgnn.kernels.gpu.tiles import Vectors, supports, unit_stride
from dahgnn.kernels.incidence import Incidence, Segments

__all__ = [
    "gather_sum",
    "grouped_product",
    "grouped_product_backward",
    "messages_backward",
    "messages_forward",
    "supports",
]


def messages_forward(
    wx: Tensor,
    e_share: Tensor,
    vectors: Vectors,
    to_hyperedges: Incidence,
    to_nodes: Incidence,
    *,
    neighbours: Segments | None,
    delta: float | None,
    tolerance: float,
    slope: float,
    activation: bool,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Sum nodes into hyperedges and hyperedges into nodes by density-aware attention.

    Parameters
    ----------
    wx, e_share : Tensor, (n, heads, units), (m, heads)
        As in `attention.pass_messages`.
    vectors : tuple of Tensor, (heads, units) each
        As `attention.Vectors`.
    to_hyperedges, to_nodes : Incidence
        Of the hypergraph.
    neighbours : Segments or None
        Of each node; None leaves the density out.
    delta, tolerance : float
        Threshold of the density, and the share up to which densities are equal.
    slope : float
        Of the LeakyReLU.
    activation : bool
        Whether the nodes pass an ELU.

    Returns
    -------
    nodes, hyperedges : Tensor, (n, heads, units), (m, heads, units)
        The sums.
    kept : tuple of Tensor
        For the gradient.
    """
    wx, e_share = wx.contiguous(), e_share.contiguous()
    from_node, to_node, from_hyperedge = map(unit_stride, vectors)
    first, second, following = None, None, None
    found: tuple[Tensor, ...] = ()
    if neighbours is not None and delta is not None:
        by_node = to_hyperedges.backward
        density, extremes = node_density(wx, e_share, from_node, by_node, neighbours, delta, slope)
        crowds, scales = wx.new_empty(e_share.shape), wx.new_empty(2, 2, wx.shape[1])
        first = Density(density, extremes[0], scales[0], crowds, extremes[1])
        second = Density(crowds, extremes[1], scales[1], None, None)
        found, following = (density, crowds, scales), from_hyperedge
    hyperedges, *there = attend(
        wx, to_hyperedges.forward, e_share, (from_node, to_node, following), first,
        tolerance=tolerance, slope=slope, activation=True,
    )  # fmt: skip
    nodes, *back = attend(
        hyperedges, to_nodes.forward, wx, (from_hyperedge, to_node, None), second,
        tolerance=tolerance, slope=slope, activation=activation,
    )  # fmt: skip
    return nodes, hyperedges, (*there, *back, *found)
