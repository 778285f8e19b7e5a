"""Read JSON files as cells.

**JSON lines** (``.jsonl``, ``.ndjson``) have an object a line, the keys of which are the columns; blank lines
are skipped. **JSON files** (``.json``) hold the same objects in one array, or an object of columns: each a
list of its cells, or an object that names them by row, as pandas writes by default.

A key that an object does not have, and null, mean missing. Numbers, flags and text keep their types. A list
of numbers is a vector; an object inside an object is refused if its column is used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dahgnn.tables.messages import listed
from dahgnn.tables.sources import Source, Wanted, check_header, kept_as_text, opened, with_roles
from dahgnn.tables.text_files import decoded
from dahgnn.tables.values import Row, cells_of, columns_of

JSON_OPTIONS = ("encoding",)


def read_json_lines(path: Path, wanted: Wanted) -> Source:
    """Read a file of one JSON object a line."""
    rows: list[Row] = []
    lines: list[int] = []
    with opened(path) as file, decoded(file, path, wanted.reading.encoding) as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            value = _parse(line.rstrip(), path, number)
            if not isinstance(value, dict):
                raise _no_row(path, value, f"line {number} of the file")
            rows.append(value)
            lines.append(number)
    return _from_rows(path, wanted, rows, np.array(lines, dtype=np.int64))


def read_json(path: Path, wanted: Wanted) -> Source:
    """Read a file of one JSON value, an array of objects or an object of columns."""
    with opened(path) as file, decoded(file, path, wanted.reading.encoding) as text:
        content = _parse(text.read(), path)
    if isinstance(content, list):
        for place, row in enumerate(content, start=1):
            if not isinstance(row, dict):
                raise _no_row(path, row, f"place {place} of the array")
        return _from_rows(path, wanted, content)
    if isinstance(content, dict) and content:
        check_header(list(content), path)
        if all(isinstance(column, list) for column in content.values()):
            return _from_columns(path, wanted, _of_one_length(path, content))
        if all(isinstance(column, dict) for column in content.values()):
            return _from_columns(path, wanted, _by_row(content))
    raise ValueError(
        f"The file {path} must hold an array of objects, or an object of columns. Got {_name_of(content)}."
    )


def _from_rows(path: Path, wanted: Wanted, rows: Sequence[Row], lines: np.ndarray | None = None) -> Source:
    kept = kept_as_text(wanted)
    cells = {name: cells_of(values, name in kept) for name, values in columns_of(rows, path).items()}
    return with_roles(path, Source(n_rows=len(rows), cells=cells, lines=lines), wanted)


def _from_columns(path: Path, wanted: Wanted, columns: dict[str, list[Any]]) -> Source:
    kept = kept_as_text(wanted)
    cells = {name: cells_of(values, name in kept) for name, values in columns.items()}
    return with_roles(path, Source(n_rows=len(next(iter(columns.values()))), cells=cells), wanted)


def _of_one_length(path: Path, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    lengths = Counter(len(column) for column in columns.values())
    if len(lengths) > 1:
        usual = lengths.most_common(1)[0][0]
        other = next(name for name, column in columns.items() if len(column) != usual)
        raise ValueError(
            f"The columns of the file {path} must have one length. Got {usual} cells in most, and "
            f"{len(columns[other])} in '{other}'."
        )
    return columns


def _by_row(columns: dict[str, dict[str, Any]]) -> dict[str, list[Any]]:
    rows = list(dict.fromkeys(row for column in columns.values() for row in column))
    return {name: [column.get(row) for row in rows] for name, column in columns.items()}


def _parse(text: str, path: Path, line: int = 1) -> Any:
    """Return the value of a text that begins in a line of the file."""
    try:
        return json.loads(text, object_pairs_hook=partial(_unique, path=path), parse_int=_parse_whole)
    except RecursionError as error:
        raise ValueError(
            f"The file {path} must be a table. Got too many lists or objects within each other."
        ) from error
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        hint = " If it has an object a line, say --format jsonl." if error.msg == "Extra data" else ""
        raise ValueError(
            f"The file {path} must be JSON. Got an error in {where}: {error.msg}.{hint}"
        ) from error


def _parse_whole(digits: str) -> float:
    # Python refuses to read thousands of digits, which are out of range anyway.
    return int(digits) if len(digits) < 400 else float(digits)


def _unique(pairs: Iterable[tuple[str, Any]], path: Path) -> dict[str, Any]:
    """Return an object, each key of which occurs once."""
    pairs = list(pairs)
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise ValueError(
            f"The objects of the file {path} must have different keys. Got {listed(twice)} more than once."
        )
    return found


def _no_row(path: Path, value: Any, where: str) -> ValueError:
    return ValueError(
        f"Every row of the file {path} must be a JSON object. Got {_name_of(value)} in {where}."
    )


def _name_of(value: Any) -> str:
    names = {list: "an array", dict: "an object of other things", str: "text", bool: "a flag"}
    return "null" if value is None else names.get(type(value), "a number")
