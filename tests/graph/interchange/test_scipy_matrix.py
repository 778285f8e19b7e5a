"""Incidence matrices of SciPy."""

import numpy as np
import pytest
from interchange_cases import HYPEREDGES, assert_same, build, lists, named
from scipy import sparse

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph


@pytest.mark.parametrize("weights", [True, False])
def test_the_matrix_is_the_incidence(weights):
    first = build(incidence_weights=weights)
    matrix = export_hypergraph(first, "scipy")
    expected = np.zeros((6, 4))
    flat = iter(first.incidence_weights.tolist() if weights else [1.0] * 9)
    for column, nodes in enumerate(HYPEREDGES):
        for node in nodes:
            expected[node, column] = next(flat)
    np.testing.assert_array_equal(matrix.toarray(), expected)
    assert_same(import_hypergraph(matrix, "scipy", cover_isolated=False), first)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_every_layout_is_read(make, dtype):
    matrix = make(np.array([[1, 0, 0], [1, 0, 1]], dtype=dtype))
    hypergraph = import_hypergraph(matrix, "scipy")
    assert lists(hypergraph) == [[0, 1], [1]]
    assert hypergraph.incidence_weights is None
    assert hypergraph.names.hyperedges == (0, 2)
    assert hypergraph.names.empty == (1,)


def test_stored_zeros_are_none_and_pairs_that_come_twice_are_added_up():
    rows, columns, values = [0, 0, 1, 1], [0, 0, 0, 1], [1.0, 2.0, 5.0, 0.0]
    hypergraph = import_hypergraph(sparse.coo_array((values, (rows, columns)), shape=(2, 2)), "scipy")
    assert lists(hypergraph) == [[0, 1]]
    assert hypergraph.incidence_weights.tolist() == [3, 5]


def test_empty_hyperedges_are_columns_of_zeros():
    first = build(names=named(empty=["u", "v"]))
    matrix = export_hypergraph(first, "scipy")
    assert matrix.shape == (6, 6)
    assert import_hypergraph(matrix, "scipy").names.empty == (4, 5)


def test_weights_of_hyperedges_are_lost_only_if_that_is_wanted():
    with pytest.raises(ValueError, match="'scipy' has no place for hyperedge weights"):
        export_hypergraph(build(weights=True), "scipy")
    assert export_hypergraph(build(weights=True), "scipy", lossy=True).max() == 1


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (np.eye(2), TypeError, "a sparse array of scipy. Got ndarray"),
        (sparse.csr_array(np.eye(2) * 1j), ValueError, "a matrix .* of numbers. Got shape .* complex128"),
        (sparse.csr_array(-np.eye(2)), ValueError, "'incidence_weights'.* Got -1.0 for pair 0"),
    ],
)
def test_bad_sources_are_refused(source, error, words):
    with pytest.raises(error, match=words):
        import_hypergraph(source, "scipy")
