"""Exact nearest neighbours, tiled, on any device.

A matrix product finds candidates fast but rounds differently with every tile and device. So it only
gives *lower bounds* of the distances, with its rounding error subtracted; the candidates are then
measured one by one in float64 with a fixed order of summation, and a row is done when no other point
can be as near. The result is that of a brute-force search, ties by the lower index, whatever the tile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dahgnn.checks import as_features, bad_value, check_count, check_neighbours

# Numbers that a tile of bounds, or of differences, may hold: 32 MiB in float32.
_TILE = 1 << 23
# Squares of larger features would overflow, and of smaller ones vanish.
_LARGEST = 1e150
# Candidates beyond k. With them nearly every row of MNIST is settled at once.
_SPARE = 6


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The k nearest other nodes of each node, nearest first, ties by the lower index.

    Attributes
    ----------
    indices : Tensor of int64, (n, k)
        Who they are.
    distances : Tensor, (n, k)
        How far they are, Euclidean, in the features' precision.
    """

    indices: Tensor
    distances: Tensor


def knn(features: object, k: int, *, tile: int | None = None) -> Neighbors:
    """Find the k nearest other nodes of every node by Euclidean distance, section 3.1.

    Parameters
    ----------
    features : array, (n, d)
        One row a node; NumPy arrays and tensors of any device, float32 or float64 kept as they are.
    k : int
        Neighbours a node, the node itself not counted.
    tile : int, optional
        Rows and columns of the largest block of distances held at a time. It bounds the memory and
        never changes the result.

    Returns
    -------
    Neighbors

    Examples
    --------
    >>> knn([[0.0], [1.0], [3.0]], k=1).indices.tolist()
    [[1], [0], [1]]
    """
    points = as_features(features, "knn")
    check_neighbours(k, len(points), "knn")
    largest = float(points.abs().max())
    if largest > _LARGEST:
        raise bad_value(
            "features", "knn", f"at most {_LARGEST:g} in size", f"{largest:g}", "Scale them first."
        )
    if tile is None:
        tile = max(256, math.isqrt(_TILE))
    check_count("tile", tile, "knn")
    return _Search(points, k, min(tile, len(points))).run()


class _Search:
    def __init__(self, points: Tensor, k: int, tile: int) -> None:
        self.points, self.k, self.tile = points, k, tile
        # A power of two scales exactly. In float64 only very small features need it, whose squares
        # would vanish.
        largest = float(points.abs().max())
        self.scale = 2.0 ** min(1000, -math.frexp(largest)[1]) if 0 < largest < 1 / _LARGEST else 1.0

    def run(self) -> Neighbors:
        everybody = torch.arange(len(self.points), device=self.points.device)
        parts = [self._search(rows, self.coarse_bounds) for rows in everybody.split(self.tile)]
        return Neighbors(
            torch.cat([indices for indices, _ in parts]),
            torch.cat([(squares.sqrt() / self.scale).to(self.points.dtype) for _, squares in parts]),
        )

    @cached_property
    def coarse_bounds(self) -> _LowerBounds:
        return _LowerBounds(self.points, _working_precision(self.points.dtype), self.scale)

    @cached_property
    def fine_bounds(self) -> _LowerBounds:
        return _LowerBounds(self.points, torch.float64, self.scale)

    def _search(self, rows: Tensor, bounds: _LowerBounds) -> tuple[Tensor, Tensor]:
        """Find the neighbours of some rows, and their squared distances: two times (b, k)."""
        candidates, beyond = self._candidates(rows, bounds)
        indices, squares = self._nearest(rows, candidates)
        # Nobody outside the candidates is nearer than ``beyond``: above the k-th distance, all is settled.
        open_rows = (beyond <= squares[:, -1]).nonzero().squeeze(1)
        for some in open_rows.split(max(1, _TILE // len(self.points))):
            if bounds.dtype != torch.float64:
                indices[some], squares[some] = self._search(rows[some], self.fine_bounds)
            else:
                indices[some], squares[some] = self._settle(rows[some], squares[some, -1])
        return indices, squares

    def _candidates(self, rows: Tensor, bounds: _LowerBounds) -> tuple[Tensor, Tensor]:
        """Return the columns with the lowest bounds, (b, q), and a bound for all others, (b,)."""
        n = len(self.points)
        q = min(self.k + _SPARE, n - 1)
        lowest = torch.full((len(rows), 0), math.inf, dtype=bounds.dtype, device=rows.device)
        columns = torch.empty((len(rows), 0), dtype=torch.int64, device=rows.device)
        for start in range(0, n, self.tile):
            tile = bounds.tile(rows, start, min(start + self.tile, n))
            found = tile.topk(min(q + 1, tile.shape[1]), largest=False)
            lowest = torch.cat([lowest, found.values], 1)
            columns = torch.cat([columns, found.indices + start], 1)
            if lowest.shape[1] > q + 1:
                kept = lowest.topk(q + 1, largest=False)
                lowest, columns = kept.values, columns.gather(1, kept.indices)
        order = lowest.argsort(1)
        beyond = lowest.gather(1, order)[:, q].double() / bounds.shrink**2
        return columns.gather(1, order)[:, :q], beyond

    def _nearest(self, rows: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the k nearest candidates, ties by the lower index: two times (b, k)."""
        candidates = candidates.sort(1).values
        pairs = rows.repeat_interleave(candidates.shape[1])
        squares = self._measure(pairs, candidates.reshape(-1)).view(candidates.shape)
        order = squares.argsort(dim=1, stable=True)[:, : self.k]
        return candidates.gather(1, order), squares.gather(1, order)

    def _settle(self, rows: Tensor, farthest: Tensor) -> tuple[Tensor, Tensor]:
        """Measure every point that may be as near as ``farthest``, however many there are."""
        possible = self.fine_bounds.tile(rows, 0, len(self.points)) <= farthest.unsqueeze(1)
        # Among equal points the lowest indices win, so that a few of them are enough; else a thousand
        # empty rows would be measured a million times.
        few = possible & (possible.cumsum(1) <= self.k + _SPARE)
        indices, squares = self._nearest_possible(rows, few)
        rest = (squares[:, -1] > 0).nonzero().squeeze(1)
        if len(rest):
            indices[rest], squares[rest] = self._nearest_possible(rows[rest], possible[rest])
        return indices, squares

    def _nearest_possible(self, rows: Tensor, possible: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the k nearest of the columns that a mask (b, n) names, at least k a row."""
        which, columns = possible.nonzero(as_tuple=True)
        squares = self._measure(rows[which], columns)
        order = squares.argsort(stable=True)
        order = order[which[order].argsort(stable=True)]
        counts = which.bincount(minlength=len(rows))
        first = (counts.cumsum(0) - counts).unsqueeze(1)
        chosen = order[first + torch.arange(self.k, device=rows.device)]
        return columns[chosen], squares[chosen]

    def _measure(self, here: Tensor, there: Tensor) -> Tensor:
        """Return squared distances of pairs in float64, (p,); the same bits in any company."""
        step = max(1, _TILE // 8 // self.points.shape[1])
        parts = []
        for some, theirs in zip(here.split(step), there.split(step), strict=True):
            difference = self.points.index_select(0, some).double() - self.points.index_select(0, theirs)
            difference *= self.scale
            parts.append(_fold(difference * difference))
        return torch.cat(parts)


class _LowerBounds:
    """Lower bounds of scaled squared distances, by one matrix product a tile.

    With rows x of length r, computed in a precision of unit roundoff u, the value
    r_i² + r_j² − 2 x_i·x_j is off by less than c (r_i + r_j)², c = (d + 16) u, rounding of the inputs
    included (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). That error is
    subtracted within the product: it adds one column √c r to the rows and shrinks their squares.
    """

    def __init__(self, points: Tensor, dtype: torch.dtype, scale: float) -> None:
        self.dtype = dtype
        # Distances do not see the mean, their rounding errors do.
        exact = (points.double() - points.mean(0, dtype=torch.float64)) * scale
        # A second power of two keeps the products of ``dtype`` in range; the bounds lose it again.
        largest = float(exact.abs().max())
        self.shrink = 2.0 ** -math.frexp(largest)[1] if dtype == torch.float32 and largest > 0 else 1.0
        centred = (exact * self.shrink).to(dtype)
        lengths = centred.double().square().sum(1)
        slack = (points.shape[1] + 16) * torch.finfo(dtype).eps
        # The smallest normal number covers products that underflow.
        self.squares = (lengths * (1 - slack) - torch.finfo(dtype).tiny).to(dtype)
        self.rows = torch.cat([centred, (slack * lengths).sqrt().unsqueeze(1).to(dtype)], 1)

    def tile(self, rows: Tensor, start: int, stop: int) -> Tensor:
        """Return the bounds between ``rows`` and all nodes from start to stop, (b, stop − start)."""
        with torch.autocast(rows.device.type, enabled=False):
            bounds = self.rows[rows] @ self.rows[start:stop].T
        bounds = bounds.mul_(-2).add_(self.squares[rows].unsqueeze(1)).add_(self.squares[start:stop])
        own = (rows >= start) & (rows < stop)
        bounds[own.nonzero().squeeze(1), rows[own] - start] = math.inf
        return bounds


def _fold(terms: Tensor) -> Tensor:
    """Sum the last dimension by halves: an order of summation that no shape or device changes."""
    while terms.shape[-1] > 1:
        half = (terms.shape[-1] + 1) // 2
        upper = terms[..., half:]
        terms = terms[..., :half].contiguous()
        terms[..., : upper.shape[-1]] += upper
    return terms.squeeze(-1)


def _working_precision(dtype: torch.dtype) -> torch.dtype:
    """Return the precision of the products: float64 where float32 products are allowed to round more."""
    try:
        exact = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set by torch's newer interface, which this one does not read
        exact = False
    return dtype if exact else torch.float64
