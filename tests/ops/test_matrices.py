"""Products of matrices: the kernels beside SciPy and torch."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from dahgnn.kernels.cpu import launch
from dahgnn.ops.backend import using
from dahgnn.ops.matrices import sparse_product, tall_product


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


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (50, 3, 31), (300, 7, 33), (90, 785, 100)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_tall_product_is_that_of_torch(rows, inner, columns, dtype, backend):
    generator = torch.Generator().manual_seed(rows)
    left = torch.randn(inner, rows, generator=generator, dtype=dtype).T
    right = torch.randn(columns, inner, generator=generator, dtype=dtype).T
    with using(backend):
        found = tall_product(left, right)
    assert found.dtype == dtype
    near = {"rtol": 1e-5, "atol": 1e-5 * inner**0.5} if dtype == torch.float32 else {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(found.double(), left.double() @ right.double(), check_dtype=False, **near)


def test_a_tall_product_rounds_no_more_under_autocast():
    left, right = torch.rand(40, 9), torch.rand(9, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert tall_product(left, right).dtype == torch.float32
