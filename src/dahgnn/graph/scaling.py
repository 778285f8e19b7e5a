"""The scale of a table's columns: kept with a model, so that new rows get the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import bad_value, check_choice
from dahgnn.config import SCALES
from dahgnn.files.scratch import IN_MEMORY, Scratch
from dahgnn.graph.categories import Categories, find_categories, recognise_categories
from dahgnn.threads import make_ahead

Result = TypeVar("Result")

# Who is named in errors.
_OWNER = "DAHGNNClassifier"
# Of scaled rows, in the mean of squares. The learning rate is for rows of about this length.
_LENGTH = 3.0
# Of columns that count by their variance, (Σ σ²)² / Σ σ⁴. It is 0.5 to 0.7 for pixels, words and features of
# networks, and under 0.1 for tables of measures in their own units.
_EFFECTIVE_SHARE = 0.2
_ROWS_AT_ONCE = 1024
# Rows that a thread takes at a time.
_ROWS_A_PART = 2048
# Numbers of which the deviation is computed at a time, so few that they stay in the caches.
_NUMBERS_AT_ONCE = 1 << 16
# Squares of smaller numbers have few digits in float64, or are 0.
_SMALL = 1e-140
# Squares of differences that are a ten-thousandth of it are still whole in float32.
_SMALL_UNSCALED = 1e-15
# A row has at most this share of the words that there are, in the mean. It is 0.01 for abstracts of papers
# and 0.04 for a hundred frequent words, and above for columns that say which of a few categories a row has.
_MOST_WORDS = 0.1


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is subtracted from rows, and what they are multiplied with.

    Attributes
    ----------
    shift, factor : Tensor of float64, (d,)
        One number a column; where there are categories, of the columns that stand in their place, too.
    words : Tensor of float64, (d,), or None
        How much each word counts, where columns count words: rows are multiplied with it and get the length
        one before anything else.
    categories : Categories or None
        Which columns hold codes, and become a column for each category before anything else.
    """

    shift: Tensor
    factor: Tensor
    words: Tensor | None = None
    categories: Categories | None = None

    @property
    def n_columns(self) -> int:
        """How many columns the rows have."""
        return len(self.shift) if self.categories is None else self.categories.n_columns

    def describe(self) -> str:
        """Say what becomes of the columns, as part of a sentence."""
        if self.categories is not None:
            return self.categories.describe()
        if self.words is not None:
            return "words count by tf-idf"
        if not self.shift.any() and (self.factor == 1).all():
            return "columns are as they came"
        scales = self.factor[self.factor != 0]
        return f"columns have {'one scale' if (scales == scales[:1]).all() else 'a scale each'}"

    def apply(self, rows: NDArray[Any], scratch: Scratch = IN_MEMORY) -> Tensor:
        """Return the scaled rows and a column of ones, (n, d + 1) of float32.

        Where there are categories, d counts the columns that stand in their place.

        The ones are the bias that the network has not: without them it could not tell a group of rows in the
        middle from the middle of all. Distances do not see them.
        """
        scaled = scratch.empty((len(rows), len(self.shift) + 1))
        scaled[:, -1] = 1
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            block = rows[start : start + _ROWS_AT_ONCE]
            if self.words is not None:
                block = _weigh_words(block, self.words.numpy())
            if self.categories is not None:
                block = self.categories.expand(block)
            some = torch.from_numpy(np.require(block, requirements=("C", "W")))
            # In float64: a column may be a small difference of large numbers.
            scaled[start : start + _ROWS_AT_ONCE, :-1] = (some - self.shift).mul_(self.factor)
        return scaled.add_(0.0)  # zeros lose their sign, so that equal rows have equal bytes

    def undo(self, scaled: Tensor) -> NDArray[Any]:
        """Return the rows (n, d) of which `apply` made these (n, d + 1).

        Columns that do not vary are lost, and what words count is not undone.
        """
        factor = self.factor.where(self.factor != 0, 1)
        rows = (self.shift + scaled[:, :-1].double() / factor).to(scaled.dtype).numpy()
        return rows if self.categories is None else self.categories.collapse(rows)


def choose_scaling(rows: NDArray[Any], kind: str) -> Scaling:
    """Return a scaling of the rows.

    Parameters
    ----------
    rows : array of float, (n, d)
        The table.
    kind : {"auto", "columns", "whole", "words", "categories", "none"}
        See `DAHGNNClassifier`.
    """
    check_choice("scale", kind, SCALES, _OWNER)
    if kind == "words":
        return _choose_for_words(rows)
    if kind == "categories":
        return _choose_for_categories(rows, _need_categories(rows))
    if kind == "auto" and (categories := recognise_categories(rows)) is not None:
        return _choose_for_categories(rows, categories)
    d = rows.shape[1]
    mean, largest = _look_over(rows)
    if kind == "none":
        _check_unscaled(largest.max())
        return _as_scaling(np.zeros(d), np.ones(d))
    deviation = _deviation(rows, mean, largest)
    # Rounding alone makes a column of constants differ from its mean. What varies by less than the least
    # normal number has no factor that float64 could hold.
    differs = deviation > 1e-12 * np.abs(mean)
    varies = differs & (deviation > np.finfo(np.float64).tiny)
    if not varies.any():
        if differs.any():
            remedy = "Multiply it with 1e100, say."
            raise bad_value("X", _OWNER, "of larger numbers", f"{largest.max():g} at most", remedy)
        return _as_scaling(mean, np.zeros(d))
    if kind == "columns" or (kind == "auto" and _is_unequal(deviation[varies])):
        factor = _LENGTH / np.sqrt(varies.sum()) / np.where(varies, deviation, np.inf)
    else:
        most = deviation[varies].max()
        length = most * np.sqrt(np.sum((deviation[varies] / most) ** 2))
        factor = np.where(varies, _LENGTH / length, 0)
    return _as_scaling(mean, factor)


def counts_words(rows: NDArray[Any]) -> bool:
    """Tell whether columns count words: whole numbers that are not negative, and nearly all of them 0."""
    if rows.size == 0 or np.count_nonzero(rows) > _MOST_WORDS * rows.size:
        return False
    found = rows[rows != 0]
    return bool(len(found) and (found > 0).all() and (found == np.rint(found)).all())


def _choose_for_words(rows: NDArray[Any]) -> Scaling:
    """Let a word count the less the more rows have it, and rows the same (Salton and Buckley, 1988).

    Word w of n rows, df of which have it, counts log((1 + n) / (1 + df)) + 1 times (scikit-learn's form).
    """
    if (rows < 0).any():
        expected = "without negative numbers where scale='words'"
        raise bad_value("X", _OWNER, expected, f"{rows.min():g}", "Take scale='auto'.")
    frequencies = np.count_nonzero(rows, axis=0)
    words = np.log((1 + len(rows)) / (1 + frequencies)) + 1
    scaling = choose_scaling(_weigh_words(rows, words), "whole")
    return Scaling(scaling.shift, scaling.factor, torch.from_numpy(words))


def _need_categories(rows: NDArray[Any]) -> Categories:
    found = find_categories(rows)
    if found is None:
        expected = "with a column of 2 to 30 different whole numbers where scale='categories'"
        raise bad_value("X", _OWNER, expected, "none", "Take scale='auto'.")
    return found


def _choose_for_categories(rows: NDArray[Any], categories: Categories) -> Scaling:
    """Let two rows of other categories be as far apart as two of other numbers are in the mean.

    That is two, for squares: an indicator each, and measured columns of variance one. What is rare counts no
    more than what is frequent, as it would with indicators of variance one.
    """
    numbers = np.ascontiguousarray(rows[:, categories.measured.numpy()])
    m = numbers.shape[1]
    shift, factor, variance = np.zeros(m), np.zeros(m), np.zeros(m)
    if m:
        plain = choose_scaling(numbers, "columns")
        shift, factor = plain.shift.numpy(), plain.factor.numpy()
        varies = factor > 0
        factor = factor * np.sqrt(varies.sum()) / _LENGTH
        variance = varies.astype(np.float64)
    share = np.array(
        [
            np.count_nonzero(rows[:, column] == code) / len(rows)
            for column, code in zip(categories.columns.tolist(), categories.codes.tolist(), strict=True)
        ]
    )
    length = np.sqrt(variance.sum() + (share * (1 - share)).sum())
    return Scaling(
        torch.from_numpy(np.concatenate([shift, share])),
        torch.from_numpy(np.concatenate([factor, np.ones(len(share))]) * (_LENGTH / length)),
        categories=categories,
    )


def _weigh_words(rows: NDArray[Any], words: NDArray[Any]) -> NDArray[Any]:
    """Multiply the columns, then give the rows the length one; a row without a word stays zero."""
    weighed = rows * words
    lengths = np.sqrt(np.square(weighed).sum(1, keepdims=True))
    return np.asarray(np.divide(weighed, lengths, out=np.zeros_like(weighed), where=lengths > 0))


def _check_unscaled(largest: float) -> None:
    if 0 < largest < _SMALL_UNSCALED:
        expected = f"{_SMALL_UNSCALED:g} in size at some place, without a scale"
        raise bad_value("X", _OWNER, expected, f"{largest:g} at most", "Take scale='auto'.")


def _deviation(rows: NDArray[Any], mean: NDArray[Any], largest: NDArray[Any]) -> NDArray[Any]:
    """Return the standard deviation of each column; tiny columns are enlarged while it is computed."""
    tiny = (largest > 0) & (largest < _SMALL)
    if not tiny.any():
        return _deviation_in_blocks(rows, mean)
    unit = np.where(tiny, np.exp2(np.frexp(largest)[1]), 1.0)  # a power of two, so that nothing is rounded
    return np.asarray((rows / unit).std(0) * unit)


def _look_over(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mean of each column, and how far its numbers are from zero at the most."""

    def look(part: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        some = rows[part]
        return some.sum(0, dtype=np.float64), np.maximum(some.max(0), -some.min(0))

    sums, largest = zip(*_by_parts(look, len(rows)), strict=True)
    return np.sum(sums, axis=0) / len(rows), np.max(largest, axis=0).astype(np.float64)


def _deviation_in_blocks(rows: NDArray[Any], mean: NDArray[Any]) -> NDArray[Any]:
    """Return the standard deviation of each column, given its mean, without a copy of all rows."""
    step = max(1, _NUMBERS_AT_ONCE // rows.shape[1])

    def sum_squares(part: slice) -> NDArray[Any]:
        squares, room = np.zeros(rows.shape[1]), np.empty((step, rows.shape[1]))
        for start in range(part.start, part.stop, step):
            some = rows[start : min(start + step, part.stop)]
            apart = np.subtract(
                some, mean, out=room[: len(some)]
            )  # memory that is there costs no page faults
            squares += np.square(apart, out=apart).sum(0)
        return squares

    return np.asarray(np.sqrt(np.sum(list(_by_parts(sum_squares, len(rows))), axis=0) / len(rows)))


def _by_parts(work: Callable[[slice], Result], rows: int) -> Iterator[Result]:
    """Yield what some work gives for parts of the rows, side by side; no thread changes where they begin."""
    parts = [slice(start, min(start + _ROWS_A_PART, rows)) for start in range(0, rows, _ROWS_A_PART)]
    workers = min(torch.get_num_threads(), len(parts))
    return make_ahead(work, parts, depth=workers if workers > 1 else 0, workers=workers)


def _is_unequal(deviation: NDArray[Any]) -> bool:
    """Whether a few columns have nearly all of the variance, as where units differ."""
    variance = (deviation / deviation.max()) ** 2
    effective = variance.sum() ** 2 / (variance**2).sum()  # between 1 and the number of columns
    return bool(effective < _EFFECTIVE_SHARE * len(variance))


def _as_scaling(shift: NDArray[Any], factor: NDArray[Any]) -> Scaling:
    return Scaling(torch.from_numpy(shift), torch.from_numpy(factor))
