"""The names of very many rows: made from their places, or kept in a file and not in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from dahgnn.files.scratch import Scratch
from dahgnn.tables.cells import as_texts
from dahgnn.tables.large_sources import LargeSource
from dahgnn.tables.messages import quoted


class RowNames(Protocol):
    """What the rows of a table are called."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def __getitem__(self, row: int) -> str:
        """Return what a row is called."""

    def block(self, begin: int, end: int) -> list[str]:
        """Return what the rows from one to another are called."""


@dataclass(frozen=True)
class PlaceNames:
    """Names that follow from the places of rows.

    Parameters
    ----------
    count : int
        How many rows there are.
    name : callable
        Returns the name of a row.
    """

    count: int
    name: Callable[[int], str]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> str:
        return self.name(row)

    def block(self, begin: int, end: int) -> list[str]:
        """Return what the rows from one to another are called."""
        return [self.name(row) for row in range(begin, end)]


class StoredNames:
    """Names in an Arrow file, of which only the rows that are asked for are in memory."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = (self._reader.get_batch(place) for place in range(self._reader.num_record_batches))
        self._begins: list[int] = [0, *accumulate(batch.num_rows for batch in batches)]

    def __len__(self) -> int:
        return self._begins[-1]

    def __getitem__(self, row: int) -> str:
        return self.block(row, row + 1)[0]

    def block(self, begin: int, end: int) -> list[str]:
        """Return what the rows from one to another are called."""
        names: list[str] = []
        while begin < end:
            place = bisect_right(self._begins, begin) - 1
            first, last = self._begins[place], min(self._begins[place + 1], end)
            batch = self._reader.get_batch(place)
            names += batch.column(0).slice(begin - first, last - begin).to_pylist()
            begin = last
        return names


def read_row_names(source: LargeSource, name: str | None, remedy: str, scratch: Scratch) -> RowNames:
    """Return the names of the rows of a large table: its ids, or else the places of rows.

    Parameters
    ----------
    source : LargeSource
        The table.
    name : str or None
        The column of the ids.
    remedy : str
        What to do where an id is missing or not unique.
    scratch : Scratch
        Gives room to the names.

    Raises
    ------
    ValueError
        If an id is missing or not unique.
    """
    if name is None:
        return PlaceNames(source.n_rows, source.row_name)
    path = scratch.subfolder("names") / "names.arrow"
    digests = scratch.empty((source.n_rows,), torch.int64)
    _write(source, name, remedy, path, digests.numpy())
    names = StoredNames(path)
    _check_unique(source, name, remedy, names, digests.numpy())
    return names


def _write(source: LargeSource, name: str, remedy: str, path: Path, digests: np.ndarray) -> None:
    """Write the ids to a file, and a number for each that tells most of them apart."""
    import pyarrow as pa

    schema = pa.schema([("id", pa.string())])
    row = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for texts in _texts(source, name):
            if not all(texts):
                bad = next(place for place, text in enumerate(texts) if not text)
                raise ValueError(
                    f"The ids in '{name}' must all be there. Got none in {source.place(row + bad)}. {remedy}"
                )
            writer.write_batch(pa.record_batch([pa.array(texts, pa.string())], schema=schema))
            digests[row : row + len(texts)] = _digests(texts)
            row += len(texts)


def _texts(source: LargeSource, name: str) -> Iterator[list[Any]]:
    for cells in source.texts(name):
        yield as_texts(cells, name)


def _digests(texts: list[str]) -> np.ndarray:
    from pandas.util import hash_array

    values = np.empty(len(texts), dtype=object)
    values[:] = texts
    return np.asarray(hash_array(values, categorize=False)).view(np.int64)


def _check_unique(
    source: LargeSource, name: str, remedy: str, names: StoredNames, digests: np.ndarray
) -> None:
    """Refuse an id that two rows have. Ids of one digest are compared, as different ones may have it."""
    order = np.argsort(digests, kind="stable")
    for begin in range(0, len(order) - 1, 1 << 20):
        part = order[begin : begin + (1 << 20) + 1]
        for place in np.flatnonzero(digests[part[1:]] == digests[part[:-1]]):
            first, second = int(part[place]), int(part[place + 1])
            if names[first] == names[second]:
                places = f"{source.place(first)} and {source.place(second)}"
                got = f"{quoted(names[first])} in {places}"
                raise ValueError(f"The ids in '{name}' must differ. Got {got}. {remedy}")
