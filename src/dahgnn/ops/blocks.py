"""Sums over incidences whose sources or results are too large for memory: block by block of targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.ops.backend import compiled_for_cpu
from dahgnn.ops.sparse import gather_sum

# Incidences of a block, and its rows at the most.
BLOCK = 1 << 20


class Block(NamedTuple):
    """Some segments in a row.

    Attributes
    ----------
    rows : slice
        Which segments they are.
    pairs : slice
        Where their incidences stand.
    segments : Segments
        The same segments, counted from zero; what they name keeps its number.
    """

    rows: slice
    pairs: slice
    segments: Segments


def blocks_of(segments: Segments, most: int = BLOCK) -> Iterator[Block]:
    """Cut segments into blocks of so many incidences and rows at the most, or of a single longer segment.

    Examples
    --------
    >>> segments = Segments(torch.tensor([0, 2, 2, 9, 10]), torch.arange(10))
    >>> [(block.rows.start, block.rows.stop) for block in blocks_of(segments, 3)]
    [(0, 2), (2, 3), (3, 4)]
    """
    offsets, start = segments.offsets, 0
    while start < len(segments):
        first = int(offsets[start])
        ends = offsets[start + 1 : start + 1 + most]
        stop = start + max(int(torch.searchsorted(ends, first + most, right=True)), 1)
        here = offsets[start : stop + 1]
        pairs = slice(first, int(here[-1]))
        yield Block(slice(start, stop), pairs, Segments(here - first, segments.indices[pairs]))
        start = stop


def row_blocks(count: int, most: int) -> Iterator[slice]:
    """Cut rows into blocks of so many.

    Examples
    --------
    >>> list(row_blocks(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, count, most):
        yield slice(start, min(start + most, count))


def sum_blocks(
    values: Tensor,
    segments: Segments,
    source_scale: Tensor | None,
    target_scale: Tensor | None,
    weights: Tensor | None,
    receive: Callable[[slice, Tensor], object],
    most: int = BLOCK,
) -> None:
    """Sum the scaled sources of each segment and scale the sums, as `gather_sum` does, block by block.

    Parameters
    ----------
    values : Tensor, (sources, width)
        What is summed.
    segments : Segments
        The sources of each target.
    source_scale, target_scale : Tensor, (sources,), (targets,), or None
        The factors.
    weights : Tensor, (t,), or None
        A factor for each incidence.
    receive : callable
        Takes the rows of a block, and their sums.
    most : int
        See `blocks_of`.
    """
    for block in blocks_of(segments, most):
        incidence = Incidence.forward_only(block.segments, block.segments.indices)
        scale = None if target_scale is None else target_scale[block.rows]
        before, each = source_scale, None
        if weights is not None or not compiled_for_cpu(values):
            # By incidence: scaling the sources would make a copy of all of them.
            before, each = None, _by_incidence(values, block, source_scale, weights)
        receive(block.rows, gather_sum(values, incidence, before, scale, weights=each))


def _by_incidence(
    values: Tensor, block: Block, source_scale: Tensor | None, weights: Tensor | None
) -> Tensor:
    """Return the factor of each incidence of a block before the sum."""
    each = values.new_ones(len(block.segments.indices))
    if source_scale is not None:
        each = source_scale[block.segments.indices]
    return each if weights is None else each * weights[block.pairs].to(each)
