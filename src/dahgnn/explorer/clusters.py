"""Clusters of rows, and the typical rows of each: where to look before any model can tell."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.kernels.incidence import Segments
from dahgnn.threads import one_blas_thread

# Rows that are clustered, and numbers in them: 5,000 images of 784 pixels take a fifth of a second.
_MOST_ROWS, _MOST_NUMBERS = 20_000, 4_000_000
# Rows whose clusters are found at once.
_ROWS_AT_ONCE = 65_536
# More steps of k-means move centres little.
_STEPS = 30

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows in clusters, the largest cluster first.

    Attributes
    ----------
    of_row : array of int, (n,)
        The number of each row's cluster.
    typical : list of array of int
        Of each cluster rows, the most typical first. Of large data only a sample is there.
    """

    of_row: NDArray[np.int64]
    typical: list[NDArray[np.int64]]

    def uncovered_row(self, free: Mask, taken: Mask) -> int | None:
        """Return the most typical free row of the largest cluster of which no row is taken, if there is one.

        Parameters
        ----------
        free, taken : array of bool, (n,)
            Rows that may be chosen, and rows that cover their clusters.
        """
        covered = np.zeros(len(self.typical), dtype=bool)
        covered[self.of_row[taken]] = True
        for cluster in np.flatnonzero(~covered):
            rows = self.typical[cluster]
            some = rows[free[rows]]
            if len(some):
                return int(some[0])
        return None


def find_clusters(
    points: Tensor, ways: tuple[Segments, Segments] | None, counts: tuple[int, ...], seed: int
) -> list[Clusters]:
    """Put rows into clusters by k-means, once for each count.

    Parameters
    ----------
    points : Tensor of float32, (n, d)
        Scaled features.
    ways : tuple of Segments, optional
        The neighbours of each row, and the converse. A row is the more typical, the nearer its neighbours
        are. Without them all rows are as typical.
    counts : tuple of int
        How many clusters; fewer where there are fewer rows.
    seed : int
        The source of the sample and of the first centres.
    """
    sample = _draw_sample(len(points), points.shape[1], seed)
    order = sample[np.argsort(_mean_distances(points, sample, ways), kind="stable")]
    return [_arrange(points, order, _centres(points[sample], count, seed)) for count in counts]


def _draw_sample(n: int, d: int, seed: int) -> NDArray[np.int64]:
    most = max(1, min(_MOST_ROWS, _MOST_NUMBERS // d))
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _centres(points: Tensor, count: int, seed: int) -> Tensor:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    means = KMeans(min(count, len(points)), n_init=1, max_iter=_STEPS, random_state=seed)
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        means.fit(points.numpy())
    return torch.from_numpy(means.cluster_centers_).float()


def _arrange(points: Tensor, order: NDArray[np.int64], centres: Tensor) -> Clusters:
    """Give each row the cluster of the nearest centre, and number clusters by their sizes."""
    squares = centres.square().sum(1)
    parts = [(squares - 2 * some @ centres.T).argmin(1) for some in points.split(_ROWS_AT_ONCE)]
    nearest = torch.cat(parts).numpy()
    sizes = np.bincount(nearest, minlength=len(centres))
    rank = np.empty(len(centres), dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(centres))
    of_row = rank[nearest]
    return Clusters(of_row, [order[of_row[order] == number] for number in range(len(centres))])


def _mean_distances(
    points: Tensor, sample: NDArray[np.int64], ways: tuple[Segments, Segments] | None
) -> NDArray[Any]:
    """Return how far the neighbours of some rows are in the mean, (s,)."""
    means = np.zeros(len(sample), dtype=np.float32)
    if ways is None:
        return means
    neighbours, counts = ways[0], ways[0].offsets.diff()
    at_once = max(1, _MOST_NUMBERS // (points.shape[1] * max(1, neighbours.longest)))
    for start in range(0, len(sample), at_once):
        rows = torch.from_numpy(sample[start : start + at_once])
        owners = torch.arange(len(rows)).repeat_interleave(counts[rows])
        # The place of each neighbour among those of its row.
        places = torch.arange(len(owners)) - (counts[rows].cumsum(0) - counts[rows])[owners]
        others = neighbours.indices[neighbours.offsets[rows[owners]] + places]
        distances = (points[rows[owners]] - points[others]).norm(dim=1)
        sums = torch.zeros(len(rows)).index_add_(0, owners, distances)
        means[start : start + at_once] = (sums / counts[rows].clamp(min=1)).numpy()
    return means
