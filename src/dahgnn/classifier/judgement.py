"""How right an ensemble is, told by labels that nobody who judges them has seen.

Every label is held out once if there are five networks. Those that have not seen it, and experts that were
fitted without it, give their opinions, and the weights of the combination come from other labels, too.

Four things would still bend the result:

- The opinions on those other labels come from models that have seen the label, so that the weights know a
  part of it: see `as_if_unseen`. That part counts as far as labels agree by chance.
- The labelled rows may have other shares of the classes than all rows have. So classes count by the shares
  that they have in the mean distribution.
- Each opinion has been formed without a fifth of the labels, and by one network in place of five. How much
  that costs is told by rows without a label, whose classes it makes less likely.
- Distributions can say more than is true, as on noise. So that cost counts as far as held-out labels bear out
  what the distributions say: see `add_gain`.

How strongly an expert is penalised, and how long the networks train, is chosen once by all labels. That bends
the result by less than can be measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.known import Known
from dahgnn.classifier.stacking import Candidate, Stack, learn_stack

Array = NDArray[Any]

# Of the normal distribution, for 95 % on both sides.
_QUANTILE = 1.959964
# Random parts of held-out labels by which a combination is judged if all of them are in one fold.
_PARTS = 5
# Held-out labels are judged together by models of the same labels, and err together. So many of them tell as
# much as one that is judged alone. The interval then held the truth in 905 of 944 fits to tables, 95.9 %
# (docs/notes/default.md).
_TOGETHER = 2.0
# Held-out labels that an accuracy can be told from, and the greatest share of rows in classes without any.
_FEWEST, _MOST_UNJUDGED = 6, 0.1


@dataclass(frozen=True)
class Estimate:
    """An accuracy, and where it lies with 95 % confidence.

    Attributes
    ----------
    accuracy, low, high : float
        Between 0 and 1.
    n : int
        Labels that it is told from.
    """

    accuracy: float
    low: float
    high: float
    n: int


def count_held_out(known: Known, places: Array) -> Array:
    """Return how much each held-out label counts: one that is held out twice, half each time."""
    return np.asarray(known.weights[places] / np.bincount(places, minlength=len(known.rows))[places])


def learn_without(
    candidates: Sequence[Candidate],
    held: Sequence[Array],
    known: Known,
    unseen: Array | None = None,
    near: Stack | None = None,
) -> Stack:
    """Learn a combination from all held-out labels but some.

    Parameters
    ----------
    candidates : sequence of Candidate
        All there are.
    held : sequence of array, (h, c)
        What each says of the held-out labels, fold by fold.
    known : Known
        The labels.
    unseen : array of int, optional
        Places of labels that the combination must not see, in whatever fold they are held out.
    near : Stack, optional
        Where to begin, see `learn_stack`.
    """
    places = np.concatenate([np.empty(0, np.int64), *known.held_places])
    train = np.isin(places, [] if unseen is None else unseen, invert=True)
    counts = count_held_out(known, places)
    said, labels = [each[train] for each in held], known.labels[places][train]
    return learn_stack(candidates, said, labels, counts[train], near)


class Judged(NamedTuple):
    """What combinations say of held-out rows.

    Attributes
    ----------
    rows : array of int, (h,)
        The rows, ascending, each once.
    said : array, (h, c)
        By combinations that have not seen the row's label.
    known : array, (h, c)
        By the combination of all labels; its opinions, too, were formed without the row's label.
    """

    rows: Array
    said: Array
    known: Array


def judge_held_out(
    candidates: list[Candidate],
    held: list[Array],
    known: Known,
    places: Array,
    whole: Stack,
    factors: Array | None = None,
) -> Judged:
    """Return what is said of the held-out rows by combinations that have not seen their labels, and by all.

    Parameters
    ----------
    candidates : list of Candidate
        All there are.
    held : list of array, (h, c)
        What each says of the held-out labels, fold by fold.
    known : Known
        The labels.
    places : array of int, (h,)
        Which labels these are; one may be held out several times.
    whole : Stack
        The combination of all labels.
    factors : array, (c,), optional
        What a class prior multiplies the classes with.
    """
    if len(places) == 0:
        nothing = np.empty((0, known.n_classes))
        return Judged(np.empty(0, np.int64), nothing, nothing)
    parts = np.repeat(np.arange(len(known.folds)), [len(fold) for fold in known.folds])
    if len(known.folds) == 1:
        parts = np.random.default_rng(0).permutation(len(places)) % _PARTS
    said = np.empty((len(places), known.n_classes))
    for part in np.unique(parts):
        test = parts == part
        stack = learn_without(candidates, held, known, places[test], whole)
        said[test] = _apply(stack, candidates, [each[test] for each in held])
    rows, place = np.unique(places, return_inverse=True)
    both = [_average(each, place, factors) for each in (said, _apply(whole, candidates, held))]
    return Judged(known.rows[rows], *both)


def _average(said: Array, place: Array, factors: Array | None) -> Array:
    """Return the mean of what is said of each row, (h, c), with the factors of a class prior."""
    if factors is not None:
        said = said * factors
        said /= said.sum(1, keepdims=True)
    counts = np.bincount(place)
    sums = np.zeros((len(counts), said.shape[1]))
    np.add.at(sums, place, said)
    return np.asarray(sums / counts[:, None])


def _apply(stack: Stack, candidates: list[Candidate], opinions: list[Array]) -> Array:
    return stack.combine([opinions[candidates.index(candidate)] for candidate in stack.candidates])


def without_weights(distributions: Array, known: Known) -> Array:
    """Return the distributions as if all labels had counted alike, (n, c).

    A class whose labels count three times as much as those of others is three times as likely in the
    distributions as it should be, which would bend what follows from them.
    """
    counts = np.bincount(known.labels, minlength=known.n_classes)
    sums = np.bincount(known.labels, weights=known.weights, minlength=known.n_classes)
    even = distributions * (counts / np.where(counts > 0, sums, 1))
    return np.asarray(even / even.sum(1, keepdims=True))


class Claim(NamedTuple):
    """How many rows without a label are right by some of the labels and by all, as distributions have it."""

    some: float
    every: float


def claim_accuracy(whole: Array, parts: Sequence[Array], likely: Array) -> Claim:
    """Return how many rows would be right by all labels and by some, if the distributions were true.

    Parameters
    ----------
    whole : array, (s, c)
        The final distributions of some rows without a label.
    parts : sequence of array, (s, c)
        What is said of them without some of the labels.
    likely : array, (s, c)
        What is held for true of them: ``whole``, without the weights of labels.
    """
    if not (len(whole) and len(parts)):
        return Claim(1.0, 1.0)
    final = whole.argmax(1)[:, None]
    chosen = np.stack([part.argmax(1) for part in parts], 1)  # (s, parts)
    some, every = (np.take_along_axis(likely, each, 1).mean() for each in (chosen, final))
    return Claim(float(some), float(every))


def add_gain(accuracy: float, claim: Claim, n_classes: int) -> float:
    """Add to an accuracy by some of the labels what all labels gain.

    Above chance, 1 / c, the gain is the same part of what is right as of what the distributions claim. So
    nothing is added to what is no better than chance, whatever is claimed. What is claimed is the most that
    is added.
    """
    chance = 1 / n_classes
    true = (accuracy - chance) / (claim.some - chance) if claim.some > chance else 0.0
    return accuracy + float(np.clip(true, -1, 1)) * (claim.every - claim.some)


def as_if_unseen(without: float, within: float) -> float:
    """Return how many held-out labels would be right by combinations that know nothing of them.

    Combinations that have not seen a label themselves know it by half. Their weights come from opinions on
    other labels by models that have seen this one. And what the label tells a model of another label is what
    the other tells of it: Σ_j K_ij y_j is what a linear smoother says of i, and to learn the weights of such
    smoothers from all labels is to look at each pair y_i K_ij y_j twice. Without the opinion on i one looks
    at it once, so that a half of what i teaches remains. The other half is what is seen to be lost, and is
    taken off once more.

    Parameters
    ----------
    without, within : float
        The share of the labels that is right by combinations that have not seen them, and by that of all.
    """
    return 2 * without - within


def share_of_chance(accuracy: float, n_classes: int) -> float:
    """Return how near an accuracy is to that of chance: 1 where it is no better, and 0 where all is right.

    Examples
    --------
    >>> share_of_chance(0.5, 2), share_of_chance(0.75, 2), share_of_chance(1.0, 2)
    (1.0, 0.5, 0.0)
    """
    return min(1.0, (1 - accuracy) / (1 - 1 / n_classes))


def estimate_accuracy(known: Known, judged: Judged, distributions: Array, claim: Claim) -> Estimate | None:
    """Estimate how many of the unlabelled rows are right.

    Parameters
    ----------
    known : Known
        The labels.
    judged : Judged
        What is said of held-out rows.
    distributions : array, (n, c)
        The probabilities of all rows, without the weights of labels.
    claim : Claim
        How much more is right than what is said of the held-out rows, as distributions have it.
    """
    n = len(judged.rows)
    if n < _FEWEST:
        return None
    labels = known.labels[np.searchsorted(known.rows, judged.rows)]
    # Not the shares of the labels: who calls all rows the same is right in all of that class.
    shares = distributions.mean(0)
    if shares[np.bincount(labels, minlength=len(shares)) == 0].sum() > _MOST_UNJUDGED:
        return None
    without, within = (
        _weigh_classes(said.argmax(1) == labels, labels, shares) for said in (judged.said, judged.known)
    )
    # Labels that agree for a reason agree with those that nobody has seen, too: that is no leak.
    leak = share_of_chance(without, known.n_classes) if known.judge_each_other else 0.0
    unseen = (1 - leak) * without + leak * as_if_unseen(without, within)
    accuracy = min(max(add_gain(unseen, claim, known.n_classes), 0.0), 1.0)
    low, high = wilson_interval(accuracy, _count_effective(known, labels, distributions))
    return Estimate(accuracy=accuracy, low=low, high=high, n=n)


def _count_effective(known: Known, labels: Array, distributions: Array) -> float:
    """Return how many labels tell as much as the held-out ones, if judged one by one and counting alike."""
    shares = distributions.mean(0)
    weights = shares[labels] / np.bincount(labels, minlength=len(shares))[labels]
    effective = weights.sum() ** 2 / (weights**2).sum() if weights.any() else len(labels)
    effective /= _TOGETHER
    others = len(distributions) - len(known.rows)
    if others:  # of which more or fewer may be right than such rows are in the mean
        effective = 1 / (1 / effective + 1 / others)
    return float(effective)


def wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's (1927) interval of 95 % confidence for a share that n draws had."""
    square = _QUANTILE**2 / n
    centre = share + square / 2
    half = math.sqrt(share * (1 - share) * square + square**2 / 4)
    low, high = (centre - half) / (1 + square), (centre + half) / (1 + square)
    # Rounding may take an end to the wrong side of the share.
    return max(0.0, min(low, share)), min(1.0, max(high, share))


def _weigh_classes(right: Array, labels: Array, shares: Array) -> float:
    """Return the share that is right if classes occur with these shares; one without a label is left out.

    If none is left, labels count as they are.
    """
    counts = np.bincount(labels, minlength=len(shares))
    recalls = np.bincount(labels, weights=right, minlength=len(shares)) / np.maximum(counts, 1)
    shares = np.where(counts > 0, shares, 0)
    return float(shares @ recalls / shares.sum()) if shares.sum() > 0 else float(right.mean())
