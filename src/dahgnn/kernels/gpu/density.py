"""Launch the GPU kernels of the density, in Triton, and of the extremes that scale it.

The extremes of densities and scores are found on the way, by atomic maxima, whose order does not matter.
"""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from dahgnn.kernels.gpu.programs import AT_ONCE, divide, jit, launch
from dahgnn.kernels.gpu.tiles import (
    COPIES,
    begin,
    block_of_segments,
    gather_rows,
    gather_scalars,
    leaky,
    leave_extremes,
    length_of,
    load_members,
    load_rows,
    load_vector,
    no_extremes,
    present_members,
    see,
    spacing_of,
    store_scalars,
    within,
)
from dahgnn.kernels.incidence import Segments

with contextlib.suppress(ImportError):
    import triton.language as tl

# Rows of which a program takes the scores at a time, at the most; and the share of programs that do so, of
# `AT_ONCE`, where programs take turns: by the instructions that the two kinds need.
_PEAK_ROWS, _PEAKS_AT_ONCE = 16, 8
# Numbers that a program of `_clear_kernel` writes.
_CLEARED = 1024


@jit
def _clear_kernel(extremes: tl.tensor, size: tl.tensor, block: tl.constexpr, overlap: tl.constexpr) -> None:
    begin(overlap)
    place = tl.program_id(0) * block + tl.arange(0, block)
    nothing = tl.full([block], -float("inf"), extremes.dtype.element_ty)
    tl.store(extremes + place, nothing, mask=place < size)


@jit
def _in_range(rows: tl.tensor) -> tl.tensor:
    """Scale rows (…, units) by a power of two where their squares would leave the range of numbers."""
    wide: tl.constexpr = rows.dtype == tl.float64
    small: tl.constexpr = 2.0**-300 if wide else 2.0**-40
    large: tl.constexpr = 2.0**300 if wide else 2.0**40
    up: tl.constexpr = 2.0**700 if wide else 2.0**100
    down: tl.constexpr = 2.0**-700 if wide else 2.0**-100
    most = tl.max(tl.abs(rows), len(rows.shape) - 1, keep_dims=True)
    factor = tl.where(most < small, up, tl.where(most > large, down, 1.0))
    return rows * factor.to(rows.dtype)


@jit
def _inverse_lengths(rows: tl.tensor) -> tl.tensor:
    """Return one over the length of rows that are in range, zero for zero rows: (…, units) → (…)."""
    squares = tl.sum(rows * rows, len(rows.shape) - 1)
    return tl.where(squares == 0, 0.0, tl.rsqrt(tl.where(squares == 0, 1.0, squares)))


@jit
def _density_of_rows(
    first: tl.tensor,
    nodes: tl.tensor,
    seen: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    density: tl.tensor,
    delta: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Sum each node's similarities over ``delta`` to its neighbours; return extremes and length."""
    rows, mine, segments, lengths, length = block_of_segments(
        offsets, indices, first, nodes, block_rows, longest
    )
    members = load_members(segments, lengths, 0, block_members)
    here = _in_range(load_rows(values, rows, layout))
    here = here * _inverse_lengths(here)[:, :, None]
    sums = tl.full([block_rows, layout[2]], 0.0, here.dtype)
    for start in range(0, within(length, longest), block_members):
        present = present_members(lengths, start, block_members)
        there = gather_rows(values, members, layout)
        members = load_members(segments, lengths, start + block_members, block_members)
        there = _in_range(there)
        cosines = tl.sum(there * here[None, :, :, :], 3) * _inverse_lengths(there)
        # No cosine is greater than one, but its rounding may be.
        similar = present[:, :, None] & (tl.minimum(cosines, 1.0) > delta)
        sums += tl.sum(tl.where(similar, cosines, 0.0), 0)
    store_scalars(density, sums, rows, mine, layout)
    return see(seen, sums, None, mine), length


@jit
def _peak_of_rows(
    first: tl.tensor,
    nodes: tl.tensor,
    seen: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    terms: tl.tensor,
    vector: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Find the greatest score of a block's nodes; return extremes and length.

    Rounding and LeakyReLU keep the order, so that the greatest term of the targets gives the greatest score.
    """
    rows, mine, segments, lengths, length = block_of_segments(
        offsets, indices, first, nodes, block_rows, longest
    )
    members = load_members(segments, lengths, 0, block_members)
    own = tl.sum(load_rows(values, rows, layout) * vector[None, :, :], 2)
    highest = tl.full([block_rows, layout[2]], -float("inf"), own.dtype)
    for start in range(0, within(length, longest), block_members):
        numbers = gather_scalars(terms, members, layout)
        present = present_members(lengths, start, block_members)
        highest = tl.maximum(highest, tl.max(tl.where(present[:, :, None], numbers, -float("inf")), 0))
        members = load_members(segments, lengths, start + block_members, block_members)
    return see(seen, None, leaky(highest + own, slope), mine), length


@jit
def _density_of_blocks(
    program: tl.tensor,
    programs: tl.tensor,
    seen: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    density: tl.tensor,
    nodes: tl.tensor,
    delta: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Compute the densities of this program's blocks; return the extremes."""
    for first in range(program * block_rows, nodes, programs * block_rows):
        seen, length = _density_of_rows(
            first, nodes, seen, offsets, indices, values, density, delta,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
        if longest is not None and length > longest:
            for row in range(first, tl.minimum(first + block_rows, nodes)):
                if length_of(offsets, row) > longest:
                    seen, _ = _density_of_rows(
                        row, nodes, seen, offsets, indices, values, density, delta,
                        layout, 1, block_members * block_rows, None,
                    )  # fmt: skip
    return seen


@jit
def _peak_of_blocks(
    program: tl.tensor,
    programs: tl.tensor,
    seen: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    terms: tl.tensor,
    vector: tl.tensor,
    nodes: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Find the greatest score of this program's blocks; return the extremes."""
    for first in range(program * block_rows, nodes, programs * block_rows):
        seen, length = _peak_of_rows(
            first, nodes, seen, offsets, indices, values, terms, vector, slope,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
        if longest is not None and length > longest:
            for row in range(first, tl.minimum(first + block_rows, nodes)):
                if length_of(offsets, row) > longest:
                    seen, _ = _peak_of_rows(
                        row, nodes, seen, offsets, indices, values, terms, vector, slope,
                        layout, 1, block_members * block_rows, None,
                    )  # fmt: skip
    return seen


@jit
def density_kernel(
    near_offsets: tl.tensor,
    near_indices: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    terms: tl.tensor,
    vector: tl.tensor,
    density: tl.tensor,
    extremes: tl.tensor,
    nodes: tl.tensor,
    programs: tl.tensor,
    stride: tl.tensor,
    delta: tl.constexpr,
    slope: tl.constexpr,
    copies: tl.constexpr,
    spacing: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
    peak_rows: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Compute the density of nodes, (3), its extremes, and the greatest score on the way to hyperedges.

    So many programs compute densities; the others the scores, of more rows at a time.
    """
    begin(overlap)
    program = tl.program_id(0).to(tl.int64)
    seen = no_extremes(values, layout)
    if program < programs:
        seen = _density_of_blocks(
            program, programs, seen, near_offsets, near_indices, values, density, nodes, delta,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
    else:
        weights = load_vector(vector, stride, layout)
        seen = _peak_of_blocks(
            program - programs, tl.num_programs(0) - programs, seen, offsets, indices, values, terms,
            weights, nodes, slope, layout, peak_rows, block_members, longest,
        )  # fmt: skip
    leave_extremes(extremes, seen, copies, spacing, layout)


def start_compiler(device: torch.device) -> None:
    """Compile and start the least kernel, so that Triton finds and loads what every kernel needs."""
    extremes = torch.empty(_CLEARED, device=device)
    launch(_clear_kernel, (1,), extremes, _CLEARED, block=_CLEARED, warps=4)


def node_density(
    wx: Tensor,
    e_term: Tensor,
    vector: Tensor,
    by_node: Segments,
    neighbours: Segments,
    delta: float,
    slope: float,
) -> tuple[Tensor, Tensor]:
    """Compute the density of nodes, (3), and what scales it.

    Parameters
    ----------
    wx, e_term, vector : Tensor, (n, heads, units), (m, heads), (heads, units)
        Nodes, hyperedges' terms of the scores, and the attention vector for the nodes'.
    by_node, neighbours : Segments
        The hyperedges and the neighbours of each node.
    delta, slope : float
        Threshold of the similarity, and slope of the LeakyReLU.

    Returns
    -------
    density : Tensor, (n, heads)
        The density of each node and head.
    extremes : Tensor, (2, copies, …)
        The extremes for the sums into hyperedges, and room for those of the sums into nodes, where nothing
        is found yet.
    """
    nodes, heads, _ = wx.shape
    extremes = wx.new_empty(2, COPIES, spacing_of(heads))
    launch(
        _clear_kernel,
        (-(-extremes.numel() // _CLEARED),),
        extremes,
        extremes.numel(),
        block=_CLEARED,
        warps=4,
    )
    density = wx.new_empty(nodes, heads)
    blocks = divide(wx, neighbours, by_node)
    if blocks.grid[0] < blocks.blocks:
        # Programs that take turns run to the end: those for the scores must run beside them, not after.
        blocks = divide(wx, neighbours, by_node, at_once=AT_ONCE - _PEAKS_AT_ONCE)
    (programs, head_blocks), block_rows = blocks.grid, blocks.sizes["block_rows"]
    # Scores are few numbers, so that a program takes more rows.
    peak_rows = min(4 * block_rows, _PEAK_ROWS) if block_rows > 1 else 1
    share = _PEAKS_AT_ONCE / (AT_ONCE - _PEAKS_AT_ONCE)
    peak_programs = min(-(-nodes // peak_rows), max(round(share * programs), 1))
    launch(
        density_kernel, (programs + peak_programs, head_blocks),
        neighbours.offsets, neighbours.indices, by_node.offsets, by_node.indices,
        wx, e_term, vector, density, extremes, nodes, programs, vector.stride(0),
        delta=float(delta), slope=slope, copies=COPIES, spacing=spacing_of(heads), peak_rows=peak_rows,
        **blocks.sizes, warps=blocks.warps,
    )  # fmt: skip
    return density, extremes
