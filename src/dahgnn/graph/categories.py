"""Columns whose numbers are codes of categories, and a column for each category in their place.

Distances between codes mean nothing: 3 is no nearer to 2 than to 9. Whether the order of a column's numbers
means something is told by the other columns, without any label. In a column of counts or grades, rows with
the numbers 2 and 3 are more alike than rows with 2 and 9. In a column of codes they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

# Columns whose order can tell something: of fewer, chance and the plan of an experiment say as much.
_FEWEST = 6
# Different whole numbers of a column of codes at the most, and of all such columns together.
_MOST_CODES, _MOST_IN_ALL = 30, 500
# Columns of a table that is looked at: among more, such as pixels and words, one finds no codes.
_MOST_COLUMNS = 500
# Rows that are looked at, and those of them that rule most columns out.
_SAMPLE, _FIRST_LOOK = 2000, 256
# Roughness is 1 if order tells nothing, and 0.5 if three numbers are equally far apart, which is the roughest
# that order can be; the limit lies in the middle.
_ROUGH = 0.75
# How much more than chance the categories must differ in the other columns, so that these can tell.
_TELLING = 1.5


@dataclass(frozen=True, eq=False)
class Categories:
    """Which columns hold codes, and which codes there are.

    Attributes
    ----------
    measured : Tensor of int64, (m,)
        The columns that stay as they are, ascending.
    columns : Tensor of int64, (g,)
        The column that each indicator asks, ascending.
    codes : Tensor of float64, (g,)
        The code that it stands for, ascending within a column.
    """

    measured: Tensor
    columns: Tensor
    codes: Tensor

    @property
    def n_columns(self) -> int:
        """How many columns a row has."""
        return len(self.measured) + len(self.columns.unique())

    def expand(self, rows: Array) -> Array:
        """Return the measured columns (n, m), and behind them the indicators (n, g), which are 0 or 1.

        A code that no fitted row had has no indicator: all those of its column are 0.
        """
        numbers = rows[:, self.measured.numpy()]
        indicators = rows[:, self.columns.numpy()] == self.codes.numpy().astype(rows.dtype)
        return np.concatenate([numbers, indicators.astype(rows.dtype)], 1)

    def collapse(self, expanded: Array) -> Array:
        """Return the rows (n, d) that `expand` gave (n, m + g)."""
        m = len(self.measured)
        rows = np.empty((len(expanded), self.n_columns), dtype=expanded.dtype)
        rows[:, self.measured.numpy()] = expanded[:, :m]
        columns = self.columns.numpy()
        for column in np.unique(columns):
            own = np.flatnonzero(columns == column)
            rows[:, column] = self.codes.numpy()[own][expanded[:, m + own].argmax(1)]
        return rows

    def describe(self) -> str:
        """Say which columns hold codes, for a log."""
        numbers = np.unique(self.columns.numpy()).tolist()
        shown = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
        return (
            f"{len(numbers)} of {self.n_columns} columns hold codes of categories ({shown}): "
            "each category is a column of its own"
        )


def find_categories(rows: Array) -> Categories | None:
    """Return the columns of a few whole numbers each as codes; nothing without such columns.

    Parameters
    ----------
    rows : array of float, (n, d)
        The table.
    """
    codes = {}
    for column in np.flatnonzero(_might_hold_codes(rows[_evenly(len(rows), _FIRST_LOOK)])).tolist():
        found = np.unique(rows[:, column])
        if 2 <= len(found) <= _MOST_CODES and (found == np.rint(found)).all():
            codes[column] = found
    if not codes:
        return None
    measured = np.setdiff1d(np.arange(rows.shape[1]), list(codes))
    return Categories(
        torch.from_numpy(measured),
        torch.from_numpy(np.repeat(list(codes), [len(found) for found in codes.values()])),
        torch.from_numpy(np.concatenate(list(codes.values())).astype(np.float64)),
    )


def recognise_categories(rows: Array) -> Categories | None:
    """Return the columns of codes if the order of their numbers tells nothing, else nothing.

    At least half of the columns must have a few whole numbers each: among measures, a code or two matter
    little. At least six of them must have three numbers or more: fewer do not tell enough of each other.
    Tables of very many categories, and columns whose values hardly recur, are taken as measured.
    """
    if rows.shape[1] > _MOST_COLUMNS:
        return None
    sample = rows[_evenly(len(rows), _SAMPLE)]
    suspects = _several_that_recur(sample)
    if suspects.sum() < _FEWEST:
        return None
    categories = find_categories(rows)
    if categories is None or len(categories.codes) > _MOST_IN_ALL:
        return None
    if len(categories.measured) > rows.shape[1] / 2:
        return None
    suspected = suspects[categories.columns.numpy()]
    return categories if _is_rough(sample, categories, suspected) else None


def _evenly(n: int, most: int) -> Array:
    """Return at most so many of n row numbers, evenly."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def _might_hold_codes(sample: Array) -> Array:
    """Tell of each column whether some rows have few whole numbers there, (d,)."""
    whole = (sample == np.rint(sample)).all(0)
    steps = np.diff(np.sort(sample[:, whole], 0), axis=0) > 0
    might = np.zeros(sample.shape[1], dtype=bool)
    might[np.flatnonzero(whole)] = steps.sum(0) < _MOST_CODES
    return might


def _several_that_recur(sample: Array) -> Array:
    """Tell of each column whether it has three whole numbers or more, half of which recur, (d,)."""
    several = _might_hold_codes(sample[_evenly(len(sample), _FIRST_LOOK)])
    for column in np.flatnonzero(several):
        found, counts = np.unique(sample[:, column], return_counts=True)
        few = 3 <= len(found) <= min(_MOST_CODES, len(sample) / 10)
        several[column] = few and bool(np.median(counts) >= 2)
    return several


def _is_rough(sample: Array, categories: Categories, suspected: Array) -> bool:
    """Tell whether neighbouring numbers are about as unlike as any others of a column, see `roughness`."""
    expanded = categories.expand(sample).astype(np.float64)
    m = len(categories.measured)
    deviation = expanded[:, :m].std(0)
    expanded[:, :m] /= np.where(deviation > 0, deviation, np.inf)
    columns = categories.columns.numpy()
    groups = [m + np.flatnonzero(columns == column) for column in np.unique(columns[suspected])]
    telling, rough = roughness(expanded, groups)
    return telling >= _TELLING and rough >= _ROUGH


def roughness(features: Array, groups: Sequence[Array]) -> tuple[float, float]:
    """Return how much categories differ in all other features, and how little their order tells of that.

    For categories a and b with n_a and n_b rows and mean features x_a and x_b, w = n_a n_b / (n_a + n_b) and
    the distance w ‖x_a − x_b‖² is s² in the mean if categories do not differ, with s² the mean square of rows
    about their category's mean. What it is more than that is due to the categories.

    Parameters
    ----------
    features : array, (n, d)
        Scaled numbers and indicators.
    groups : sequence of array of int
        The indicators of each column of codes, in the order of the codes.

    Returns
    -------
    telling : float
        The distances of all pairs, in units of s²; 1 is chance.
    rough : float
        The squared distance of neighbouring codes in units of that of any two codes of their column, without
        what is due to chance, over all columns; 1 if order tells nothing.
    """
    counts = features.sum(0)
    features = features - features.mean(0)
    squares = np.square(features).sum(0)
    neighbours = anybody = found = expected = 0.0
    for own in groups:
        group = own[counts[own] > 0]
        others = np.setdiff1d(np.arange(len(squares)), own)
        here = counts[group]
        means = (features[:, group].T @ features)[:, others] / here[:, None]
        within = squares[others].sum() - here @ np.square(means).sum(1)
        within /= max(1, len(features) - len(group))
        one, other = np.triu_indices(len(group), 1)
        weights = here[one] * here[other] / (here[one] + here[other])
        distances = weights * np.square(means[one] - means[other]).sum(1)
        near = other == one + 1
        neighbours += float((distances - within)[near].sum())
        anybody += float(weights[near].sum() * (distances - within).sum() / weights.sum())
        found, expected = found + float(distances.sum()), expected + float(within * len(one))
    telling = found / expected if expected > 0 else 0.0
    return telling, neighbours / anybody if anybody > 0 else 0.0
