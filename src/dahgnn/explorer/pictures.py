"""The picture of a row, as a page shows it: from pixels in a table, or from a file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dahgnn.tables.pictures import read_thumbnail


class Pictures(Protocol):
    """The pictures of some rows."""

    def has(self, row: int) -> bool:
        """Whether a row has one."""

    def pixels(self, row: int, side: int) -> NDArray[np.uint8]:
        """Return a picture of at most ``side`` pixels a side, (h, w) or (h, w, 3)."""


@dataclass(frozen=True, eq=False)
class ImagePictures:
    """Rows that are images themselves, (n, h, w) or (n, h, w, 3); they are shown as large as they are."""

    images: NDArray[np.uint8]

    def has(self, row: int) -> bool:
        """Whether a row has one: all have."""
        return 0 <= row < len(self.images)

    def pixels(self, row: int, side: int) -> NDArray[np.uint8]:  # noqa: ARG002
        """Return the image of a row."""
        return np.asarray(self.images[row])


@dataclass(frozen=True, eq=False)
class FilePictures:
    """Rows that name a file, or None; the paths come from the user's own table, never from a page."""

    paths: Sequence[Path | None]

    def has(self, row: int) -> bool:
        """Whether a row names a file."""
        return 0 <= row < len(self.paths) and self.paths[row] is not None

    def pixels(self, row: int, side: int) -> NDArray[np.uint8]:
        """Return the picture in a file, made smaller where it is larger than wanted."""
        path = self.paths[row]
        if path is None:
            raise LookupError(f"Row {row} has no picture.")
        return read_thumbnail(path, side)


def as_png(pixels: NDArray[Any]) -> bytes:
    """Return a picture as the bytes of a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG", compress_level=1)
    return file.getvalue()
