"""Rows that are equal: a number for the content of each, and those copies that any search can need.

Thousands of equal rows make a search quadratic, because each of them is as near as all others. As ties go to
the lower index, only the first few copies of a row are ever anybody's neighbours, and the others need not be
searched through.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.ops.hashes import row_hashes

# Numbers of the features that are looked at at a time, so few that they stay in the caches.
_NUMBERS = 1 << 17


def hash_rows(features: Tensor) -> NDArray[np.uint64]:
    """Return a number for each row (n, d), the same for equal rows, and hardly ever for others.

    Examples
    --------
    >>> first, second, third = hash_rows(torch.tensor([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))
    >>> bool(first == second), bool(first == third)
    (False, True)
    """
    return row_hashes(features).numpy().view(np.uint64)


def digest_of_rows(features: Tensor, hashes: NDArray[np.uint64]) -> str:
    """Name features by their shape, type and content: 16 hexadecimal digits."""
    content = hashlib.sha256(f"{tuple(features.shape)} {features.dtype}:".encode())
    content.update(hashes.data)
    return content.hexdigest()[:16]


def first_copies(features: Tensor, hashes: NDArray[np.uint64], most: int) -> Tensor | None:
    """Return the numbers of all rows but those that more than ``most`` equal rows come before.

    Parameters
    ----------
    features : Tensor, (n, d)
        The rows.
    hashes : array, (n,)
        Those of `hash_rows`.
    most : int
        How many copies of a row are kept.

    Returns
    -------
    Tensor of int64, (m,), or None
        In ascending order; None if these are all rows.
    """
    order = np.argsort(hashes, kind="stable")  # equal rows stay in the order of their numbers
    ordered = hashes[order]
    late = np.flatnonzero(ordered[most:] == ordered[:-most]) + most if len(hashes) > most else order[:0]
    if len(late) == 0:
        return None
    copies, originals = order[late], order[late - most]
    kept = np.ones(len(hashes), bool)
    step = max(1, _NUMBERS // features.shape[1])
    for start in range(0, len(copies), step):
        some, others = (torch.from_numpy(each[start : start + step]) for each in (copies, originals))
        # Two rows may have the same number and not be equal.
        equal = (features[some] == features[others]).all(1)
        kept[some[equal].numpy()] = False
    return torch.from_numpy(np.flatnonzero(kept))
