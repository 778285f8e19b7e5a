"""Train the networks of an ensemble side by side, in stages, until held-out labels tell that it is enough.

After each stage every network is judged by the labels that it has not seen, all together. The stage with the
least loss stays. One choice by all labels, among a few stages, is hardly better on these labels than on
others, so that what is said of them stays true. The best epoch of each network, chosen by its own few labels,
would not be.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import MOST_NETWORKS, bad_value, check_count
from dahgnn.config import PRESETS
from dahgnn.nn.model import DAHGNN
from dahgnn.threads import side_by_side
from dahgnn.training.splits import Split
from dahgnn.training.updates import Update, Updates

Array = NDArray[Any]

# The first stage has so many epochs; each further one ends at so many times as many as the last.
_FIRST, _TIMES = 4, 3
# Epochs at the most if there are no held-out labels, because the labels are very few.
_MOST_UNJUDGED = 12
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
        Mean cross-entropy of the labels that it trains with, with dropout.
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
    check_count("networks", networks, "DAHGNNClassifier", high=MOST_NETWORKS)
    return int(networks)


def stage_ends(max_epochs: int) -> list[int]:
    """Return the epochs after which the networks are judged.

    Examples
    --------
    >>> stage_ends(28)
    [4, 12, 28]
    """
    ends = [_FIRST]
    while ends[-1] < max_epochs:
        ends.append(_TIMES * ends[-1])
    return [*ends[:-1], max_epochs]


def train_in_stages(
    networks: Sequence[DAHGNN],
    trainings: Sequence[Updates],
    splits: Sequence[Split],
    labels: Tensor,
    max_epochs: int,
    listen: Callable[[int, Update], None],
    workers: int = 1,
) -> Trained:
    """Train networks in place; they end with the weights of the best stage.

    Parameters
    ----------
    networks : sequence of DAHGNN
        As they were made.
    trainings : sequence of Updates
        The training of each of them.
    splits : sequence of Split
        What each network trains with, and what it does not see.
    labels : Tensor of int64, (n,)
        Read at the rows of the splits alone.
    max_epochs : int
        At the end of the last stage.
    listen : callable
        Called with the number of a network and what is known of it after an update.
    workers : int
        Networks that train at a time, each in a thread of its own.

    Raises
    ------
    ValueError
        If the loss of the first stage is not finite.
    """
    judged = any(len(split.validation) for split in splits)
    history: list[TrainingStage] = []
    best: _Best | None = None
    before, interrupted = 0, False
    for end in stage_ends(max_epochs if judged else min(max_epochs, _MOST_UNJUDGED)):
        results, interrupted = _train_stage(trainings, end - before, listen, workers)
        if not results and best is None:
            raise KeyboardInterrupt
        history += [
            _describe(number, result, labels, splits[number].validation)
            for number, result in enumerate(results)
        ]
        if interrupted and best is not None:
            break
        loss = _pooled_loss(history[-len(results) :], splits)
        if best is None:
            _check_finite(loss)
        elif not loss < best.loss:
            break
        best = _Best.of(loss, networks, results)
        if interrupted:
            break
        before = end
    assert best is not None  # noqa: S101, there is a first stage
    with torch.no_grad():
        for network, state in zip(networks, best.states, strict=True):
            torch._foreach_copy_(list(network.parameters()), state)
    return Trained(best.logits, history, best.epochs, interrupted)


@dataclass(frozen=True, eq=False)
class _Best:
    """The stage with the least loss so far: its weights, and what the networks said then."""

    loss: float
    epochs: int
    states: list[list[Tensor]]
    logits: list[Tensor]

    @classmethod
    def of(cls, loss: float, networks: Sequence[DAHGNN], results: Sequence[_Result]) -> _Best:
        states = [[weight.detach().clone() for weight in network.parameters()] for network in networks]
        epochs = max(result.last.epoch for result in results)
        return cls(loss, epochs, states, [result.logits for result in results])


class _Result(NamedTuple):
    """A network at the end of a stage."""

    last: Update
    logits: Tensor


def _train_stage(
    trainings: Sequence[Updates], epochs: int, listen: Callable[[int, Update], None], workers: int
) -> tuple[list[_Result], bool]:
    """Train the networks for so many epochs more; return what they give, and whether Ctrl-C ended it."""
    stop, one_at_a_time = threading.Event(), threading.Lock()

    def tell(number: int, update: Update) -> None:
        with one_at_a_time:
            if stop.is_set():
                raise KeyboardInterrupt
            listen(number, update)

    def train(number: int) -> _Result | None:
        if stop.is_set():
            return None
        try:
            last = trainings[number].advance(epochs, partial(tell, number))
            result = _Result(last, trainings[number].evaluate())
        except KeyboardInterrupt:
            stop.set()
            return None
        except BaseException:
            stop.set()
            raise
        if last.interrupted:
            stop.set()
        return result

    _begin_stage(trainings if workers == 1 else (), epochs, stop)
    results = side_by_side(train, len(trainings), workers, stop.set)
    return list(itertools.takewhile(lambda result: result is not None, results)), stop.is_set()  # type: ignore[arg-type]


def _begin_stage(trainings: Sequence[Updates], epochs: int, stop: threading.Event) -> None:
    """Let a device begin with all networks before the host waits for the first; Ctrl-C stops them."""
    try:
        for training in trainings:
            training.begin(epochs)
    except KeyboardInterrupt:
        stop.set()


def _describe(number: int, result: _Result, labels: Tensor, held: Tensor) -> TrainingStage:
    loss = accuracy = math.nan
    if len(held):
        rows, own = held.numpy(), labels[held].numpy()
        # In NumPy, which is done with so few rows before torch's threads are awake.
        scores = result.logits.numpy()[rows].astype(np.float64)
        with np.errstate(invalid="ignore"):  # a training that failed is told of by its loss
            scores -= scores.max(1, keepdims=True)
            chances = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        loss = float(-np.maximum(chances[np.arange(len(rows)), own], math.log(1e-12)).mean())
        accuracy = float((chances.argmax(1) == own).mean())
    return TrainingStage(
        network=number,
        epoch=result.last.epoch,
        train_loss=result.last.train_loss,
        validation_loss=loss,
        validation_accuracy=accuracy,
    )


def _pooled_loss(stages: Sequence[TrainingStage], splits: Sequence[Split]) -> float:
    """Return the mean loss of all held-out labels; without any, minus the epochs: the last stage is best.

    It is not a number if a training has failed.
    """
    if not all(math.isfinite(stage.train_loss) for stage in stages):
        return math.nan
    counts = np.array([len(split.validation) for split in splits[: len(stages)]])
    if not counts.any():
        return -float(stages[0].epoch)
    losses = np.array([stage.validation_loss for stage in stages])
    return float(counts[counts > 0] @ losses[counts > 0] / counts.sum())


def _check_finite(loss: float) -> None:
    """Refuse a first stage whose loss is not finite."""
    if not math.isfinite(loss):
        raise ValueError(
            "The loss of the networks must stay finite. Got nan or inf. Scale the features first, to mean 0 "
            "and deviation 1, say."
        )
