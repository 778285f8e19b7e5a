"""What readers of users' files share: what they look for, what they return, and how they open a file.

A reader turns a file into a `Source` of cells, before any of it is understood. There is one module a kind of
file, and `dahgnn.tables.formats` knows them by the endings of names.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from encodings.aliases import aliases
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dahgnn.checks import bad_type, bad_value, check_choice, did_you_mean
from dahgnn.tables.messages import listed, no_column

# A fit of so many features still ends; more are an array that lies on its side, or a file that is none.
MOST_COLUMNS = 100_000
# Of a picture; in colour such a square has nearly the most columns.
_LONGEST_SIDE = 182
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


@dataclass(frozen=True)
class UnsupportedCells:
    """Cells that are neither numbers nor text, such as dates; ``type`` names them in messages."""

    type: str


# An array holds numbers (NaN is missing), flags, texts as objects (None is missing), dates as datetime64[s]
# (NaT is missing), or in two dimensions vectors (a row of NaN is missing).
Cells = np.ndarray | UnsupportedCells
Texts = list[str | None]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a file is to be read, where its own content does not say it or says it wrongly.

    Parameters
    ----------
    encoding : str or None
        The encoding of a text file, such as "latin-1" or "cp1252". None is UTF-8, or UTF-16 with a byte order
        mark.
    delimiter : str or None
        The sign between the cells of a text file: one character, or "tab". None finds it.
    decimal : {".", ","} or None
        The decimal sign of numbers in a text file. None finds it.
    sheet : str or None
        The name of a sheet of a workbook. None is the first.
    format : str or None
        One of `dahgnn.tables.formats.FORMATS`, with or without its point. None is that of the file's name.
    shape : (height, width) or (height, width, 3), optional
        What the pictures of a folder become, grey or in colour. None finds it.
    """

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    format: str | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None:
            _check_delimiter(self.delimiter)
        if self.decimal is not None:
            check_choice("decimal", self.decimal, (".", ","), "Reading")
        for name in ("sheet", "format"):
            if not isinstance(getattr(self, name), str | None):
                raise bad_type(name, "Reading", "text", repr(getattr(self, name)))
        if self.shape is not None:
            _check_shape(self.shape)
            # One that comes back from JSON is a list.
            object.__setattr__(self, "shape", tuple(self.shape))

    @property
    def given(self) -> dict[str, Any]:
        """What differs from None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _check_shape(shape: object) -> None:
    sides = tuple(shape) if isinstance(shape, list | tuple) else ()
    is_shape = len(sides) == 2 or (len(sides) == 3 and sides[2] == 3)
    if not is_shape or not all(type(side) is int and 0 < side <= _LONGEST_SIDE for side in sides):
        expected = f"(height, width) or (height, width, 3) of at most {_LONGEST_SIDE}"
        raise bad_value("shape", "Reading", expected, repr(shape))


def _check_encoding(name: object) -> None:
    if not isinstance(name, str):
        raise bad_type("encoding", "Reading", "text", repr(name))
    if not _is_of_text(name):
        known = [alias for alias, encoding in aliases.items() if _is_of_text(encoding)]
        remedy = did_you_mean(name.lower(), known) or "Files of Windows programs are often in cp1252."
        expected = "an encoding of text that Python knows, such as latin-1"
        raise bad_value("encoding", "Reading", expected, repr(name), remedy)


def _is_of_text(encoding: str) -> bool:
    """Whether Python knows an encoding, and not one of other things than text, such as hex."""
    try:
        "a".encode(encoding)
    except (LookupError, ValueError):
        return False
    return True


def _check_delimiter(sign: object) -> None:
    if not isinstance(sign, str):
        raise bad_type("delimiter", "Reading", "text", repr(sign))
    if len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\r\n\0':
        expected = "'tab', or one ASCII character that is no letter, digit, quote or line end"
        raise bad_value("delimiter", "Reading", expected, repr(sign))


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """The content of a file, before any of it is understood.

    ``lines`` has the line of a text file in which each row begins, or its row of a sheet, counted from 1;
    other files have none. ``place`` is how messages name it. ``files`` has, for rows of several files, the
    name of each file and the row that it begins with; that of a block within a file is below 0.
    """

    n_rows: int
    cells: dict[str, Cells]
    labels: Cells | None = None
    ids: Cells | None = None
    index: tuple[str, ...] = ()
    is_array: bool = False
    shape: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    lines: np.ndarray | None = None
    place: str = "line {} of the file"
    files: tuple[tuple[str, int], ...] = ()

    def at(self, row: int) -> str:
        """Say where a row is: in a text file its line, elsewhere its number, both counted from 1."""
        if self.files:
            name, begin = self.files[bisect_right([begin for _, begin in self.files], row) - 1]
            return f"row {row - begin + 1} (counted from 1) of {name}"
        if self.lines is None:
            return f"row {row + 1} (counted from 1)"
        return self.place.format(self.lines[row])


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a reader looks for in a file.

    Parameters
    ----------
    label, id : str or None
        The names of the labels and of the ids.
    texts : tuple of str
        Columns that a fitted model knows as text.
    fitted : bool
        Whether the file is for a model that has been fitted, which can do without ids.
    reading : Reading
        How the file is to be read.
    """

    label: str | None = None
    id: str | None = None
    texts: tuple[str, ...] = ()
    fitted: bool = False
    reading: Reading = Reading()


@dataclass(frozen=True)
class Format:
    """How files with one ending are read.

    Parameters
    ----------
    read : callable
        Returns the `Source` of a path and what is `Wanted`.
    options : tuple of str
        The fields of `Reading` that make a difference.
    roles : {"columns", "files", "folders"}
        Where labels and ids are: in columns that the user names, in files of their own, or in the names of
        folders and files.
    """

    read: Callable[[Path, Wanted], Source]
    options: tuple[str, ...] = ()
    roles: str = "columns"


def with_roles(path: Path, source: Source, wanted: Wanted) -> Source:
    """Take the labels and ids out of the columns of a file."""
    if not source.n_rows:
        raise ValueError(f"The file {path} must have at least one row of data. Got a header alone.")
    labels = _take(path, source.cells, wanted.label, "label")
    if wanted.id is None:
        return replace(source, labels=labels)  # with the names that the reader knows, if it knows any
    if wanted.id not in source.cells and wanted.fitted:
        note = f"There is no column '{wanted.id}' for the ids, so that rows are named by their number."
        return replace(source, labels=labels, notes=(*source.notes, note))
    return replace(source, labels=labels, ids=_take(path, source.cells, wanted.id, "id"))


def kept_as_text(wanted: Wanted) -> set[str]:
    """Return the names of the columns whose cells are wanted as text."""
    return {name for name in (wanted.label, wanted.id, *wanted.texts) if name is not None}


def _take(path: Path, cells: dict[str, Cells], name: str | None, role: str) -> Cells | None:
    if name is None:
        return None
    if name not in cells:
        raise no_column(path, name, cells, f"for --{role}")
    return cells.pop(name)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that stays as it is until the block ends."""
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} must be a file. Got a folder.")
        if not path.exists():
            raise FileNotFoundError(f"There is no file {path}.")
        if not path.is_file():
            raise OSError(
                f"{path} must be a regular file. Got a device or pipe. Save its content to a file, "
                "or send it to standard input: - with --format."
            )
        file = path.open("rb")
    except PermissionError as error:
        raise PermissionError(f"The file {path} cannot be read: permission denied.") from error
    with file:
        before = identity_of(file)
        if not os.fstat(file.fileno()).st_size:
            raise ValueError(f"The file {path} must have content. Got an empty file.")
        yield file
        try:
            after = _identity(path.stat())
        except FileNotFoundError:
            after = ()
    if before != after:
        raise changed_meanwhile(path)


def changed_meanwhile(path: Path) -> OSError:
    """Return the error of a file that somebody writes to while it is read."""
    return OSError(f"The file {path} changed while it was read. Read it again when nothing writes to it.")


def identity_of(file: BinaryIO) -> tuple[int, ...]:
    """Return what tells an open file from others, and from itself after a change."""
    return _identity(os.fstat(file.fileno()))


def _identity(status: os.stat_result) -> tuple[int, ...]:
    # Without the number of the device: each machine of a cluster has another one for the same network disk.
    return status.st_ino, status.st_size, status.st_mtime_ns


def check_header(names: Sequence[str], path: Path) -> None:
    """Refuse more columns than anything here can use, and columns of the same name."""
    if len(names) > MOST_COLUMNS:
        raise too_wide(path, len(names))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"The columns of the file {path} must have different names. Got {listed(twice)} more than once."
        )


def too_wide(path: Path, n_columns: int) -> ValueError:
    """Return the error of a file with too many columns."""
    return ValueError(
        f"The file {path} must have at most {MOST_COLUMNS:,} columns. Got {n_columns:,}. Keep those that "
        "matter, or reduce them, by a principal component analysis for example."
    )


def text_array(cells: Iterable[str | None]) -> np.ndarray:
    """Return texts as an array of objects."""
    values = list(cells)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
