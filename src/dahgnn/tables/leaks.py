"""Find what makes a classifier look better than it is, or keeps it from being good.

That is a column that only says where a row stands in its file, a column that tells the label by itself, and
equal rows with different labels.
"""

from __future__ import annotations

import numpy as np


def counts_rows(values: np.ndarray) -> bool:
    """Whether numbers count the rows: whole, none missing, and consecutive in any order or equally spaced.

    Parameters
    ----------
    values : ndarray of float64, (n,)
        The numbers of a column; NaN is missing.
    """
    steps = np.diff(values)
    if not steps.size or not np.all(np.trunc(values) == values):  # NaN is no whole number
        return False
    if steps[0] != 0 and bool(np.all(steps == steps[0])):
        return True
    consecutive = values.max() - values.min() == len(values) - 1
    return bool(consecutive and np.all(np.diff(np.sort(values)) == 1))
