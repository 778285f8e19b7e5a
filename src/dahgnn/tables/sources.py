"""Read users' files as cells: CSV, TSV, Parquet, NPZ and NPY, before any of it is understood.

**Text files** are UTF-8, with or without a byte order mark, or UTF-16 with one. The delimiter is a tab in
``.tsv``; in ``.csv`` it is the one of comma, semicolon and tab that the header line has most of, outside
quotes. Every row has as many cells as the header; blank lines are skipped.

**Arrays.** The features of an NPZ file are the array "X" or "features", or the only one of two or more
dimensions; labels and ids are arrays beside it. Those of an NPY file are other NPY files. Columns are named
"x0", "x1", …; images are flattened, their values not scaled.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dahgnn.checks import did_you_mean
from dahgnn.tables.messages import listed, no_column

MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


@dataclass(frozen=True)
class UnsupportedCells:
    """Cells that are neither numbers nor text, such as dates; ``type`` names them in messages."""

    type: str


# An array holds numbers (NaN is missing), flags, or texts as objects (None is missing).
Cells = np.ndarray | UnsupportedCells
Texts = list[str | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """The content of a file, before any of it is understood."""

    n_rows: int
    cells: dict[str, Cells]
    labels: Cells | None = None
    ids: Cells | None = None
    index: tuple[str, ...] = ()
    is_array: bool = False
    shape: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


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
    """

    label: str | None = None
    id: str | None = None
    texts: tuple[str, ...] = ()
    fitted: bool = False


@dataclass(frozen=True)
class Format:
    """How files with one ending are read, and whether their labels and ids are in other files."""

    read: Callable[[Path, Wanted], Source]
    labels_in_other_files: bool = False


def find_format(path: Path) -> Format:
    """Return the format of a file by its ending."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(
            f"The name of the file {path} must end in one of {', '.join(FORMATS)}. Got '{path.suffix}'."
        )
    return FORMATS[path.suffix.lower()]


def _with_roles(path: Path, source: Source, wanted: Wanted) -> Source:
    """Take the labels and ids out of the columns of a file."""
    if not source.n_rows:
        raise ValueError(f"The file {path} must have at least one row of data. Got a header alone.")
    labels = _take(path, source.cells, wanted.label, "label")
    if wanted.id is not None and wanted.id not in source.cells and wanted.fitted:
        note = f"There is no column '{wanted.id}' for the ids, so that rows are named by their number."
        return replace(source, labels=labels, notes=(*source.notes, note))
    return replace(source, labels=labels, ids=_take(path, source.cells, wanted.id, "id"))


def _kept_as_text(wanted: Wanted) -> set[str]:
    return {name for name in (wanted.label, wanted.id, *wanted.texts) if name is not None}


def _take(path: Path, cells: dict[str, Cells], name: str | None, role: str) -> Cells | None:
    if name is None:
        return None
    if name not in cells:
        raise no_column(path, name, cells, f"for --{role}")
    return cells.pop(name)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that stays as it is until the block ends."""
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} must be a file. Got a folder.")
        if not path.exists():
            raise FileNotFoundError(f"There is no file {path}.")
        if not path.is_file():
            raise OSError(f"{path} must be a regular file. Got a device or pipe. Save its content to a file.")
        file = path.open("rb")
    except PermissionError as error:
        raise PermissionError(f"The file {path} cannot be read: permission denied.") from error
    with file:
        before = _identity(os.fstat(file.fileno()))
        if not os.fstat(file.fileno()).st_size:
            raise ValueError(f"The file {path} must have content. Got an empty file.")
        yield file
        try:
            after = _identity(path.stat())
        except FileNotFoundError:
            after = ()
    if before != after:
        raise OSError(f"The file {path} changed while it was read. Read it again when nothing writes to it.")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _read_text_file(path: Path, wanted: Wanted) -> Source:
    """Read CSV or TSV; the cells of labels, ids and ``wanted.texts`` are text as it stands.

    The csv module checks each row before pandas reads it. pyarrow.csv would do with one reading, but takes an
    open quote for text up to the end of the file, where the csv module refuses it and names the line.
    """
    import pandas as pd

    kept = _kept_as_text(wanted)
    with _opened(path) as file:
        with _decoded(file, path) as text:
            delimiter = "\t" if path.suffix.lower() == ".tsv" else _find_delimiter(text)
        with _decoded(file, path) as text:
            header, n_rows = _survey(text, path, delimiter)
        with _decoded(file, path) as text:
            frame = pd.read_csv(
                text,
                sep=delimiter,
                header=0,
                names=header,
                index_col=False,
                dtype={name: str for name in header if name in kept},
                keep_default_na=False,
                na_values={name: list(MISSING_WORDS) for name in header if name not in kept},
                low_memory=False,  # one type a column, not one a part of the file
            )
    if len(frame) != n_rows:
        raise ValueError(
            f"The file {path} must have no line of blanks alone among its rows. "
            f'Got {n_rows - len(frame)}. Write "" for a missing cell.'
        )
    source = Source(n_rows=n_rows, cells={str(name): _from_series(cells) for name, cells in frame.items()})
    return _with_roles(path, source, wanted)


@contextlib.contextmanager
def _decoded(file: BinaryIO, path: Path) -> Iterator[io.TextIOWrapper]:
    file.seek(0)
    wide = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    file.seek(0)
    text = io.TextIOWrapper(file, encoding="utf-16" if wide else "utf-8-sig", newline="")
    try:
        yield text
    except UnicodeError as error:
        raise ValueError(
            f"The file {path} must be text in UTF-8, or in UTF-16 with a byte order mark. Got other bytes "
            f"({error}). Save it as UTF-8."
        ) from error
    finally:
        text.detach()


def _find_delimiter(text: io.TextIOWrapper) -> str:
    line = next((line for line in text if line.strip()), "")
    bare = Counter(re.sub(r'"[^"]*("|$)', "", line))
    return max(",;\t", key=lambda sign: bare[sign])  # the first of equals: a comma where there is none


def _survey(text: Iterable[str], path: Path, delimiter: str) -> tuple[list[str], int]:
    """Return the header and the number of rows, of which each is as long as the header."""
    reader = csv.reader(_without_nul(text, path), delimiter=delimiter, strict=True)
    header: list[str] = []
    n_rows = 0
    try:
        for row in reader:
            if not header:
                header = row
                continue
            if row and len(row) != len(header):
                raise ValueError(
                    f"Every row of the file {path} must have {len(header)} cells, as its header has. "
                    f"Got {len(row)} in the row that ends in line {reader.line_num}."
                )
            n_rows += bool(row)
    except csv.Error as error:
        raise ValueError(
            f"The file {path} must be a well-formed table. Got an error in line {reader.line_num}: {error}."
        ) from error
    if not header:
        raise ValueError(f"The file {path} must begin with a line of column names. Got blank lines alone.")
    _check_unique(header, path)
    return header, n_rows


def _without_nul(lines: Iterable[str], path: Path) -> Iterator[str]:
    for line in lines:
        if "\0" in line:
            raise ValueError(f"The file {path} must be text. Got a file that holds zero bytes.")
        yield line


def _check_unique(names: Sequence[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"The columns of the file {path} must have different names. Got {listed(twice)} more than once."
        )


def _from_series(series: Any) -> np.ndarray:
    if series.dtype.kind in "biuf":
        return np.asarray(series.to_numpy())
    # The rest is text, or flags with gaps and integers beyond 64 bits, which pandas holds as objects.
    return text_array(None if gap else str(cell) for cell, gap in zip(series, series.isna(), strict=True))


def text_array(cells: Iterable[str | None]) -> np.ndarray:
    """Return texts as an array of objects."""
    values = list(cells)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _read_parquet(path: Path, wanted: Wanted) -> Source:
    """Read Parquet; labels, ids and ``wanted.texts`` become text where they have another exact form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept = _kept_as_text(wanted)
    with _opened(path) as file:
        try:
            content = pq.ParquetFile(file).read()
            _check_unique(content.schema.names, path)
            columns = zip(content.schema.names, content.columns, strict=True)
            cells = {name: _from_arrow(column, name in kept) for name, column in columns}
        except (pa.ArrowException, OSError, UnicodeError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"The file {path} is cut, damaged or not Parquet ({reason}). Write it again."
            ) from error
    index = tuple(name for name in _index_names(content.schema) if name in cells and name not in kept)
    return _with_roles(path, Source(n_rows=content.num_rows, cells=cells, index=index), wanted)


def _index_names(schema: Any) -> list[str]:
    try:
        return [name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)]
    except (ValueError, TypeError, KeyError):  # there is none, or not as pandas writes it
        return []


def _from_arrow(column: Any, as_text: bool) -> Cells:
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if as_text and (is_.is_integer(kind) or is_.is_decimal(kind) or is_.is_temporal(kind)):
        column = column.cast(pa.string())
    elif is_.is_null(kind) or is_.is_decimal(kind):
        column = column.cast(pa.float64())
    kind = column.type
    if is_.is_integer(kind) or is_.is_floating(kind):
        return np.asarray(column.to_numpy())
    if is_.is_boolean(kind) or is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return text_array(None if cell is None else str(cell) for cell in column.to_pylist())
    return UnsupportedCells("dates or times" if is_.is_temporal(kind) else f"values of type {kind}")


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an NPZ file by name, or that of an NPY file under its path."""
    with _opened(path) as file:
        try:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray) != (path.suffix.lower() == ".npy"):
                raise ValueError("its name ends in the other of .npy and .npz")
            if isinstance(content, np.ndarray):
                return {str(path): content}
            return {name: np.asarray(content[name]) for name in content.files}
        except Exception as error:  # NumPy raises whatever it happens upon in damaged bytes
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"The file {path} is cut, damaged, of another kind, or holds Python objects, which are never "
                f"loaded ({reason}). Save plain arrays with numpy.save or numpy.savez."
            ) from error


def _read_npy(path: Path, wanted: Wanted) -> Source:
    names = (wanted.label, wanted.id)
    for name in names:
        if name is not None and Path(name).suffix.lower() != ".npy":
            raise ValueError(f"Labels and ids beside an NPY file must be in NPY files. Got '{name}'.")
    parts = {name: _load_arrays(Path(name)) for name in (str(path), *names) if name is not None}
    arrays = {name: array for name, part in parts.items() for array in part.values()}
    return _from_arrays(path, arrays, str(path), wanted)


def _read_npz(path: Path, wanted: Wanted) -> Source:
    arrays = _load_arrays(path)
    for name, role in ((wanted.label, "label"), (wanted.id, "id")):
        if name is not None and name not in arrays:
            hint = did_you_mean(name, arrays) or f"It has {listed(list(arrays))}."
            raise ValueError(f"The file {path} must have an array '{name}' for --{role}. Got none. {hint}")
    others = [name for name in arrays if name not in (wanted.label, wanted.id)]
    features = _pick_features(path, {name: arrays[name] for name in others})
    source = _from_arrays(path, arrays, features, wanted)
    others.remove(features)
    notes = [f"The features are the array '{features}'."]
    if others:
        notes.append(f"Ignored arrays: {listed(others)}.")
    return replace(source, notes=(*notes, *source.notes))


def _pick_features(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    for name in ("X", "features"):
        if name in arrays:
            return name
    fitting = [name for name, array in arrays.items() if array.ndim > 1 and array.dtype.kind in "biuf"]
    if len(fitting) != 1:
        raise ValueError(
            f"The file {path} must have an array 'X' of features, or one alone of two or more dimensions. "
            f"Got {listed(fitting) or 'none'}. Name it 'X'."
        )
    return fitting[0]


def _from_arrays(path: Path, arrays: Mapping[str, np.ndarray], features: str, wanted: Wanted) -> Source:
    array = arrays[features]
    if array.dtype.kind not in "biuf":
        raise ValueError(f"The features in the file {path} must be numbers. Got an array of {array.dtype}.")
    if array.ndim < 2 or not array.size:
        raise ValueError(
            f"The features in the file {path} must have the shape (n, d), or (n, height, width) for images, "
            f"none of it 0. Got {array.shape}."
        )
    notes: tuple[str, ...] = ()
    shape = array.shape[1:]
    if len(shape) > 1:
        sides = " × ".join(map(str, shape))
        notes = (f"Each row of {sides} numbers was flattened; the values are not scaled.",)
        array = array.reshape(len(array), -1)
    labels, ids = (
        None if name is None else _one_a_row(arrays[name], name, len(array))
        for name in (wanted.label, wanted.id)
    )
    cells: dict[str, Cells] = {f"x{place}": array[:, place] for place in range(array.shape[1])}
    return Source(
        n_rows=len(array), cells=cells, labels=labels, ids=ids, is_array=True, shape=shape, notes=notes
    )


def _one_a_row(array: np.ndarray, name: str, n_rows: int) -> np.ndarray:
    if array.shape != (n_rows,):
        raise ValueError(
            f"The array '{name}' must have one value for each of the {n_rows} rows of features. "
            f"Got the shape {array.shape}."
        )
    if array.dtype.kind == "S":
        with contextlib.suppress(UnicodeError):
            array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "biufU":
        raise ValueError(f"The array '{name}' must hold numbers or text. Got an array of {array.dtype}.")
    return text_array(array.tolist()) if array.dtype.kind == "U" else array


# The formats by the ending of a file's name. A new one is a function that reads it, and an entry here.
FORMATS: Mapping[str, Format] = {
    ".csv": Format(_read_text_file),
    ".tsv": Format(_read_text_file),
    ".parquet": Format(_read_parquet),
    ".npz": Format(_read_npz),
    ".npy": Format(_read_npy, labels_in_other_files=True),
}
