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

from dahgnn.classifier.quasi_newton import InverseHessian
from dahgnn.kernels.gpu.capture import capture
from dahgnn.threads import one_thread

# Steps at the most, and the gradient of the mean loss at which a problem is solved.
_STEPS, _GRADIENT = 200, 1e-4
# How much of the decrease that the slope promises a step must bring, and how often it is halved until then.
_DECREASE, _HALVINGS = 1e-4, 20
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
        self.penalties = penalties[:, None, None].repeat(1, len(self.squares), 1)  # (problems, d + 1, 1)
        self.penalties[:, -1] = 0
        self.shape = (len(penalties), len(self.squares), n_classes)

    def take(self, problems: Tensor) -> _Problem:
        """Return some of the problems."""
        some = copy.copy(self)
        some.counts, some.total = self.counts[:, problems].contiguous(), self.total[problems]
        some.penalties = self.penalties[problems]
        some.shape = (len(some.penalties), *self.shape[1:])
        return some

    def start(self) -> Tensor:
        """Return the weights at which the search begins."""
        return self.features.new_zeros(self.shape)

    def inverse_hessian(self) -> InverseHessian:
        """Return what is known at the start: the second derivatives where all classes are as likely."""
        counting = self.total / len(self.labels)
        own = self.squares[:, None] * counting[:, None, None] / self.shape[2] + self.penalties
        return InverseHessian((1 / own).expand(self.shape).flatten(1).contiguous())

    def at(self, weights: Tensor) -> _Point:
        """Return loss and gradient at some weights, (problems, d + 1, c)."""
        problems, d, classes = self.shape
        columns = weights.transpose(0, 1).reshape(d, -1)  # all problems side by side: one large product
        logarithms = (self.features @ columns).view(-1, problems, classes).log_softmax(2)
        own = self.labels[:, None, None].expand(-1, problems, 1)
        loss = -(self.counts * logarithms.gather(2, own).squeeze(2)).sum(0, dtype=torch.float64)
        errors = logarithms.exp_()
        errors.scatter_add_(2, own, errors.new_full((1, 1, 1), -1.0).expand_as(own))
        errors *= self.counts[:, :, None]
        pull = self.penalties * weights
        gradient = (self.features.T @ errors.flatten(1)).view(d, problems, classes).transpose(0, 1)
        loss += (pull * weights).sum((1, 2), dtype=torch.float64) / 2
        return _Point(weights, loss, pull.add_(gradient))

    def is_solved(self, point: _Point) -> Tensor:
        """Tell which problems have next to no gradient, (problems,)."""
        return point.gradient.abs().amax((1, 2)) <= _GRADIENT * self.total


@one_thread()
def _minimise(problem: _Problem) -> Tensor:
    start = problem.start()
    point, inverse = problem.at(start), problem.inverse_hessian()
    found, under_way = start.clone(), torch.arange(len(start), device=start.device)
    stuck = torch.zeros_like(problem.total, dtype=torch.bool)
    for _ in range(_STEPS):
        going = ~(problem.is_solved(point) | stuck)
        if not bool(going.all()):
            found[under_way] = point.weights
            if not bool(going.any()):
                return found
            under_way, problem, inverse = under_way[going], problem.take(going), inverse.take(going)
            point = _Point(*(each[going] for each in point))
        after = _search(problem, point, _direction(inverse, point))
        step, change = after.weights - point.weights, after.gradient - point.gradient
        inverse.remember(step.flatten(1), change.flatten(1))
        stuck = step.abs().amax((1, 2)) == 0  # rounding is all that is left
        point = after
    found[under_way] = point.weights
    return found


@torch.no_grad()
def _minimise_captured(problem: _Problem) -> Tensor:
    """Do what `_minimise` does on a CUDA device, by replays of a captured step: each has some 100 launches.

    Problems that are solved stay in, and take steps of length zero.
    """
    descent = _Descent(problem)
    with torch.cuda.device(descent.going.device):
        descent.look_ahead()  # at first as it is, in which libraries make their plans
        if not bool(descent.told[1]):
            descent.search()
        descent.go_on()
        graph = capture(descent.go_on)
        for _ in range(_STEPS - 1):
            going, fallen = descent.told.tolist()
            if not going:
                break
            if not fallen:
                descent.search()
            graph.replay()
    return descent.point.weights


class _Descent:
    """The state of `_minimise` in tensors that stay where they are, and the parts of its step."""

    def __init__(self, problem: _Problem) -> None:
        self.problem, self.inverse = problem, problem.inverse_hessian()
        start = problem.start()
        self.point, self.after = problem.at(start), problem.at(start.clone())
        self.direction = torch.zeros_like(start)
        self.going = ~problem.is_solved(self.point)
        self.told = torch.ones(2, dtype=torch.bool, device=start.device)

    def look_ahead(self) -> None:
        """Find where a whole step leads; tell whether a problem is under way, and whether all losses fell."""
        point, direction = self.point, _direction(self.inverse, self.point)
        self.direction.copy_(torch.where(self.going[:, None, None], direction, 0))
        _copy(self.problem.at(point.weights + self.direction), self.after)
        slope = _product(self.direction, point.gradient)
        self.told[0] = self.going.any()
        self.told[1] = (self.after.loss <= _allowed(point, slope)).all()

    def search(self) -> None:
        """Find a shorter step for the problems whose loss did not fall."""
        _copy(_search(self.problem, self.point, self.direction), self.after)

    def go_on(self) -> None:
        """Go where the step leads, and find where the next one does."""
        self.accept()
        self.look_ahead()

    def accept(self) -> None:
        """Go where the step leads, and remember it."""
        step, change = self.after.weights - self.point.weights, self.after.gradient - self.point.gradient
        self.inverse.remember(step.flatten(1), change.flatten(1))
        _copy(self.after, self.point)
        self.going &= (step.abs().amax((1, 2)) > 0) & ~self.problem.is_solved(self.point)


def _direction(inverse: InverseHessian, point: _Point) -> Tensor:
    """Return where a step leads to, (problems, d + 1, c)."""
    return -inverse.apply(point.gradient.flatten(1)).view_as(point.gradient)


def _copy(source: _Point, target: _Point) -> None:
    for here, there in zip(source, target, strict=True):
        there.copy_(here)


def _allowed(point: _Point, decrease: Tensor) -> Tensor:
    """Return the greatest loss that a step may lead to, given the decrease that the slope promises."""
    return point.loss + (_ROUNDING * point.loss + _DECREASE * decrease.double())


def _search(problem: _Problem, point: _Point, direction: Tensor) -> _Point:
    """Go along a direction, each problem as far as its loss falls; one whose loss does not, stays."""
    slope = _product(direction, point.gradient)
    length = torch.ones_like(slope)
    for _ in range(_HALVINGS):
        after = problem.at(point.weights + length[:, None, None] * direction)
        fallen = after.loss <= _allowed(point, length * slope)
        if bool(fallen.all()):
            return after
        length = torch.where(fallen, length, length / 2)
    return problem.at(point.weights + torch.where(fallen, length, 0)[:, None, None] * direction)


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Return the product of two vectors of each problem, (problems, d + 1, c) → (problems,)."""
    return (first * second).sum((1, 2))
