"""The rows that a classifier is given."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from dahgnn.classifier.rows import read_rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_become_dense_in_their_precision(dtype):
    rows = np.array([[0, 1, 0], [2, 0, 3]], dtype=dtype)
    read = read_rows(BaseEstimator(), csr_array(rows), reset=True)
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, rows)


def test_the_columns_of_a_fit_are_remembered():
    owner = BaseEstimator()
    read_rows(owner, np.zeros((2, 3)), reset=True)
    with pytest.raises(ValueError, match="X has 2 features, but BaseEstimator is expecting 3"):
        read_rows(owner, np.zeros((1, 2)), reset=False)


def test_numbers_beyond_single_precision_are_refused():
    with pytest.raises(ValueError, match=r"must be in the range of float32\. Got 1e\+38\.$"):
        read_rows(BaseEstimator(), [[1e38], [0.0]], reset=True)
    with pytest.raises(ValueError, match="of at most 1,073,741,824 numbers, zeros included"):
        read_rows(BaseEstimator(), csr_array((10, 2**31), dtype=np.float32), reset=True)
