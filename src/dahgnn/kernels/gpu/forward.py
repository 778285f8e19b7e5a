"""Launch the GPU kernel of the attention, in Triton, from nodes to hyperedges and from hyperedges to nodes.

Sources' terms of the scores are nowhere kept: they are products of rows that a program gathers anyway. On
the way to the hyperedges the extremes for the way to the nodes are found.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from torch import Tensor

from dahgnn.kernels.gpu.programs import divide, jit, launch
from dahgnn.kernels.gpu.tiles import (
    COPIES,
    begin,
    block_of_segments,
    elu,
    gather_rows,
    gather_scalars,
    leaky,
    leave_extremes,
    length_of,
    load_heads,
    load_members,
    load_rows,
    load_scalars,
    load_vector,
    no_extremes,
    present_members,
    see,
    spacing_of,
    store_rows,
    store_scalars,
    within,
)
from dahgnn.kernels.incidence import Segments

with contextlib.suppress(ImportError):
    import triton.language as tl


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
    scale: tl.tensor,
    extremes: tl.tensor,
    tolerance: tl.constexpr,
    copies: tl.constexpr,
    spacing: tl.constexpr,
    layout: tl.constexpr,
) -> tl.tensor:
    """Return what to subtract from densities and what to multiply them with, (heads,) each, (5).

    The first program also stores both.
    """
    low = -_found(extremes, 0, copies, spacing, layout)
    high = _found(extremes, 1, copies, spacing, layout)
    peak = tl.maximum(_found(extremes, 2, copies, spacing, layout), 0.0)
    span = high - low
    equal = span <= tolerance * tl.maximum(tl.abs(high), 1.0)
    factor = tl.where(equal, 0.0, peak / tl.where(equal, 1.0, span))
    alone = tl.arange(0, 1)
    first_alone = alone == tl.program_id(0)
    store_scalars(scale, low[None, :], alone, first_alone, layout, 2, 0)
    store_scalars(scale, factor[None, :], alone, first_alone, layout, 2, 1)
    return low, factor


@jit
def _target_terms(
    terms: tl.tensor,
    target_rows: tl.tensor,
    rows: tl.tensor,
    target_vector: tl.tensor,
    layout: tl.constexpr,
) -> tl.tensor:
    """Return the targets' terms of the scores, (rows, heads), as given or as products of rows."""
    if terms is None:
        term = tl.sum(load_rows(target_rows, rows, layout) * target_vector[None, :, :], 2)
    else:
        term = load_scalars(terms, rows, layout)
    return term


@jit
def _add_members(sums: tl.tensor, raw: tl.tensor, scores: tl.tensor, tile: tl.tensor) -> tl.tensor:
    """Add a tile of members to the sums of a softmax whose highest score is not yet known.

    The sums are the highest score, (rows, heads), the weights' sum and the part of it above zero, likewise,
    and the weighted sums of the members above zero and below, (rows, heads, units).
    """
    highest, total, above, plus, minus = sums
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
    return higher, total, above, plus, minus


@jit
def _store_sums(
    results: tl.tensor,
    sums: tl.tensor,
    term: tl.tensor,
    lengths: tl.tensor,
    rows: tl.tensor,
    mine: tl.tensor,
    activation: tl.constexpr,
    layout: tl.constexpr,
) -> tl.tensor:
    """Divide the sums of `_add_members` by the weights' sum, and store them; return what each row got."""
    output, positive, negative, notes, _ = results
    highest, total, above, plus, minus = sums
    some = tl.broadcast_to((lengths > 0)[:, None], total.shape)
    inverse = tl.where(some, 1.0 / total, 0.0)
    # An empty segment may have seen any row: nothing of it must stay, not even an infinity times zero.
    plus = tl.where(some[:, :, None], plus * inverse[:, :, None], 0.0)
    minus = tl.where(some[:, :, None], minus * inverse[:, :, None], 0.0)
    both = plus + minus
    if activation:
        both = elu(both)
    store_rows(output, both, rows, mine, layout)
    store_rows(positive, plus, rows, mine, layout)
    store_rows(negative, minus, rows, mine, layout)
    store_scalars(notes, term, rows, mine, layout, 3, 0)
    store_scalars(notes, tl.where(some, highest + tl.log(total), 0.0), rows, mine, layout, 3, 1)
    store_scalars(notes, above * inverse, rows, mine, layout, 3, 2)
    return both


@jit
def _attend_rows(
    first: tl.tensor,
    targets: tl.tensor,
    seen: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    terms: tl.tensor,
    target_rows: tl.tensor,
    density: tl.tensor,
    results: tl.tensor,
    source_vector: tl.tensor,
    target_vector: tl.tensor,
    next_vector: tl.tensor,
    scaling: tl.tensor,
    slope: tl.constexpr,
    activation: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Sum the sources of a block of targets by attention; return extremes and length."""
    heads: tl.constexpr = layout[2]
    rows, mine, segments, lengths, length = block_of_segments(
        offsets, indices, first, targets, block_rows, longest
    )
    members = load_members(segments, lengths, 0, block_members)
    term = _target_terms(terms, target_rows, rows, target_vector, layout)
    highest = tl.full([block_rows, heads], -float("inf"), term.dtype)
    total = tl.full([block_rows, heads], 0.0, term.dtype)
    above = tl.full([block_rows, heads], 0.0, term.dtype)
    crowd = tl.full([block_rows, heads], 0.0, term.dtype)
    reach = tl.full([block_rows, heads], -float("inf"), term.dtype)
    plus = tl.full([block_rows, heads, layout[3]], 0.0, term.dtype)
    minus = tl.full([block_rows, heads, layout[3]], 0.0, term.dtype)
    for start in range(0, within(length, longest), block_members):
        there = present_members(lengths, start, block_members)[:, :, None]
        tile = gather_rows(values, members, layout)
        raw = tl.sum(tile * source_vector[None, None, :, :], 3) + term[None, :, :]
        scores = leaky(raw, slope)
        if density is not None:
            dense = gather_scalars(density, members, layout)
            scores += (dense - scaling[0][None, None, :]) * scaling[1][None, None, :]
            crowd += tl.sum(tl.where(there, dense, 0.0), 0)
        if next_vector is not None:
            reaches = tl.sum(tile * target_vector[None, None, :, :], 3)
            reach = tl.maximum(reach, tl.max(tl.where(there, reaches, -float("inf")), 0))
        members = load_members(segments, lengths, start + block_members, block_members)
        scores = tl.where(there, scores, -float("inf"))
        so_far = highest, total, above, plus, minus
        highest, total, above, plus, minus = _add_members(so_far, raw, scores, tile)
    sums = highest, total, above, plus, minus
    both = _store_sums(results, sums, term, lengths, rows, mine, activation, layout)
    if next_vector is not None:
        store_scalars(results[4], crowd, rows, mine, layout)
        scores = leaky(tl.sum(both * next_vector[None, :, :], 2) + reach, slope)
        seen = see(seen, crowd, scores, mine)
    return seen, length


@jit
def attend_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    terms: tl.tensor,
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
    seen = no_extremes(values, layout)
    source_vector = load_vector(source_vector, source_stride, layout)
    target_vector = load_vector(target_vector, target_stride, layout)
    following = None if next_vector is None else load_vector(next_vector, next_stride, layout)
    scaling = None if density is None else _density_scale(scale, extremes, tolerance, copies, spacing, layout)
    for block in range(tl.program_id(0).to(tl.int64), count, tl.num_programs(0)):
        first = block * block_rows
        seen, length = _attend_rows(
            first, targets, seen, offsets, indices, values, terms, target_rows, density, results,
            source_vector, target_vector, following, scaling, slope, activation,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
        if longest is not None and length > longest:
            for row in range(first, tl.minimum(first + block_rows, targets)):
                if length_of(offsets, row) > longest:
                    seen, _ = _attend_rows(
                        row, targets, seen, offsets, indices, values, terms, target_rows, density, results,
                        source_vector, target_vector, following, scaling, slope, activation,
                        layout, 1, wide, None,
                    )  # fmt: skip
    if next_vector is not None:
        leave_extremes(found, seen, copies, spacing, layout)


class Density(NamedTuple):
    """What scales the scores of one pass, and what the next one needs.

    Attributes
    ----------
    density, extremes : Tensor, (sources, heads), (copies, …)
        The densities of the sources, and their extremes.
    scale : Tensor, (2, heads)
        Gets what to subtract from densities and what to multiply them with.
    crowds, found : Tensor, (targets, heads), (copies, …), or None
        Get the sums of the densities and the extremes for the next pass, if there is one.
    """

    density: Tensor
    extremes: Tensor
    scale: Tensor
    crowds: Tensor | None
    found: Tensor | None


def attend(
    values: Tensor,
    segments: Segments,
    target: Tensor,
    vectors: tuple[Tensor, Tensor, Tensor | None],
    density: Density | None,
    *,
    tolerance: float,
    slope: float,
    activation: bool,
) -> tuple[Tensor, ...]:
    """Sum the sources of each target by attention.

    Parameters
    ----------
    values : Tensor, (sources, heads, units)
        What is summed.
    segments : Segments
        The sources of each target.
    target : Tensor, (targets, heads) or (targets, heads, units)
        The targets' terms of the scores, or rows whose product with the second vector they are.
    vectors : tuple of Tensor, (heads, units)
        For the sources, for nodes as targets, and for the sources of the next pass, if there is one.
    density : Density or None
        What scales the scores by density; None leaves the density out.
    tolerance, slope : float
        Share up to which densities are equal, and slope of the LeakyReLU.
    activation : bool
        Whether the sums pass an ELU.

    Returns
    -------
    sums, positive, negative : Tensor, (targets, heads, units)
        The sums, and the parts of which they are made, of scores above zero and below.
    notes : Tensor, (targets, 3, heads)
        The term of the scores, the logarithm of the weights' sum, and the part of it above zero.
    """
    targets, (_, heads, units) = len(segments), values.shape
    sums, positive, negative = (values.new_empty(targets, heads, units) for _ in range(3))
    notes = values.new_empty(targets, 3, heads)
    dense, extremes, scale, crowds, found = density or (None,) * 5
    terms, rows = (target, None) if target.dim() == 2 else (None, target)
    strides = [0 if vector is None else vector.stride(0) for vector in vectors]
    blocks = divide(values, segments)
    launch(
        attend_kernel, blocks.grid, segments.offsets, segments.indices, values, terms, rows,
        dense, extremes, sums, positive, negative, notes, crowds, scale, found,
        *vectors, *strides, targets, blocks.blocks,
        tolerance=tolerance, slope=slope, activation=activation, copies=COPIES, spacing=spacing_of(heads),
        **blocks.sizes, warps=blocks.warps,
    )  # fmt: skip
    return sums, positive, negative, notes
