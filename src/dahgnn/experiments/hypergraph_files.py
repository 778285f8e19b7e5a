"""Datasets that come as a hypergraph, from the .npz files of the data folder.

A file has the arrays ``node`` and ``hyperedge`` (pairs: which node is in which hyperedge), ``labels`` (n,),
and ``features`` (n, d) or a sparse matrix of them in ``feature_data``, ``feature_indices``,
``feature_indptr`` and ``feature_shape``. Some have ``train``, (splits, l): the labelled nodes of published
splits.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Where the files are in the data folder.
FOLDER = "hypergraphs"
_SPARSE = ("feature_data", "feature_indices", "feature_indptr", "feature_shape")


@dataclass(frozen=True, kw_only=True, eq=False)
class Incidences:
    """Hyperedges as pairs, and published splits.

    Attributes
    ----------
    node, hyperedge : array of int64, (t,)
        The pairs; hyperedges are counted from 0 without a gap.
    published : array of int64, (splits, l), or None
        The labelled nodes of published splits.
    """

    node: Array
    hyperedge: Array
    published: Array | None = None

    def subset(self, nodes: Array, n: int) -> Incidences:
        """Return the hyperedges among some of n nodes; one with a single node left tells nothing and goes.

        The published splits are of all nodes, and are left out.
        """
        places = np.full(n, -1)
        places[nodes] = np.arange(len(nodes))
        there = places[self.node] >= 0
        node, hyperedge = places[self.node[there]], self.hyperedge[there]
        several = np.bincount(hyperedge, minlength=1)[hyperedge] > 1
        _, numbers = np.unique(hyperedge[several], return_inverse=True)
        return Incidences(node=node[several], hyperedge=numbers.astype(np.int64))


def read_hypergraph(path: Path) -> tuple[Array, Array, Incidences]:
    """Read features (n, d) of float32, labels (n,) of int64 and hyperedges.

    Raises
    ------
    FileNotFoundError
        If there is no such file; says what it should hold.
    ValueError
        If something in it is missing, or does not fit.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} must hold the hypergraph: 'node', 'hyperedge', 'labels' and 'features', as arrays of an "
            ".npz file. Got no such file. Name the folder that has it in its folder 'hypergraphs' by "
            "'--data' or DAHGNN_DATA."
        )
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} must be an .npz file of numbers. Got {error}.") from error
    missing = {"node", "hyperedge", "labels"} - arrays.keys()
    if missing:
        raise _wrong(path, f"an array '{min(missing)}'", ", ".join(sorted(arrays)) or "none")
    labels = arrays["labels"].astype(np.int64)
    features = _features(path, arrays)
    if labels.ndim != 1 or len(features) != len(labels) or (len(labels) and labels.min() < 0):
        raise _wrong(path, f"{len(features)} classes 0, 1, … as 'labels'", f"shape {labels.shape}")
    return features, labels, _incidences(path, arrays, len(labels))


def _features(path: Path, arrays: Mapping[str, Array]) -> Array:
    if "features" in arrays:
        features = arrays["features"]
    elif all(name in arrays for name in _SPARSE):
        from scipy.sparse import csr_array

        data, indices, indptr, shape = (arrays[name] for name in _SPARSE)
        try:
            features = csr_array((data, indices, indptr), shape=tuple(shape.tolist())).toarray()
        except (ValueError, IndexError) as error:
            raise _wrong(path, "a sparse matrix in 'feature_…'", str(error)) from error
    else:
        raise _wrong(path, "an array 'features', or " + ", ".join(_SPARSE), ", ".join(sorted(arrays)))
    if features.ndim != 2 or not np.isfinite(features).all():
        raise _wrong(path, "'features' of two axes and finite numbers", f"shape {features.shape}")
    return features.astype(np.float32)


def _incidences(path: Path, arrays: Mapping[str, Array], n: int) -> Incidences:
    node, hyperedge = (arrays[name].astype(np.int64) for name in ("node", "hyperedge"))
    if node.ndim != 1 or node.shape != hyperedge.shape or len(node) == 0:
        raise _wrong(path, "'node' and 'hyperedge' of one length", f"{node.shape} and {hyperedge.shape}")
    if node.min() < 0 or node.max() >= n:
        raise _wrong(path, f"nodes between 0 and {n - 1}", f"{node.min()} to {node.max()}")
    published = arrays["train"].astype(np.int64) if "train" in arrays else None
    if published is not None and (published.ndim != 2 or published.min() < 0 or published.max() >= n):
        raise _wrong(path, f"nodes between 0 and {n - 1} in rows of 'train'", f"shape {published.shape}")
    numbers = np.unique(hyperedge, return_inverse=True)[1].astype(np.int64)
    return Incidences(node=node, hyperedge=numbers, published=published)


def _wrong(path: Path, expected: str, got: str) -> ValueError:
    return ValueError(f"{path} must have {expected}. Got {got}.")
