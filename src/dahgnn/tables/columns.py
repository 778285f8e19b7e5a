"""Turn the columns of a user's table into features, in a way that is kept for the next file.

The content decides, not the type it is stored as, so that CSV and Parquet read alike. Numbers
stay as they are; True and False become 1 and 0; text of at most 20 distinct values becomes one feature a
value, named ``column=value``. A cell is missing if it is empty, null or NaN, or one of the words in
`MISSING_WORDS`. Missing numbers and flags get the column's median; missing text is 0 in all its features. A
column with one value throughout, or none at all, gives no feature; nor does the index that pandas stores in
Parquet. Errors name the column: for infinities, numbers beyond float32, dates, other text, and for text of
which at least half the cells are numbers, also when these have thousands separators or decimal commas.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dahgnn.checks import bad_type, bad_value, check_choice, check_number
from dahgnn.tables.messages import at, counted, joined, listed, no_column, quoted
from dahgnn.tables.sources import MISSING_WORDS, Cells, Source, Texts, UnsupportedCells, text_array

MOST_CATEGORIES = 20
_KINDS = ("number", "flag", "category", "unused")
_FLAGS = {word: float(word.lower() == "true") for word in ("True", "true", "TRUE", "False", "false", "FALSE")}
NUMBER = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)\s*", re.I)
_WITH_SEPARATORS = re.compile(
    r"\s*[+-]?(?:[0-9]{1,3}(?:[.,'’_ \u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?|[0-9]+,[0-9]+)\s*"
)
_DATE = re.compile(
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{4}|[0-9]{2}))(?:[T ].*)?"
)
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_REMEDY = "Drop it with --drop, use it as --id, or turn it into numbers."


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one column of a file becomes features; a fitted model keeps it.

    Parameters
    ----------
    name : str
        The name of the column in the file.
    kind : str
        "number" or "flag" (one feature), "category" (one feature a value) or "unused" (none).
    fill : float or None
        What a missing number or flag becomes: the median at the time of the fit.
    categories : sequence of str
        The values that have a feature, in the order of the features.
    """

    name: str
    kind: str
    fill: float | None = None
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise bad_type("name", "Column", "text", repr(self.name))
        check_choice("kind", self.kind, _KINDS, "Column")
        if self.kind in ("number", "flag"):
            check_number("fill", self.fill, "Column", low=-_FLOAT32_MAX, high=_FLOAT32_MAX)
        # A column that comes back from JSON has a list here.
        object.__setattr__(self, "categories", tuple(self.categories))
        if not all(isinstance(value, str) for value in self.categories):
            raise bad_type("categories", "Column", "a sequence of texts", repr(self.categories))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that the column becomes."""
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.categories)
        return () if self.kind == "unused" else (self.name,)


def plan_columns(path: Path, source: Source, drop: Sequence[str]) -> tuple[list[Column], list[str]]:
    """Decide how the columns of a file become features."""
    for name in drop:
        if name not in source.cells:
            raise no_column(path, name, source.cells, "for --drop")
    dropped = {*drop, *source.index}
    columns = [
        Column(name=name, kind="unused") if name in dropped else _plan_column(name, cells)
        for name, cells in source.cells.items()
    ]
    constant = [column.name for column in columns if column.kind == "unused" and column.name not in dropped]
    if all(column.kind == "unused" for column in columns):
        raise ValueError(
            f"The file {path} must have a column that can be a feature. Got {len(dropped)} that are dropped "
            f"and {len(constant)} with one value or none."
        )
    index = [name for name in source.index if name not in drop]
    said = (
        (list(drop), "dropped, as asked"),
        (index, "left out: the index of a pandas table"),
        (constant, "left out: the same in all rows, or missing in all"),
    )
    return columns, [f"{counted(names)} {words}." for names, words in said if names]


def _plan_column(name: str, cells: Cells) -> Column:
    if not name:
        raise ValueError(
            "Every column must have a name. Got one without, which is often a number of rows. "
            "Use it as --id '', or drop it with --drop ''."
        )
    kind, values = _classify(name, cells)
    if kind == "category":
        return _plan_category(name, values.tolist())
    present = values[~np.isnan(values)]
    if not present.size or present.min() == present.max():
        return Column(name=name, kind="unused")
    return Column(name=name, kind=kind, fill=float(np.median(present)))


def _classify(name: str, cells: Cells) -> tuple[str, np.ndarray]:
    """Return "number" or "flag" and float64 values in range (NaN is missing), or "category" and texts."""
    if isinstance(cells, UnsupportedCells):
        raise ValueError(f"The column '{name}' must hold numbers, flags or text. Got {cells.type}. {_REMEDY}")
    if cells.dtype != object:
        with np.errstate(over="ignore"):  # a wider float becomes infinite, which is refused
            values = cells.astype(np.float64)
        return "flag" if cells.dtype.kind == "b" else "number", _in_range(name, values)
    texts = without_missing(cells)
    distinct = {text for text in texts if text is not None}
    if all(NUMBER.fullmatch(text) for text in distinct):
        values = np.array([math.nan if text is None else float(text) for text in texts])
        return "number", _in_range(name, values)
    if distinct <= _FLAGS.keys():
        return "flag", np.array([math.nan if text is None else _FLAGS[text] for text in texts])
    return "category", text_array(texts)


def _in_range(name: str, values: np.ndarray) -> np.ndarray:
    bad = np.flatnonzero(np.abs(values) > _FLOAT32_MAX)
    if bad.size:
        raise ValueError(
            f"The column '{name}' must hold finite numbers of at most {_FLOAT32_MAX:.2g} in size. "
            f"Got {values[bad[0]]} in {at(bad[0])}. Correct the cell, or leave it empty: that means missing."
        )
    return values


def _plan_category(name: str, texts: Texts) -> Column:
    counts = Counter(text for text in texts if text is not None)
    half = counts.total() / 2
    numbers = [text for text in counts if NUMBER.fullmatch(text) or _WITH_SEPARATORS.fullmatch(text)]
    if sum(counts[text] for text in numbers) >= half:
        row, text = _first(texts, lambda text: not NUMBER.fullmatch(text))
        raise ValueError(
            f"The column '{name}' must hold numbers, such as 1234.5. Got {quoted(text)} in {at(row)}. "
            "Correct the cell, leave it empty (that means missing), or drop the column with --drop."
        )
    if sum(counts[text] for text in counts if _DATE.fullmatch(text)) >= half:
        raise ValueError(f"The column '{name}' must hold numbers, flags or text. Got dates. {_REMEDY}")
    if len(counts) > MOST_CATEGORIES:
        raise ValueError(
            f"The column '{name}' must hold numbers, or text of at most {MOST_CATEGORIES} distinct values. "
            f"Got {len(counts)} such values, the first {quoted(next(iter(counts)))}. {_REMEDY}"
        )
    if len(counts) == 1 and None not in texts:
        return Column(name=name, kind="unused")
    return Column(name=name, kind="category", categories=tuple(sorted(counts)))


def _first(texts: Texts, is_sought: Callable[[str], object]) -> tuple[int, str]:
    return next((row, text) for row, text in enumerate(texts) if text is not None and is_sought(text))


def match_columns(path: Path, source: Source, columns: Sequence[Column]) -> list[str]:
    """Check that a file has the columns of a fitted model, and say what else it has."""
    if all(column.kind == "unused" for column in columns):
        raise bad_value("columns", "read_table", "such that one gives a feature", f"{len(columns)} without")
    if source.is_array and all(column.name == f"x{place}" for place, column in enumerate(columns)):
        if len(source.cells) != len(columns):
            raise ValueError(
                f"The features in the file {path} must have {len(columns)} columns, as at the fit. "
                f"Got {len(source.cells)}."
            )
        return []
    for column in columns:
        if column.kind != "unused" and column.name not in source.cells:
            raise no_column(path, column.name, source.cells, "which the model was fitted with")
    known = {column.name for column in columns}
    further = [name for name in source.cells if name not in known]
    return [f"{counted(further)} ignored: the model was fitted without."] if further else []


def encode_columns(
    source: Source, columns: Sequence[Column]
) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    """Return features, their names, and what there is to say of them."""
    names = tuple(name for column in columns for name in column.feature_names)
    # Cells have up to 15 digits, numbers of arrays mostly fewer.
    dtype = np.float32 if source.is_array else np.float64
    features = np.zeros((source.n_rows, len(names)), dtype=dtype)
    notes: list[str] = []
    filled: list[str] = []
    place = 0
    for column in columns:
        if column.kind == "unused":
            continue
        block = features[:, place : place + len(column.feature_names)]
        place += block.shape[1]
        if column.kind == "category":
            notes += _encode_category(column, source.cells[column.name], block)
        elif n_missing := _encode_numbers(column, source.cells[column.name], block[:, 0]):
            filled.append(f"{quoted(column.name)} ({n_missing}, with {column.fill:g})")
    if filled:
        notes.append(f"Missing values of {len(filled)} columns became the median: {joined(filled)}.")
    return features, names, notes


def _encode_numbers(column: Column, cells: Cells, into: np.ndarray) -> int:
    """Write the numbers of a column, and return how many were missing."""
    values = _as_numbers(column, cells)
    missing = np.isnan(values)
    into[:] = values
    into[missing] = column.fill
    return int(missing.sum())


def _as_numbers(column: Column, cells: Cells) -> np.ndarray:
    kind, values = _classify(column.name, cells)
    if kind == "category":
        fits = NUMBER.fullmatch if column.kind == "number" else _FLAGS.__contains__
        row, text = _first(values.tolist(), lambda text: not fits(text))
        raise _unlike_before(column, row, quoted(text))
    if kind != column.kind:
        missing = np.isnan(values)
        fitting = missing if column.kind == "number" else missing | (values == 0) | (values == 1)
        if not fitting.all():
            row = int(np.argmin(fitting))
            raise _unlike_before(column, row, bool(values[row]) if kind == "flag" else values[row])
    return values


def _unlike_before(column: Column, row: int, got: object) -> ValueError:
    wanted = "numbers, such as 1234.5" if column.kind == "number" else "True and False, or 1 and 0"
    return ValueError(
        f"The column '{column.name}' must hold {wanted}, as at the fit. Got {got} in {at(row)}. "
        "Correct the cell, or leave it empty: that means missing."
    )


def _encode_category(column: Column, cells: Cells, into: np.ndarray) -> list[str]:
    texts = without_missing(as_texts(cells, column.name))
    places = {value: place for place, value in enumerate(column.categories)}
    at = np.array([-1 if text is None else places.get(text, -1) for text in texts])
    rows = np.flatnonzero(at >= 0)
    into[rows, at[rows]] = 1
    notes = [f"The column '{column.name}' is text; one feature for each of {listed(column.categories)}."]
    missing = texts.count(None)
    if missing:
        notes.append(f"{missing} missing values of '{column.name}' are 0 in all its features.")
    unknown = [text for text in texts if text is not None and text not in places]
    if unknown:
        values = listed(list(dict.fromkeys(unknown)))
        notes.append(f"{len(unknown)} values of '{column.name}', unknown at the fit, are 0: {values}.")
    return notes


def as_texts(cells: Cells, name: str) -> Texts:
    """Return cells as texts; whole numbers have no ".0"."""
    if isinstance(cells, UnsupportedCells):
        raise ValueError(f"The column '{name}' must hold text or numbers. Got {cells.type}.")
    if cells.dtype.kind != "f":
        return [None if cell is None else str(cell) for cell in cells]
    whole = bool(np.all(np.isnan(cells) | (np.isfinite(cells) & (np.trunc(cells) == cells))))
    return [None if np.isnan(cell) else str(int(cell)) if whole else str(cell) for cell in cells]


def without_missing(texts: Iterable[str | None]) -> Texts:
    """Return texts with None for each word that means missing."""
    return [None if text in MISSING_WORDS else text for text in texts]
