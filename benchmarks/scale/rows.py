"""Made-up rows that cost what real ones cost: drawn from a seed once, and kept as files.

Real embeddings have far fewer directions than columns, lie in clusters, and these overlap. So do these rows:
100 clusters in 12 hidden dimensions, ten to a class, which a random matrix takes to d columns, and noise.
Their distribution does not depend on their number, so that figures of several sizes can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.files.scratch import Scratch

CLASSES, CLUSTERS, HIDDEN = 10, 100, 12
# How far apart the centres are, in deviations of a cluster, and the noise of a column. By the nearest centre
# 94 % of the rows are right, so that there is something to get wrong.
_APART, _NOISE = 1.6, 0.05
# Rows that are drawn at a time.
_ROWS = 1 << 17
# Rows of a block within which `block_neighbours` are.
_BLOCK = 1000


def draw_rows(n: int, d: int, seed: int = 0) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield rows (m, d) and their classes (m,), block by block."""
    generator = np.random.default_rng([seed, d])
    centres = generator.normal(size=(CLUSTERS, HIDDEN)) * _APART
    outwards = generator.normal(size=(HIDDEN, d)) / np.sqrt(HIDDEN)
    for start in range(0, n, _ROWS):
        own = generator.integers(CLUSTERS, size=min(_ROWS, n - start))
        hidden = centres[own] + generator.normal(size=(len(own), HIDDEN))
        rows = hidden @ outwards + _NOISE * generator.normal(size=(len(own), d))
        yield rows.astype(np.float32), own % CLASSES


def keep_rows(folder: Path, n: int, d: int) -> tuple[Path, Path]:
    """Return files of rows (n, d) and of their classes (n,), which are drawn if they are not there."""
    files = folder / f"rows-{n}-{d}.npy", folder / f"classes-{n}-{d}.npy"
    if not files[1].exists():  # which is renamed last
        folder.mkdir(parents=True, exist_ok=True)
        new = [path.with_name(f".{path.name}") for path in files]
        rows = np.lib.format.open_memmap(new[0], "w+", np.float32, (n, d))
        classes = np.lib.format.open_memmap(new[1], "w+", np.int64, (n,))
        start = 0
        for some, own in draw_rows(n, d):
            rows[start : start + len(own)], classes[start : start + len(own)] = some, own
            start += len(own)
        rows.flush()
        classes.flush()
        for path, final in zip(new, files, strict=True):
            path.rename(final)
    return files


def open_rows(folder: Path, n: int, d: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return rows, which stay in their file, and their classes."""
    rows, classes = keep_rows(folder, n, d)
    return np.load(rows, mmap_mode="c"), np.load(classes)  # torch takes no array that cannot be written


def hide_classes(classes: NDArray[np.int64], labels: int, seed: int) -> NDArray[np.int64]:
    """Return the classes of some rows, as many of each class as the others, and −1 for the rest."""
    generator = np.random.default_rng(seed)
    hidden = np.full(len(classes), -1, dtype=np.int64)
    kinds = np.unique(classes)
    for kind in kinds:
        own = np.flatnonzero(classes == kind)
        hidden[generator.choice(own, min(len(own), labels // len(kinds)), replace=False)] = kind
    return hidden


def block_neighbours(n: int, k: int, scratch: Scratch, seed: int = 0) -> Tensor:
    """Return k random rows of the same block of rows for each row, (n, k): neighbours that cost no search."""
    found = scratch.empty((n, k), torch.int64)
    generator = torch.Generator().manual_seed(seed)
    size = min(_BLOCK, n)
    for start in range(0, n, _ROWS):
        rows = torch.arange(start, min(start + _ROWS, n))
        away = torch.randint(1, size, (len(rows), k), generator=generator)
        first = (rows // size * size).clamp_max(n - size)[:, None]
        found[rows] = first + (rows[:, None] - first + away) % size
    return found


def write_parquet(folder: Path, n: int, d: int, labels: int, rows_a_file: int = 500_000) -> Path:
    """Return a folder of Parquet files of rows and some of their classes, written if it is not there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made, done = folder / f"parquet-{n}-{d}", folder / f"parquet-{n}-{d}.done"
    if done.exists():
        return made
    made.mkdir(parents=True, exist_ok=True)
    rows, classes = open_rows(folder, n, d)
    some = hide_classes(classes, labels, seed=0)
    for number, start in enumerate(range(0, n, rows_a_file)):
        part = slice(start, start + rows_a_file)
        columns = {f"column_{place}": rows[part, place] for place in range(d)}
        words = pa.array([None if kind < 0 else f"class {kind}" for kind in some[part].tolist()], pa.string())
        pq.write_table(pa.table(columns | {"kind": words}), made / f"part-{number:04d}.parquet")
    done.touch()
    return made
