"""What the density and its scaling must get right beyond the parity of `test_launch`."""

import pytest
import torch
from message_cases import DEVICE, Case, assert_near, make_case, needs_kernels

from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.nn.density import node_density

pytestmark = needs_kernels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [0, -36, -25, 20, 36])
def test_the_density_has_no_scale(exponent, dtype):
    case = make_case("ragged", 3, 5, dtype)
    exponent = 8 * exponent if dtype == torch.float64 else exponent
    expected = node_density(case.inputs[0].double(), case.paths, 0.15, "shared")
    factors = torch.ones(len(case.inputs[0]), 1, 1, device=DEVICE, dtype=dtype)
    factors[::2] = 10.0**exponent
    case.inputs[0] = case.inputs[0] * factors
    # Only the density is looked at: scores of such rows are beyond any precision.
    case.inputs[2:] = [torch.zeros_like(vector) for vector in case.inputs[2:]]
    assert_near(case.forward()[2][6], expected)


def star(directions: torch.Tensor, delta: float) -> torch.Tensor:
    """Return the densities of nodes of which each is a neighbour of all, itself included."""
    n = len(directions)
    everyone = Segments(torch.arange(n + 1) * n, torch.arange(n).repeat(n)).to(DEVICE)
    alone = Segments(torch.arange(n + 1), torch.arange(n)).to(DEVICE)
    path = Incidence(alone, alone, alone.indices, alone.indices)
    case = make_case("one node", *directions.shape[1:])
    case.paths = type(case.paths)(path, path, everyone)
    case.inputs[:2] = directions.to(DEVICE), torch.zeros(n, directions.shape[1], device=DEVICE)
    case.delta = delta
    return case.forward()[2][6]


def test_nothing_is_similar_beyond_one():
    rows = torch.full((3, 1, 3), 0.1)  # of a length whose inverse is rounded
    assert star(rows, 1.0).tolist() == [[0], [0], [0]]
    torch.testing.assert_close(star(rows, 0.5), torch.full((3, 1), 3.0, device=DEVICE))


def test_a_zero_row_is_similar_to_none():
    rows = torch.tensor([[[1.0, 2.0]], [[0.0, 0.0]], [[2.0, 4.0]]])
    expected = torch.tensor([[2.0], [0.0], [2.0]], device=DEVICE)
    torch.testing.assert_close(star(rows, -1.0), expected)


def test_equal_densities_leave_the_attention_alone():
    case = make_case("uniform", 4, 8)
    case.inputs[0] = case.inputs[0][:1].expand_as(case.inputs[0]).contiguous()
    n = len(case.inputs[0])
    ring = Segments(2 * torch.arange(n + 1), (torch.arange(2 * n) // 2 + torch.arange(2 * n) % 2 + 1) % n)
    case.paths = type(case.paths)(case.paths.to_hyperedges, case.paths.to_nodes, ring.to(DEVICE))
    with_density = case.forward()[:2]
    case.delta = None
    for actual, expected in zip(with_density, case.forward()[:2], strict=True):
        assert_near(actual, expected)


@pytest.mark.parametrize("place", [0, 3, 4, 65, 132])
def test_the_extremes_count_each_row(place):
    """One node with a high score and another density: without any of them the attention would differ."""
    n = 133
    ring = Segments(torch.arange(n + 1), (torch.arange(n) + 1) % n).to(DEVICE)
    pairs = Segments(2 * torch.arange(n + 1), (torch.arange(2 * n) // 2 + torch.arange(2 * n) % 2) % n).to(
        DEVICE
    )
    order = pairs.indices.argsort(stable=True)
    by_node = Segments(pairs.offsets, pairs.owners()[order])
    to_hyperedges = Incidence(pairs, by_node, pairs.owners(), order)
    to_nodes = Incidence(by_node, pairs, by_node.owners(), order.argsort())
    wx = torch.ones(n, 1, 2)
    wx[place] = torch.tensor([3.0, -2.0])
    wx[(place + 77) % n] = torch.tensor([1.0, 0.5])
    vectors = [torch.tensor([[1.0, 0.25]])] * 3
    inputs = [tensor.to(DEVICE) for tensor in (wx, torch.zeros(n, 1), *vectors)]
    gradients = torch.ones(n, 1, 2, device=DEVICE), None
    case = Case(
        type(make_case("one node", 1, 1).paths)(to_hyperedges, to_nodes, ring), inputs, gradients, -1.0
    )
    for actual, expected in zip(case.forward()[:2], case.reference()[0], strict=True):
        assert_near(actual, expected)


def test_no_positive_score_means_no_density():
    case = make_case("ragged", 2, 3)
    case.inputs[1] -= 100
    with_density = case.forward()[1]
    case.delta = None
    assert_near(with_density, case.forward()[1].double())
