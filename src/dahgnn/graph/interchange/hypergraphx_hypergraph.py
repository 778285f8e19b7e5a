"""Hypergraphx: ``hypergraphx.Hypergraph``, in which a hyperedge is the sorted tuple of its nodes.

Weights of hyperedges are its own. Names of hyperedges are "name" in their metadata, weights of incidences are
"weight" in the metadata of incidences, and labels "label" in that of nodes.

Traps: equal hyperedges are merged, and their weights added up. Nodes must be comparable, so that names are
all text or all numbers. What Hypergraphx 1.8 writes as HIF is against the schema, as its edges are an object
there and no array, and has no incidences; hence ours does not go through it.
"""

from __future__ import annotations

from typing import Any

from dahgnn.graph.interchange.collecting import Collector
from dahgnn.graph.interchange.libraries import check_source, library
from dahgnn.graph.interchange.pairs import Pairs


def read_hypergraphx(source: Any) -> Pairs:
    """Read a ``hypergraphx.Hypergraph``."""
    check_source(source, library("hypergraphx").Hypergraph, "a hypergraphx.Hypergraph")
    found = Collector()
    for node in source.get_nodes():
        found.add_node(node, label=source.get_node_metadata(node).get("label"))
    weights = source.get_all_incidences_metadata()
    for number, edge in enumerate(source.get_edges()):
        name = source.get_edge_metadata(edge).get("name", number)
        found.add_hyperedge(name, weight=float(source.get_weight(edge)))
        for node in edge:
            found.add_pair(node, name, weights.get((edge, node), {}).get("weight"))
    return found.pairs()


def write_hypergraphx(pairs: Pairs) -> Any:
    """Make a ``hypergraphx.Hypergraph``."""
    nodes, names = pairs.node_names, pairs.names
    if len({isinstance(node, str) for node in nodes}) > 1:
        raise TypeError(
            "Nodes of hypergraphx must be comparable. Got names that are text and others. Rename."
        )
    made = library("hypergraphx").Hypergraph(weighted=True)
    labels = [None] * len(nodes) if names is None or names.labels is None else names.labels
    for node, label in zip(nodes, labels, strict=True):
        made.add_node(node, {} if label is None else {"label": label})
    edges = [tuple(sorted(nodes[node] for node in members)) for members in pairs.members()]  # type: ignore[type-var]
    for number, (name, edge) in enumerate(zip(pairs.hyperedge_names, edges, strict=True)):
        weight = 1.0 if pairs.weights is None else float(pairs.weights[number])
        # Of equal hyperedges the first one has the name: else it would become a list of all their names.
        known = made.check_edge(edge)
        made.add_edge(edge, weight=weight, metadata=None if known else {"name": name})
    if pairs.incidence_weights is not None:
        for number, node, weight in zip(pairs.hyperedge, pairs.node, pairs.incidence_weights, strict=True):
            made.set_incidence_metadata(edges[number], nodes[node], {"weight": float(weight)})
    return made
