"""Read CSV and TSV files as cells, also those that gzip has packed.

They are UTF-8, with or without a byte order mark, or UTF-16 with one; `Reading.encoding` names another. The
delimiter is a tab in ``.tsv``; in ``.csv`` it is the one of comma, semicolon and tab that the header line has
most of, outside quotes. Every row has as many cells as the header; blank lines are skipped.

Numbers have decimal points. They have decimal commas where `Reading.decimal` says so, and in a file without
commas between its cells if one column shows it: all its cells are numbers, and one has a comma that cannot
stand before thousands, as in 1,5. A column that has commas of that other kind alone, as in 1,234, shows
nothing. In a file with decimal commas a number such as 1.234 may mean two things, so that its column is
refused if it is used.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dahgnn.tables.gzip_files import unpacked
from dahgnn.tables.memory import check_memory
from dahgnn.tables.messages import counted, quoted
from dahgnn.tables.sources import (
    MISSING_WORDS,
    Cells,
    Source,
    UnsupportedCells,
    Wanted,
    check_header,
    kept_as_text,
    opened,
    text_array,
    with_roles,
)

# The fields of `Reading` that these files take.
TEXT_OPTIONS = ("encoding", "delimiter", "decimal")
# In characters. What is longer is rather the rest of a file behind a quote that nobody closed.
_LONGEST_CELL = 10_000_000
_COMMA = re.compile(r"\s*[+-]?(?:[0-9]+,[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_POINT = re.compile(r"\s*[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+(?:[eE][+-]?[0-9]+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}([.,])[0-9]{3}(?:\1[0-9]{3})*\s*")
_THOUSANDS_AND_COMMA = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]*\s*")

# Opens the text from its beginning.
_Text = Callable[[], AbstractContextManager[io.TextIOWrapper]]


@dataclass(frozen=True)
class _Layout:
    """How a file is laid out: its header, the line in which each row begins, and the delimiter."""

    path: Path
    header: list[str]
    lines: np.ndarray
    delimiter: str


def read_text_file(path: Path, wanted: Wanted, delimiter: str | None = None, packed: bool = False) -> Source:
    """Read CSV or TSV; the cells of labels, ids and ``wanted.texts`` are text as it stands.

    The csv module checks each row before pandas reads it. pyarrow.csv would do with one reading, but takes an
    open quote for text up to the end of the file, where the csv module refuses it and names the line.
    """
    with opened(path) as file, unpacked(file, path) if packed else nullcontext(file) as content:
        text = partial(decoded, content, path, wanted.reading.encoding)
        layout = _survey(text, path, wanted.reading.delimiter or delimiter or _find_delimiter(text))
        check_memory(f"The content of {path}", 8 * len(layout.lines) * len(layout.header))
        cells, notes = _read_cells(text, layout, wanted)
    source = Source(n_rows=len(layout.lines), cells=cells, notes=notes, lines=layout.lines)
    return with_roles(path, source, wanted)


@contextlib.contextmanager
def decoded(file: BinaryIO, path: Path, encoding: str | None) -> Iterator[io.TextIOWrapper]:
    """Read a file as text from its beginning, in an encoding or, without one, in UTF-8 or UTF-16."""
    text = io.TextIOWrapper(file, encoding=_codec(file, encoding), newline="")
    try:
        yield text
    except UnicodeError as error:
        wanted = f"text in {encoding}" if encoding else "text in UTF-8, or in UTF-16 with a byte order mark"
        raise ValueError(
            f"The file {path} must be {wanted}. Got other bytes ({error}). Save it as UTF-8, or name its "
            "encoding with --encoding, such as cp1252."
        ) from error
    finally:
        text.detach()


def _codec(file: BinaryIO, encoding: str | None) -> str:
    """Return the name of the encoding, by which a byte order mark is no part of the text."""
    file.seek(0)
    start = file.read(2)
    file.seek(0)
    if encoding is None:
        return "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _find_delimiter(text: _Text) -> str:
    with text() as lines:
        line = next((line for line in lines if line.strip()), "")
    bare = Counter(re.sub(r'"[^"]*("|$)', "", line))
    return max(",;\t", key=lambda sign: bare[sign])  # the first of equals: a comma where there is none


def _survey(text: _Text, path: Path, delimiter: str) -> _Layout:
    """Return the layout of a file, of which each row is as long as the header."""
    header: list[str] = []
    begins: list[int] = []
    end = 0
    with text() as lines, _long_cells():
        reader = csv.reader(_without_nul(lines, path), delimiter=delimiter, strict=True)
        try:
            for row in reader:
                begin, end = end + 1, reader.line_num
                if not header:
                    header = row
                    check_header(header, path)
                    continue
                if row and len(row) != len(header):
                    raise ValueError(
                        f"Every row of the file {path} must have {len(header)} cells, as its header has. "
                        f"Got {len(row)} in line {begin} of the file."
                    )
                if row:
                    begins.append(begin)
        except csv.Error as error:
            raise ValueError(
                f"The file {path} must be a well-formed table. "
                f"Got an error in the row that begins in line {end + 1}: {error}."
            ) from error
    if not header:
        raise ValueError(f"The file {path} must begin with a line of column names. Got blank lines alone.")
    return _Layout(path, header, np.array(begins, dtype=np.int64), delimiter)


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    """Let cells be as long as texts are; the csv module itself takes none of more than 131,072 characters."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _without_nul(lines: Iterable[str], path: Path) -> Iterator[str]:
    for line in lines:
        if "\0" in line:
            raise ValueError(f"The file {path} must be text. Got a file that holds zero bytes.")
        yield line


def _read_cells(text: _Text, layout: _Layout, wanted: Wanted) -> tuple[dict[str, Cells], tuple[str, ...]]:
    """Return the cells of each column with the decimal sign of the file, and what there is to say of it."""
    kept = kept_as_text(wanted)
    decimal = wanted.reading.decimal
    notes: tuple[str, ...] = ()
    cells = _parse(text, layout, decimal or ".", kept)
    if decimal is None and layout.delimiter != ",":
        shown = [name for name in cells if name not in kept and _shows_decimal_commas(cells[name])]
        if not shown:
            return _changed(cells, kept, _without_thousands), ()
        notes = (f"Numbers have decimal commas: {counted(shown)} read so. If not, say --decimal '.'.",)
        decimal = ","
        cells = _parse(text, layout, decimal, kept)
    return _changed(cells, kept, _with_commas) if decimal == "," else {**cells}, notes


def _changed(
    cells: dict[str, np.ndarray], kept: set[str], change: Callable[[np.ndarray], Cells]
) -> dict[str, Cells]:
    return {name: each if name in kept else change(each) for name, each in cells.items()}


def _parse(text: _Text, layout: _Layout, decimal: str, kept: set[str]) -> dict[str, np.ndarray]:
    import pandas as pd

    header = layout.header
    with text() as lines:
        frame = pd.read_csv(
            lines,
            sep=layout.delimiter,
            header=0,
            names=header,
            index_col=False,
            dtype={name: str for name in header if name in kept},
            keep_default_na=False,
            na_values={name: list(MISSING_WORDS) for name in header if name not in kept},
            low_memory=False,  # one type a column, not one a part of the file
            decimal=decimal,
        )
    if len(frame) != len(layout.lines):
        raise ValueError(
            f"The file {layout.path} must have no line of blanks alone among its rows. "
            f'Got {len(layout.lines) - len(frame)}. Write "" for a missing cell.'
        )
    return {str(name): _from_series(cells) for name, cells in frame.items()}


def _from_series(series: Any) -> np.ndarray:
    if series.dtype.kind in "biuf":
        return np.asarray(series.to_numpy())
    # The rest is text, or flags with gaps and integers beyond 64 bits, which pandas holds as objects.
    return text_array(None if gap else str(cell) for cell, gap in zip(series, series.isna(), strict=True))


def _shows_decimal_commas(cells: np.ndarray) -> bool:
    """Whether all cells are numbers, and one has a comma that can only be a decimal comma."""
    return _is_of_comma_numbers(cells) and any(
        _COMMA.fullmatch(text) and not _THOUSANDS.fullmatch(text) for text in _present(cells)
    )


def _is_of_comma_numbers(cells: np.ndarray) -> bool:
    if cells.dtype != object:
        return False
    return all(_COMMA.fullmatch(text) or _WHOLE.fullmatch(text) for text in _present(cells))


def _present(cells: np.ndarray) -> list[str]:
    return [text for text in cells if text is not None]


def _without_thousands(cells: np.ndarray) -> Cells:
    """Refuse a column of numbers whose commas may be of two kinds."""
    if not _is_of_comma_numbers(cells):
        return cells
    text = next((text for text in _present(cells) if "," in text), None)
    return cells if text is None else _ambiguous(text, "comma", "--decimal ','")


def _with_commas(cells: np.ndarray) -> Cells:
    """Return the cells of a column of a file with decimal commas that pandas has not read as numbers.

    Where at least half of them are numbers, these get decimal points, so that it is the others that cannot be
    read. A number that has points, too, or that may have them between its thousands, cannot be read either.
    """
    if cells.dtype != object:
        return cells
    texts = _present(cells)
    commas = [text for text in texts if _COMMA.fullmatch(text)]
    points = [text for text in texts if _POINT.fullmatch(text)]
    grouped = [text for text in texts if _is_grouped(text)]
    n_whole = sum(_WHOLE.fullmatch(text) is not None for text in texts)
    if 2 * (len(commas) + len({*points, *grouped}) + n_whole) < len(texts):
        return cells
    if grouped or (commas and points):
        return _ambiguous((grouped or points)[0], "point", "--decimal '.'")
    comma = set(commas)
    return text_array(text.replace(",", ".") if text in comma else text for text in cells)


def _is_grouped(text: str) -> bool:
    return "." in text and bool(_THOUSANDS.fullmatch(text) or _THOUSANDS_AND_COMMA.fullmatch(text))


def _ambiguous(text: str, sign: str, option: str) -> UnsupportedCells:
    return UnsupportedCells(
        f"numbers such as {quoted(text)}, whose {sign} may be the decimal sign ({option}) or stand before "
        "thousands"
    )
