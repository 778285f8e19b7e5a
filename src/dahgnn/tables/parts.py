"""A table in several files of rows, as Spark and Dask write it: a folder of Parquet or Arrow files.

The rows are those of all files in the order of their names. All files must have the same columns, by name and
by what they hold: a column of whole numbers in one file and of decimal ones in another is one of numbers, and
a column without any value may be of any type. Hidden files and others, such as ``_SUCCESS``, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from dahgnn.tables.arrow_cells import cells_from_arrow, index_names
from dahgnn.tables.messages import joined, listed, quoted
from dahgnn.tables.picture_folders import has_pictures
from dahgnn.tables.row_files import ROW_FILES, RowFile, look_at, read_whole
from dahgnn.tables.sources import Source, Wanted, kept_as_text, text_array, with_roles

# What a column of each type holds, in words of messages.
_NULL, _NUMBERS = "nothing", "numbers"


@dataclass(frozen=True)
class Parts:
    """A table in one or several files, which have been looked at.

    Attributes
    ----------
    path : Path
        The folder, or the only file.
    files : tuple of RowFile
        The files, in the order of their rows.
    others : tuple of str
        Names of files in the folder that are left out.
    """

    path: Path
    files: tuple[RowFile, ...]
    others: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(file.n_rows for file in self.files)

    @property
    def n_values(self) -> int:
        """How many numbers or texts there are."""
        return sum(file.n_values for file in self.files)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the first file."""
        return self.files[0].names

    @property
    def index(self) -> tuple[str, ...]:
        """The columns that are the index of a pandas table."""
        return tuple(index_names(self.files[0].schema))

    @property
    def begins(self) -> list[int]:
        """The number of the first row of each file."""
        return [0, *accumulate(file.n_rows for file in self.files)][:-1]

    @property
    def is_folder(self) -> bool:
        """Whether the rows are those of all files in a folder."""
        return self.path != self.files[0].path

    def notes(self) -> list[str]:
        """Say how many files there are, and what was left out."""
        if not self.is_folder:
            return []
        count = len(self.files)
        said = [f"The rows are those of {count:,} {'file' if count == 1 else 'files'}, in order of name."]
        empty = [quoted(file.path.name) for file in self.files if not file.n_rows]
        if empty:
            said.append(f"{_counted(empty, 'file has', 'files have')} no rows: {joined(empty)}.")
        if self.others:
            named = joined([quoted(name) for name in self.others])
            said.append(f"{_counted(self.others, 'other file was', 'other files were')} ignored: {named}.")
        return said


def _counted(things: Sequence[str], one: str, several: str) -> str:
    return f"{len(things):,} {one if len(things) == 1 else several}"


def holds_row_files(folder: Path) -> bool:
    """Whether a folder has files of rows directly in it."""
    try:
        return folder.is_dir() and any(_is_row_file(path) for path in folder.iterdir())
    except PermissionError:  # whoever opens it says so
        return False


def look_at_parts(path: Path, kind: str | None = None) -> Parts:
    """Look at a file of rows, or at all that are in a folder, and see that their columns are the same.

    Parameters
    ----------
    path : Path
        The file or folder.
    kind : {"parquet", "arrow"}, optional
        What a file is, if its name does not say it.

    Raises
    ------
    ValueError
        If there is no file, if one is cut or damaged or has other columns, or if there are pictures as well.
    """
    if not path.is_dir():
        return Parts(path, (look_at(path, kind),))
    paths, others = _find(path)
    if not paths:
        endings = ", ".join(ROW_FILES)
        raise ValueError(f"The folder {path} must have files in it that end in one of {endings}. Got none.")
    if has_pictures(path):
        names = [each.name for each in paths]
        raise ValueError(
            f"The folder {path} must have either pictures in it, or files of rows. Got {listed(names)}"
            " and pictures as well. Move one kind to another folder."
        )
    parts = Parts(path, tuple(look_at(each) for each in paths), tuple(each.name for each in others))
    check_columns(parts.files)
    if not parts.n_rows:
        raise ValueError(f"The files in {path} must have at least one row of data. Got none.")
    return parts


def _find(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of rows and the other files directly in a folder, each in the order of their names."""
    found = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    return [path for path in found if _is_row_file(path)], [path for path in found if not _is_row_file(path)]


def _is_row_file(path: Path) -> bool:
    hidden = path.name.startswith((".", "_"))
    return not hidden and path.suffix.lower() in ROW_FILES and not path.is_dir()


def check_columns(files: Sequence[RowFile]) -> None:
    """Refuse files whose columns are not those of the first, by name and by what they hold."""
    first = files[0]
    held: dict[str, tuple[str, str]] = {}  # what a column holds, and which file says so
    for file in files:
        _check_names(file, first)
        for name, kind in _kinds(file):
            if kind == _NULL:
                continue
            expected, told = held.setdefault(name, (kind, file.path.name))
            if kind != expected:
                raise ValueError(
                    f"The column '{name}' of the file {file.path} must hold {expected}, as in {told}. "
                    f"Got {kind}. Write all files with the same types."
                )


def _check_names(file: RowFile, first: RowFile) -> None:
    absent = [name for name in first.names if name not in set(file.names)]
    further = [name for name in file.names if name not in set(first.names)]
    if absent or further:
        got = [f"none called {listed(absent)}"] * bool(absent) + [f"also {listed(further)}"] * bool(further)
        raise ValueError(
            f"The file {file.path} must have the columns of {first.path.name}. Got {', and '.join(got)}. "
            "Write all files with the same columns, or move this one elsewhere."
        )


def _kinds(file: RowFile) -> Iterator[tuple[str, str]]:
    """Give each column of a file, and what it holds."""
    for column in file.schema:
        yield column.name, _kind(column.type)


def _kind(type_: Any) -> str:
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(type_):
        return _kind(type_.value_type)
    if is_.is_list(type_) or is_.is_large_list(type_) or is_.is_fixed_size_list(type_):
        return f"lists of {_kind(type_.value_type)}"
    for holds, kind in (
        (is_.is_null, _NULL),
        (is_.is_integer, _NUMBERS),
        (is_.is_floating, _NUMBERS),
        (is_.is_decimal, _NUMBERS),
        (is_.is_boolean, "flags"),
        (is_.is_string, "text"),
        (is_.is_large_string, "text"),
        (is_.is_string_view, "text"),
        (is_.is_date, "dates"),
        (is_.is_timestamp, "dates"),
    ):
        if holds(type_):
            return kind
    return f"values of type {type_}"


def read_parts(path: Path, wanted: Wanted) -> Source:
    """Read a folder of files of rows that fits into memory as one table."""
    parts, kept = look_at_parts(path), kept_as_text(wanted)
    columns = _read_columns(parts)
    cells = {name: cells_from_arrow(column, name in kept) for name, column in columns.items()}
    files = tuple((file.path.name, begin) for file, begin in zip(parts.files, parts.begins, strict=True))
    index = tuple(name for name in parts.index if name in cells and name not in kept)
    source = Source(
        n_rows=parts.n_rows,
        cells=cells,
        index=index,
        files=files,
        notes=tuple(parts.notes()),
        ids=None if wanted.id is not None else text_array(_row_names(parts)),
    )
    return with_roles(path, source, wanted)


def _read_columns(parts: Parts) -> dict[str, Any]:
    """Return each column over all files, as one of Arrow."""
    import pyarrow as pa

    read = [read_whole(file, lambda _, column: _without_dictionary(column)) for file in parts.files]
    tables = [pa.table(columns) for columns in read]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"The files in {parts.path} must have columns of the same types. Got others ({reason})."
        ) from error
    return {name: table.column(name) for name in parts.names}


def _without_dictionary(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _row_names(parts: Parts) -> Iterator[str]:
    for file in parts.files:
        for row in range(file.n_rows):
            yield row_name(file.path, row)


def row_name(path: Path, row: int) -> str:
    """Return what a row of one of several files is called where it has no id: its file, and its number.

    Examples
    --------
    >>> row_name(Path("data/part-00001.parquet"), 7)
    'part-00001.parquet:7'
    """
    return f"{path.name}:{row}"
