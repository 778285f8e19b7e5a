"""What segments name, and places that are drawn in them."""

import torch

from dahgnn.graph.drawing import draw_places, take
from dahgnn.kernels.incidence import Segments


def test_what_some_segments_name_is_taken_or_some_of_it():
    segments = Segments(torch.tensor([0, 2, 2, 6, 7]), torch.tensor([10, 11, 30, 31, 32, 33, 40]))
    whole = take(segments, torch.tensor([2, 0, 1]))
    assert (whole.offsets.tolist(), whole.indices.tolist()) == ([0, 4, 6, 6], [30, 31, 32, 33, 10, 11])
    long = torch.tensor([True, False, False])
    some = take(segments, torch.tensor([2, 0, 1]), 3, long, torch.tensor([[0, 2, 3]]))
    assert (some.offsets.tolist(), some.indices.tolist()) == ([0, 3, 5, 5], [30, 32, 33, 10, 11])


def test_places_are_different_and_have_the_same_chance():
    numbers, counts = torch.arange(20_000), torch.full((20_000,), 11)
    places = draw_places(numbers, counts, 4, 3, 1 << 16, 9)
    assert (places.diff() > 0).all()
    shares = places.flatten().bincount(minlength=11) / len(numbers)
    # Five deviations of a share of 4/11 among 20,000.
    torch.testing.assert_close(shares, torch.full((11,), 4 / 11), atol=0.017, rtol=0)
    assert len({tuple(each) for each in places.tolist()}) > 100
