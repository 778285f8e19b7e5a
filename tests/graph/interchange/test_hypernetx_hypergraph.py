"""Hypergraphs of HyperNetX, by its own class."""

import pytest
from interchange_cases import assert_same, build, lists, named, same_names

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph

hypernetx = pytest.importorskip("hypernetx")
pandas = pytest.importorskip("pandas")
if int(pandas.__version__.split(".")[0]) >= 3:
    pytest.skip("HyperNetX needs a pandas before 3", allow_module_level=True)


@pytest.mark.parametrize("names", [None, named(nodes="abcde"), named(nodes=range(5))])
@pytest.mark.parametrize("weights", [True, False])
def test_what_hypernetx_has_comes_back(names, weights):
    first = build(weights=weights, incidence_weights=weights, names=names, isolated=False)
    theirs = export_hypergraph(first, "hypernetx")
    assert isinstance(theirs, hypernetx.Hypergraph)
    order = range(5) if names is None else names.nodes
    again = import_hypergraph(theirs, "hypernetx", nodes=order, cover_isolated=False)
    assert_same(again, first)
    assert names is None or same_names(again, first)


def test_isolated_nodes_are_lost_only_if_that_is_wanted():
    first = build(names=named())
    with pytest.raises(ValueError, match="'hypernetx' has no place for isolated nodes"):
        export_hypergraph(first, "hypernetx")
    again = import_hypergraph(export_hypergraph(first, "hypernetx", lossy=True), "hypernetx")
    assert again.names.nodes == tuple("abce")
    kept = import_hypergraph(
        export_hypergraph(first, "hypernetx", lossy=True), "hypernetx", nodes="abcdef", cover_isolated=False
    )
    assert lists(kept) == lists(first)


def test_a_hypergraph_of_theirs_is_read():
    theirs = hypernetx.Hypergraph({"x": ["a", "b"], "y": ["b"]})
    hypergraph = import_hypergraph(theirs, "hypernetx")
    assert {name: [hypergraph.names.nodes[i] for i in nodes] for name, nodes in zip(hypergraph.names.hyperedges, lists(hypergraph), strict=True)} == {"x": ["a", "b"], "y": ["b"]}  # fmt: skip
    assert hypergraph.weights is None
    assert hypergraph.incidence_weights is None


def test_something_else_is_refused():
    with pytest.raises(TypeError, match="a hypernetx.Hypergraph. Got dict"):
        import_hypergraph({}, "hypernetx")
