"""Launch the GPU kernels of the forward pass, in Triton: density, attention to hyperedges and to nodes.

Sources' shares of the scores are nowhere kept: they are products of rows that a program gathers anyway. The
extremes that scale densities are found on the way: each pass leaves those that the next one needs, by atomic
maxima, whose order does not matter.
"""

from __future__ import annotations

import contextlib
from typing import Any

from torch import Tensor

from dahgnn.kernels_triton import (
    AT_ONCE,
    begin,
    block_of_segments,
    divide,
    elu,
    gather_rows,
    gather_shares,
    jit,
    launch,
    leaky,
    length_of,
    load_heads,
    load_members,
    load_rows,
    load_shares,
    load_vector,
    present_members,
    program_heads,
    store_rows,
    store_shares,
    unit_stride,
)
from dahgnn.segments import Incidence, Segments

with contextlib.suppress(ImportError):
    import triton.language as tl

# Copies of the extremes, which programs take in turn, and the numbers between them: on one line of memory,
# programs would wait for each other.
_COPIES, _LINE = 8, 32
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
def _no_extremes(like: tl.tensor, layout: tl.constexpr) -> tl.tensor:
    """Return what was seen before anything: −(least density), greatest density, greatest score, a gap."""
    return tl.full([4, layout[2]], -float("inf"), like.dtype.element_ty)


@jit
def _see(seen: tl.tensor, density: tl.tensor, scores: tl.tensor, present: tl.tensor) -> tl.tensor:
    """Add densities and scores of rows, (rows, heads) or None, to what was seen."""
    kind = tl.arange(0, 4)[None, :, None]
    new = -float("inf")
    if density is not None:
        density = density[:, None, :]
        new = tl.where(kind == 0, -density, tl.where(kind == 1, density, new))
    if scores is not None:
        new = tl.where(kind == 2, scores[:, None, :], new)
    return tl.maximum(seen, tl.max(tl.where(present[:, None, None], new, -float("inf")), 0))


@jit
def _leave_extremes(
    extremes: tl.tensor, seen: tl.tensor, copies: tl.constexpr, spacing: tl.constexpr, layout: tl.constexpr
) -> None:
    """Add what this program has seen to what others have."""
    kind, head = tl.arange(0, 4)[:, None], program_heads(layout)[None, :]
    places = tl.program_id(0) % copies * spacing + kind * layout[0] + head
    # The sum turns −0 into 0: the order of Triton's atomic maximum is that of the bits.
    tl.atomic_max(extremes + places, seen + 0.0, mask=(kind < 3) & (head < layout[0]), sem="relaxed")


@jit
def _found(
    extremes: tl.tensor,
    which: tl.constexpr,
    copies: tl.constexpr,
    spacing: tl.constexpr,
    layout: tl.constexpr,
) -> tl.tensor:
    """Return one of the extremes, (heads,)."""
    found = load_heads(extremes, which, layout)
    for copy in tl.static_range(1, copies):
        found = tl.maximum(found, load_heads(extremes + copy * spacing, which, layout))
    return found


@jit
def _density_scale(
    extremes: tl.tensor,
    tolerance: tl.constexpr,
    copies: tl.constexpr,
    spacing: tl.constexpr,
    layout: tl.constexpr,
) -> tl.tensor:
    """Return what to subtract from densities and what to multiply them with, (heads,) each, (5)."""
    low = -_found(extremes, 0, copies, spacing, layout)
    high = _found(extremes, 1, copies, spacing, layout)
    peak = tl.maximum(_found(extremes, 2, copies, spacing, layout), 0.0)
    span = high - low
    equal = span <= tolerance * tl.maximum(tl.abs(high), 1.0)
    return low, tl.where(equal, 0.0, peak / tl.where(equal, 1.0, span))


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
    for start in range(0, tl.minimum(length, longest), block_members):
        present = present_members(lengths, start, block_members)
        there = gather_rows(values, members, layout)
        members = load_members(segments, lengths, start + block_members, block_members)
        there = _in_range(there)
        cosines = tl.sum(there * here[None, :, :, :], 3) * _inverse_lengths(there)
        # No cosine is greater than one, but its rounding may be.
        similar = present[:, :, None] & (tl.minimum(cosines, 1.0) > delta)
        sums += tl.sum(tl.where(similar, cosines, 0.0), 0)
    store_shares(density, sums, rows, mine, layout)
    return _see(seen, sums, None, mine), length


@jit
def _peak_of_rows(
    first: tl.tensor,
    nodes: tl.tensor,
    seen: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    shares: tl.tensor,
    vector: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Find the greatest score of a block's nodes; return extremes and length.

    Rounding and LeakyReLU keep the order, so that the greatest share of the targets gives the greatest score.
    """
    rows, mine, segments, lengths, length = block_of_segments(
        offsets, indices, first, nodes, block_rows, longest
    )
    members = load_members(segments, lengths, 0, block_members)
    own = tl.sum(load_rows(values, rows, layout) * vector[None, :, :], 2)
    highest = tl.full([block_rows, layout[2]], -float("inf"), own.dtype)
    for start in range(0, tl.minimum(length, longest), block_members):
        numbers = gather_shares(shares, members, layout)
        present = present_members(lengths, start, block_members)
        highest = tl.maximum(highest, tl.max(tl.where(present[:, :, None], numbers, -float("inf")), 0))
        members = load_members(segments, lengths, start + block_members, block_members)
    return _see(seen, None, leaky(highest + own, slope), mine), length


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
        if block_rows > 1 and length > longest:
            for row in range(first, tl.minimum(first + block_rows, nodes)):
                if length_of(offsets, row) > longest:
                    seen, _ = _density_of_rows(
                        row, nodes, seen, offsets, indices, values, density, delta,
                        layout, 1, block_members * block_rows, 2147483647,
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
    shares: tl.tensor,
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
            first, nodes, seen, offsets, indices, values, shares, vector, slope,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
        if block_rows > 1 and length > longest:
            for row in range(first, tl.minimum(first + block_rows, nodes)):
                if length_of(offsets, row) > longest:
                    seen, _ = _peak_of_rows(
                        row, nodes, seen, offsets, indices, values, shares, vector, slope,
                        layout, 1, block_members * block_rows, 2147483647,
                    )  # fmt: skip
    return seen


@jit
def _density_kernel(
    near_offsets: tl.tensor,
    near_indices: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    shares: tl.tensor,
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
    seen = _no_extremes(values, layout)
    if program < programs:
        seen = _density_of_blocks(
            program, programs, seen, near_offsets, near_indices, values, density, nodes, delta,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
    else:
        weights = load_vector(vector, stride, layout)
        seen = _peak_of_blocks(
            program - programs, tl.num_programs(0) - programs, seen, offsets, indices, values, shares,
            weights, nodes, slope, layout, peak_rows, block_members, longest,
        )  # fmt: skip
    _leave_extremes(extremes, seen, copies, spacing, layout)


@jit
def _attend_rows(
    first: tl.tensor,
    targets: tl.tensor,
    seen: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    shares: tl.tensor,
    target_rows: tl.tensor,
    density: tl.tensor,
    results: tl.tensor,
    source_vector: tl.tensor,
    target_vector: tl.tensor,
    next_vector: tl.tensor,
    low: tl.tensor,
    factor: tl.tensor,
    slope: tl.constexpr,
    activation: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Sum the sources of a block of targets by attention; return extremes and length."""
    output, positive, negative, notes, crowds = results
    heads: tl.constexpr = layout[2]
    rows, mine, segments, lengths, length = block_of_segments(
        offsets, indices, first, targets, block_rows, longest
    )
    members = load_members(segments, lengths, 0, block_members)
    if shares is None:
        share = tl.sum(load_rows(target_rows, rows, layout) * target_vector[None, :, :], 2)
    else:
        share = load_shares(shares, rows, layout)
    highest = tl.full([block_rows, heads], -float("inf"), share.dtype)
    total = tl.full([block_rows, heads], 0.0, share.dtype)
    above = tl.full([block_rows, heads], 0.0, share.dtype)
    crowd = tl.full([block_rows, heads], 0.0, share.dtype)
    reach = tl.full([block_rows, heads], -float("inf"), share.dtype)
    plus = tl.full([block_rows, heads, layout[3]], 0.0, share.dtype)
    minus = tl.full([block_rows, heads, layout[3]], 0.0, share.dtype)
    for start in range(0, tl.minimum(length, longest), block_members):
        present = present_members(lengths, start, block_members)
        tile = gather_rows(values, members, layout)
        there = present[:, :, None]
        raw = tl.sum(tile * source_vector[None, None, :, :], 3) + share[None, :, :]
        scores = leaky(raw, slope)
        if density is not None:
            dense = gather_shares(density, members, layout)
            scores += (dense - low[None, None, :]) * factor[None, None, :]
            crowd += tl.sum(tl.where(there, dense, 0.0), 0)
        if next_vector is not None:
            reaches = tl.sum(tile * target_vector[None, None, :, :], 3)
            reach = tl.maximum(reach, tl.max(tl.where(there, reaches, -float("inf")), 0))
        members = load_members(segments, lengths, start + block_members, block_members)
        scores = tl.where(there, scores, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 0))
        # Before its first member, a segment has no highest score; its sums are zero.
        base = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp(highest - base)
        weights = tl.exp(scores - base[None, :, :])
        upper = tl.where(raw > 0, weights, 0.0)
        total = total * shrink + tl.sum(weights, 0)
        above = above * shrink + tl.sum(upper, 0)
        plus = plus * shrink[:, :, None] + tl.sum(upper[:, :, :, None] * tile, 0)
        minus = minus * shrink[:, :, None] + tl.sum((weights - upper)[:, :, :, None] * tile, 0)
        highest = higher
    some = tl.broadcast_to((lengths > 0)[:, None], total.shape)
    inverse = tl.where(some, 1.0 / total, 0.0)
    # An empty segment may have seen any row: nothing of it must stay, not even an infinity times zero.
    plus = tl.where(some[:, :, None], plus * inverse[:, :, None], 0.0)
    minus = tl.where(some[:, :, None], minus * inverse[:, :, None], 0.0)
    sums = plus + minus
    if activation:
        sums = elu(sums)
    store_rows(output, sums, rows, mine, layout)
    store_rows(positive, plus, rows, mine, layout)
    store_rows(negative, minus, rows, mine, layout)
    store_shares(notes, share, rows, mine, layout, 3, 0)
    store_shares(notes, tl.where(some, highest + tl.log(total), 0.0), rows, mine, layout, 3, 1)
    store_shares(notes, above * inverse, rows, mine, layout, 3, 2)
    if next_vector is not None:
        store_shares(crowds, crowd, rows, mine, layout)
        scores = leaky(tl.sum(sums * next_vector[None, :, :], 2) + reach, slope)
        seen = _see(seen, crowd, scores, mine)
    return seen, length


@jit
def _attend_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    shares: tl.tensor,
    target_rows: tl.tensor,
    density: tl.tensor,
    extremes: tl.tensor,
    output: tl.tensor,
    positive: tl.tensor,
    negative: tl.tensor,
    notes: tl.tensor,
    crowds: tl.tensor,
    scale: tl.tensor,
    found: tl.tensor,
    source_vector: tl.tensor,
    target_vector: tl.tensor,
    next_vector: tl.tensor,
    source_stride: tl.tensor,
    target_stride: tl.tensor,
    next_stride: tl.tensor,
    targets: tl.tensor,
    count: tl.tensor,
    tolerance: tl.constexpr,
    slope: tl.constexpr,
    activation: tl.constexpr,
    copies: tl.constexpr,
    spacing: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Sum the sources of each target by attention, (4) to (8) or (10) to (11)."""
    begin(overlap)
    wide: tl.constexpr = block_members * block_rows
    results = output, positive, negative, notes, crowds
    seen = _no_extremes(values, layout)
    source_vector = load_vector(source_vector, source_stride, layout)
    target_vector = load_vector(target_vector, target_stride, layout)
    following = None if next_vector is None else load_vector(next_vector, next_stride, layout)
    low, factor = None, None
    if density is not None:
        low, factor = _density_scale(extremes, tolerance, copies, spacing, layout)
        alone = tl.arange(0, 1)
        first_alone = alone == tl.program_id(0)
        store_shares(scale, low[None, :], alone, first_alone, layout, 2, 0)
        store_shares(scale, factor[None, :], alone, first_alone, layout, 2, 1)
    for block in range(tl.program_id(0).to(tl.int64), count, tl.num_programs(0)):
        first = block * block_rows
        seen, length = _attend_rows(
            first, targets, seen, offsets, indices, values, shares, target_rows, density, results,
            source_vector, target_vector, following, low, factor, slope, activation,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
        if block_rows > 1 and length > longest:
            for row in range(first, tl.minimum(first + block_rows, targets)):
                if length_of(offsets, row) > longest:
                    seen, _ = _attend_rows(
                        row, targets, seen, offsets, indices, values, shares, target_rows, density, results,
                        source_vector, target_vector, following, low, factor, slope, activation,
                        layout, 1, wide, 2147483647,
                    )  # fmt: skip
    if next_vector is not None:
        _leave_extremes(found, seen, copies, spacing, layout)


Vectors = tuple[Tensor, Tensor, Tensor]


def _density(
    wx: Tensor,
    e_share: Tensor,
    vector: Tensor,
    to_hyperedges: Incidence,
    neighbours: Segments,
    delta: float,
    slope: float,
) -> tuple[Tensor, Tensor]:
    """Return the density of nodes, (n, heads), and the extremes for both passes, the first of them found."""
    nodes, heads, _ = wx.shape
    extremes = wx.new_empty(2, _COPIES, _spacing(heads))
    launch(
        _clear_kernel,
        (-(-extremes.numel() // _CLEARED),),
        extremes,
        extremes.numel(),
        block=_CLEARED,
        warps=4,
    )
    density = wx.new_empty(nodes, heads)
    by_node = to_hyperedges.backward
    incidences = max(len(neighbours.indices), len(by_node.indices))
    blocks = divide(nodes, incidences, wx)
    if blocks.grid[0] < blocks.blocks:
        # Programs that take turns run to the end: those for the scores must run beside them, not after.
        blocks = divide(nodes, incidences, wx, AT_ONCE - _PEAKS_AT_ONCE)
    (programs, head_blocks), block_rows = blocks.grid, blocks.sizes["block_rows"]
    # Scores are few numbers, so that a program takes more rows.
    peak_rows = min(4 * block_rows, _PEAK_ROWS) if block_rows > 1 else 1
    share = _PEAKS_AT_ONCE / (AT_ONCE - _PEAKS_AT_ONCE)
    peak_programs = min(-(-nodes // peak_rows), max(round(share * programs), 1))
    launch(
        _density_kernel, (programs + peak_programs, head_blocks),
        neighbours.offsets, neighbours.indices, by_node.offsets, by_node.indices,
        wx, e_share, vector, density, extremes, nodes, programs, vector.stride(0),
        delta=float(delta), slope=slope, copies=_COPIES, spacing=_spacing(heads), peak_rows=peak_rows,
        **blocks.sizes, warps=blocks.warps,
    )  # fmt: skip
    return density, extremes


def _spacing(heads: int) -> int:
    """Return the numbers from one copy of the extremes to the next: three for each head, and a gap."""
    return -(-3 * heads // _LINE) * _LINE


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
    nodes, hyperedges, heads = len(wx), len(e_share), wx.shape[1]
    density: Tensor | None = None
    crowds: Tensor | None = None
    extremes: Tensor | tuple[None, None] = (None, None)
    scales: Tensor | tuple[None, None] = (None, None)
    found: tuple[Tensor, ...] = ()
    if neighbours is not None and delta is not None:
        density, extremes = _density(wx, e_share, from_node, to_hyperedges, neighbours, delta, slope)
        crowds, scales = wx.new_empty(hyperedges, heads), wx.new_empty(2, 2, heads)
        found = density, crowds, scales
    settings: dict[str, Any] = {
        "tolerance": tolerance,
        "slope": slope,
        "copies": _COPIES,
        "spacing": _spacing(heads),
    }
    there, back = _results(hyperedges, wx), _results(nodes, wx)
    blocks = divide(hyperedges, len(to_hyperedges.owners), wx)
    launch(
        _attend_kernel, blocks.grid, to_hyperedges.forward.offsets, to_hyperedges.forward.indices,
        wx, e_share, None, density, extremes[0], *there, crowds, scales[0], extremes[1],
        from_node, to_node, None if density is None else from_hyperedge,
        from_node.stride(0), to_node.stride(0), from_hyperedge.stride(0), hyperedges, blocks.blocks,
        activation=True, **settings, **blocks.sizes, warps=blocks.warps,
    )  # fmt: skip
    blocks = divide(nodes, len(to_nodes.owners), wx)
    launch(
        _attend_kernel, blocks.grid, to_nodes.forward.offsets, to_nodes.forward.indices,
        there[0], None, wx, crowds, extremes[1], *back, None, scales[1], None,
        from_hyperedge, to_node, None, from_hyperedge.stride(0), to_node.stride(0), 0, nodes, blocks.blocks,
        activation=activation, **settings, **blocks.sizes, warps=blocks.warps,
    )  # fmt: skip
    return back[0], there[0], (*there[1:], *back[1:], *found)


def _results(targets: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Make room for the sums of targets, their parts above and below zero, and three numbers a head."""
    _, heads, units = like.shape
    sums, positive, negative = (like.new_empty(targets, heads, units) for _ in range(3))
    return sums, positive, negative, like.new_empty(targets, 3, heads)
