"""Read files of pictures as one array.

PNG, JPEG, GIF, BMP, TIFF, WebP, PPM and PGM files are read; of several pages or frames, the first. A picture
is turned as its EXIF data say, what is transparent becomes white, and 16 bits become 8. All get one size:
their own, if that is the same for all and at most 64 × 64, else 32 × 32, for which they are stretched. If no
pixel of any has a colour, they are grey.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dahgnn.checks import bad_value
from dahgnn.tables.memory import check_memory
from dahgnn.tables.messages import joined

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
# Only these: Pillow runs other programs for some formats.
_KINDS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
_USUAL_SIDE, _LONGEST_SIDE = 32, 64
# The tag of EXIF data that says how a picture is turned, and its values that exchange height and width.
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)
_Found = TypeVar("_Found")


def read_pictures(paths: Sequence[Path], shape: Sequence[int] | None = None) -> NDArray[np.uint8]:
    """Read pictures and bring them to one size.

    Parameters
    ----------
    paths : sequence of n Path
        The files.
    shape : (height, width) or (height, width, 3), optional
        That of the pictures that a model was fitted to, grey or in colour. Without it, it follows from the
        pictures.

    Returns
    -------
    ndarray of uint8, (n, height, width) or (n, height, width, 3)
        Grey values, or red, green and blue.

    Raises
    ------
    ValueError
        If files are missing, cut, no pictures, or unpack to more than Pillow takes for a picture; all of them
        are named.
    """
    if not paths:
        raise bad_value("paths", "read_pictures", "not empty", "none")
    height, width = _common_size(paths) if shape is None else shape[:2]
    check_memory(f"{len(paths):,} pictures of {height} × {width}", 3 * len(paths) * height * width)
    pictures = np.empty((len(paths), height, width, 3), dtype=np.uint8)

    def fill(row: int, path: Path) -> None:
        pictures[row] = _decode(path, height, width)

    _for_each(paths, fill)
    is_grey = bool((pictures == pictures[..., :1]).all()) if shape is None else len(shape) == 2
    return _as_grey(pictures) if is_grey else pictures


def read_thumbnail(path: Path, side: int) -> NDArray[np.uint8]:
    """Read one picture, of at most so many pixels a side: (height, width, 3), its shape kept."""
    from PIL import Image, ImageOps

    def convert(image: Any) -> NDArray[np.uint8]:
        image.draft(None, (side, side))  # a large JPEG need not be unpacked whole
        image = _in_colour(ImageOps.exif_transpose(image))
        image.thumbnail((side, side), Image.Resampling.BICUBIC)
        return np.asarray(image)

    try:
        return _with_image(path, convert)
    except _UnreadableError as error:
        raise ValueError(f"The picture '{path.name}' cannot be read ({error}).") from error


def _as_grey(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the lightness of pixels, by the weights of ITU-R 601; that of grey ones is their value."""
    return np.rint(pictures @ np.array([0.299, 0.587, 0.114], dtype=np.float32)).astype(np.uint8)


def _common_size(paths: Sequence[Path]) -> tuple[int, int]:
    """Return the size that all pictures have, if it is small, else the usual one."""
    sizes: set[tuple[int, int]] = set()
    for path in paths:
        with contextlib.suppress(_UnreadableError):  # it is named when all are read
            sizes.add(_size(path))
    if len(sizes) == 1 and max(max(sizes)) <= _LONGEST_SIDE:
        return sizes.pop()
    return _USUAL_SIDE, _USUAL_SIDE


def _for_each(paths: Sequence[Path], read: Callable[[int, Path], None]) -> None:
    """Read each file, and name all those that cannot be read."""
    bad: dict[str, None] = {}  # in order; several rows may have the same file
    for row, path in enumerate(paths):
        try:
            read(row, path)
        except _UnreadableError as error:
            bad[f"'{path}' ({error})"] = None
    if bad:
        raise ValueError(
            f"All {len(paths):,} pictures must be files that can be read. Got {len(bad):,} that cannot: "
            f"{joined(list(bad), most=20)}. Mend these files, or leave them out."
        )


class _UnreadableError(Exception):
    """Why a file is no picture that can be read."""


def _size(path: Path) -> tuple[int, int]:
    """Return height and width from the beginning of a file."""

    def look(image: Any) -> tuple[int, int]:
        width, height = image.size
        sideways = image.getexif().get(_ORIENTATION) in _SIDEWAYS
        return (width, height) if sideways else (height, width)

    return _with_image(path, look)


def _decode(path: Path, height: int, width: int) -> NDArray[np.uint8]:
    """Return a picture of (height, width, 3)."""
    from PIL import Image, ImageOps

    def convert(image: Any) -> NDArray[np.uint8]:
        image.draft(None, (2 * max(height, width),) * 2)  # a large JPEG need not be unpacked whole
        image = _in_colour(ImageOps.exif_transpose(image))
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BICUBIC)
        return np.asarray(image)

    return _with_image(path, convert)


def _in_colour(image: Any) -> Any:
    """Return a picture of 8 bits a colour, on white where it is transparent."""
    from PIL import Image

    if image.mode == "F":
        raise ValueError("it has numbers for colours")
    if image.mode.startswith("I"):
        return Image.fromarray((np.clip(np.asarray(image), 0, 65_535) // 257).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _with_image(path: Path, use: Callable[[Any], _Found]) -> _Found:
    """Open a picture, and say why it cannot be read."""
    from PIL import Image, UnidentifiedImageError

    if not path.is_file():
        raise _UnreadableError("no such file" if not path.exists() else "no regular file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd EXIF data, for example
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=_KINDS) as image:
                return use(image)
    except UnidentifiedImageError as error:
        kind = "empty" if not path.stat().st_size else "no picture of a kind that is read"
        raise _UnreadableError(kind) from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        limit = f"{Image.MAX_IMAGE_PIXELS:,}" if Image.MAX_IMAGE_PIXELS else "the most"
        raise _UnreadableError(f"more than {limit} pixels") from error
    except Exception as error:  # Pillow raises whatever it happens upon in damaged bytes
        raise _UnreadableError(str(error) or type(error).__name__) from error
