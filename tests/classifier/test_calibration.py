"""Temperatures."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from dahgnn.classifier.calibration import best_temperature


@pytest.mark.parametrize("factor", [0.25, 1.0, 8.0])
def test_the_temperature_that_was_put_in_is_found(factor):
    """Labels drawn by the softmax of logits need a temperature of one; scaled logits, their scale."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(20000, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    assert best_temperature(factor * logits, labels) == pytest.approx(factor, rel=0.05)


def test_a_few_right_answers_make_nobody_sure():
    right = 5 * torch.eye(3, dtype=torch.float64)
    assert 0.8 < best_temperature(right, torch.arange(3)) < 1
    assert best_temperature(right.repeat(1000, 1), torch.arange(3).repeat(1000)) < 0.6


def test_no_other_temperature_is_better():
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(50, 3, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 3, (50,), generator=generator)

    def loss(temperature):
        believed = np.log(temperature) ** 2 / (2 * 0.25**2)
        return float(cross_entropy(logits / temperature, labels, reduction="sum")) + believed

    assert loss(best_temperature(logits, labels)) <= min(map(loss, np.geomspace(0.05, 20, 300))) + 1e-9
