"""The paper's steps in one operation: what may change and what may not."""

import pytest
import torch
from message_cases import attention
from oracles import assert_close, normal

from dahgnn import Hypergraph
from dahgnn.graph.gradients import reached_from
from dahgnn.kernels.protocol import ALL, Vectors
from dahgnn.nn.messages import pass_messages
from dahgnn.ops.backend import using


@pytest.fixture
def inputs():
    hypergraph = Hypergraph.from_features(normal(25, 3), k=4)
    vectors = Vectors(*(normal(2, 3, seed=seed) for seed in (2, 3, 4)))
    return normal(25, 2, 3), normal(25, 2, seed=1), vectors, hypergraph


def head(inputs, index):
    wx, e_term, vectors, hypergraph = inputs
    one = slice(index, index + 1)
    return wx[:, one], e_term[:, one], Vectors(*(each[one] for each in vectors)), hypergraph


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("delta", [0.1, None])
def test_heads_never_mix(inputs, backend, delta):
    config = attention(delta)
    nodes, hyperedges = pass_messages(*inputs, config, backend=backend)
    for index in range(2):
        alone = pass_messages(*head(inputs, index), config, backend=backend)
        assert_close(nodes[:, index], alone[0][:, 0])
        assert_close(hyperedges[:, index], alone[1][:, 0])


def test_no_density_is_a_threshold_that_nothing_reaches(inputs):
    for backend in ("reference", "auto"):
        without, beyond = (pass_messages(*inputs, attention(delta), backend=backend) for delta in (None, 1.0))
        assert_close(without[0], beyond[0])


def test_the_last_activation_can_be_left_out(inputs):
    for backend in ("reference", "auto"):
        active, plain = (
            pass_messages(*inputs, attention(0.1, final_activation=activation), backend=backend)[0]
            for activation in (True, False)
        )
        assert_close(active, torch.nn.functional.elu(plain))
        assert (plain < 0).any()


def test_a_gradient_through_the_density_is_computed_by_the_reference(inputs):
    wx = inputs[0].requires_grad_()
    gradients = []
    for wanted in (False, True):
        nodes, _ = pass_messages(*inputs, attention(0.1, density_gradient=wanted))
        gradients.append(torch.autograd.grad(nodes.square().sum(), wx)[0])
    with using("reference"):
        nodes, _ = pass_messages(*inputs, attention(0.1, density_gradient=True))
    assert_close(gradients[1], torch.autograd.grad(nodes.square().sum(), wx)[0])
    assert (gradients[0] - gradients[1]).abs().max() > 1e-6


def test_hyperedges_alone_have_a_gradient_too(inputs):
    wx = inputs[0].requires_grad_()
    results = []
    for backend in ("reference", "auto"):
        _, hyperedges = pass_messages(*inputs, attention(0.1), backend=backend)
        results.append(torch.autograd.grad(hyperedges.square().sum(), wx)[0])
    assert_close(*results)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("delta", [0.1, None])
@pytest.mark.parametrize(("heads", "units"), [(1, 10), (4, 8), (5, 3)])
@pytest.mark.parametrize("count", [1, 7, 25])
def test_chosen_nodes_get_the_rows_and_the_gradients_that_they_would_get_among_all(
    backend, delta, heads, units, count
):
    hypergraph = Hypergraph.from_features(normal(25, 3), k=4)
    chosen = torch.randperm(25, generator=torch.Generator().manual_seed(1))[:count]
    weight = normal(count, heads, units, seed=7)
    results = []
    for nodes in (None, chosen):
        leaves = [normal(25, heads, units), normal(25, heads, seed=1)]
        leaves += [normal(heads, units, seed=seed) for seed in (2, 3, 4)]
        wx, e_term, *vectors = (leaf.requires_grad_() for leaf in leaves)
        rows, hyperedges = pass_messages(
            wx, e_term, Vectors(*vectors), hypergraph, attention(delta), nodes=nodes, backend=backend
        )
        rows = rows[chosen] if nodes is None else rows
        loss = (rows * weight).sum() + hyperedges[3].sum()
        results.append((rows, hyperedges, *torch.autograd.grad(loss, leaves)))
    for expected, actual in zip(*results, strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize(("heads", "units"), [(1, 10), (4, 8), (5, 3)])
@pytest.mark.parametrize("asked", [(), (3,), (3, 11, 24)])
def test_what_no_gradient_reaches_need_not_be_kept(backend, heads, units, asked):
    hypergraph = Hypergraph.from_features(normal(25, 3), k=4)
    first, second = reached_from(torch.tensor(asked, dtype=torch.long), hypergraph)
    weight, results = normal(25, heads, units, seed=7), []
    weight[first.nodes.numbers < 0] = 0
    for reached in (ALL, first):
        leaves = [normal(25, heads, units), normal(25, heads, seed=1)]
        leaves += [normal(heads, units, seed=seed) for seed in (2, 3, 4)]
        wx, e_term, *vectors = (leaf.requires_grad_() for leaf in leaves)
        nodes, hyperedges = pass_messages(
            wx, e_term, Vectors(*vectors), hypergraph, attention(0.1), reached=reached, backend=backend
        )
        back = hyperedges[second.hyperedges.numbers >= 0]
        loss = (nodes * weight).sum() + back.square().sum()
        results.append((nodes, hyperedges, *torch.autograd.grad(loss, leaves)))
    for expected, actual in zip(*results, strict=True):
        assert_close(actual, expected)
