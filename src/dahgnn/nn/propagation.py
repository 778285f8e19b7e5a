"""Features that both products of the convolution have passed, in arrays that may be larger than memory.

Nothing stands between the features and the product with the weight Θ, so that (1) and (2) are products of Θ
with features that are propagated once. A batch then takes the rows that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from dahgnn.files.scratch import Scratch
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.ops.blocks import BLOCK, row_blocks, sum_blocks
from dahgnn.ops.propagated import leading_directions, may_have_fewer


@dataclass(frozen=True, eq=False)
class Propagated:
    """Features of nodes and hyperedges behind the convolution, before its weight.

    Attributes
    ----------
    nodes, hyperedges : Tensor, (n, s), (m, s)
        The propagated features, along the leading directions if there are any.
    directions : Tensor, (d, s), or None
        The leading directions.
    """

    nodes: Tensor
    hyperedges: Tensor
    directions: Tensor | None

    def weight(self, theta: Tensor) -> Tensor:
        """Return what the rows are multiplied with, (s, hidden), for Θ (d, hidden)."""
        return theta if self.directions is None else self.directions.to(theta).T @ theta


def propagate(
    features: Tensor, hypergraph: Hypergraph, scratch: Scratch, *, printed: bool, leave_out: float = 0.0
) -> Propagated:
    """Propagate features to hyperedges, (1), and on to nodes, (2), block by block.

    Parameters
    ----------
    features : Tensor, (n, d)
        Each row is a node's; it may be file-backed, as may the hypergraph.
    hypergraph : Hypergraph
        The hypergraph of the same nodes, on the CPU.
    scratch : Scratch
        Where the results get room.
    printed : bool
        Whether the two have their names exchanged, see `HypergraphConvolution`.
    leave_out : float
        How much of the sum of squares of (1) may be left out, so that there are fewer columns; see
        `dahgnn.ops.propagated.PropagatedFeatures`.
    """
    rows = to_hyperedges(features, hypergraph, scratch)
    directions = _directions(rows, leave_out) if leave_out else None
    if directions is not None:
        fewer = scratch.empty((len(rows), directions.shape[1]), rows.dtype)
        for some in row_blocks(len(rows), BLOCK // 16):
            torch.mm(rows[some], directions, out=fewer[some])
        rows = fewer
    nodes = to_nodes(rows, hypergraph, scratch)
    return Propagated(*((rows, nodes) if printed else (nodes, rows)), directions)


def to_hyperedges(rows: Tensor, hypergraph: Hypergraph, scratch: Scratch) -> Tensor:
    """Propagate rows by D_e^(-1/2) Hᵀ D_v^(-1/2), block by block: (n, width) → (m, width)."""
    node, hyperedge, _ = hypergraph.degree_scales(rows.dtype)
    sums = scratch.empty((hypergraph.n_hyperedges, rows.shape[1]), rows.dtype)
    weights = hypergraph.incidence_weights
    sum_blocks(rows, hypergraph.by_hyperedge, node, hyperedge, weights, partial(_write, sums))
    return sums


def to_nodes(rows: Tensor, hypergraph: Hypergraph, scratch: Scratch) -> Tensor:
    """Propagate rows by D_v^(-1/2) H W_e D_e^(-1/2), block by block: (m, width) → (n, width)."""
    node, _, hyperedge = hypergraph.degree_scales(rows.dtype)
    sums = scratch.empty((hypergraph.n_nodes, rows.shape[1]), rows.dtype)
    weights = hypergraph.weights_to_nodes
    sum_blocks(rows, hypergraph.by_node, hyperedge, node, weights, partial(_write, sums))
    return sums


def _write(sums: Tensor, rows: slice, some: Tensor) -> None:
    sums[rows] = some


def _directions(rows: Tensor, leave_out: float) -> Tensor | None:
    """Return the leading directions of rows, if they are much fewer than the columns."""
    if not may_have_fewer(rows.shape[1], rows.dtype):
        return None
    products = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for some in row_blocks(len(rows), BLOCK // 16):
        products += (rows[some].T @ rows[some]).double()
    return leading_directions(products, leave_out, rows.dtype)
