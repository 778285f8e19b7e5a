"""Which row to ask for next.

First come diverse rows: rows are put into clusters, and each cluster that has no labelled row is asked for
its most typical one, large clusters first (after TypiClust, Hacohen, Dekel and Weinshall, 2022). When there
is a model, and labels tell that few classes are still unseen, uncertain rows follow, by the measure of
`dahgnn.classifier.explanation.usefulness`; every third row is still a diverse one. Neighbours of rows that
were handed out shortly before are held back, so that no two alike follow each other. Every tenth row is an
audit row: drawn at random from all rows without a label.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.checks import as_features, bad_value, check_seed
from dahgnn.classifier.explanation import neighbours_of
from dahgnn.explorer.clusters import Mask, find_clusters
from dahgnn.kernels.incidence import Segments

# Every so many rows one is drawn at random.
AUDIT_EVERY = 10

# Clusters, from coarse to fine; see docs/notes/labelling.md for what other numbers did.
LEVELS = (10, 20, 40)
# Good (1953): of as many rows as the share of labels that are the only ones of their class, the class is
# still unseen. Above this share finer clusters are asked for.
_UNSEEN = 0.25
# Below it, they are for every so many rows: an unseen class may look sure to a model that does not know it.
_EXPLORE_EVERY = 3
# Neighbours of so many rows that were handed out last are held back, whether a model knows them or not; those
# of rows that the model does not know yet are, too, up to a bound.
_HELD_BACK, _MOST_HELD_BACK = 20, 500


class Queue:
    """The order in which rows are asked for.

    It remembers which rows it has handed out last. One thread at a time may ask.

    Parameters
    ----------
    features : array, (n, d)
        Scaled, so that distances mean something.
    ways : tuple of Segments, optional
        The neighbours of each row, and the rows whose neighbour it is, such as
        ``hypergraph.neighbourhood("centre")``. Without them no row is held back, and all rows of a cluster
        are as typical.
    levels : tuple of int
        Numbers of clusters, from coarse to fine.
    seed : int
        The source of clusters and audit rows.
    """

    def __init__(
        self,
        features: object,
        ways: tuple[Segments, Segments] | None = None,
        *,
        levels: tuple[int, ...] = LEVELS,
        seed: int = 0,
    ) -> None:
        check_seed(seed, "Queue")
        points = as_features(features, "Queue").float()
        if ways is not None and any(len(segments) != len(points) for segments in ways):
            raise bad_value("ways", "Queue", f"of length {len(points)}", f"{[len(each) for each in ways]}")
        if not levels or min(levels) < 1:
            raise bad_value("levels", "Queue", "numbers of at least 1", levels)
        self._seed, self._ways = seed, ways
        self._levels = find_clusters(points, ways, levels, seed)
        # By row, of how many rows that were handed out it is a neighbour.
        self._near = np.zeros(len(points), dtype=np.int32)
        self._neighbours_of_handed: deque[NDArray[np.int64]] = deque()
        self._scores: NDArray[Any] | None = None

    def next(
        self,
        labelled: Mask,
        skipped: Mask,
        leased: Mask,
        scores: NDArray[Any] | None,
        handed_out: int,
        class_counts: Sequence[int] = (),
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
        class_counts : sequence of int, (c,)
            How many labels each class has. They tell whether there may be classes that nobody has seen.

        Returns
        -------
        row, way : int, {"diverse", "uncertain", "random", "audit"}
            "random" is a row that no model judges. None if all rows are labelled or leased. Skipped rows come
            when no other is left.
        """
        self._forget(scores)
        taken = labelled | leased
        free = ~(taken | skipped)
        if not free.any():
            free = skipped & ~taken
        if not free.any():
            return None
        row, way = self._choose(free, taken | skipped, scores, handed_out, class_counts)
        self._hold_back(row)
        return row, way

    def _choose(
        self,
        free: Mask,
        taken: Mask,
        scores: NDArray[Any] | None,
        handed_out: int,
        class_counts: Sequence[int],
    ) -> tuple[int, str]:
        if handed_out % AUDIT_EVERY == AUDIT_EVERY - 1:
            return self._draw(free, handed_out), "audit"
        row = self._find_diverse(free, taken, scores, handed_out, class_counts)
        if row is not None:
            return row, "diverse"
        apart = free & (self._near == 0)
        if not apart.any():
            apart = free
        if scores is None:
            return self._draw(apart, handed_out), "random"
        return int(np.where(apart, scores, -np.inf).argmax()), "uncertain"

    def _find_diverse(
        self,
        free: Mask,
        taken: Mask,
        scores: NDArray[Any] | None,
        handed_out: int,
        class_counts: Sequence[int],
    ) -> int | None:
        """Return a row of a cluster that has no label, unless uncertain rows are to be asked for now."""
        # The coarsest clusters come first in any case, and without a model nothing is better than clusters.
        fine = (
            scores is None
            or share_of_unseen(class_counts) > _UNSEEN
            or handed_out % _EXPLORE_EVERY == _EXPLORE_EVERY - 1
        )
        for clusters in self._levels if fine else self._levels[:1]:
            row = clusters.uncovered_row(free, taken)
            if row is not None:
                return row
        return None

    def _draw(self, free: Mask, handed_out: int) -> int:
        """Draw one of the free rows, by the seed and how many rows were handed out."""
        generator = np.random.default_rng([self._seed, handed_out])
        return int(generator.choice(np.flatnonzero(free)))

    def _hold_back(self, row: int) -> None:
        if self._ways is None:
            return
        near = np.unique(neighbours_of(row, self._ways))
        self._near[near] += 1
        self._neighbours_of_handed.append(near)
        if len(self._neighbours_of_handed) > _MOST_HELD_BACK:
            self._let_go()

    def _let_go(self) -> None:
        self._near[self._neighbours_of_handed.popleft()] -= 1

    def _forget(self, scores: NDArray[Any] | None) -> None:
        """Let neighbours of older rows come again when a new model knows the labels of those."""
        if scores is not self._scores:
            self._scores = scores
            while len(self._neighbours_of_handed) > _HELD_BACK:
                self._let_go()


def share_of_unseen(class_counts: Sequence[int]) -> float:
    """Estimate the share of rows whose class has no label yet (Good, 1953): labels alone in their class.

    Examples
    --------
    >>> share_of_unseen([5, 1, 1, 3])
    0.2
    """
    counts = np.asarray(class_counts)
    return float((counts == 1).sum() / counts.sum()) if counts.any() else 0.0
