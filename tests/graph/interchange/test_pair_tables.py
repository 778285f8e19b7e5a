"""Tables of pairs of pandas and Arrow."""

import numpy as np
import pytest
from interchange_cases import assert_same, build, lists, named

from dahgnn.graph.interchange.registry import export_hypergraph, import_hypergraph

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
MAKE = {"pandas": pandas.DataFrame, "arrow": pyarrow.table}
KINDS = list(MAKE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [None, named(nodes="abcde")])
@pytest.mark.parametrize("weights", [True, False])
def test_all_that_is_in_a_pair_comes_back(kind, names, weights):
    first = build(weights=weights, incidence_weights=weights, names=names, isolated=False)
    table = export_hypergraph(first, kind)
    assert isinstance(table, pandas.DataFrame if kind == "pandas" else pyarrow.Table)
    order = range(5) if names is None else names.nodes
    again = import_hypergraph(table, kind, nodes=order, cover_isolated=False)
    assert_same(again, first)
    assert again.names.hyperedges == (tuple(range(4)) if names is None else names.hyperedges)


@pytest.mark.parametrize("kind", KINDS)
def test_isolated_nodes_are_lost_only_if_that_is_wanted(kind):
    first = build(names=named(empty=["none"]))
    with pytest.raises(ValueError, match=f"'{kind}' has no place for isolated nodes and empty hyperedges"):
        export_hypergraph(first, kind)
    table = export_hypergraph(first, kind, lossy=True)
    assert import_hypergraph(table, kind).names.nodes == tuple("abce")
    assert_same(import_hypergraph(table, kind, nodes="abcdef", cover_isolated=False), first)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_in_any_order_and_twice(kind):
    table = MAKE[kind]({"weight": [1.0, 2.0, 3.0], "hyperedge": [7, 8, 7], "node": ["b", "a", "b"]})
    hypergraph = import_hypergraph(table, kind, nodes=["a", "b"])
    assert lists(hypergraph) == [[1], [0]]
    assert hypergraph.names.hyperedges == (7, 8)
    assert hypergraph.incidence_weights.tolist() == [3, 2]
    assert all(type(name) is int for name in hypergraph.names.hyperedges)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"node": [0]}, "a table with one column 'hyperedge'. Got 'node'. Rename its columns"),
        ({"node": [0], "hyperedge": [0], "wieght": [1]}, "each once. Got 'wieght'. Did you mean 'weight'"),
        ({"node": ["a", None], "hyperedge": [0, 0]}, "without gaps in 'node'. Got one in row 1"),
        ({"node": ["a", "b"], "hyperedge": ["", "x"]}, "without gaps in 'hyperedge'. Got one in row 0"),
        ({"node": [0, 1], "hyperedge": [0, 0], "hyperedge_weight": [1.0, 2.0]}, "Got 1.0 and 2.0 of 0"),
        ({"node": [0, 1], "hyperedge": [0, 0], "weight": [1.0, 0.0]}, "Got 0.0 for pair 1"),
        ({"node": np.array([], int), "hyperedge": np.array([], int)}, "a table with a row. Got none"),
    ],
)
def test_bad_tables_are_refused(kind, columns, words):
    with pytest.raises(ValueError, match=words):
        import_hypergraph(MAKE[kind](columns), kind)
    with pytest.raises(TypeError, match="'source'.* Got list"):
        import_hypergraph([], kind)
