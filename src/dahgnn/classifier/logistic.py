"""Logistic regression, several problems on the same rows at a time.

Problems differ in how much each row counts, zero included, and in their penalty: the parts of a
cross-validation, say. Their coefficients stand side by side, so that a step of the optimiser (L-BFGS:
Nocedal, 1980) is two products of matrices for all of them.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from dahgnn.threads import one_thread

# Steps at the most, and the gradient of the mean loss at which a problem is solved.
_STEPS, _GRADIENT = 200, 1e-4
# Pairs of steps and gradients that the optimiser remembers.
_MEMORY = 10
# How much of the decrease that the slope promises a step must bring, and how often it is halved until then.
_DECREASE, _HALVINGS = 1e-4, 20
# A loss that has risen by so small a share has risen by rounding alone.
_ROUNDING = 1e-7


class _Point(NamedTuple):
    """Coefficients (d, problems, c), the loss of each problem, and its gradient."""

    weights: Tensor
    loss: Tensor
    gradient: Tensor


class _Pair(NamedTuple):
    """A step, how it changed the gradient, and one over their product; zero where it teaches nothing."""

    step: Tensor
    change: Tensor
    inverse: Tensor


class Rotation(NamedTuple):
    """Orthonormal directions (d, r) in which all rows lie, and the squares of the rows in each, (r,).

    The rows have no covariance along these directions, so that each has a curvature of its own.
    """

    directions: Tensor
    squares: Tensor


def fit_logistic(
    features: Tensor,
    labels: Tensor,
    n_classes: int,
    counts: Tensor,
    inverse_penalties: Tensor,
    rotation: Rotation | None = None,
) -> tuple[Tensor, Tensor]:
    """Minimise Σ_i w_i ℓ(x_i, y_i) + ‖W‖² / (2C) for each problem, ℓ the cross-entropy of softmax(xW + b).

    Parameters
    ----------
    features : Tensor, (l, d)
        The rows.
    labels : Tensor of int64, (l,)
        Their classes.
    n_classes : int
        How many there are.
    counts : Tensor, (problems, l)
        w, how much each row counts in each problem.
    inverse_penalties : Tensor, (problems,)
        C. With two classes it counts half, as the two columns of W are one then.
    rotation : Rotation, optional
        What `rotate` gives for the rows, if it is known.

    Returns
    -------
    coefficients, intercepts : Tensor, (d, problems, c), (problems, c)
    """
    directions, squares = rotate(features) if rotation is None else rotation
    problem = _Problem(
        features @ directions,
        squares,
        labels,
        n_classes,
        counts.to(features),
        (2 if n_classes == 2 else 1) / inverse_penalties.to(features),
    )
    weights = _minimise(problem)
    coefficients = (directions @ weights[:-1].flatten(1)).unflatten(1, weights.shape[1:])
    return coefficients, weights[-1]


def rotate(rows: Tensor) -> Rotation:
    """Return the directions of rows (l, d)."""
    exact = rows.double()
    wide = rows.shape[1] > len(rows)
    values, vectors = torch.linalg.eigh(exact @ exact.T if wide else exact.T @ exact)
    kept = values > 1e-10 * values.max().clamp_min(1e-30)
    values, vectors = values[kept], vectors[:, kept]
    directions = exact.T @ (vectors / values.sqrt()) if wide else vectors
    return Rotation(directions.to(rows.dtype), values.to(rows.dtype))


class _Problem:
    """What is minimised.

    Parameters
    ----------
    features, squares : Tensor, (l, d), (d,)
        The rows, without covariance, and the sum of the squares of each column.
    labels, n_classes, counts
        As in `fit_logistic`.
    penalties : Tensor, (problems,)
        1 / C.
    """

    def __init__(
        self,
        features: Tensor,
        squares: Tensor,
        labels: Tensor,
        n_classes: int,
        counts: Tensor,
        penalties: Tensor,
    ) -> None:
        # The last column makes the intercepts, which are free.
        self.features = torch.cat([features, features.new_ones((len(features), 1))], 1)
        self.squares = torch.cat([squares, squares.new_tensor([len(features)])])
        self.labels, self.counts = labels, counts.T.contiguous()  # (l, problems)
        self.total = self.counts.sum(0)
        self.penalties = penalties.repeat(len(self.squares), 1)[:, :, None]  # (d + 1, problems, 1)
        self.penalties[-1] = 0
        self.shape = (len(self.squares), len(penalties), n_classes)

    def take(self, problems: Tensor) -> _Problem:
        """Return some of the problems."""
        some = copy.copy(self)
        some.counts, some.total = self.counts[:, problems].contiguous(), self.total[problems]
        some.penalties = self.penalties[:, problems]
        some.shape = (self.shape[0], some.penalties.shape[1], self.shape[2])
        return some

    @property
    def inverse_curvature(self) -> Tensor:
        """One over the second derivative where all classes are as likely, (d + 1, problems, 1)."""
        counting = self.total / len(self.labels)
        return 1 / (self.squares[:, None, None] * counting[:, None] / self.shape[2] + self.penalties)

    def at(self, weights: Tensor) -> _Point:
        """Return loss and gradient at some weights, (d, problems, c)."""
        scores = (self.features @ weights.flatten(1)).unflatten(1, self.shape[1:])
        logarithms = scores.log_softmax(2)
        own = self.labels[:, None, None].expand(-1, self.shape[1], 1)
        loss = -(self.counts * logarithms.gather(2, own).squeeze(2)).sum(0, dtype=torch.float64)
        errors = logarithms.exp_()
        errors.scatter_add_(2, own, errors.new_full((1, 1, 1), -1.0).expand_as(own))
        errors *= self.counts[:, :, None]
        pull = self.penalties * weights
        gradient = (self.features.T @ errors.flatten(1)).view(self.shape) + pull
        return _Point(weights, loss + (pull * weights).sum((0, 2), dtype=torch.float64) / 2, gradient)

    def is_solved(self, point: _Point) -> Tensor:
        """Tell which problems have next to no gradient, (problems,)."""
        return point.gradient.abs().amax((0, 2)) <= _GRADIENT * self.total


@one_thread()
def _minimise(problem: _Problem) -> Tensor:
    start = torch.zeros(problem.shape, dtype=problem.features.dtype, device=problem.features.device)
    point, pairs, curvature = problem.at(start), list[_Pair](), problem.inverse_curvature
    found, under_way = start.clone(), torch.arange(problem.shape[1], device=start.device)
    stuck = torch.zeros_like(problem.total, dtype=torch.bool)
    for _ in range(_STEPS):
        going = ~(problem.is_solved(point) | stuck)
        if not bool(going.all()):
            found[:, under_way] = point.weights
            if not bool(going.any()):
                return found
            under_way, problem, curvature = under_way[going], problem.take(going), curvature[:, going]
            point = _Point(point.weights[:, going], point.loss[going], point.gradient[:, going])
            pairs = [_Pair(each[0][:, going], each[1][:, going], each[2][going]) for each in pairs]
        apply_inverse = _apply_inverse_at_once if point.gradient.is_cuda else _apply_inverse
        direction = -apply_inverse(pairs, point.gradient, curvature)
        after = _search(problem, point, direction)
        step, change = after.weights - point.weights, after.gradient - point.gradient
        product = _product(step, change)
        pairs = [*pairs[-_MEMORY + 1 :], _Pair(step, change, torch.where(product > 0, 1 / product, 0))]
        stuck = step.abs().amax((0, 2)) == 0  # rounding is all that is left
        point = after
    found[:, under_way] = point.weights
    return found


def _search(problem: _Problem, point: _Point, direction: Tensor) -> _Point:
    """Go along a direction, each problem as far as its loss falls; one whose loss does not, stays."""
    slope = _product(direction, point.gradient)
    length = torch.ones_like(slope)
    for _ in range(_HALVINGS):
        after = problem.at(point.weights + length[:, None] * direction)
        allowed = _ROUNDING * point.loss + _DECREASE * (length * slope).double()
        fallen = after.loss <= point.loss + allowed
        if bool(fallen.all()):
            return after
        length = torch.where(fallen, length, length / 2)
    return problem.at(point.weights + torch.where(fallen, length, 0)[:, None] * direction)


def _apply_inverse(pairs: list[_Pair], gradient: Tensor, curvature: Tensor) -> Tensor:
    """Multiply a gradient with the inverse of the Hessian, as far as the last steps tell of it.

    Parameters
    ----------
    pairs : list of _Pair
        The last steps, the latest one behind.
    gradient : Tensor, (d, problems, c)
        What is multiplied.
    curvature : Tensor, (d, problems, 1)
        The inverse of the Hessian's diagonal before the first step.
    """
    result, along = gradient.clone(), []
    for step, change, inverse in reversed(pairs):
        along.append(inverse * _product(step, result))
        result -= along[-1][:, None] * change
    result *= curvature
    if pairs:
        _, change, inverse = pairs[-1]
        size = inverse * _product(change, curvature * change)
        result *= torch.where(size > 0, 1 / size, 1)[:, None]
    for (step, change, inverse), before in zip(pairs, reversed(along), strict=True):
        result += (before - inverse * _product(change, result))[:, None] * step
    return result


def _apply_inverse_at_once(pairs: list[_Pair], gradient: Tensor, curvature: Tensor) -> Tensor:
    """Do what `_apply_inverse` does in few operations, for a device to which each takes as long as another.

    It is the compact form of Byrd, Nocedal and Schnabel (1994). With H the inverse before the first step,
    S and Y the steps and changes, and R the upper triangle of SᵀY, it is H g + S v − H Y u, where R u = Sᵀg
    and Rᵀv = diag(R) u + Yᵀ H Y u − Yᵀ H g.
    """
    if not pairs:
        return gradient * curvature
    given, scale = (
        each.transpose(0, 1).flatten(1)[:, None].double()
        for each in (gradient, curvature.expand_as(gradient))
    )  # (problems, 1, d · c)
    steps, changes = (
        torch.stack(each).permute(2, 0, 1, 3).flatten(2).double()
        for each in ([pair.step for pair in pairs], [pair.change for pair in pairs])
    )  # (problems, pairs, d · c)
    products = (steps * changes).sum(2)
    taught = products > 0
    steps, changes = (each * taught[:, :, None] for each in (steps, changes))
    scaled = scale * changes
    curved = scaled @ changes.mT
    size = curved[:, -1, -1] / products[:, -1]
    factor = torch.where(taught[:, -1] & (size > 0), 1 / size, 1)[:, None, None]
    # A pair that teaches nothing is a row and a column of zeros; one on the diagonal makes it no trouble.
    upper = (steps @ changes.mT).triu() + torch.diag_embed((~taught).double())
    first = torch.linalg.solve_triangular(upper, steps @ given.mT, upper=True)
    inner = torch.where(taught, products, 0)[:, :, None] * first
    inner += factor * (curved @ first - scaled @ given.mT)
    second = torch.linalg.solve_triangular(upper.mT, inner, upper=False)
    result = factor * (scale * given - first.mT @ scaled) + second.mT @ steps
    shape = (gradient.shape[1], gradient.shape[0], gradient.shape[2])
    return result.view(shape).transpose(0, 1).to(gradient.dtype)


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Return the product of two vectors of each problem, (d, problems, c) → (problems,)."""
    return (first * second).sum((0, 2))
