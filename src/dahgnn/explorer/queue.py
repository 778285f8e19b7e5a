"""Which row to ask for next.

First come diverse rows: rows are put into clusters, and each cluster that has no labelled row is asked for
its most typical one, large clusters first (after TypiClust, Hacohen, Dekel and Weinshall, 2022). When all are
covered and there is a model, uncertain rows follow, by the measure of
`dahgnn.classifier.explanation.usefulness`. Neighbours of rows that were handed out shortly before are held
back, so that no two alike follow each other. Every tenth row is an audit row: drawn at random from all rows
without a label.
"""

from __future__ import annotations

import warnings
from collections import deque
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import as_features, bad_value, check_count, check_seed
from dahgnn.classifier.explanation import neighbours_of
from dahgnn.kernels.incidence import Segments

# Every so many rows one is drawn at random.
AUDIT_EVERY = 10

# See docs/notes/labelling.md for what other numbers did.
CLUSTERS = 30
# Rows that are clustered, and numbers in them: 5,000 images of 784 pixels take half a second.
_MOST_ROWS, _MOST_NUMBERS = 20_000, 4_000_000
# Rows whose clusters are found at once.
_ROWS_AT_ONCE = 65_536
# Neighbours of so many rows that were handed out last are held back, whether a model knows them or not; those
# of rows that the model does not know yet are, too, up to a bound.
_HELD_BACK, _MOST_HELD_BACK = 20, 500

Mask = NDArray[np.bool_]


class Queue:
    """The order in which rows are asked for.

    Parameters
    ----------
    features : array, (n, d)
        Scaled, so that distances mean something.
    ways : tuple of Segments, optional
        The neighbours of each row, and the rows whose neighbour it is, such as
        ``hypergraph.neighbourhood("centre")``. Without them no row is held back, and all rows of a cluster
        are as typical.
    clusters : int
        How many diverse rows are asked for, as long as nobody labels others.
    seed : int
        The source of clusters and audit rows.
    """

    def __init__(
        self,
        features: object,
        ways: tuple[Segments, Segments] | None = None,
        *,
        clusters: int = CLUSTERS,
        seed: int = 0,
    ) -> None:
        check_seed(seed, "Queue")
        check_count("clusters", clusters, "Queue")
        points = as_features(features, "Queue").float()
        if ways is not None and any(len(segments) != len(points) for segments in ways):
            raise bad_value("ways", "Queue", f"of length {len(points)}", f"{[len(each) for each in ways]}")
        self._seed, self._ways = seed, ways
        sample = _draw_sample(*points.shape, seed)
        centres = _cluster(points[sample], clusters, seed)
        self._cluster_of = _nearest_centres(points, centres)
        typicality = _typicality(points, sample, ways)
        order = sample[np.argsort(-typicality, kind="stable")]
        # By cluster its clustered rows, the most typical first.
        self._typical = [order[self._cluster_of[order] == cluster] for cluster in range(len(centres))]
        # By row, of how many rows that were handed out it is a neighbour.
        self._near = np.zeros(len(points), dtype=np.int32)
        self._handed: deque[tuple[int, NDArray[np.int64]]] = deque()
        self._scores: NDArray[Any] | None = None

    def next(
        self,
        labelled: Mask,
        skipped: Mask,
        leased: Mask,
        scores: NDArray[Any] | None,
        handed_out: int,
    ) -> tuple[int, str] | None:
        """Choose the next row.

        Parameters
        ----------
        labelled, skipped, leased : array of bool, (n,)
            Rows that have a label, that a person skipped, and that a window holds.
        scores : array, (n,), optional
            How much the label of each row would help, from `dahgnn.classifier.explanation.usefulness`; the
            same array as long as there is no newer model, and None without one.
        handed_out : int
            How many rows were handed out so far.

        Returns
        -------
        row, way : int, {"diverse", "uncertain", "random", "audit"}
            "random" is a row that no model judges. None if all rows are labelled or leased. Skipped rows come
            when no other is left.
        """
        self._forget(scores)
        free = ~(labelled | leased | skipped)
        if not free.any():
            free = skipped & ~(labelled | leased)
        if not free.any():
            return None
        row, way = self._choose(free, labelled | leased | skipped, scores, handed_out)
        self._hold_back(row)
        return row, way

    def _choose(
        self, free: Mask, taken: Mask, scores: NDArray[Any] | None, handed_out: int
    ) -> tuple[int, str]:
        if handed_out % AUDIT_EVERY == AUDIT_EVERY - 1:
            return self._draw(free, handed_out), "audit"
        row = self._most_typical(free, taken)
        if row is not None:
            return row, "diverse"
        apart = free & (self._near == 0)
        if not apart.any():
            apart = free
        if scores is None:
            return self._draw(apart, handed_out), "random"
        return int(np.where(apart, scores, -np.inf).argmax()), "uncertain"

    def _draw(self, free: Mask, handed_out: int) -> int:
        """Draw one of the free rows, by the seed and how many rows were handed out."""
        generator = np.random.default_rng([self._seed, handed_out])
        return int(generator.choice(np.flatnonzero(free)))

    def _most_typical(self, free: Mask, taken: Mask) -> int | None:
        """Return the most typical free row of the largest cluster of which no row is taken."""
        covered = np.zeros(len(self._typical), dtype=bool)
        covered[self._cluster_of[taken]] = True
        for cluster, rows in enumerate(self._typical):
            if not covered[cluster]:
                some = rows[free[rows]]
                if len(some):
                    return int(some[0])
        return None

    def _hold_back(self, row: int) -> None:
        near = np.array([row]) if self._ways is None else neighbours_of(row, self._ways)
        np.add.at(self._near, near, 1)
        self._handed.append((row, near))
        if len(self._handed) > _MOST_HELD_BACK:
            self._let_go()

    def _let_go(self) -> None:
        _, near = self._handed.popleft()
        np.subtract.at(self._near, near, 1)

    def _forget(self, scores: NDArray[Any] | None) -> None:
        """Let neighbours of older rows come again when a new model knows the labels of those."""
        if scores is not self._scores:
            self._scores = scores
            while len(self._handed) > _HELD_BACK:
                self._let_go()


def _draw_sample(n: int, d: int, seed: int) -> NDArray[np.int64]:
    most = max(1, min(_MOST_ROWS, _MOST_NUMBERS // d))
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _cluster(points: Tensor, count: int, seed: int) -> Tensor:
    """Return the centres of clusters, (c, d)."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    means = KMeans(min(count, len(points)), n_init=1, max_iter=30, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        means.fit(points.numpy())
    return torch.from_numpy(means.cluster_centers_).float()


def _nearest_centres(points: Tensor, centres: Tensor) -> NDArray[np.int64]:
    """Return the number of the nearest centre of each row, (n,); the largest cluster has number 0."""
    squares = centres.square().sum(1)
    parts = [(squares - 2 * some @ centres.T).argmin(1) for some in points.split(_ROWS_AT_ONCE)]
    found = torch.cat(parts).numpy()
    sizes = np.bincount(found, minlength=len(centres))
    rank = np.empty(len(centres), dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(centres))
    return rank[found]


def _typicality(
    points: Tensor, sample: NDArray[np.int64], ways: tuple[Segments, Segments] | None
) -> NDArray[Any]:
    """Return how near the neighbours of some rows are: less their mean distance, (s,)."""
    mean = np.zeros(len(sample), dtype=np.float32)
    if ways is None:
        return mean
    at_once = max(1, _MOST_NUMBERS // (points.shape[1] * max(1, ways[0].longest)))
    for start in range(0, len(sample), at_once):
        rows = torch.from_numpy(sample[start : start + at_once])
        first, counts = ways[0].offsets[rows], ways[0].offsets.diff()[rows]
        owners = torch.arange(len(rows)).repeat_interleave(counts)
        within = torch.arange(len(owners)) - (counts.cumsum(0) - counts)[owners]
        others = ways[0].indices[first[owners] + within]
        distances = (points[rows[owners]] - points[others]).norm(dim=1)
        sums = torch.zeros(len(rows)).index_add_(0, owners, distances)
        mean[start : start + at_once] = (sums / counts.clamp(min=1)).numpy()
    return -mean
