"""Probabilities that are as sure as they are right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

# Of the logarithm of the temperature, as far as it is known without looking.
_DEVIATION = 0.25


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature, between 1/20 and 20, that fits held-out rows best, by golden section.

    It has the least cross-entropy plus (log T)² / 2σ², a belief that T is near one: where all of a few rows
    are right, the cross-entropy alone would make the network sure of everything.
    """

    def loss(logarithm: float) -> float:
        errors = cross_entropy(logits / np.exp(logarithm), labels, reduction="sum")
        return float(errors) + logarithm**2 / (2 * _DEVIATION**2)

    ratio = (np.sqrt(5) - 1) / 2
    low, high = -np.log(20), np.log(20)
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return float(np.exp((low + high) / 2))


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Return the probabilities of each row, (n, c)."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))
