"""Launch the GPU kernels for sums over segments and for products with small matrices, in Triton.

Each is one launch, or two where sums over all rows end in a second; at ten thousand nodes an epoch is made of
launches.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from dahgnn.kernels.gpu.programs import divide, jit, launch, power_of_two
from dahgnn.kernels.gpu.tiles import (
    begin,
    block_of_segments,
    column_sums,
    gather_rows,
    length_of,
    load_members,
    present_members,
    store_rows,
    within,
)
from dahgnn.kernels.incidence import Segments

with contextlib.suppress(ImportError):
    import triton.language as tl

# Registers that a sum needs, and the programs that then run at once on a multiprocessor.
_REGISTERS, _AT_ONCE = 64, 32
# Outputs of a group from which on a product is a library's.
_LARGE = 128
# Rows and inputs of a group that a program multiplies at a time, and the numbers where there is one output.
_ROWS, _INNER, _NUMBERS = 64, 64, 1024
# Of products: full single precision; tensor cores would round to eleven bits.
_PRECISION = "ieee"
# Programs for each group, at the most, that leave sums over their rows.
_PROGRAMS = 256


@jit
def _sum_rows(
    first: tl.tensor,
    targets: tl.tensor,
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    source_scale: tl.tensor,
    target_scale: tl.tensor,
    sums: tl.tensor,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
) -> tl.tensor:
    """Sum the members of a block of targets; return the length of the longest segment."""
    rows, mine, segments, lengths, length = block_of_segments(
        offsets, indices, first, targets, block_rows, longest
    )
    members = load_members(segments, lengths, 0, block_members)
    total = tl.full([block_rows, layout[2], layout[3]], 0.0, sums.dtype.element_ty)
    for start in range(0, within(length, longest), block_members):
        present = present_members(lengths, start, block_members)
        tile = gather_rows(values, members, layout)
        if source_scale is not None:
            tile *= tl.load(source_scale + members)[:, :, None, None]
        members = load_members(segments, lengths, start + block_members, block_members)
        total += tl.sum(tl.where(present[:, :, None, None], tile, 0.0), 0)
    if target_scale is not None:
        total *= tl.load(target_scale + rows)[:, None, None]
    store_rows(sums, total, rows, mine, layout)
    return length


@jit
def _gather_sum_kernel(
    offsets: tl.tensor,
    indices: tl.tensor,
    values: tl.tensor,
    source_scale: tl.tensor,
    target_scale: tl.tensor,
    sums: tl.tensor,
    targets: tl.tensor,
    count: tl.tensor,
    layout: tl.constexpr,
    block_rows: tl.constexpr,
    block_members: tl.constexpr,
    longest: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    begin(overlap)
    for block in range(tl.program_id(0).to(tl.int64), count, tl.num_programs(0)):
        first = block * block_rows
        length = _sum_rows(
            first, targets, offsets, indices, values, source_scale, target_scale, sums,
            layout, block_rows, block_members, longest,
        )  # fmt: skip
        if longest is not None and length > longest:
            for row in range(first, tl.minimum(first + block_rows, targets)):
                if length_of(offsets, row) > longest:
                    _sum_rows(
                        row, targets, offsets, indices, values, source_scale, target_scale, sums,
                        layout, 1, block_members * block_rows, None,
                    )  # fmt: skip


def gather_sum(
    values: Tensor, forward: Segments, source_scale: Tensor | None, target_scale: Tensor | None
) -> Tensor:
    """Sum the rows that each segment names, with factors before and after; see `Kernels.gather_sum`."""
    values, width = values.contiguous(), values.shape[1]
    source_scale, target_scale = (
        None if scale is None else scale.contiguous() for scale in (source_scale, target_scale)
    )
    sums = values.new_empty(len(forward), width)
    # Each column is a head of its own, of one unit.
    blocks = divide(values.unsqueeze(-1), forward, at_once=_AT_ONCE)
    launch(
        _gather_sum_kernel, blocks.grid, forward.offsets, forward.indices, values, source_scale, target_scale,
        sums, len(forward), blocks.blocks, **blocks.sizes, warps=blocks.warps, registers=_REGISTERS,
    )  # fmt: skip
    return sums


@jit
def _load_group(
    rows: tl.tensor,
    first: tl.tensor,
    count: tl.tensor,
    strides: tl.tensor,
    start: tl.tensor,
    inner: tl.constexpr,
    block_rows: tl.constexpr,
    block_inner: tl.constexpr,
) -> tl.tensor:
    """Return some columns of this program's group of some rows, (rows, inner), zeros beyond the last."""
    row = (first + tl.arange(0, block_rows)).to(tl.int64)
    column = start + tl.arange(0, block_inner)
    places = row[:, None] * strides[0] + tl.program_id(1) * strides[1] + column[None, :] * strides[2]
    return tl.load(rows + places, mask=(row < count)[:, None] & (column < inner)[None, :], other=0.0)


@jit
def _load_matrix(
    weights: tl.tensor,
    strides: tl.tensor,
    start: tl.tensor,
    inner: tl.constexpr,
    outer: tl.constexpr,
    block_inner: tl.constexpr,
    block_outer: tl.constexpr,
) -> tl.tensor:
    """Return some rows of this program's group's matrix, (inner, outer), zeros beyond the last."""
    row = start + tl.arange(0, block_inner)
    column = tl.arange(0, block_outer)
    places = tl.program_id(1) * strides[0] + row[:, None] * strides[1] + column[None, :] * strides[2]
    return tl.load(weights + places, mask=(row < inner)[:, None] & (column < outer)[None, :], other=0.0)


@jit
def _product_kernel(
    rows: tl.tensor,
    weights: tl.tensor,
    products: tl.tensor,
    count: tl.tensor,
    row_strides: tl.tensor,
    weight_strides: tl.tensor,
    inner: tl.constexpr,
    outer: tl.constexpr,
    block_rows: tl.constexpr,
    block_inner: tl.constexpr,
    block_outer: tl.constexpr,
    precision: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Multiply a block of rows of one group with the group's matrix."""
    begin(overlap)
    first = tl.program_id(0) * block_rows
    total = tl.full([block_rows, block_outer], 0.0, products.dtype.element_ty)
    for start in tl.static_range(0, inner, block_inner):
        tile = _load_group(rows, first, count, row_strides, start, inner, block_rows, block_inner)
        matrix = _load_matrix(weights, weight_strides, start, inner, outer, block_inner, block_outer)
        total = tl.dot(tile, matrix, total, input_precision=precision, out_dtype=total.dtype)
    row = (first + tl.arange(0, block_rows)).to(tl.int64)
    column = tl.arange(0, block_outer)
    places = (row * tl.num_programs(1) + tl.program_id(1))[:, None] * outer + column[None, :]
    tl.store(products + places, total, mask=(row < count)[:, None] & (column < outer)[None, :])


@jit
def _product_backward_kernel(
    gradient: tl.tensor,
    rows: tl.tensor,
    weights: tl.tensor,
    rows_gradient: tl.tensor,
    partial: tl.tensor,
    count: tl.tensor,
    blocks: tl.tensor,
    gradient_strides: tl.tensor,
    row_strides: tl.tensor,
    weight_strides: tl.tensor,
    inner: tl.constexpr,
    outer: tl.constexpr,
    block_rows: tl.constexpr,
    block_inner: tl.constexpr,
    block_outer: tl.constexpr,
    precision: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Multiply the gradient of one group with its matrix, and sum the matrix's gradient over some rows."""
    begin(overlap)
    start = tl.program_id(2) * block_inner
    column = start + tl.arange(0, block_inner)
    matrix = _load_matrix(weights, weight_strides, start, inner, outer, block_inner, block_outer)
    total = tl.full([block_inner, block_outer], 0.0, partial.dtype.element_ty)
    for block in range(tl.program_id(0).to(tl.int64), blocks, tl.num_programs(0)):
        first = block * block_rows
        given = _load_group(gradient, first, count, gradient_strides, 0, outer, block_rows, block_outer)
        tile = _load_group(rows, first, count, row_strides, start, inner, block_rows, block_inner)
        back = tl.dot(given, tl.trans(matrix), input_precision=precision, out_dtype=total.dtype)
        row = (first + tl.arange(0, block_rows)).to(tl.int64)
        places = (row * tl.num_programs(1) + tl.program_id(1))[:, None] * inner + column[None, :]
        tl.store(rows_gradient + places, back, mask=(row < count)[:, None] & (column < inner)[None, :])
        total = tl.dot(tl.trans(tile), given, total, input_precision=precision, out_dtype=total.dtype)
    output = tl.arange(0, block_outer)
    group = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    places = (group * inner + column)[:, None] * outer + output[None, :]
    tl.store(partial + places, total, mask=(column < inner)[:, None] & (output < outer)[None, :])


@jit
def _thin_kernel(
    rows: tl.tensor,
    weights: tl.tensor,
    products: tl.tensor,
    count: tl.tensor,
    row_strides: tl.tensor,
    weight_strides: tl.tensor,
    groups: tl.constexpr,
    inner: tl.constexpr,
    block_rows: tl.constexpr,
    block_groups: tl.constexpr,
    block_inner: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Multiply rows of some groups with the one column of their group; groups and inputs are one axis."""
    begin(overlap)
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    cell = tl.arange(0, block_groups * block_inner)
    group = tl.program_id(1) * block_groups + cell // block_inner
    total = tl.full([block_rows, block_groups * block_inner], 0.0, products.dtype.element_ty)
    for start in tl.static_range(0, inner, block_inner):
        column = start + cell % block_inner
        inside = (group < groups) & (column < inner)
        places = weights + group * weight_strides[0] + column * weight_strides[1]
        vector = tl.load(places, mask=inside, other=0.0)
        places = row[:, None] * row_strides[0] + (group * row_strides[1] + column * row_strides[2])[None, :]
        total += (
            tl.load(rows + places, mask=(row < count)[:, None] & inside[None, :], other=0.0) * vector[None, :]
        )
    total = tl.sum(tl.reshape(total, [block_rows, block_groups, block_inner]), 2)
    group = tl.program_id(1) * block_groups + tl.arange(0, block_groups)
    places = row[:, None] * groups + group[None, :]
    tl.store(products + places, total, mask=(row < count)[:, None] & (group < groups)[None, :])


@jit
def _thin_backward_kernel(
    gradient: tl.tensor,
    rows: tl.tensor,
    weights: tl.tensor,
    rows_gradient: tl.tensor,
    partial: tl.tensor,
    count: tl.tensor,
    blocks: tl.tensor,
    gradient_strides: tl.tensor,
    row_strides: tl.tensor,
    weight_strides: tl.tensor,
    groups: tl.constexpr,
    inner: tl.constexpr,
    block_rows: tl.constexpr,
    block_groups: tl.constexpr,
    block_inner: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Go back through `_thin_kernel` for some groups and inputs, which are one axis."""
    begin(overlap)
    cell = tl.arange(0, block_groups * block_inner)
    group = tl.program_id(1) * block_groups + cell // block_inner
    column = tl.program_id(2) * block_inner + cell % block_inner
    inside = (group < groups) & (column < inner)
    vector = tl.load(weights + group * weight_strides[0] + column * weight_strides[1], mask=inside, other=0.0)
    vector = tl.reshape(vector, [block_groups, block_inner])
    total = tl.full([block_rows, block_groups, block_inner], 0.0, partial.dtype.element_ty)
    whole = tl.program_id(1) * block_groups + tl.arange(0, block_groups)
    for block in range(tl.program_id(0).to(tl.int64), blocks, tl.num_programs(0)):
        row = block * block_rows + tl.arange(0, block_rows)
        places = row[:, None] * gradient_strides[0] + (whole * gradient_strides[1])[None, :]
        given = tl.load(gradient + places, mask=(row < count)[:, None] & (whole < groups)[None, :], other=0.0)
        present = (row < count)[:, None] & inside[None, :]
        places = row[:, None] * row_strides[0] + (group * row_strides[1] + column * row_strides[2])[None, :]
        tile = tl.load(rows + places, mask=present, other=0.0)
        total += given[:, :, None] * tl.reshape(tile, total.shape)
        back = tl.reshape(given[:, :, None] * vector[None, :, :], tile.shape)
        tl.store(
            rows_gradient + row[:, None] * (groups * inner) + (group * inner + column)[None, :],
            back,
            mask=present,
        )
    places = tl.program_id(0) * (groups * inner) + group * inner + column
    tl.store(partial + places, tl.reshape(tl.sum(total, 0), cell.shape), mask=inside)


def grouped_product(rows: Tensor, weights: Tensor) -> Tensor:
    """Multiply each group's part of a row with the group's matrix; see `Kernels.grouped_product`."""
    count, (groups, inner, outer) = len(rows), weights.shape
    if outer > _LARGE:
        return torch.einsum("ngi,gio->ngo", rows, weights)
    products = rows.new_empty(count, groups, outer)
    grid, sizes = _thin(groups, inner) if outer == 1 else _matrix(groups, inner, outer)
    launch(
        _thin_kernel if outer == 1 else _product_kernel, (-(-count // sizes["block_rows"]), grid[0]),
        rows, weights, products, count, rows.stride(), weights.stride(), **sizes, warps=4,
    )  # fmt: skip
    return products


def grouped_product_backward(gradient: Tensor, rows: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of `grouped_product`, (n, groups, inner) and (groups, inner, outer)."""
    count, (groups, inner, outer) = len(rows), weights.shape
    if outer > _LARGE:
        rows_gradient = torch.einsum("ngo,gio->ngi", gradient, weights)
        return rows_gradient, torch.einsum("ngi,ngo->gio", rows, gradient)
    rows_gradient = rows.new_empty(rows.shape)
    grid, sizes = _thin(groups, inner) if outer == 1 else _matrix(groups, inner, outer)
    blocks = -(-count // sizes["block_rows"])
    programs = -(-blocks // -(-blocks // _PROGRAMS))
    partial = rows.new_empty(programs, groups * inner * outer)
    launch(
        _thin_backward_kernel if outer == 1 else _product_backward_kernel, (programs, *grid),
        gradient, rows, weights, rows_gradient, partial, count, blocks,
        gradient.stride(), rows.stride(), weights.stride(), **sizes, warps=4,
    )  # fmt: skip
    sums = rows.new_empty(1, groups * inner * outer)
    column_sums(partial, sums, programs)
    return rows_gradient, sums.view(groups, inner, outer)


def _thin(groups: int, inner: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Divide products with one column: programs for groups and inputs, and the sizes of their blocks."""
    block_inner = min(power_of_two(inner), _INNER)
    block_groups = min(power_of_two(groups), _INNER // block_inner)
    sizes = {
        "groups": groups,
        "inner": inner,
        "block_rows": _NUMBERS // (block_groups * block_inner),
        "block_groups": block_groups,
        "block_inner": block_inner,
    }
    return (-(-groups // block_groups), -(-inner // block_inner)), sizes


def _matrix(groups: int, inner: int, outer: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Divide products with a matrix likewise; no block is less than Triton's 16."""
    block_inner = min(max(power_of_two(inner), 16), _INNER)
    sizes = {
        "inner": inner,
        "outer": outer,
        "block_rows": _ROWS,
        "block_inner": block_inner,
        "block_outer": max(power_of_two(outer), 16),
        "precision": _PRECISION,
    }
    return (groups, -(-inner // block_inner)), sizes
