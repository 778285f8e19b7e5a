"""What the backward pass must get right beyond the parity of `test_launch`."""

import pytest
import torch
from message_cases import DEVICE, assert_near, check, make_case, needs_kernels

pytestmark = needs_kernels


@pytest.mark.parametrize("shape", ["ragged", "short and long", "many members on average"])
@pytest.mark.parametrize("activation", [True, False])
def test_rows_without_gradient_are_left_out(shape, activation):
    case = make_case(shape, 9, 8, activation=activation)
    case.gradients[0][::3] = 0
    case.gradients[0][1, 4:] = 0
    check(case)


def test_the_hyperedges_may_have_no_gradient():
    case = make_case("ragged", 4, 8)
    case.gradients = case.gradients[0], None
    check(case)


def test_no_gradient_at_all_gives_zeros():
    case = make_case("ragged", 2, 3)
    case.gradients = torch.zeros_like(case.gradients[0]), None
    for gradient in case.backward():
        assert not gradient.any()


def test_gradients_may_be_views():
    case = make_case("empty segments", 4, 6)
    nodes, hyperedges = case.gradients
    case.gradients = (
        torch.ones(1, device=DEVICE).expand_as(nodes),
        hyperedges.transpose(0, 1).contiguous().transpose(0, 1),
    )
    check(case)


@pytest.mark.parametrize("shift", [100.0, -100.0])
def test_scores_of_one_sign_give_their_targets_no_gradient(shift):
    """Where the LeakyReLU is linear for all members, the softmax does not see the target's term."""
    case = make_case("ragged", 4, 8, delta=None)
    case.inputs[1] += shift
    _, gradient, *_ = case.backward()
    assert_near(gradient, torch.zeros_like(gradient))
