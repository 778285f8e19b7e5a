"""Steps of a layer that are one kernel on the CPU, so that less is stored and moved in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import elu

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.incidence import Incidence
from dahgnn.kernels.protocol import Mask
from dahgnn.ops.backend import compiled_for_cpu
from dahgnn.ops.dropout import drop_units
from dahgnn.ops.sparse import gather_sum, grouped_product


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


class _GatherBeside(Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, incidence: Incidence, source_scale: Tensor, target_scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.swapped = incidence.backward, target_scale, source_scale
        ctx.set_materialize_grads(False)
        sums = cpu_kernels.gather_sum(values, incidence.forward, source_scale, target_scale)
        return sums, values.view_as(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_sums: Tensor | None, of_values: Tensor | None) -> tuple[Tensor | None, ...]:
        if of_sums is None:
            return of_values, None, None, None
        if of_values is None:
            return cpu_kernels.gather_sum(of_sums, *ctx.swapped), None, None, None
        total = of_values.contiguous()
        backward, target_scale, source_scale = ctx.swapped
        cpu_kernels.add_gather_sum(of_sums, backward, target_scale, source_scale, total)
        return total, None, None, None


def gather_beside(
    values: Tensor, incidence: Incidence, source_scale: Tensor, target_scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what `gather_sum` does, and the values once more, for one other use.

    The gradient of the sums is added to that of the other use in place. So it must be one whose gradient is
    nobody else's, as that of a product is.

    Parameters
    ----------
    values : Tensor, (sources, width)
        What is summed.
    incidence : Incidence
        The sources of each target, in both orders if the values get a gradient.
    source_scale, target_scale : Tensor, (sources,), (targets,)
        Factors before and after the sum; they get no gradient.

    Returns
    -------
    sums, values : Tensor, (targets, width), (sources, width)
    """
    if compiled_for_cpu(values) and incidence.backward is not None:
        return cast(tuple[Tensor, Tensor], _GatherBeside.apply(values, incidence, source_scale, target_scale))
    return gather_sum(values, incidence, source_scale, target_scale), values
