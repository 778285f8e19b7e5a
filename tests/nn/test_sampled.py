"""Messages on a part of a hypergraph: the paper's by loops, and those of all where the part is everything."""

import pytest
import torch
from message_cases import attention
from oracles import (
    HYPERGRAPHS,
    assert_close,
    cosine,
    elu,
    leaky_relu,
    lists_of,
    node_density,
    normal,
    softmax_sum,
)

from dahgnn import Hypergraph
from dahgnn.graph.density_neighbours import FewNeighbours, Neighbourhoods
from dahgnn.graph.reach import Sampler
from dahgnn.kernels.protocol import Vectors
from dahgnn.nn.messages import pass_messages
from dahgnn.nn.sampled import no_extremes, pass_sampled_messages
from dahgnn.ops.backend import using


def own(_, seen):
    return seen


def leaves_of(hypergraph, heads=2, units=3):
    vectors = [normal(heads, units, seed=seed) for seed in (2, 3, 4)]
    leaves = [normal(hypergraph.n_nodes, heads, units), normal(hypergraph.n_hyperedges, heads, seed=1)]
    return [each.requires_grad_() for each in (*leaves, *vectors)]


def sampled(leaves, reach, config, extremes=own):
    wx, e_term, *vectors = leaves
    return pass_sampled_messages(
        wx[reach.nodes], e_term[reach.hyperedges], Vectors(*vectors), reach, config, extremes
    )


@pytest.mark.parametrize("name", HYPERGRAPHS)
@pytest.mark.parametrize("delta", [0.1, None])
@pytest.mark.parametrize("activation", [True, False])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_part_that_is_everything_gives_what_all_gives(name, delta, activation, backend):
    hypergraph = HYPERGRAPHS[name]()
    if hypergraph.node_degrees.min() == 0 and delta is not None:
        pytest.skip("a node in no hyperedge sends nothing, and its density counts among all alone")
    config = attention(delta, final_activation=activation)
    everything, leaves = torch.arange(hypergraph.n_nodes), leaves_of(hypergraph)
    sampler = Sampler(hypergraph, None if delta is None else "centre", 0)
    (reach,) = sampler.around(everything, ((None, None),), 0)
    with using(backend):
        nodes, hyperedges = sampled(leaves, reach, config)
        wx, e_term, *vectors = leaves
        whole = pass_messages(wx, e_term, Vectors(*vectors), hypergraph, config)
    expected = whole[0], whole[1][reach.hyperedges]
    for actual, other in zip((nodes, hyperedges), expected, strict=True):
        assert_close(actual, other)
    weights = [normal(*each.shape, seed=9) for each in expected]
    gradients = [
        torch.autograd.grad(sum((a * b).sum() for a, b in zip(each, weights, strict=True)), leaves)
        for each in ((nodes, hyperedges), expected)
    ]
    for actual, other in zip(*gradients, strict=True):
        assert_close(actual, other)


def scaled(density, low, high, peak):
    return (density - low) / (high - low) * max(peak, 0)


def density_of_some(wx, reach, delta):
    """By loops: the similarities of the neighbours that are there, by their share of all; None elsewhere."""
    shares, found = reach.neighbour_shares.tolist(), [None] * len(wx)
    for place, near in enumerate(lists_of(reach.neighbours, reach.nodes)):
        node = int(reach.nodes[place])
        angles = [cosine(wx[node], wx[other]) for other in near]
        assert shares[place] == 0.5  # three of six
        found[node] = 2 * sum(angle for angle in angles if angle > delta)
    return found


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("most", [3, 6])
def test_a_sample_is_the_equations_on_what_was_taken(backend, most):
    """By loops: all neighbours make the density, or so many of them, and those that were taken send."""
    hypergraph = Hypergraph.from_features(normal(40, 3), k=6)
    few = FewNeighbours(Neighbourhoods(hypergraph, "centre"), most)
    (reach,) = Sampler(hypergraph, "centre", 5, few).around(torch.tensor([4, 17, 30]), ((2, 4),), 1)
    leaves, ends = leaves_of(hypergraph, heads=1), ([-1.0, 9.0, 2.0], [-5.0, 80.0, 3.0])

    def extremes(step, seen):
        assert seen[0] >= ends[step][0]
        assert seen[1] <= ends[step][1]
        return torch.tensor(ends[step], dtype=torch.float64).unsqueeze(1)

    with using(backend):
        nodes, hyperedges = sampled(leaves, reach, attention(0.1), extremes)
    wx, e_term = (each.squeeze(1) for each in leaves[:2])
    from_node, to_node, from_hyperedge = leaves[2:]
    whole = most == 6
    density = node_density(wx, hypergraph, 0.1, "centre") if whole else density_of_some(wx, reach, 0.1)
    offsets = reach.to_hyperedges.forward.offsets.tolist()
    new, crowd = [], []
    for place, k in enumerate(reach.hyperedges.tolist()):
        group = reach.nodes[reach.to_hyperedges.forward.indices[offsets[place] : offsets[place + 1]]].tolist()
        assert len(group) == 4
        scores = [
            leaky_relu(wx[i] @ from_node[0] + e_term[k]) + scaled(density[i], *ends[0]).detach()
            for i in group
        ]
        new.append(elu(softmax_sum(scores, [wx[i] for i in group])))
        crowd.append(sum(density[i] for i in group).detach() * 7 / 4)
    assert_close(hyperedges[:, 0], torch.stack(new))
    offsets = reach.to_nodes.forward.offsets.tolist()
    for place, i in enumerate((4, 17, 30)):
        group = reach.to_nodes.forward.indices[offsets[place] : offsets[place + 1]].tolist()
        scores = [
            leaky_relu(new[k] @ from_hyperedge[0] + wx[i] @ to_node[0]) + scaled(crowd[k], *ends[1])
            for k in group
        ]
        assert_close(nodes[place, 0], elu(softmax_sum(scores, [new[k] for k in group])))


def test_nobody_has_extremes_that_change_nothing():
    ends = no_extremes(torch.empty(2))
    seen = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert torch.equal(torch.minimum(ends[0], seen[0]), seen[0])
    assert torch.equal(torch.maximum(ends[1:], seen[1:]), seen[1:])
