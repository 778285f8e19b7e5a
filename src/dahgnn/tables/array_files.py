"""Read NPZ and NPY files as cells.

The features of an NPZ file are the array "X" or "features", or the only one of two or more dimensions;
labels and ids are arrays beside it. Those of an NPY file are other NPY files. Columns are named "x0", "x1",
…; images are flattened, their values not scaled.
"""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dahgnn.checks import did_you_mean
from dahgnn.tables.memory import check_memory
from dahgnn.tables.messages import listed, shortened
from dahgnn.tables.sources import MOST_COLUMNS, Cells, Source, Wanted, opened, text_array, too_wide


@dataclass(frozen=True)
class ArrayHead:
    """What the beginning of an array says of it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool = False

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)


def read_npy(path: Path, wanted: Wanted) -> Source:
    """Read an NPY file, with those of its labels and ids."""
    names = (wanted.label, wanted.id)
    for name in names:
        if name is not None and Path(name).suffix.lower() != ".npy":
            raise ValueError(f"Labels and ids beside an NPY file must be in NPY files. Got '{name}'.")
    arrays = {name: _load_array(Path(name), name == str(path)) for name in (str(path), *names) if name}
    return _from_arrays(path, arrays, str(path), wanted)


def _load_array(path: Path, is_wide: bool) -> np.ndarray:
    with opened(path) as file:
        with explained(path):
            head = read_head(file, path.stat().st_size)
        _check_size(path, str(path), head, is_wide)
        file.seek(0)
        with explained(path):
            return _read_array(file)


def read_npz(path: Path, wanted: Wanted) -> Source:
    """Read an NPZ file, and of it only the arrays that are used."""
    with opened(path) as file:
        with explained(path):
            archive = zipfile.ZipFile(file)
            heads = _read_heads(archive)
        for name, role in ((wanted.label, "label"), (wanted.id, "id")):
            if name is not None and name not in heads:
                hint = did_you_mean(name, heads) or f"It has {listed(list(heads))}."
                raise ValueError(
                    f"The file {path} must have an array '{name}' for --{role}. Got none. {hint}"
                )
        others = [name for name in heads if name not in (wanted.label, wanted.id)]
        features = _pick_features(path, {name: heads[name] for name in others})
        used = [name for name in (features, wanted.label, wanted.id) if name is not None]
        for name in used:
            _check_size(path, name, heads[name], name == features)
        with explained(path):
            arrays = {name: _unpack(archive, name) for name in used}
    source = _from_arrays(path, arrays, features, wanted)
    others.remove(features)
    notes = [f"The features are the array '{features}'."]
    if others:
        notes.append(f"Ignored arrays: {listed(others)}.")
    return replace(source, notes=(*notes, *source.notes))


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say what is wrong with a file where NumPy says it in its own words."""
    try:
        yield
    except Exception as error:  # NumPy raises whatever it happens upon in damaged bytes
        reason = shortened(str(error) or type(error).__name__, 200)  # it may quote the damaged bytes
        raise ValueError(
            f"The file {path} is cut, damaged, of another kind, or holds Python objects, which are never "
            f"loaded ({reason}). Save plain arrays with numpy.save or numpy.savez."
        ) from error


def _read_heads(archive: zipfile.ZipFile) -> dict[str, ArrayHead]:
    """Return what the arrays of an archive promise to be, before any is unpacked."""
    heads = {}
    for member in archive.infolist():
        if member.filename.endswith(".npy"):
            with archive.open(member) as file:
                heads[member.filename.removesuffix(".npy")] = read_head(file, member.file_size)
    return heads


def _unpack(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        return _read_array(file)


def _read_array(file: Any) -> np.ndarray:
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def read_head(file: Any, n_bytes: int) -> ArrayHead:
    """Read the beginning of an array, and see whether a file of so many bytes can hold the rest."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError("an array has no plain numbers or text")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("an array has objects")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > n_bytes - file.tell():
        raise ValueError(f"it ends before the {shape} values that it promises")
    return ArrayHead(shape, dtype, is_fortran and len(shape) > 1)


def _check_size(path: Path, name: str, head: ArrayHead, is_wide: bool) -> None:
    """Refuse an array before it is unpacked if it has too many columns, or more numbers than memory holds."""
    width = math.prod(head.shape[1:])
    if is_wide and width > MOST_COLUMNS:
        raise too_wide(path, width)
    # Features become float32 or wider.
    check_memory(f"The array '{name}' of {path}", math.prod(head.shape) * max(head.dtype.itemsize, 4))


def _pick_features(path: Path, arrays: Mapping[str, ArrayHead]) -> str:
    for name in ("X", "features"):
        if name in arrays:
            return name
    fitting = [name for name, array in arrays.items() if array.ndim > 1 and array.dtype.kind in "biuf"]
    if len(fitting) != 1:
        raise ValueError(
            f"The file {path} must have an array 'X' of features, or one alone of two or more dimensions. "
            f"Got {listed(fitting) or 'none'}. Name it 'X'."
        )
    return fitting[0]


def _from_arrays(path: Path, arrays: Mapping[str, np.ndarray], features: str, wanted: Wanted) -> Source:
    array = arrays[features]
    features_shape(path, array.shape, array.dtype)
    source = array_source(array)
    if len(source.shape) > 1:
        sides = " × ".join(map(str, source.shape))
        source = replace(
            source, notes=(f"Each row of {sides} numbers was flattened; the values are not scaled.",)
        )
    labels, ids = (
        None if name is None else _one_a_row(arrays[name], name, len(array))
        for name in (wanted.label, wanted.id)
    )
    return replace(source, labels=labels, ids=ids)


def features_shape(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the shape of an array if it can be features."""
    if dtype.kind not in "biuf":
        raise ValueError(f"The features in the file {path} must be numbers. Got an array of {dtype}.")
    if len(shape) < 2 or not math.prod(shape):
        raise ValueError(
            f"The features in the file {path} must have the shape (n, d), or (n, height, width) for images, "
            f"none of it 0. Got {shape}."
        )
    return shape


def array_source(array: np.ndarray) -> Source:
    """Return the columns of an array of shape (n, …), flattened and named by their places."""
    flat = array.reshape(len(array), -1)
    cells: dict[str, Cells] = {f"x{place}": flat[:, place] for place in range(flat.shape[1])}
    return Source(n_rows=len(flat), cells=cells, is_array=True, shape=array.shape[1:])


def _one_a_row(array: np.ndarray, name: str, n_rows: int) -> np.ndarray:
    if array.shape != (n_rows,):
        raise ValueError(
            f"The array '{name}' must have one value for each of the {n_rows} rows of features. "
            f"Got the shape {array.shape}."
        )
    if array.dtype.kind == "S":
        with contextlib.suppress(UnicodeError):
            array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "biufU":
        raise ValueError(f"The array '{name}' must hold numbers or text. Got an array of {array.dtype}.")
    return text_array(array.tolist()) if array.dtype.kind == "U" else array
