"""The labels of very many rows: a number for each row, and the classes that the numbers mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.files.scratch import Scratch
from dahgnn.tables.cells import as_texts
from dahgnn.tables.labels import understand_labels
from dahgnn.tables.large_sources import LargeSource
from dahgnn.tables.missing import Missing
from dahgnn.tables.sources import Cells, UnsupportedCells, text_array

# A column of more different cells has something else than classes.
_MOST_CELLS = 100_000
# Numbers of rows that are looked at at once.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """Labels as numbers of classes.

    Attributes
    ----------
    codes : Tensor of int32, (n,)
        The class of each row; −1 is unlabelled. It may be in a file.
    classes : tuple of c str
        The names of the classes, in order. Each has at least one row.
    counts : mapping of (str or None) to int
        How many rows have each label; None is unlabelled.
    """

    codes: Tensor
    classes: tuple[str, ...]
    counts: Counter[str | None]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Return the labels of some rows as texts, None where there is none."""
        names = text_array([*self.classes, None])
        return np.asarray(names[self.codes.numpy()[rows]])  # −1 is the last one

    @property
    def n_labelled(self) -> int:
        """How many rows have a label."""
        return sum(count for label, count in self.counts.items() if label is not None)

    def labelled(self) -> NDArray[np.int64]:
        """Return the numbers of all labelled rows."""
        codes = self.codes.numpy()
        found = [
            begin + np.flatnonzero(codes[begin : begin + _BLOCK] >= 0)
            for begin in range(0, len(codes), _BLOCK)
        ]
        return np.concatenate(found)


def read_coded_labels(
    source: LargeSource, name: str, missing: Missing, scratch: Scratch
) -> tuple[CodedLabels, list[str]]:
    """Read the labels of a large table, and return them with what there is to say of them.

    Raises
    ------
    ValueError
        If the column holds something else than classes.
    """
    codes = scratch.empty((source.n_rows,), torch.int32)
    known: dict[Any, int] = {}
    row = 0
    for cells, numbers in source.coded(name):
        places = _number_cells(cells, known, name)
        codes[row : row + len(numbers)] = torch.from_numpy(np.append(places, -1)[numbers].astype(np.int32))
        row += len(numbers)
    counts = _count(codes, len(known))
    texts = as_texts(_as_cells(known), name)
    cells_of: Counter[str | None] = Counter()
    for text, count in zip(texts, counts[1:], strict=True):
        cells_of[text] += int(count)
    if counts[0]:
        cells_of[None] += int(counts[0])
    meanings, notes = understand_labels(cells_of, name, missing, is_array=source.is_array)
    return _translate(codes, texts, meanings, cells_of), notes


def _number_cells(cells: Cells, known: dict[Any, int], name: str) -> NDArray[np.int64]:
    """Return the numbers of different cells; one that was not known gets the next number, and NaN gets −1."""
    if isinstance(cells, UnsupportedCells):
        as_texts(cells, name)  # raises
    values = np.asarray(cells).tolist()
    numbers = [
        -1 if value is None or value != value else known.setdefault(value, len(known)) for value in values
    ]
    if len(known) > _MOST_CELLS:
        raise ValueError(
            f"The labels in '{name}' must be classes. Got more than {_MOST_CELLS:,} different cells."
        )
    return np.array(numbers, dtype=np.int64)


def _as_cells(known: dict[Any, int]) -> NDArray[Any]:
    """Return the different cells as one array: numbers stay numbers if all of them are such."""
    values = list(known)
    if any(isinstance(value, str) for value in values):
        return text_array(str(value) for value in values)
    return np.array(values)


def _count(codes: Tensor, n_cells: int) -> NDArray[np.int64]:
    """Return how many rows have no cell, and how many have each."""
    counts = np.zeros(n_cells + 1, dtype=np.int64)
    for block in codes.split(_BLOCK):
        counts += np.bincount(block.numpy() + 1, minlength=n_cells + 1)
    return counts


def _translate(
    codes: Tensor,
    texts: list[str | None],
    meanings: dict[str | None, str | None],
    cells_of: Counter[str | None],
) -> CodedLabels:
    """Turn the numbers of cells into those of classes, in their place."""
    classes = sorted({label for label in meanings.values() if label is not None})
    places = {label: place for place, label in enumerate(classes)}
    numbers = [-1 if (label := meanings[text]) is None else places[label] for text in texts]
    table = torch.tensor([-1, *numbers], dtype=torch.int32)
    for block in codes.split(_BLOCK):
        block.copy_(table[block.long() + 1])
    counts: Counter[str | None] = Counter()
    for text, count in cells_of.items():
        counts[meanings[text]] += count
    return CodedLabels(codes, tuple(classes), counts)
