"""The nodes that make densities: all that share a hyperedge, or some that are drawn of very many."""

import pytest
import torch
from oracles import HYPERGRAPHS, lists_of, neighbours

from dahgnn import Hypergraph
from dahgnn.files.scratch import Scratch
from dahgnn.graph import density_neighbours
from dahgnn.graph.density_neighbours import FewNeighbours, Neighbourhoods


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


@pytest.mark.parametrize("name", HYPERGRAPHS)
@pytest.mark.parametrize("kind", ["centre", "shared"])
@pytest.mark.parametrize("most", [1, 2, 1000])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_who_has_more_neighbours_has_as_many_as_may_be(monkeypatch, name, kind, most, block):
    monkeypatch.setattr(density_neighbours, "BLOCK", block)
    hypergraph = HYPERGRAPHS[name]()
    few, near = FewNeighbours(Neighbourhoods(hypergraph, kind), most), neighbours(hypergraph, kind)
    nodes = torch.arange(hypergraph.n_nodes).flip(0)
    found, shares = few.of(nodes)
    lists = lists_of(found, torch.arange(hypergraph.n_nodes))
    shares = torch.ones(len(nodes)) if shares is None else shares
    for node, some, share in zip(nodes.tolist(), lists, shares.tolist(), strict=True):
        assert set(some) <= set(near[node])
        assert len(set(some)) == len(some) == min(len(near[node]), most)
        assert share == pytest.approx(len(some) / len(near[node]) if near[node] else 1)
    only, none = few.of(nodes[:0])
    assert (len(only), len(only.indices), none) == (0, 0, None)


def test_neighbours_that_come_again_in_many_hyperedges_are_all_there():
    # Nobody has more than three neighbours, but each node shares 80 hyperedges with them.
    hypergraph = Hypergraph.from_hyperedges([[0, 1, 2, 3]] * 80, n_nodes=4)
    found, shares = FewNeighbours(Neighbourhoods(hypergraph, "shared"), 16).of(torch.arange(4))
    assert shares.tolist() == [1, 1, 1, 1]
    assert lists_of(found, torch.arange(4)) == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]


def test_a_node_that_is_alone_in_all_its_hyperedges_has_no_neighbours():
    hypergraph = Hypergraph.from_hyperedges([[0]] * 20 + [[1, 2]], n_nodes=3)
    found, shares = FewNeighbours(Neighbourhoods(hypergraph, "shared"), 16).of(torch.tensor([1, 0]))
    assert (found.offsets.tolist(), found.indices.tolist()) == ([0, 1, 1], [2])
    assert shares.tolist() == [1, 1]


def test_sums_by_share_are_right_in_the_mean():
    """Each of 4,000 nodes sums numbers of the same 40 others, of which it has 10 that are drawn for it."""
    others = list(range(4_000, 4_040))
    hypergraph = Hypergraph.from_hyperedges([[i, *others] for i in range(4_000)], n_nodes=4_040)
    few = FewNeighbours(Neighbourhoods(hypergraph, "shared"), 10)
    found, shares = few.of(torch.arange(4_000))
    values = torch.arange(4_040).double()
    sums = torch.zeros(4_000).double().index_add(0, found.owners(), values[found.indices]) / shares
    # Five deviations of the mean, if the 10 of 40 numbers in a row were independent: times 40, over two roots.
    torch.testing.assert_close(sums.mean(), values[others].sum(), rtol=0, atol=5 * 40 * 11.5 / 10**0.5 / 63)
    assert sums.std() > 30  # draws differ


def test_those_that_are_taken_may_be_in_files(tmp_path):
    hypergraph = HYPERGRAPHS["ragged"]()
    near, nodes = Neighbourhoods(hypergraph, "shared"), torch.arange(hypergraph.n_nodes)
    with Scratch(tmp_path, large=1) as scratch:
        in_file, _ = FewNeighbours(near, 2, scratch).of(nodes)
    in_memory, _ = FewNeighbours(near, 2).of(nodes)
    assert torch.equal(in_file.indices, in_memory.indices)
