"""Tables that are larger than memory, given block by block: files of rows, and arrays of NPY files.

Both give blocks of cells as `dahgnn.tables.sources` has them, so that a large table is understood as a small
one is. No block has more cells than `BLOCK_CELLS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from dahgnn.tables.array_files import explained, features_shape, read_head
from dahgnn.tables.arrow_cells import cells_from_arrow
from dahgnn.tables.parts import Parts, row_name
from dahgnn.tables.row_files import RowFile, read_blocks
from dahgnn.tables.sources import (
    MOST_COLUMNS,
    Cells,
    Source,
    UnsupportedCells,
    changed_meanwhile,
    identity_of,
    opened,
    text_array,
    too_wide,
)

# A block has at most so many rows, and so many cells: 32 MiB of numbers.
BLOCK_ROWS, BLOCK_CELLS = 1 << 16, 1 << 22
_FEWEST_ROWS = 256

Array = np.ndarray


class LargeSource(Protocol):
    """A table that is given block by block."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def n_values(self) -> int:
        """How many numbers or texts there are."""

    @property
    def names(self) -> list[str]:
        """The names of all columns."""

    @property
    def index(self) -> tuple[str, ...]:
        """The columns that are the index of a pandas table."""

    @property
    def is_array(self) -> bool:
        """Whether columns are named by their places."""

    def notes(self) -> list[str]:
        """Say what the table consists of."""

    def blocks(self, names: Sequence[str], texts: Sequence[str]) -> Iterator[Source]:
        """Give the cells of some columns block by block; those of ``texts`` come as text."""

    def coded(self, name: str) -> Iterator[tuple[Cells, Array]]:
        """Give the different cells of a column, block by block, and which each row has, −1 for none."""

    def texts(self, name: str) -> Iterator[Cells]:
        """Give the cells of one column alone, such as that of the ids, as text."""

    def place(self, row: int) -> str:
        """Say where a row is."""

    def row_name(self, row: int) -> str:
        """Return what a row is called where it has no id."""


def block_rows(n_rows: int, n_values: int) -> int:
    """Return how many rows of a table a block has."""
    a_row = max(1, -(-n_values // max(n_rows, 1)))
    return max(min(BLOCK_ROWS, BLOCK_CELLS // a_row), min(_FEWEST_ROWS, BLOCK_ROWS))


@dataclass(frozen=True)
class PartRows:
    """The rows of one or several files of rows."""

    parts: Parts

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.parts.path

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.parts.n_rows

    @property
    def n_values(self) -> int:
        """How many numbers or texts there are."""
        return self.parts.n_values

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return self.parts.names

    @property
    def index(self) -> tuple[str, ...]:
        """The columns that are the index of a pandas table."""
        return self.parts.index

    @property
    def is_array(self) -> bool:
        """Whether columns are named by their places, which those of files of rows are not."""
        return False

    def notes(self) -> list[str]:
        """Say how many files there are, and what was left out."""
        return self.parts.notes()

    def blocks(self, names: Sequence[str], texts: Sequence[str]) -> Iterator[Source]:
        """Give the cells of some columns block by block; those of ``texts`` come as text."""
        for file in self.parts.files:
            yield from file_blocks(file, names, texts, block_rows(self.n_rows, self.n_values))

    def coded(self, name: str) -> Iterator[tuple[Cells, Array]]:
        """Give the different cells of a column, block by block, and which of them each row has."""
        for file in self.parts.files:
            for table in read_blocks(file, [name], BLOCK_ROWS):
                yield _as_codes(table.column(name))

    def texts(self, name: str) -> Iterator[Cells]:
        """Give the cells of one column alone as text."""
        for file in self.parts.files:
            for table in read_blocks(file, [name], BLOCK_ROWS):
                yield cells_from_arrow(table.column(name), as_text=True)

    def place(self, row: int) -> str:
        """Say where a row is."""
        begins = self.parts.begins
        at = int(np.searchsorted(begins, row, side="right")) - 1
        return f"row {row - begins[at] + 1} (counted from 1) of {self.parts.files[at].path.name}"

    def row_name(self, row: int) -> str:
        """Return what a row is called where it has no id."""
        if not self.parts.is_folder:
            return str(row)
        begins = self.parts.begins
        at = int(np.searchsorted(begins, row, side="right")) - 1
        return row_name(self.parts.files[at].path, row - begins[at])


def file_blocks(
    file: RowFile, names: Sequence[str], texts: Sequence[str], most_rows: int
) -> Iterator[Source]:
    """Give the cells of some columns of one file block by block; those of ``texts`` come as text."""
    begin = 0
    kept = set(texts)
    for table in read_blocks(file, names, most_rows):
        cells = {name: cells_from_arrow(table.column(name), name in kept) for name in names}
        yield Source(n_rows=table.num_rows, cells=cells, files=((file.path.name, -begin),))
        begin += table.num_rows


def _as_codes(column: Any) -> tuple[Cells, Array]:
    """Return the different cells of a column, as text where that is exact, and which each row has."""
    import pyarrow as pa

    cells = cells_from_arrow(column.slice(0, 0), as_text=True)
    if isinstance(cells, UnsupportedCells):
        return cells, np.full(len(column), -1)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        return np.empty(0), np.full(len(column), -1)
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    distinct = cells_from_arrow(pa.chunked_array([coded.dictionary]), as_text=True)
    return distinct, coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class ArrayRows:
    """The rows of an array in an NPY file.

    It is read and not mapped: a file that somebody cuts off meanwhile would end the process.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = field(repr=False)
    identity: tuple[int, ...] = field(repr=False)

    @classmethod
    def look_at(cls, path: Path) -> ArrayRows:
        """Read the beginning of the file."""
        with opened(path) as file:
            with explained(path):
                head = read_head(file, path.stat().st_size)
            shape = features_shape(path, head.shape, head.dtype)
            if math.prod(shape[1:]) > MOST_COLUMNS:
                raise too_wide(path, math.prod(shape[1:]))
            if head.is_fortran:
                raise ValueError(
                    f"The array in the file {path} must have its rows one after the other. Got columns. "
                    "Save it again by numpy.ascontiguousarray."
                )
            return cls(path, shape, head.dtype, file.tell(), identity_of(file))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.shape[0]

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return math.prod(self.shape[1:])

    @property
    def n_values(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)

    @property
    def names(self) -> list[str]:
        """The names of the columns, which are their places."""
        return [f"x{place}" for place in range(self.width)]

    @property
    def index(self) -> tuple[str, ...]:
        """The columns that are the index of a pandas table, of which an array has none."""
        return ()

    @property
    def is_array(self) -> bool:
        """Whether columns are named by their places."""
        return True

    def notes(self) -> list[str]:
        """Say whether rows were flattened."""
        if len(self.shape) == 2:
            return []
        sides = " × ".join(map(str, self.shape[1:]))
        return [f"Each row of {sides} numbers was flattened; the values are not scaled."]

    def blocks(self, names: Sequence[str], texts: Sequence[str]) -> Iterator[Source]:  # noqa: ARG002
        """Give the cells of some columns block by block; there is no text."""
        places = [int(name.removeprefix("x")) for name in names]
        begin = 0
        for rows in self._read(block_rows(self.n_rows, self.n_values)):
            cells: dict[str, Cells] = {f"x{place}": rows[:, place] for place in places}
            files = ((self.path.name, -begin),)
            yield Source(n_rows=len(rows), cells=cells, is_array=True, shape=self.shape[1:], files=files)
            begin += len(rows)

    def coded(self, name: str) -> Iterator[tuple[Cells, Array]]:
        """Give the different labels in another NPY file, block by block, and which of them each row has."""
        for block in self._beside(name):
            distinct, codes = np.unique(block, return_inverse=True)
            yield _as_cells(distinct, name), codes

    def texts(self, name: str) -> Iterator[Cells]:
        """Give the ids in another NPY file."""
        for block in self._beside(name):
            yield _as_cells(block, name)

    def place(self, row: int) -> str:
        """Say where a row is."""
        return f"row {row + 1} (counted from 1) of {self.path.name}"

    def row_name(self, row: int) -> str:
        """Return what a row is called where it has no id."""
        return str(row)

    def _beside(self, name: str) -> Iterator[Array]:
        """Give the values of an NPY file with one value for each row, block by block."""
        path = Path(name)
        if path.suffix.lower() != ".npy":
            raise ValueError(f"Labels and ids beside an NPY file must be in NPY files. Got '{name}'.")
        with opened(path) as file:
            with explained(path):
                head = read_head(file, path.stat().st_size)
            if head.shape != (self.n_rows,):
                raise ValueError(
                    f"The array '{name}' must have one value for each of the {self.n_rows} rows of features. "
                    f"Got the shape {head.shape}."
                )
            yield from _values(file, path, head.dtype, self.n_rows, 1, BLOCK_ROWS)

    def _read(self, most_rows: int) -> Iterator[Array]:
        """Give the rows block by block, (m, d)."""
        with opened(self.path) as file:
            if identity_of(file) != self.identity:
                raise changed_meanwhile(self.path)
            file.seek(self.offset)
            for block in _values(file, self.path, self.dtype, self.n_rows, self.width, most_rows):
                yield block.reshape(-1, self.width)


def _values(
    file: BinaryIO, path: Path, dtype: np.dtype[Any], n_rows: int, width: int, most_rows: int
) -> Iterator[Array]:
    """Give the values of so many rows at once, flat; a file that has become shorter is refused."""
    for begin in range(0, n_rows, most_rows):
        count = min(most_rows, n_rows - begin) * width
        content = file.read(count * dtype.itemsize)
        if len(content) < count * dtype.itemsize:
            raise changed_meanwhile(path)
        yield np.frombuffer(content, dtype=dtype)


def _as_cells(values: Array, name: str) -> Cells:
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind not in "biufU":
        raise ValueError(f"The array '{name}' must hold numbers or text. Got an array of {values.dtype}.")
    return text_array(values.tolist()) if values.dtype.kind == "U" else values
