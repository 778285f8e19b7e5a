"""Hypergraphs of Hypergraphx, by its own class."""

import pytest
from interchange_cases import assert_same, build, lists, named, same_names

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph

hypergraphx = pytest.importorskip("hypergraphx")


@pytest.mark.parametrize(
    "names", [None, named(hyperedges="wxy"), named(nodes="fedcba", hyperedges="wxy", labels=[1, *"abcde"])]
)
@pytest.mark.parametrize("weights", [True, False])
def test_what_hypergraphx_has_comes_back(names, weights):
    first = build(weights=weights, incidence_weights=weights, names=names, equal=False)
    theirs = export_hypergraph(first, "hypergraphx")
    assert isinstance(theirs, hypergraphx.Hypergraph)
    again = import_hypergraph(theirs, "hypergraphx", cover_isolated=False)
    assert_same(again, first)
    assert names is None or same_names(again, first)


def test_equal_hyperedges_are_merged_only_if_that_is_wanted():
    first = build(weights=True)
    with pytest.raises(ValueError, match="'hypergraphx' has no place for equal hyperedges"):
        export_hypergraph(first, "hypergraphx")
    theirs = export_hypergraph(first, "hypergraphx", lossy=True)
    merged = import_hypergraph(theirs, "hypergraphx", cover_isolated=False)
    assert lists(merged) == [[0, 1, 2], [2, 4], [4]]
    assert merged.weights.tolist() == [6, 0.5, 1]  # the sum of 2 and 4


def test_a_hypergraph_of_theirs_is_read():
    theirs = hypergraphx.Hypergraph([("b", "a"), ("c",)], weighted=False)
    hypergraph = import_hypergraph(theirs, "hypergraphx", nodes="abc")
    assert lists(hypergraph) == [[0, 1], [2]]
    assert hypergraph.weights is None


def test_names_that_cannot_be_sorted_are_refused():
    with pytest.raises(TypeError, match="must be comparable. Got names that are text and others"):
        export_hypergraph(
            build(equal=False, names=named(nodes=[0, *"bcdef"], hyperedges="wxy")), "hypergraphx"
        )
    with pytest.raises(TypeError, match="a hypergraphx.Hypergraph. Got list"):
        import_hypergraph([], "hypergraphx")
