"""HyperNetX: ``hypernetx.Hypergraph``, whose cell weights are the weights of incidences.

Traps: nodes that are in no hyperedge, and hyperedges without a node, are lost when one is made. Of a pair
that comes twice, HyperNetX keeps the first weight unless ``aggregate_by`` says otherwise. Its releases up to
2.4 work with pandas before 3 alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dahgnn.graph.interchange.collecting import Collector
from dahgnn.graph.interchange.libraries import check_source, library
from dahgnn.graph.interchange.pairs import Pairs


def read_hypernetx(source: Any) -> Pairs:
    """Read a ``hypernetx.Hypergraph``."""
    check_source(source, library("hypernetx").Hypergraph, "a hypernetx.Hypergraph")
    found = Collector()
    for name in source.nodes:
        found.add_node(name)
    for name in source.edges:
        found.add_hyperedge(name, weight=float(source.edges[name].weight))
    cells = source.incidences.to_dataframe
    for (edge, node), weight in zip(cells.index, cells["weight"], strict=True):
        found.add_pair(node, edge, float(weight))
    return found.pairs()


def write_hypernetx(pairs: Pairs) -> Any:
    """Make a ``hypernetx.Hypergraph``."""
    frames = library("pandas")
    nodes, edges = pairs.node_names, pairs.hyperedge_names
    weights = np.ones(len(pairs.node)) if pairs.incidence_weights is None else pairs.incidence_weights
    cells = frames.DataFrame(
        {
            # As objects, so that names stay what they are.
            "edge": frames.Series([edges[each] for each in pairs.hyperedge.tolist()], dtype=object),
            "node": frames.Series([nodes[each] for each in pairs.node.tolist()], dtype=object),
            "weight": weights,
        }
    )
    each = np.ones(len(edges)) if pairs.weights is None else pairs.weights
    properties = frames.DataFrame({"edge": frames.Series(edges, dtype=object), "weight": each})
    return library("hypernetx").Hypergraph(
        cells, edge_col="edge", node_col="node", cell_weight_col="weight", edge_properties=properties
    )
