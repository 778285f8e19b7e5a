"""Steps of a layer that are one kernel, so that less is stored and moved in between.

The products are one on the CPU alone; elsewhere they are steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import elu

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import Kernels, Mask
from dahgnn.ops.backend import compiled_for_cpu, kernels_for
from dahgnn.ops.dropout import drop_units
from dahgnn.ops.sparse import NEGATIVE_SLOPE, attend, grouped_product, sum_similar, unit_rows

# Rows that are brought to length one at a time.
_ROWS_AT_ONCE = 1 << 16


class Factor(NamedTuple):
    """What rows are multiplied with.

    Attributes
    ----------
    weights : Tensor, (groups, inner, outer)
        The matrix of each group.
    chosen : Tensor of int64, (s,), or None
        The rows that are multiplied, all of them different; None if all rows are.
    """

    weights: Tensor
    chosen: Tensor | None = None


def activated_products(
    rows: Tensor, factors: Sequence[Factor], *, activation: bool, mask: Mask | None
) -> tuple[Tensor, ...]:
    """Let rows pass an ELU and dropout, and multiply what comes out with one matrix or several.

    Parameters
    ----------
    rows : Tensor, (n, groups, inner)
        Each row has a part for each group.
    factors : sequence of Factor
        What they are multiplied with.
    activation : bool
        Whether there is an ELU.
    mask : Mask or None
        Which units fall, the groups being the runs; None if none does.

    Returns
    -------
    tuple of Tensor, (n, groups, outer) or (s, groups, outer)
        There is one product for each factor.
    """
    weights, chosen = zip(*factors, strict=True)
    # A rate of one leaves nothing to scale up, which is a case of its own.
    if compiled_for_cpu(rows) and (mask is None or mask.rate < 1):
        return cast(tuple[Tensor, ...], _ActivatedProducts.apply(rows, activation, mask, chosen, *weights))
    active = elu(rows) if activation else rows
    if mask is not None:
        active = drop_units(active, mask)
    return tuple(
        grouped_product(active if some is None else active.index_select(0, some), weight)
        for weight, some in zip(weights, chosen, strict=True)
    )


class _ActivatedProducts(Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        activation: bool,
        mask: Mask | None,
        chosen: tuple[Tensor | None, ...],
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(rows, *weights)
        ctx.activation, ctx.mask, ctx.chosen = activation, mask, chosen
        ctx.set_materialize_grads(False)
        return tuple(
            cpu_kernels.activated_product(rows, weight, activation, mask, some)
            for weight, some in zip(weights, chosen, strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        rows, *weights = ctx.saved_tensors
        of_rows: Tensor | None = None
        of_weights: list[Tensor | None] = [None] * len(weights)
        # Those of all rows come first: they write the gradient that the others are added to.
        for place in sorted(range(len(weights)), key=lambda place: ctx.chosen[place] is not None):
            gradient = gradients[place]
            if gradient is not None:
                of_rows, of_weights[place] = cpu_kernels.activated_product_backward(
                    gradient, rows, weights[place], ctx.activation, ctx.mask, ctx.chosen[place], of_rows
                )
        return (of_rows, None, None, None, *of_weights)


def attend_rows(
    values: Tensor,
    vector: Tensor,
    target: Tensor,
    bias: Tensor | None,
    incidence: Incidence,
    *,
    activation: bool = True,
) -> Tensor:
    """Sum the sources of each target by attention, (4) to (8): one direction of a layer.

    Parameters
    ----------
    values : Tensor, (sources, heads, units)
        What is summed.
    vector : Tensor, (heads, units)
        The half of the attention vector that the sources are multiplied with.
    target : Tensor, (targets, heads)
        The terms of the targets in the scores.
    bias : Tensor, (sources, heads), or None
        The scaled density, added to the scores; it gets no gradient.
    incidence : Incidence
        The sources of each target.
    activation : bool
        Whether the sums pass an ELU. The kernel of the CPU knows no other way.

    Returns
    -------
    Tensor, (targets, heads, units)
    """
    kernels = _kernels_of_one_way(values, incidence, activation)
    if kernels is not None:
        return cast(Tensor, _Attend.apply(values, vector, target, bias, incidence, activation, kernels))
    source = (values * vector).sum(-1)
    return attend(values, source, target, bias, incidence, activation=activation)


def _kernels_of_one_way(values: Tensor, incidence: Incidence, activation: bool) -> Kernels | None:
    """Return the kernels that sum these incidences, or None where plain PyTorch does."""
    # Without a gradient the sources need no order of their own.
    ordered = incidence.backward is not None or not torch.is_grad_enabled()
    kernels = kernels_for(values) if ordered else None
    fits = activation if kernels is cpu_kernels else len(incidence.owners) > 0
    return kernels if fits else None


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        vector: Tensor,
        target: Tensor,
        bias: Tensor | None,
        incidence: Incidence,
        activation: bool,
        kernels: Kernels,
    ) -> Tensor:
        sums, kept = kernels.attend(
            values, vector, target, bias, incidence, NEGATIVE_SLOPE, activation=activation
        )
        ctx.save_for_backward(values, vector, target, *kept)
        ctx.incidence, ctx.activation, ctx.kernels = incidence, activation, kernels
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, vector, target, *kept = ctx.saved_tensors
        gradients = ctx.kernels.attend_backward(
            gradient,
            values,
            vector,
            target,
            kept,
            ctx.incidence,
            NEGATIVE_SLOPE,
            activation=ctx.activation,
        )
        return (*gradients, None, None, None, None)


def similarity_to(rows: Tensor, delta: float, neighbours: Segments) -> Tensor:
    """Sum the similarities of the first rows to their neighbours, those over ``delta`` alone, (3).

    Parameters
    ----------
    rows : Tensor, (n, heads, units)
        Rows of WX; they get no gradient.
    delta : float
        Threshold of the cosine.
    neighbours : Segments
        The neighbours of the first s rows, which may be any of the n.

    Returns
    -------
    Tensor, (s, heads)
    """
    return similarity_sums(_unit_rows_in_blocks(rows.detach()), delta, neighbours)


def similarity_sums(directions: Tensor, delta: float, neighbours: Segments) -> Tensor:
    """Sum the same for rows that have length one already, or zero: (n, heads, units) → (s, heads)."""
    if len(neighbours) == 0:
        return directions.new_zeros(0, directions.shape[1])
    kernels = kernels_for(directions)
    if kernels is not None:
        return kernels.similarity_sum(directions, delta, neighbours)
    return (directions[: len(neighbours)] * sum_similar(directions, directions, delta, neighbours)).sum(-1)


def _unit_rows_in_blocks(rows: Tensor) -> Tensor:
    """Return what `unit_rows` does, without copies of very many rows in between."""
    if rows.is_cuda or len(rows) <= _ROWS_AT_ONCE:
        return unit_rows(rows)
    directions = torch.empty_like(rows)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        directions[start : start + _ROWS_AT_ONCE] = unit_rows(rows[start : start + _ROWS_AT_ONCE])
    return directions
