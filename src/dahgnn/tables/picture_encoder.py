"""Columns of paths of pictures as features: the pixels of each, from 0 to 1.

Paths are relative to the folder of the table. How pictures get one size is said in `dahgnn.tables.pictures`.
A row without a picture gets the mean of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dahgnn.checks import bad_value, check_count
from dahgnn.tables.pictures import PICTURE_ENDINGS, read_pictures
from dahgnn.tables.sources import Texts


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureEncoder:
    """The pixels of pictures of one shape.

    Parameters
    ----------
    shape : (height, width) or (height, width, 3)
        That of the pictures at the time of the fit, grey or in colour.
    mean : ndarray of float32, (d,)
        The mean of their pixels, for rows without a picture.
    """

    kind: ClassVar[str] = "pictures"
    shape: tuple[int, ...]
    mean: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        for side in self.shape:
            check_count("shape", side, "PictureEncoder")
        width = int(np.prod(self.shape))
        if len(self.shape) not in (2, 3) or self.mean.shape != (width,) or not np.isfinite(self.mean).all():
            raise bad_value("mean", "PictureEncoder", f"finite numbers of shape ({width},)", self.mean.shape)

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.mean)

    def encode(self, texts: Texts, folder: Path) -> np.ndarray:
        """Return the pixels of the pictures at these paths; the mean where there is none."""
        rows, paths = picture_paths(texts, folder)
        features = np.tile(self.mean.astype(np.float64), (len(texts), 1))
        if paths:
            features[rows] = _pixels(read_pictures(paths, self.shape))
        return features

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the shape, and the mean."""
        return {"shape": list(self.shape)}, {"mean": self.mean}


def learn_pictures(texts: Texts, folder: Path) -> PictureEncoder:
    """Return the encoder of the pictures at these paths; there is one at least."""
    pictures = read_pictures(picture_paths(texts, folder)[1])
    return PictureEncoder(shape=pictures.shape[1:], mean=_pixels(pictures).mean(0).astype(np.float32))


def look_like_pictures(texts: Texts, folder: Path) -> bool:
    """Whether all texts end as the names of pictures do, and one of them is a file."""
    rows, paths = picture_paths(texts, folder)
    return (
        bool(rows) and all(path.suffix.lower() in PICTURE_ENDINGS for path in paths) and _one_is_there(paths)
    )


def _one_is_there(paths: Sequence[Path]) -> bool:
    try:
        return any(path.is_file() for path in paths)
    except (OSError, ValueError):  # a name that no file can have
        return False


def picture_paths(texts: Texts, folder: Path) -> tuple[list[int], list[Path]]:
    """Return the rows that have a path, and the paths."""
    there = [(row, folder / text.strip()) for row, text in enumerate(texts) if text and text.strip()]
    return [row for row, _ in there], [path for _, path in there]


def _pixels(pictures: np.ndarray) -> np.ndarray:
    return pictures.reshape(len(pictures), -1) / 255
