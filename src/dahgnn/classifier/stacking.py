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
# Steps to the best weights at the most, of which few are needed; the decrease, relative to the loss, that a
# step is not worth; and how often one is halved until the loss falls.
_MOST_STEPS, _ENOUGH, _HALVINGS = 50, 1e-9, 30


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
        scores = np.zeros(opinions[0].shape)
        for opinion, weight in zip(opinions, self.weights, strict=True):
            logarithm = _logarithm(opinion)
            scores += np.multiply(logarithm, weight, out=logarithm)
        return _normalise(scores)

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
    favourites = _favourites(candidates)
    if len(labels) == 0:
        return _make(candidates, favourites)
    counts = np.ones(len(labels)) if counts is None else counts
    prior = (favourites + 1 / len(candidates)) / 2
    start = prior if near is None else np.array([near.weight_of(candidate) for candidate in candidates])
    with one_blas_thread():
        return _make(candidates, _minimise(_Loss(opinions, labels, counts, prior), start))


class _Point(NamedTuple):
    """Weights of the candidates, what they lose, and the distributions that follow, (c, h)."""

    weights: Array
    loss: float
    distributions: Array


class _Loss:
    """The penalised negative logarithm of the likelihood, convex in the weights.

    Parameters
    ----------
    opinions : sequence of array, (h, c)
        What each candidate says of the rows.
    labels : array of int, (h,)
        Their classes.
    counts : array, (h,)
        How much each row counts.
    prior : array, (candidates,)
        The weights that cost nothing.
    """

    def __init__(self, opinions: Sequence[Array], labels: Array, counts: Array, prior: Array) -> None:
        # (candidates, c, h): the maximum and the sum over classes are then those of whole rows of numbers.
        self.logarithms = np.stack([np.ascontiguousarray(_logarithm(opinion).T) for opinion in opinions])
        self.own = labels, np.arange(len(labels))
        self.of_labels = self.logarithms[:, *self.own] @ counts
        self.counts, self.prior, self.penalty = counts, prior, _PENALTY * len(prior)

    def at(self, weights: Array) -> _Point:
        """Return the loss at some weights."""
        distributions = _normalise(np.tensordot(weights, self.logarithms, 1), axis=0)
        likelihood = self.counts @ np.log(np.maximum(distributions[self.own], 1e-300))
        apart = weights - self.prior
        return _Point(weights, float(self.penalty * (apart @ apart) - likelihood), distributions)

    def slopes(self, point: _Point) -> tuple[Array, Array]:
        """Return the gradient and the Hessian."""
        number = len(self.prior)
        weighted = self.logarithms * point.distributions
        means = weighted.sum(1)  # of each candidate's logarithm, (candidates, h)
        weighted *= self.counts
        weighted = weighted.reshape(number, -1)
        gradient = weighted.sum(1) - self.of_labels + 2 * self.penalty * (point.weights - self.prior)
        hessian = weighted @ self.logarithms.reshape(number, -1).T - (means * self.counts) @ means.T
        return gradient, hessian + 2 * self.penalty * np.eye(number)


def _minimise(loss: _Loss, start: Array) -> Array:
    """Return the weights, none negative, of the least loss, by Newton's steps.

    Each goes towards the least value of the quadratic function that touches the loss, among weights that are
    not negative, and as far as the loss falls.
    """
    point = loss.at(start)
    for _ in range(_MOST_STEPS):
        gradient, hessian = loss.slopes(point)
        step = _lowest_of_quadratic(hessian, hessian @ point.weights - gradient) - point.weights
        decrease = -(gradient @ step)
        if decrease <= _ENOUGH * (1 + abs(point.loss)):
            break
        after = _fall(loss, point, step)
        if after is None:  # rounding is all that is left
            break
        point = after
    return point.weights


def _fall(loss: _Loss, point: _Point, step: Array) -> _Point | None:
    """Take a step, or the half of it and so on, until the loss falls; None if it does not."""
    for halvings in range(_HALVINGS):
        after = loss.at(point.weights + 0.5**halvings * step)
        if after.loss < point.loss:
            return after
    return None


def _lowest_of_quadratic(matrix: Array, vector: Array) -> Array:
    """Minimise xᵀ A x / 2 − bᵀ x over numbers that are not negative, A being positive."""
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    root = np.linalg.cholesky(matrix)
    return np.asarray(nnls(root.T, solve_triangular(root, vector, lower=True), maxiter=100 * len(root))[0])


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
    doubted = (1 - DOUBT) * distribution
    doubted += DOUBT / distribution.shape[1]
    return np.asarray(np.log(doubted, out=doubted))


def _normalise(scores: Array, axis: int = 1) -> Array:
    """Return the softmax along an axis; that of SciPy takes longer for its checks than for few rows."""
    weights = scores - scores.max(axis=axis, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=axis, keepdims=True)
    return np.asarray(weights)
