"""Launch the GPU kernels; this module fulfils the protocol `Kernels`, described there."""

from __future__ import annotations

from torch import Tensor

from dahgnn.kernels.gpu.backward import messages_backward
from dahgnn.kernels.gpu.density import node_density
from dahgnn.kernels.gpu.forward import Density
from dahgnn.kernels.gpu.forward import attend as attend_scaled
from dahgnn.kernels.gpu.one_way import attend, attend_backward, similarity_sum
from dahgnn.kernels.gpu.programs import supports
from dahgnn.kernels.gpu.rows import gather_sum, grouped_product, grouped_product_backward
from dahgnn.kernels.gpu.tiles import unit_stride
from dahgnn.kernels.gpu.training import dropout
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import MessageSettings, Vectors

__all__ = [
    "attend",
    "attend_backward",
    "dropout",
    "gather_sum",
    "grouped_product",
    "grouped_product_backward",
    "messages_backward",
    "messages_forward",
    "similarity_sum",
    "supports",
]


def messages_forward(
    wx: Tensor,
    e_term: Tensor,
    vectors: Vectors,
    to_hyperedges: Incidence,
    to_nodes: Incidence,
    neighbours: Segments | None,
    settings: MessageSettings,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Pass messages to the hyperedges and on to the nodes; see `Kernels.messages_forward`."""
    wx, e_term = wx.contiguous(), e_term.contiguous()
    from_node, to_node, from_hyperedge = map(unit_stride, vectors)
    slope, delta, tolerance = settings.slope, settings.delta, settings.tolerance
    first, second, following = None, None, None
    found: tuple[Tensor, ...] = ()
    if neighbours is not None and delta is not None:
        by_node = to_nodes.forward
        density, extremes = node_density(wx, e_term, from_node, by_node, neighbours, delta, slope)
        crowds, scales = wx.new_empty(e_term.shape), wx.new_empty(2, 2, wx.shape[1])
        first = Density(density, extremes[0], scales[0], crowds, extremes[1])
        second = Density(crowds, extremes[1], scales[1], None, None)
        found, following = (density, crowds, scales), from_hyperedge
    hyperedges, *of_hyperedges = attend_scaled(
        wx, to_hyperedges.forward, e_term, (from_node, to_node, following), first,
        tolerance=tolerance, slope=slope, activation=True,
    )  # fmt: skip
    nodes, *of_nodes = attend_scaled(
        hyperedges, to_nodes.forward, wx, (from_hyperedge, to_node, None), second,
        tolerance=tolerance, slope=slope, activation=settings.activation,
    )  # fmt: skip
    return nodes, hyperedges, (*of_hyperedges, *of_nodes, *found)
