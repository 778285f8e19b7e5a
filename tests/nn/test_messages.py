"""The paper's steps in one operation: what may change and what may not."""

import pytest
import torch
from message_cases import attention
from oracles import assert_close, normal

from dahgnn import Hypergraph
from dahgnn.kernels.protocol import Vectors
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
