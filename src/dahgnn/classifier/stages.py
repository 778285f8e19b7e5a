"""Train the networks of an ensemble side by side, in stages, until held-out labels tell that it is enough.

After each stage every network is judged by the labels that it has not seen, all together. The stage with the
least loss stays. One choice by all labels, among a few stages, is hardly better on these labels than on
others, so that what is said of them stays true. The best epoch of each network, chosen by its own few labels,
would not be.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import bad_value, check_count
from dahgnn.config import PRESETS
from dahgnn.nn.model import DAHGNN
from dahgnn.training.fit import FitResult
from dahgnn.training.splits import Split

Array = NDArray[Any]

# The first stage has so many epochs; each further one ends at twice as many as the last.
_FIRST = 8
# Epochs at the most if there are no held-out labels, because the labels are very few.
_MOST_UNJUDGED = 32
# Up to so many rows "auto" takes several networks: some minutes on two cores.
_ROWS_FOR_SEVERAL = 20_000


@dataclass(frozen=True, kw_only=True)
class TrainingStage:
    """What is known of one network at the end of a stage.

    Attributes
    ----------
    network, epoch : int
        Its number, and how many epochs it was trained.
    train_loss : float
        Mean cross-entropy of the labels that it trains with.
    validation_loss, validation_accuracy : float
        The same, and the share of correct ones, of the labels that it has not seen; NaN if there are none.
    """

    network: int
    epoch: int
    train_loss: float
    validation_loss: float
    validation_accuracy: float


@dataclass(frozen=True, eq=False)
class Trained:
    """Networks at the end of their best stage.

    Attributes
    ----------
    logits : list of Tensor, (n, c)
        What each network says of all rows.
    history : list of TrainingStage
        What was known after every stage of every network.
    epochs : int
        How many epochs the networks of the best stage were trained.
    interrupted : bool
        Whether Ctrl-C ended the training.
    """

    logits: list[Tensor]
    history: list[TrainingStage]
    epochs: int
    interrupted: bool


def count_networks(networks: int | str, n: int) -> int:
    """Return how many networks a fit of n rows has, for the parameter ``networks``."""
    if isinstance(networks, str):
        if networks != "auto":
            expected = "a number of networks, or 'auto'"
            raise bad_value("networks", "DAHGNNClassifier", expected, repr(networks))
        return PRESETS["default"].networks if n <= _ROWS_FOR_SEVERAL else 1
    check_count("networks", networks, "DAHGNNClassifier")
    return int(networks)


def stage_ends(max_epochs: int) -> list[int]:
    """Return the epochs after which the networks are judged.

    Examples
    --------
    >>> stage_ends(100)
    [8, 16, 32, 64, 100]
    """
    ends = [_FIRST]
    while ends[-1] < max_epochs:
        ends.append(2 * ends[-1])
    return [*ends[:-1], max_epochs]


def train_in_stages(
    networks: Sequence[DAHGNN],
    splits: Sequence[Split],
    labels: Tensor,
    max_epochs: int,
    train: Callable[[int, Split, int], FitResult],
) -> Trained:
    """Train networks in place; they end with the weights of the best stage.

    Parameters
    ----------
    networks : sequence of DAHGNN
        As they were made.
    splits : sequence of Split
        What each network trains with, and what it does not see.
    labels : Tensor of int64, (n,)
        Read at the rows of the splits alone.
    max_epochs : int
        At the end of the last stage.
    train : callable
        Trains a network, by its number, with the training rows of a split for so many epochs more.
    """
    if not any(len(split.validation) for split in splits):
        max_epochs = min(max_epochs, _MOST_UNJUDGED)
    history: list[TrainingStage] = []
    best: _Best | None = None
    before, interrupted = 0, False
    for end in stage_ends(max_epochs):
        results, interrupted = _train_stage(splits, end - before, train)
        if not results and best is None:
            raise KeyboardInterrupt
        history += [
            _describe(number, end, result, labels, splits[number].validation)
            for number, result in enumerate(results)
        ]
        if interrupted and best is not None:
            break
        loss = _pooled_loss(history[-len(results) :], splits)
        if best is not None and not loss < best.loss:
            break
        best = _Best.of(loss, end, networks, results)
        if interrupted:
            break
        before = end
    assert best is not None  # noqa: S101, there is a first stage
    for network, state in zip(networks, best.states, strict=True):
        network.load_state_dict(state)
    return Trained(best.logits, history, best.epochs, interrupted)


@dataclass(frozen=True, eq=False)
class _Best:
    """The stage with the least loss so far: its weights, and what the networks said then."""

    loss: float
    epochs: int
    states: list[dict[str, Tensor]]
    logits: list[Tensor]

    @classmethod
    def of(cls, loss: float, epochs: int, networks: Sequence[DAHGNN], results: Sequence[FitResult]) -> _Best:
        states = [copy.deepcopy(network.state_dict()) for network in networks]
        return cls(loss, epochs, states, [result.embedding for result in results])


def _train_stage(
    splits: Sequence[Split], epochs: int, train: Callable[[int, Split, int], FitResult]
) -> tuple[list[FitResult], bool]:
    """Train the networks for so many epochs more; return what they give, and whether Ctrl-C ended it."""
    results: list[FitResult] = []
    try:
        for number, split in enumerate(splits):
            results.append(train(number, Split(train=split.train, validation=[], test=[]), epochs))
            if results[-1].stopped == "interrupted":
                return results, True
    except KeyboardInterrupt:  # before the first epoch of a network, which then has nothing to give
        return results, True
    return results, False


def _describe(number: int, end: int, result: FitResult, labels: Tensor, held: Tensor) -> TrainingStage:
    loss = accuracy = math.nan
    if len(held):
        chances = result.probabilities[held, labels[held]].double().clamp_min(1e-12)
        loss = float(-chances.log().mean())
        accuracy = float((result.predictions[held] == labels[held]).double().mean())
    return TrainingStage(
        network=number,
        epoch=end,
        train_loss=result.history[-1].train_loss,
        validation_loss=loss,
        validation_accuracy=accuracy,
    )


def _pooled_loss(stages: Sequence[TrainingStage], splits: Sequence[Split]) -> float:
    """Return the mean loss of all held-out labels; without any, minus the epochs: the last stage is best."""
    counts = np.array([len(split.validation) for split in splits[: len(stages)]])
    if not counts.any():
        return -float(stages[0].epoch)
    losses = np.array(
        [0.0 if math.isnan(stage.validation_loss) else stage.validation_loss for stage in stages]
    )
    return float(counts @ losses / counts.sum())
