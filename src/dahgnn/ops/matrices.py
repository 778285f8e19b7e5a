"""Products of matrices with many rows, by kernels where these are faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dahgnn.kernels.cpu import launch
from dahgnn.ops.backend import wide_product_kernel_for

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Rows from which on the kernel multiplies, in several threads. On fewer, SciPy takes about as long, and
# threads would wait for each other.
MANY_ROWS = 1 << 16
# Columns that the kernel for products multiplies at a time.
_COLUMNS = 32


def tall_product(rows: Tensor, weight: Tensor) -> Tensor:
    """Multiply many rows (n, d) with a weight (d, columns), without a gradient and whatever autocast says."""
    kernel = wide_product_kernel_for(rows)
    columns = weight.shape[1]
    if kernel is None or columns < _COLUMNS or rows.shape[1] == 0:
        with torch.autocast(rows.device.type, enabled=False):
            return rows @ weight
    padded = torch.nn.functional.pad(weight, (0, -columns % _COLUMNS))
    return kernel(rows.contiguous(), padded)[:, :columns]


def sparse_product(matrix: csr_array, values: Tensor, *, many: int = MANY_ROWS) -> Tensor:
    """Multiply a sparse matrix with values on the CPU.

    Parameters
    ----------
    matrix : csr_array, (n, m)
        In the precision of the values.
    values : Tensor, (m, width)
        What is multiplied.
    many : int
        Rows from which on the kernel multiplies.

    Returns
    -------
    Tensor, (n, width)

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> matrix = csr_array(np.array([[0.0, 2.0], [1.0, 1.0]]))
    >>> sparse_product(matrix, torch.eye(2, dtype=torch.float64)).tolist()
    [[0.0, 2.0], [1.0, 1.0]]
    """
    fits = matrix.indices.dtype == matrix.indptr.dtype == np.int32
    if matrix.shape[0] < many or not (fits and launch.supports(values)):
        return torch.from_numpy(matrix @ values.numpy())
    offsets, columns, weights = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
    return launch.sparse_product(offsets, columns, weights.to(values.dtype), values)
