"""Hypergraphs of XGI, by its own class."""

import pytest
from interchange_cases import assert_same, build, lists, named, same_names

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph

xgi = pytest.importorskip("xgi")


@pytest.mark.parametrize(
    "names", [None, named(), named(labels=["red", None, 3, None, None, "blue"], empty=["none"])]
)
@pytest.mark.parametrize("weights", [True, False])
def test_what_xgi_has_comes_back(names, weights):
    first = build(weights=weights, names=names)
    theirs = export_hypergraph(first, "xgi")
    assert isinstance(theirs, xgi.Hypergraph)
    again = import_hypergraph(theirs, "xgi", cover_isolated=False)
    assert_same(again, first)
    assert names is None or same_names(again, first)


def test_a_hypergraph_of_theirs_is_read():
    theirs = xgi.Hypergraph()
    theirs.add_nodes_from(["b", "lonely"])
    theirs.add_edge(["a", "b"], idx="x", weight=3)
    theirs.add_edge([], idx="none")
    hypergraph = import_hypergraph(theirs, "xgi", nodes=["a", "b", "lonely", "unknown"])
    assert lists(hypergraph) == [[0, 1], [2], [3]]
    assert hypergraph.weights.tolist() == [3, 1, 1]
    assert hypergraph.names.empty == ("none",)


def test_weights_of_incidences_have_no_place():
    with pytest.raises(ValueError, match="'xgi' has no place for incidence weights"):
        export_hypergraph(build(incidence_weights=True), "xgi")
    theirs = export_hypergraph(build(incidence_weights=True), "xgi", lossy=True)
    assert_same(import_hypergraph(theirs, "xgi", cover_isolated=False), build())


def test_directed_ones_are_refused():
    with pytest.raises(TypeError, match="an xgi.Hypergraph. Got DiHypergraph"):
        import_hypergraph(xgi.DiHypergraph(), "xgi")
