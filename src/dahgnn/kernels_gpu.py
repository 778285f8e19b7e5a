"""Launch the GPU kernels, in Triton: fused attention and density, the twins of the reference in `ops`.

A program computes one row for a block of heads, which never mix: it takes its segment in tiles of
(members, heads, units), the units side by side in memory. A segment of the usual length is one tile,
without a loop; a longer one is walked in wider tiles. Each output is written by one program in a fixed
order and nothing waits for the host, so that results repeat bit for bit and a CUDA graph can hold them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

_PRECISIONS = (torch.float32, torch.float64)

# Numbers of a row that a program takes: 128 bytes in float32, so that a gather takes full lines.
_ROW = 32

# Numbers of a tile for one warp: 16 registers a thread, 32 in the wider tiles of long segments. A kernel then
# needs 64 to 80, so that 25 warps and more are under way on each multiprocessor to hide what a gather waits.
_TILE = 512

# Rows from which on a program takes several, since starting a program then costs as much as its row.
_MANY_ROWS = 1 << 16
_ROWS_OF_MANY = 4

# Rows and members that a program of the peak takes at a time.
_PEAK_ROWS, _PEAK_MEMBERS = 16, 32


def jit(function: Callable[..., Any]) -> Any:
    """Make a Triton kernel; without Triton the function stays as it is and nobody calls it."""
    return function if triton is None else triton.jit(function)


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def supports(tensor: Tensor) -> bool:
    """Tell whether there is a kernel for tensors of this device and precision.

    Triton's interpreter, ``TRITON_INTERPRET=1`` before the import, also takes tensors of the CPU: for tests.
    """
    device = tensor.is_cuda or (tensor.device.type == "cpu" and _interpreted())
    return triton is not None and device and tensor.dtype in _PRECISIONS


class _Shape(NamedTuple):
    """How a launch divides its work.

    Attributes
    ----------
    grid : tuple of int
        Programs: blocks of rows × blocks of heads.
    sizes : dict
        What the compiler knows: heads and units as given, and the powers of two that hold a program's share.
    warps : int
        Warps of a program.
    """

    grid: tuple[int, int]
    sizes: dict[str, int]
    warps: int


def power_of_two(number: int) -> int:
    """Return the least power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


def _divide(rows: int, incidences: int, heads: int, units: int) -> _Shape:
    """Choose the blocks from what the host knows: shapes, and the mean length of a segment."""
    block_units = power_of_two(units)
    block_heads = min(power_of_two(heads), max(1, _ROW // block_units))
    mean = -(-incidences // max(rows, 1))
    block_members = min(max(power_of_two(mean), 4), 32)
    warps = block_members * block_heads * block_units // _TILE
    program_rows = 1 if rows < _MANY_ROWS else _ROWS_OF_MANY
    sizes = {
        "program_rows": program_rows,
        "heads": heads,
        "units": units,
        "block_heads": block_heads,
        "block_units": block_units,
        "block_members": block_members,
    }
    return _Shape((-(-rows // program_rows), -(-heads // block_heads)), sizes, min(max(warps, 1), 8))


def _launch(
    kernel: Any, shape: _Shape, first: Tensor, *others: Tensor | int | None, **constants: float
) -> None:
    """Start a kernel on the device of its first argument; the constants are compiled in."""
    with torch.cuda.device_of(first):
        kernel[shape.grid](
            first, *others, **constants, **shape.sizes, num_warps=shape.warps, enable_fp_fusion=True
        )


@jit
def _leaky(scores: tl.tensor, slope: tl.constexpr) -> tl.tensor:
    return tl.maximum(scores, slope * scores)


@jit
def _elu(sums: tl.tensor) -> tl.tensor:
    """Return exp(x) − 1 for x below zero; near zero by its series, where the difference would cancel."""
    # At −1/2 the first term left out is under the rounding: 2⁻⁸/9! in float32, 2⁻¹⁶/17! in float64.
    terms: tl.constexpr = 16 if sums.dtype == tl.float64 else 8
    series = sums * (1.0 / terms) + 1.0
    for step in tl.static_range(terms - 2):
        series = series * sums * (1.0 / (terms - 1 - step)) + 1.0
    negative = tl.where(sums > -0.5, series * sums, tl.exp(sums) - 1.0)
    return tl.where(sums > 0, sums, negative)


@jit
def _head_columns(heads: tl.constexpr, block_heads: tl.constexpr) -> tl.tensor:
    """Return this program's heads, and which of them there are."""
    columns = tl.program_id(1) * block_heads + tl.arange(0, block_heads)
    return columns, columns < heads


@jit
def _row_cells(
    columns: tl.tensor, heads: tl.constexpr, units: tl.constexpr, block_units: tl.constexpr
) -> tl.tensor:
    """Return where this program's (heads, units) stand within a row, and which of them there are."""
    unit = tl.arange(0, block_units)
    cells = columns[:, None] * units + unit[None, :]
    return cells, (columns < heads)[:, None] & (unit < units)[None, :]


@jit
def _program_range(rows: tl.tensor, program_rows: tl.constexpr) -> tl.tensor:
    """Return the first and last row of this program."""
    # 64 bits before any product: a row may start beyond 2³¹ numbers.
    first = tl.program_id(0).to(tl.int64) * program_rows
    return first, tl.minimum(first + program_rows, rows)


@jit
def _segment(offsets: tl.tensor, row: tl.tensor) -> tl.tensor:
    """Return where a segment begins and ends."""
    return tl.load(offsets + row).to(tl.int64), tl.load(offsets + row + 1).to(tl.int64)


@jit
def _tile(start: tl.tensor, end: tl.tensor, block_members: tl.constexpr) -> tl.tensor:
    """Return the positions of a tile of incidences, and which of them are of the segment."""
    places = start + tl.arange(0, block_members)
    return places, places < end


@jit
def _gather_rows(
    rows: tl.tensor,
    members: tl.tensor,
    present: tl.tensor,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
) -> tl.tensor:
    """Return the rows of members, (members, heads, units), zeros where there is none."""
    # Heads and units are one axis for the load, so that neighbouring threads take neighbouring numbers of a
    # row: of three axes Triton 3.6 would give neighbouring threads different members.
    cell = tl.arange(0, block_heads * block_units)
    head = tl.program_id(1) * block_heads + cell // block_units
    unit = cell % block_units
    inside = (head < heads) & (unit < units)
    places = members[:, None] * (heads * units) + (head * units + unit)[None, :]
    flat = tl.load(rows + places, mask=present[:, None] & inside[None, :], other=0.0)
    return tl.reshape(flat, [members.shape[0], block_heads, block_units])


@jit
def _gather_shares(
    shares: tl.tensor, members: tl.tensor, present: tl.tensor, columns: tl.tensor, heads: tl.constexpr
) -> tl.tensor:
    """Return one number of each member and head, (members, heads), zeros where there is none."""
    places = members[:, None] * heads + columns[None, :]
    return tl.load(shares + places, mask=present[:, None] & (columns < heads)[None, :], other=0.0)


@jit
def _put_shares(
    shares: tl.tensor,
    numbers: tl.tensor,
    places: tl.tensor,
    present: tl.tensor,
    columns: tl.tensor,
    heads: tl.constexpr,
) -> tl.tensor:
    """Store one number of each incidence and head."""
    where = places[:, None] * heads + columns[None, :]
    tl.store(shares + where, numbers, mask=present[:, None] & (columns < heads)[None, :])


@jit
def _tile_scores(
    source: tl.tensor,
    share: tl.tensor,
    bias: tl.tensor,
    members: tl.tensor,
    present: tl.tensor,
    columns: tl.tensor,
    slope: tl.constexpr,
    heads: tl.constexpr,
) -> tl.tensor:
    """Return the scores of a tile, (members, heads); −∞ where there is no member."""
    scores = _leaky(_gather_shares(source, members, present, columns, heads) + share[None, :], slope)
    if bias is not None:
        scores += _gather_shares(bias, members, present, columns, heads)
    return tl.where(present[:, None], scores, -float("inf"))


@jit
def _forward_short(
    begin: tl.tensor,
    end: tl.tensor,
    share: tl.tensor,
    indices: tl.tensor,
    source: tl.tensor,
    bias: tl.tensor,
    values: tl.tensor,
    coefficients: tl.tensor,
    columns: tl.tensor,
    slope: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> tl.tensor:
    """Return the weighted sum of a segment that is one tile."""
    places, present = _tile(begin, end, block_members)
    members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
    # The rows do not wait for the scores, so that both gathers are under way at once.
    rows = _gather_rows(values, members, present, heads, units, block_heads, block_units)
    scores = _tile_scores(source, share, bias, members, present, columns, slope, heads)
    highest = tl.max(scores, 0)
    # An empty segment has no highest score and nothing to divide by; its sum is zero.
    weights = tl.exp(scores - tl.where(highest == -float("inf"), 0.0, highest)[None, :])
    total = tl.sum(weights, 0)
    weights = weights / tl.where(total == 0, 1.0, total)[None, :]
    _put_shares(coefficients, weights, places, present, columns, heads)
    return tl.sum(weights[:, :, None] * rows, 0)


@jit
def _forward_long(
    begin: tl.tensor,
    end: tl.tensor,
    share: tl.tensor,
    indices: tl.tensor,
    source: tl.tensor,
    bias: tl.tensor,
    values: tl.tensor,
    coefficients: tl.tensor,
    columns: tl.tensor,
    slope: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> tl.tensor:
    """Return the weighted sum of a segment of several tiles: first the scores alone, then the rows."""
    highest = tl.full(share.shape, -float("inf"), share.dtype)
    total = tl.zeros(share.shape, share.dtype)
    score_members: tl.constexpr = 4 * block_members
    for start in range(begin, end, score_members):
        places, present = _tile(start, end, score_members)
        members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
        scores = _tile_scores(source, share, bias, members, present, columns, slope, heads)
        higher = tl.maximum(highest, tl.max(scores, 0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(scores - higher[None, :]), 0)
        highest = higher
    sums = tl.zeros([block_heads, block_units], share.dtype)
    for start in range(begin, end, block_members):
        places, present = _tile(start, end, block_members)
        members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
        rows = _gather_rows(values, members, present, heads, units, block_heads, block_units)
        scores = _tile_scores(source, share, bias, members, present, columns, slope, heads)
        weights = tl.exp(scores - highest[None, :]) / total[None, :]
        _put_shares(coefficients, weights, places, present, columns, heads)
        sums += tl.sum(weights[:, :, None] * rows, 0)
    return sums


@jit
def _forward_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    source: tl.tensor,
    target: tl.tensor,
    bias: tl.tensor,
    values: tl.tensor,
    coefficients: tl.tensor,
    output: tl.tensor,
    targets: tl.tensor,
    slope: tl.constexpr,
    activation: tl.constexpr,
    program_rows: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> None:
    columns, exists = _head_columns(heads, block_heads)
    cells, inside = _row_cells(columns, heads, units, block_units)
    first, last = _program_range(targets, program_rows)
    for row in range(first, last):
        begin, end = _segment(offsets, row)
        share = tl.load(target + row * heads + columns, mask=exists, other=0.0)
        if end - begin <= block_members:
            sums = _forward_short(
                begin, end, share, indices, source, bias, values, coefficients,
                columns, slope, heads, units, block_heads, block_units, block_members,
            )  # fmt: skip
        else:
            sums = _forward_long(
                begin, end, share, indices, source, bias, values, coefficients,
                columns, slope, heads, units, block_heads, block_units, 2 * block_members,
            )  # fmt: skip
        if activation:
            sums = _elu(sums)
        tl.store(output + row * heads * units + cells, sums, mask=inside)


def attention_forward(
    values: Tensor,
    source: Tensor,
    target: Tensor,
    bias: Tensor | None,
    offsets: Tensor,
    indices: Tensor,
    *,
    slope: float,
    activation: bool,
) -> tuple[Tensor, Tensor]:
    """Return the weighted sums (targets, heads, units) and their coefficients (t, heads)."""
    values, source, target = values.contiguous(), source.contiguous(), target.contiguous()
    bias = None if bias is None else bias.contiguous()
    targets, heads, units = len(offsets) - 1, *values.shape[1:]
    coefficients = values.new_empty(len(indices), heads)
    output = values.new_empty(targets, heads, units)
    _launch(
        _forward_kernel, _divide(targets, len(indices), heads, units),
        offsets, indices, source, target, bias, values, coefficients, output, targets,
        slope=slope, activation=activation,
    )  # fmt: skip
    return output, coefficients


@jit
def _slopes(
    gradients: tl.tensor,
    source: tl.tensor,
    share: tl.tensor,
    members: tl.tensor,
    present: tl.tensor,
    columns: tl.tensor,
    slope: tl.constexpr,
    heads: tl.constexpr,
) -> tl.tensor:
    """Return gradients before the LeakyReLU of the scores."""
    raw = _gather_shares(source, members, present, columns, heads) + share[None, :]
    return tl.where(raw > 0, gradients, gradients * slope)


@jit
def _target_short(
    begin: tl.tensor,
    end: tl.tensor,
    before: tl.tensor,
    share: tl.tensor,
    indices: tl.tensor,
    source: tl.tensor,
    values: tl.tensor,
    coefficients: tl.tensor,
    scores: tl.tensor,
    columns: tl.tensor,
    slope: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> tl.tensor:
    """Store the gradients of the scores of a segment that is one tile; return their sum."""
    places, present = _tile(begin, end, block_members)
    members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
    rows = _gather_rows(values, members, present, heads, units, block_heads, block_units)
    weights = _gather_shares(coefficients, places, present, columns, heads)
    products = tl.sum(before[None, :, :] * rows, 2)
    gradients = weights * (products - tl.sum(weights * products, 0)[None, :])
    gradients = _slopes(gradients, source, share, members, present, columns, slope, heads)
    _put_shares(scores, gradients, places, present, columns, heads)
    return tl.sum(gradients, 0)


@jit
def _target_long(
    begin: tl.tensor,
    end: tl.tensor,
    before: tl.tensor,
    share: tl.tensor,
    indices: tl.tensor,
    source: tl.tensor,
    values: tl.tensor,
    coefficients: tl.tensor,
    scores: tl.tensor,
    columns: tl.tensor,
    slope: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> tl.tensor:
    """Store the gradients of the scores of a segment of several tiles; return their sum."""
    mean = tl.zeros(share.shape, share.dtype)
    for start in range(begin, end, block_members):
        places, present = _tile(start, end, block_members)
        members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
        rows = _gather_rows(values, members, present, heads, units, block_heads, block_units)
        weights = _gather_shares(coefficients, places, present, columns, heads)
        products = tl.sum(before[None, :, :] * rows, 2)
        _put_shares(scores, products, places, present, columns, heads)
        mean += tl.sum(weights * products, 0)
    # The products come back from memory below, perhaps to another thread than the one that wrote them.
    tl.debug_barrier()
    total = tl.zeros(share.shape, share.dtype)
    score_members: tl.constexpr = 4 * block_members
    for start in range(begin, end, score_members):
        places, present = _tile(start, end, score_members)
        members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
        weights = _gather_shares(coefficients, places, present, columns, heads)
        products = _gather_shares(scores, places, present, columns, heads)
        gradients = weights * (products - mean[None, :])
        gradients = _slopes(gradients, source, share, members, present, columns, slope, heads)
        _put_shares(scores, gradients, places, present, columns, heads)
        total += tl.sum(gradients, 0)
    return total


@jit
def _target_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    source: tl.tensor,
    target: tl.tensor,
    values: tl.tensor,
    coefficients: tl.tensor,
    output: tl.tensor,
    gradient: tl.tensor,
    before_rows: tl.tensor,
    scores: tl.tensor,
    target_gradient: tl.tensor,
    active: tl.tensor,
    targets: tl.tensor,
    slope: tl.constexpr,
    activation: tl.constexpr,
    program_rows: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> None:
    """Go by target: the gradient before the activation, and those of the scores and of the target's share.

    ``active`` marks rows with any gradient: in the last layer these are the labelled nodes alone. What
    belongs to the others is neither computed nor written.
    """
    columns, exists = _head_columns(heads, block_heads)
    cells, inside = _row_cells(columns, heads, units, block_units)
    first, last = _program_range(targets, program_rows)
    for row in range(first, last):
        begin, end = _segment(offsets, row)
        before = tl.load(gradient + row * heads * units + cells, mask=inside, other=0.0)
        share = tl.load(target + row * heads + columns, mask=exists, other=0.0)
        some = tl.max(tl.max((before != 0).to(tl.int32), 1), 0)
        tl.store(active + row * tl.num_programs(1) + tl.program_id(1), some.to(tl.int8))
        total = tl.zeros(share.shape, share.dtype)
        if some != 0:
            if activation:
                sums = tl.load(output + row * heads * units + cells, mask=inside, other=0.0)
                before = tl.where(sums <= 0, before * (sums + 1.0), before)
            tl.store(before_rows + row * heads * units + cells, before, mask=inside)
            if end - begin <= block_members:
                total = _target_short(
                    begin, end, before, share, indices, source, values, coefficients, scores,
                    columns, slope, heads, units, block_heads, block_units, block_members,
                )  # fmt: skip
            else:
                total = _target_long(
                    begin, end, before, share, indices, source, values, coefficients, scores,
                    columns, slope, heads, units, block_heads, block_units, 2 * block_members,
                )  # fmt: skip
        tl.store(target_gradient + row * heads + columns, total, mask=exists)


@jit
def _source_tile(
    start: tl.tensor,
    end: tl.tensor,
    indices: tl.tensor,
    positions: tl.tensor,
    coefficients: tl.tensor,
    before_rows: tl.tensor,
    scores: tl.tensor,
    active: tl.tensor,
    columns: tl.tensor,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> tl.tensor:
    """Return a tile's part of the gradients of a source's values and of its share of the scores."""
    places, present = _tile(start, end, block_members)
    members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
    origins = tl.load(positions + places, mask=present, other=0).to(tl.int64)
    flags = tl.load(active + members * tl.num_programs(1) + tl.program_id(1), mask=present, other=0)
    # What belongs to a target without gradient was never written.
    alive = present & (flags != 0)
    rows = _gather_rows(before_rows, members, alive, heads, units, block_heads, block_units)
    weights = _gather_shares(coefficients, origins, alive, columns, heads)
    gradients = _gather_shares(scores, origins, alive, columns, heads)
    return tl.sum(weights[:, :, None] * rows, 0), tl.sum(gradients, 0)


@jit
def _source_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    positions: tl.tensor,
    coefficients: tl.tensor,
    before_rows: tl.tensor,
    scores: tl.tensor,
    active: tl.tensor,
    source_gradient: tl.tensor,
    value_gradient: tl.tensor,
    sources: tl.tensor,
    program_rows: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> None:
    """Go by source: the gradients of its values and of its share of the scores."""
    columns, exists = _head_columns(heads, block_heads)
    cells, inside = _row_cells(columns, heads, units, block_units)
    first, last = _program_range(sources, program_rows)
    for row in range(first, last):
        begin, end = _segment(offsets, row)
        value, share = _source_tile(
            begin, end, indices, positions, coefficients, before_rows, scores, active,
            columns, heads, units, block_heads, block_units, block_members,
        )  # fmt: skip
        for start in range(begin + block_members, end, 2 * block_members):
            more_value, more_share = _source_tile(
                start, end, indices, positions, coefficients, before_rows, scores, active,
                columns, heads, units, block_heads, block_units, 2 * block_members,
            )  # fmt: skip
            value += more_value
            share += more_share
        tl.store(value_gradient + row * heads * units + cells, value, mask=inside)
        tl.store(source_gradient + row * heads + columns, share, mask=exists)


def attention_backward(
    gradient: Tensor,
    values: Tensor,
    source: Tensor,
    target: Tensor,
    coefficients: Tensor,
    output: Tensor,
    forward: tuple[Tensor, Tensor],
    backward: tuple[Tensor, Tensor],
    positions: Tensor,
    *,
    slope: float,
    activation: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of values, source and target."""
    gradient, values = gradient.contiguous(), values.contiguous()
    source, target = source.contiguous(), target.contiguous()
    targets, sources, heads, units = len(target), *values.shape
    rows, scores = torch.empty_like(output), torch.empty_like(coefficients)
    source_gradient, target_gradient = torch.empty_like(source), torch.empty_like(target)
    value_gradient = torch.empty_like(values)
    shape = _divide(targets, len(positions), heads, units)
    active = torch.empty(targets, shape.grid[1], dtype=torch.int8, device=values.device)
    _launch(
        _target_kernel, shape,
        *forward, source, target, values, coefficients, output, gradient,
        rows, scores, target_gradient, active, targets, slope=slope, activation=activation,
    )  # fmt: skip
    _launch(
        _source_kernel, _divide(sources, len(positions), heads, units),
        *backward, positions, coefficients, rows, scores, active, source_gradient, value_gradient, sources,
    )  # fmt: skip
    return value_gradient, source_gradient, target_gradient


@jit
def _peak_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    source: tl.tensor,
    target: tl.tensor,
    peaks: tl.tensor,
    targets: tl.tensor,
    slope: tl.constexpr,
    heads: tl.constexpr,
    block_heads: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
) -> None:
    """Store the greatest score of a block of targets.

    Rounding and LeakyReLU keep the order, so the greatest source share of a segment gives its greatest score.
    """
    columns, exists = _head_columns(heads, block_heads)
    rows = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    begins = tl.load(offsets + rows, mask=rows < targets, other=0).to(tl.int64)
    ends = tl.load(offsets + rows + 1, mask=rows < targets, other=0).to(tl.int64)
    shares = _gather_shares(target, rows, rows < targets, columns, heads)
    highest = tl.full(shares.shape, -float("inf"), shares.dtype)
    steps = tl.arange(0, block_members)
    for start in range(0, tl.max(ends - begins, 0), block_members):
        places = begins[:, None] + start + steps[None, :]
        present = places < ends[:, None]
        members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
        cells = members[:, :, None] * heads + columns[None, None, :]
        inside = present[:, :, None] & exists[None, None, :]
        numbers = tl.load(source + cells, mask=inside, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(numbers, 1))
    peak = _leaky(tl.max(highest + shares, 0), slope)
    tl.store(peaks + tl.program_id(0) * heads + columns, peak, mask=exists)


def attention_peak(source: Tensor, target: Tensor, offsets: Tensor, indices: Tensor, slope: float) -> Tensor:
    """Return the greatest score of all incidences, (heads,)."""
    source, target = source.contiguous(), target.contiguous()
    targets, heads = target.shape
    block_heads = min(power_of_two(heads), 8)
    grid = (-(-targets // _PEAK_ROWS), -(-heads // block_heads))
    sizes = {
        "heads": heads,
        "block_heads": block_heads,
        "block_rows": _PEAK_ROWS,
        "block_members": _PEAK_MEMBERS,
    }
    peaks = source.new_empty(grid[0], heads)
    _launch(
        _peak_kernel, _Shape(grid, sizes, 4), offsets, indices, source, target, peaks, targets, slope=slope
    )
    return peaks.amax(0)


@jit
def _similar_tile(
    start: tl.tensor,
    end: tl.tensor,
    here: tl.tensor,
    indices: tl.tensor,
    directions: tl.tensor,
    delta: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> tl.tensor:
    """Return a tile's part of a node's sum, (heads,)."""
    places, present = _tile(start, end, block_members)
    members = tl.load(indices + places, mask=present, other=0).to(tl.int64)
    there = _gather_rows(directions, members, present, heads, units, block_heads, block_units)
    products = tl.sum(here[None, :, :] * there, 2)
    # No cosine is greater than one, but its rounding may be.
    return tl.sum(tl.where(tl.minimum(products, 1.0) > delta, products, 0.0), 0)


@jit
def _similarity_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    directions: tl.tensor,
    sums: tl.tensor,
    nodes: tl.tensor,
    delta: tl.constexpr,
    program_rows: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_heads: tl.constexpr,
    block_units: tl.constexpr,
    block_members: tl.constexpr,
) -> None:
    columns, exists = _head_columns(heads, block_heads)
    cells, inside = _row_cells(columns, heads, units, block_units)
    first, last = _program_range(nodes, program_rows)
    for row in range(first, last):
        begin, end = _segment(offsets, row)
        here = tl.load(directions + row * heads * units + cells, mask=inside, other=0.0)
        total = _similar_tile(
            begin,
            end,
            here,
            indices,
            directions,
            delta,
            heads,
            units,
            block_heads,
            block_units,
            block_members,
        )
        for start in range(begin + block_members, end, 2 * block_members):
            total += _similar_tile(
                start, end, here, indices, directions,
                delta, heads, units, block_heads, block_units, 2 * block_members,
            )  # fmt: skip
        tl.store(sums + row * heads + columns, total, mask=exists)


def similarity_sum(directions: Tensor, delta: float, offsets: Tensor, indices: Tensor) -> Tensor:
    """Return each node's similarities to its neighbours over ``delta``, summed: (n, heads)."""
    directions = directions.contiguous()
    nodes, heads, units = directions.shape
    sums = directions.new_empty(nodes, heads)
    _launch(
        _similarity_kernel, _divide(nodes, len(indices), heads, units),
        offsets, indices, directions, sums, nodes, delta=float(delta),
    )  # fmt: skip
    return sums
