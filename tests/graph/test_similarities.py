"""Sparse matrices of similarities, against dense ones, some rows at a time and all at once."""

import numpy as np
import pytest
import torch
from file_backed import is_in
from scipy.sparse import csr_array

from dahgnn.files.scratch import IN_MEMORY, Scratch
from dahgnn.graph import similarities
from dahgnn.graph.neighbours import Neighbors
from dahgnn.graph.similarities import (
    directed_similarities,
    numpy_type,
    reordered,
    scaled,
    similarities_of,
    stored,
    sums_of_rows,
)


@pytest.fixture(autouse=True, params=[1 << 22, 7])
def _pairs(request, monkeypatch):
    monkeypatch.setattr(similarities, "_PAIRS", request.param)


def some_matrix(n: int = 30) -> csr_array:
    """Rows of very different length, one of them empty."""
    generator = np.random.default_rng(0)
    dense = generator.random((n, n)) * (generator.random((n, n)) < 0.2)
    dense[3], dense[5] = 0, generator.random(n)
    return csr_array(dense)


def test_rows_are_weighed_by_the_distance_to_the_farthest():
    distances = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    found = similarities_of(Neighbors(torch.zeros(2, 2, dtype=torch.int64), distances))
    np.testing.assert_allclose(found, [[np.exp(-1), np.exp(-4)], [1, 1]])


def test_nobody_is_similar_to_itself_and_names_that_come_twice_add_up():
    indices = torch.tensor([[1, 1], [1, 2], [0, 1]])
    found = directed_similarities(Neighbors(indices, torch.ones(3, 2)), np.float64).toarray()
    np.testing.assert_allclose(found, np.exp(-4) * np.array([[0, 2, 0], [0, 0, 1], [1, 1, 0]]))


def test_sums_and_factors_are_those_of_the_dense_matrix():
    matrix, factors = some_matrix(), np.random.default_rng(1).random(30)
    np.testing.assert_allclose(sums_of_rows(matrix), matrix.toarray().sum(1))
    expected = factors[:, None] * matrix.toarray() * factors
    np.testing.assert_allclose(scaled(matrix, factors, np.float64).toarray(), expected)
    assert scaled(matrix, factors, numpy_type(torch.float32)).data.dtype == np.float32


def test_an_order_moves_rows_and_columns():
    matrix, nodes = some_matrix(), np.random.default_rng(2).permutation(30)
    found = reordered(matrix, nodes, np.argsort(nodes))
    np.testing.assert_array_equal(found.toarray(), matrix.toarray()[np.ix_(nodes, nodes)])
    assert found.indices.dtype == matrix.indices.dtype


def test_what_is_stored_is_the_same_in_a_file(tmp_path):
    matrix = some_matrix()
    expected = matrix.toarray()
    assert stored(matrix, IN_MEMORY) is matrix
    with Scratch(tmp_path, large=1) as scratch:
        found = stored(matrix, scratch)
        assert is_in(torch.from_numpy(found.data), tmp_path)
        np.testing.assert_array_equal(found.toarray(), expected)
