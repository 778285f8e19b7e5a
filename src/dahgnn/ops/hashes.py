"""A number for the content of each row, by which equal rows are found."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.ops.backend import hashes_kernel_for

# Numbers that are looked at at a time, so few that they stay in the caches.
_NUMBERS = 1 << 17


def row_hashes(rows: Tensor) -> Tensor:
    """Return a number for each row (n, d), the same for equal rows, and hardly ever for others.

    A row's number is the sum, over its columns, of a hash of their bits times a factor of the column.

    Returns
    -------
    Tensor of int64, (n,), on the CPU
        They stand for numbers without a sign.
    """
    d = rows.shape[1]
    # Odd factors, so that a change of one column always changes the sum.
    drawn = np.random.default_rng(d).integers(0, 2**64, d, np.uint64, endpoint=False) | np.uint64(1)
    factors = torch.from_numpy(drawn.view(np.int64))
    kernel = hashes_kernel_for(rows)
    if kernel is not None:
        return kernel(rows, factors)
    hashes = torch.empty(len(rows), dtype=torch.int64)
    step = max(1, _NUMBERS // d)
    for start in range(0, len(rows), step):
        some = rows[start : start + step].cpu()
        hashes[start : start + step] = torch.from_numpy(_hash(some, drawn).view(np.int64))
    return hashes


def _hash(rows: Tensor, factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the numbers of some rows as they are."""
    bits = np.uint32 if rows.dtype == torch.float32 else np.uint64
    # Adding zero makes a negative zero a positive one, which equals it.
    mixed = (rows + 0.0).numpy().view(bits).astype(np.uint64)
    # Floats that are whole numbers end in zeros, which a product alone would keep.
    mixed ^= mixed >> np.uint64(17)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= factors
    return np.asarray(mixed.sum(1, dtype=np.uint64))
