"""Bipartite graphs of NetworkX."""

import pytest
from interchange_cases import assert_same, build, lists, named, same_names

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph

networkx = pytest.importorskip("networkx")


@pytest.mark.parametrize(
    "names", [None, named(), named(hyperedges="abcd", labels=[*"rgb", None, None, 1], empty=["none"])]
)
@pytest.mark.parametrize("weights", [True, False])
def test_everything_comes_back(names, weights):
    first = build(weights=weights, incidence_weights=weights, names=names)
    graph = export_hypergraph(first, "networkx")
    assert networkx.is_bipartite(graph)
    assert graph.number_of_edges() == first.n_incidences
    again = import_hypergraph(graph, "networkx", cover_isolated=False)
    assert_same(again, first)
    assert names is None or same_names(again, first)


def test_names_stay_plain_where_no_node_is_called_as_a_hyperedge():
    graph = export_hypergraph(build(names=named()), "networkx")
    assert set(graph) == set("abcdefwxyz")
    assert ("node", 0) in export_hypergraph(build(), "networkx")


def test_a_graph_of_theirs_is_read():
    graph = networkx.bipartite.from_biadjacency_matrix(export_hypergraph(build(), "scipy"))
    assert lists(import_hypergraph(graph, "networkx", cover_isolated=False)) == lists(build())


def graph_of(pairs, sides):
    graph = networkx.Graph(pairs)
    for node, side in sides.items():
        graph.nodes[node]["bipartite"] = side
    return graph


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (lambda: graph_of([("a", "x")], {"a": 0}), ValueError, "'bipartite', 0 or 1. Got None at 'x'"),
        (lambda: graph_of([("a", "b")], {"a": 0, "b": 0}), ValueError, "Got an edge between 'a' and 'b'"),
        (lambda: networkx.DiGraph([("a", "x")]), ValueError, "undirected .* Got DiGraph"),
        (lambda: networkx.MultiGraph([("a", "x")]), ValueError, "without multiple edges. Got MultiGraph"),
        (lambda: {"a": ["x"]}, TypeError, "a networkx.Graph. Got dict"),
    ],
)
def test_bad_sources_are_refused(source, error, words):
    with pytest.raises(error, match=words):
        import_hypergraph(source(), "networkx")
