"""XGI: ``xgi.Hypergraph``, also a ``SimplicialComplex``, whose faces are hyperedges there.

Weights of hyperedges are their attribute "weight", labels the attribute "label" of nodes.

Traps: weights of incidences have no place. XGI's own reader of HIF (0.10) drops all weights, and its writer
puts those of hyperedges among the attributes; hence ours does not go through it. A ``DiHypergraph`` is
refused: join its heads and tails first.
"""

from __future__ import annotations

from typing import Any

from dahgnn.graph.interchange.collecting import Collector
from dahgnn.graph.interchange.libraries import check_source, library
from dahgnn.graph.interchange.pairs import Pairs


def read_xgi(source: Any) -> Pairs:
    """Read an ``xgi.Hypergraph``."""
    check_source(source, library("xgi").Hypergraph, "an xgi.Hypergraph")
    found = Collector()
    for name in source.nodes:
        found.add_node(name, label=source.nodes[name].get("label"))
    for name in source.edges:
        found.add_hyperedge(name, weight=source.edges[name].get("weight"))
        for node in source.edges.members(name):
            found.add_pair(node, name)
    return found.pairs()


def write_xgi(pairs: Pairs) -> Any:
    """Make an ``xgi.Hypergraph``."""
    made = library("xgi").Hypergraph()
    names, nodes = pairs.names, pairs.node_names
    labels = [None] * len(nodes) if names is None or names.labels is None else names.labels
    for node, label in zip(nodes, labels, strict=True):
        made.add_node(node, **({} if label is None else {"label": label}))
    for number, (name, members) in enumerate(zip(pairs.hyperedge_names, pairs.members(), strict=True)):
        weight = {} if pairs.weights is None else {"weight": float(pairs.weights[number])}
        made.add_edge([nodes[node] for node in members], idx=name, **weight)
    for name in () if names is None else names.empty:
        made.add_edge([], idx=name)
    return made
