"""SciPy: a sparse incidence matrix (n, m), a row for each node and a column for each hyperedge.

What it holds are the weights of incidences, ones if there are none. Hyperedges without a node are columns
of zeros, behind the others.

Traps: weights of hyperedges have no place, and names have none. A zero that is stored is no incidence. Pairs
that come twice are added up, as everywhere in SciPy. (m, n), the transpose, cannot be told from (n, m).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dahgnn.checks import bad_type, bad_value
from dahgnn.graph.interchange.pairs import Pairs, without_empty


def read_scipy(source: Any) -> Pairs:
    """Read a sparse array or matrix of any layout."""
    from scipy.sparse import coo_array, issparse

    if not issparse(source):
        expected = "a sparse array of scipy"
        raise bad_type("source", "import_hypergraph", expected, type(source).__name__)
    if source.ndim != 2 or source.dtype.kind not in "biuf":
        got = f"shape {source.shape} of {source.dtype}"
        raise bad_value("source", "import_hypergraph", "a matrix (n, m) of numbers", got)
    matrix = coo_array(source)
    if matrix.dtype.kind == "b":
        matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return without_empty(
        Pairs(
            node=matrix.row.astype(np.int64),
            hyperedge=matrix.col.astype(np.int64),
            n_nodes=matrix.shape[0],
            n_hyperedges=matrix.shape[1],
            incidence_weights=matrix.data.astype(np.float64),
        )
    )


def write_scipy(pairs: Pairs) -> Any:
    """Make a ``scipy.sparse.csr_array`` of float64."""
    from scipy.sparse import csr_array

    weights = np.ones(len(pairs.node)) if pairs.incidence_weights is None else pairs.incidence_weights
    empty = 0 if pairs.names is None else len(pairs.names.empty)
    shape = (pairs.n_nodes, pairs.n_hyperedges + empty)
    return csr_array((weights, (pairs.node, pairs.hyperedge)), shape=shape)
