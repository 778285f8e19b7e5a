"""What the forward pass must get right: softmax, density, its extremes, and odd inputs."""

import pytest
import torch
from message_cases import DEVICE, Case, assert_near, make_case, needs_kernels
from torch.nn.functional import elu

from dahgnn import ops
from dahgnn.density import node_density
from dahgnn.segments import Incidence, Segments

pytestmark = needs_kernels


def test_large_scores_do_not_overflow():
    case = make_case("ragged", 2, 3)
    # Whole numbers, so that float32 has the scores exactly.
    case.inputs[0] = (5 * case.inputs[0]).round()
    case.inputs[1] = (1000 * case.inputs[1]).round().abs()
    case.inputs[2:] = [(40 * vector).round() for vector in case.inputs[2:]]
    case.delta = None
    _, hyperedges = case.reference()[0]
    actual = case.forward()
    torch.testing.assert_close(actual[1].double(), hyperedges, rtol=1e-4, atol=1e-4)
    assert actual[0].isfinite().all()
    assert all(gradient.isfinite().all() for gradient in case.backward())


def test_small_sums_keep_their_digits_in_the_activation():
    case = make_case("uniform", 2, 3, delta=None)
    case.inputs[0] *= 1e-6
    for actual, expected in zip(case.forward()[:2], case.reference()[0], strict=True):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-12)


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
        type(make_case("one node", 1, 1).paths)(to_hyperedges, to_nodes, ring), inputs, gradients, -2.0
    )
    for actual, expected in zip(case.forward()[:2], case.reference()[0], strict=True):
        assert_near(actual, expected)


def test_no_positive_score_means_no_density():
    case = make_case("ragged", 2, 3)
    case.inputs[1] -= 100
    with_density = case.forward()[1]
    case.delta = None
    assert_near(with_density, case.forward()[1].double())


def test_the_sums_are_those_of_one_attention():
    case = make_case("ragged", 3, 4, delta=None, activation=False)
    wx, e_share, from_node, *_ = case.inputs
    path = case.paths.to_hyperedges
    scores = ops.attention_scores((wx * from_node).sum(-1), e_share, path)
    sums = ops.weighted_sum(wx, ops.segment_softmax(scores, path), path)
    _, hyperedges, kept = case.forward()
    assert_near(hyperedges, elu(sums))
    assert_near(kept[0] + kept[1], sums)


def test_views_are_as_good_as_copies():
    case = make_case("empty segments", 4, 6)
    expected = case.forward()[:2]
    wx, e_share, *vectors = case.inputs
    case.inputs = [
        wx.transpose(1, 2).contiguous().transpose(1, 2),
        e_share.t().contiguous().t(),
        *(vector.t().contiguous().t() for vector in vectors),
    ]
    assert not any(view.is_contiguous() for view in case.inputs)
    for actual, wanted in zip(case.forward()[:2], expected, strict=True):
        assert torch.equal(actual, wanted)


def test_what_is_not_a_number_stays_so():
    """A training that diverges must be seen to diverge; and what has no part in it is left alone."""
    case = make_case("empty segments", 2, 3, delta=None)
    case.inputs[0][0] = torch.nan
    for actual, expected in zip(case.forward()[:2], case.reference()[0], strict=True):
        assert actual.isnan().any()
        assert torch.equal(actual.isnan(), expected.isnan())
