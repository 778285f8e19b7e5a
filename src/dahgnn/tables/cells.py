"""What the cells of a column are: numbers, flags, text, dates or vectors, however they are stored."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dahgnn.tables.dates import parse_date
from dahgnn.tables.messages import quoted
from dahgnn.tables.missing import NUMBER, Missing
from dahgnn.tables.sources import Cells, Source, Texts, UnsupportedCells, text_array

FLOAT32_MAX = float(np.finfo(np.float32).max)
# Flags as text, and their numbers.
FLAGS = {word: float(word.lower() == "true") for word in ("True", "true", "TRUE", "False", "false", "FALSE")}
REMEDY = "Drop it with --drop, use it as --id, or turn it into numbers."


def classify(source: Source, name: str, missing: Missing) -> tuple[str, np.ndarray]:
    """Return what cells are, and their values.

    These are float64 in range for "number", "flag" and "vector", which has two dimensions (NaN is missing),
    datetime64[s] for "date" (NaT is missing), and texts for "text" (None is missing).
    """
    cells = source.cells[name]
    if isinstance(cells, UnsupportedCells):
        raise ValueError(f"The column '{name}' must hold numbers, flags or text. Got {cells.type}. {REMEDY}")
    if cells.ndim > 1:
        return "vector", _in_range(source, name, cells.astype(np.float64))
    if cells.dtype.kind == "M":
        return "date", cells.astype("datetime64[s]")
    if cells.dtype != object:
        with np.errstate(over="ignore"):  # a wider float becomes infinite, which is refused
            values = missing.in_numbers(cells.astype(np.float64))
        return "flag" if cells.dtype.kind == "b" else "number", _in_range(source, name, values)
    texts = missing.in_features(cells)
    distinct = {text for text in texts if text is not None}
    if all(NUMBER.fullmatch(text) for text in distinct):
        values = np.array([math.nan if text is None else float(text) for text in texts])
        return "number", _in_range(source, name, values)
    if distinct <= FLAGS.keys():
        return "flag", np.array([math.nan if text is None else FLAGS[text] for text in texts])
    return "text", text_array(texts)


def _in_range(source: Source, name: str, values: np.ndarray) -> np.ndarray:
    bad = np.argwhere(np.abs(values) > FLOAT32_MAX)
    if bad.size:
        raise ValueError(
            f"The column '{name}' must hold finite numbers of at most {FLOAT32_MAX:.2g} in size. "
            f"Got {values[tuple(bad[0])]} in {source.at(bad[0][0])}. "
            "Correct the cell, or leave it empty: that means missing."
        )
    return values


def as_texts(cells: Cells, name: str) -> Texts:
    """Return cells as texts; whole numbers have no ".0", and days no time."""
    if isinstance(cells, UnsupportedCells):
        raise ValueError(f"The column '{name}' must hold text or numbers. Got {cells.type}.")
    if cells.ndim > 1:
        raise ValueError(f"The column '{name}' must hold text or numbers. Got vectors.")
    if cells.dtype.kind == "M":
        days = cells.astype("datetime64[D]")
        shown = days if np.all(np.isnat(cells) | (days == cells)) else cells
        return [None if np.isnat(cell) else str(cell) for cell in shown]
    if cells.dtype.kind != "f":
        return [None if cell is None else str(cell) for cell in cells]
    whole = bool(np.all(np.isnan(cells) | (np.isfinite(cells) & (np.trunc(cells) == cells))))
    return [None if np.isnan(cell) else str(int(cell)) if whole else str(cell) for cell in cells]


def first(texts: Texts, is_sought: Callable[[str], object]) -> tuple[int, str]:
    """Return the first text that is sought, and its row."""
    return next((row, text) for row, text in enumerate(texts) if text is not None and is_sought(text))


def as_dates(source: Source, name: str, texts: Texts, order: str) -> np.ndarray:
    """Return the dates that texts in an order of `ORDERS` mean, as datetime64[s]; NaT is missing."""
    known = {text: parse_date(text, order) for text in texts if text is not None}
    if None in known.values():
        row, text = first(texts, lambda text: known[text] is None)
        raise ValueError(
            f"The column '{name}' must hold dates, such as 2024-01-31. "
            f"Got {quoted(text)} in {source.at(row)}. Correct the cell, leave it empty "
            "(that means missing), name it with --missing, or drop the column with --drop."
        )
    dates = [np.datetime64("NaT") if text is None else known[text] for text in texts]
    return np.array(dates, dtype="datetime64[s]")


def no_number(source: Source, name: str, texts: Texts) -> ValueError:
    """Return the error of a column of numbers that has text in it."""
    row, text = first(texts, lambda text: not NUMBER.fullmatch(text))
    return ValueError(
        f"The column '{name}' must hold numbers, such as 1234.5. Got {quoted(text)} in {source.at(row)}. "
        "Correct the cell, leave it empty (that means missing), name it with --missing, "
        "or drop the column with --drop."
    )
