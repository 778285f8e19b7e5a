"""Features that are propagated once and then multiplied with weights that change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dahgnn.kernels.protocol import ALL, Reached
from dahgnn.ops.backend import product_kernel_for

# The weights of r networks of one kind by name, each (r, …).
Weights = Mapping[str, Tensor]
# Drops units: of values (n, r, units), the rate at which they drop, and at which of the network's sites.
DropUnits = Callable[[Tensor, float, int], Tensor]


class Folded(Protocol):
    """Computes logits from weights, see ``DAHGNN.fold``."""

    def __call__(self, weights: Weights, drop: DropUnits, *, evaluate: bool = True) -> tuple[Tensor, Tensor]:
        """Return the logits of evaluation and of training, (n, r, n_classes).

        Parameters
        ----------
        weights : mapping of Tensor, (r, …)
            The weights of r networks.
        drop : callable
            Drops units.
        evaluate : bool
            Whether the logits of evaluation are needed; without, those of training stand in their place.
        """


class SelectiveFolded(Folded, Protocol):
    """Computes logits from weights, and if some nodes are chosen no others than theirs."""

    def __call__(
        self,
        weights: Weights,
        drop: DropUnits,
        *,
        evaluate: bool = True,
        nodes: Tensor | None = None,
        reached: tuple[Reached, Reached] = (ALL, ALL),
    ) -> tuple[Tensor, Tensor]:
        """Return the logits as `Folded` does, those of s different nodes being (s, r, n_classes).

        If it is told what `reached_from` says of these nodes, it keeps less for the gradient.
        """


# Columns of the features that are propagated at a time.
_COLUMNS_AT_ONCE = 64

# Leading directions are looked for among so many columns, and taken if they are so much fewer.
_FEWEST_COLUMNS, _MOST_COLUMNS, _FEW = 24, 2048, 0.7

# From so many columns, and so many numbers in each of their sums, a GPU takes a product in so many parts.
_MANY_COLUMNS, _LONG_SUM, _PARTS = 128, 4096, 4


class PropagatedFeatures:
    """Features that are propagated once, and multiplied with weights that change.

    Parameters
    ----------
    features : Tensor, (n, d)
        Each row is a node's. The features get no gradient.
    propagate : callable
        Linear map of rows, (n, …) → (s, …).
    precision : {"float32", "bfloat16"}
        "bfloat16" keeps a rounded copy on a CUDA device and multiplies that, with sums in float32.
    leave_out : float
        How much of the sum of squares of the propagated rows may be left out, so that they have fewer
        columns: the leading directions. Neighbours have averaged the others away.

    Attributes
    ----------
    matrix : Tensor, (s, used) or (s, directions)
        The rows, without columns of zeros; along the leading directions if these are much fewer.
    directions : Tensor, (used, directions), or None
        The leading directions, orthonormal.
    """

    def __init__(
        self,
        features: Tensor,
        propagate: Callable[[Tensor], Tensor],
        precision: str = "float32",
        leave_out: float = 0.0,
    ) -> None:
        features = features.detach()
        # Columns of zeros, such as the margins of images, reach nothing and get no gradient. On a GPU picking
        # the rows of their weights takes longer than it spares.
        used = torch.ones_like(features[0], dtype=torch.bool) if features.is_cuda else features.any(0)
        columns = used.nonzero().squeeze(1)
        self.used = None if len(columns) == features.shape[1] else columns
        rounded = precision == "bfloat16" and features.is_cuda and features.dtype == torch.float32
        dtype = torch.bfloat16 if rounded else features.dtype
        self.matrix = _in_columns(features, columns, propagate, dtype)
        self.directions = _leading_directions(self.matrix, leave_out) if leave_out else None
        if self.directions is not None:
            self.matrix = self.matrix @ self.directions

    def then(self, propagate: Callable[[Tensor], Tensor]) -> PropagatedFeatures:
        """Return features that have passed a further linear map of rows, along the same directions."""
        further = copy.copy(self)
        vars(further).pop("transposed", None)
        columns = torch.arange(self.matrix.shape[1], device=self.matrix.device)
        further.matrix = _in_columns(self.matrix, columns, propagate, self.matrix.dtype)
        return further

    @cached_property
    def transposed(self) -> Tensor:
        """The transposed matrix, in the order in which the gradient reads it."""
        return self.matrix.T if self.matrix.is_cuda else self.matrix.T.contiguous()

    def along(self, weight: Tensor) -> Tensor:
        """Return what the matrix is multiplied with in place of a weight (d, columns) of all features."""
        if self.used is not None:
            weight = weight.index_select(0, self.used)
        return weight if self.directions is None else self.directions.T @ weight

    def __matmul__(self, weight: Tensor) -> Tensor:
        return cast(Tensor, _FixedProduct.apply(self, self.along(weight)))


def _in_columns(
    rows: Tensor, columns: Tensor, propagate: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> Tensor:
    """Propagate some columns of rows, a few at a time, so that no second copy of the rows is made on the way.

    The last ones are as many as the first, some of them once more: a GPU compiles a kernel for each number.
    """
    many = min(_COLUMNS_AT_ONCE, len(columns))
    first = propagate(rows[:, columns[:many]])
    matrix = first.new_empty(len(first), len(columns), dtype=dtype)
    matrix[:, :many] = first
    for start in range(many, len(columns), _COLUMNS_AT_ONCE):
        some = slice(min(start, len(columns) - many), start + many)
        matrix[:, some] = propagate(rows[:, columns[some]])
    return matrix


def _leading_directions(rows: Tensor, leave_out: float) -> Tensor | None:
    """Return the fewest orthonormal directions that leave so much out, or None if they are not much fewer."""
    if not may_have_fewer(rows.shape[1], rows.dtype):
        return None
    return leading_directions((rows.T @ rows).double(), leave_out, rows.dtype)


def may_have_fewer(columns: int, dtype: torch.dtype) -> bool:
    """Tell whether leading directions of so many columns are looked for at all."""
    return _FEWEST_COLUMNS <= columns <= _MOST_COLUMNS and dtype != torch.bfloat16


def leading_directions(products: Tensor, leave_out: float, dtype: torch.dtype) -> Tensor | None:
    """Return the fewest directions that leave so much out of rows, whose products XᵀX are given, (d, d).

    Returns
    -------
    Tensor, (d, directions), or None if they are not much fewer than d
    """
    if not bool(products.isfinite().all()):
        return None
    squares, directions = torch.linalg.eigh(products)  # the smallest first
    left = squares.clamp_min(0).cumsum(0)
    count = int((left > leave_out * left[-1]).sum())
    # Columns of a product come in vectors of the processor.
    count = -(-max(count, 1) // 16) * 16
    return directions[:, -count:].to(dtype).contiguous() if count <= _FEW * len(products) else None


class _FixedProduct(Function):
    @staticmethod
    def forward(ctx: Any, fixed: PropagatedFeatures, weight: Tensor) -> Tensor:
        ctx.fixed = fixed
        return _product(fixed.matrix, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, _product(ctx.fixed.transposed, gradient)


def _product(matrix: Tensor, weight: Tensor) -> Tensor:
    kernel = product_kernel_for(matrix, weight.shape[1])
    if kernel is not None:
        return kernel(matrix, weight)
    if matrix.is_cuda and matrix.shape[1] > _LONG_SUM and weight.shape[1] >= _MANY_COLUMNS:
        return _split_product(matrix, weight)
    return _matmul(matrix, weight)


def _matmul(matrix: Tensor, weight: Tensor) -> Tensor:
    """Multiply in the precision of the matrix, sum in that of the weight: (…, n, d) and (…, d, c)."""
    if matrix.dtype == weight.dtype:
        return matrix @ weight
    multiply = torch.mm if matrix.dim() == 2 else torch.bmm
    return multiply(matrix, weight.to(matrix.dtype), out_dtype=weight.dtype)


def _split_product(matrix: Tensor, weight: Tensor) -> Tensor:
    """Sum over parts of the inner dimension, which keeps more of a GPU busy than its library does."""
    inner = matrix.shape[1] // _PARTS * _PARTS
    parts = (
        matrix[:, :inner].unflatten(1, (_PARTS, -1)).transpose(0, 1),
        weight[:inner].unflatten(0, (_PARTS, -1)),
    )
    total = _matmul(*parts).sum(0)
    return total if inner == matrix.shape[1] else total + _matmul(matrix[:, inner:], weight[inner:])
