"""Several opinions on each row, weighted by how right they were on labels that they had not seen.

A candidate is an expert's distribution, made smooth over the graph as strongly as its number says. The
candidates are multiplied, each raised to its weight (a logarithmic opinion pool: Genest and Zidek, 1986). The
weights are those that make the labels likeliest (stacking: Wolpert, 1992; Breiman, 1996), never negative, and
with a prior for few labels. They need not sum to one: a candidate that is right more often than it says
counts more, which makes the result sharper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dahgnn.threads import one_blas_thread

Array = NDArray[Any]


class Candidate(NamedTuple):
    """An expert's opinion, and how much it counts against that of the neighbours.

    Attributes
    ----------
    expert : str
        "networks", "linear", "kernel", "trees", "poisson", "plain-poisson", "laplace", "around" or
        "self-trained".
    strength : float
        λ of `SimilarityGraph.smooth`; infinite leaves the opinion as it is.
    """

    expert: str
    strength: float


# What the experts are called in sentences.
EXPERT_TITLES = {
    "networks": "the networks",
    "linear": "a linear model",
    "kernel": "a kernel model",
    "trees": "decision trees",
    "poisson": "Poisson learning",
    "plain-poisson": "Poisson learning on neighbours by plain distance",
    "laplace": "Laplace learning",
    "around": "a linear model of the surroundings",
    "self-trained": "a self-trained kernel model",
}
# A smaller share is not worth a word.
SMALLEST_SHARE = 0.005

# Poisson learning: on the chosen neighbours, and on those by plain distance.
POISSON_EXPERTS = ("poisson", "plain-poisson")
# The linear model of what surrounds a row, which there is where a hypergraph is given.
AROUND = "around"
# Who is believed most where no label is held out.
FAVOURITE = Candidate("poisson", 0.1)
CANDIDATES = (
    Candidate("laplace", 0.0),
    FAVOURITE,
    Candidate("plain-poisson", 0.1),
    Candidate("linear", 0.1),
    Candidate("linear", math.inf),
    Candidate("kernel", 0.1),
    Candidate("kernel", math.inf),
    Candidate("trees", 0.1),
    Candidate("trees", math.inf),
    Candidate("networks", 0.1),
    Candidate("networks", math.inf),
    Candidate(AROUND, 0.1),
    Candidate(AROUND, math.inf),
)
# The expert that learns from the combination of all others, and its candidates.
SELF_TRAINED = "self-trained"
SECOND_CANDIDATES = (Candidate(SELF_TRAINED, 0.1), Candidate(SELF_TRAINED, math.inf))
# Who is believed where no label is held out. Where some are, half of the weight before them is in these, half
# in all candidates alike.
_FAVOURITES = {FAVOURITE: 0.75, Candidate("linear", 0.1): 0.25}
# How much a squared difference from that costs, in the logarithm of the likelihood, for each candidate.
_PENALTY = 0.1
# The share of every opinion that is the same for all classes: nobody is certain.
DOUBT = 0.02
# Candidates of a smaller weight are left out.
_SMALLEST = 0.005


@dataclass(frozen=True)
class Stack:
    """Which candidates count, and how much.

    Attributes
    ----------
    candidates : tuple of Candidate
        Those with a weight.
    weights : tuple of float
        The exponent of each, positive.
    """

    candidates: tuple[Candidate, ...]
    weights: tuple[float, ...]

    def combine(self, opinions: Sequence[Array]) -> Array:
        """Return the normalised product of the candidates' distributions, (n, c) each."""
        scores = sum(
            weight * _logarithm(opinion) for opinion, weight in zip(opinions, self.weights, strict=True)
        )
        return _normalise(np.asarray(scores))

    def weight_of(self, candidate: Candidate) -> float:
        """Return the weight of a candidate, zero if it is left out."""
        return dict(zip(self.candidates, self.weights, strict=True)).get(candidate, 0.0)

    def weight_share(self, expert: str) -> float:
        """Return the share of all weights that an expert has, smooth or not."""
        own = [
            weight
            for candidate, weight in zip(self.candidates, self.weights, strict=True)
            if candidate.expert == expert
        ]
        return math.fsum(own) / math.fsum(self.weights)


def say_combination(shares: Mapping[str, float]) -> str:
    """Return whom the labels come from in words, the greatest share first, without those that round to 0 %.

    Examples
    --------
    >>> say_combination({"linear": 0.25, "trees": 0.004, "networks": 0.746})
    'the networks 75 %, a linear model 25 %'
    """
    ranked = sorted(
        ((name, share) for name, share in shares.items() if share >= SMALLEST_SHARE),
        key=lambda pair: -pair[1],
    )
    return ", ".join(f"{EXPERT_TITLES[name]} {100 * share:.0f} %" for name, share in ranked)


def learn_stack(
    candidates: Sequence[Candidate],
    opinions: Sequence[Array],
    labels: Array,
    counts: Array | None = None,
    near: Stack | None = None,
) -> Stack:
    """Learn the weights from labels that the candidates had not seen.

    Parameters
    ----------
    candidates : sequence of Candidate
        To choose from.
    opinions : sequence of array, (h, c)
        What each says of the held-out rows; h may be zero.
    labels : array of int, (h,)
        Their classes.
    counts : array, (h,), optional
        How much each row counts; one by default.
    near : Stack, optional
        Where to begin, such as a combination of nearly the same labels. The weights do not depend on it, as
        there is one best choice of them; it is only found sooner.
    """
    from scipy.optimize import minimize

    favourites = _favourites(candidates)
    if len(labels) == 0:
        return _make(candidates, favourites)
    counts = np.ones(len(labels)) if counts is None else counts
    logarithms = np.stack([_logarithm(opinion) for opinion in opinions])  # (candidates, h, c)
    prior = (favourites + 1 / len(candidates)) / 2
    start = prior if near is None else np.array([near.weight_of(candidate) for candidate in candidates])
    rows, strength = np.arange(len(labels)), _PENALTY * len(candidates)

    def loss(weights: Array) -> tuple[float, Array]:
        """Return the penalised negative logarithm of the likelihood, and its gradient."""
        distributions = _normalise(np.tensordot(weights, logarithms, 1))
        likelihood = counts @ np.log(np.maximum(distributions[rows, labels], 1e-300))
        distributions[rows, labels] -= 1
        gradient = np.tensordot(logarithms, distributions * counts[:, None], 2)
        apart = weights - prior
        return float(strength * (apart @ apart) - likelihood), gradient + 2 * strength * apart

    with one_blas_thread():
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(candidates))
    return _make(candidates, found.x)


def _make(candidates: Sequence[Candidate], weights: Array) -> Stack:
    """Return the stack without the candidates of a negligible weight.

    Where nobody is worth anything, as on noise, the favourites stay with a negligible weight: all classes are
    then about as likely.
    """
    if weights.max() < _SMALLEST:
        weights = _SMALLEST * _favourites(candidates)
        places = np.flatnonzero(weights).tolist()
    else:
        places = np.flatnonzero(weights >= _SMALLEST).tolist()
    return Stack(tuple(candidates[place] for place in places), tuple(weights[places].tolist()))


def _favourites(candidates: Sequence[Candidate]) -> Array:
    """Return the weight of each candidate without any label to judge by; the sum is one."""
    belief = np.array([_FAVOURITES.get(candidate, 0.0) for candidate in candidates])
    return belief / belief.sum() if belief.any() else np.full(len(candidates), 1 / len(candidates))


def _logarithm(distribution: Array) -> Array:
    """Return the logarithm of a distribution (n, c) that has some doubt in it."""
    return np.asarray(np.log((1 - DOUBT) * distribution + DOUBT / distribution.shape[1]))


def _normalise(scores: Array) -> Array:
    """Return the softmax of each row, (n, c); that of SciPy takes longer for its checks than for few rows."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(weights)
