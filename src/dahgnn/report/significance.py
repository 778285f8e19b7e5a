"""Test whether two methods differ by more than chance, over runs on the same splits."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# With fewer pairs a signed-rank test says next to nothing: its least p-value is 1/8 at four.
LEAST_PAIRS = 5


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """What the paired differences of one cell say; None marks what cannot be computed."""

    n: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    wilcoxon: float | None = None
    t_test: float | None = None
    note: str = ""


def compare_runs(
    first: Mapping[int, Mapping[str, Any]], second: Mapping[int, Mapping[str, Any]]
) -> PairedTest:
    """Test the differences of runs that share run number and split.

    Parameters
    ----------
    first, second : mapping of int to dict
        The lines of two cells by run.

    Returns
    -------
    PairedTest
        Mean difference in points with its 95 % interval, and the two-sided p-values of Wilcoxon's
        signed-rank test and of the paired t-test.
    """
    differences = [
        # Equal counts of right answers must give equal differences: the signed-rank test looks for ties.
        round(100 * (line["metrics"]["test_accuracy"] - second[run]["metrics"]["test_accuracy"]), 9)
        for run, line in first.items()
        if run in second and second[run]["split"]["digest"] == line["split"]["digest"]
    ]
    n = len(differences)
    if n < 2:
        return PairedTest(n=n, difference=differences[0] if n else None, note=_few(n))
    low, high, t_test = _t_test(differences)
    wilcoxon, note = _wilcoxon(differences)
    if n < LEAST_PAIRS:
        t_test = None
    elif t_test is None and not note:
        note = "no t-test, all differences are equal"
    return PairedTest(
        n=n,
        difference=statistics.fmean(differences),
        low=low,
        high=high,
        wilcoxon=wilcoxon,
        t_test=t_test,
        note=note,
    )


def _few(n: int) -> str:
    return f"no test with {n} of at least {LEAST_PAIRS} pairs"


def _t_test(differences: Sequence[float]) -> tuple[float, float, float | None]:
    """Return the 95 % interval of the mean and the p-value, which equal differences have not."""
    from scipy import stats

    if len(set(differences)) == 1:
        return differences[0], differences[0], None
    found = stats.ttest_1samp(differences, 0)
    interval = found.confidence_interval(confidence_level=0.95)
    return float(interval.low), float(interval.high), float(found.pvalue)


def _wilcoxon(differences: Sequence[float]) -> tuple[float | None, str]:
    """Return the p-value of the signed-rank test, or why there is none."""
    from scipy import stats

    if len(differences) < LEAST_PAIRS:
        return None, _few(len(differences))
    if not any(differences):
        return None, "no test, all differences are zero"
    return float(stats.wilcoxon(differences).pvalue), ""


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for their number by Holm's step-down method; None stays and does not count.

    Examples
    --------
    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        corrected[place] = highest
    return corrected
