"""Several opinions on each row, weighted by how right they were on labels that they had not seen.

A candidate is an expert's distribution, made smooth over the graph as strongly as its number says. Each is
sharpened by a power of its own, because an average over many neighbours is right more often than it says. The
weights are those of the most likely mixture, found by expectation and maximisation (stacking: Wolpert, 1992;
Breiman, 1996), with a prior for few labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Candidate(NamedTuple):
    """An expert's opinion, and how much it counts against that of the neighbours.

    Attributes
    ----------
    expert : str
        "networks", "linear", "kernel", "poisson" or "uniform", which knows nothing.
    strength : float
        λ of `SimilarityGraph.smooth`; infinite leaves the opinion as it is.
    """

    expert: str
    strength: float


CANDIDATES = (
    Candidate("uniform", 0.0),  # this is Laplace learning
    Candidate("poisson", 0.1),
    Candidate("poisson", math.inf),
    Candidate("linear", 0.1),
    Candidate("linear", math.inf),
    Candidate("kernel", 0.1),
    Candidate("kernel", 0.3),
    Candidate("kernel", math.inf),
    Candidate("networks", 0.03),
    Candidate("networks", 0.1),
    Candidate("networks", 0.3),
    Candidate("networks", math.inf),
)
# Who is believed where no label is held out. Where some are, half of the belief before them is in these, half
# in all candidates alike, and it is worth five labels.
_FAVOURITES = {Candidate("poisson", 0.1): 0.75, Candidate("linear", 0.1): 0.25}
_PRIOR_LABELS = 5.0
# Powers to choose from, and the share of every opinion that is the same for all classes: nobody is certain.
_POWERS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5, 7.0)
_DOUBT = 0.02
# Rounds of expectation and maximisation, which converge long before.
_ROUNDS = 100
# Candidates of a smaller weight are left out.
_SMALLEST = 0.005


@dataclass(frozen=True)
class Stack:
    """Which candidates count, how sharp they are, and how much each counts.

    Attributes
    ----------
    candidates : tuple of Candidate
        Those with a weight.
    powers, weights : tuple of float
        One of each for each candidate; the weights sum to one.
    """

    candidates: tuple[Candidate, ...]
    powers: tuple[float, ...]
    weights: tuple[float, ...]

    def combine(self, opinions: Sequence[Array]) -> Array:
        """Return the mixture of the candidates' distributions, (n, c) each."""
        total = np.zeros_like(opinions[0], dtype=np.float64)
        for opinion, power, weight in zip(opinions, self.powers, self.weights, strict=True):
            total += weight * sharpen(opinion, power)
        return total

    def share(self, expert: str) -> float:
        """Return how much an expert counts, smooth or not."""
        return math.fsum(
            weight
            for candidate, weight in zip(self.candidates, self.weights, strict=True)
            if candidate.expert == expert
        )


def sharpen(distribution: Array, power: float) -> Array:
    """Return the distribution (n, c) raised to a power, with some doubt in it.

    Examples
    --------
    >>> sharpen(np.array([[0.6, 0.4]]), 2.0).round(3).tolist()
    [[0.688, 0.312]]
    """
    raised = np.maximum(distribution, 1e-12) ** power
    certain = raised / raised.sum(1, keepdims=True)
    return np.asarray((1 - _DOUBT) * certain + _DOUBT / distribution.shape[1])


def learn_stack(
    candidates: Sequence[Candidate], opinions: Sequence[Array], labels: Array, counts: Array | None = None
) -> Stack:
    """Learn powers and weights from labels that the candidates had not seen.

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
    """
    favourites = _favourites(candidates)
    if len(labels) == 0:
        return _make(candidates, [1.0] * len(candidates), favourites)
    prior = (favourites + 1 / len(candidates)) / 2
    counts = np.ones(len(labels)) if counts is None else counts
    chosen = [_choose_power(opinion, labels, counts) for opinion in opinions]
    weights = _mix(np.stack([likelihood for _, likelihood in chosen], 1), counts, prior)
    return _make(candidates, [power for power, _ in chosen], weights)


def _make(candidates: Sequence[Candidate], powers: Sequence[float], weights: Array) -> Stack:
    """Return the stack without the candidates of a negligible weight."""
    places = np.flatnonzero(weights >= _SMALLEST).tolist()
    return Stack(
        tuple(candidates[place] for place in places),
        tuple(powers[place] for place in places),
        tuple((weights[places] / weights[places].sum()).tolist()),
    )


def _favourites(candidates: Sequence[Candidate]) -> Array:
    """Return the belief in each candidate without any label to judge by; it sums to one."""
    belief = np.array([_FAVOURITES.get(candidate, 0.0) for candidate in candidates])
    return belief / belief.sum() if belief.any() else np.full(len(candidates), 1 / len(candidates))


def _choose_power(opinion: Array, labels: Array, counts: Array) -> tuple[float, Array]:
    """Return the likeliest power, and what the opinion then gives each label, (h,).

    Powers far from one need evidence: ln² of the power is subtracted.
    """
    rows = np.arange(len(labels))
    best = (-math.inf, 1.0, np.empty(0))
    for power in _POWERS:
        likelihood = sharpen(opinion, power)[rows, labels]
        score = float(counts @ np.log(likelihood)) - math.log(power) ** 2
        if score > best[0]:
            best = (score, power, likelihood)
    return best[1], best[2]


def _mix(likelihoods: Array, counts: Array, prior: Array) -> Array:
    """Return the weights of the likeliest mixture of candidates, given likelihoods (h, candidates)."""
    weights = prior.copy()
    for _ in range(_ROUNDS):
        shares = likelihoods * weights
        shares *= (counts / shares.sum(1))[:, None]
        weights = shares.sum(0) + _PRIOR_LABELS * prior
        weights /= weights.sum()
    return weights
