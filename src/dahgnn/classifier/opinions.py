"""What each candidate says of the fitted rows, with and without each fold of the labels.

All experts but the networks are fitted to several parts of the labels at once, see `Known`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.classifier.around import learn_around, suits_around
from dahgnn.classifier.experts import FeatureExpert, KernelExpert, LabelledRows, LinearExpert, Model
from dahgnn.classifier.known import Known
from dahgnn.classifier.stacking import (
    AROUND,
    CANDIDATES,
    POISSON_EXPERTS,
    SECOND_CANDIDATES,
    Candidate,
)
from dahgnn.classifier.trees import TreesExpert
from dahgnn.files.scratch import IN_MEMORY, Scratch
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
# Numbers of a distribution, in all, that a sample of the rows without a label has at the most.
_SAMPLE = 50_000
# Rows of which an expert says something at a time.
_ROWS_AT_ONCE = 1 << 17


class Graphs(NamedTuple):
    """What labels spread over.

    Attributes
    ----------
    chosen : SimilarityGraph
        Of the neighbours that the networks see, too.
    plain : SimilarityGraph or None
        Of the nearest by plain distance, if the others are not these.
    around : bool
        Whether a linear model learns from what surrounds a row, see `dahgnn.classifier.around`. It pays where
        a hypergraph is given.
    """

    chosen: SimilarityGraph
    plain: SimilarityGraph | None = None
    around: bool = False


class _Said(NamedTuple):
    """What a candidate says.

    Attributes
    ----------
    held_out : array, (h, c)
        Of each fold's rows, without their labels.
    whole : Tensor, (n, c)
        Of all rows, by all labels.
    of_sample : Tensor, (s, parts, c)
        Of the rows of the sample, by each part of the labels.
    """

    held_out: Array
    whole: Tensor
    of_sample: Tensor


class Opinions:
    """The candidates' distributions: for all fitted rows, and for held-out ones without their labels.

    Parameters
    ----------
    features : Tensor, (n, d)
        Scaled, without the column of ones, on the device where the experts are to learn.
    known : Known
        The labels.
    graphs : Graphs, optional
        To spread labels over and to be smooth on; without it there are no such candidates.
    scratch : Scratch
        Where what is said of many rows is kept.

    Attributes
    ----------
    models : dict of str to Model
        The experts that look at features, as they are in the end.
    settings : dict
        What these have chosen, by the name of the expert.
    potentials : dict of str to array, (n, c)
        Poisson learning's, by the name of the expert, and the scores of the linear model of surroundings.
    sample : array of int, (s,)
        Some rows without a label, of which it is kept what is said without each fold.
    """

    def __init__(
        self,
        features: Tensor,
        known: Known,
        graphs: Graphs | None,
        scratch: Scratch = IN_MEMORY,
    ) -> None:
        self.features, self.known, self.scratch = features, known, scratch
        self.models: dict[str, Model] = {}
        self.settings: dict[str, Any] = {}
        self.potentials: dict[str, Array] = {}
        self.sample = _sample_others(known, len(features))
        self._said: dict[Candidate, _Said] = {}
        self._graph = graphs and graphs.chosen
        self._given = [known.given(part) for part in known.parts]
        self._folds = [torch.from_numpy(fold).to(features.device) for fold in known.folds]
        rows = LabelledRows(
            features[torch.from_numpy(known.rows).to(features.device)],
            known.labels,
            known.n_classes,
            known.weights,
        )
        for name, expert in FEATURE_EXPERTS.items():
            if expert.suits(rows):
                self.settings[name] = expert.choose(rows.take(known.seen()))
                model = expert.fit(rows, known.parts, self.settings[name])
                self.models[name] = model.last()
                self._hear(name, predict_in_blocks(model, features, scratch), self._graph)
        if graphs is not None:
            self._hear("laplace", None, graphs.chosen)
            for name, graph in zip(POISSON_EXPERTS, (graphs.chosen, graphs.plain), strict=True):
                if graph is not None:
                    self._hear(name, self._spread(name, graph), graph)
            if graphs.around and suits_around(features):
                found = learn_around(features, known, graphs.chosen)
                self.potentials[AROUND] = found.scores
                self._hear(AROUND, found.priors, graphs.chosen)

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates that have been heard."""
        return [candidate for candidate in (*CANDIDATES, *SECOND_CANDIDATES) if candidate in self._said]

    def hear_networks(self, networks: Sequence[Array]) -> None:
        """Take in what the networks say.

        Parameters
        ----------
        networks : sequence of array, (n, c)
            The distributions of those that have not seen each fold, and last of all of them.
        """
        known = self.known
        own = networks if known.refit else networks[-1:]
        said = self.scratch.empty((len(self.features), len(own), known.n_classes), self.features.dtype)
        for number, each in enumerate(own):
            said[:, number] = torch.from_numpy(each)
        self._hear("networks", said.to(self.features.device), self._graph)

    def add(self, name: str, model: Model, priors: Tensor) -> None:
        """Take in an expert of features that has come later.

        Parameters
        ----------
        name : str
            The expert, which has candidates among `SECOND_CANDIDATES`.
        model : Model
            What it is in the end, for new rows.
        priors : Tensor, (n, parts, c)
            What it says of all rows by each part of the labels.
        """
        self.models[name] = model
        self._hear(name, priors, self._graph)

    def of(self, candidate: Candidate) -> Array:
        """Return a candidate's distributions for all rows, (n, c), in the precision of the features."""
        return self._said[candidate].whole.numpy()

    def held_out(self, candidate: Candidate) -> Array:
        """Return what a candidate says of each fold's rows without having seen them, (h, c), fold by fold."""
        return self._said[candidate].held_out

    def without(self, fold: int, candidate: Candidate) -> Array:
        """Return what a candidate says of the rows of the sample without a fold's labels, (s, c)."""
        return self._said[candidate].of_sample[:, fold].double().numpy()

    def _hear(self, name: str, priors: Tensor | None, graph: SimilarityGraph | None) -> None:
        """Keep what the candidates of an expert say.

        Parameters
        ----------
        name : str
            The expert.
        priors : Tensor, (n, parts, c), or None
            What it says of all rows by each part of the labels; None is Laplace learning.
        graph : SimilarityGraph or None
            To be smooth on.
        """
        for candidate in (each for each in (*CANDIDATES, *SECOND_CANDIDATES) if each.expert == name):
            if candidate.strength == np.inf and priors is not None:
                said = priors
            elif graph is None:
                continue
            else:
                said = graph.smooth_all(self._given, priors, candidate.strength)
            held = [
                said[fold.to(said.device), number if self.known.refit else 0]
                for number, fold in enumerate(self._folds)
            ]
            self._said[candidate] = _Said(
                held_out=torch.cat([said[:0, 0], *held]).double().cpu().numpy(),
                whole=self.scratch.store(said[:, -1].cpu().contiguous()),
                of_sample=said[torch.from_numpy(self.sample).to(said.device)].cpu(),
            )

    def _spread(self, name: str, graph: SimilarityGraph) -> Tensor:
        """Spread the labels of each part by Poisson learning, (n, parts, c)."""
        potentials = graph.spread_poisson_all(self._given)
        self.potentials[name] = self.scratch.store(potentials[:, -1].cpu().contiguous()).numpy()
        return potential_distributions(potentials, scratch=self.scratch)


def predict_in_blocks(model: Model, features: Tensor, scratch: Scratch = IN_MEMORY) -> Tensor:
    """Return what a model says of many rows (n, d) by each part, (n, parts, c)."""
    return _in_blocks(model.predict, features, scratch)


def _in_blocks(change: Callable[[Tensor], Tensor], values: Tensor, scratch: Scratch) -> Tensor:
    """Return what many rows become, some of them at a time."""
    if len(values) <= _ROWS_AT_ONCE:
        return change(values)
    first = change(values[:_ROWS_AT_ONCE])
    if first.is_cuda:  # whose memory no file can stand in for
        return torch.cat([change(some) for some in values.split(_ROWS_AT_ONCE)])
    said = scratch.empty((len(values), *first.shape[1:]), first.dtype)
    said[:_ROWS_AT_ONCE] = first
    for start in range(_ROWS_AT_ONCE, len(values), _ROWS_AT_ONCE):
        said[start : start + _ROWS_AT_ONCE] = change(values[start : start + _ROWS_AT_ONCE])
    return said


def _sample_others(known: Known, n: int) -> Array:
    """Draw some of the rows without a label, ascending."""
    others = np.setdiff1d(np.arange(n), known.rows)
    count = min(len(others), _SAMPLE // known.n_classes)
    return np.sort(np.random.default_rng(0).choice(others, count, replace=False))


def potential_distributions(
    potentials: Tensor, usual: Tensor | None = None, scratch: Scratch = IN_MEMORY
) -> Tensor:
    """Return potentials (n, parts, c) as distributions.

    Parameters
    ----------
    potentials : Tensor, (n, parts, c)
        Of Poisson learning.
    usual : Tensor, (parts, 1), optional
        Their usual size, if these are the potentials of other rows: see `usual_potential`.
    scratch : Scratch
        Where those of many rows are kept.
    """
    usual = usual_potential(potentials) if usual is None else usual

    def change(some: Tensor) -> Tensor:
        return (_SHARPNESS * some / usual).clamp(-30, 30).softmax(2)

    return _in_blocks(change, potentials, scratch)


def usual_potential(potentials: Tensor) -> Tensor:
    """Return the median of the rows' greatest potentials, (parts, 1), or one where that is not positive."""
    usual = potentials.amax(2).median(0).values[:, None]
    return torch.where(usual > 0, usual, 1)


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
