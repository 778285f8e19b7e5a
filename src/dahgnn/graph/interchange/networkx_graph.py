"""NetworkX: a bipartite graph, whose edges are the incidences.

Its nodes have the attribute "bipartite", 0 for nodes and 1 for hyperedges, as NetworkX has it by custom.
The attribute "weight" is that of a hyperedge, or on an edge of the graph that of an incidence; "label" is a
node's.

Traps: nodes and hyperedges share one space of names. Where a name is both, as with numbers, all become
("node", name) and ("hyperedge", name), with the attribute "name"; else a node would be taken for a hyperedge.
A graph without "bipartite" does not say which side is which, and is refused, and so is one of several edges
between two of its nodes or with directions.
"""

from __future__ import annotations

from typing import Any

from dahgnn.checks import bad_value
from dahgnn.graph.interchange.collecting import Collector
from dahgnn.graph.interchange.libraries import check_source, library
from dahgnn.graph.interchange.pairs import Pairs
from dahgnn.graph.names import Name

_OWNER = "import_hypergraph"


def read_networkx(source: Any) -> Pairs:
    """Read a bipartite ``networkx.Graph``."""
    check_source(source, library("networkx").Graph, "a networkx.Graph")
    if source.is_directed() or source.is_multigraph():
        raise bad_value("source", _OWNER, "an undirected graph without multiple edges", type(source).__name__)
    found = Collector()
    names: dict[Any, Name] = {}
    sides: dict[Any, int] = {}
    for each, attributes in source.nodes(data=True):
        sides[each], names[each] = attributes.get("bipartite"), attributes.get("name", each)
        if sides[each] == 0:
            found.add_node(names[each], label=attributes.get("label"))
        elif sides[each] == 1:
            found.add_hyperedge(names[each], weight=attributes.get("weight"))
        else:
            got = f"{sides[each]!r} at {each!r}"
            raise bad_value("source", _OWNER, "a graph whose nodes have 'bipartite', 0 or 1", got)
    for one, other, weight in source.edges(data="weight"):
        if sides[one] == sides[other]:
            raise bad_value("source", _OWNER, "bipartite", f"an edge between {one!r} and {other!r}")
        node, hyperedge = (one, other) if sides[one] == 0 else (other, one)
        found.add_pair(names[node], names[hyperedge], weight)
    return found.pairs()


def write_networkx(pairs: Pairs) -> Any:
    """Make a bipartite ``networkx.Graph``."""
    made = library("networkx").Graph()
    empty = () if pairs.names is None else tuple(pairs.names.empty)
    nodes, edges = pairs.node_names, (*pairs.hyperedge_names, *empty)
    shared = not set(nodes).isdisjoint(edges)
    labels = [None] * len(nodes) if pairs.names is None or pairs.names.labels is None else pairs.names.labels

    def add(kind: str, name: Name, **attributes: object) -> None:
        known = {key: value for key, value in attributes.items() if value is not None}
        if shared:
            made.add_node((kind, name), name=name, **known)
        else:
            made.add_node(name, **known)

    for node, label in zip(nodes, labels, strict=True):
        add("node", node, bipartite=0, label=label)
    for number, edge in enumerate(edges):
        has_weight = pairs.weights is not None and number < len(pairs.weights)
        add("hyperedge", edge, bipartite=1, weight=float(pairs.weights[number]) if has_weight else None)  # type: ignore[index]
    for place, (node, edge) in enumerate(zip(pairs.node.tolist(), pairs.hyperedge.tolist(), strict=True)):
        ends = [("node", nodes[node]), ("hyperedge", edges[edge])] if shared else [nodes[node], edges[edge]]
        weight = {}
        if pairs.incidence_weights is not None:
            weight = {"weight": float(pairs.incidence_weights[place])}
        made.add_edge(*ends, **weight)
    return made
