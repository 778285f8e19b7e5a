import pytest

from dahgnn.graph.names import Names


def test_names_lead_to_numbers():
    names = Names(["b", 1, "1"], iter(["x"]), labels=[None, "red", 3], empty=["y"])
    assert names.node_numbers == {"b": 0, 1: 1, "1": 2}
    assert names.hyperedges == ("x",)
    assert names.labels == (None, "red", 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["a", "a"], []), "'nodes' parameter of Names must be all different. Got 'a' more than once"),
        ((["a"], ["x"], None, None, ["x"]), "'hyperedges'.*Got 'x' more than once"),
        ((["a"], ["x"], ["red", "blue"]), "'labels'.* as many as nodes, 1. Got 2"),
        ((["a"], ["x"], None, []), "'node_weights'.* as many as nodes, 1. Got 0"),
    ],
)
def test_names_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Names(*arguments)
