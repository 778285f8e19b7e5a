"""The inverse of a Hessian, as far as the last steps of an optimiser tell of it, for several problems."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

# Pairs of steps and gradients that are remembered.
_MEMORY = 10


class InverseHessian:
    """The matrix of L-BFGS in its compact form (Byrd, Nocedal and Schnabel, 1994), of D unknowns.

    With the last steps S and the changes Y of the gradient that they brought, C the inverse of the Hessian's
    diagonal before the first step, γ its scale, and R the upper triangle of SᵀY with the diagonal P,

        H = γC + [S, γCY] [[R⁻ᵀ (P + γ YᵀCY) R⁻¹, −R⁻ᵀ], [−R⁻¹, 0]] [S, γCY]ᵀ.

    A product with it takes two passes over all steps, where the usual two loops go from step to step. All
    tensors stay where they are, so that a CUDA graph can hold what changes them. A new pair takes the place
    of the oldest; rows and columns of R⁻¹ stand in the order of the places, not of time.

    Parameters
    ----------
    curvature : Tensor, (problems, D)
        The diagonal of C.

    Attributes
    ----------
    kept : Tensor, (problems, 2 · memory, D)
        S and then CY, zero where a pair is not there yet.
    """

    def __init__(self, curvature: Tensor) -> None:
        problems = len(curvature)
        self.curvature = curvature
        self.kept = curvature.new_zeros(problems, 2 * _MEMORY, curvature.shape[1])
        square = torch.eye(_MEMORY, dtype=torch.float64, device=curvature.device)
        self._inverse = square.repeat(problems, 1, 1)  # R⁻¹
        self._changes = torch.zeros_like(self._inverse)  # YᵀCY
        self._product = self._changes[:, 0].clone()  # P
        self._size = self._inverse[:, :1, 0].clone()  # γ
        self._place = self._inverse[:, 0].clone()  # one at the place of the next pair

    def take(self, problems: Tensor) -> InverseHessian:
        """Return the matrices of some of the problems."""
        some = copy.copy(self)
        vars(some).update({name: each[problems] for name, each in vars(self).items()})
        return some

    def apply(self, gradient: Tensor) -> Tensor:
        """Multiply a gradient with the matrix, (problems, D)."""
        along = (self.kept @ gradient[:, :, None]).double().squeeze(2)  # Sᵀg and YᵀCg
        steps, changes = along[:, :_MEMORY], self._size * along[:, _MEMORY:]
        solved = _times(self._inverse, steps)
        mixed = self._product * solved + self._size * _times(self._changes, solved) - changes
        shares = torch.cat([_times(self._inverse.mT, mixed), -self._size * solved], 1).to(gradient)
        plain = self._size.to(gradient) * (self.curvature * gradient)
        return torch.baddbmm(plain[:, None], shares[:, None], self.kept).squeeze(1)

    def remember(self, step: Tensor, change: Tensor) -> None:
        """Take in a step and how it changed the gradient, (problems, D).

        A step of no length, or on a way up, teaches nothing: the matrix of its problem stays as it is.
        """
        product = (step * change).sum(1, keepdim=True)
        teaches = product > 0
        step, change = (torch.where(teaches, each, 0) for each in (step, change))
        here = self._place * teaches  # nowhere if nothing is taught
        others = 1 - here
        self._keep(here, torch.stack([step, self.curvature * change], 1))
        along = (self.kept @ change[:, :, None]).double().squeeze(2)
        product = torch.where(teaches, product.double(), 1)
        self._product.mul_(others).add_(product * here)
        self._invert(here, along[:, :_MEMORY] * others, product)
        changes = along[:, _MEMORY:]
        outer = (changes * others)[:, :, None] * here[:, None] + here[:, :, None] * changes[:, None]
        self._changes.mul_(others[:, :, None]).mul_(others[:, None]).add_(outer)
        own = (changes * here).sum(1, keepdim=True)
        self._size.copy_(torch.where(teaches & (own > 0), product / own, self._size))
        self._place.copy_(torch.where(teaches, self._place.roll(1, 1), self._place))

    def _keep(self, here: Tensor, pair: Tensor) -> None:
        """Put pairs (problems, 2, D) at their places; where there is none, what is first stays."""
        place = here.argmax(1)[:, None] + _MEMORY * torch.arange(2, device=here.device)
        places = place[:, :, None].expand_as(pair)
        kept = self.kept.gather(1, places)
        self.kept.scatter_(1, places, torch.where(here.any(1)[:, None, None], pair, kept))

    def _invert(self, here: Tensor, column: Tensor, pivot: Tensor) -> None:
        """Put a new last column of R, (problems, memory), above its diagonal (problems, 1), in R's inverse.

        The first row and column of a triangle can be left out of its inverse as of itself.
        """
        others = 1 - here
        self._inverse.mul_(others[:, :, None]).mul_(others[:, None])
        last = (here - _times(self._inverse, column)) / pivot
        self._inverse.add_(last[:, :, None] * here[:, None])


def _times(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Multiply the matrix (m, m) of each problem with its vector, (problems, m)."""
    return (matrices @ vectors[:, :, None]).squeeze(2)
