"""Incidences in both orders."""

import torch

from dahgnn.kernels.incidence import Segments


def test_owners_name_the_segment_of_each_incidence():
    segments = Segments(torch.tensor([0, 2, 2, 5]), torch.tensor([4, 1, 0, 3, 2]))
    assert len(segments) == 3
    assert segments.owners().tolist() == [0, 0, 2, 2, 2]


def test_to_moves_both_tensors():
    segments = Segments(torch.tensor([0, 1]), torch.tensor([0])).to("meta")
    assert segments.offsets.device.type == segments.indices.device.type == "meta"
