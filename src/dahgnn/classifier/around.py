"""A linear model of what surrounds a row: the means of its neighbours' features, and of their neighbours'.

With P = D⁻¹W the means over the neighbours, it is softmax(P X A + P² X B + b): a linear model after two steps
of a convolution in which nothing is learned (Wu et al., 2019; for hypergraphs Tang et al., 2025). The row's
own features are left to the experts of features. As P can be taken out, a new row needs nothing but the
scores X A + P X B + b of its neighbours, whose mean is its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.classifier.experts import LabelledRows, LinearExpert, LinearModel
from dahgnn.classifier.known import Known
from dahgnn.graph.diffusion import SimilarityGraph

Array = NDArray[Any]

# Of the surroundings' features, in the mean of squares: what the penalties of the linear expert are for.
_LENGTH = 3.0
# Numbers of the surroundings' features at the most, 2 GiB of them.
_MOST_NUMBERS = 1 << 29


class AroundOpinion(NamedTuple):
    """What the model says.

    Attributes
    ----------
    priors : Tensor, (n, parts, c)
        The probabilities of all rows by each part of the labels.
    scores : array, (n, c)
        X A + P X B + b of the last part, whose mean over the neighbours is the score of a row.
    """

    priors: Tensor
    scores: Array


def suits_around(features: Tensor) -> bool:
    """Tell whether the surroundings' features fit into memory."""
    return 2 * features.numel() <= _MOST_NUMBERS


def learn_around(features: Tensor, known: Known, graph: SimilarityGraph) -> AroundOpinion:
    """Fit the model to each part of the labels.

    Parameters
    ----------
    features : Tensor, (n, d)
        Scaled, on the device where the model is to learn.
    known : Known
        The labels.
    graph : SimilarityGraph
        Who is around whom.
    """
    own = features.cpu().numpy()
    once = graph.average(own)
    twice = graph.average(once)
    around = torch.from_numpy(np.concatenate([once, twice], 1).astype(np.float32)).to(features.device)
    length = float(around.square().sum(1).mean().sqrt())
    factor = _LENGTH / length if length > 0 else 1.0
    around *= factor
    expert = LinearExpert()
    labelled = around[torch.from_numpy(known.rows).to(around.device)]
    rows = LabelledRows(labelled, known.labels, known.n_classes, known.weights)
    model = expert.fit(rows, known.parts, expert.choose(rows.take(known.seen())))
    return AroundOpinion(model.predict(around), _scores(model.last(), own, once, factor))


def _scores(model: LinearModel, own: Array, once: Array, factor: float) -> Array:
    coefficients = factor * model.coefficients[:, 0].double().numpy()
    first, second = np.split(coefficients, 2)
    return np.asarray(own @ first + once @ second + model.intercepts[0].double().numpy())
