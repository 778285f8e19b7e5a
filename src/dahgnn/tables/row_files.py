"""Files of rows in Parquet or Arrow, read whole or block by block.

A file is looked at first: that tells its columns and its number of rows, and reads none of them. When its
rows are read, it must still be the same file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dahgnn.tables.sources import changed_meanwhile, check_header, identity_of, opened

# What the endings of names say that a file is. Feather files, since version 2, are Arrow files.
ROW_FILES = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow"}
_TITLES = {"parquet": "Parquet", "arrow": "Arrow"}
# Bytes of a column that are read from a file at once.
_BUFFER = 1 << 20

Schema = Any
ArrowTable = Any


@dataclass(frozen=True, kw_only=True)
class RowFile:
    """A file of rows as it was when it was looked at.

    Attributes
    ----------
    path : Path
        Where it is.
    kind : {"parquet", "arrow"}
        What it is.
    n_rows, n_values : int
        How many rows there are, and how many numbers or texts are in all of them.
    schema : pyarrow.Schema
        The names and types of its columns.
    identity : tuple of int
        Tells this file from another one under its name.
    """

    path: Path
    kind: str
    n_rows: int
    n_values: int
    schema: Schema = field(repr=False)
    identity: tuple[int, ...] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)


def look_at(path: Path, kind: str | None = None) -> RowFile:
    """Return what a file says of itself; ``kind`` is that of its name, if it is not given.

    Raises
    ------
    OSError, ValueError
        If there is no such file, or it is empty, cut, damaged or of another kind.
    """
    kind = kind or ROW_FILES[path.suffix.lower()]
    with opened(path) as file, _explained(path, kind):
        schema, n_rows, n_values = _LOOKS[kind](file)
        identity = identity_of(file)
    check_header(schema.names, path)
    return RowFile(path=path, kind=kind, n_rows=n_rows, n_values=n_values, schema=schema, identity=identity)


def read_whole(file: RowFile, convert: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return all columns of a file, each as a function of its name and the column of Arrow gives it."""
    with _opened_again(file) as stream, _explained(file.path, file.kind):
        table = _READS[file.kind](stream)
        columns = zip(table.schema.names, table.columns, strict=True)
        return {name: convert(name, column) for name, column in columns}


def read_blocks(file: RowFile, columns: Sequence[str], most_rows: int) -> Iterator[ArrowTable]:
    """Give some columns of a file as tables of Arrow of so many rows, but the last, which may have fewer.

    Row groups of any size are brought to blocks of one size.
    """
    import pyarrow as pa

    waiting: list[Any] = []
    count = 0
    with _opened_again(file) as stream:
        for batch in _batches(file, stream, columns, most_rows):
            waiting.append(batch)
            count += batch.num_rows
            while count >= most_rows:
                table = pa.Table.from_batches(waiting)
                yield table.slice(0, most_rows)
                waiting = table.slice(most_rows).to_batches()
                count -= most_rows
        if count:
            yield pa.Table.from_batches(waiting)


def _batches(file: RowFile, stream: BinaryIO, columns: Sequence[str], most_rows: int) -> Iterator[Any]:
    """Give batches of the columns, in their order; an error of the library becomes one for users."""
    batches = _BATCHES[file.kind](stream, columns, most_rows)
    while True:
        with _explained(file.path, file.kind):
            try:
                batch = next(batches)
            except StopIteration:
                return
            batch = batch.select(list(columns))
        yield batch


@contextlib.contextmanager
def _opened_again(file: RowFile) -> Iterator[BinaryIO]:
    """Open a file that is still what it was when it was looked at."""
    with opened(file.path) as stream:
        if identity_of(stream) != file.identity:
            raise changed_meanwhile(file.path)
        yield stream


@contextlib.contextmanager
def _explained(path: Path, kind: str) -> Iterator[None]:
    """Say what is wrong with a file where the library says it in its own words."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"The file {path} is cut, damaged or not {_TITLES[kind]} ({reason}). Write it again."
        ) from error


def _open_parquet(stream: BinaryIO) -> Any:
    import pyarrow.parquet as pq

    # Without buffers of its own the library reads a whole row group at once, however large that is.
    return pq.ParquetFile(stream, buffer_size=_BUFFER, pre_buffer=False)


def _look_at_parquet(stream: BinaryIO) -> tuple[Schema, int, int]:
    parquet = _open_parquet(stream)
    groups = [parquet.metadata.row_group(place) for place in range(parquet.metadata.num_row_groups)]
    n_values = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    return parquet.schema_arrow, parquet.metadata.num_rows, n_values


def _look_at_arrow(stream: BinaryIO) -> tuple[Schema, int, int]:
    import pyarrow as pa

    reader = pa.ipc.open_file(stream)
    n_rows = n_bytes = 0
    # Arrow files keep the numbers of rows with the rows, of which one batch after the other is looked at.
    for place in range(reader.num_record_batches):
        batch = reader.get_batch(place)
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.nbytes
    return reader.schema, n_rows, max(n_rows * len(reader.schema.names), n_bytes // 8)


def _read_parquet(stream: BinaryIO) -> ArrowTable:
    import pyarrow.parquet as pq

    return pq.ParquetFile(stream).read()


def _read_arrow(stream: BinaryIO) -> ArrowTable:
    import pyarrow as pa

    table = pa.ipc.open_file(stream).read_all()
    table.validate(full=True)  # damaged places of texts would lead anywhere in memory
    return table


def _parquet_batches(stream: BinaryIO, columns: Sequence[str], most_rows: int) -> Iterator[Any]:
    return iter(_open_parquet(stream).iter_batches(batch_size=most_rows, columns=list(columns)))


def _arrow_batches(stream: BinaryIO, columns: Sequence[str], most_rows: int) -> Iterator[Any]:  # noqa: ARG001
    import pyarrow as pa

    reader = pa.ipc.open_file(stream)
    for place in range(reader.num_record_batches):
        batch = reader.get_batch(place)
        batch.validate(full=True)
        yield batch


_LOOKS = {"parquet": _look_at_parquet, "arrow": _look_at_arrow}
_READS = {"parquet": _read_parquet, "arrow": _read_arrow}
_BATCHES = {"parquet": _parquet_batches, "arrow": _arrow_batches}
