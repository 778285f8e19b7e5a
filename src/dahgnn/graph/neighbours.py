"""Nearest neighbours: the one seam between whoever needs them and whatever finds them.

A search is built over the features once, and asked as often as needed: `NeighborSearch.among` gives the
neighbours of the points themselves, `NeighborSearch.query` those of other rows. A new way to find them is one
entry of `SEARCHES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dahgnn.checks import as_features, bad_value, check_choice, check_count, check_neighbours
from dahgnn.graph.exact import ExhaustiveSearch


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


SEARCHES: Mapping[str, Callable[[object], NeighborSearch]] = {"exact": ExactSearch}


def build_search(features: object, backend: str = "exact") -> NeighborSearch:
    """Build a search over features (n, d) by the name of a backend.

    Examples
    --------
    >>> search = build_search([[0.0], [1.0], [3.0]])
    >>> search.among(1).indices.tolist(), search.query([[2.9]], 2).indices.tolist()
    ([[1], [0], [1]], [[2, 1]])
    """
    check_choice("backend", backend, tuple(SEARCHES), "build_search")
    return SEARCHES[backend](features)


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


def nearest(queries: object, points: object, k: int, *, tile: int | None = None) -> Neighbors:
    """Find the k nearest points of every query, exactly as `knn` does among the points.

    Parameters
    ----------
    queries, points : array, (q, d), (n, d)
        A query may be equal to a point, which then is its nearest.
    k, tile : int
        As for `knn`.

    Returns
    -------
    Neighbors
        The neighbours of the q rows; the indices are those of points.

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
    both = torch.cat([there, here.to(there)])
    return Neighbors(*ExhaustiveSearch(both, k, tile, "nearest", among=len(there)).run_for_others())
