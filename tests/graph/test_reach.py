"""What nodes hear from: all of it by loops, or a sample that no company changes."""

import itertools

import pytest
import torch
from oracles import HYPERGRAPHS, members, neighbours, normal

from dahgnn import Hypergraph
from dahgnn.graph.reach import Neighbourhoods, Numbers, Sampler, both_orders, draw_places
from dahgnn.kernels.incidence import Segments

ALL = (None, None)


def lists_of(segments, names):
    """The lists of segments, with the numbers that things have in the whole."""
    bounds = segments.offsets.tolist()
    return [sorted(names[segments.indices[a:b]].tolist()) for a, b in itertools.pairwise(bounds)]


@pytest.mark.parametrize("name", HYPERGRAPHS)
@pytest.mark.parametrize("kind", ["centre", "shared"])
def test_without_limits_everything_around_the_targets_is_there(name, kind):
    hypergraph = HYPERGRAPHS[name]()
    targets = torch.tensor([hypergraph.n_nodes - 1, 0])
    nodes_of, near = members(hypergraph), neighbours(hypergraph, kind)
    below, above = Sampler(hypergraph, kind, 3).around(targets, (ALL, ALL), 7)
    receivers = targets.tolist()
    for reach in (above, below):
        assert reach.nodes[reach.receivers].tolist() == receivers
        hyperedges_of = [[k for k, group in enumerate(nodes_of) if i in group] for i in receivers]
        assert lists_of(reach.to_nodes.forward, reach.hyperedges) == hyperedges_of
        sending = [sorted(nodes_of[k]) for k in reach.hyperedges.tolist()]
        assert lists_of(reach.to_hyperedges.forward, reach.nodes) == sending
        senders = reach.nodes[: reach.senders].tolist()
        assert set(senders) == {i for group in sending for i in group}
        assert lists_of(reach.neighbours, reach.nodes) == [sorted(near[i]) for i in senders]
        assert len(set(reach.nodes.tolist())) == len(reach.nodes)
        assert reach.shares is None
        receivers = reach.nodes.tolist()
    assert below.hyperedges[: len(above.hyperedges)].tolist() == above.hyperedges.tolist()


def taken(sampler, targets, fan_out, step):
    """What each receiver and each hyperedge of both layers takes."""
    found = {}
    for layer, reach in enumerate(sampler.around(torch.tensor(targets), fan_out, step)):
        receivers = reach.nodes[reach.receivers].tolist()
        for node, group in zip(receivers, lists_of(reach.to_nodes.forward, reach.hyperedges), strict=True):
            found[layer, "node", node] = group
        lists = lists_of(reach.to_hyperedges.forward, reach.nodes)
        for k, group in zip(reach.hyperedges.tolist(), lists, strict=True):
            found[layer, "hyperedge", k] = group
    return found


def test_a_sample_does_not_depend_on_the_company():
    hypergraph = Hypergraph.from_features(normal(200, 3), k=9)
    fan_out, sampler = ((3, 5), (2, 4)), Sampler(hypergraph, "centre", 11)
    whole = taken(sampler, [3, 50, 120, 199], fan_out, step=4)
    for part in ([3, 120], [199, 50]):
        some = taken(Sampler(hypergraph, "centre", 11), part, fan_out, step=4)
        assert some == {key: whole[key] for key in some}
    assert whole != taken(sampler, [3, 50, 120, 199], fan_out, step=5)
    assert whole != taken(Sampler(hypergraph, "centre", 12), [3, 50, 120, 199], fan_out, step=4)


def test_no_more_are_taken_than_may_be_and_shares_say_how_many():
    hypergraph = Hypergraph.from_features(normal(200, 3), k=9)
    reach = Sampler(hypergraph, None, 0).around(torch.arange(40), ((2, 4),), 0)[0]
    degrees = hypergraph.node_degrees[:40]
    assert torch.equal(reach.to_nodes.forward.offsets.diff(), degrees.clamp_max(2))
    assert (reach.to_hyperedges.forward.offsets.diff() == 4).all()
    torch.testing.assert_close(reach.shares, torch.full_like(reach.shares, 0.4))
    assert reach.neighbours is None


def test_places_are_different_and_have_the_same_chance():
    numbers, counts = torch.arange(20_000), torch.full((20_000,), 11)
    places = draw_places(numbers, counts, 4, 3, 1 << 16, 9)
    assert (places.diff() > 0).all()
    shares = places.flatten().bincount(minlength=11) / len(numbers)
    # Five deviations of a share of 4/11 among 20,000.
    torch.testing.assert_close(shares, torch.full((11,), 4 / 11), atol=0.017, rtol=0)
    assert len({tuple(each) for each in places.tolist()}) > 100


def test_a_node_in_a_million_hyperedges_takes_no_more_than_others():
    count = 1_000_000
    nodes = torch.stack([torch.zeros(count, dtype=torch.int64), torch.arange(1, count + 1)], 1).flatten()
    hypergraph = Hypergraph.from_incidence(
        nodes, torch.arange(count).repeat_interleave(2), n_nodes=count + 1, n_hyperedges=count
    )
    below, above = Sampler(hypergraph, None, 0).around(torch.tensor([0]), ((3, None), (4, None)), 0)
    assert len(above.hyperedges) == 4
    assert len(below.hyperedges) <= 4 + 3 + 4


def test_targets_in_no_hyperedge_hear_nothing():
    hypergraph = Hypergraph.from_hyperedges([[0, 1]], n_nodes=3, cover_isolated=False)
    below, above = Sampler(hypergraph, "shared", 0).around(torch.tensor([2]), (ALL, ALL), 0)
    assert len(above.hyperedges) == len(below.hyperedges) == 0
    assert (above.nodes.tolist(), above.senders) == ([2], 0)


@pytest.mark.parametrize("name", ["uniform", "centred", "ragged", "isolated"])
@pytest.mark.parametrize("kind", ["centre", "shared"])
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_blocks_have_all_nodes_and_their_neighbours(name, kind, most):
    hypergraph = HYPERGRAPHS[name]()
    found = Neighbourhoods(hypergraph, kind)
    blocks = list(found.blocks(most))
    assert torch.cat(blocks).tolist() == list(range(hypergraph.n_nodes))
    everything = torch.arange(hypergraph.n_nodes)
    near = [each for nodes in blocks for each in lists_of(found.of(nodes), everything)]
    assert near == [sorted(each) for each in neighbours(hypergraph, kind)]


def test_both_orders_are_those_of_the_hypergraph():
    hypergraph = HYPERGRAPHS["ragged"]()
    incidence = both_orders(hypergraph.by_hyperedge, hypergraph.n_nodes)
    assert torch.equal(incidence.backward.offsets, hypergraph.by_node.offsets)
    assert torch.equal(incidence.backward.indices, hypergraph.by_node.indices)
    assert torch.equal(incidence.positions, hypergraph.positions)
    assert torch.equal(incidence.owners, hypergraph.by_hyperedge.owners())


def test_numbers_are_given_in_order_and_forgotten():
    numbers = Numbers(10)
    for _ in range(2):
        with numbers:
            numbers.add(torch.tensor([7, 7, 2]))
            numbers.add(torch.tensor([2, 9, 7, 0]))
            assert numbers.all().tolist() == [7, 2, 9, 0]
            assert numbers.of(torch.tensor([0, 7])).tolist() == [3, 0]
        assert numbers.count == 0


def test_a_reach_moves_whole():
    hypergraph = HYPERGRAPHS["uniform"]()
    (reach,) = Sampler(hypergraph, "centre", 0).around(torch.tensor([1]), ((None, 2),), 0)
    reach.measure()
    there = reach.map(lambda tensor: tensor.to("meta"))
    assert there.nodes.is_meta
    assert there.to_nodes.backward.indices.is_meta
    assert isinstance(there.neighbours, Segments)
    assert (
        there.to_nodes.forward.longest == reach.to_nodes.forward.longest
    )  # known without a look at what has no values
