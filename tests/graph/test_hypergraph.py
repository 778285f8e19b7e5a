import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dahgnn import Hypergraph
from dahgnn.graph import neighbourhoods
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.names import Names
from dahgnn.graph.neighbours import ExactSearch, knn

SMALL = [[0, 1, 5], [1, 2], [3]]


def lists(hypergraph: Hypergraph) -> list[list[int]]:
    return [hypergraph.members(j).tolist() for j in range(hypergraph.n_hyperedges)]


def neighbours(hypergraph: Hypergraph, kind: str) -> list[list[int]]:
    forward, _ = hypergraph.neighbourhood(kind)
    parts = forward.indices.split(forward.offsets.diff().tolist())
    return [part.tolist() for part in parts]


hyperedge_lists = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.sets(st.integers(0, n - 1), min_size=1).map(sorted), min_size=1, max_size=6)
    )
)


@given(case=hyperedge_lists, cover=st.booleans(), seed=st.integers(0, 99))
def test_both_orders_hold_the_same_incidences(case, cover, seed):
    n, hyperedges = case
    node = [i for each in hyperedges for i in each]
    number = [j for j, each in enumerate(hyperedges) for _ in each]
    shuffle = torch.randperm(len(node), generator=torch.Generator().manual_seed(seed))
    # Every pair comes twice and in any order: it counts once.
    pairs = torch.tensor([node, number])[:, torch.cat([shuffle, shuffle])]
    hypergraph = Hypergraph.from_incidence(
        *pairs, n_nodes=n, n_hyperedges=len(hyperedges), cover_isolated=cover
    )
    alone = [[i] for i in range(n) if i not in node] if cover else []
    assert lists(hypergraph) == hyperedges + alone
    for i in range(n):
        expected = [j for j, each in enumerate(hyperedges + alone) if i in each]
        assert hypergraph.hyperedges_of(i).tolist() == expected
    assert hypergraph.n_incidences == sum(map(len, hyperedges + alone))
    for incidence in (hypergraph.to_hyperedges, hypergraph.to_nodes):
        # The position of a backward incidence names the same pair in forward order.
        assert torch.equal(incidence.forward.indices[incidence.positions], incidence.backward.owners())
        assert torch.equal(incidence.owners[incidence.positions], incidence.backward.indices)


def test_from_features_joins_each_node_with_its_nearest():
    features = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    hypergraph = Hypergraph.from_features(features, k=4)
    nearest = knn(features, 4).indices
    assert lists(hypergraph) == [sorted([i, *row]) for i, row in enumerate(nearest.tolist())]
    assert hypergraph.centres.tolist() == list(range(40))
    assert (hypergraph.hyperedge_degrees == 5).all()


def test_the_centre_is_a_member_also_among_duplicates():
    hypergraph = Hypergraph.from_features(torch.zeros(30, 2), k=3)
    assert all(i in hypergraph.members(i) for i in range(30))
    assert (hypergraph.hyperedge_degrees == 4).all()


def test_known_neighbours_may_list_the_node_itself():
    rows = np.array([[1, 2], [0, 2], [0, 1]])
    with_itself = np.array([[0, 1, 2], [1, 0, 2], [2, 0, 1]])
    assert lists(Hypergraph.from_neighbors(rows)) == lists(Hypergraph.from_neighbors(with_itself))


def test_neighbors_of_knn_are_accepted():
    features = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    assert lists(Hypergraph.from_neighbors(knn(features, 3))) == lists(Hypergraph.from_features(features, 3))


def test_isolated_nodes_get_a_hyperedge_of_their_own():
    hypergraph = Hypergraph.from_hyperedges(SMALL, n_nodes=7, weights=[2.0, 3.0, 4.0], centres=[5, 1, 3])
    assert lists(hypergraph) == [*SMALL, [4], [6]]
    assert hypergraph.weights.tolist() == [2, 3, 4, 1, 1]
    assert hypergraph.centres.tolist() == [5, 1, 3, 4, 6]
    assert hypergraph.node_degrees.tolist() == [2, 5, 3, 4, 1, 2, 1]


def test_weights_of_incidences_stand_as_the_members_do():
    hypergraph = Hypergraph.from_hyperedges(
        [[5, 0, 1], [2, 1]], n_nodes=7, weights=[2, 3], incidence_weights=[[0.5, 1, 4], (2, 0.25)]
    )
    assert lists(hypergraph) == [[0, 1, 5], [1, 2], [3], [4], [6]]
    assert hypergraph.incidence_weights.tolist() == [1, 4, 0.5, 0.25, 2, 1, 1, 1]
    assert hypergraph.weights_to_nodes.tolist() == [1, 4, 0.25, 2, 1, 1, 0.5, 1]
    assert hypergraph.node_degrees.tolist() == [2, 8 + 0.75, 6, 1, 1, 1, 1]
    assert hypergraph.hyperedge_degrees.tolist() == [5.5, 2.25, 1, 1, 1]
    assert hypergraph.to("meta").incidence_weights.device.type == "meta"


def test_of_a_pair_that_comes_twice_the_last_weight_counts():
    hypergraph = Hypergraph.from_incidence(
        [1, 0, 1, 0], [0, 0, 0, 1], n_nodes=2, n_hyperedges=2, incidence_weights=[7, 2, 3, 4]
    )
    assert lists(hypergraph) == [[0, 1], [0]]
    assert hypergraph.incidence_weights.tolist() == [2, 3, 4]
    assert hypergraph.node_degrees.tolist() == [6, 3]  # without weights of hyperedges


def test_weights_do_not_change_who_is_near_whom():
    weighted = Hypergraph.from_hyperedges([[0, 1, 2]], n_nodes=3, incidence_weights=[[1e9, 1e9, 1e9]])
    assert neighbours(weighted, "shared") == [[1, 2], [0, 2], [0, 1]]


def test_names_stay_beside_the_numbers():
    names = Names(["a", "b", "c"], ["x"])
    hypergraph = Hypergraph.from_incidence([0, 2], [0, 0], n_nodes=3, n_hyperedges=1, names=names)
    assert lists(hypergraph) == [[0, 2], [1]]  # that of node 1 alone has no name
    assert hypergraph.names is hypergraph.to("meta").names is names


def test_pairs_are_the_hypergraph_as_arrays():
    built = Hypergraph.from_hyperedges(
        SMALL, n_nodes=7, weights=[1, 2, 3], centres=[5, 1, 3], incidence_weights=[[1, 2, 3], [4, 5], [6]]
    )
    again = Hypergraph.from_incidence(**built.to_pairs().arguments())
    assert lists(again) == lists(built) == [*SMALL, [4], [6]]
    for name in ("weights", "centres", "incidence_weights"):
        assert torch.equal(getattr(again, name), getattr(built, name))


def test_isolated_nodes_may_stay_alone():
    hypergraph = Hypergraph.from_hyperedges(SMALL, n_nodes=7, cover_isolated=False)
    assert lists(hypergraph) == SMALL
    assert hypergraph.node_degrees.tolist() == [1, 2, 1, 1, 0, 1, 0]


def test_hyperedges_may_be_sets_or_arrays():
    assert (
        lists(Hypergraph.from_hyperedges([{5, 1, 0}, np.array([2, 1], np.uint32)], n_nodes=3 + 3))[:2]
        == SMALL[:2]
    )


def test_the_input_may_change_afterwards():
    weights, centres = np.ones(3), np.array([0, 1, 3])
    hypergraph = Hypergraph.from_hyperedges(
        SMALL, n_nodes=6, weights=weights, centres=centres, cover_isolated=False
    )
    weights[:], centres[:] = 7, 5
    assert hypergraph.weights.tolist() == [1, 1, 1]
    assert hypergraph.centres.tolist() == [0, 1, 3]


def test_no_hyperedges_at_all():
    assert lists(Hypergraph.from_hyperedges([], n_nodes=2)) == [[0], [1]]
    with pytest.raises(ValueError, match="needs a hyperedge. Got none"):
        Hypergraph.from_hyperedges([], n_nodes=2, cover_isolated=False)


@given(case=hyperedge_lists)
def test_shared_neighbours_are_counted_once(case):
    n, hyperedges = case
    hypergraph = Hypergraph.from_hyperedges(hyperedges, n_nodes=n)
    expected = [sorted({j for each in hyperedges if i in each for j in each} - {i}) for i in range(n)]
    assert neighbours(hypergraph, "shared") == expected
    assert neighbours(hypergraph, "centre") == expected  # there are no centres


def test_centred_neighbours_are_those_of_the_centre():
    hypergraph = Hypergraph.from_hyperedges([[0, 1, 2], [0, 2, 3], [1, 3]], n_nodes=4, centres=[0, 0, 3])
    assert neighbours(hypergraph, "centre") == [[1, 2, 3], [], [], [1]]
    _, backward = hypergraph.neighbourhood("centre")
    assert [part.tolist() for part in backward.indices.split(backward.offsets.diff().tolist())] == [
        [],
        [0, 3],
        [0],
        [0],
    ]


def test_too_many_shared_pairs_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(neighbourhoods, "_MOST_PAIRS", 10)
    with pytest.raises(ValueError, match="at most 10. Got up to 12. Give the hyperedges centres"):
        Hypergraph.from_hyperedges([[0, 1, 2, 3]], n_nodes=4).neighbourhood("shared")


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Hypergraph.from_hyperedges(SMALL, n_nodes=6).weights = torch.ones(3)


def test_to_another_device_and_back():
    hypergraph = Hypergraph.from_hyperedges(SMALL, n_nodes=6, weights=[1, 2, 3], centres=[0, 1, 3])
    assert hypergraph.to("cpu") is hypergraph
    moved = hypergraph.to("meta")
    assert moved.device.type == moved.weights.device.type == moved.centres.device.type == "meta"
    assert repr(moved) == repr(hypergraph)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: Hypergraph.from_features([1.0, 2.0], 1), ValueError, "two-dimensional"),
        (lambda: Hypergraph.from_features([[1.0], [float("nan")]], 1), ValueError, "from_features must be finite"),
        (lambda: Hypergraph.from_features([[1.0], [2.0]], 2), ValueError, "'k' parameter of Hypergraph.from_features must be between 1 and n_nodes - 1 = 1. Got 2"),
        (lambda: Hypergraph.from_features(np.empty((0, 3))), ValueError, "non-empty"),
        (lambda: Hypergraph.from_neighbors([[1], [2]]), ValueError, "n_nodes - 1 = 1. Got 2"),
        (lambda: Hypergraph.from_neighbors([[1], [-1]]), ValueError, "Got -1"),
        (lambda: Hypergraph.from_neighbors([1, 0]), ValueError, r"\(n, k\). Got shape \(2,\)"),
        (lambda: Hypergraph.from_neighbors([[1.0], [0.0]]), TypeError, "integers"),
        (lambda: Hypergraph.from_hyperedges([[0, 1], []], n_nodes=2), ValueError, "none for hyperedge 1"),
        (lambda: Hypergraph.from_hyperedges([[0, 2]], n_nodes=2), ValueError, r"'hyperedges\[0\]'.* - 1 = 1. Got 2"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=0), ValueError, "'n_nodes'.*at least 1"),
        (lambda: Hypergraph.from_hyperedges([[0.5]], n_nodes=2), TypeError, "integers"),
        (lambda: Hypergraph.from_incidence([0, 1], [0], n_nodes=2, n_hyperedges=1), ValueError, "as long as 'node', 2"),
        (lambda: Hypergraph.from_incidence([0], [3], n_nodes=1, n_hyperedges=2), ValueError, "n_hyperedges - 1 = 1"),
        (lambda: Hypergraph.from_incidence([0], [0], n_nodes=1, n_hyperedges=2), ValueError, "none for hyperedge 1"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=1, weights=[0.0]), ValueError, "between 1e-15 and 1e.15. Got 0.0 for hyperedge 0"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=1, weights=[np.inf]), ValueError, "Got inf for hyperedge 0"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=1, weights=[1.0, 2.0]), ValueError, "n_hyperedges = 1"),
        (lambda: Hypergraph.from_hyperedges([[0, 1]], n_nodes=2, incidence_weights=[[1]]), ValueError, "as long as that of its nodes"),
        (lambda: Hypergraph.from_hyperedges([[0, 1]], n_nodes=2, incidence_weights=[[1, 0]]), ValueError, "'incidence_weights'.* Got 0.0 for pair 1"),
        (lambda: Hypergraph.from_incidence([0], [0], n_nodes=1, n_hyperedges=1, incidence_weights=[1, 2]), ValueError, "of length 'node' = 1"),
        (lambda: Hypergraph.from_incidence([0], [0], n_nodes=1, n_hyperedges=1, names=["a"]), TypeError, "'names'.* a Names. Got list"),
        (lambda: Hypergraph.from_incidence([0], [0], n_nodes=1, n_hyperedges=1, names=Names("ab", "c")), ValueError, "of 1 nodes. Got 2"),
        (lambda: Hypergraph.from_incidence([0], [0], n_nodes=1, n_hyperedges=1, names=Names("a", "")), ValueError, "of 1 hyperedges. Got 0"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=2, centres=[1]), ValueError, "node 1, which is not in hyper"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=2, centres=[0, 1]), ValueError, "n_hyperedges = 1"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=2, cover_isolated="no"), TypeError, "True or False"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=1).members(1), ValueError, "between 0 and 0. Got 1"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=1).hyperedges_of(-1), ValueError, "at least 0"),
        (lambda: Hypergraph.from_hyperedges([[0]], n_nodes=1).neighbourhood("center"), ValueError, "mean 'centre'"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_neighbours_can_be_chosen_by_local_scale():
    features = (
        torch.randn(40, 3, generator=torch.Generator().manual_seed(4)) * torch.linspace(0.2, 4, 40)[:, None]
    )
    expected = Hypergraph.from_neighbors(LocalScale(ExactSearch(features)).among(4))
    assert lists(Hypergraph.from_features(features, 4, metric="local-scale")) == lists(expected)
    assert lists(expected) != lists(Hypergraph.from_features(features, 4))
    with pytest.raises(ValueError, match="Did you mean 'local-scale'"):
        Hypergraph.from_features(features, 4, metric="local")
