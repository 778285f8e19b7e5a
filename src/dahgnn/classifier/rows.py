"""The rows that a classifier is given, as a dense array of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dahgnn.checks import bad_value

# A sparse table becomes a dense one of at most so many numbers, 4 GiB.
_MOST_NUMBERS = 1 << 30
# A quarter of what float32 can hold, so that differences stay in its range.
_LARGEST = float(np.finfo(np.float32).max) / 4


def read_rows(classifier: BaseEstimator, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
    """Return the rows as a dense array of float64 or float32, or say what is wrong.

    Parameters
    ----------
    classifier : BaseEstimator
        Whose columns these are.
    X : array, sparse matrix or DataFrame, (n, d)
        The rows.
    reset : bool
        Whether the classifier is to remember the columns, as in a fit, or to compare them.
    """
    rows = validate_data(
        classifier,
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_min_samples=2 if reset else 1,
        reset=reset,
    )
    if issparse(rows):
        if np.prod(rows.shape, dtype=float) > _MOST_NUMBERS:
            expected = f"of at most {_MOST_NUMBERS:,} numbers, zeros included"
            remedy = "Reduce its columns first, with TruncatedSVD say."
            raise bad_value("X", "DAHGNNClassifier", expected, f"shape {rows.shape}", remedy)
        rows = rows.toarray()
    largest = max(float(rows.max()), -float(rows.min()))  # without a copy of the rows
    if largest > _LARGEST:
        raise bad_value("X", "DAHGNNClassifier", "in the range of float32", f"{largest:g}")
    return np.ascontiguousarray(rows)
