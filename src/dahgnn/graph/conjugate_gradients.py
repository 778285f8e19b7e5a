"""Conjugate gradients for many right-hand sides at a time (Hestenes and Stiefel, 1952).

SciPy's take one at a time, and read a sparse matrix for each of them anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dahgnn.kernels.gpu.capture import capture

logger = logging.getLogger(__name__)

# Residual at which a solution counts as found, relative to the right-hand side; and where rows are many.
_TOLERANCE, _TOLERANCE_OF_MANY = 1e-5, 1e-3
# Steps at the most. The systems that need so many are those without a prior, whose labels are far away. Many
# rows have so few steps that labels come everywhere, but rows far from all of them do not settle.
_MOST_STEPS, _MOST_STEPS_OF_MANY = 2000, 100
_MANY = 200_000
# Steps after which a GPU is asked whether it is enough: the host waits for the answer.
_STEPS_A_LOOK = 6
# Numbers of a vector of unknowns up to which a GPU computes a step faster than the host starts it.
_FEW_NUMBERS = 1 << 22


class Limits(NamedTuple):
    """When the search for a solution ends.

    Attributes
    ----------
    tolerance : float
        The residual that is small enough, relative to the right-hand side.
    steps : int
        The most steps.
    level : int
        How loudly it is logged that these were not enough.
    """

    tolerance: float
    steps: int
    level: int


def limits_for(rows: int) -> Limits:
    """Return when the search ends for systems of so many rows."""
    if rows >= _MANY:
        return Limits(_TOLERANCE_OF_MANY, _MOST_STEPS_OF_MANY, logging.DEBUG)
    return Limits(_TOLERANCE, _MOST_STEPS, logging.WARNING)


class _State(NamedTuple):
    """Vectors (n, problems, c), which change in place, and what there is one of for each right-hand side."""

    solution: Tensor
    residual: Tensor
    direction: Tensor
    squares: Tensor


def _begin(right: Tensor) -> _State:
    """Return where the search begins; it takes the right-hand sides as their residual."""
    return _State(torch.zeros_like(right), right, right.clone(), (right * right).sum(0))


def _step(state: _State, product: Tensor, room: Tensor) -> None:
    """Take one step, given the product of the matrix with the direction."""
    solution, residual, direction, squares = state
    curvature = torch.mul(direction, product, out=room).sum(0)
    length = _ratio(squares, curvature)
    solution.addcmul_(direction, length)
    residual.addcmul_(product, length, value=-1)
    after = torch.mul(residual, residual, out=room).sum(0)
    torch.addcmul(residual, direction, _ratio(after, squares), out=direction)
    squares.copy_(after)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """Divide; what is solved has nothing below, or less by rounding, and stays as it is."""
    return (above / below).clamp_min_(0).nan_to_num_(0.0, 0.0)


def solve(multiply: Callable[[Tensor, Tensor], Tensor], right: Tensor) -> Tensor:
    """Solve a positive system for many right-hand sides at a time, (n, problems, c), which are lost.

    Where rows are many, these vectors are what a fit needs most memory for: there are five of them, of which
    one is ``right``.

    Parameters
    ----------
    multiply : callable
        Returns the product of the matrix with vectors; a second tensor like them is room for it.
    right : Tensor, (n, problems, c)
        The right-hand sides.
    """
    limits, state = limits_for(len(right)), _begin(right)
    room = torch.empty_like(right)
    enough = limits.tolerance**2 * state.squares
    look_every = _STEPS_A_LOOK if right.is_cuda else 1
    for number in range(limits.steps):
        if number % look_every == 0 and bool((state.squares <= enough).all()):
            return state.solution
        _step(state, multiply(state.direction, room), room)
    _say_unfinished(limits)
    return state.solution


def _say_unfinished(limits: Limits) -> None:
    sentence = "Conjugate gradients ended after %d steps, short of their tolerance."
    logger.log(limits.level, sentence, limits.steps)


def can_capture(right: Tensor) -> bool:
    """Tell whether replays of captured steps solve such systems sooner: on a GPU, if they are small."""
    return right.is_cuda and right.numel() <= _FEW_NUMBERS


class CapturedSolver:
    """Solve systems ((1 + λ) − F S) v = b of one shape on a CUDA device, by replays of captured steps.

    F is zero at some numbers and one at all others. F / (1 + λ) and b / (1 + λ) are copied to where they are
    read, so that one capture serves all systems. On a CPU nothing is captured, and steps are taken as they
    are: for tests.

    Parameters
    ----------
    spread : callable
        Multiplies vectors (n, problems, c) with S.
    like : Tensor, (n, problems, c)
        A right-hand side.
    """

    def __init__(self, spread: Callable[[Tensor], Tensor], like: Tensor) -> None:
        self.spread, self.limits = spread, limits_for(len(like))
        self.state, self.room = _begin(torch.zeros_like(like)), torch.empty_like(like)
        self.scaled_mask = torch.ones_like(like[:, :, :1])
        self.enough = torch.zeros_like(self.state.squares)
        self.done = torch.ones((), dtype=torch.bool, device=like.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self._one_at_a_time = threading.Lock()

    def _advance(self) -> None:
        """Go on up to the next look."""
        if self.graph is not None:
            self.graph.replay()
            return
        self._take_steps()  # at first as they are, in which libraries make their plans
        if self.done.is_cuda:
            self.graph = capture(self._take_steps)

    def _take_steps(self) -> None:
        """Take the steps between two looks, and note whether they were enough."""
        direction = self.state.direction
        for _ in range(_STEPS_A_LOOK):
            spread = self.spread(direction)
            product = torch.addcmul(direction, spread, self.scaled_mask, value=-1, out=spread)
            _step(self.state, product, self.room)
        self.done.copy_((self.state.squares <= self.enough).all())

    def solve(self, right: Tensor, strength: float, fixed: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Solve a system.

        Parameters
        ----------
        right : Tensor, (n, problems, c)
            The right-hand sides b, zero where F is.
        strength : float
            λ.
        fixed : tuple of Tensor, (f,), (f,), optional
            Rows and problems at which F is zero.
        """
        with self._one_at_a_time, torch.cuda.device_of(right):
            return self._solve(right, strength, fixed)

    def _solve(self, right: Tensor, strength: float, fixed: tuple[Tensor, Tensor] | None) -> Tensor:
        for here, there in zip(self.state, _begin(right / (1 + strength)), strict=True):
            here.copy_(there)
        self.scaled_mask.fill_(1 / (1 + strength))
        if fixed is not None:
            self.scaled_mask[fixed] = 0
        self.enough.copy_(self.limits.tolerance**2 * self.state.squares)
        for _ in range(-(-self.limits.steps // _STEPS_A_LOOK)):
            self._advance()
            if bool(self.done):
                break
        else:
            _say_unfinished(self.limits)
        return self.state.solution.clone()
