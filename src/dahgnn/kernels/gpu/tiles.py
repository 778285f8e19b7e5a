"""What the Triton kernels share on the device: how they read and store rows, scalars and segments.

`programs` says what a program, its blocks and its tiles are.
"""

from __future__ import annotations

import contextlib

from torch import Tensor

from dahgnn.kernels.gpu.programs import jit, launch

with contextlib.suppress(ImportError):
    import triton.language as tl

# Copies of the extremes, which programs take in turn, and the numbers between them: on one line of memory,
# programs would wait for each other.
COPIES, _LINE = 8, 32
# Columns of a program that sums what others left, few so that there are many such programs; and its rows.
_SUM_WIDTH, _SUM_ROWS = 4, 1024


@jit
def begin(overlap: tl.constexpr) -> None:
    """Let the next kernel get ready, and wait until the one before has ended; every kernel begins so."""
    if overlap:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@jit
def leaky(scores: tl.tensor, slope: tl.constexpr) -> tl.tensor:
    """Return the LeakyReLU."""
    return tl.maximum(scores, slope * scores)


@jit
def elu(sums: tl.tensor) -> tl.tensor:
    """Return exp(x) − 1 for x below zero; near zero by its series, where the difference would cancel."""
    # At −1/2 the first term left out is under the rounding: 2⁻⁸/9! in float32, 2⁻¹⁶/17! in float64.
    terms: tl.constexpr = 16 if sums.dtype == tl.float64 else 8
    series = sums * (1.0 / terms) + 1.0
    for step in tl.static_range(terms - 2):
        series = series * sums * (1.0 / (terms - 1 - step)) + 1.0
    negative = tl.where(sums > -0.5, series * sums, tl.exp(sums) - 1.0)
    return tl.where(sums > 0, sums, negative)


@jit
def program_heads(layout: tl.constexpr) -> tl.tensor:
    """Return this program's heads."""
    return tl.program_id(1) * layout[2] + tl.arange(0, layout[2])


@jit
def program_cells(layout: tl.constexpr) -> tl.tensor:
    """Return where this program's heads and units stand within a row, as one axis, and which there are.

    On one axis neighbouring threads take neighbouring numbers of a row: of several, Triton 3.6 would give
    neighbouring threads different rows.
    """
    cell = tl.arange(0, layout[2] * layout[3])
    head = tl.program_id(1) * layout[2] + cell // layout[3]
    unit = cell % layout[3]
    return head * layout[1] + unit, (head < layout[0]) & (unit < layout[1])


@jit
def load_heads(numbers: tl.tensor, row: tl.constexpr, layout: tl.constexpr) -> tl.tensor:
    """Return this program's part of a row of one number a head, (heads,)."""
    heads = program_heads(layout)
    places = numbers + (row * layout[0] + heads)
    if layout[0] % layout[2] == 0:
        return tl.load(places)
    return tl.load(places, mask=heads < layout[0], other=0.0)


@jit
def load_vector(vector: tl.tensor, stride: tl.tensor, layout: tl.constexpr) -> tl.tensor:
    """Return this program's part of an attention vector, (heads, units)."""
    head = program_heads(layout)[:, None]
    unit = tl.arange(0, layout[3])[None, :]
    places = vector + (head * stride + unit)
    if layout[0] % layout[2] == 0 and layout[1] == layout[3]:
        return tl.load(places)
    return tl.load(places, mask=(head < layout[0]) & (unit < layout[1]), other=0.0)


@jit
def load_rows(values: tl.tensor, rows: tl.tensor, layout: tl.constexpr) -> tl.tensor:
    """Return rows, (rows, heads, units); all of them must exist."""
    cells, inside = program_cells(layout)
    places = values + (rows.to(tl.int64)[:, None] * (layout[0] * layout[1]) + cells[None, :])
    # Nothing is masked where nothing sticks out: then a thread loads without asking.
    if layout[0] % layout[2] == 0 and layout[1] == layout[3]:
        flat = tl.load(places)
    else:
        flat = tl.load(places, mask=tl.broadcast_to(inside[None, :], places.shape), other=0.0)
    return tl.reshape(flat, [rows.shape[0], layout[2], layout[3]])


@jit
def store_rows(
    values: tl.tensor, numbers: tl.tensor, rows: tl.tensor, present: tl.tensor, layout: tl.constexpr
) -> None:
    """Store rows, (rows, heads, units)."""
    cells, inside = program_cells(layout)
    places = rows[:, None] * (layout[0] * layout[1]) + cells[None, :]
    flat = tl.reshape(numbers, [rows.shape[0], layout[2] * layout[3]])
    tl.store(values + places, flat, mask=present[:, None] & inside[None, :])


@jit
def load_scalars(
    scalars: tl.tensor,
    rows: tl.tensor,
    layout: tl.constexpr,
    many: tl.constexpr = 1,
    which: tl.constexpr = 0,
) -> tl.tensor:
    """Return one number of each row and head, (rows, heads); all rows must exist.

    An array of ``many`` such numbers is (rows, many, heads); ``which`` of them is wanted.
    """
    # Each thread that holds some of a head's units in `load_rows` loads the number itself. Otherwise Triton
    # would spread the numbers over the threads in another way and bring them back through shared memory. Rows
    # are the second axis: Triton gives neighbouring threads the first one where no numbers are contiguous.
    cell = tl.arange(0, layout[2] * layout[4])
    head = tl.program_id(1) * layout[2] + cell // layout[4]
    places = scalars + ((which * layout[0] + head)[:, None] + rows.to(tl.int64)[None, :] * (many * layout[0]))
    if layout[0] % layout[2] == 0:
        flat = tl.load(places)
    else:
        flat = tl.load(places, mask=tl.broadcast_to((head < layout[0])[:, None], places.shape), other=0.0)
    return tl.max(tl.reshape(tl.trans(flat), [rows.shape[0], layout[2], layout[4]]), 2)


@jit
def gather_rows(values: tl.tensor, members: tl.tensor, layout: tl.constexpr) -> tl.tensor:
    """Return the rows of members, (members, rows, heads, units)."""
    many: tl.constexpr = members.shape[0] * members.shape[1]
    tile = load_rows(values, tl.reshape(members, [many]), layout)
    return tl.reshape(tile, [members.shape[0], members.shape[1], layout[2], layout[3]])


@jit
def gather_scalars(
    scalars: tl.tensor,
    members: tl.tensor,
    layout: tl.constexpr,
    many: tl.constexpr = 1,
    which: tl.constexpr = 0,
) -> tl.tensor:
    """Return one number of each member and head, (members, rows, heads); see `load_scalars`."""
    count: tl.constexpr = members.shape[0] * members.shape[1]
    tile = load_scalars(scalars, tl.reshape(members, [count]), layout, many, which)
    return tl.reshape(tile, [members.shape[0], members.shape[1], layout[2]])


@jit
def store_scalars(
    scalars: tl.tensor,
    numbers: tl.tensor,
    rows: tl.tensor,
    present: tl.tensor,
    layout: tl.constexpr,
    many: tl.constexpr = 1,
    which: tl.constexpr = 0,
) -> None:
    """Store one number of each row and head; see `load_scalars`."""
    cell = tl.arange(0, layout[2] * layout[4])
    head = tl.program_id(1) * layout[2] + cell // layout[4]
    wanted = (head < layout[0]) & (cell % layout[4] == 0)
    places = (which * layout[0] + head)[:, None] + rows[None, :] * (many * layout[0])
    each = tl.broadcast_to(numbers[:, :, None], [rows.shape[0], layout[2], layout[4]])
    flat = tl.trans(tl.reshape(each, [rows.shape[0], layout[2] * layout[4]]))
    tl.store(scalars + places, flat, mask=wanted[:, None] & present[None, :])


@jit
def block_of_segments(
    offsets: tl.tensor,
    indices: tl.tensor,
    first: tl.tensor,
    rows: tl.tensor,
    block_rows: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Return the rows of a block, which of them are here, their segments and lengths, and the longest.

    A row whose segment is longer than the limit is not here, and has length zero. Neither is one beyond the
    last, which is numbered as the last, so that it can be loaded.
    """
    row = first + tl.arange(0, block_rows)
    last = tl.minimum(row, rows - 1)
    start = tl.load(offsets + last)
    length = (tl.load(offsets + last + 1) - start).to(tl.int32)
    here = row < rows
    if longest is not None:
        here &= length <= longest
    return last, here, indices + start, tl.where(here, length, 0), tl.max(length, 0)


@jit
def present_members(lengths: tl.tensor, start: tl.tensor, block_members: tl.constexpr) -> tl.tensor:
    """Tell which of some members from ``start`` on are within their segments, (members, rows)."""
    return (start + tl.arange(0, block_members))[:, None] < lengths[None, :]


@jit
def load_members(
    segments: tl.tensor, lengths: tl.tensor, start: tl.tensor, block_members: tl.constexpr
) -> tl.tensor:
    """Return some members of each segment from ``start`` on, (members, rows).

    Beyond the end it is the last member once more, and in an empty segment the first row of all: something
    that can be loaded, to be weighted with zero.
    """
    # Threads that share a row share its segment, so that nothing has to be passed between them.
    step = tl.minimum((start + tl.arange(0, block_members))[:, None], lengths[None, :] - 1)
    some = tl.broadcast_to((lengths > 0)[None, :], step.shape)
    return tl.load(segments[None, :] + step, mask=some, other=0).to(tl.int32)


@jit
def within(length: tl.tensor, longest: tl.constexpr) -> tl.tensor:
    """Return the length, or the limit if there is one and it is less."""
    return length if longest is None else tl.minimum(length, longest)


@jit
def length_of(offsets: tl.tensor, row: tl.tensor) -> tl.tensor:
    """Return how many members a segment has."""
    return tl.load(offsets + row + 1) - tl.load(offsets + row)


@jit
def no_extremes(like: tl.tensor, layout: tl.constexpr) -> tl.tensor:
    """Return what was seen before anything: −(least density), greatest density, greatest score, a gap."""
    return tl.full([4, layout[2]], -float("inf"), like.dtype.element_ty)


@jit
def see(seen: tl.tensor, density: tl.tensor, scores: tl.tensor, present: tl.tensor) -> tl.tensor:
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
def leave_extremes(
    extremes: tl.tensor, seen: tl.tensor, copies: tl.constexpr, spacing: tl.constexpr, layout: tl.constexpr
) -> None:
    """Add what this program has seen to what others have."""
    kind, head = tl.arange(0, 4)[:, None], program_heads(layout)[None, :]
    places = tl.program_id(0) % copies * spacing + kind * layout[0] + head
    # The sum turns −0 into 0: the order of Triton's atomic maximum is that of the bits.
    tl.atomic_max(extremes + places, seen + 0.0, mask=(kind < 3) & (head < layout[0]), sem="relaxed")


@jit
def _column_sums_kernel(
    partial: tl.tensor,
    sums: tl.tensor,
    count: tl.tensor,
    last_count: tl.tensor,
    width: tl.tensor,
    block_rows: tl.constexpr,
    block_width: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    begin(overlap)
    which = tl.program_id(1)
    here = tl.where(which == tl.num_programs(1) - 1, last_count, count)
    column = tl.program_id(0) * block_width + tl.arange(0, block_width)
    total = tl.full([block_rows, block_width], 0.0, sums.dtype.element_ty)
    for start in range(0, here, block_rows):
        row = start + tl.arange(0, block_rows)
        places = (which * count + row).to(tl.int64)[:, None] * width + column[None, :]
        total += tl.load(partial + places, mask=(row < here)[:, None] & (column < width)[None, :], other=0.0)
    tl.store(sums + which * width + column, tl.sum(total, 0), mask=column < width)


def column_sums(partial: Tensor, sums: Tensor, count: int, last_count: int | None = None) -> None:
    """Sum partial results over their first axis, (rows, width), in runs of ``count`` rows for each sum.

    Parameters
    ----------
    partial : Tensor, (rows, width)
        What programs left.
    sums : Tensor, (sums, width)
        The results.
    count, last_count : int
        Rows of each sum, and of the last one if it has another number.
    """
    outputs, width = sums.shape
    last_count = count if last_count is None else last_count
    launch(
        _column_sums_kernel, (-(-width // _SUM_WIDTH), outputs), partial, sums, count, last_count, width,
        block_rows=_SUM_ROWS, block_width=_SUM_WIDTH, warps=8,
    )  # fmt: skip


def unit_stride(vector: Tensor) -> Tensor:
    """Return an attention vector (heads, units), or a copy, in which a head's units are side by side."""
    return vector if vector.stride(-1) == 1 else vector.contiguous()


def spacing_of(heads: int) -> int:
    """Return the numbers from one copy of the extremes to the next: three for each head, and a gap."""
    return -(-3 * heads // _LINE) * _LINE
