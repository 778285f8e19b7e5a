"""How far a gradient reaches, against the gradients that plain PyTorch finds."""

import pytest
import torch
from oracles import HYPERGRAPHS, normal

from dahgnn.config import AttentionConfig
from dahgnn.graph.gradients import reached_from
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.protocol import Places, Vectors
from dahgnn.nn.messages import pass_messages


def gradients_of(hypergraph, asked):
    """Return the gradients of what two layers give, if some nodes' rows behind the second have one."""
    config = AttentionConfig(delta=0.0)
    vectors = Vectors(*normal(3, 2, 3).unbind())
    wx, e_term = normal(hypergraph.n_nodes, 2, 3), normal(hypergraph.n_hyperedges, 2)
    nodes, hyperedges = pass_messages(
        wx.requires_grad_(), e_term.requires_grad_(), vectors, hypergraph, config, backend="reference"
    )
    last, above = pass_messages(nodes, hyperedges.sum(2), vectors, hypergraph, config, backend="reference")
    return torch.autograd.grad(last[asked].square().sum(), (nodes, hyperedges, above))


@pytest.mark.parametrize("name", HYPERGRAPHS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_gradient_reaches_no_other_rows(name, count):
    hypergraph = HYPERGRAPHS[name]()
    asked = torch.arange(hypergraph.n_nodes)[-count:] if count else torch.empty(0, dtype=torch.long)
    first, second = reached_from(asked, hypergraph)
    of_nodes, below, above = gradients_of(hypergraph, asked)
    assert not of_nodes[first.nodes.numbers < 0].any()
    assert not below[first.hyperedges.numbers < 0].any()
    assert not above[second.hyperedges.numbers < 0].any()
    assert second.nodes is None


def test_it_reaches_one_step_further_with_each_layer():
    hypergraph = Hypergraph.from_hyperedges([[0, 1], [1, 2], [2, 3], [3, 4]], n_nodes=5)
    first, second = reached_from(torch.tensor([0]), hypergraph)
    assert second.hyperedges.numbers.tolist() == [0, -1, -1, -1]
    assert first.nodes.numbers.tolist() == [0, 1, -1, -1, -1]
    assert first.hyperedges.numbers.tolist() == [0, 1, -1, -1]


def test_places_count_what_is_flagged():
    places = Places.of(torch.tensor([False, True, True, False, True]))
    assert places.total == 3
    assert places.numbers.tolist() == [-1, 0, 1, -1, 2]
    assert Places.of(torch.zeros(0, dtype=torch.bool)).total == 0
