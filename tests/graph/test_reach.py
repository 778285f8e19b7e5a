"""What nodes hear from: all of it by loops, or a sample that no company changes."""

import pytest
import torch
from oracles import HYPERGRAPHS, lists_of, members, neighbours, normal

from dahgnn import Hypergraph
from dahgnn.graph.density_neighbours import FewNeighbours, Neighbourhoods
from dahgnn.graph.reach import Numbers, Sampler, both_orders
from dahgnn.kernels.incidence import Segments

ALL = (None, None)


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


@pytest.mark.parametrize("kind", [None, "centre", "shared"])
def test_a_node_in_a_million_hyperedges_takes_no_more_than_others(kind):
    count = 1_000_000
    nodes = torch.stack([torch.zeros(count, dtype=torch.int64), torch.arange(1, count + 1)], 1).flatten()
    hypergraph = Hypergraph.from_incidence(
        nodes, torch.arange(count).repeat_interleave(2), n_nodes=count + 1, n_hyperedges=count
    )
    few = None if kind is None else FewNeighbours(Neighbourhoods(hypergraph, kind), 16)
    sampler = Sampler(hypergraph, kind, 0, few)
    for target in (0, 77):  # the node itself, and one that merely shares a hyperedge with it
        below, above = sampler.around(torch.tensor([target]), ((3, None), (4, None)), 0)
        assert len(above.hyperedges) <= 4
        # The second layer hears from 5 nodes and their neighbours, and each of these takes 3 hyperedges.
        assert len(above.nodes) <= 5 + (0 if kind is None else 16 + 4)
        assert len(below.hyperedges) <= len(above.hyperedges) + 3 * len(above.nodes)
        assert len(below.nodes) <= 2 * len(below.hyperedges) + len(above.nodes) + 16


def test_all_densities_are_of_the_same_neighbours_in_any_company():
    hypergraph = HYPERGRAPHS["ragged"]()
    few = FewNeighbours(Neighbourhoods(hypergraph, "shared"), 2)
    found = {}
    for seed, step, targets in ((0, 0, [0, 3, 5]), (0, 9, [3]), (4, 1, list(range(hypergraph.n_nodes)))):
        for reach in Sampler(hypergraph, "shared", seed, few).around(torch.tensor(targets), (ALL, ALL), step):
            shares = torch.ones(reach.senders) if reach.neighbour_shares is None else reach.neighbour_shares
            named = zip(lists_of(reach.neighbours, reach.nodes), shares.tolist(), strict=True)
            for node, density in zip(reach.nodes[: reach.senders].tolist(), named, strict=True):
                assert found.setdefault(node, density) == density
    assert any(share < 1 for _, share in found.values())


def test_targets_in_no_hyperedge_hear_nothing():
    hypergraph = Hypergraph.from_hyperedges([[0, 1]], n_nodes=3, cover_isolated=False)
    below, above = Sampler(hypergraph, "shared", 0).around(torch.tensor([2]), (ALL, ALL), 0)
    assert len(above.hyperedges) == len(below.hyperedges) == 0
    assert (above.nodes.tolist(), above.senders) == ([2], 0)


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
    few = FewNeighbours(Neighbourhoods(hypergraph, "centre"), 1)
    (reach,) = Sampler(hypergraph, "centre", 0, few).around(torch.tensor([1]), ((None, 2),), 0)
    reach.measure()
    there = reach.map(lambda tensor: tensor.to("meta"))
    assert there.nodes.is_meta
    assert there.to_nodes.backward.indices.is_meta
    assert there.neighbour_shares.is_meta
    assert isinstance(there.neighbours, Segments)
    assert (
        there.to_nodes.forward.longest == reach.to_nodes.forward.longest
    )  # known without a look at what has no values
