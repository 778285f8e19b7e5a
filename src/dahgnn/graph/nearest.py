"""The nearest neighbours of points, found exactly: everybody is compared with everybody.

`Neighbors` is what every search returns, also one that is not exact, and `NeighborSearch` what it has to do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dahgnn.checks import as_features, bad_value, check_count, check_neighbours
from dahgnn.graph.exact import ExhaustiveSearch, tile_size

# Points that are compared at a time with rows that are not among them, as a multiple of a tile's side.
_BLOCK = 8


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The k nearest points of each row, nearest first, ties by the lower index.

    Attributes
    ----------
    indices : Tensor of int64, (n, k)
        The numbers of the points.
    distances : Tensor, (n, k)
        How far they are: Euclidean, or by the scale of `dahgnn.graph.local_scale`.
    """

    indices: Tensor
    distances: Tensor

    def first(self, k: int) -> Neighbors:
        """Return the first k of each row."""
        return Neighbors(self.indices[:, :k], self.distances[:, :k])

    def to(self, device: torch.device | str) -> Neighbors:
        """Return the same neighbours on another device."""
        return Neighbors(self.indices.to(device), self.distances.to(device))


class NeighborSearch(Protocol):
    """Points among which neighbours are found."""

    @property
    def n_points(self) -> int:
        """How many points there are."""

    def among(self, k: int) -> Neighbors:
        """Find the k nearest other points of every point, (n_points, k)."""

    def query(self, rows: object, k: int) -> Neighbors:
        """Find the k nearest points of every row, (q, k); a point that equals the row is one of them."""


class ExactSearch:
    """Compare everybody with everybody: exact, and the same for any tile and device.

    Parameters
    ----------
    features : array, (n, d)
        One row a point.
    tile : int, optional
        See `knn`.
    """

    def __init__(self, features: object, tile: int | None = None) -> None:
        self.points, self.tile = as_features(features, "ExactSearch"), tile

    @property
    def n_points(self) -> int:
        """How many points there are."""
        return len(self.points)

    def among(self, k: int) -> Neighbors:
        """Find the k nearest other points of every point, (n_points, k)."""
        return knn(self.points, k, tile=self.tile)

    def query(self, rows: object, k: int) -> Neighbors:
        """Find the k nearest points of every row, (q, k)."""
        return nearest(rows, self.points, k, tile=self.tile)


def knn(features: object, k: int, *, tile: int | None = None) -> Neighbors:
    """Find the k nearest other nodes of every node by Euclidean distance, section 3.1.

    Parameters
    ----------
    features : array, (n, d)
        One row a node; NumPy arrays and tensors of any device, float32 or float64 kept as they are.
    k : int
        Neighbours a node, the node itself not counted.
    tile : int, optional
        The largest block of distances held at a time has tile² of them, but no less than 16² nor than a
        row. It bounds the memory and never changes the result. By default 2²³ distances on the CPU and
        2²⁶ on a GPU.

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
    return Neighbors(*ExhaustiveSearch(points, k, tile, "knn").run())


def nearest(
    queries: object,
    points: object,
    k: int,
    *,
    tile: int | None = None,
    device: torch.device | str | None = None,
) -> Neighbors:
    """Find the k nearest points of every query, exactly as `knn` does among the points.

    Parameters
    ----------
    queries, points : array, (q, d), (n, d)
        A query may be equal to a point, which then is its nearest.
    k, tile : int
        As for `knn`.
    device : torch.device or str, optional
        Where they are compared. Blocks of the points are brought there; by default it is where they are.

    Returns
    -------
    Neighbors
        The neighbours of the q rows, where the points are; the indices are those of points.

    Examples
    --------
    >>> nearest([[2.9]], [[0.0], [1.0], [3.0]], k=2).indices.tolist()
    [[2, 1]]
    """
    there, here = as_features(points, "nearest", "points"), as_features(queries, "nearest", "queries")
    if here.shape[1] != there.shape[1]:
        expected = f"of as many columns as 'points', {there.shape[1]}"
        raise bad_value("queries", "nearest", expected, f"{here.shape[1]}")
    check_count("k", k, "nearest")
    if k > len(there):
        raise bad_value("k", "nearest", f"at most the number of points, {len(there)}", k)
    where = there.device if device is None else torch.device(device)
    indices, distances = _nearest_in_blocks(here.to(where, there.dtype), there, k, tile)
    return Neighbors(indices.to(there.device), distances.to(there.device, there.dtype))


def others(found: Neighbors, own: Tensor) -> Neighbors:
    """Take each row's own number from its neighbours; where it is not among them, the last goes.

    Parameters
    ----------
    found : Neighbors, (q, k + 1)
        The nearest points of rows that are points themselves.
    own : Tensor of int64, (q,)
        Their numbers.

    Returns
    -------
    Neighbors, (q, k)
    """
    # Where a row is not among its nearest, more than k others equal it, and have lower numbers.
    itself = found.indices == own.unsqueeze(1)
    itself[:, -1] |= ~itself.any(1)
    shape = (len(own), found.indices.shape[1] - 1)
    return Neighbors(found.indices[~itself].view(shape), found.distances[~itself].view(shape))


def _nearest_in_blocks(rows: Tensor, points: Tensor, k: int, tile: int | None) -> tuple[Tensor, Tensor]:
    """Return indices, and distances in float64, of the nearest points: two times (q, k).

    A block of the points at a time is copied, so that points that are in a file may stay there.
    """
    # So many that a tile of bounds is not much wider than it is high.
    block = max(_BLOCK * math.isqrt(tile_size(rows)), k)
    nobody = rows.new_empty((len(rows), 0))
    found = nobody.long(), nobody.double()
    for start in range(0, len(points), block):
        some = points[start : start + block].to(rows.device)
        count = min(k, len(some))
        search = ExhaustiveSearch(torch.cat([some, rows]), count, tile, "nearest", among=len(some))
        indices, distances = search.run_for_others()
        found = _merge(found, (indices + start, distances), k)
    return found


def _merge(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], k: int) -> tuple[Tensor, Tensor]:
    """Keep the k nearest of two lists of which the second has the higher numbers."""
    indices, distances = (torch.cat(each, 1) for each in zip(first, second, strict=True))
    distances, order = distances.sort(dim=1, stable=True)
    return indices.gather(1, order[:, :k]), distances[:, :k]
