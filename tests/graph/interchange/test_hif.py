"""The Hypergraph Interchange Format: each rule of schema 0.1.0 with a compliant and a non-compliant case."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dahgnn import Hypergraph
from dahgnn.graph.interchange.hif import read_hif, write_hif
from dahgnn.graph.names import Names

ONE = {"edge": "x", "node": "a"}


def lists(hypergraph):
    return [hypergraph.members(j).tolist() for j in range(hypergraph.n_hyperedges)]


def whole(**changes):
    return {"incidences": [ONE, {"edge": "x", "node": "b"}]} | changes


# A rule of the schema, contents that keep it, and contents that break it with the place that is named.
RULES = {
    "the whole is an object": ([whole()], [([], "the whole is an object. Got an array")]),
    "incidences are required": ([{"incidences": [ONE]}], [({"nodes": []}, "the whole is an object with 'incidences'")]),
    "there are no other keys": (
        [whole(nodes=[], edges=[], metadata={}) | {"network-type": "asc"}],
        [(whole(node=[]), "alone. Got 'node'. Did you mean 'nodes'"), (whole(version="0.1.0"), "alone. Got 'version'")],
    ),
    "the network type is one of three": (
        [whole(**{"network-type": kind}) for kind in ("undirected", "asc")],
        [
            (whole(**{"network-type": "undirect"}), "network-type is one of .* Did you mean 'undirected'"),
            (whole(**{"network-type": None}), "network-type is one of .* Got null"),
        ],
    ),
    "metadata is an object": (
        [whole(metadata={"any": ["thing"]})],
        [(whole(metadata="x"), "metadata is an object. Got 'x'"), (whole(metadata=None), "Got null")],
    ),
    "incidences are an array": (
        [{"incidences": [], "nodes": [{"node": 1}]}],
        [({"incidences": {}}, "incidences is an array. Got an object"), ({"incidences": None}, "Got null")],
    ),
    "an incidence is an object": (
        [whole(incidences=[ONE])],
        [(whole(incidences=[ONE, ["x", "a"]]), r"incidences\[1\] is an object. Got an array")],
    ),
    "an incidence has an edge": ([whole()], [(whole(incidences=[{"node": 1}]), r"incidences\[0\] is an object with 'edge'. Got one without")]),
    "an incidence has a node": ([whole()], [(whole(incidences=[{"edge": 1}]), r"incidences\[0\] is an object with 'node'")]),
    "names of incidences are text or integers": (
        [whole(incidences=[{"edge": 1, "node": "a"}, {"edge": "", "node": -7}, {"edge": 2.0, "node": 10**30}])],
        [
            (whole(incidences=[{"edge": 1.5, "node": 1}]), r"incidences\[0\].edge is text or an integer. Got 1.5"),
            (whole(incidences=[ONE, {"edge": 1, "node": True}]), r"incidences\[1\].node is text or an integer. Got true"),
            (whole(incidences=[{"edge": None, "node": 1}]), r"incidences\[0\].edge .* Got null"),
            (whole(incidences=[{"edge": [1], "node": 1}]), r"incidences\[0\].edge .* Got an array"),
            (whole(incidences=[{"edge": 1, "node": float("inf")}]), r"incidences\[0\].node .* Got inf"),
        ],
    ),
    "the weight of an incidence is a number": (
        [whole(incidences=[ONE | {"weight": 2}, {"edge": 1, "node": 1, "weight": 0.5}])],
        [
            (whole(incidences=[ONE] * 17 + [ONE | {"weight": "2"}]), r"incidences\[17\].weight is a number. Got '2'"),
            (whole(incidences=[ONE | {"weight": True}]), "is a number. Got true"),
            (whole(incidences=[ONE | {"weight": None}]), "is a number. Got null"),
        ],
    ),
    "the direction of an incidence is head or tail": (
        [],  # see test_directed_hypergraphs
        [(whole(incidences=[ONE | {"direction": "heads"}]), r"incidences\[0\].direction is one of 'head', 'tail'. Got 'heads'. Did you mean 'head'")],
    ),
    "attributes of an incidence are an object": (
        [whole(incidences=[ONE | {"attrs": {"role": "first"}}])],
        [(whole(incidences=[ONE | {"attrs": []}]), r"incidences\[0\].attrs is an object. Got an array")],
    ),
    "an incidence has no other keys": (
        [whole()],
        [(whole(incidences=[ONE | {"wieght": 2}]), r"incidences\[0\] is an object of .* alone. Got 'wieght'. Did you mean 'weight'")],
    ),
    "nodes are an array": ([whole(nodes=[])], [(whole(nodes={"node": 1}), "nodes is an array. Got an object")]),
    "a node is an object": ([whole(nodes=[{"node": 1}])], [(whole(nodes=[1]), r"nodes\[0\] is an object. Got 1")]),
    "a node has a name": ([whole(nodes=[{"node": 0}])], [(whole(nodes=[{"weight": 1}]), r"nodes\[0\] is an object with 'node'")]),
    "the name of a node is text or an integer": (
        [whole(nodes=[{"node": "é"}, {"node": 3}, {"node": 3.0}])],
        [(whole(nodes=[{"node": 0.5}]), r"nodes\[0\].node is text or an integer. Got 0.5"), (whole(nodes=[{"node": False}]), "Got false")],
    ),
    "the weight of a node is a number": (
        [whole(nodes=[{"node": 1, "weight": -3.5}])],
        [(whole(nodes=[{"node": 1, "weight": "x"}]), r"nodes\[0\].weight is a number. Got 'x'")],
    ),
    "attributes of a node are an object": (
        [whole(nodes=[{"node": 1, "attrs": {"label": 2}}])],
        [(whole(nodes=[{"node": 1, "attrs": None}]), r"nodes\[0\].attrs is an object. Got null")],
    ),
    "a node has no other keys": ([whole(nodes=[])], [(whole(nodes=[{"node": 1, "label": 2}]), r"nodes\[0\] is an object of .* Got 'label'")]),
    "edges are an array": ([whole(edges=[])], [(whole(edges="x"), "edges is an array. Got 'x'")]),
    "an edge is an object": ([whole(edges=[{"edge": 1}])], [(whole(edges=[{"edge": 1}, "x"]), r"edges\[1\] is an object. Got 'x'")]),
    "an edge has a name": ([whole(edges=[{"edge": 1}])], [(whole(edges=[{"node": 1}]), r"edges\[0\] is an object with 'edge'")]),
    "the name of an edge is text or an integer": (
        [whole(edges=[{"edge": "x"}, {"edge": 5}])],
        [(whole(edges=[{"edge": {}}]), r"edges\[0\].edge is text or an integer. Got an object")],
    ),
    "the weight of an edge is a number": (
        [whole(edges=[{"edge": "x", "weight": 3}])],
        [(whole(edges=[{"edge": "x", "weight": [3]}]), r"edges\[0\].weight is a number. Got an array")],
    ),
    "attributes of an edge are an object": (
        [whole(edges=[{"edge": "x", "attrs": {}}])],
        [(whole(edges=[{"edge": "x", "attrs": 1}]), r"edges\[0\].attrs is an object. Got 1")],
    ),
    "an edge has no other keys": ([whole(edges=[])], [(whole(edges=[{"edge": 1, "nodes": []}]), r"edges\[0\] is an object of .* Got 'nodes'")]),
    "what is repeated is compliant": (
        [whole(incidences=[ONE, ONE], nodes=[{"node": "a"}] * 2, edges=[{"edge": "x"}] * 3)], []
    ),
}  # fmt: skip


@pytest.mark.parametrize("content", [each for kept, _ in RULES.values() for each in kept], ids=str)
def test_a_compliant_content_is_read(content):
    hypergraph = Hypergraph.from_hif(content)
    named = {each["node"] for key in ("nodes", "incidences") for each in content.get(key, [])}
    assert set(hypergraph.names.nodes) == named
    pairs = {(each["edge"], each["node"]) for each in content["incidences"]}
    names = hypergraph.names
    found = [
        (edge, names.nodes[node])
        for edge, nodes in zip(names.hyperedges, lists(hypergraph), strict=False)
        for node in nodes
    ]
    assert len(found) == len(set(found))
    assert set(found) == pairs


@pytest.mark.parametrize(("content", "words"), [each for _, broken in RULES.values() for each in broken])
def test_a_content_against_the_schema_is_refused_with_its_place(content, words, tmp_path):
    if isinstance(content, dict):
        with pytest.raises(ValueError, match=f"^The hypergraph must be HIF of schema 0.1.0, where .*{words}"):
            Hypergraph.from_hif(content)
    if "inf" not in words:  # JSON has none
        (tmp_path / "g.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=rf"^The file .*g\.json must be HIF .*{words}"):
            Hypergraph.from_hif(tmp_path / "g.json")


FULL = {
    "network-type": "undirected",
    "metadata": {"name": "small"},
    "nodes": [
        {"node": "c", "attrs": {"label": "red", "age": 3}},
        {"node": "a", "weight": 2.0},
        {"node": 7, "attrs": {"label": None}},
        {"node": "alone", "attrs": {"label": 4}},
    ],
    "edges": [{"edge": "y", "weight": 3.0}, {"edge": "none"}, {"edge": 1, "weight": 0.5}],
    "incidences": [
        {"edge": 1, "node": "a", "weight": 0.25},
        {"edge": "y", "node": "b"},
        {"edge": "y", "node": "a", "weight": 4},
        {"edge": 1, "node": 7},
        {"edge": "new", "node": "b", "weight": 8},
    ],
}


def test_everything_of_a_file_has_its_place():
    hypergraph = Hypergraph.from_hif(FULL)
    assert hypergraph.names.nodes == ("c", "a", 7, "alone", "b")
    assert hypergraph.names.hyperedges == ("y", 1, "new")
    assert hypergraph.names.empty == ("none",)
    assert hypergraph.names.labels == ("red", None, None, 4, None)
    assert hypergraph.names.node_weights == (1, 2, 1, 1, 1)
    assert lists(hypergraph) == [[1, 4], [1, 2], [4], [0], [3]]
    assert hypergraph.weights.tolist() == [3, 0.5, 1, 1, 1]
    assert hypergraph.incidence_weights.tolist() == [4, 1, 0.25, 1, 8, 1, 1]


def same(one, other):
    assert lists(one) == lists(other)
    for name in ("weights", "incidence_weights", "centres"):
        first, second = getattr(one, name), getattr(other, name)
        assert (first is None and second is None) or torch.equal(first, second)
    for field in ("nodes", "hyperedges", "labels", "node_weights", "empty"):
        assert getattr(one.names, field) == getattr(other.names, field), field


@pytest.mark.parametrize("cover", [True, False])
def test_a_file_comes_back(tmp_path, cover):
    first = Hypergraph.from_hif(FULL, cover_isolated=cover)
    content = first.to_hif(tmp_path / "deep" / "g.json")
    again = Hypergraph.from_hif(tmp_path / "deep" / "g.json", cover_isolated=cover)
    same(first, again)
    assert json.loads((tmp_path / "deep" / "g.json").read_text()) == content == again.to_hif()
    assert content["network-type"] == "undirected"


names = st.one_of(st.integers(-5, 5), st.text(max_size=2))
weights = st.floats(1e-15, 1e15)
contents = st.fixed_dictionaries(
    {"incidences": st.lists(st.fixed_dictionaries({"edge": names, "node": names}, optional={"weight": weights}), min_size=1)},
    optional={
        "nodes": st.lists(st.fixed_dictionaries({"node": names}, optional={"weight": st.floats(-5, 5), "attrs": st.fixed_dictionaries({"label": st.text()})})),
        "edges": st.lists(st.fixed_dictionaries({"edge": names}, optional={"weight": weights})),
    },
)  # fmt: skip


@given(content=contents, cover=st.booleans())
def test_every_content_comes_back_and_says_last_what_counts(content, cover):
    first = Hypergraph.from_hif(content, cover_isolated=cover)
    same(first, Hypergraph.from_hif(first.to_hif(), cover_isolated=cover))
    said = {}
    for each in content["incidences"]:
        pair = each["edge"], each["node"]
        said[pair] = each.get("weight", said.get(pair, 1.0))
    found = {(each["edge"], each["node"]): each.get("weight", 1.0) for each in first.to_hif()["incidences"]}
    assert found == said


def test_a_hypergraph_without_names_is_written_by_numbers():
    features = np.random.default_rng(0).normal(size=(12, 2))
    built = Hypergraph.from_features(features, 3, weights=np.linspace(1, 2, 12))
    content = built.to_hif()
    assert content["nodes"][11] == {"node": 11}
    assert content["edges"][3]["attrs"] == {"centre": 3}
    again = Hypergraph.from_hif(content)
    assert lists(again) == lists(built)
    assert torch.equal(again.centres, built.centres)
    assert torch.equal(again.weights, built.weights)
    assert again.incidence_weights is None


def test_centres_of_others_are_no_centres():
    pairs = [ONE, {"edge": "y", "node": "b"}]
    for centre in ("b", [1], None):
        content = {
            "incidences": pairs,
            "edges": [{"edge": "x", "attrs": {"centre": centre}}, {"edge": "y", "attrs": {"centre": "b"}}],
        }
        assert Hypergraph.from_hif(content).centres is None


def test_nodes_may_be_put_in_an_order():
    order = ["z", 7, "b", "a", "alone", "c"]
    hypergraph = Hypergraph.from_hif(FULL, nodes=order)
    assert hypergraph.names.nodes == tuple(order)
    assert lists(hypergraph) == [[2, 3], [1, 3], [2], [0], [4], [5]]
    assert hypergraph.incidence_weights.tolist() == [1, 4, 1, 0.25, 8, 1, 1, 1]
    assert hypergraph.names.labels == (None, None, None, None, 4, "red")
    assert hypergraph.names.node_weights == (1, 1, 1, 2, 1, 1)
    with pytest.raises(
        ValueError,
        match="'nodes' parameter of Hypergraph.from_hif must be the names of all nodes. Got no 'c'.*3 such",
    ):
        Hypergraph.from_hif(FULL, nodes=["a", "b"])


def test_directed_hypergraphs_are_refused_unless_heads_and_tails_count_alike():
    pairs = [ONE | {"direction": "head"}, {"edge": "x", "node": "b", "direction": "tail"}]
    with pytest.raises(
        ValueError, match=r"must be undirected. Got incidences\[0\].direction. .* undirect=True"
    ):
        Hypergraph.from_hif({"incidences": pairs})
    content = {"network-type": "directed", "incidences": pairs}
    with pytest.raises(ValueError, match="must be undirected. Got network-type 'directed'"):
        Hypergraph.from_hif(content)
    hypergraph = Hypergraph.from_hif(content, undirect=True)
    assert lists(hypergraph) == [[0, 1]]
    assert hypergraph.to_hif()["network-type"] == "undirected"
    with pytest.raises(ValueError, match="direction is one of"):
        Hypergraph.from_hif(whole(incidences=[ONE | {"direction": "left"}]), undirect=True)


@pytest.mark.parametrize("weight", [0, -1, 1e16, 1e-16, 10**400])
@pytest.mark.parametrize("key", ["incidences", "edges"])
def test_weights_that_no_hypergraph_has_are_refused_with_their_place(weight, key):
    content = whole()
    content[key] = [(ONE if key == "incidences" else {"edge": "x"}) | {"weight": weight}]
    words = (
        "between 1e-15 and 1e.15, as all weights of a Hypergraph"
        if weight < 10**300
        else "a number in the range"
    )
    with pytest.raises(ValueError, match=rf"{key}\[0\].weight is {words}"):
        Hypergraph.from_hif(content)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must have content"),
        ('{"incidences": [{"edge": 1, "no', "must be JSON. Got an error in line 1"),
        ("edge,node\n1,2\n", "must be JSON"),
        ('{"incidences": [{"edge": 1, "node": 2, "weight": NaN}]}', "Got NaN, which is no number of JSON"),
        ('{"incidences": [], "incidences": []}', "'incidences' twice"),
        ('{"incidences": ' + "[" * 50_000, "too deep"),
        ('{"incidences": [{"edge": 1, "node": 1' + "0" * 5000 + "}]}", r"incidences\[0\].node is text or an integer. Got inf"),
        ('{"incidences": []}', "must name a node. Got none"),
        ('{"incidences": [{"edge": "' + "x" * 5000 + '", "node": [] }]}', r"incidences\[0\].node is text"),
        ('{"incidences": [{"edge": 1, "node": 2, "' + "x" * 5000 + '": []}]}', r"incidences\[0\] is an object of"),
        ('"' + "x" * 5000 + '"', "the whole is an object"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_a_sentence(write, text, words):
    with pytest.raises(ValueError, match=words) as caught:
        Hypergraph.from_hif(write(text, "g.hif.json"))
    assert "g.hif.json" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_what_is_neither_file_nor_content_is_refused(tmp_path):
    with pytest.raises(
        TypeError, match="'source' parameter of Hypergraph.from_hif must be the path .* Got list"
    ):
        Hypergraph.from_hif([])
    with pytest.raises(FileNotFoundError, match="There is no file"):
        Hypergraph.from_hif(tmp_path / "none.json")
    with pytest.raises(TypeError, match="'undirect'.* True or False"):
        Hypergraph.from_hif(FULL, undirect="yes")


def test_names_that_the_format_cannot_hold_are_refused(tmp_path):
    names = Names([("a", 1), "b"], ["x"])
    hypergraph = Hypergraph.from_incidence([0, 1], [0, 0], n_nodes=2, n_hyperedges=1, names=names)
    with pytest.raises(
        TypeError, match=r"Names must be text or integers to be written as HIF. Got \('a', 1\)"
    ):
        hypergraph.to_hif(tmp_path / "g.json")
    assert not (tmp_path / "g.json").exists()


def test_numbers_of_numpy_are_written_as_json_has_them():
    names = Names(np.arange(2), np.array(["x"]))
    pairs = Hypergraph.from_incidence([0, 1], [0, 0], n_nodes=2, n_hyperedges=1, names=names).to_pairs()
    assert json.loads(json.dumps(write_hif(pairs)))["incidences"] == [
        {"edge": "x", "node": 0},
        {"edge": "x", "node": 1},
    ]
    assert read_hif(write_hif(pairs)).names.nodes == (0, 1)
