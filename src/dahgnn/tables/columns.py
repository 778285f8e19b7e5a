"""How the columns of a table become features, in a way that is kept for the next file.

`dahgnn.tables.planning` decides it for a new table. Numbers stay as they are; True and False become 1 and 0;
text of few values becomes one feature a value, named ``column=value``. Missing numbers and flags get the
column's median; missing text is 0 in all its features. Dates become numbers as `dahgnn.tables.dates` says,
free text as `dahgnn.tables.texts` does, and a vector one feature a place, named ``column[0]``, ``column[1]``,
…; a missing date is the median, and missing places of a vector are the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dahgnn.checks import bad_type, bad_value, check_choice, check_number
from dahgnn.tables.cells import FLAGS, FLOAT32_MAX, as_dates, as_texts, classify, first
from dahgnn.tables.dates import ORDERS, PARTS, date_features, from_days, part_names
from dahgnn.tables.messages import Problems, combined_error, counted, joined, listed, no_column, quoted
from dahgnn.tables.missing import NUMBER, Missing
from dahgnn.tables.sources import Source, Texts
from dahgnn.tables.texts import Encoder

_KINDS = ("number", "flag", "category", "date", "vector", "text", "picture", "unused")
# Kinds whose cells must be read as text.
TEXT_KINDS = ("category", "text", "picture")


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one column of a file becomes features; a fitted model keeps it.

    Parameters
    ----------
    name : str
        The name of the column in the file.
    kind : str
        "number" or "flag" (one feature), "category" (one feature a value), "date" (some of its parts),
        "vector" (one feature a place), "text" or "picture" (what its encoder gives) or "unused" (none).
    fill : float or None
        What a missing number or flag becomes: the median at the time of the fit. That of dates is in days.
    categories : sequence of str
        The values that have a feature, in the order of the features.
    missing : sequence of str
        Words that mean missing, besides those that always do.
    parts : sequence of str
        Those of `dahgnn.tables.dates.PARTS` that are features.
    order : str
        Which of `dahgnn.tables.dates.ORDERS` dates in text have.
    mean : sequence of float
        What the missing places of a vector become, one number for each place.
    encoder : Encoder or None
        What turns free text, or paths of pictures, into features.
    """

    name: str
    kind: str
    fill: float | None = None
    categories: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    order: str = "year"
    mean: tuple[float, ...] = ()
    encoder: Encoder | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise bad_type("name", "Column", "text", repr(self.name))
        check_choice("kind", self.kind, _KINDS, "Column")
        if self.kind in ("number", "flag", "date"):
            check_number("fill", self.fill, "Column", low=-FLOAT32_MAX, high=FLOAT32_MAX)
        for name in ("categories", "missing", "parts", "mean"):
            # A column that comes back from JSON has lists here.
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_values()
        if (self.kind in ("text", "picture")) != (self.encoder is not None):
            raise bad_value("encoder", "Column", "there for text and pictures alone", repr(self.encoder))

    def _check_values(self) -> None:
        for name in ("categories", "missing"):
            texts = getattr(self, name)
            if not all(isinstance(text, str) for text in texts):
                raise bad_type(name, "Column", "a sequence of texts", repr(texts))
        for part in self.parts:
            check_choice("parts", part, PARTS, "Column")
        check_choice("order", self.order, ORDERS, "Column")
        for number in self.mean:
            check_number("mean", number, "Column", low=-FLOAT32_MAX, high=FLOAT32_MAX)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that the column becomes."""
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.categories)
        if self.kind == "date":
            return tuple(f"{self.name} ({part})" for part in part_names(self.parts))
        if self.kind in ("vector", "text", "picture"):
            width = len(self.mean) if self.encoder is None else self.encoder.width
            return tuple(f"{self.name}[{place}]" for place in range(width))
        return () if self.kind == "unused" else (self.name,)


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
    absent = [
        column.name for column in columns if column.kind != "unused" and column.name not in source.cells
    ]
    if absent:
        purpose = "which the model was fitted with"
        raise combined_error(path, [str(no_column(path, name, source.cells, purpose)) for name in absent])
    known = {column.name for column in columns}
    further = [name for name in source.cells if name not in known]
    return [f"{counted(further)} ignored: the model was fitted without."] if further else []


def encode_columns(
    source: Source, columns: Sequence[Column], problems: Problems, folder: Path
) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    """Return features, their names, and what there is to say of them; gather what is refused.

    Paths of pictures are relative to the folder.
    """
    names = tuple(name for column in columns for name in column.feature_names)
    # Cells have up to 15 digits, numbers of arrays mostly fewer.
    dtype = np.float32 if source.is_array else np.float64
    features = np.zeros((source.n_rows, len(names)), dtype=dtype)
    notes = _Notes()
    place = 0
    for column in columns:
        if column.kind == "unused":
            continue
        block = features[:, place : place + len(column.feature_names)]
        place += block.shape[1]
        with problems.gathered():
            if column.encoder is not None:
                notes.others += _encode_texts(column, column.encoder, source, block, folder)
            elif column.kind == "category":
                _encode_category(column, source, block, notes)
            elif column.kind in _ENCODED:
                notes.others += _ENCODED[column.kind](column, source, block)
            elif n_missing := _encode_numbers(column, source, block[:, 0]):
                notes.filled.append(f"{quoted(column.name)} ({n_missing}, with {column.fill:g})")
    return features, names, notes.sentences()


@dataclass
class _Notes:
    """What there is to say of the columns; what many of them have in common is one sentence."""

    categories: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """Return sentences; those on several columns come first."""
        together = (
            (self.categories, ("is", "are"), "text, with one feature for each value"),
            (self.gaps, ("has", "have"), "missing text, which is 0 in all its features"),
            (self.filled, ("has", "have"), "missing values, which became the median"),
        )
        return [*(_say(*each) for each in together if each[0]), *self.others]


def _say(parts: Sequence[str], verbs: tuple[str, str], words: str) -> str:
    columns = f"1 column {verbs[0]}" if len(parts) == 1 else f"{len(parts)} columns {verbs[1]}"
    return f"{columns} {words}: {joined(parts)}."


def _encode_numbers(column: Column, source: Source, into: np.ndarray) -> int:
    """Write the numbers of a column, and return how many were missing."""
    values = _as_numbers(column, source)
    missing = np.isnan(values)
    into[:] = values
    into[missing] = column.fill
    return int(missing.sum())


def _as_numbers(column: Column, source: Source) -> np.ndarray:
    kind, values = classify(source, column.name, Missing(column.missing))
    if kind == "text":
        fits = NUMBER.fullmatch if column.kind == "number" else FLAGS.__contains__
        row, text = first(values.tolist(), lambda text: not fits(text))
        raise _unlike_before(column, source.at(row), quoted(text))
    if kind != column.kind:
        missing = np.isnan(values)
        fitting = missing if column.kind == "number" else missing | (values == 0) | (values == 1)
        if not fitting.all():
            row = int(np.argmin(fitting))
            got = bool(values[row]) if kind == "flag" else values[row]
            raise _unlike_before(column, source.at(row), got)
    return values


def _unlike_before(column: Column, place: str, got: object) -> ValueError:
    return ValueError(
        f"The column '{column.name}' must hold {_HOLDS[column.kind]}, as at the fit. Got {got} in {place}. "
        "Correct the cell, or leave it empty: that means missing."
    )


# What a column held at the fit, by its kind.
_HOLDS = {"number": "numbers, such as 1234.5", "flag": "True and False, or 1 and 0", "date": "dates"}


def _texts(column: Column, source: Source) -> Texts:
    return Missing(column.missing).in_features(as_texts(source.cells[column.name], column.name))


def _encode_category(column: Column, source: Source, into: np.ndarray, notes: _Notes) -> None:
    texts = _texts(column, source)
    places = {value: place for place, value in enumerate(column.categories)}
    at = np.array([-1 if text is None else places.get(text, -1) for text in texts])
    rows = np.flatnonzero(at >= 0)
    into[rows, at[rows]] = 1
    name = quoted(column.name)
    notes.categories.append(f"{name} ({listed(column.categories)})")
    if n_missing := texts.count(None):
        notes.gaps.append(f"{name} ({n_missing})")
    unknown = [text for text in texts if text is not None and text not in places]
    if unknown:
        values = listed(list(dict.fromkeys(unknown)))
        cells = f"{len(unknown)} {'value' if len(unknown) == 1 else 'values'} of {name}"
        notes.others.append(f"{cells}, unknown at the fit, became 0 in all its features: {values}.")


def _encode_dates(column: Column, source: Source, into: np.ndarray) -> list[str]:
    kind, values = classify(source, column.name, Missing(column.missing))
    if kind == "text":
        values = as_dates(source, column.name, values.tolist(), column.order)
    elif kind != "date":
        there = np.flatnonzero(~np.isnan(values)) if values.ndim == 1 else np.arange(1)
        if there.size:
            raise _unlike_before(column, source.at(int(there[0])), values[there[0]])
        values = np.full(source.n_rows, "NaT", dtype="datetime64[s]")
    missing = np.isnat(values)
    median = from_days(float(column.fill or 0))
    into[:] = date_features(np.where(missing, median, values), column.parts)
    first = "" if column.order == "year" else f", the {column.order} first"
    features = ", ".join(part_names(column.parts))
    notes = [f"The column '{column.name}' holds dates{first}; its features are {features}."]
    if missing.any():
        dates = "1 missing date" if missing.sum() == 1 else f"{missing.sum():,} missing dates"
        shown = as_texts(np.array([median]), column.name)[0]
        notes.append(f"{dates} of '{column.name}' became the median, {shown}.")
    return notes


def _encode_vectors(column: Column, source: Source, into: np.ndarray) -> list[str]:
    kind, values = classify(source, column.name, Missing(column.missing))
    width = len(column.mean)
    if kind != "vector" or values.shape[1] != width:
        got = f"vectors of {values.shape[1]}" if kind == "vector" else f"a column of the kind '{kind}'"
        raise ValueError(
            f"The column '{column.name}' must hold vectors of {width} numbers, as at the fit. Got {got}."
        )
    missing = np.isnan(values)
    into[:] = np.where(missing, column.mean, values)
    n_rows = int(missing.any(1).sum())
    return [f"What is missing of {n_rows} vectors of '{column.name}' became the mean."] if n_rows else []


def _encode_texts(
    column: Column, encoder: Encoder, source: Source, into: np.ndarray, folder: Path
) -> list[str]:
    texts = _texts(column, source)
    into[:] = encoder.encode(texts, folder)
    if column.kind == "picture":
        missing = sum(text is None for text in texts)
        notes = [
            f"The column '{column.name}' has paths of pictures; their {encoder.width} pixels are features."
        ]
        return notes + [f"{missing} missing pictures of '{column.name}' became the mean."] * bool(missing)
    notes = [f"The column '{column.name}' is free text; {encoder.width} features tell of its {encoder.kind}."]
    empty = int((~into.any(1)).sum())
    if empty:
        notes.append(f"{empty} texts of '{column.name}' are missing or have no known word: they are 0.")
    return notes


_ENCODED: Mapping[str, Callable[[Column, Source, np.ndarray], list[str]]] = {
    "date": _encode_dates,
    "vector": _encode_vectors,
}
