"""The rows that a classifier is given, as a dense array of numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dahgnn.checks import bad_value
from dahgnn.files.mapped import find_mapped

# A sparse table becomes a dense one of at most so many numbers, 4 GiB.
_MOST_NUMBERS = 1 << 30
# A quarter of what float32 can hold, so that differences stay in its range.
_LARGEST = float(np.finfo(np.float32).max) / 4


def read_rows(classifier: BaseEstimator, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
    """Return the rows as a dense array of float64 or float32, or say what is wrong.

    An array of either is not copied. Numbers that float32 holds exactly, such as those of float16, become
    float32: in float64 they would need four times the memory of float16, and be no other numbers.

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
        dtype=np.float32 if _fits_float32(X) else [np.float64, np.float32],
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


def _fits_float32(X: object) -> bool:
    """Tell whether an array is of a kind whose numbers float32 holds exactly; a DataFrame has many kinds."""
    kind = getattr(X, "dtype", None)
    return isinstance(kind, np.dtype) and np.can_cast(kind, np.float32)


class MappedFile:
    """The file that rows are mapped from, if they are, which must stay as it is while they are read.

    Parameters
    ----------
    X : array, tensor, sparse matrix or DataFrame, (n, d)
        The rows as a user gives them. Of tensors, those of `dahgnn.open_rows` tell their file.

    Raises
    ------
    ValueError
        If the file is shorter than the rows: to read them would end the process.
    """

    def __init__(self, X: object) -> None:
        rows = find_mapped(X)
        name = None if rows is None else rows.filename
        self.path = None if name is None else Path(name)
        self._before = self._look()
        if rows is not None and self._before is not None:
            needed = rows.offset + rows.nbytes
            if self._before.st_size < needed:
                expected = f"{needed:,} bytes, as when it was opened"
                raise ValueError(
                    f"The file {self.path} must have {expected}. Got {self._before.st_size:,}. Write it anew."
                )

    def check_unchanged(self) -> None:
        """Refuse rows that may be partly old and partly new."""
        now, before = self._look(), self._before
        if now is None or before is None or now.st_ino != before.st_ino:
            return  # the rows are still those of the old file, which has no name any more
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise ValueError(
                f"The file {self.path} must stay the same while it is read. Got another one at the end than "
                "at the start. Leave it alone, and fit anew."
            )

    def _look(self) -> os.stat_result | None:
        """Return what is known of the file, None where there is none."""
        try:
            return None if self.path is None else self.path.stat()
        except OSError:
            return None
