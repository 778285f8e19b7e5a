"""Read Excel workbooks (``.xlsx``) as cells.

The table is in the first sheet, or in that of `Reading.sheet`. Its first row that is not empty names the
columns, and rows without a value are skipped. Formulas count as what Excel last computed for them. Numbers,
flags, text and dates keep their types. Merged cells are refused, as only the first of them has a value.
"""

from __future__ import annotations

import contextlib
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import numpy as np

from dahgnn.checks import did_you_mean
from dahgnn.tables.memory import check_memory, most_unpacked
from dahgnn.tables.messages import joined, listed
from dahgnn.tables.sources import Cells, Source, Wanted, check_header, kept_as_text, opened, with_roles
from dahgnn.tables.values import cells_of

WORKBOOK_OPTIONS = ("sheet",)
# A sheet of so many bytes has some ten million cells, which take minutes to read.
_MOST_BYTES = 2**29
_FORMULA_OR_MERGED = re.compile(rb"[<:](?:f[ />]|mergeCell )")
_CHUNK = 2**20


def read_workbook(path: Path, wanted: Wanted) -> Source:
    """Read a sheet of a workbook."""
    import openpyxl

    with opened(path) as file:
        with _explained(path):
            archive = zipfile.ZipFile(file)
        _check_size(path, archive)
        with _explained(path):
            workbook = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheet, notes = _choose_sheet(path, workbook, wanted.reading.sheet)
        with _explained(path):
            # In this mode, which alone reads a large sheet in little memory, openpyxl does not tell these.
            merged, formulas = _find_odd_cells(archive, sheet._worksheet_path.lstrip("/"))
        _check_odd_cells(path, sheet.title, merged, formulas)
        with _explained(path):
            rows = _read_rows(sheet)
    if not rows:
        raise ValueError(f"The sheet '{sheet.title}' of {path} must begin with a row of names. Got it empty.")
    return _make_source(path, rows, wanted, notes)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what openpyxl leaves out, such as charts
            yield
    except Exception as error:  # openpyxl raises whatever it happens upon in damaged bytes
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"The file {path} is cut, damaged, locked by a password, or no Excel workbook ({reason}). "
            "Save it again as .xlsx, or as .csv."
        ) from error


def _check_size(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse a workbook that unpacks to more than can be read."""
    n_bytes = sum(member.file_size for member in archive.infolist())
    most = min(_MOST_BYTES, most_unpacked(path.stat().st_size))
    if n_bytes > most:
        raise ValueError(
            f"The file {path} must unpack to at most {most / 2**20:,.0f} MiB. "
            f"Got {n_bytes / 2**20:,.0f} MiB. Save it as .csv or .parquet."
        )


def _choose_sheet(path: Path, workbook: Any, name: str | None) -> tuple[Any, tuple[str, ...]]:
    """Return the sheet of a name, or the first, and what there is to say of it."""
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    if not sheets:
        raise ValueError(f"The file {path} must have a sheet of cells. Got none.")
    if name is None:
        name = next(iter(sheets))
        notes = (f"The table is the first of {len(sheets)} sheets, '{name}'. --sheet chooses another.",)
        return sheets[name], notes if len(sheets) > 1 else ()
    if name not in sheets:
        hint = did_you_mean(name, sheets) or f"It has {listed(list(sheets))}."
        raise ValueError(f"The file {path} must have a sheet '{name}'. Got none of that name. {hint}")
    return sheets[name], ()


def _find_odd_cells(archive: zipfile.ZipFile, part: str) -> tuple[list[str], list[str]]:
    """Return which cells are merged, and which have a formula of which no result is stored."""
    merged: list[str] = []
    formulas: list[str] = []
    with archive.open(part) as file:
        if not _has_odd_cells(file):
            return merged, formulas
    with archive.open(part) as file:
        for _, element in ElementTree.iterparse(file):  # noqa: S314, expat bounds what entities unfold to
            name = element.tag.rpartition("}")[2]
            if name == "mergeCell":
                merged.append(element.get("ref", "?"))
            elif name == "c" and _lacks_result(element):
                formulas.append(element.get("r", "?"))
            if name == "row":
                element.clear()
    return merged, formulas


def _has_odd_cells(file: IO[bytes]) -> bool:
    end = b""
    while chunk := file.read(_CHUNK):
        if _FORMULA_OR_MERGED.search(end + chunk):
            return True
        end = chunk[-16:]
    return False


def _lacks_result(cell: ElementTree.Element) -> bool:
    parts = {part.tag.rpartition("}")[2]: part.text for part in cell}
    return "f" in parts and not parts.get("v") and cell.get("t") != "str"  # a result can be empty text


def _check_odd_cells(path: Path, title: str, merged: Sequence[str], formulas: Sequence[str]) -> None:
    where = f"The sheet '{title}' of {path}"
    if merged:
        raise ValueError(
            f"{where} must have no merged cells, as only the first of them has a value. "
            f"Got {joined(merged)}. Separate them, and fill each."
        )
    if formulas:
        raise ValueError(
            f"{where} must have the results of its formulas. Got none in {joined(formulas)}. Open it in a "
            "spreadsheet program, and save it there."
        )


def _read_rows(sheet: Any) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the rows that have a value, with their numbers from 1 on."""
    sheet.reset_dimensions()  # what the sheet says of its size may be wrong, or the size of all sheets
    rows = enumerate(sheet.iter_rows(values_only=True), start=1)
    return [(number, row) for number, row in rows if any(value not in (None, "") for value in row)]


def _make_source(
    path: Path, rows: Sequence[tuple[int, tuple[Any, ...]]], wanted: Wanted, notes: tuple[str, ...]
) -> Source:
    (number, first), *body = rows
    header = _read_header(path, number, first)
    for line, row in body:
        if any(value is not None for value in row[len(header) :]):
            raise ValueError(
                f"Every row of the file {path} must have {len(header)} cells, as its header has. "
                f"Got more in row {line} of the sheet."
            )
    check_memory(f"The content of {path}", 8 * len(body) * len(header))
    kept = kept_as_text(wanted)
    cells: dict[str, Cells] = {}
    for place, name in enumerate(header):
        values = [row[place] if place < len(row) else None for _, row in body]
        cells[name] = cells_of([None if value == "" else value for value in values], name in kept)
    lines = np.array([line for line, _ in body], dtype=np.int64)
    source = Source(n_rows=len(body), cells=cells, lines=lines, place="row {} of the sheet", notes=notes)
    return with_roles(path, source, wanted)


def _read_header(path: Path, number: int, row: Sequence[Any]) -> list[str]:
    from openpyxl.utils import get_column_letter

    last = max(place for place, value in enumerate(row) if value not in (None, ""))
    names = list(row[: last + 1])
    places = [place for place, name in enumerate(names, start=1) if name in (None, "")]
    empty = [f"{get_column_letter(place)}{number}" for place in places]
    if empty:
        raise ValueError(
            f"The first row of the file {path} that has a value must name every column. Got empty cells: "
            f"{joined(empty)}. Name these columns, and remove what stands above the table."
        )
    header = [str(name) for name in names]
    check_header(header, path)
    return header
