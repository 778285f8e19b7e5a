"""Predictions of very many rows: a folder of Parquet files with the columns of `dahgnn.report.predictions`.

They are written block by block, so that memory holds the rows of one file. Readers take them in the order of
their names: `pyarrow.parquet.read_table(folder)`, `pandas.read_parquet(folder)`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.progress import Progress
from dahgnn.report.fit_files import file_digest, shard_name
from dahgnn.report.predictions import Predictions, write_parquet
from dahgnn.tables.coded_labels import CodedLabels
from dahgnn.tables.row_names import RowNames

# Rows of a file. Of many classes there are fewer, so that a file has at most so many probabilities.
SHARD_ROWS, _SHARD_CELLS = 1 << 18, 1 << 24

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class ManyPredictions:
    """What is said of very many rows; arrays may be in files.

    Parameters
    ----------
    ids : RowNames
        The names of the rows.
    classes : sequence of c str
        The names of the classes.
    probabilities : array, (n, c)
        Of each class.
    density : array, (n,)
        Of each row.
    given : CodedLabels
        The given labels.
    """

    ids: RowNames
    classes: Sequence[str]
    probabilities: Array
    density: Array
    given: CodedLabels

    def blocks(self) -> Iterator[Predictions]:
        """Give the predictions of one file after the other."""
        size = rows_of_a_shard(len(self.classes))
        for begin in range(0, len(self.ids), size):
            end = min(begin + size, len(self.ids))
            yield Predictions(
                ids=self.ids.block(begin, end),
                classes=self.classes,
                probabilities=np.asarray(self.probabilities[begin:end]),
                density=np.asarray(self.density[begin:end]),
                given=self.given[begin:end].tolist(),
            )


def rows_of_a_shard(n_classes: int) -> int:
    """Return how many rows a file of predictions has, but the last, which may have fewer."""
    return max(1, min(SHARD_ROWS, _SHARD_CELLS // n_classes))


def write_shards(folder: Path, predictions: ManyPredictions, progress: Progress | None = None) -> str:
    """Write predictions to a new folder, and return a digest of all its files.

    Raises
    ------
    OSError
        If the disk is full.
    """
    folder.mkdir()
    digest = hashlib.sha256()
    total = -(-len(predictions.ids) // rows_of_a_shard(len(predictions.classes)))
    for number, block in enumerate(predictions.blocks()):
        path = folder / shard_name(number)
        write_parquet(path, block)
        digest.update((file_digest(path) or "").encode())
        if progress is not None:
            progress(number + 1, total, f"{number + 1:,} of {total:,} files")
    return digest.hexdigest()


@dataclass(frozen=True)
class ShardNames:
    """The names of fitted rows, as the predictions of their fit have them.

    Parameters
    ----------
    folder : Path
        The predictions.
    count, size : int
        How many rows there are, and how many a file has.
    """

    folder: Path
    count: int
    size: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> str:
        return self.block(row, row + 1)[0]

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, self.count, self.size):
            yield from self.block(begin, min(begin + self.size, self.count))

    def block(self, begin: int, end: int) -> list[str]:
        """Return what the rows from one to another are called."""
        import pyarrow.parquet as pq

        names: list[str] = []
        for number in range(begin // self.size, -(-end // self.size)):
            first = number * self.size
            ids = pq.read_table(self.folder / shard_name(number), columns=["id"]).column("id")
            low, high = max(begin - first, 0), min(end - first, self.size)
            names += ids.slice(low, high - low).to_pylist()
        return names
