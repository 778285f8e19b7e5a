"""Which file rows are mapped from: arrays of NumPy know it, and tensors are told it here."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# The attribute of a tensor's storage that has the array. All views of a tensor have one storage.
_NOTE = "dahgnn_mapped_array"


def tensor_of_mapped(array: np.memmap) -> Tensor:
    """Return a tensor of an array that is mapped from a file, without a copy; `find_mapped` finds its array.

    Parameters
    ----------
    array : memmap
        Opened so that it can be written to, as torch has no tensors that cannot be.
    """
    tensor = torch.from_numpy(array)
    setattr(tensor.untyped_storage(), _NOTE, array)
    return tensor


def find_mapped(rows: object) -> np.memmap | None:
    """Return the array whose file an array or a tensor is mapped from; None if there is none.

    Views are followed: the array is the whole one that was opened. A tensor that was not made by
    `tensor_of_mapped` does not tell what it is a view of.

    Examples
    --------
    >>> find_mapped(np.zeros(3)) is None
    True
    """
    found = None
    while isinstance(rows, np.ndarray | Tensor):
        if isinstance(rows, np.memmap):
            found = rows  # perhaps a part of another, whose place in the file it does not know
        rows = rows.base if isinstance(rows, np.ndarray) else _mapped_below(rows)
    return found


def _mapped_below(tensor: Tensor) -> np.memmap | None:
    """Return the mapped array that `tensor_of_mapped` made a tensor of, or the one it is a view of."""
    return getattr(tensor.untyped_storage(), _NOTE, None) if tensor.layout == torch.strided else None
