"""What each candidate says of the fitted rows, with and without each fold of the labels.

A fold is some labelled rows and the networks that have not seen their labels. Everybody else is fitted once
to all labels, and once for each fold without its labels. Where these judge alone, it is the latter only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dahgnn.classifier.experts import FeatureExpert, KernelExpert, LabelledRows, LinearExpert, Model
from dahgnn.classifier.stacking import CANDIDATES, FAVOURITE, Candidate
from dahgnn.classifier.trees import TreesExpert
from dahgnn.graph.diffusion import SimilarityGraph

Array = NDArray[Any]

# The experts that look at a row's own features alone.
FEATURE_EXPERTS: Mapping[str, FeatureExpert] = {
    "linear": LinearExpert(),
    "kernel": KernelExpert(),
    "trees": TreesExpert(),
}
# By what Poisson learning's potentials are multiplied before the softmax, in units of their usual maximum.
_SHARPNESS = 5.0


@dataclass(frozen=True, eq=False)
class Known:
    """The labelled rows, and which of them are held out when.

    Attributes
    ----------
    rows, labels : array of int, (l,)
        Numbers of the labelled rows, ascending, and of their classes.
    weights : array, (l,)
        How much each counts; one is usual.
    n_classes : int
        How many classes there are.
    folds : sequence of array of int
        Rows of each fold. A row of a class with few labels may be in several.
    refit : bool
        Whether the labels of the folds are learned from in the end. Otherwise they judge alone.
    """

    rows: Array
    labels: Array
    weights: Array
    n_classes: int
    folds: Sequence[Array]
    refit: bool = True

    def seen(self, *folds: int | None) -> Array:
        """Return the places, among the labelled rows, of those that are in none of the folds.

        None is no fold: it asks for what is learned from in the end.
        """
        held = [self.folds[fold] for fold in folds if fold is not None] if self.refit else list(self.folds)
        return (
            np.flatnonzero(~np.isin(self.rows, np.concatenate(held))) if held else np.arange(len(self.rows))
        )

    @property
    def held_places(self) -> list[Array]:
        """The places, among the labelled rows, of each fold's rows."""
        return [np.searchsorted(self.rows, fold) for fold in self.folds]


class Opinions:
    """The candidates' distributions for all fitted rows.

    Parameters
    ----------
    features : array, (n, d)
        Scaled, without the column of ones.
    known : Known
        The labels.
    networks : sequence of array, (n, c)
        The networks' distributions: those that have not seen each fold, and last all of them.
    graph : SimilarityGraph, optional
        To spread labels over and to be smooth on; without it there are no such candidates.
    """

    def __init__(
        self, features: Array, known: Known, networks: Sequence[Array], graph: SimilarityGraph | None
    ) -> None:
        self.known, self.graph = known, graph
        self.models: dict[str, Model] = {}
        self.potentials: Array | None = None
        self._priors: dict[str, list[Array]] = {"networks": list(networks)}
        rows = LabelledRows(features[known.rows], known.labels, known.n_classes, known.weights)
        for name, expert in FEATURE_EXPERTS.items():
            if expert.suits(rows):
                self._priors[name] = self._fit_expert(name, rows, features)
        if graph is not None:
            self._priors["poisson"] = self._spread(graph)
        # Laplace learning knows nothing but what its neighbours say.
        self._priors["laplace"] = [np.full((len(features), known.n_classes), 1 / known.n_classes)]

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates of the experts that there are; without a graph, those that need none."""
        return [
            candidate
            for candidate in CANDIDATES
            if candidate.expert in self._priors and (self.graph is not None or candidate.strength == np.inf)
        ]

    def of(self, candidate: Candidate, fold: int | None = None) -> Array:
        """Return a candidate's distributions, (n, c), without the labels of a fold."""
        priors = self._priors[candidate.expert]
        prior = priors[-1 if fold is None or len(priors) == 1 else fold]
        if candidate.strength == np.inf or self.graph is None:
            return prior
        places = self.known.seen(fold)
        targets = np.eye(self.known.n_classes)[self.known.labels[places]]
        return self.graph.smooth(self.known.rows[places], targets, prior, candidate.strength)

    def held_out(self, candidate: Candidate) -> Array:
        """Return what a candidate says of each fold's rows without having seen them, (h, c), fold by fold."""
        n_classes = self.known.n_classes
        found = [self.of(candidate, number)[rows] for number, rows in enumerate(self.known.folds)]
        return np.concatenate([np.empty((0, n_classes)), *found])

    def _fit_expert(self, name: str, rows: LabelledRows, features: Array) -> list[Array]:
        """Fit an expert without each fold and to all labels; return what it says of all rows."""
        known, expert = self.known, FEATURE_EXPERTS[name]
        learned = rows.take(known.seen())
        settings = expert.choose(learned)
        self.models[name] = expert.fit(learned, settings)
        last = self.models[name].predict(features)
        if not known.refit:  # who has not seen the folds is the one that stays
            return [last]
        parts = [expert.fit(rows.take(known.seen(number)), settings) for number in range(len(known.folds))]
        return [*(model.predict(features) for model in parts), last]

    def _spread(self, graph: SimilarityGraph) -> list[Array]:
        """Spread the labels by Poisson learning, without each fold and all of them."""
        known, found = self.known, []
        for fold in (*range(len(known.folds) if known.refit else 0), None):
            places = known.seen(fold)
            targets = np.eye(known.n_classes)[known.labels[places]]
            found.append(graph.spread_poisson(known.rows[places], targets, weights=known.weights[places]))
        self.potentials = found[-1]
        return [potential_distributions(each, usual_potential(each)) for each in found]


def spread_labels(known: Known, graph: SimilarityGraph, seen: Array) -> Array:
    """Return what `FAVOURITE` says of all rows from some of the labels alone, (n, c)."""
    rows, targets = known.rows[seen], np.eye(known.n_classes)[known.labels[seen]]
    potentials = graph.spread_poisson(rows, targets, weights=known.weights[seen])
    prior = potential_distributions(potentials, usual_potential(potentials))
    return graph.smooth(rows, targets, prior, FAVOURITE.strength)


def usual_potential(potentials: Array) -> float:
    """Return the median of the rows' greatest potentials, or one if that is not positive."""
    usual = float(np.median(potentials.max(1)))
    return usual if usual > 0 else 1.0


def potential_distributions(potentials: Array, usual: float) -> Array:
    """Return potentials (n, c) as distributions."""
    return np.asarray(softmax(np.clip(_SHARPNESS * potentials / usual, -30, 30), axis=1))


def smooth_new(similarities: Array, fitted: Array, prior: Array, strength: float) -> Array:
    """Return what `SimilarityGraph.smooth` gives a new row whose neighbours keep what they have, (q, c).

    Parameters
    ----------
    similarities : array, (q, k)
        How similar each new row is to its neighbours.
    fitted : array, (q, k, c)
        What the neighbours have.
    prior : array, (q, c)
        What the new rows tend to.
    strength : float
        λ.
    """
    degrees = np.maximum(similarities.sum(1, keepdims=True), 1e-12)
    around = np.einsum("qk,qkc->qc", similarities, fitted) / degrees
    return np.asarray((around + strength * prior) / (1 + strength))


def balance(distributions: Array, shares: Mapping[int, float] | Array, rounds: int = 200) -> Array:
    """Return the factor of each class, (c,), by which the mean distribution has the given shares.

    Each distribution times the factors, then normalised, has them in the mean: found by iterative scaling.
    """
    wanted = np.asarray([shares[number] for number in range(distributions.shape[1])], dtype=np.float64)
    wanted = wanted / wanted.sum()
    factors = np.ones(len(wanted))
    for _ in range(rounds):
        scaled = distributions * factors
        found = (scaled / scaled.sum(1, keepdims=True)).mean(0)
        step = wanted / np.maximum(found, 1e-12)
        factors *= step
        factors /= factors.max()
        if np.abs(step - 1).max() < 1e-4:
            break
    return factors
