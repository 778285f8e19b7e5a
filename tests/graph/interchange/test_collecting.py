import numpy as np

from dahgnn.graph.interchange.collecting import Collector, plain


def test_what_is_said_last_counts():
    found = Collector()
    found.add_node("b", weight=1.5, label="red")
    found.add_node("b")  # says nothing new
    found.add_pair("a", "x", 3.0)
    found.add_pair("a", "x")
    found.add_pair("b", "y", 2.0)
    found.add_pair("b", "y", 4.0)
    found.add_hyperedge("y", weight=7.0)
    pairs = found.pairs()
    assert pairs.names.nodes == ("b", "a")
    assert pairs.names.labels == ("red", None)
    assert pairs.names.node_weights == (1.5, 1.0)
    assert pairs.names.hyperedges == ("x", "y")
    assert pairs.node.tolist() == [1, 0]
    assert pairs.incidence_weights.tolist() == [3, 4]
    assert pairs.weights.tolist() == [1, 7]


def test_centres_count_where_each_hyperedge_has_one_of_its_nodes():
    found = Collector()
    found.add_hyperedge("x", centre="a")
    found.add_hyperedge("empty", centre="a")
    for node in "ab":
        found.add_pair(node, "x")
    assert found.pairs().centres.tolist() == [0]
    found.add_pair("b", "y")
    assert found.pairs().centres is None
    found.add_hyperedge("y", centre="a")  # which is not in it
    assert found.pairs().centres is None


def test_numbers_of_numpy_become_those_of_python():
    assert [type(plain(name)) for name in (np.int64(3), np.str_("x"), "y")] == [int, str, str]
    found = Collector()
    found.add_pair(np.int32(3), np.str_("x"))
    found.add_pair(3, "x")
    assert found.pairs().names.nodes == (3,)
