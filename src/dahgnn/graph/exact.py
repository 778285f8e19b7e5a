"""The exact search for nearest neighbours, tiled, on any device.

A matrix product finds candidates fast but rounds differently with every tile and device. So it only
gives *lower bounds* of the distances, with its rounding error subtracted; the candidates are then
measured one by one in float64 with a fixed order of summation, and a row is done when no other point
can be as near. The result is that of a brute-force search, ties by the lower index, whatever the tile.

A distance has two ends: each bound is computed once and offered to both, so that half a product is enough.
Where a processor multiplies numbers of bfloat16 faster still, their bounds come first (`dahgnn.graph.rough`).
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from dahgnn.checks import bad_value, check_count
from dahgnn.graph.rough import RoughBounds
from dahgnn.ops.backend import multiplies_pairs
from dahgnn.ops.distances import squared_distances, working_precision

# Numbers that a tile of bounds may hold: 32 MiB in float32, which is enough for the CPU. A GPU waits for
# the host between tiles, so that it gets larger ones, 256 MiB.
_TILE, _TILE_GPU = 1 << 23, 1 << 26
# Squares of larger features would overflow, and of smaller ones vanish.
_LARGEST = 1e150
# Candidates beyond k. With them nearly every row of MNIST is settled at once.
_SPARE = 6
# The same where bounds are rough, and how many times as many are listed of a row that they leave open.
_SPARE_ROUGH, _LONGER = 14, 6
# Columns from which on rough bounds pay, and the rows by which that is tried.
_FEW_COLUMNS, _TRIAL = 32, 120
# Rows whose rough bounds are listed at a time.
_ROUGH_ROWS = 8192
# Bounds of which only the lowest is looked at, until it is low enough. Tiles hold whole groups.
_GROUP = 16


class ExhaustiveSearch:
    """One search: the k nearest among the first ``among`` points, by default among all but the point itself.

    Parameters
    ----------
    points : Tensor, (n, d)
        Those that are searched, and behind them those that are asked for.
    k : int
        Neighbours of each.
    tile : int or None
        See `dahgnn.graph.nearest.knn`.
    owner : str
        The name that errors give to the caller.
    among : int, optional
        How many points are searched.
    """

    def __init__(
        self, points: Tensor, k: int, tile: int | None, owner: str, among: int | None = None
    ) -> None:
        if tile is None:
            tile = math.isqrt(tile_size(points))
        check_count("tile", tile, owner)
        self.points, self.k, self.area = points, k, tile**2
        self.among = len(points) if among is None else among
        self.scale = exact_scale(points, owner)
        # All candidates, and the bound for all others. A point is no candidate of its own.
        self.length = min(k + _SPARE, self.among - (among is None)) + 1
        # Low and wide: only the bounds among the rows of a tile are computed twice.
        self.height, self.width = (max(1, side // _GROUP) * _GROUP for side in (tile // 3, 3 * tile))

    def run(self) -> tuple[Tensor, Tensor]:
        """Return indices and distances of the neighbours of every point, two times (n, k)."""
        everybody = torch.arange(len(self.points), device=self.points.device)
        if self._settles_roughly(everybody):
            indices, squares = self._look_roughly(everybody)
        else:
            indices, squares = self._resolve(everybody, self._sweep(), self.coarse_bounds)
        return indices, (squares.sqrt() / self.scale).to(self.points.dtype)

    def run_for_others(self) -> tuple[Tensor, Tensor]:
        """Return the same for the points behind the first ``among``, with distances in float64."""
        others = torch.arange(self.among, len(self.points), device=self.points.device)
        look = self._look_roughly if self._settles_roughly(others) else self._look
        indices, squares = look(others)
        return indices, squares.sqrt() / self.scale

    @cached_property
    def rough_bounds(self) -> RoughBounds:
        """Bounds from products of bfloat16, for processors that have an instruction for them."""
        return RoughBounds(self.points, self.among, self.scale)

    @cached_property
    def coarse_bounds(self) -> _LowerBounds:
        """Bounds in the precision of the points, which most rows need alone."""
        return _LowerBounds(self.points, working_precision(self.points.dtype), self.scale)

    @cached_property
    def fine_bounds(self) -> _LowerBounds:
        """Bounds in double precision, for rows that the coarse ones leave open."""
        if self.coarse_bounds.dtype == torch.float64:
            return self.coarse_bounds
        return _LowerBounds(self.points, torch.float64, self.scale)

    def _settles_roughly(self, rows: Tensor) -> bool:
        """Tell whether rough bounds come fast here, and settle nearly all of a few rows."""
        most = _LONGER * (self.k + _SPARE_ROUGH) + 1
        if len(rows) == 0 or most >= self.among or self.points.shape[1] < _FEW_COLUMNS:
            return False
        if not multiplies_pairs(self.points):
            return False
        some = rows[:: 1 + len(rows) // _TRIAL]
        return len(self._list_roughly(some, 1)[2]) * 10 <= len(some)

    def _look_roughly(self, rows: Tensor, times: int = 1) -> tuple[Tensor, Tensor]:
        """Find the neighbours of some rows, and their squared distances: two times (b, k).

        Rows that rough bounds leave open get a longer list of them, and after that finer ones.
        """
        found = []
        for some in rows.tensor_split(-(-len(rows) // _ROUGH_ROWS)):
            indices, squares, left = self._list_roughly(some, times)
            if len(left):
                again = self._look_roughly(some[left], _LONGER) if times == 1 else self._look(some[left])
                indices[left], squares[left] = again
            found.append((indices, squares))
        return _join(found)

    def _list_roughly(self, rows: Tensor, times: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same for the rows of one list of rough bounds, and the places of those left open."""
        length = times * (self.k + _SPARE_ROUGH) + 1
        lowest, candidates = self.rough_bounds.lowest(rows, length)
        indices, squares = self._nearest(rows, candidates[:, :-1], lowest[:, :-1])
        return indices, squares, (lowest[:, -1] <= squares[:, -1]).nonzero().squeeze(1)

    def _look(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Find the same by coarse bounds, and by fine ones where these leave a row open."""
        some = rows.split(max(1, self.area // self.among))
        bounds = self.coarse_bounds
        return _join([self._resolve(each, self._scan(each, bounds), bounds) for each in some])

    def _sweep(self) -> _Shortlist:
        """List the lowest coarse bounds of every row, from the lower triangle of all pairs."""
        bounds = self.coarse_bounds
        total = len(bounds.right)
        shortlist = _Shortlist(total, self.length, bounds.right)
        buffer = bounds.right.new_empty(min(self.height, total) * min(self.width, total))
        for start in range(0, total, self.height):
            stop = min(start + self.height, total)
            left = bounds.left(slice(start, stop))
            for first in range(0, stop, self.width):
                last = min(first + self.width, stop)
                tile = buffer[: (stop - start) * (last - first)].view(stop - start, last - first)
                bounds.tile(left, first, last, out=tile)
                if last > start:  # nobody is a neighbour of itself
                    tile.diagonal(start - first).fill_(math.inf)
                shortlist.offer(start, tile, first)
                if first < start:
                    shortlist.offer(first, tile[:, : start - first].T, start)
        return shortlist

    def _scan(self, rows: Tensor, bounds: _LowerBounds) -> _Shortlist:
        """List the lowest bounds of some rows."""
        total = -(-self.among // _GROUP) * _GROUP
        shortlist = _Shortlist(len(rows), self.length, bounds.right)
        left = bounds.left(rows)
        for first in range(0, total, self.width):
            last = min(first + self.width, total)
            tile = bounds.tile(left, first, last)
            tile[:, max(0, self.among - first) :] = math.inf
            own = (rows >= first) & (rows < min(last, self.among))
            tile[own.nonzero().squeeze(1), rows[own] - first] = math.inf
            shortlist.offer(0, tile, first)
        return shortlist

    def _resolve(self, rows: Tensor, shortlist: _Shortlist, bounds: _LowerBounds) -> tuple[Tensor, Tensor]:
        """Find the neighbours of some rows, and their squared distances: two times (b, k)."""
        lowest = shortlist.values[: len(rows)].double() / bounds.shrink**2
        indices, squares = self._nearest(rows, shortlist.columns[: len(rows), :-1], lowest[:, :-1])
        # Nobody but the candidates is nearer than the last bound: above the k-th distance, all is settled.
        open_rows = (lowest[:, -1] <= squares[:, -1]).nonzero().squeeze(1)
        if len(open_rows) == 0:
            return indices, squares
        for some in open_rows.split(max(1, self.area // self.among)):
            if bounds.dtype != torch.float64:
                again = self._scan(rows[some], self.fine_bounds)
                indices[some], squares[some] = self._resolve(rows[some], again, self.fine_bounds)
            else:
                indices[some], squares[some] = self._settle(rows[some], squares[some, -1])
        return indices, squares

    def _nearest(self, rows: Tensor, candidates: Tensor, lowest: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the k nearest candidates, (b, q), ties by the lower index: two times (b, k)."""
        first = candidates[:, : self.k]
        squares = torch.full_like(lowest, math.inf)
        squares[:, : self.k] = self._measure(rows.unsqueeze(1).expand_as(first), first)
        farthest = squares[:, : self.k].amax(1, keepdim=True)
        # The spare ones are measured only where they may take the place of one of the first k.
        which, spare = (lowest[:, self.k :] <= farthest).nonzero(as_tuple=True)
        spare += self.k
        squares[which, spare] = self._measure(rows[which], candidates[which, spare])
        candidates, order = candidates.sort(1)
        squares, order = squares.gather(1, order).sort(dim=1, stable=True)
        return candidates.gather(1, order[:, : self.k]), squares[:, : self.k]

    def _settle(self, rows: Tensor, farthest: Tensor) -> tuple[Tensor, Tensor]:
        """Measure every point that may be as near as ``farthest``, however many there are."""
        bounds = self.fine_bounds.tile(self.fine_bounds.left(rows), 0, self.among)
        possible = bounds <= farthest.unsqueeze(1)
        own = (rows < self.among).nonzero().squeeze(1)
        possible[own, rows[own]] = False
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
        """Return squared distances of pairs in float64, of any shape; the same bits in any company."""
        squares = squared_distances(self.points, here.flatten(), there.flatten(), self.scale)
        return squares.view(here.shape)


def _join(found: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    indices, squares = (torch.cat(parts) for parts in zip(*found, strict=True))
    return indices, squares


class _Shortlist:
    """The lowest bounds of each row so far, the lowest first, and their columns: two times (n, length)."""

    def __init__(self, n: int, length: int, like: Tensor) -> None:
        self.values = like.new_full((n, length), math.inf)
        self.columns = torch.zeros((n, length), dtype=torch.int64, device=like.device)

    def offer(self, first_row: int, tile: Tensor, first_column: int) -> None:
        """Take from a tile of bounds, (r, c), those that are among the lowest of their rows.

        The columns are whole groups. A group is every (c / _GROUP)-th bound of a row.
        """
        minima = _group_minima(tile)
        limit = self.values[first_row : first_row + len(tile), -1]
        rows, groups, limit = self._choose_groups(minima, limit)
        values = tile.unflatten(1, (_GROUP, -1))[rows, :, groups]  # (m, _GROUP)
        which, place = (values <= limit[rows].unsqueeze(1)).nonzero(as_tuple=True)
        columns = first_column + place * minima.shape[1] + groups[which]
        self._add(first_row + rows[which], values[which, place], columns)

    def _choose_groups(self, minima: Tensor, limit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows and numbers of the groups to look into, (m,), and what to look for, (r,)."""
        n, length = len(minima), self.values.shape[1]
        low = minima < limit.unsqueeze(1)
        if int(low.count_nonzero()) <= n * length:
            rows, groups = low.nonzero(as_tuple=True)
            return rows, groups, limit
        # The lowest bounds of a row are in as many groups, those of the lowest minima, and these alone
        # are as many bounds up to the highest of them.
        lowest = minima.topk(length, largest=False)
        rows = torch.arange(n, device=minima.device).repeat_interleave(length)
        return rows, lowest.indices.reshape(-1), torch.minimum(limit, lowest.values[:, -1])

    def _add(self, rows: Tensor, values: Tensor, columns: Tensor) -> None:
        """Merge bounds into the lists of their rows; (m,) each, in the order of the rows."""
        if len(rows) == 0:
            return
        _, counts = rows.unique_consecutive(return_counts=True)
        first = (counts.cumsum(0) - counts).repeat_interleave(counts)
        place = torch.arange(len(rows), device=rows.device) - first
        # A few at a time: one row of thousands would make the matrix of all rows that wide.
        most, step = int(counts.max()), 4 * self.values.shape[1]
        for start in range(0, most, step):
            some = ((place >= start) & (place < start + step)).nonzero().squeeze(1)
            width = min(step, most - start)
            self._merge(rows[some], place[some] - start, values[some], columns[some], width)

    def _merge(self, rows: Tensor, place: Tensor, values: Tensor, columns: Tensor, width: int) -> None:
        touched, which = rows.unique_consecutive(return_inverse=True)
        more = values.new_full((len(touched), width), math.inf)
        theirs = columns.new_zeros((len(touched), width))
        more[which, place], theirs[which, place] = values, columns
        lowest = torch.cat([self.values[touched], more], 1).topk(self.values.shape[1], largest=False)
        self.values[touched] = lowest.values
        self.columns[touched] = torch.cat([self.columns[touched], theirs], 1).gather(1, lowest.indices)


class _LowerBounds:
    """Lower bounds of scaled squared distances, by one matrix product a tile.

    With rows x of length r, r_i² + r_j² − 2 x_i·x_j is one inner product: (−2 x_i, 1, r_i²)·(x_j, r_j², 1).
    Its terms are in size at most (r_i + r_j)² together, so that in a precision of unit roundoff u, in any
    order of summation, it is off by less than (d + 3) u (r_i + r_j)² and some u more for its rounded inputs
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). Twice as much and more,
    c (r_i + r_j)² with c = (d + 16) 2u, is subtracted within the product: it takes one more column √c r,
    and shrinks the squares by 1 − c.
    """

    def __init__(self, points: Tensor, dtype: torch.dtype, scale: float) -> None:
        self.dtype = dtype
        low, high = points.amin(0), points.amax(0)
        # Columns that are the same everywhere, such as the margins of images, are part of no distance.
        columns = (high > low).nonzero().squeeze(1)
        n, d = len(points), len(columns)
        chunks = points.split(_rows_at_a_time(points))
        # Distances do not see the mean, their rounding errors do.
        centre = torch.stack([some[:, columns].double().sum(0) for some in chunks]).sum(0) / n
        # A second power of two keeps the products of ``dtype`` in range; the bounds lose it again.
        reach = torch.maximum(high[columns] - centre, centre - low[columns])
        largest = float(reach.max()) * scale if d else 0.0
        self.shrink = 2.0 ** -math.frexp(largest)[1] if dtype == torch.float32 and largest > 0 else 1.0
        slack = (d + 16) * torch.finfo(dtype).eps
        # Rows of (x, √c r, r², 1), filled up to whole groups with points at infinity.
        self.right = torch.zeros((-(-n // _GROUP) * _GROUP, d + 3), dtype=dtype, device=points.device)
        self.right[:, -2], self.right[:, -1] = math.inf, 1
        for some, rows in zip(chunks, self.right[:n].split(len(chunks[0])), strict=True):
            exact = (some[:, columns] - centre).mul_(scale * self.shrink)  # float64, as the centre
            rows[:, :d] = exact
            lengths = exact.copy_(rows[:, :d]).mul_(exact).sum(1)
            rows[:, -3] = (slack * lengths).sqrt()
            # The smallest normal number covers products that underflow.
            rows[:, -2] = lengths * (1 - slack) - torch.finfo(dtype).tiny

    def left(self, rows: Tensor | slice) -> Tensor:
        """Return (−2x, −2 √c r, 1, r²) of some rows, (b, d + 3)."""
        right = self.right[rows]
        left = -2 * right
        left[:, -2], left[:, -1] = 1, right[:, -2]
        return left

    def tile(self, left: Tensor, start: int, stop: int, out: Tensor | None = None) -> Tensor:
        """Return the bounds between rows and all nodes from start to stop, (b, stop − start)."""
        with torch.autocast(left.device.type, enabled=False):
            return torch.mm(left, self.right[start:stop].T, out=out)


def _group_minima(tile: Tensor) -> Tensor:
    """Return the lowest bound of each group, (r, c / _GROUP), reading the tile as it lies in memory."""
    if tile.stride(1) == 1:
        return torch.amin(tile.unflatten(1, (_GROUP, -1)), 1)
    return torch.amin(tile.T.unflatten(0, (_GROUP, -1)), 0).T


def exact_scale(points: Tensor, owner: str) -> float:
    """Return the power of two by which points (n, d) are multiplied for their squares to be in range.

    A power of two rounds nothing. In float64 only very small features need another than one: their squares
    would vanish.

    Raises
    ------
    ValueError
        If the points are too large.
    """
    largest = float(torch.stack(points.aminmax()).abs().max())
    if largest > _LARGEST:
        expected = f"at most {_LARGEST:g} in size"
        raise bad_value("features", owner, expected, f"{largest:g}", "Scale them first.")
    return 2.0 ** min(1000, -math.frexp(largest)[1]) if 0 < largest < 1 / _LARGEST else 1.0


def tile_size(points: Tensor) -> int:
    """Return how many bounds a tile may hold on the device of the points."""
    return _TILE if points.device.type == "cpu" else _TILE_GPU


def _rows_at_a_time(points: Tensor) -> int:
    """Return how many rows of float64 numbers go through several steps at a time."""
    # On the CPU few enough to stay in its caches, and no fewer: each step waits for all threads.
    return max(1, tile_size(points) // 8 // points.shape[1])
