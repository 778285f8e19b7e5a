"""Find what makes a classifier look better than it is, or keeps it from being good.

That is a column that only says where a row stands in its file, a column that tells the label by itself, and
equal rows with different labels. All but columns that count the rows stay, and a note names them: they may be
as they should.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from dahgnn.tables.columns import Column
from dahgnn.tables.messages import listed, quoted
from dahgnn.tables.sources import Source

# With fewer labels, or fewer of a class, a column may tell them by chance.
_FEWEST_LABELS, _FEWEST_OF_CLASS = 30, 5
# So many labels are enough to see it, and so many to see that it is not so.
_MOST_LABELS, _FIRST_LABELS = 2000, 200
# Of the labels of a class, in the mean of the classes, that a telling column tells.
_NEARLY_ALL = 0.98
# Rows in the mean of the groups that a column counts anew: shorter ones may be months, hours or days.
_FEWEST_OF_GROUP = 32
# What is said of a column.
_RISES = "rises from row to row, as numbers of rows do. If it is that, leave it out with --drop."
_RISES_IN_GROUPS = (
    "rises from row to row and begins again a few times, as numbers of rows in groups do. If it is that, "
    "leave it out with --drop."
)
_TELLS = (
    "tells nearly all labels by itself. If it is not known before the label is, leave it out with --drop."
)


def counts_rows(values: np.ndarray) -> bool:
    """Whether numbers count the rows: whole, none missing, and consecutive in any order or equally spaced.

    Numbers that begin again with each of a few long groups of rows count, too.

    Parameters
    ----------
    values : ndarray of float64, (n,)
        The numbers of a column; NaN is missing.
    """
    steps = np.diff(values)
    if not steps.size or not np.all(np.trunc(values) == values):  # NaN is no whole number
        return False
    if steps[0] != 0 and bool(np.all(steps == steps[0])):
        return True
    consecutive = values.max() - values.min() == len(values) - 1
    return bool(consecutive and np.all(np.diff(np.sort(values)) == 1)) or _counts_groups(values)


def _counts_groups(values: np.ndarray) -> bool:
    """Whether each number is the next one, or the first one again at the beginning of a long group."""
    again = np.diff(values) != 1
    return _are_long_groups(again) and bool(np.all(values[1:][again] == values[0]))


def _are_long_groups(again: np.ndarray) -> bool:
    """Whether few of the rows behind the first begin a group."""
    return (1 + int(np.count_nonzero(again))) * _FEWEST_OF_GROUP <= len(again) + 1


def find_leaks(
    source: Source,
    columns: Sequence[Column],
    features: np.ndarray,
    labels: Sequence[str | None] | None,
    kept: Sequence[str] = (),
) -> list[str]:
    """Say what a user should check before believing in an accuracy.

    Parameters
    ----------
    source : Source
        Tells where rows are.
    columns : sequence of Column
        All columns of the table.
    features : ndarray, (n, d)
        What they became.
    labels : sequence of n (str or None), or None
        The labels, if there are any.
    kept : sequence of str
        Columns that the user wants although they look like numbers of rows.
    """
    labels = labels or (None,) * len(features)
    known = [row for row, label in enumerate(labels) if label is not None]
    codes = np.unique(np.array([labels[row] for row in known], dtype=str), return_inverse=True)[1]
    found: dict[str, list[str]] = {sentence: [] for sentence in (_RISES, _RISES_IN_GROUPS, _TELLS)}
    for column, values in _values(columns, features):
        if column.kind == "number" and column.name not in kept and (sentence := _how_it_rises(values)):
            found[sentence].append(column.name)
        if tells_label(values[known], codes, is_category=column.kind == "category"):
            found[_TELLS].append(column.name)
    notes = [f"{_each(names)} {sentence}" for sentence, names in found.items() if names]
    return [*notes, *_equal_rows(source, features, labels, known)]


def _each(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"The column {quoted(names[0])}"
    return f"Each of {len(names)} columns ({listed(names)})"


def _values(columns: Sequence[Column], features: np.ndarray) -> Iterator[tuple[Column, np.ndarray]]:
    """Give each column that is one value a row, as numbers: those of categories are their places."""
    place = 0
    for column in columns:
        width = len(column.feature_names)
        block = features[:, place : place + width]
        place += width
        if column.kind == "category":
            yield column, np.where(block.any(1), block.argmax(1), -1)
        elif width == 1:
            yield column, block[:, 0]


def _how_it_rises(values: np.ndarray) -> str | None:
    """Return what to say of many whole numbers each of which is greater than the one before.

    They may begin again with each of a few long groups, but no group with the number that ended the last.
    """
    steps = np.diff(values)
    if len(values) < _FEWEST_LABELS or not np.all(np.trunc(values) == values) or not np.all(steps):
        return None
    if np.all(steps > 0):
        return _RISES
    return _RISES_IN_GROUPS if _are_long_groups(steps < 0) else None


def tells_label(values: np.ndarray, codes: np.ndarray, *, is_category: bool = False) -> bool:
    """Whether the values of labelled rows tell nearly all of their labels, each by the other rows.

    Parameters
    ----------
    values : ndarray of float, (m,)
        The values.
    codes : ndarray of int, (m,)
        The numbers of the classes.
    is_category : bool
        Whether only equal values are near each other.
    """
    if len(codes) < _FEWEST_LABELS:
        return False
    for most in (_FIRST_LABELS, _MOST_LABELS):
        some = np.linspace(0, len(codes) - 1, min(most, len(codes))).astype(int)
        if _recall(values[some], codes[some], is_category) < _NEARLY_ALL:
            return False
    return True


def _recall(values: np.ndarray, codes: np.ndarray, is_category: bool) -> float:
    """Return the share of labels that other rows tell, in the mean of the classes.

    A label is told if more than half of the other rows of the same value have it. Where there are none, that
    of the row of the nearest value counts.
    """
    counts = np.bincount(codes)
    enough = np.flatnonzero(counts >= _FEWEST_OF_CLASS)
    if len(enough) < 2:
        return 0.0
    order = np.lexsort((codes, values))
    values, codes = values[order], codes[order]
    group = np.concatenate([[0], np.cumsum(np.diff(values) != 0)])
    size = np.bincount(group)[group]
    pair = group * len(counts) + codes
    same = np.unique(pair, return_inverse=True, return_counts=True)
    own = same[2][same[1]]
    told = 2 * (own - 1) > size - 1
    if not is_category:
        told |= (size == 1) & (_nearest(values, codes) == codes)
    return float(np.mean([told[codes == code].mean() for code in enough]))


def _nearest(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the class of the row before or behind each, whichever is nearer; the values are sorted."""
    gaps = np.diff(values)
    before, behind = np.concatenate([[np.inf], gaps]), np.concatenate([gaps, [np.inf]])
    return np.where(before < behind, np.roll(codes, 1), np.roll(codes, -1))


def _equal_rows(
    source: Source, features: np.ndarray, labels: Sequence[str | None], known: Sequence[int]
) -> list[str]:
    """Say how many labelled rows equal another with a different label, and which the first two are."""
    first: dict[bytes, int] = {}
    pairs: list[tuple[int, int]] = []
    for row in known:
        content = features[row] + 0.0  # zeros lose their sign
        # The rows themselves would take as much memory again as the table.
        before = first.setdefault(hashlib.blake2b(content, digest_size=16).digest(), row)
        if labels[before] != labels[row]:
            pairs.append((before, row))
    if not pairs:
        return []
    places = " and ".join(f"{source.at(row)} ({quoted(str(labels[row]))})" for row in pairs[0])
    rows = "1 labelled row equals" if len(pairs) == 1 else f"{len(pairs)} labelled rows equal"
    return [
        f"{rows} an earlier one with another label in all features; the first are {places}. "
        "Nothing can tell such rows apart: look whether a column is missing, or a label wrong."
    ]
