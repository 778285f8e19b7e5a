"""Correct & Smooth: what a network says, corrected by its errors at labelled nodes and made smooth.

Huang et al., Combining Label Propagation and Simple Models Out-performs Graph Neural Networks, ICLR 2021.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.training.fit import FitResult
from dahgnn.training.splits import Split

Array = NDArray[Any]

# How much of a node's value comes from its neighbours, in both steps, and how often it is passed on. The
# validation nodes choose from these.
_SHARES = (0.5, 0.8, 0.95)
_STEPS = 50


def smooth_result(result: FitResult, labels: Tensor, split: Split, graph: SimilarityGraph) -> FitResult:
    """Return a result whose probabilities are corrected and smoothed on a graph of its nodes.

    Parameters
    ----------
    result : FitResult
        What a network gave.
    labels : Tensor of int64, (n,)
        Read at the training and validation nodes alone.
    split : Split
        The training nodes are the labelled ones; the validation nodes choose how far labels spread.
    graph : SimilarityGraph
        The similarities of the n nodes.
    """
    before = result.probabilities.double().numpy()
    targets = np.eye(before.shape[1])[labels[split.train].numpy()]
    nodes, known = split.validation.numpy(), labels[split.validation].numpy()

    def scores(share: float) -> Array:
        return correct_and_smooth(before, split.train.numpy(), targets, graph, share)

    shares = _SHARES if len(nodes) else _SHARES[-1:]
    best = min((scores(share) for share in shares), key=lambda each: (each[nodes].argmax(1) != known).sum())
    positive = np.clip(best, 1e-12, None)  # a correction may go below zero
    probabilities = torch.from_numpy(positive / positive.sum(1, keepdims=True)).float()
    return replace(result, probabilities=probabilities, predictions=torch.from_numpy(best.argmax(1)))


def correct_and_smooth(
    probabilities: Array, labelled: Array, targets: Array, graph: SimilarityGraph, share: float
) -> Array:
    """Return the corrected and smoothed scores, (n, c); the greatest of a row is its class.

    Parameters
    ----------
    probabilities : array, (n, c)
        What the network says.
    labelled, targets : array, (l,), (l, c)
        The labelled nodes, and one in the column of each one's class.
    graph : SimilarityGraph
        Its matrix, normalised by the roots of the degrees, passes values on.
    share : float
        How much of a node's value comes from its neighbours.
    """
    errors = np.zeros_like(probabilities)
    errors[labelled] = targets - probabilities[labelled]
    spread = _propagate(errors, graph, share)
    # As large as the errors at labelled nodes are in the mean (the paper's "autoscale"). Where next to
    # nothing arrives, it is not blown up without limit.
    size = np.abs(errors[labelled]).sum(1).mean()
    lengths = np.abs(spread).sum(1, keepdims=True)
    scale = np.divide(size, lengths, out=np.zeros_like(lengths), where=lengths > 1e-12)
    corrected = probabilities + np.minimum(scale, 1000.0) * spread
    corrected[labelled] = targets
    return _propagate(corrected, graph, share)


def _propagate(start: Array, graph: SimilarityGraph, share: float) -> Array:
    """Pass values on: s D^(−1/2) W D^(−1/2) v + (1 − s) v₀, many times."""
    root = np.sqrt(graph.degrees)[:, None]
    values = start
    for _ in range(_STEPS):
        values = share * (graph.similarities @ (values / root)) / root + (1 - share) * start
    return np.asarray(values)
