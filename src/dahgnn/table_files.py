"""Read users' tables: features, labels and ids from CSV, TSV, Parquet, NPZ and NPY files.

**Columns.** The content decides, not the type it is stored as, so that CSV and Parquet read alike. Numbers
stay as they are; True and False become 1 and 0; text of at most 20 distinct values becomes one feature a
value, named ``column=value``. A cell is missing if it is empty, null or NaN, or one of the words in
`MISSING_WORDS`. Missing numbers and flags get the column's median; missing text is 0 in all its features. A
column with one value throughout, or none at all, gives no feature; nor does the index that pandas stores in
Parquet. Errors name the column: for infinities, numbers beyond float32, dates, other text, and for text of
which at least half the cells are numbers, also when these have thousands separators or decimal commas.

**Labels** are text, without blanks around it; whole numbers lose a trailing ".0". A missing label means
unlabelled. So does −1 in an NPZ or NPY file of whole numbers; and in the other files, if all labels are whole
numbers, none is missing, and the rest are at least two classes of 0 and above. Hence −1 and 1 alone are two
classes there.

**Ids** are text as it stands, all different, none empty. Without them, the numbers of the rows from 0 on.

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
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dahgnn.checks import bad_type, bad_value, check_choice, check_number, suggest

MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
MOST_CATEGORIES = 20
SUFFIXES = (".csv", ".tsv", ".parquet", ".npz", ".npy")

_KINDS = ("number", "flag", "category", "unused")
_FLAGS = {word: float(word.lower() == "true") for word in ("True", "true", "TRUE", "False", "false", "FALSE")}
_NUMBER = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)\s*", re.I)
_WITH_SEPARATORS = re.compile(
    r"\s*[+-]?(?:[0-9]{1,3}(?:[.,'’_ \u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?|[0-9]+,[0-9]+)\s*"
)
_DATE = re.compile(
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{4}|[0-9]{2}))(?:[T ].*)?"
)
_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_REMEDY = "Drop it with --drop, use it as --id, or turn it into numbers."


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one column of a file becomes features; a fitted model keeps it.

    Parameters
    ----------
    name : str
    kind : str
        "number" or "flag" (one feature), "category" (one feature a value) or "unused" (none).
    fill : float or None
        What a missing number or flag becomes: the median at the time of the fit.
    categories : sequence of str
        The values that have a feature, in the order of the features.
    """

    name: str
    kind: str
    fill: float | None = None
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise bad_type("name", "Column", "text", repr(self.name))
        check_choice("kind", self.kind, _KINDS, "Column")
        if self.kind in ("number", "flag"):
            check_number("fill", self.fill, "Column", low=-_FLOAT32_MAX, high=_FLOAT32_MAX)
        # A list, where the column comes back from JSON.
        object.__setattr__(self, "categories", tuple(self.categories))
        if not all(isinstance(value, str) for value in self.categories):
            raise bad_type("categories", "Column", "a sequence of texts", repr(self.categories))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that the column becomes."""
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.categories)
        return () if self.kind == "unused" else (self.name,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """What a file holds.

    Parameters
    ----------
    features : ndarray of shape (n, d), float64 or, from an array, float32
        Finite.
    names : tuple of d str
    columns : tuple of Column
        All columns but those of the labels and ids, in the order of the file at the time of the fit.
    labels : tuple of n (str or None), or None
        None marks a row without a label; None as a whole, a file read without a label column.
    ids : tuple of n str
    notes : tuple of str
        What was understood, a sentence each.
    """

    features: np.ndarray
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    labels: tuple[str | None, ...] | None
    ids: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Foreign:
    """Cells that are neither numbers nor text."""

    type: str


# Numbers (NaN is missing), flags, or an object array of texts (None is missing).
_Cells = np.ndarray | _Foreign
_Texts = list[str | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Source:
    """The content of a file, before any of it is understood."""

    n_rows: int
    cells: dict[str, _Cells]
    labels: _Cells | None = None
    ids: _Cells | None = None
    index: tuple[str, ...] = ()
    is_array: bool = False
    notes: tuple[str, ...] = ()


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002, the word of the command line
    drop: Sequence[str] = (),
    columns: Sequence[Column] | None = None,
) -> Table:
    r"""Read a table, for a new model or for one that has been fitted.

    Parameters
    ----------
    path : path
        A file whose name ends in .csv, .tsv, .parquet, .npz or .npy.
    label, id : str, optional
        The column of the labels, and that of the ids. In an NPZ file the name of an array of n values; beside
        an NPY file the path of another.
    drop : sequence of str
        Columns to leave out.
    columns : sequence of Column, optional
        Those of the table that a model was fitted to. They are looked up by name and encoded as they were
        then. Further columns are ignored; a category that was unknown becomes zeros; without the column of
        the ids, rows are numbered.

    Raises
    ------
    OSError
        If there is no such file, it cannot be read, or it changes meanwhile.
    ValueError
        If the file is empty, cut, or of another kind; if a column is missing or cannot become features; if an
        id is missing or not unique.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "fruit.csv"
    >>> _ = path.write_text("size,colour,fruit\n1.5,red,apple\n,green,\n2.5,green,pear\n")
    >>> table = read_table(path, label="fruit")
    >>> table.names
    ('size', 'colour=green', 'colour=red')
    >>> table.features.tolist()
    [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0], [2.5, 1.0, 0.0]]
    >>> table.labels
    ('apple', None, 'pear')
    """
    _check_roles(label, id, drop, columns)
    path = Path(path)
    texts = [column.name for column in columns or () if column.kind == "category"]
    source = _read(path, label, id, texts, fitted=columns is not None)
    labels: tuple[str | None, ...] | None = None
    label_notes: list[str] = []
    if source.labels is not None:
        labels, label_notes = _read_labels(source.labels, str(label), source.is_array)
    if columns is None:
        columns, column_notes = _plan(path, source, drop)
    else:
        column_notes = _match(path, source, columns)
    features, names, encoding_notes = _encode(source, columns)
    n_used = sum(column.kind != "unused" for column in columns)
    size = f"{path.name} has {len(features)} rows, and {n_used} columns become {len(names)} features."
    return Table(
        features=features,
        names=names,
        columns=tuple(columns),
        labels=labels,
        ids=_read_ids(source, id, len(features)),
        notes=(size, *label_notes, *source.notes, *column_notes, *encoding_notes),
    )


def _check_roles(
    label: str | None, id_: str | None, drop: Sequence[str], columns: Sequence[Column] | None
) -> None:
    if isinstance(drop, str):
        raise bad_type("drop", "read_table", "a sequence of column names", repr(drop), f"Use ['{drop}'].")
    if columns is not None and drop:
        remedy = "The fitted columns say what is used."
        raise bad_value("drop", "read_table", "empty where columns are given", list(drop), remedy)
    if label is not None and label == id_:
        raise bad_value("id", "read_table", "another column than the label's", repr(id_))
    for name in drop:
        if name in (label, id_):
            role = "label" if name == label else "id"
            raise bad_value("drop", "read_table", f"without the column of the {role}s", repr(name))


def _read(path: Path, label: str | None, id_: str | None, texts: Sequence[str], fitted: bool) -> _Source:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _read_npy(path, label, id_)
    if suffix == ".npz":
        return _read_npz(path, label, id_)
    if suffix not in SUFFIXES:
        raise ValueError(
            f"The name of the file {path} must end in one of {', '.join(SUFFIXES)}. Got '{path.suffix}'."
        )
    kept = {name for name in (label, id_, *texts) if name is not None}
    read = _read_parquet if suffix == ".parquet" else _read_text_file
    source = read(path, kept)
    if not source.n_rows:
        raise ValueError(f"The file {path} must have at least one row of data. Got a header alone.")
    labels = _take(path, source.cells, label, "label")
    if id_ is not None and id_ not in source.cells and fitted:
        note = f"There is no column '{id_}' for the ids, so that rows are named by their number."
        return replace(source, labels=labels, notes=(*source.notes, note))
    return replace(source, labels=labels, ids=_take(path, source.cells, id_, "id"))


def _take(path: Path, cells: dict[str, _Cells], name: str | None, role: str) -> _Cells | None:
    if name is None:
        return None
    if name not in cells:
        raise _no_column(path, name, cells, f"for --{role}")
    return cells.pop(name)


def _no_column(path: Path, name: str, known: Iterable[str], purpose: str) -> ValueError:
    known = list(known)
    hint = suggest(name, known) or f"It has {_listed(known)}."
    return ValueError(f"The file {path} must have a column '{name}' {purpose}. Got none of that name. {hint}")


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


def _read_text_file(path: Path, kept: set[str]) -> _Source:
    """Read CSV or TSV; the cells of the ``kept`` columns are text as it stands."""
    import pandas as pd

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
    return _Source(n_rows=n_rows, cells={name: _from_series(frame.pop(name)) for name in header})


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
            f"The columns of the file {path} must have different names. Got {_listed(twice)} more than once."
        )


def _from_series(series: Any) -> np.ndarray:
    if series.dtype.kind in "biuf":
        return np.asarray(series.to_numpy())
    # Text; or flags with gaps and integers beyond 64 bits, which pandas holds as objects.
    return _text_array(None if gap else str(cell) for cell, gap in zip(series, series.isna(), strict=True))


def _text_array(cells: Iterable[str | None]) -> np.ndarray:
    listed = list(cells)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _read_parquet(path: Path, kept: set[str]) -> _Source:
    """Read Parquet; the cells of the ``kept`` columns are text where they have another exact form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    return _Source(n_rows=content.num_rows, cells=cells, index=index)


def _index_names(schema: Any) -> list[str]:
    try:
        return [name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)]
    except (ValueError, TypeError, KeyError):  # there is none, or not as pandas writes it
        return []


def _from_arrow(column: Any, as_text: bool) -> _Cells:
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
        return _text_array(None if cell is None else str(cell) for cell in column.to_pylist())
    return _Foreign("dates or times" if is_.is_temporal(kind) else f"values of type {kind}")


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


def _read_npy(path: Path, label: str | None, id_: str | None) -> _Source:
    for name in (label, id_):
        if name is not None and Path(name).suffix.lower() != ".npy":
            raise ValueError(f"Labels and ids beside an NPY file must be in NPY files. Got '{name}'.")
    parts = {name: _load_arrays(Path(name)) for name in (str(path), label, id_) if name is not None}
    arrays = {name: array for name, part in parts.items() for array in part.values()}
    return _from_arrays(path, arrays, str(path), label, id_)


def _read_npz(path: Path, label: str | None, id_: str | None) -> _Source:
    arrays = _load_arrays(path)
    for name, role in ((label, "label"), (id_, "id")):
        if name is not None and name not in arrays:
            hint = suggest(name, arrays) or f"It has {_listed(list(arrays))}."
            raise ValueError(f"The file {path} must have an array '{name}' for --{role}. Got none. {hint}")
    others = [name for name in arrays if name not in (label, id_)]
    features = _pick_features(path, {name: arrays[name] for name in others})
    source = _from_arrays(path, arrays, features, label, id_)
    others.remove(features)
    notes = [f"The features are the array '{features}'."]
    if others:
        notes.append(f"Ignored arrays: {_listed(others)}.")
    return replace(source, notes=(*notes, *source.notes))


def _pick_features(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    for name in ("X", "features"):
        if name in arrays:
            return name
    fitting = [name for name, array in arrays.items() if array.ndim > 1 and array.dtype.kind in "biuf"]
    if len(fitting) != 1:
        raise ValueError(
            f"The file {path} must have an array 'X' of features, or one alone of two or more dimensions. "
            f"Got {_listed(fitting) or 'none'}. Name it 'X'."
        )
    return fitting[0]


def _from_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], features: str, label: str | None, id_: str | None
) -> _Source:
    array = arrays[features]
    if array.dtype.kind not in "biuf":
        raise ValueError(f"The features in the file {path} must be numbers. Got an array of {array.dtype}.")
    if array.ndim < 2 or not array.size:
        raise ValueError(
            f"The features in the file {path} must have the shape (n, d), or (n, height, width) for images, "
            f"none of it 0. Got {array.shape}."
        )
    notes: tuple[str, ...] = ()
    if array.ndim > 2:
        shape = " × ".join(str(side) for side in array.shape[1:])
        notes = (f"Each row of {shape} numbers was flattened; the values are not scaled.",)
        array = array.reshape(len(array), -1)
    labels, ids = (
        None if name is None else _one_a_row(arrays[name], name, len(array)) for name in (label, id_)
    )
    cells: dict[str, _Cells] = {f"x{place}": array[:, place] for place in range(array.shape[1])}
    return _Source(n_rows=len(array), cells=cells, labels=labels, ids=ids, is_array=True, notes=notes)


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
    return _text_array(array.tolist()) if array.dtype.kind == "U" else array


def _read_labels(cells: _Cells, name: str, is_array: bool) -> tuple[tuple[str | None, ...], list[str]]:
    stripped = (text and text.strip() for text in _as_texts(cells, name))
    texts = _without_missing(stripped)
    whole = [_WHOLE.fullmatch(text) if text is not None else None for text in texts]
    notes = []
    if all(match is not None for match, text in zip(whole, texts, strict=True) if text is not None):
        texts = [match and match[1] for match in whole]
        if "-1" in texts and (is_array or _has_minus_one_for_none(texts)):
            notes.append(f"The label -1 was taken for unlabelled, in {texts.count('-1')} rows.")
            texts = [None if text == "-1" else text for text in texts]
    counts = Counter(text for text in texts if text is not None)
    classes = _joined([f"{_quoted(label)} ({count})" for label, count in counts.most_common()]) or "none"
    known = f"{counts.total()} of {len(texts)} rows are labelled in '{name}', with {len(counts)} classes"
    return tuple(texts), [f"{known}: {classes}.", *notes]


def _has_minus_one_for_none(texts: _Texts) -> bool:
    others = {text for text in texts if text != "-1"}
    return len(others) > 1 and all(text is not None and not text.startswith("-") for text in others)


def _read_ids(source: _Source, name: str | None, n_rows: int) -> tuple[str, ...]:
    if source.ids is None:
        return tuple(str(row) for row in range(n_rows))
    first: dict[str, int] = {}
    for row, text in enumerate(_as_texts(source.ids, str(name))):
        if not text:
            raise ValueError(f"The ids in '{name}' must all be there. Got none in {_at(row)}.")
        if text in first:
            rows = f"rows {first[text]} and {row} (counted from 0)"
            raise ValueError(f"The ids in '{name}' must differ. Got {_quoted(text)} in {rows}.")
        first[text] = row
    return tuple(first)


def _as_texts(cells: _Cells, name: str) -> _Texts:
    if isinstance(cells, _Foreign):
        raise ValueError(f"The column '{name}' must hold text or numbers. Got {cells.type}.")
    if cells.dtype.kind != "f":
        return [None if cell is None else str(cell) for cell in cells]
    whole = bool(np.all(np.isnan(cells) | (np.isfinite(cells) & (np.trunc(cells) == cells))))
    return [None if np.isnan(cell) else str(int(cell)) if whole else str(cell) for cell in cells]


def _without_missing(texts: Iterable[str | None]) -> _Texts:
    return [None if text in MISSING_WORDS else text for text in texts]


def _plan(path: Path, source: _Source, drop: Sequence[str]) -> tuple[list[Column], list[str]]:
    """Decide how the columns of a file become features."""
    for name in drop:
        if name not in source.cells:
            raise _no_column(path, name, source.cells, "for --drop")
    dropped = {*drop, *source.index}
    columns = [
        Column(name=name, kind="unused") if name in dropped else _plan_column(name, cells)
        for name, cells in source.cells.items()
    ]
    constant = [column.name for column in columns if column.kind == "unused" and column.name not in dropped]
    if all(column.kind == "unused" for column in columns):
        raise ValueError(
            f"The file {path} must have a column that can be a feature. Got {len(dropped)} that are dropped "
            f"and {len(constant)} with one value or none."
        )
    index = [name for name in source.index if name not in drop]
    said = (
        (list(drop), "dropped, as asked"),
        (index, "left out: the index of a pandas table"),
        (constant, "left out: the same in all rows, or missing in all"),
    )
    return columns, [f"{_counted(names)} {words}." for names, words in said if names]


def _plan_column(name: str, cells: _Cells) -> Column:
    if not name:
        raise ValueError(
            "Every column must have a name. Got one without, which is often a number of rows. "
            "Use it as --id '', or drop it with --drop ''."
        )
    kind, values = _classify(name, cells)
    if kind == "category":
        return _plan_category(name, values.tolist())
    present = values[~np.isnan(values)]
    if not present.size or present.min() == present.max():
        return Column(name=name, kind="unused")
    return Column(name=name, kind=kind, fill=float(np.median(present)))


def _classify(name: str, cells: _Cells) -> tuple[str, np.ndarray]:
    """Return "number" or "flag" and float64 values in range (NaN is missing), or "category" and texts."""
    if isinstance(cells, _Foreign):
        raise ValueError(f"The column '{name}' must hold numbers, flags or text. Got {cells.type}. {_REMEDY}")
    if cells.dtype != object:
        with np.errstate(over="ignore"):  # a wider float becomes infinite, which is refused
            values = cells.astype(np.float64)
        return "flag" if cells.dtype.kind == "b" else "number", _in_range(name, values)
    texts = _without_missing(cells)
    distinct = {text for text in texts if text is not None}
    if all(_NUMBER.fullmatch(text) for text in distinct):
        values = np.array([math.nan if text is None else float(text) for text in texts])
        return "number", _in_range(name, values)
    if distinct <= _FLAGS.keys():
        return "flag", np.array([math.nan if text is None else _FLAGS[text] for text in texts])
    return "category", _text_array(texts)


def _in_range(name: str, values: np.ndarray) -> np.ndarray:
    bad = np.flatnonzero(np.abs(values) > _FLOAT32_MAX)
    if bad.size:
        raise ValueError(
            f"The column '{name}' must hold finite numbers of at most {_FLOAT32_MAX:.2g} in size. "
            f"Got {values[bad[0]]} in {_at(bad[0])}. Correct the cell, or leave it empty: that means missing."
        )
    return values


def _plan_category(name: str, texts: _Texts) -> Column:
    counts = Counter(text for text in texts if text is not None)
    half = counts.total() / 2
    numbers = [text for text in counts if _NUMBER.fullmatch(text) or _WITH_SEPARATORS.fullmatch(text)]
    if sum(counts[text] for text in numbers) >= half:
        row, text = _first(texts, lambda text: not _NUMBER.fullmatch(text))
        raise ValueError(
            f"The column '{name}' must hold numbers, such as 1234.5. Got {_quoted(text)} in {_at(row)}. "
            "Correct the cell, leave it empty (that means missing), or drop the column with --drop."
        )
    if sum(counts[text] for text in counts if _DATE.fullmatch(text)) >= half:
        raise ValueError(f"The column '{name}' must hold numbers, flags or text. Got dates. {_REMEDY}")
    if len(counts) > MOST_CATEGORIES:
        raise ValueError(
            f"The column '{name}' must hold numbers, or text of at most {MOST_CATEGORIES} distinct values. "
            f"Got {len(counts)} such values, the first {_quoted(next(iter(counts)))}. {_REMEDY}"
        )
    if len(counts) == 1 and None not in texts:
        return Column(name=name, kind="unused")
    return Column(name=name, kind="category", categories=tuple(sorted(counts)))


def _first(texts: _Texts, is_sought: Callable[[str], object]) -> tuple[int, str]:
    return next((row, text) for row, text in enumerate(texts) if text is not None and is_sought(text))


def _match(path: Path, source: _Source, columns: Sequence[Column]) -> list[str]:
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
    for column in columns:
        if column.kind != "unused" and column.name not in source.cells:
            raise _no_column(path, column.name, source.cells, "which the model was fitted with")
    known = {column.name for column in columns}
    further = [name for name in source.cells if name not in known]
    return [f"{_counted(further)} ignored: the model was fitted without."] if further else []


def _encode(source: _Source, columns: Sequence[Column]) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    names = tuple(name for column in columns for name in column.feature_names)
    # Cells are numbers of 15 digits, arrays mostly of fewer.
    dtype = np.float32 if source.is_array else np.float64
    features = np.zeros((source.n_rows, len(names)), dtype=dtype)
    notes: list[str] = []
    filled: list[str] = []
    place = 0
    for column in columns:
        if column.kind == "unused":
            continue
        block = features[:, place : place + len(column.feature_names)]
        place += block.shape[1]
        if column.kind == "category":
            notes += _encode_category(column, source.cells[column.name], block)
        elif n_missing := _encode_numbers(column, source.cells[column.name], block[:, 0]):
            filled.append(f"{_quoted(column.name)} ({n_missing}, with {column.fill:g})")
    if filled:
        notes.append(f"Missing values of {len(filled)} columns became the median: {_joined(filled)}.")
    return features, names, notes


def _encode_numbers(column: Column, cells: _Cells, into: np.ndarray) -> int:
    """Write the numbers of a column, and return how many were missing."""
    values = _as_numbers(column, cells)
    missing = np.isnan(values)
    into[:] = values
    into[missing] = column.fill
    return int(missing.sum())


def _as_numbers(column: Column, cells: _Cells) -> np.ndarray:
    kind, values = _classify(column.name, cells)
    if kind == "category":
        fits = _NUMBER.fullmatch if column.kind == "number" else _FLAGS.__contains__
        row, text = _first(values.tolist(), lambda text: not fits(text))
        raise _unlike_before(column, row, _quoted(text))
    if kind != column.kind:
        missing = np.isnan(values)
        fitting = missing if column.kind == "number" else missing | (values == 0) | (values == 1)
        if not fitting.all():
            row = int(np.argmin(fitting))
            raise _unlike_before(column, row, bool(values[row]) if kind == "flag" else values[row])
    return values


def _unlike_before(column: Column, row: int, got: object) -> ValueError:
    wanted = "numbers, such as 1234.5" if column.kind == "number" else "True and False, or 1 and 0"
    return ValueError(
        f"The column '{column.name}' must hold {wanted}, as at the fit. Got {got} in {_at(row)}. "
        "Correct the cell, or leave it empty: that means missing."
    )


def _encode_category(column: Column, cells: _Cells, into: np.ndarray) -> list[str]:
    texts = _without_missing(_as_texts(cells, column.name))
    places = {value: place for place, value in enumerate(column.categories)}
    at = np.array([-1 if text is None else places.get(text, -1) for text in texts])
    rows = np.flatnonzero(at >= 0)
    into[rows, at[rows]] = 1
    notes = [f"The column '{column.name}' is text; one feature for each of {_listed(column.categories)}."]
    missing = texts.count(None)
    if missing:
        notes.append(f"{missing} missing values of '{column.name}' are 0 in all its features.")
    unknown = [text for text in texts if text is not None and text not in places]
    if unknown:
        values = _listed(list(dict.fromkeys(unknown)))
        notes.append(f"{len(unknown)} values of '{column.name}', unknown at the fit, are 0: {values}.")
    return notes


def _at(row: int) -> str:
    return f"row {row} (counted from 0)"


def _quoted(text: str) -> str:
    return f"'{text if len(text) <= 60 else text[:60] + '…'}'"


def _counted(names: Sequence[str]) -> str:
    columns, were = ("columns", "were") if len(names) > 1 else ("column", "was")
    return f"{len(names)} {columns} ({_listed(names)}) {were}"


def _listed(names: Sequence[str]) -> str:
    return _joined([_quoted(name) for name in names])


def _joined(parts: Sequence[str], most: int = 6) -> str:
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")
