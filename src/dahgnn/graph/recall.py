"""Recall: the share of the true neighbours that a search finds, measured on a sample, and raised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dahgnn.graph.candidates import MeasuredSearch
from dahgnn.graph.nearest import Neighbors, nearest, others

# Rows whose true neighbours are looked for. The standard error of a recall of 0.95 is then about 0.005.
_SAMPLE = 500
# The effort that is chosen is at most so many times one that is not enough.
_CLOSE = 1.15


@dataclass(frozen=True, kw_only=True)
class SearchReport:
    """How neighbours were found.

    Attributes
    ----------
    backend : {"exact", "ivf", "hnsw"}
        What found them.
    k : int
        How many neighbours of a row were asked for.
    recall : float
        Share of the true neighbours that were found, in the sample. Of neighbours that are equally far any
        counts as true.
    sampled : int
        Rows in the sample; none for an exact search.
    settings : mapping of str to int
        Those of the index, by name.
    """

    backend: str
    k: int
    recall: float = 1.0
    sampled: int = 0
    settings: Mapping[str, int] | None = None

    def describe(self) -> str:
        """Return a line for a reader.

        Examples
        --------
        >>> SearchReport(backend="ivf", k=10, recall=0.97, sampled=600, settings={"probes": 8}).describe()
        'ivf (probes 8), which finds 0.970 of the 10 nearest, measured on 600 rows'
        """
        if self.backend == "exact":
            return "an exact search"
        settings = ", ".join(f"{name} {value:,}" for name, value in (self.settings or {}).items())
        share = f"which finds {self.recall:.3f} of the {self.k} nearest"
        return f"{self.backend} ({settings}), {share}, measured on {self.sampled:,} rows"


@dataclass(frozen=True, eq=False)
class Sample:
    """Some points and how far their true neighbours are.

    Attributes
    ----------
    numbers : Tensor of int64, (s,)
        Their numbers.
    farthest : Tensor, (s, 1)
        The distance of the k-th neighbour.
    k : int
        How many neighbours.
    complete : bool
        Whether these are all points.
    """

    numbers: Tensor
    farthest: Tensor
    k: int
    complete: bool

    @classmethod
    def draw(cls, points: Tensor, k: int, seed: int) -> Sample:
        """Draw some points (n, d), and find their k nearest others exactly."""
        n = len(points)
        drawn = np.random.default_rng(seed).choice(n, min(n, _SAMPLE), replace=False, shuffle=False)
        numbers = torch.from_numpy(np.sort(drawn))
        truth = others(nearest(points[numbers], points, k + 1), numbers)
        return cls(numbers, truth.distances[:, -1:], k, n <= _SAMPLE)

    def recall(self, found: Neighbors) -> tuple[float, float]:
        """Return the share of neighbours that are as near as the true ones, and its standard error."""
        shares = (found.distances <= self.farthest).double().mean(1)
        if self.complete:
            return float(shares.mean()), 0.0
        return float(shares.mean()), float(shares.std()) / math.sqrt(len(shares))


def raise_effort(search: MeasuredSearch, sample: Sample, asked: float) -> tuple[MeasuredSearch, SearchReport]:
    """Find about the least effort with which a search finds enough of the true neighbours.

    Parameters
    ----------
    search : MeasuredSearch
        Of any effort.
    sample : Sample
        What it is measured on.
    asked : float
        The least recall. One standard error more is demanded of the sample, so that another is likely to
        show it, too.

    Returns
    -------
    MeasuredSearch, SearchReport
        With the effort that was found, and what it reaches. Where the highest effort is not enough, that is
        what comes back, and the report shows a recall below the one asked for.
    """
    index, numbers = search.index, sample.numbers
    reached: dict[int, float] = {}

    def is_enough(effort: int) -> bool:
        found = search.found(search.points[numbers], sample.k, numbers, effort)
        reached[effort], error = sample.recall(found)
        return reached[effort] - error >= asked

    low, high = 0, search.lowest_effort(sample.k)
    while not is_enough(high) and high < index.highest_effort:
        low, high = high, min(2 * high, index.highest_effort)
    while low and high > max(low + 1, _CLOSE * low):
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    report = SearchReport(
        backend=index.kind,
        k=sample.k,
        recall=reached[high],
        sampled=len(numbers),
        settings=index.describe(high),
    )
    return replace(search, effort=high), report
