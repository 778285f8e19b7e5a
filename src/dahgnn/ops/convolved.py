"""Features that were propagated once, through a weight, ELU and dropout, and on through further weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.protocol import Mask
from dahgnn.ops.backend import compiled_for_cpu
from dahgnn.ops.fused import Factor, activated_products
from dahgnn.ops.propagated import PropagatedFeatures


class Convolved(NamedTuple):
    """Rows behind a convolution, which are not computed before it is known what comes next.

    Attributes
    ----------
    features : PropagatedFeatures
        The propagated features, of n rows.
    weight : Tensor, (r, d₀, hidden)
        The weights of r networks.
    """

    features: PropagatedFeatures
    weight: Tensor

    def rows(self) -> Tensor:
        """Compute the rows, (n, r, hidden)."""
        products = self.features @ self.weight.transpose(0, 1).flatten(1)
        return products.view(-1, *self.weight.shape[::2])

    def products(
        self, factors: Sequence[Factor], *, activation: bool, mask: Mask | None
    ) -> tuple[Tensor, ...]:
        """Return what `activated_products` makes of the rows.

        The kernel needs a first factor of all rows. It computes both products in one pass, so that the rows
        between the two are written once, for the gradient, and read once, by it.
        """
        if not self._has_kernel(mask) or factors[0].chosen is not None:
            return activated_products(self.rows(), factors, activation=activation, mask=mask)
        weights, chosen = zip(*factors, strict=True)
        weight, matrix = self.features.along(self.weight.squeeze(0)), self.features.matrix
        products = _ConvolvedProducts.apply(matrix, weight, activation, mask, chosen, *weights)
        return cast(tuple[Tensor, ...], products)

    def _has_kernel(self, mask: Mask | None) -> bool:
        matrix, (runs, _, hidden) = self.features.matrix, self.weight.shape
        fits = runs == 1 and self.weight.dtype == matrix.dtype
        drops = mask is None or (mask.rate < 1 and mask.numbers is None)
        return fits and drops and compiled_for_cpu(matrix) and cpu_kernels.supports_product(matrix, hidden)


class _ConvolvedProducts(Function):
    @staticmethod
    def forward(
        ctx: Any,
        matrix: Tensor,
        weight: Tensor,
        activation: bool,
        mask: Mask | None,
        chosen: tuple[Tensor | None, ...],
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        first, between = cpu_kernels.convolved_product(matrix, weight, weights[0][0], activation, mask)
        ctx.save_for_backward(matrix, between, *weights)
        ctx.activation, ctx.mask, ctx.chosen = activation, mask, chosen
        ctx.set_materialize_grads(False)
        rows = between.unsqueeze(1)
        further = (
            cpu_kernels.grouped_product(rows if some is None else rows.index_select(0, some), each)
            for each, some in zip(weights[1:], chosen[1:], strict=True)
        )
        return first.unsqueeze(1), *further

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        matrix, between, *weights = ctx.saved_tensors
        of_weight: Tensor | None = None
        of_weights: list[Tensor | None] = [None] * len(weights)
        for place, (gradient, some) in enumerate(zip(gradients, ctx.chosen, strict=True)):
            if gradient is None:
                continue
            part, of_factor = cpu_kernels.convolved_product_backward(
                gradient.squeeze(1),
                *((matrix, between) if some is None else (matrix[some], between[some])),
                weights[place][0],
                ctx.activation,
                ctx.mask,
            )
            of_weights[place] = of_factor.unsqueeze(0)
            of_weight = part if of_weight is None else of_weight + part
        return (None, of_weight, None, None, None, *of_weights)
