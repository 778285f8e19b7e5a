"""From FAISS's candidates to neighbours: each is measured, so that distances are exact and ties are settled.

FAISS rounds distances to float32, counts a row among its own neighbours, and may return fewer than it is
asked for. What leaves here has none of that: k neighbours a row, nearest first, ties by the lower index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dahgnn.graph.faiss_index import FaissIndex
from dahgnn.graph.nearest import Neighbors, nearest, others
from dahgnn.ops.distances import squared_distances

# Candidates beyond those that are needed: the row itself, and some, as FAISS's rounding may put a farther one
# first.
_SPARE = 5
# Rows that are asked for at a time.
_ROWS = 8192
# What the effort is multiplied with where FAISS returns too few.
_HARDER = 4


@dataclass(frozen=True, eq=False)
class MeasuredSearch:
    """A search in an index with a given effort, and what it measures with.

    Attributes
    ----------
    index : FaissIndex
        Names the candidates.
    points : Tensor, (n, d)
        The rows of the index, which may be in a file.
    scale : float
        The power of two of `dahgnn.graph.exact.exact_scale`.
    effort : int
        How far the index looks.
    """

    index: FaissIndex
    points: Tensor
    scale: float
    effort: int

    def of_points(self, numbers: Tensor, k: int) -> Neighbors:
        """Find the k nearest others of those points whose numbers (q,) are given."""
        return _join([self._complete(self.points[some], k, some) for some in numbers.split(_ROWS)])

    def of_rows(self, rows: Tensor, k: int) -> Neighbors:
        """Find the k nearest points of other rows, (q, d)."""
        return _join([self._complete(some, k, None) for some in rows.split(_ROWS)])

    def lowest_effort(self, k: int) -> int:
        """Return the least effort that can find k neighbours."""
        return self.index.lowest_effort(k + _SPARE)

    def found(self, rows: Tensor, k: int, own: Tensor | None, effort: int) -> Neighbors:
        """Return what the index finds, nearest first; a distance is infinite where there is nobody.

        Parameters
        ----------
        rows : Tensor, (q, d)
            Those whose neighbours are wanted.
        k : int
            How many.
        own : Tensor of int64, (q,), or None
            Their numbers if they are points. No row is its own neighbour.
        effort : int
            How far the index looks.
        """
        candidates = self.index.candidates(rows, k + _SPARE, effort)
        if own is not None:
            candidates.masked_fill_(candidates == own.unsqueeze(1), -1)
        candidates = candidates.sort(1).values
        squares = self._measure(rows, candidates, own)
        squares, order = squares.sort(dim=1, stable=True)
        distances = (squares[:, :k].sqrt() / self.scale).to(self.points.dtype)
        return Neighbors(candidates.gather(1, order[:, :k]), distances)

    def _measure(self, rows: Tensor, candidates: Tensor, own: Tensor | None) -> Tensor:
        """Return the squared distances of candidates in float64, (q, c)."""
        squares = torch.full(candidates.shape, math.inf, dtype=torch.float64)
        here, place = (candidates >= 0).nonzero(as_tuple=True)
        there = candidates[here, place]
        if own is not None:
            squares[here, place] = squared_distances(self.points, own[here], there, self.scale)
            return squares
        # Rows and points have to stand in one tensor to be measured.
        needed, there = there.unique(return_inverse=True)
        both = torch.cat([self.points[needed], rows.to(self.points)])
        squares[here, place] = squared_distances(both, len(needed) + here, there, self.scale)
        return squares

    def _complete(self, rows: Tensor, k: int, own: Tensor | None) -> Neighbors:
        """Find k neighbours of every row: where the index has too few it looks farther, at last at all."""
        found = self.found(rows, k, own, self.effort)
        effort = self.effort
        while len(short := found.distances[:, -1].isinf().nonzero().squeeze(1)):
            here = None if own is None else own[short]
            if effort < self.index.highest_effort:
                effort = min(effort * _HARDER, self.index.highest_effort)
                again = self.found(rows[short], k, here, effort)
            else:
                again = self._exact(rows[short], k, here)
            found.indices[short], found.distances[short] = again.indices, again.distances
        return found

    def _exact(self, rows: Tensor, k: int, own: Tensor | None) -> Neighbors:
        if own is None:
            return nearest(rows, self.points, k)
        return others(nearest(rows, self.points, k + 1), own)


def _join(parts: list[Neighbors]) -> Neighbors:
    return Neighbors(
        torch.cat([part.indices for part in parts]), torch.cat([part.distances for part in parts])
    )
