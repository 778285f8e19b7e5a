import numpy as np
import pytest

from dahgnn.graph.interchange.pairs import Numbering, Pairs, without_empty
from dahgnn.graph.names import Names


def make(**changes):
    parts = {"node": np.array([0, 1, 2]), "hyperedge": np.array([0, 0, 3]), "n_nodes": 3, "n_hyperedges": 5}
    return Pairs(**parts | changes)


def test_weights_that_are_all_one_are_none():
    arguments = make(weights=np.ones(5), incidence_weights=np.array([1, 1, 2.0])).arguments()
    assert arguments["weights"] is None
    assert arguments["incidence_weights"].tolist() == [1, 1, 2]


def test_hyperedges_without_a_node_are_named_and_left_out():
    pairs = without_empty(make(weights=np.arange(1.0, 6), centres=np.array([1, -1, -1, 2, -1])))
    assert pairs.hyperedge.tolist() == [0, 0, 1]
    assert pairs.n_hyperedges == 2
    assert pairs.weights.tolist() == [1, 4]
    assert pairs.centres.tolist() == [1, 2]
    assert pairs.names.hyperedges == (0, 3)
    assert pairs.names.empty == (1, 2, 4)
    assert pairs.members() == [[0, 1], [2]]
    assert without_empty(pairs) is pairs


def test_nodes_in_another_order():
    names = Names("abc", "vwxyz", labels=["red", None, "blue"])
    moved = make(names=names, centres=np.array([1, 0, 0, 2, 0])).with_nodes(["c", "new", "b", "a"], "it")
    assert moved.node.tolist() == [3, 2, 0]
    assert moved.centres.tolist() == [2, 3, 3, 0, 3]
    assert moved.names.labels == ("blue", None, None, "red")
    assert moved.n_nodes == 4
    with pytest.raises(
        ValueError, match=r"'nodes' parameter of it must be the names of all nodes. Got no 'a'.*\(1 such"
    ):
        make(names=names).with_nodes(["c", "b"], "it")
    with pytest.raises(ValueError, match="all different. Got 'c' more than once"):
        make(names=names).with_nodes(["c", "b", "c", "a"], "it")


def test_numbers_follow_the_first_appearance():
    numbering = Numbering()
    assert [numbering[name] for name in ("b", 1, "1", "b")] == [0, 1, 2, 0]
    assert numbering.names == ("b", 1, "1")
    assert len(numbering) == 3
