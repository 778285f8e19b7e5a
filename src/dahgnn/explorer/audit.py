"""How many labels are right, told by rows that were drawn at random, and whether more labels would help.

Rows that a model suggests are those that it is least sure of, so it errs more on them than on all rows: their
share of right ones is no estimate. Audit rows are drawn at random from all rows without a label. A row counts
as right if an opinion that has not seen its label agrees with the person.

Whether more labels help is told by what they changed. The classes that the newest model gives are compared
with those of the newest model that knew at least `LOOKBACK` fewer labels. Models in between are not compared
one by one: a few rows at the border of two classes flip with every fit, and such flips would add up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.judgement import wilson_interval

# Of fewer audit rows an interval would say nothing: of four right ones it would be 51 to 100 %.
FEWEST_AUDITS = 5
# What so many labels changed tells what as many more would change.
LOOKBACK = 30
# Under this share of changed rows more labels help little.
FEW_CHANGES = 0.01
# Models whose classes are kept lie so many labels apart, so that few of them are.
_APART = 5


@dataclass(frozen=True, kw_only=True)
class AuditEstimate:
    """The share of labels that are right, as audit rows tell.

    Attributes
    ----------
    accuracy, low, high : float
        The share, and the ends of its interval of 95 % confidence.
    n : int
        The number of audit rows.
    """

    accuracy: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Change:
    """What labels changed.

    Attributes
    ----------
    labels : int
        How many labels one model knew more than the other.
    share : float
        The share of all rows to which they give different classes.
    """

    labels: int
    share: float


def estimate_accuracy(right: Sequence[bool] | NDArray[np.bool_]) -> AuditEstimate | None:
    """Estimate how many labels are right; None for fewer than `FEWEST_AUDITS` rows.

    Parameters
    ----------
    right : sequence of bool
        Of each audit row, whether an opinion that has not seen its label agreed with it.

    Examples
    --------
    >>> estimate = estimate_accuracy([True] * 10 + [False])
    >>> f"{estimate.accuracy:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
    '0.91 (0.62 to 0.98)'
    """
    if len(right) < FEWEST_AUDITS:
        return None
    accuracy = float(np.mean(right))
    low, high = wilson_interval(accuracy, len(right))
    return AuditEstimate(accuracy=accuracy, low=low, high=high, n=len(right))


@dataclass
class ChangeWindow:
    """The classes that the last models gave, as far back as `LOOKBACK` labels."""

    _models: deque[tuple[int, NDArray[Any]]] = field(default_factory=deque)

    def add(self, labels: int, classes: NDArray[Any]) -> Change | None:
        """Say what changed since the newest model that knew at least `LOOKBACK` fewer labels.

        Parameters
        ----------
        labels : int
            How many labels the model knew.
        classes : array of int, (n,)
            The class that it gives to each row, by numbers that all models share.

        Returns
        -------
        Change or None
            None while there is no such older model.
        """
        while self._models and self._models[-1][0] > labels:  # labels were taken away since
            self._models.pop()
        while len(self._models) > 1 and self._models[1][0] <= labels - LOOKBACK:
            self._models.popleft()
        change = None
        if self._models and self._models[0][0] <= labels - LOOKBACK:
            before, old = self._models[0]
            change = Change(labels=labels - before, share=float(np.mean(old != classes)))
        if not self._models or self._models[-1][0] <= labels - _APART:
            self._models.append((labels, np.array(classes)))
        return change


def more_labels_help(change: Change | None) -> bool | None:
    """Whether more labels of the same kind are likely to change much; None while nobody can tell."""
    return None if change is None else change.share >= FEW_CHANGES


def describe_progress(audits: int, estimate: AuditEstimate | None, change: Change | None) -> str:
    """Say in words how many labels are right, and whether more would help.

    Examples
    --------
    >>> right = estimate_accuracy([True] * 10 + [False])
    >>> print(describe_progress(11, right, Change(labels=30, share=0.003)))
    About 91 % of the labels are right (62 to 98 %), told by 11 audit rows, which were drawn at random. \
The last 30 labels changed 0.3 % of the rows: more labels of this kind will change little.
    """
    return " ".join(part for part in (_describe_estimate(audits, estimate), _describe_change(change)) if part)


def _describe_estimate(audits: int, estimate: AuditEstimate | None) -> str:
    if estimate is None:
        return (
            f"Every tenth row is drawn at random, to tell how many labels are right. {audits} of such audit "
            f"rows are labelled; it takes {FEWEST_AUDITS}."
        )
    if estimate.accuracy == 1:
        return (
            f"All {estimate.n} audit rows, which were drawn at random, are right. At least "
            f"{100 * estimate.low:.0f} % of the labels should be."
        )
    return (
        f"About {100 * estimate.accuracy:.0f} % of the labels are right ({100 * estimate.low:.0f} to "
        f"{100 * estimate.high:.0f} %), told by {estimate.n} audit rows, which were drawn at random."
    )


def _describe_change(change: Change | None) -> str:
    if change is None:
        return ""
    ending = (
        "more labels will change more."
        if more_labels_help(change)
        else ("more labels of this kind will change little.")
    )
    return f"The last {change.labels} labels changed {100 * change.share:.1f} % of the rows: {ending}"
