"""Launch the GPU kernels of the backward pass, in Triton: from the nodes to the hyperedges, and on to WX.

With g the gradient of a target's sum s = Σ w v over its members, the gradient of a member's score is
w (<g, v> − <g, s>) times the slope of the LeakyReLU, so that each source finds its own gradients from rows of
its targets, w being recomputed. That of the target's term is the sum over its members: as all w sum to one,
it is (1 − slope) times <g, s⁺> (1 − w⁺) − <g, s⁻> w⁺, of the parts s⁺, s⁻, w⁺ above and below zero that the
forward pass kept. So no gradient is ever gathered by target.
"""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from dahgnn.kernels.gpu.programs import Blocks, divide, jit, launch
from dahgnn.kernels.gpu.tiles import (
    begin,
    block_of_segments,
    column_sums,
    gather_rows,
    gather_scalars,
    leaky,
    length_of,
    load_heads,
    load_members,
    load_rows,
    load_scalars,
    load_vector,
    present_members,
    program_heads,
    store_rows,
    store_scalars,
    unit_stride,
    within,
)
from dahgnn.kernels.incidence import Incidence
from dahgnn.kernels.protocol import MessageSettings, Vectors

with contextlib.suppress(ImportError):
    import triton.language as tl


@jit
def _before_activation(gradient: tl.tensor, sums: tl.tensor) -> tl.tensor:
    """Return the gradient before the ELU of some sums."""
    return gradient * tl.where(sums > 0, 1.0, tl.exp(tl.minimum(sums, 0.0)))


@jit
def _target_gradients(
    before: tl.tensor, plus: tl.tensor, minus: tl.tensor, above: tl.tensor, slope: tl.constexpr
) -> tl.tensor:
    """Return <g, s> and the gradient of the term of targets, (rows, heads) each."""
    upper, lower = tl.sum(before * plus, 2), tl.sum(before * minus, 2)
    return upper + lower, (1.0 - slope) * (upper * (1.0 - above) - lower * above)


@jit
def _target_kernel(
    gradient: tl.tensor,
    positive: tl.tensor,
    negative: tl.tensor,
    notes: tl.tensor,
    before: tl.tensor,
    means: tl.tensor,
    term_gradient: tl.tensor,
    targets: tl.tensor,
    slope: tl.constexpr,
    activation: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Prepare targets: the gradient before the activation, <g, s>, and the gradient of their terms."""
    begin(overlap)
    rows = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    present = rows < targets
    rows = tl.minimum(rows, targets - 1)
    tile = load_rows(gradient, rows, layout)
    plus = load_rows(positive, rows, layout)
    minus = load_rows(negative, rows, layout)
    above = load_scalars(notes, rows, layout, 3, 2)
    if activation:
        tile = _before_activation(tile, plus + minus)
        store_rows(before, tile, rows, present, layout)
    mean, term = _target_gradients(tile, plus, minus, above, slope)
    store_scalars(means, mean, rows, present, layout)
    store_scalars(term_gradient, term, rows, present, layout)


@jit
def _gather_gradients(
    segments: tl.tensor,
    lengths: tl.tensor,
    steps: tl.tensor,
    own: tl.tensor,
    term: tl.tensor,
    bias: tl.tensor,
    before: tl.tensor,
    notes: tl.tensor,
    means: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_members: tl.constexpr,
) -> tl.tensor:
    """Return the gradients of a block of sources: of their rows as values, and of their terms."""
    values = tl.full(own.shape, 0.0, own.dtype)
    terms = tl.full(term.shape, 0.0, own.dtype)
    members = load_members(segments, lengths, 0, block_members)
    for start in range(0, steps, block_members):
        present = present_members(lengths, start, block_members)
        tile = gather_rows(before, members, layout)
        raw = gather_scalars(notes, members, layout, 3, 0) + term[None, :, :]
        weights = gather_scalars(notes, members, layout, 3, 1)  # logarithms of the sums of weights
        mean = gather_scalars(means, members, layout)
        members = load_members(segments, lengths, start + block_members, block_members)
        weights = tl.exp(leaky(raw, slope) + bias[None, :, :] - weights)
        weights = tl.where(present[:, :, None], weights, 0.0)
        scores = weights * (tl.sum(tile * own[None, :, :, :], 3) - mean)
        terms += tl.sum(tl.where(raw > 0, scores, slope * scores), 0)
        values += tl.sum(weights[:, :, :, None] * tile, 0)
    return values, terms


@jit
def _source_rows(
    first: tl.tensor,
    sources: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    density: tl.tensor,
    targets: tl.tensor,
    vector: tl.tensor,
    low: tl.tensor,
    factor: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Return rows, which are here, their values, both gradients, and the length of the longest segment."""
    before, notes, means = targets
    rows, mine, segments, lengths, length = block_of_segments(
        offsets, indices, first, sources, block_rows, longest
    )
    own = load_rows(values, rows, layout)
    term = tl.sum(own * vector[None, :, :], 2)
    bias = tl.full(term.shape, 0.0, term.dtype)
    if density is not None:
        bias = (load_scalars(density, rows, layout) - low[None, :]) * factor[None, :]
    value_gradient, term_gradient = _gather_gradients(
        segments, lengths, within(length, longest), own, term, bias, before, notes, means,
        slope, layout, block_members,
    )  # fmt: skip
    return (
        rows,
        mine,
        own,
        value_gradient + term_gradient[:, :, None] * vector[None, :, :],
        term_gradient,
        length,
    )


@jit
def _store_partial(partial: tl.tensor, sums: tl.tensor, row: tl.tensor, layout: tl.constexpr) -> None:
    """Store what a program has summed for an attention vector, (heads, units)."""
    head, unit = program_heads(layout)[:, None], tl.arange(0, layout[3])[None, :]
    places = row.to(tl.int64) * (layout[0] * layout[1]) + head * layout[1] + unit
    tl.store(partial + places, sums, mask=(head < layout[0]) & (unit < layout[1]))


@jit
def _hyperedge_rows(
    first: tl.tensor,
    sources: tl.tensor,
    total: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    density: tl.tensor,
    targets: tl.tensor,
    given: tl.tensor,
    kept: tl.tensor,
    results: tl.tensor,
    vector: tl.tensor,
    low: tl.tensor,
    factor: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Prepare a block of hyperedges as targets; return their part of the vector's gradient and the length."""
    positive, negative, notes = kept
    before, means, term_gradient = results
    rows, mine, own, gradient, term, length = _source_rows(
        first, sources, offsets, indices, values, density, targets, vector, low, factor,
        slope, layout, block_rows, block_members, longest,
    )  # fmt: skip
    if given is not None:
        gradient += load_rows(given, rows, layout)
    plus = load_rows(positive, rows, layout)
    minus = load_rows(negative, rows, layout)
    gradient = _before_activation(gradient, plus + minus)
    above = load_scalars(notes, rows, layout, 3, 2)
    mean, target_term = _target_gradients(gradient, plus, minus, above, slope)
    store_rows(before, gradient, rows, mine, layout)
    store_scalars(means, mean, rows, mine, layout)
    store_scalars(term_gradient, target_term, rows, mine, layout)
    return total + tl.sum(tl.where(mine[:, None, None], term[:, :, None] * own, 0.0), 0), length


@jit
def _hyperedge_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    density: tl.tensor,
    scale: tl.tensor,
    target_before: tl.tensor,
    target_notes: tl.tensor,
    target_means: tl.tensor,
    given: tl.tensor,
    positive: tl.tensor,
    negative: tl.tensor,
    notes: tl.tensor,
    before: tl.tensor,
    means: tl.tensor,
    term_gradient: tl.tensor,
    partial: tl.tensor,
    vector: tl.tensor,
    stride: tl.tensor,
    sources: tl.tensor,
    count: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Go from nodes back to hyperedges, which are sources there and targets next."""
    begin(overlap)
    wide: tl.constexpr = block_members * block_rows
    targets = target_before, target_notes, target_means
    kept = positive, negative, notes
    results = before, means, term_gradient
    vector = load_vector(vector, stride, layout)
    low, factor = None, None
    if density is not None:
        low, factor = load_heads(scale, 0, layout), load_heads(scale, 1, layout)
    total = tl.full(vector.shape, 0.0, vector.dtype)
    for block in range(tl.program_id(0).to(tl.int64), count, tl.num_programs(0)):
        first = block * block_rows
        total, length = _hyperedge_rows(
            first, sources, total, offsets, indices, values, density, targets, given, kept, results,
            vector, low, factor, slope, layout, block_rows, block_members, longest,
        )  # fmt: skip
        if longest is not None and length > longest:
            for row in range(first, tl.minimum(first + block_rows, sources)):
                if length_of(offsets, row) > longest:
                    total, _ = _hyperedge_rows(
                        row, sources, total, offsets, indices, values, density, targets, given, kept, results,
                        vector, low, factor, slope, layout, 1, wide, None,
                    )  # fmt: skip
    _store_partial(partial, total, tl.program_id(0), layout)


@jit
def _node_rows(
    first: tl.tensor,
    sources: tl.tensor,
    from_total: tl.tensor,
    to_total: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    density: tl.tensor,
    targets: tl.tensor,
    target_gradient: tl.tensor,
    value_gradient: tl.tensor,
    from_vector: tl.tensor,
    to_vector: tl.tensor,
    low: tl.tensor,
    factor: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Store the gradient of a block of WX; return its parts of the vectors' gradients and the length."""
    rows, mine, own, gradient, term, length = _source_rows(
        first, sources, offsets, indices, values, density, targets, from_vector, low, factor,
        slope, layout, block_rows, block_members, longest,
    )  # fmt: skip
    as_target = tl.where(mine[:, None], load_scalars(target_gradient, rows, layout), 0.0)
    store_rows(value_gradient, gradient + as_target[:, :, None] * to_vector[None, :, :], rows, mine, layout)
    from_total += tl.sum(term[:, :, None] * own, 0)
    to_total += tl.sum(as_target[:, :, None] * own, 0)
    return from_total, to_total, length


@jit
def node_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    density: tl.tensor,
    scale: tl.tensor,
    target_before: tl.tensor,
    target_notes: tl.tensor,
    target_means: tl.tensor,
    target_gradient: tl.tensor,
    value_gradient: tl.tensor,
    partial: tl.tensor,
    from_vector: tl.tensor,
    to_vector: tl.tensor,
    from_stride: tl.tensor,
    to_stride: tl.tensor,
    sources: tl.tensor,
    count: tl.tensor,
    slope: tl.constexpr,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Go from hyperedges back to nodes, which were sources there, and targets before."""
    begin(overlap)
    wide: tl.constexpr = block_members * block_rows
    targets = target_before, target_notes, target_means
    from_vector = load_vector(from_vector, from_stride, layout)
    to_vector = load_vector(to_vector, to_stride, layout)
    low, factor = None, None
    if density is not None:
        low, factor = load_heads(scale, 0, layout), load_heads(scale, 1, layout)
    from_total = tl.full(from_vector.shape, 0.0, from_vector.dtype)
    to_total = tl.full(from_vector.shape, 0.0, from_vector.dtype)
    for block in range(tl.program_id(0).to(tl.int64), count, tl.num_programs(0)):
        first = block * block_rows
        from_total, to_total, length = _node_rows(
            first, sources, from_total, to_total, offsets, indices, values, density, targets,
            target_gradient, value_gradient, from_vector, to_vector, low, factor,
            slope, layout, block_rows, block_members, longest,
        )  # fmt: skip
        if longest is not None and length > longest:
            for row in range(first, tl.minimum(first + block_rows, sources)):
                if length_of(offsets, row) > longest:
                    from_total, to_total, _ = _node_rows(
                        row, sources, from_total, to_total, offsets, indices, values, density, targets,
                        target_gradient, value_gradient, from_vector, to_vector, low, factor,
                        slope, layout, 1, wide, None,
                    )  # fmt: skip
    _store_partial(partial, from_total, tl.program_id(0), layout)
    _store_partial(partial, to_total, tl.num_programs(0) + tl.program_id(0), layout)


# Numbers of a program that goes row by row.
_ROW_BLOCK = 1024


def messages_backward(
    nodes_gradient: Tensor,
    hyperedges_gradient: Tensor | None,
    wx: Tensor,
    e_term: Tensor,  # noqa: ARG001 (the kernels of the CPU use it)
    vectors: Vectors,
    nodes: Tensor,  # noqa: ARG001 (likewise)
    hyperedges: Tensor,
    kept: tuple[Tensor, ...],
    to_hyperedges: Incidence,
    to_nodes: Incidence,
    settings: MessageSettings,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of wx, e_term and the vectors; see `Kernels.messages_backward`."""
    wx, hyperedges = wx.contiguous(), hyperedges.contiguous()
    given = None if hyperedges_gradient is None else hyperedges_gradient.contiguous()
    from_node, to_node, from_hyperedge = map(unit_stride, vectors)
    of_hyperedges, of_nodes, rest = kept[:3], kept[3:6], kept[6:]
    density, crowds, scales = rest or (None, None, (None, None))
    (n, heads, units), m = wx.shape, len(hyperedges)
    by_hyperedge, by_node = to_hyperedges.forward, to_nodes.forward
    first, second = (divide(wx, each) for each in (by_hyperedge, by_node))
    before, means, to_node_gradient = prepare_targets(nodes_gradient.contiguous(), of_nodes, first, settings)
    runs = first.grid[0], second.grid[0]
    partial = wx.new_empty(2 * runs[1] + runs[0], heads * units)
    next_before, next_means = torch.empty_like(hyperedges), wx.new_empty(m, heads)
    e_gradient, wx_gradient = wx.new_empty(m, heads), torch.empty_like(wx)
    launch(
        _hyperedge_kernel, first.grid, by_hyperedge.offsets, by_hyperedge.indices,
        hyperedges, crowds, scales[1], before, of_nodes[2], means, given, *of_hyperedges,
        next_before, next_means, e_gradient, partial[2 * runs[1] :], from_hyperedge, from_hyperedge.stride(0),
        m, first.blocks, slope=settings.slope, **first.sizes, warps=first.warps,
    )  # fmt: skip
    launch(
        node_kernel, second.grid, by_node.offsets, by_node.indices,
        wx, density, scales[0], next_before, of_hyperedges[2], next_means, to_node_gradient, wx_gradient,
        partial, from_node, to_node, from_node.stride(0), to_node.stride(0),
        n, second.blocks, slope=settings.slope, **second.sizes, warps=second.warps,
    )  # fmt: skip
    sums = wx.new_empty(3, heads * units)
    column_sums(partial, sums, runs[1], runs[0])
    return wx_gradient, e_gradient, sums.view(3, heads, units)


def prepare_targets(
    gradient: Tensor, kept: tuple[Tensor, ...], blocks: Blocks, settings: MessageSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the nodes' gradient before the activation, <g, s>, and the gradient of their terms."""
    n, heads, _ = gradient.shape
    before = torch.empty_like(gradient) if settings.activation else gradient
    means, term_gradient = gradient.new_empty(n, heads), gradient.new_empty(n, heads)
    layout = blocks.sizes["layout"]
    block_rows = max(_ROW_BLOCK // (layout[2] * layout[3]), 1)
    launch(
        _target_kernel, (-(-n // block_rows), blocks.grid[1]),
        gradient, *kept, before, means, term_gradient, n,
        slope=settings.slope, activation=settings.activation, layout=layout, block_rows=block_rows, warps=4,
    )  # fmt: skip
    return before, means, term_gradient
