"""A fitted ensemble as a plain value: what it knows of the fitted rows, and what it says of new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from dahgnn.classifier.experts import Model
from dahgnn.classifier.opinions import potential_distributions, smooth_new, usual_potential
from dahgnn.classifier.stacking import AROUND, Candidate, Stack
from dahgnn.files.scratch import IN_MEMORY, Scratch
from dahgnn.graph.copies import hash_rows
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.neighbours import Neighbors, NeighborSearch, build_search
from dahgnn.graph.scaling import Scaling
from dahgnn.graph.similarities import similarities_of
from dahgnn.nn.induction import Induction, evaluate_all
from dahgnn.nn.model import DAHGNN

Array = NDArray[Any]

# Rows of a prediction at a time.
_BATCH = 16384
# A row is a fitted one if it is this near, by its length: float32 and float64 of the same numbers are.
_ROUNDING = 1e-6


class Evaluation(NamedTuple):
    """What an ensemble says of rows.

    Attributes
    ----------
    distributions : array, (n, c)
        The probabilities of the classes.
    embedding : array, (n, c)
        The last output of the networks, before the softmax: their mean.
    density : array, (n,)
        How similar a row is to its neighbours in the first attention layer, (3): the mean of heads and
        networks.
    """

    distributions: Array
    embedding: Array
    density: Array

    def averaged(self, groups: Array) -> Evaluation:
        """Give the rows of a group the mean of what they have."""
        rows = np.flatnonzero(np.bincount(groups, minlength=1)[groups] > 1)
        if len(rows) == 0:
            return self
        _, numbers = np.unique(groups[rows], return_inverse=True)
        copies = [each.copy() for each in self]
        for each in copies:
            each[rows] = _means(each[rows].reshape(len(rows), -1), numbers).reshape(each[rows].shape)
        return Evaluation(*copies)


@dataclass(frozen=True, eq=False)
class Combined:
    """How the candidates are combined, and what new rows need of the fitted ones for it.

    Attributes
    ----------
    stack : Stack
        Which candidates count, and how much.
    models : mapping of str to Model
        The experts that it needs, by name.
    fitted : mapping of Candidate to array, (n, c)
        The fitted rows' values of the smooth candidates that it needs.
    potentials : mapping of str to array, (n, c)
        Poisson learning's, by the name of the expert, as far as they are needed, and the scores of the linear
        model of surroundings.
    factors : array, (c,), or None
        What a class prior multiplies the classes with.
    """

    stack: Stack
    models: Mapping[str, Model]
    fitted: Mapping[Candidate, Array]
    potentials: Mapping[str, Array] = field(default_factory=dict)
    factors: Array | None = None

    def finish(self, opinions: Sequence[Array], scratch: Scratch = IN_MEMORY) -> Array:
        """Return the distributions (n, c) that follow from the candidates' opinions."""
        finished = scratch.empty(opinions[0].shape, torch.float64).numpy()
        for start in range(0, len(finished), _BATCH):
            block = slice(start, start + _BATCH)
            mixed = self.stack.combine([np.asarray(each[block], dtype=np.float64) for each in opinions])
            if self.factors is not None:
                mixed = mixed * self.factors
            finished[block] = mixed / mixed.sum(1, keepdims=True)
        return finished

    def for_new(self, features: Tensor, networks: Array, neighbors: Neighbors, plain: Neighbors) -> Array:
        """Return the distributions of new rows.

        Parameters
        ----------
        features : Tensor, (q, d)
            Scaled, without the column of ones.
        networks : array, (q, c)
            What the networks say.
        neighbors, plain : Neighbors, (q, k)
            Their nearest fitted rows, and those by plain distance.
        """
        around = {
            name: (each.indices.numpy(), similarities_of(each))
            for name, each in (("plain-poisson", plain), ("", neighbors))
        }
        priors = {name: model.predict(features)[:, 0].double().numpy() for name, model in self.models.items()}
        priors |= {"networks": networks, "laplace": np.full_like(networks, 1 / networks.shape[1])}
        for name, potentials in self.potentials.items():
            indices, similarities = around.get(name, around[""])
            own = smooth_new(similarities, potentials[indices], np.zeros_like(networks), 0.0)
            if name == AROUND:
                priors[name] = softmax(own, axis=1)
                continue
            usual = usual_potential(torch.from_numpy(potentials)[:, None])
            priors[name] = potential_distributions(torch.from_numpy(own)[:, None], usual)[:, 0].numpy()
        opinions = []
        for candidate in self.stack.candidates:
            opinions.append(priors[candidate.expert])
            if candidate.strength < np.inf:
                indices, similarities = around.get(candidate.expert, around[""])
                fitted = self.fitted[candidate][indices]
                opinions[-1] = smooth_new(similarities, fitted, opinions[-1], candidate.strength)
        return self.finish(opinions)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks and experts that were fitted to some rows.

    Attributes
    ----------
    scaling : Scaling
        The scale that the columns got.
    features : Tensor, (n, d + 1)
        The fitted rows, scaled, with a column of ones.
    hypergraph : Hypergraph
        The hypergraph of the fitted rows.
    k : int
        Neighbours of a new row.
    radius : Tensor, (n,), or None
        How far the members of each fitted row's hyperedge reach; new rows within it join.
    scales : Tensor, (n,), or None
        μ of the fitted rows, if neighbours are chosen by local scale.
    networks : tuple of DAHGNN
        On the CPU.
    combined : Combined
        How networks and experts are combined.
    fitted : Evaluation
        What the ensemble says of the fitted rows.
    """

    scaling: Scaling
    features: Tensor
    hypergraph: Hypergraph
    k: int
    radius: Tensor | None
    scales: Tensor | None
    networks: tuple[DAHGNN, ...]
    combined: Combined
    fitted: Evaluation

    @cached_property
    def inductions(self) -> list[Induction]:
        """What the networks computed for the fitted rows, and how new ones join."""
        return [Induction(network, self.features, self.hypergraph, self.radius) for network in self.networks]

    @cached_property
    def search(self) -> NeighborSearch:
        """The search for the neighbours of new rows."""
        plain = build_search(self.features)
        return plain if self.scales is None else LocalScale(plain, self.scales)

    @cached_property
    def _known(self) -> Evaluation:
        """What fitted rows have; equal rows, which only a hypergraph of one's own tells apart, the mean."""
        return self.fitted.averaged(equal_rows(self.features))

    def evaluate(self, rows: Array) -> Evaluation:
        """Say of each row (q, d) what follows from the fitted ones; a fitted row has what the fit gave it."""
        features = self.scaling.apply(rows)
        parts = [self._evaluate(features[start : start + _BATCH]) for start in range(0, len(rows), _BATCH)]
        return Evaluation(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _evaluate(self, features: Tensor) -> Evaluation:
        k = min(self.k, len(self.features))
        if isinstance(self.search, LocalScale):
            found, plain = self.search.query_both(features, k)
        else:
            found = plain = self.search.query(features, k)
        several = evaluate_all(self.inductions, features, found)
        logits = np.stack([each.double().numpy() for each, _ in several])
        density = np.mean([each.double().numpy() for _, each in several], 0)
        networks = softmax(logits, axis=2).mean(0)
        distributions = self.combined.for_new(features[:, :-1], networks, found, plain)
        new = Evaluation(distributions, logits.mean(0), density)
        nearest = found.indices[:, 0]
        far = (features - self.features[nearest]).norm(dim=1) > _ROUNDING * features.norm(dim=1)
        equal, rows = (~far).numpy(), nearest[~far].numpy()
        for here, known in zip(new, self._known, strict=True):
            here[equal] = known[rows]
        return new


def equal_rows(features: Tensor) -> Array:
    """Return a number for each row (n, d), the same for equal rows, in the order in which they first occur.

    Examples
    --------
    >>> equal_rows(torch.tensor([[2.0, 1.0], [0.0, 0.0], [2.0, 1.0]])).tolist()
    [0, 1, 0]
    """
    _, first, number = np.unique(hash_rows(features), return_index=True, return_inverse=True)
    again = np.flatnonzero(first[number] != np.arange(len(features)))
    there = first[number[again]]
    for some in np.array_split(np.arange(len(again)), 1 + len(again) // _BATCH):
        if not torch.equal(features[again[some]], features[there[some]]):  # chance gave two rows one key
            places: dict[bytes, int] = {}
            return np.array([places.setdefault(row.tobytes(), len(places)) for row in features.numpy()])
    rank = np.empty(len(first), dtype=np.int64)
    rank[first.argsort()] = np.arange(len(first))
    return rank[number]


def _means(values: Array, groups: Array) -> Array:
    """Give the rows of a group the mean of what they have: nothing but their number tells them apart."""
    counts = np.bincount(groups)
    first = values[np.unique(groups, return_index=True)[1]]
    sums = np.zeros_like(first)
    np.add.at(sums, groups, values - first[groups])  # so that equal values stay what they are
    return np.asarray((first + sums / counts[:, None])[groups])


def mean_distributions(
    logits: Sequence[Tensor], groups: Sequence[Sequence[int]], scratch: Scratch = IN_MEMORY
) -> list[Array]:
    """Return the mean distribution of each group of networks, (n, c), in double precision.

    Parameters
    ----------
    logits : sequence of Tensor, (n, c)
        What each network says.
    groups : sequence of sequence of int
        The numbers of the networks of each group.
    scratch : Scratch
        Where the means are kept.
    """
    means = [scratch.empty(tuple(logits[0].shape), torch.float64) for _ in groups]
    for block in _blocks(len(logits[0])):
        several = [each[block].double().softmax(1) for each in logits]
        for mean, group in zip(means, groups, strict=True):
            mean[block] = torch.stack([several[number] for number in group]).mean(0)
    return [mean.numpy() for mean in means]


def mean_logits(logits: Sequence[Tensor], scratch: Scratch = IN_MEMORY) -> Array:
    """Return the mean of the networks' logits, (n, c), in double precision."""
    mean = scratch.empty(tuple(logits[0].shape), torch.float64)
    for block in _blocks(len(mean)):
        mean[block] = torch.stack([each[block].double() for each in logits]).mean(0)
    return mean.numpy()


def _blocks(rows: int) -> list[slice]:
    return [slice(start, start + _BATCH) for start in range(0, rows, _BATCH)]
