import numpy as np
import pytest

from dahgnn.tables.leaks import counts_rows


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        (np.arange(12), True),
        (np.arange(1, 13), True),
        (1000 + 5 * np.arange(12), True),
        (np.arange(12)[::-1], True),
        (np.random.default_rng(0).permutation(12), True),
        (7 + np.random.default_rng(0).permutation(12), True),
        (5 * np.random.default_rng(0).permutation(12), False),
        (np.arange(12) / 2, False),
        (np.arange(12) ** 2, False),
        (np.ones(12), False),
        (np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, np.nan]), False),
        (np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]), False),
        (np.array([0, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), False),
        (np.array([3]), False),
    ],
)
def test_numbers_that_count_the_rows(values, counts):
    assert counts_rows(values.astype(float)) is counts
