"""Distances of pairs of points, exact enough to tell who is nearer: the same bits on every device."""

from __future__ import annotations

import torch
from torch import Tensor

from dahgnn.ops.backend import distances_kernel_for

# Numbers of float64 that go through several steps at a time: few enough on the CPU to stay in its caches, and
# no fewer, because each step waits for all threads. A GPU waits for the host between steps.
_NUMBERS, _NUMBERS_GPU = 1 << 20, 1 << 24
# Terms of a sum from which on columns are added as they lie in memory.
_FEW_TERMS = 16


def squared_distances(points: Tensor, here: Tensor, there: Tensor, scale: float = 1.0) -> Tensor:
    """Return squared distances in float64, (p,).

    Parameters
    ----------
    points : Tensor, (n, d)
        One row a point.
    here, there : Tensor of int64, (p,)
        The numbers of both ends of each pair.
    scale : float
        What the differences are multiplied with; a power of two, so that it rounds nothing.
    """
    kernel = distances_kernel_for(points)
    if kernel is not None:
        return kernel(points, here, there, scale)
    # Both ends of a pair often ask for it.
    n = len(points)
    pairs = torch.minimum(here, there) * n + torch.maximum(here, there)
    pairs, asked = pairs.unique(return_inverse=True)
    squares = torch.empty(len(pairs), dtype=torch.float64, device=pairs.device)
    step = max(1, (_NUMBERS_GPU if points.is_cuda else _NUMBERS) // points.shape[1])
    for some, result in zip(pairs.split(step), squares.split(step), strict=True):
        difference = points.index_select(0, some // n).double()
        difference -= points.index_select(0, some % n)
        if scale != 1:
            difference *= scale
        result.copy_(_fold(difference.mul_(difference)))
    return squares[asked]


def _fold(terms: Tensor) -> Tensor:
    """Sum rows by halves, (m, d) to (m,), in place: an order of summation that no shape or device changes."""
    while terms.shape[1] > _FEW_TERMS:
        terms = _halve(terms)
    # Short rows are slow to add, long columns are not.
    terms = terms.T.contiguous().T
    while terms.shape[1] > 1:
        terms = _halve(terms)
    return terms.squeeze(1)


def _halve(terms: Tensor) -> Tensor:
    """Add the second half of the columns to the first, which is the longer one if they are odd."""
    half = (terms.shape[1] + 1) // 2
    terms[:, : terms.shape[1] - half].add_(terms[:, half:])
    return terms[:, :half]


def working_precision(dtype: torch.dtype) -> torch.dtype:
    """Return the precision of the products: float64 where float32 products are allowed to round more."""
    try:
        exact = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set by torch's newer interface, which this one does not read
        exact = False
    return dtype if exact else torch.float64
