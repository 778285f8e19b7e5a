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
        S and then CY, zero where a pair is not there yet or teaches nothing.
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
        self._place = square[0].clone()  # one at the place of the next pair

    def take(self, problems: Tensor) -> InverseHessian:
        """Return the matrices of some of the problems."""
        some = copy.copy(self)
        for name in ("curvature", "kept", "_size", "_inverse", "_product", "_changes"):
            setattr(some, name, getattr(self, name)[problems])
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
        """Take in a step and how it changed the gradient, (problems, D); it teaches nothing on a way up."""
        product = (step * change).sum(1, keepdim=True)
        teaches = product > 0
        step, change = (torch.where(teaches, each, 0) for each in (step, change))
        here, others = self._place, 1 - self._place
        new = torch.stack([step, self.curvature * change], 1)
        places = self._place.argmax() + _MEMORY * torch.arange(2, device=step.device)
        self.kept.index_copy_(1, places, new)
        along = (self.kept @ change[:, :, None]).double().squeeze(2)
        product = product.double()
        self._replace(along[:, :_MEMORY] * others, torch.where(teaches, product, 1))
        self._product.copy_(torch.where(here > 0, torch.where(teaches, product, 0), self._product))
        ours = along[:, _MEMORY:]
        outer = self._changes * others[:, None] * others + (ours * others)[:, :, None] * here
        self._changes.copy_(outer + here[:, None] * ours[:, None])
        own = (ours * here).sum(1, keepdim=True)
        self._size.copy_(torch.where(own > 0, product / own, 1))
        self._place.copy_(self._place.roll(1))

    def _replace(self, column: Tensor, pivot: Tensor) -> None:
        """Put a new last column of R, (problems, memory), above its diagonal (problems, 1), in R's inverse.

        The first row and column of a triangle can be left out of its inverse as of itself.
        """
        here, others = self._place, 1 - self._place
        rest = self._inverse * others[:, None] * others
        last = here / pivot - _times(rest, column) / pivot  # zero at the place itself but for the first term
        self._inverse.copy_(rest + last[:, :, None] * here)


def _times(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Multiply the matrix (m, m) of each problem with its vector, (problems, m)."""
    return (matrices @ vectors[:, :, None]).squeeze(2)
