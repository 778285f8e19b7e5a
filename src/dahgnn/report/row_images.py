"""Rows of a table that are images: pixels as numbers, a column each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.tables.sources import Source

# Images are at least so high and wide.
_LEAST_SIDE = 4


def row_images(source: Source, shape: tuple[int, ...] = ()) -> NDArray[Any] | None:
    """Return rows as images of uint8, (n, h, w) or (n, h, w, 3), or None if they cannot be such.

    Images have values from 0 to 255, or from 0 to 1.

    Parameters
    ----------
    source : Source
        The cells of the table.
    shape : tuple of int
        How high and wide they are, (h, w) or (h, w, 3). Without it an array says it itself; else they are
        square, of 64 or more grey values.
    """
    shape = shape or _own_shape(source)
    flat = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if not flat or math.prod(shape) != len(source.cells) or min(shape[:2]) < _LEAST_SIDE:
        return None
    columns = [cells for cells in source.cells.values() if isinstance(cells, np.ndarray)]
    if len(columns) < len(source.cells) or any(cells.dtype.kind not in "biuf" for cells in columns):
        return None
    lowest, highest = (float(end([end(cells) for cells in columns])) for end in (np.min, np.max))
    if not 0 <= lowest <= highest <= 255 or highest == 0:  # NaN is neither
        return None
    parts = (cells for cells in columns if cells.dtype.kind == "f")
    if highest > 1 and not all((cells == cells.round()).all() for cells in parts):
        return None
    scale = 255 / highest if highest <= 16 else 1
    pixels = np.empty((source.n_rows, len(columns)), dtype=np.uint8)
    for place, cells in enumerate(columns):
        pixels[:, place] = cells * scale
    return pixels.reshape(-1, *shape)


def _own_shape(source: Source) -> tuple[int, ...]:
    if len(source.shape) >= 2:
        return source.shape
    side = math.isqrt(len(source.cells))
    return (side, side) if side >= 8 else ()
