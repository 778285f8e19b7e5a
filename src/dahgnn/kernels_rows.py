"""Launch the GPU kernels that work row by row, in Triton: sums, products and scalings.

Each replaces a handful of small launches by one or two; at ten thousand nodes an epoch is made of launches.
Nothing waits for the host and every number is written once, so that a CUDA graph can hold them and results
repeat bit for bit.
"""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from dahgnn.kernels_gpu import jit, power_of_two

with contextlib.suppress(ImportError):
    import triton.language as tl

# Rows of a block in which extremes and sums over all rows are taken first.
_ROWS = 256
# At the most so many blocks, so that what they found is one tile of the second step.
_BLOCKS = 1024


def _rows_of_a_block(rows: int) -> int:
    return max(_ROWS, power_of_two(-(-rows // _BLOCKS)))


@jit
def _gather_sum_kernel(
    values: tl.tensor,
    indices: tl.tensor,
    offsets: tl.tensor,
    sums: tl.tensor,
    width: tl.constexpr,
    block_width: tl.constexpr,
    block_members: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block_width + tl.arange(0, block_width)
    inside = columns < width
    stop = tl.load(offsets + row + 1)
    total = tl.zeros([block_width], dtype=sums.dtype.element_ty)
    for start in range(tl.load(offsets + row), stop, block_members):
        places = start + tl.arange(0, block_members)
        member = tl.load(indices + places, mask=places < stop, other=0)
        cells = member[:, None] * width + columns[None, :]
        tile = tl.load(values + cells, mask=(places < stop)[:, None] & inside[None, :], other=0.0)
        total += tl.sum(tile, 0)
    tl.store(sums + row * width + columns, total, mask=inside)


def gather_sum(values: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
    """Sum the rows that each segment names: (sources, width) → (segments, width)."""
    values, width = values.contiguous(), values.shape[1]
    sums = values.new_empty(len(offsets) - 1, width)
    block = min(power_of_two(width), 64)
    with torch.cuda.device_of(values):
        _gather_sum_kernel[(len(sums), -(-width // block))](
            values, indices, offsets, sums, width, block, 16, num_warps=1
        )
    return sums


@jit
def _unit_kernel(
    values: tl.tensor,
    result: tl.tensor,
    rows: int,
    units: tl.constexpr,
    block_rows: tl.constexpr,
    block_units: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    unit = tl.arange(0, block_units)
    cells = row[:, None] * units + unit[None, :]
    inside = (row < rows)[:, None] & (unit < units)[None, :]
    tile = tl.load(values + cells, mask=inside, other=0.0)
    largest = tl.max(tl.abs(tile), 1)
    tile = tile / tl.where(largest == 0, 1.0, largest)[:, None]
    length = tl.sqrt(tl.sum(tile * tile, 1))
    tl.store(result + cells, tile / tl.where(length == 0, 1.0, length)[:, None], mask=inside)


def unit_rows(values: Tensor) -> Tensor:
    """Scale each head's row to length one; zero rows stay zero: (n, heads, units) → same."""
    values = values.contiguous()
    result = torch.empty_like(values)
    rows, units = values.shape[0] * values.shape[1], values.shape[2]
    with torch.cuda.device_of(values):
        _unit_kernel[(-(-rows // 64),)](values, result, rows, units, 64, power_of_two(units), num_warps=2)
    return result


@jit
def _products_kernel(
    values: tl.tensor,
    vectors: tl.tensor,
    products: tl.tensor,
    rows: int,
    count: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_rows: tl.constexpr,
    block_units: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)  # of (n, heads), flat
    unit = tl.arange(0, block_units)
    inside = (row < rows)[:, None] & (unit < units)[None, :]
    tile = tl.load(values + row[:, None] * units + unit[None, :], mask=inside, other=0.0)
    for which in tl.static_range(count):
        places = (which * heads + row % heads)[:, None] * units + unit[None, :]
        vector = tl.load(vectors + places, mask=inside, other=0.0)
        tl.store(products + which * rows + row, tl.sum(tile * vector, 1), mask=row < rows)


@jit
def _products_backward_kernel(
    gradient: tl.tensor,
    values: tl.tensor,
    vectors: tl.tensor,
    value_gradient: tl.tensor,
    partial: tl.tensor,
    nodes: int,
    count: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    program_rows: tl.constexpr,
    block_rows: tl.constexpr,
    block_units: tl.constexpr,
) -> None:
    block, head = tl.program_id(0), tl.program_id(1)
    unit = tl.arange(0, block_units)
    for which in tl.static_range(count):
        sums = tl.zeros([block_units], dtype=partial.dtype.element_ty)
        for start in range(0, program_rows, block_rows):
            node = block.to(tl.int64) * program_rows + start + tl.arange(0, block_rows)
            present = node < nodes
            inside = present[:, None] & (unit < units)[None, :]
            cells = (node * heads + head)[:, None] * units + unit[None, :]
            tile = tl.load(values + cells, mask=inside, other=0.0)
            g = tl.load(gradient + (which * nodes + node) * heads + head, mask=present, other=0.0)
            sums += tl.sum(g[:, None] * tile, 0)
            if which == 0:
                back = tl.zeros([block_rows, block_units], dtype=partial.dtype.element_ty)
                for other in tl.static_range(count):
                    places = (other * heads + head) * units + unit
                    vector = tl.load(vectors + places, mask=unit < units, other=0.0)
                    h = tl.load(gradient + (other * nodes + node) * heads + head, mask=present, other=0.0)
                    back += h[:, None] * vector[None, :]
                tl.store(value_gradient + cells, back, mask=inside)
        places = ((block * count + which) * heads + head) * units + unit
        tl.store(partial + places, sums, mask=unit < units)


def head_products(values: Tensor, vectors: Tensor) -> Tensor:
    """Multiply rows (n, heads, units) with vectors (v, heads, units) of their heads: (v, n, heads)."""
    values, vectors = values.contiguous(), vectors.contiguous()
    nodes, heads, units = values.shape
    products = values.new_empty(len(vectors), nodes, heads)
    with torch.cuda.device_of(values):
        _products_kernel[(-(-nodes * heads // 64),)](
            values,
            vectors,
            products,
            nodes * heads,
            len(vectors),
            heads,
            units,
            64,
            power_of_two(units),
            num_warps=2,
        )
    return products


def head_products_backward(gradient: Tensor, values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of values and of vectors."""
    gradient, values, vectors = gradient.contiguous(), values.contiguous(), vectors.contiguous()
    nodes, heads, units = values.shape
    count, program_rows = len(vectors), _rows_of_a_block(nodes)
    blocks = -(-nodes // program_rows)
    value_gradient = torch.empty_like(values)
    partial = values.new_empty(blocks, count, heads, units)
    with torch.cuda.device_of(values):
        _products_backward_kernel[(blocks, heads)](
            gradient, values, vectors, value_gradient, partial, nodes, count, heads, units,
            program_rows, 64, power_of_two(units), num_warps=2,
        )  # fmt: skip
    return value_gradient, partial.sum(0)


@jit
def _extremes_kernel(
    density: tl.tensor,
    lows: tl.tensor,
    highs: tl.tensor,
    rows: int,
    heads: tl.constexpr,
    block_rows: tl.constexpr,
    block_heads: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    head = tl.arange(0, block_heads)
    inside = (row < rows)[:, None] & (head < heads)[None, :]
    cells = row[:, None] * heads + head[None, :]
    tl.store(
        lows + tl.program_id(0) * heads + head,
        tl.min(tl.load(density + cells, mask=inside, other=float("inf")), 0),
        mask=head < heads,
    )
    tl.store(
        highs + tl.program_id(0) * heads + head,
        tl.max(tl.load(density + cells, mask=inside, other=float("-inf")), 0),
        mask=head < heads,
    )


@jit
def _scale_kernel(
    density: tl.tensor,
    lows: tl.tensor,
    highs: tl.tensor,
    peak: tl.tensor,
    scaled: tl.tensor,
    rows: int,
    blocks: int,
    tolerance: tl.constexpr,
    heads: tl.constexpr,
    block_rows: tl.constexpr,
    block_heads: tl.constexpr,
    block_blocks: tl.constexpr,
) -> None:
    head = tl.arange(0, block_heads)
    block = tl.arange(0, block_blocks)
    found = (block < blocks)[:, None] & (head < heads)[None, :]
    places = block[:, None] * heads + head[None, :]
    low = tl.min(tl.load(lows + places, mask=found, other=float("inf")), 0)
    high = tl.max(tl.load(highs + places, mask=found, other=float("-inf")), 0)
    span = high - low
    equal = span <= tolerance * tl.maximum(tl.abs(high), 1.0)
    most = tl.maximum(tl.load(peak + head, mask=head < heads, other=0.0), 0.0)
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    inside = (row < rows)[:, None] & (head < heads)[None, :]
    cells = row[:, None] * heads + head[None, :]
    tile = tl.load(density + cells, mask=inside, other=0.0)
    result = (tile - low[None, :]) / tl.where(equal, 1.0, span)[None, :] * most[None, :]
    tl.store(scaled + cells, tl.where(equal[None, :], 0.0, result), mask=inside)


def scale_density(density: Tensor, peak: Tensor, tolerance: float) -> Tensor:
    """Scale densities (s, heads) to [0, peak] for each head; zero where they are equal."""
    density, peak = density.contiguous(), peak.contiguous()
    rows, heads = density.shape
    block_rows, block_heads = _rows_of_a_block(rows), power_of_two(heads)
    blocks = -(-rows // block_rows)
    lows, highs = density.new_empty(blocks, heads), density.new_empty(blocks, heads)
    scaled = torch.empty_like(density)
    with torch.cuda.device_of(density):
        _extremes_kernel[(blocks,)](density, lows, highs, rows, heads, block_rows, block_heads)
        _scale_kernel[(-(-rows // _ROWS),)](
            density, lows, highs, peak, scaled, rows, blocks, tolerance, heads, _ROWS, block_heads,
            power_of_two(blocks),
        )  # fmt: skip
    return scaled
