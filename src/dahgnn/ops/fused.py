"""Steps of a layer that are one kernel on the CPU, so that less is stored and moved in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import elu

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.protocol import Mask
from dahgnn.ops.backend import compiled_for_cpu
from dahgnn.ops.dropout import drop_units
from dahgnn.ops.sparse import grouped_product


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
