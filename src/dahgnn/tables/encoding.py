"""Turn the cells of columns into features, as `Column` says, a table or a block of it at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from dahgnn.tables.cells import FLAGS, as_dates, as_texts, classify, first
from dahgnn.tables.columns import Column
from dahgnn.tables.dates import date_features, from_days
from dahgnn.tables.encoding_notes import EncodingNotes
from dahgnn.tables.messages import Problems, quoted
from dahgnn.tables.missing import NUMBER, Missing
from dahgnn.tables.sources import Source, Texts
from dahgnn.tables.texts import Encoder


def encode_columns(
    source: Source, columns: Sequence[Column], problems: Problems, folder: Path
) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    """Return features, their names, and what there is to say of them; gather what is refused.

    Paths of pictures are relative to the folder.
    """
    notes = EncodingNotes()
    features = encode_block(source, columns, problems, folder, notes)
    names = tuple(name for column in columns for name in column.feature_names)
    return features, names, notes.sentences(columns)


def encode_block(
    source: Source, columns: Sequence[Column], problems: Problems, folder: Path, notes: EncodingNotes
) -> np.ndarray:
    """Return the features of some rows of a table, and count what there is to say of them.

    Parameters
    ----------
    source : Source
        The cells of these rows.
    columns : sequence of Column
        How they become features.
    problems : Problems
        Gathers what is refused.
    folder : Path
        Paths of pictures are relative to it.
    notes : EncodingNotes
        Counts what is missing or unknown, over all blocks that it is given to.
    """
    width = sum(len(column.feature_names) for column in columns)
    # Cells have up to 15 digits, numbers of arrays mostly fewer.
    dtype = np.float32 if source.is_array else np.float64
    features = np.zeros((source.n_rows, width), dtype=dtype)
    place = 0
    for column in columns:
        if column.kind == "unused":
            continue
        block = features[:, place : place + len(column.feature_names)]
        place += block.shape[1]
        with problems.gathered():
            if column.encoder is not None:
                _encode_texts(column, column.encoder, source, block, notes, folder)
            else:
                _ENCODED[column.kind](column, source, block, notes)
            notes.encoded.add(column.name)
    return features


def _encode_numbers(column: Column, source: Source, into: np.ndarray, notes: EncodingNotes) -> None:
    values = _as_numbers(column, source, notes.origin)
    missing = np.isnan(values)
    into[:, 0] = values
    into[missing, 0] = column.fill
    notes.missing[column.name] += int(missing.sum())


def _as_numbers(column: Column, source: Source, origin: str) -> np.ndarray:
    kind, values = classify(source, column.name, Missing(column.missing))
    if kind == "text":
        fits = NUMBER.fullmatch if column.kind == "number" else FLAGS.__contains__
        row, text = first(values.tolist(), lambda text: not fits(text))
        raise _unlike_before(column, source.at(row), quoted(text), origin)
    if kind != column.kind:
        missing = np.isnan(values)
        fitting = missing if column.kind == "number" else missing | (values == 0) | (values == 1)
        if not fitting.all():
            row = int(np.argmin(fitting))
            got = bool(values[row]) if kind == "flag" else values[row]
            raise _unlike_before(column, source.at(row), got, origin)
    return values


def _unlike_before(column: Column, place: str, got: object, origin: str) -> ValueError:
    return ValueError(
        f"The column '{column.name}' must hold {_HOLDS[column.kind]}, as {origin}. Got {got} in {place}. "
        "Correct the cell, or leave it empty: that means missing."
    )


# What a column held at the fit, by its kind.
_HOLDS = {"number": "numbers, such as 1234.5", "flag": "True and False, or 1 and 0", "date": "dates"}


def _texts(column: Column, source: Source) -> Texts:
    return Missing(column.missing).in_features(as_texts(source.cells[column.name], column.name))


def _encode_category(column: Column, source: Source, into: np.ndarray, notes: EncodingNotes) -> None:
    texts = _texts(column, source)
    places = {value: place for place, value in enumerate(column.categories)}
    at = np.array([-1 if text is None else places.get(text, -1) for text in texts])
    rows = np.flatnonzero(at >= 0)
    into[rows, at[rows]] = 1
    notes.missing[column.name] += texts.count(None)
    notes.add_unknown(column.name, [text for text in texts if text is not None and text not in places])


def _encode_dates(column: Column, source: Source, into: np.ndarray, notes: EncodingNotes) -> None:
    kind, values = classify(source, column.name, Missing(column.missing))
    if kind == "text":
        values = as_dates(source, column.name, values.tolist(), column.order)
    elif kind != "date":
        there = np.flatnonzero(~np.isnan(values)) if values.ndim == 1 else np.arange(1)
        if there.size:
            raise _unlike_before(column, source.at(int(there[0])), values[there[0]], notes.origin)
        values = np.full(source.n_rows, "NaT", dtype="datetime64[s]")
    missing = np.isnat(values)
    median = from_days(float(column.fill or 0))
    into[:] = date_features(np.where(missing, median, values), column.parts)
    notes.missing[column.name] += int(missing.sum())


def _encode_vectors(column: Column, source: Source, into: np.ndarray, notes: EncodingNotes) -> None:
    kind, values = classify(source, column.name, Missing(column.missing))
    width = len(column.mean)
    if kind != "vector" or values.shape[1] != width:
        got = f"vectors of {values.shape[1]}" if kind == "vector" else f"a column of the kind '{kind}'"
        raise ValueError(
            f"The column '{column.name}' must hold vectors of {width} numbers, as {notes.origin}. Got {got}."
        )
    missing = np.isnan(values)
    into[:] = np.where(missing, column.mean, values)
    notes.missing[column.name] += int(missing.any(1).sum())


def _encode_texts(
    column: Column, encoder: Encoder, source: Source, into: np.ndarray, notes: EncodingNotes, folder: Path
) -> None:
    texts = _texts(column, source)
    into[:] = encoder.encode(texts, folder)
    notes.missing[column.name] += texts.count(None)
    notes.empty[column.name] += int((~into.any(1)).sum())


_ENCODED: Mapping[str, Callable[[Column, Source, np.ndarray, EncodingNotes], None]] = {
    "number": _encode_numbers,
    "flag": _encode_numbers,
    "category": _encode_category,
    "date": _encode_dates,
    "vector": _encode_vectors,
}
