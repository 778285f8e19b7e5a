"""Incidences in both orders."""

import pytest
import torch

from dahgnn.kernels.incidence import Incidence, Segments


def test_owners_name_the_segment_of_each_incidence():
    segments = Segments(torch.tensor([0, 2, 2, 5]), torch.tensor([4, 1, 0, 3, 2]))
    assert len(segments) == 3
    assert segments.owners().tolist() == [0, 0, 2, 2, 2]


def test_to_moves_both_tensors():
    segments = Segments(torch.tensor([0, 1]), torch.tensor([0])).to("meta")
    assert segments.offsets.device.type == segments.indices.device.type == "meta"


def test_incidences_without_a_backward_order_say_so():
    forward = Segments(torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1]))
    incidence = Incidence.forward_only(forward, forward.owners())
    assert incidence.backward is None
    assert incidence.positions is None
    with pytest.raises(ValueError, match="cannot get a gradient: there is no backward order"):
        incidence.backward_order()


def test_the_backward_order_is_both_parts():
    forward = Segments(torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1]))
    backward = Segments(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]))
    positions = torch.tensor([1, 0, 2])
    incidence = Incidence(forward, backward, forward.owners(), positions)
    assert incidence.backward_order() == (backward, positions)
