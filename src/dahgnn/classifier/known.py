"""The labelled rows in folds: which of them are held out when, and from whom.

A fold is some labelled rows and the networks that have not seen their labels. All other experts are fitted to
several parts of the labels at once: to all but each fold, and to all. Where the folds judge alone, there is
one part, the labels outside of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.graph.diffusion import Given

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Known:
    """The labelled rows, and which of them are held out when.

    Attributes
    ----------
    rows, labels : array of int, (l,)
        Numbers of the labelled rows, ascending, and of their classes.
    weights : array, (l,)
        How much each counts; one is usual.
    n_classes : int
        How many classes there are.
    folds : sequence of array of int
        Rows of each fold. A row of a class with few labels may be in several.
    refit : bool
        Whether the labels of the folds are learned from in the end. Otherwise they judge alone.
    """

    rows: Array
    labels: Array
    weights: Array
    n_classes: int
    folds: Sequence[Array]
    refit: bool = True

    def seen(self, fold: int | None = None) -> Array:
        """Return the places, among the labelled rows, outside a fold; None asks for all to learn from."""
        if not self.refit:
            held = np.concatenate([np.empty(0, np.int64), *self.folds])
        elif fold is None:
            return np.arange(len(self.rows))
        else:
            held = self.folds[fold]
        return np.flatnonzero(~np.isin(self.rows, held))

    @property
    def judge_each_other(self) -> bool:
        """Whether those who judge the labels of a fold have learned from those of the others."""
        return self.refit and len(self.folds) > 1

    @property
    def held_places(self) -> list[Array]:
        """The places, among the labelled rows, of each fold's rows."""
        return [np.searchsorted(self.rows, fold) for fold in self.folds]

    @property
    def parts(self) -> list[Array]:
        """The places that opinions are formed from: all but each fold, then what is learned from in the end.

        Where the folds judge alone, the latter is all there is.
        """
        return [*(self.seen(fold) for fold in range(len(self.folds) if self.refit else 0)), self.seen()]

    def given(self, places: Array) -> Given:
        """Return some labelled rows as the graph takes them."""
        targets = np.eye(self.n_classes)[self.labels[places]]
        return Given(self.rows[places], targets, self.weights[places])
