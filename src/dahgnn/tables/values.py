"""Turn Python's values, as JSON files and Excel workbooks have them, into cells.

They are read as in a text file, so that all formats give the same features. Numbers become an array; flags
and text, and what is mixed of these, become texts. Dates become datetimes by the second. Lists of numbers,
all of one length, become vectors.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dahgnn.tables.memory import check_memory
from dahgnn.tables.messages import listed
from dahgnn.tables.sources import (
    MOST_COLUMNS,
    Cells,
    UnsupportedCells,
    check_header,
    text_array,
    too_wide,
)

Row = Mapping[str, Any]


def columns_of(rows: Sequence[Row], path: Path) -> dict[str, list[Any]]:
    """Return rows as columns, in the order in which their names first occur; None is missing."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
        if len(names) > MOST_COLUMNS:
            raise too_wide(path, len(names))
    check_memory(f"The content of {path}", 8 * len(rows) * len(names))
    check_header(list(names), path)
    return {name: [row.get(name) for row in rows] for name in names}


def cells_of(values: Sequence[Any], as_text: bool) -> Cells:
    """Return the values of a column as cells; ``as_text`` is for labels, ids and known categories."""
    present = [value for value in values if value is not None]
    kinds = {_kind(value) for value in present}
    if kinds <= {"number"}:
        return _from_numbers(values, as_text and bool(present))
    if kinds <= {"number", "flag", "text"}:
        return text_array(None if value is None else str(value) for value in values)
    if len(kinds) > 1:
        return UnsupportedCells(f"{' and '.join(sorted(_PLURALS[kind] for kind in kinds))} in one column")
    if kinds == {"object"}:
        return UnsupportedCells(f"objects with the keys {listed(list(present[0])) or 'none'}")
    if kinds == {"date"}:
        return _from_dates(values, as_text)
    if kinds == {"list"} and not as_text:
        return _from_lists(values, present)
    return UnsupportedCells(_PLURALS[kinds.pop()])


_PLURALS = {
    "number": "numbers",
    "flag": "flags",
    "text": "text",
    "list": "lists",
    "object": "objects",
    "date": "dates",
    "time": "times of day or durations",
}


def _kind(value: Any) -> str:
    for types, kind in (
        (bool, "flag"),
        ((int, float), "number"),
        (str, "text"),
        (list, "list"),
        (dict, "object"),
        (datetime.date, "date"),  # and datetime.datetime, which is one
    ):
        if isinstance(value, types):
            return kind
    return "time"


def _from_numbers(values: Sequence[Any], as_text: bool) -> np.ndarray:
    if as_text and not any(isinstance(value, float) for value in values):
        return text_array(None if value is None else str(value) for value in values)
    return np.array([math.nan if value is None else _as_float(value) for value in values])


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number with hundreds of digits
        return math.inf if value > 0 else -math.inf


def _from_dates(values: Sequence[Any], as_text: bool) -> np.ndarray:
    times = [None if value is None else _as_datetime(value) for value in values]
    if not as_text:
        return np.array(["NaT" if time is None else time for time in times], dtype="datetime64[s]")
    days = all(time is None or time.time() == datetime.time() for time in times)
    write: Callable[[datetime.datetime], str] = (lambda time: str(time.date())) if days else str
    return text_array(None if time is None else write(time) for time in times)


def _as_datetime(value: datetime.date) -> datetime.datetime:
    return value if isinstance(value, datetime.datetime) else datetime.datetime(*value.timetuple()[:3])


def _from_lists(values: Sequence[Any], present: Sequence[list[Any]]) -> Cells:
    """Return lists of numbers of one length as vectors."""
    lengths = {len(each) for each in present}
    if any(number is not None and _kind(number) != "number" for each in present for number in each):
        return UnsupportedCells("lists of other things than numbers")
    width = max(lengths)
    if len(lengths) > 1:
        return UnsupportedCells(f"lists of {min(lengths):,} to {width:,} numbers")
    if not 0 < width <= MOST_COLUMNS:
        return UnsupportedCells(f"lists of {width:,} numbers")
    gap = [None] * width
    rows = (gap if value is None else value for value in values)
    return np.array([[math.nan if each is None else _as_float(each) for each in row] for row in rows])
