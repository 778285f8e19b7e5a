"""Hypergraphs of DeepHypergraph, by its own class."""

import pytest
from interchange_cases import assert_same, build, lists

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph

dhg = pytest.importorskip("dhg")


@pytest.mark.parametrize("weights", [True, False])
def test_what_dhg_has_comes_back(weights):
    first = build(weights=weights, equal=False)
    theirs = export_hypergraph(first, "dhg")
    assert isinstance(theirs, dhg.Hypergraph)
    assert theirs.num_v == 6
    assert_same(import_hypergraph(theirs, "dhg", cover_isolated=False), first)


def test_equal_hyperedges_are_merged_only_if_that_is_wanted():
    first = build(weights=True)
    with pytest.raises(ValueError, match="'dhg' has no place for equal hyperedges. .* lossy=True"):
        export_hypergraph(first, "dhg")
    merged = import_hypergraph(export_hypergraph(first, "dhg", lossy=True), "dhg", cover_isolated=False)
    assert lists(merged) == [[0, 1, 2], [2, 4], [4]]
    assert merged.weights.tolist() == [3, 0.5, 1]  # the mean of 2 and 4


def test_one_hyperedge_of_one_node():
    one = import_hypergraph(dhg.Hypergraph(2, [(1,)]), "dhg", cover_isolated=False)
    assert_same(import_hypergraph(export_hypergraph(one, "dhg"), "dhg", cover_isolated=False), one)


def test_something_else_is_refused():
    with pytest.raises(
        TypeError, match="'source' parameter of import_hypergraph must be a dhg.Hypergraph. Got Graph"
    ):
        import_hypergraph(dhg.Graph(3), "dhg")
