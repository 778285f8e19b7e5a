"""Read NPZ and NPY files as cells.

The features of an NPZ file are the array "X" or "features", or the only one of two or more dimensions;
labels and ids are arrays beside it. Those of an NPY file are other NPY files. Columns are named "x0", "x1",
…; images are flattened, their values not scaled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dahgnn.checks import did_you_mean
from dahgnn.tables.messages import listed
from dahgnn.tables.sources import Cells, Source, Wanted, opened, text_array


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an NPZ file by name, or that of an NPY file under its path."""
    with opened(path) as file:
        try:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray) != (path.suffix.lower() == ".npy"):
                raise ValueError("its name ends in the other of .npy and .npz")
            if isinstance(content, np.ndarray):
                return {str(path): content}
            return {name: np.asarray(content[name]) for name in content.files}
        except Exception as error:  # NumPy raises whatever it happens upon in damaged bytes
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"The file {path} is cut, damaged, of another kind, or holds Python objects, which are never "
                f"loaded ({reason}). Save plain arrays with numpy.save or numpy.savez."
            ) from error


def read_npy(path: Path, wanted: Wanted) -> Source:
    """Read an NPY file, with those of its labels and ids."""
    names = (wanted.label, wanted.id)
    for name in names:
        if name is not None and Path(name).suffix.lower() != ".npy":
            raise ValueError(f"Labels and ids beside an NPY file must be in NPY files. Got '{name}'.")
    parts = {name: _load_arrays(Path(name)) for name in (str(path), *names) if name is not None}
    arrays = {name: array for name, part in parts.items() for array in part.values()}
    return _from_arrays(path, arrays, str(path), wanted)


def read_npz(path: Path, wanted: Wanted) -> Source:
    """Read an NPZ file."""
    arrays = _load_arrays(path)
    for name, role in ((wanted.label, "label"), (wanted.id, "id")):
        if name is not None and name not in arrays:
            hint = did_you_mean(name, arrays) or f"It has {listed(list(arrays))}."
            raise ValueError(f"The file {path} must have an array '{name}' for --{role}. Got none. {hint}")
    others = [name for name in arrays if name not in (wanted.label, wanted.id)]
    features = _pick_features(path, {name: arrays[name] for name in others})
    source = _from_arrays(path, arrays, features, wanted)
    others.remove(features)
    notes = [f"The features are the array '{features}'."]
    if others:
        notes.append(f"Ignored arrays: {listed(others)}.")
    return replace(source, notes=(*notes, *source.notes))


def _pick_features(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
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
    if array.dtype.kind not in "biuf":
        raise ValueError(f"The features in the file {path} must be numbers. Got an array of {array.dtype}.")
    if array.ndim < 2 or not array.size:
        raise ValueError(
            f"The features in the file {path} must have the shape (n, d), or (n, height, width) for images, "
            f"none of it 0. Got {array.shape}."
        )
    notes: tuple[str, ...] = ()
    shape = array.shape[1:]
    if len(shape) > 1:
        sides = " × ".join(map(str, shape))
        notes = (f"Each row of {sides} numbers was flattened; the values are not scaled.",)
        array = array.reshape(len(array), -1)
    labels, ids = (
        None if name is None else _one_a_row(arrays[name], name, len(array))
        for name in (wanted.label, wanted.id)
    )
    cells: dict[str, Cells] = {f"x{place}": array[:, place] for place in range(array.shape[1])}
    return Source(
        n_rows=len(array), cells=cells, labels=labels, ids=ids, is_array=True, shape=shape, notes=notes
    )


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
