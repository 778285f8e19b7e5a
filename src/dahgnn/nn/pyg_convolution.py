"""A layer that is called as PyTorch Geometric's ``HypergraphConv``, and computes on our kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from dahgnn.checks import ANY, as_indices, bad_type, bad_value, check_count, check_flag
from dahgnn.graph.assembly import sort_both_ways
from dahgnn.kernels.incidence import Incidence
from dahgnn.ops.sparse import gather_sum

_OWNER = "HypergraphConv"


class HypergraphConv(nn.Module):
    """Hypergraph convolution of Bai et al. (2021), to stand in for that of PyTorch Geometric.

    ::

        X' = D^(-1) H W B^(-1) Hᵀ X Θ + b

    with H (n, m) from ``hyperedge_index``, W the hyperedge weights, D the sums of the weights of each node's
    hyperedges, and B the numbers of nodes of the hyperedges. A node that is in none gets the bias. A pair
    that comes twice counts twice, as there. The weights have a gradient, too.

    PyG documents the same formula. Its layer (2.8) divides by D but never multiplies with W, so that the
    results differ where weights do. Without weights they are equal, and ``state_dict`` is that of PyG's layer
    without attention: ``ours.load_state_dict(theirs.state_dict())`` takes its weights over. For attention
    there is `DensityAwareAttention`.

    Parameters
    ----------
    in_channels, out_channels : int
        Units of a node before and after.
    bias : bool
        Whether b is learned.

    Attributes
    ----------
    lin : torch.nn.Linear
        Θ, as ``lin.weight`` (out_channels, in_channels).
    bias : Parameter, (out_channels,), or None
        b.

    Examples
    --------
    >>> hyperedge_index = torch.tensor([[0, 1, 2, 1, 2, 3], [0, 0, 0, 1, 1, 1]])
    >>> layer = HypergraphConv(16, 32)
    >>> layer(torch.ones(4, 16), hyperedge_index, hyperedge_weight=torch.tensor([1.0, 2.0])).shape
    torch.Size([4, 32])
    """

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool = True) -> None:
        super().__init__()
        check_count("in_channels", in_channels, _OWNER)
        check_count("out_channels", out_channels, _OWNER)
        check_flag("bias", bias, _OWNER)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Θ anew, uniformly as Glorot and Bengio (2010), and set b to zero."""
        bound = math.sqrt(6 / (self.in_channels + self.out_channels))
        nn.init.uniform_(self.lin.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Tensor,
        hyperedge_index: Tensor,
        hyperedge_weight: Tensor | None = None,
        hyperedge_attr: Tensor | None = None,
        num_edges: int | None = None,
    ) -> Tensor:
        """Return the nodes, (n, out_channels).

        Parameters
        ----------
        x : Tensor, (n, in_channels)
            A row for each node.
        hyperedge_index : Tensor of int64, (2, t)
            Node ``hyperedge_index[0, t]`` is in hyperedge ``hyperedge_index[1, t]``. It is sorted when it is
            new; as long as it lives and does not change, the order is remembered.
        hyperedge_weight : Tensor, (m,), optional
            W; one for each without.
        hyperedge_attr : None
            Of attention alone, which this layer has not.
        num_edges : int, optional
            m; by default the greatest number plus one. Hyperedges without a node change nothing.
        """
        if hyperedge_attr is not None:
            remedy = "Leave it out; for attention use DensityAwareAttention."
            raise bad_value("hyperedge_attr", _OWNER, "None, as this layer has no attention", "some", remedy)
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise bad_value("x", _OWNER, f"of shape (n, {self.in_channels})", f"shape {tuple(x.shape)}")
        order = _order_of(hyperedge_index, len(x), num_edges)
        out = _propagate(self.lin(x), order, _checked_weight(hyperedge_weight, order, x))
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        """Describe the layer for print."""
        return f"{self.in_channels}, {self.out_channels}, bias={self.bias is not None}"


class _Order(NamedTuple):
    """A hyperedge index in both orders.

    Attributes
    ----------
    to_hyperedges, to_nodes : Incidence
        The pairs on the way there and back, each once.
    counts, counts_to_nodes : Tensor, (t,), or None
        How often each pair comes, in both orders; None is once.
    sizes : Tensor, (m,)
        B, the number of nodes of each hyperedge.
    """

    to_hyperedges: Incidence
    to_nodes: Incidence
    counts: Tensor | None
    counts_to_nodes: Tensor | None
    sizes: Tensor


# The orders of indices that are alive, each with the version of the index and the n and m that it is of.
_orders: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _order_of(index: Tensor, n_nodes: int, num_edges: int | None) -> _Order:
    if not isinstance(index, Tensor):
        raise bad_type("hyperedge_index", _OWNER, "a tensor", type(index).__name__)
    # An inference tensor counts no versions, so that nobody could tell whether it has changed.
    key = None if index.is_inference() else (index._version, n_nodes, num_edges)
    if key is not None and index in _orders and _orders[index][0] == key:
        order: _Order = _orders[index][1]
        return order
    order = _sort(index, n_nodes, num_edges)
    if key is not None:
        _orders[index] = key, order
    return order


def _sort(index: Tensor, n_nodes: int, num_edges: int | None) -> _Order:
    if index.dim() != 2 or len(index) != 2:
        raise bad_value("hyperedge_index", _OWNER, "of shape (2, t)", f"shape {tuple(index.shape)}")
    if num_edges is not None:
        check_count("num_edges", num_edges, _OWNER, low=0)
    node = as_indices(index[0], "hyperedge_index[0]", _OWNER, below=n_nodes)
    below = ANY if num_edges is None else num_edges
    hyperedge = as_indices(index[1], "hyperedge_index[1]", _OWNER, below=below, what="num_edges")
    count = (int(hyperedge.max()) + 1 if len(hyperedge) else 0) if num_edges is None else num_edges
    members, memberships, positions = sort_both_ways(hyperedge, node, count, n_nodes)
    counts = None
    if len(members.indices) < len(node):
        counts = (hyperedge * n_nodes + node).unique(return_counts=True)[1]
    return _Order(
        Incidence(members, memberships, members.owners(), positions),
        Incidence(memberships, members, memberships.owners(), positions.argsort()),
        counts,
        None if counts is None else counts[positions],
        hyperedge.bincount(minlength=count),
    )


def _checked_weight(weight: Tensor | None, order: _Order, x: Tensor) -> Tensor | None:
    if weight is None:
        return None
    count = len(order.sizes)
    if not isinstance(weight, Tensor) or weight.dim() != 1 or len(weight) < count:
        got = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
        raise bad_value("hyperedge_weight", _OWNER, f"a tensor of {count} weights", got)
    return weight[:count].to(x.dtype)


def _propagate(rows: Tensor, order: _Order, weight: Tensor | None) -> Tensor:
    """Multiply rows with D^(-1) H W B^(-1) Hᵀ: (n, units) → (n, units)."""
    back = order.to_nodes, order.counts_to_nodes
    hyperedges = gather_sum(
        rows, order.to_hyperedges, None, _inverse(order.sizes.to(rows.dtype)), weights=order.counts
    )
    if weight is None:
        degrees = gather_sum(rows.new_ones(len(order.sizes)), back[0], weights=back[1])
        return gather_sum(hyperedges, back[0], None, _inverse(degrees), weights=back[1])
    # Not as scales of the sums, which get no gradient.
    sums = gather_sum(hyperedges * weight.unsqueeze(1), back[0], weights=back[1])
    return sums * _inverse(gather_sum(weight, back[0], weights=back[1])).unsqueeze(1)


def _inverse(degrees: Tensor) -> Tensor:
    """Return 1 / degree, and zero for zero, also in the gradient."""
    zero = degrees == 0
    return degrees.masked_fill(zero, 1).reciprocal().masked_fill(zero, 0)
