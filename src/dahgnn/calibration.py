"""Probabilities that are as sure as they are right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature of the least cross-entropy, between 1/20 and 20, by golden section."""

    def loss(logarithm: float) -> float:
        return float(cross_entropy(logits / np.exp(logarithm), labels))

    ratio = (np.sqrt(5) - 1) / 2
    low, high = -np.log(20), np.log(20)
    for _ in range(40):  # the loss is convex in 1 / temperature, so that it has one valley
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return float(np.exp((low + high) / 2))


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Return the probabilities of each row, (n, c)."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))
