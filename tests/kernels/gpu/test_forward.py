"""What the attention must get right beyond the parity of `test_launch`: its softmax, and odd inputs."""

import torch
from message_cases import assert_near, make_case, needs_kernels
from torch.nn.functional import elu

from dahgnn.ops import sparse as ops

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


def test_the_sums_are_those_of_one_attention():
    case = make_case("ragged", 3, 4, delta=None, activation=False)
    wx, e_term, from_node, *_ = case.inputs
    path = case.paths.to_hyperedges
    scores = ops.attention_scores((wx * from_node).sum(-1), e_term, path)
    sums = ops.weighted_sum(wx, ops.segment_softmax(scores, path), path)
    _, hyperedges, kept = case.forward()
    assert_near(hyperedges, elu(sums))
    assert_near(kept[0] + kept[1], sums)


def test_views_are_as_good_as_copies():
    case = make_case("empty segments", 4, 6)
    expected = case.forward()[:2]
    wx, e_term, *vectors = case.inputs
    case.inputs = [
        wx.transpose(1, 2).contiguous().transpose(1, 2),
        e_term.t().contiguous().t(),
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
