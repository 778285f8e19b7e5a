"""DeepHypergraph: ``dhg.Hypergraph``.

Traps: equal hyperedges are merged to one, whose weight is the mean of theirs (its ``merge_op``). Weights of
incidences, names, and hyperedges without a node have no place. Several groups of hyperedges are read as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dahgnn.graph.interchange.libraries import check_source, library
from dahgnn.graph.interchange.pairs import Pairs


def read_dhg(source: Any) -> Pairs:
    """Read a ``dhg.Hypergraph``."""
    check_source(source, library("dhg").Hypergraph, "a dhg.Hypergraph")
    hyperedges, weights = source.e
    sizes = [len(each) for each in hyperedges]
    return Pairs(
        node=np.array([node for each in hyperedges for node in each], dtype=np.int64),
        hyperedge=np.repeat(np.arange(len(sizes)), np.array(sizes, dtype=np.int64)),
        n_nodes=source.num_v,
        n_hyperedges=len(sizes),
        weights=np.array(weights, dtype=np.float64),
    )


def write_dhg(pairs: Pairs) -> Any:
    """Make a ``dhg.Hypergraph``."""
    weights = None if pairs.weights is None else pairs.weights.tolist()
    # DHG takes a list of numbers alone for one hyperedge, and tuples within a list for several.
    members = [tuple(each) for each in pairs.members()]
    return library("dhg").Hypergraph(pairs.n_nodes, members, weights)
