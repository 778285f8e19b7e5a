"""Neighbours by local scale: a density where it decides who is whose neighbour.

Where points lie close together, each is near many others, and a few of them (hubs) become neighbours of far
too many. So a distance is divided by how far the neighbours of both its ends are (Zelnik-Manor and Perona,
2004): with μ_i the mean distance of i to its nearest, 1/μ_i is a density, and d_ij / √(μ_i μ_j) is small only
if i and j are close by the standards of both. It takes the hubs away (Schnitzer et al., 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from dahgnn.checks import check_count, check_neighbours
from dahgnn.graph.neighbours import Neighbors, NeighborSearch

# Neighbours by plain distance from which those by local scale are taken: so many, and so many times k.
NEAREST_CANDIDATES, _TIMES = 50, 5
# Neighbours whose mean distance is the scale of a point.
_NEAREST = 10
# Where many rows are equal, their mean distance is zero, and nobody else could be their neighbour. So no
# scale is smaller than this share of the median.
_SMALLEST = 0.5


class LocalScale:
    """A search by the distance d_ij / √(μ_i μ_j).

    It fulfils `NeighborSearch`. The distances that it returns are the scaled ones.

    Parameters
    ----------
    search : NeighborSearch
        Finds the candidates by plain distance.
    scales : Tensor, (n_points,), optional
        μ of the points, if it is known from an earlier search; else it is computed.
    """

    def __init__(self, search: NeighborSearch, scales: Tensor | None = None) -> None:
        self.search = search
        self._candidates: Neighbors | None = None
        self.scales = self._measure() if scales is None else scales

    @property
    def n_points(self) -> int:
        """How many points there are."""
        return self.search.n_points

    def among(self, k: int) -> Neighbors:
        """Find the k nearest other points of every point by the scaled distance, (n_points, k)."""
        return self.among_both(k)[0]

    def among_both(self, k: int) -> tuple[Neighbors, Neighbors]:
        """Find the k nearest other points of every point by the scaled distance, and by the plain one."""
        check_neighbours(k, self.n_points, "LocalScale.among")
        most = count_candidates(k, self.n_points)
        found = self._candidates
        if found is None or found.indices.shape[1] < most:
            found = self.search.among(most)
        return choose_by_scale(found, self.scales, self.scales, k), found.first(k)

    def query(self, rows: object, k: int) -> Neighbors:
        """Find the k nearest points of every row by the scaled distance, (q, k); a row has a μ of its own."""
        return self.query_both(rows, k)[0]

    def query_both(self, rows: object, k: int) -> tuple[Neighbors, Neighbors]:
        """Find the k nearest points of every row by the scaled distance, and by the plain one."""
        check_count("k", k, "LocalScale.query")
        found = self.search.query(rows, min(max(_TIMES * k, NEAREST_CANDIDATES), self.n_points))
        own = mean_distances(found).clamp_min(self._floor())
        return choose_by_scale(found, own, self.scales, k), found.first(k)

    def _measure(self) -> Tensor:
        """Return μ of every point, and keep the candidates that were found on the way."""
        self._candidates = self.search.among(min(NEAREST_CANDIDATES, self.n_points - 1))
        return bounded_scales(mean_distances(self._candidates))

    def _floor(self) -> float:
        """Return the smallest scale that a new row may have, by the same rule as for the points."""
        return _SMALLEST * float(self.scales.median())


def count_candidates(k: int, n_points: int) -> int:
    """Return how many neighbours by plain distance are needed to choose k of n points by local scale."""
    return min(max(_TIMES * k, NEAREST_CANDIDATES), n_points - 1)


def mean_distances(found: Neighbors) -> Tensor:
    """Return the mean distance of each row to its nearest, (q,)."""
    return found.distances[:, :_NEAREST].mean(1)


def bounded_scales(means: Tensor) -> Tensor:
    """Return mean distances (n,) with the smallest of them raised to half the median of the positive ones.

    Examples
    --------
    >>> bounded_scales(torch.tensor([0.0, 2.0, 4.0, 6.0])).tolist()
    [2.0, 2.0, 4.0, 6.0]
    """
    positive = means[means > 0]
    if len(positive) == 0:  # all points are equal
        return torch.ones_like(means)
    return means.clamp_min(_SMALLEST * float(positive.median()))


def choose_by_scale(found: Neighbors, own: Tensor, theirs: Tensor, k: int) -> Neighbors:
    """Keep of each row's candidates the k nearest by the scaled distance, ties by the lower index.

    Parameters
    ----------
    found : Neighbors, (q, candidates)
        The candidates of each row by plain distance.
    own, theirs : Tensor, (q,), (n_points,)
        μ of the rows, and of the points.
    k : int
        How many to keep.
    """
    indices, order = found.indices.sort(1)
    distances = found.distances.gather(1, order).double()
    scaled = distances / (own.double().unsqueeze(1) * theirs[indices].double()).sqrt()
    scaled, order = scaled.sort(dim=1, stable=True)
    kept = Neighbors(indices.gather(1, order), scaled.to(found.distances.dtype))
    return kept.first(k)


# By what neighbours are chosen: name, and what makes the search from one by plain distance.
METRICS: Mapping[str, Callable[[NeighborSearch], NeighborSearch]] = {
    "local-scale": LocalScale,
    "euclidean": lambda search: search,
}
