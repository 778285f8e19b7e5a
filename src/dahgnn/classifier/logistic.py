"""Logistic regression, several problems on the same rows at a time.

Problems differ in how much each row counts, zero included, and in their penalty: the parts of a
cross-validation, say. Their coefficients stand side by side, so that each step of the optimiser (L-BFGS:
Nocedal, 1980) takes the loss and the gradient of all of them by two large products.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dahgnn.classifier.quasi_newton import InverseHessian
from dahgnn.kernels.gpu.capture import capture
from dahgnn.threads import one_thread

# Steps at the most, those that were too long among them, and the gradient of the mean loss at which a
# problem is solved.
_STEPS, _GRADIENT = 200, 1e-4
# Steps after which a GPU is asked whether a problem is still under way.
_STEPS_A_LOOK = 2
# How much of the decrease that the slope promises a step must bring, and the shortest part that is tried.
_DECREASE, _SHORTEST = 1e-4, 2.0**-20
# A loss that has risen by so small a share has risen by rounding alone.
_ROUNDING = 1e-7


class _Point(NamedTuple):
    """Coefficients (problems, d, c), the loss of each problem, and its gradient."""

    weights: Tensor
    loss: Tensor
    gradient: Tensor


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
    *,
    looseness: float = 1.0,
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
    looseness : float
        How many times as large as usual the gradient may be in the end.

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
        looseness * _GRADIENT,
    )
    weights = _minimise_captured(problem) if features.is_cuda else _minimise(problem)
    return (directions @ weights[:, :-1]).transpose(0, 1).contiguous(), weights[:, -1]


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
        Factor of ‖W‖² / 2: 1 / C, or 2 / C if there are two classes.
    enough : float
        The gradient of the mean loss at which a problem is solved.
    """

    def __init__(
        self,
        features: Tensor,
        squares: Tensor,
        labels: Tensor,
        n_classes: int,
        counts: Tensor,
        penalties: Tensor,
        enough: float,
    ) -> None:
        # The last column makes the intercepts, which are free.
        self.features = torch.cat([features, features.new_ones((len(features), 1))], 1)
        self.squares = torch.cat([squares, squares.new_tensor([len(features)])])
        self.counts = counts.T.contiguous()  # (l, problems)
        self.total = self.counts.sum(0)
        # In the column of a row's class how much the row counts, (l, problems, c).
        self.targets = self.counts[:, :, None] * one_hot(labels, n_classes)[:, None].to(counts)
        self.penalties = penalties[:, None, None].repeat(1, len(self.squares), 1)  # (problems, d + 1, 1)
        self.penalties[:, -1] = 0
        self.enough = enough * self.total
        self.shape = (len(penalties), len(self.squares), n_classes)

    def take(self, problems: Tensor) -> _Problem:
        """Return some of the problems."""
        some = copy.copy(self)
        some.counts, some.total = self.counts[:, problems].contiguous(), self.total[problems]
        some.targets = self.targets[:, problems].contiguous()
        some.penalties, some.enough = self.penalties[problems], self.enough[problems]
        some.shape = (len(some.penalties), *self.shape[1:])
        return some

    def inverse_hessian(self) -> InverseHessian:
        """Return what is known at the start: the second derivatives where all classes are as likely."""
        counting = self.total / len(self.counts)
        own = self.squares[:, None] * counting[:, None, None] / self.shape[2] + self.penalties
        return InverseHessian((1 / own).expand(self.shape).flatten(1).contiguous())

    def at(self, weights: Tensor) -> _Point:
        """Return loss and gradient at some weights, (problems, d + 1, c)."""
        problems, d, classes = self.shape
        columns = weights.transpose(0, 1).reshape(d, -1)  # all problems side by side: one large product
        logarithms = (self.features @ columns).view(-1, problems, classes).log_softmax(2)
        likelihood = (self.targets * logarithms).sum((0, 2), dtype=torch.float64)
        errors = logarithms.exp_().mul_(self.counts[:, :, None]).sub_(self.targets)
        gradient = (self.features.T @ errors.flatten(1)).view(d, problems, classes).transpose(0, 1)
        pull = self.penalties * weights
        loss = (pull * weights).sum((1, 2), dtype=torch.float64) / 2 - likelihood
        return _Point(weights, loss, pull.add_(gradient))

    def is_solved(self, point: _Point) -> Tensor:
        """Tell which problems have next to no gradient, (problems,)."""
        return point.gradient.abs().amax((1, 2)) <= self.enough


@one_thread()
def _minimise(problem: _Problem) -> Tensor:
    descent = _Descent(problem)
    found, under_way = descent.point.weights.clone(), torch.arange(len(problem.total))
    for _ in range(_STEPS):
        descent.step()
        if not bool(descent.going.all()):
            found[under_way] = descent.point.weights
            if not bool(descent.going.any()):
                return found
            under_way, descent = under_way[descent.going], descent.take(descent.going)
    found[under_way] = descent.point.weights
    return found


@torch.no_grad()
def _minimise_captured(problem: _Problem) -> Tensor:
    """Do what `_minimise` does on a CUDA device, by replays of captured steps: each has some 100 launches.

    Problems that are solved stay in, and take steps of length zero.
    """
    descent = _Descent(problem)
    with torch.cuda.device(descent.going.device):
        descent.step()  # at first as it is, in which libraries make their plans
        graph = capture(descent.take_steps)
        for _ in range(_STEPS // _STEPS_A_LOOK):
            graph.replay()
            if not bool(descent.under_way):
                break
    return descent.point.weights


class _Descent:
    """Where each problem is, in tensors that stay where they are, so that a CUDA graph can hold a step.

    Problems do not wait for each other: while one looks for a step that is short enough, others go on.
    """

    def __init__(self, problem: _Problem) -> None:
        self.problem, self.inverse = problem, problem.inverse_hessian()
        self.point = problem.at(problem.features.new_zeros(problem.shape))
        self.length = torch.ones_like(problem.total)
        self.going = ~problem.is_solved(self.point)
        self.under_way = self.going.any()

    def take(self, problems: Tensor) -> _Descent:
        """Return where some of the problems are."""
        some = copy.copy(self)
        some.problem, some.inverse = self.problem.take(problems), self.inverse.take(problems)
        some.point = _Point(*(each[problems] for each in self.point))
        some.length, some.going = self.length[problems], self.going[problems]
        return some

    def take_steps(self) -> None:
        """Take the steps between two looks, and note whether a problem is still under way."""
        for _ in range(_STEPS_A_LOOK):
            self.step()
        self.under_way.copy_(self.going.any())

    def step(self) -> None:
        """Try a step for each problem; it is taken if the loss falls enough, and else half of it is next."""
        point, problem = self.point, self.problem
        direction = -self.inverse.apply(point.gradient.flatten(1)).view_as(point.gradient)
        direction = direction * (self.length * self.going)[:, None, None]
        after = problem.at(point.weights + direction)
        fallen = after.loss <= _allowed(point, direction)
        step = torch.where(fallen[:, None, None], after.weights - point.weights, 0)
        change = torch.where(fallen[:, None, None], after.gradient - point.gradient, 0)
        self.inverse.remember(step.flatten(1), change.flatten(1))
        for here, there in zip(point, after, strict=True):
            chosen = fallen.view(-1, *[1] * (here.dim() - 1))
            here.copy_(torch.where(chosen, there, here))
        self.length.copy_(torch.where(fallen, 1, self.length / 2))
        moved = step.abs().amax((1, 2)) > 0  # otherwise rounding is all that is left
        self.going &= torch.where(fallen, moved, self.length > _SHORTEST) & ~problem.is_solved(point)


def _allowed(point: _Point, step: Tensor) -> Tensor:
    """Return the greatest loss that a step may lead to, by the decrease that the slope promises."""
    promised = _product(step, point.gradient).double()
    return point.loss + (_ROUNDING * point.loss + _DECREASE * promised)


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Return the product of two vectors of each problem, (problems, d + 1, c) → (problems,)."""
    return (first * second).sum((1, 2))
