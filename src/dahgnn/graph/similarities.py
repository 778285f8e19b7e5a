"""Sparse matrices of how similar rows are: weighed, scaled and put in order block by block.

Rows may be many, so that nothing of the size of a matrix is made beside what is returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from dahgnn.files.scratch import Scratch
from dahgnn.graph.neighbours import Neighbors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

# Pairs that are weighed at a time, where there may be very many of them.
_PAIRS = 1 << 22


def similarities_of(neighbors: Neighbors) -> Array:
    """Return exp(−4 d² / d_k²), how similar each row is to its neighbours, (n, k); d_k is the greatest."""
    distances = neighbors.distances.double().cpu().numpy()
    farthest = distances.max(axis=1, keepdims=True)
    return np.asarray(np.exp(-4 * (distances / np.where(farthest > 0, farthest, 1)) ** 2))


def numpy_type(dtype: torch.dtype) -> type[np.floating[Any]]:
    """Return NumPy's name of a precision."""
    return np.float64 if dtype == torch.float64 else np.float32


def stored(matrix: csr_array, scratch: Scratch) -> csr_array:
    """Return a sparse matrix whose arrays are in files, if they are large and there is a place for them."""
    if not scratch.is_on_disk:
        return matrix
    for name in ("data", "indices", "indptr"):
        setattr(matrix, name, scratch.store(torch.from_numpy(getattr(matrix, name))).numpy())
    return matrix


def directed_similarities(neighbors: Neighbors, dtype: type[np.floating[Any]]) -> csr_array:
    """Return how similar each row is to its neighbours, (n, n); a row is not similar to itself."""
    from scipy.sparse import csr_array

    n, k = neighbors.indices.shape
    # SciPy computes with four bytes for a place where all places fit, the twice as many of the sum as well.
    places = np.int32 if 2 * n * k < 2**31 else np.int64
    weights, there = np.empty((n, k), dtype), np.empty((n, k), places)
    step = max(1, _PAIRS // k)
    for start in range(0, n, step):
        some = Neighbors(neighbors.indices[start : start + step], neighbors.distances[start : start + step])
        weights[start : start + step] = similarities_of(some)
        there[start : start + step] = some.indices.cpu().numpy()
    offsets = np.arange(0, n * k + 1, k, dtype=places)
    directed = csr_array((weights.ravel(), there.ravel(), offsets), shape=(n, n))
    directed.sum_duplicates()  # sorts the places of each row as well
    return _without_diagonal(directed) if directed.diagonal().any() else directed


def _without_diagonal(matrix: csr_array) -> csr_array:
    """Return a sparse matrix without the entries of its diagonal."""
    from scipy.sparse import csr_array

    owners = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    others = owners != matrix.indices
    counts = np.bincount(owners[others], minlength=matrix.shape[0])
    offsets = np.concatenate([[0], counts.cumsum()]).astype(matrix.indptr.dtype)
    return csr_array((matrix.data[others], matrix.indices[others], offsets), shape=matrix.shape)


def _blocks_of_rows(matrix: csr_array) -> Iterator[tuple[slice, slice]]:
    """Yield rows and their entries, some at a time, so that what is computed of them is never large."""
    n = matrix.shape[0]
    step = max(1, _PAIRS * n // max(matrix.nnz, 1))
    for start in range(0, n, step):
        stop = min(start + step, n)
        yield slice(start, stop), slice(int(matrix.indptr[start]), int(matrix.indptr[stop]))


def sums_of_rows(matrix: csr_array) -> Array:
    """Return the sums of the rows in float64, whatever the type of the entries."""
    sums = np.zeros(matrix.shape[0])
    for rows, entries in _blocks_of_rows(matrix):
        sizes = np.diff(matrix.indptr[rows.start : rows.stop + 1])
        owners = np.repeat(np.arange(len(sizes)), sizes)
        sums[rows] = np.bincount(owners, matrix.data[entries], minlength=len(sizes))
    return sums


def scaled(matrix: csr_array, factors: Array, dtype: type[np.floating[Any]]) -> csr_array:
    """Return a sparse matrix with rows and columns multiplied by factors (n,); it shares the places."""
    from scipy.sparse import csr_array

    data = np.empty(matrix.nnz, dtype)
    for rows, entries in _blocks_of_rows(matrix):
        sizes = np.diff(matrix.indptr[rows.start : rows.stop + 1])
        own = np.repeat(factors[rows], sizes)
        data[entries] = own * matrix.data[entries] * factors[matrix.indices[entries]]
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def reordered(matrix: csr_array, nodes: NDArray[Any], rows: NDArray[Any]) -> csr_array:
    """Return a sparse matrix whose rows and columns stand in another order.

    Parameters
    ----------
    matrix : csr_array, (n, n)
        As nodes come.
    nodes, rows : array of int, (n,)
        The node of each new row, and the new row of each node.
    """
    from scipy.sparse import csr_array

    sizes = np.diff(matrix.indptr)[nodes]
    offsets = np.concatenate([[0], sizes.cumsum()]).astype(matrix.indptr.dtype)
    data, columns = np.empty_like(matrix.data), np.empty_like(matrix.indices)
    step = max(1, _PAIRS * len(nodes) // max(matrix.nnz, 1))
    for start in range(0, len(nodes), step):
        part = slice(start, start + step)
        first, own = int(offsets[start]), sizes[part].astype(np.int64)
        here = np.arange(own.sum()) + np.repeat(matrix.indptr[nodes[part]] - (own.cumsum() - own), own)
        there = slice(first, first + len(here))
        data[there], columns[there] = matrix.data[here], rows[matrix.indices[here]]
    return csr_array((data, columns, offsets), shape=matrix.shape)
