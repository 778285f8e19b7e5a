"""Products of sparse matrices: the kernel beside SciPy."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from dahgnn.kernels.cpu import launch
from dahgnn.ops.matrices import sparse_product


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 16, 33, 70])
def test_the_kernel_multiplies_as_scipy_does(dtype, width):
    if launch.library() is None:
        pytest.skip("no compiled kernels")
    generator = np.random.default_rng(width)
    matrix = csr_array(random_array((5000, 300), density=0.02, rng=generator, format="csr"), dtype=dtype)
    matrix.data -= 0.5
    assert (np.diff(matrix.indptr) == 0).any()  # some rows are empty
    values = generator.normal(size=(300, width)).astype(dtype)
    found = sparse_product(matrix, torch.from_numpy(values), many=1)
    assert found.dtype == torch.from_numpy(values).dtype
    np.testing.assert_allclose(found, matrix.toarray() @ values, atol=1e-4 if dtype == np.float32 else 1e-12)


def test_places_of_eight_bytes_are_left_to_scipy():
    matrix = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    values = torch.arange(6.0, dtype=torch.float64).reshape(3, 2)
    assert sparse_product(matrix, values, many=1).tolist() == [[4.0, 6.0], [12.0, 16.0]]
