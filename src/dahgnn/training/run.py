"""What every training loop knows of a run: its network, its labelled nodes and its epochs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor, nn


class Classifier(Protocol):
    """A module that gives logits (n, n_classes) for features (n, in_features) on a hypergraph."""

    in_features: int
    n_classes: int


class Labelled(NamedTuple):
    """Labelled nodes, on the device.

    Attributes
    ----------
    nodes, labels : Tensor of int64, (s,)
        The nodes and their classes.
    weights : Tensor, (s,), or None
        How much each node counts; None if all count the same.
    """

    nodes: Tensor
    labels: Tensor
    weights: Tensor | None = None


class Parts(NamedTuple):
    """The labelled nodes of a run: those that train and those that choose the epoch."""

    train: Labelled
    validation: Labelled


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What is known of the network after so many updates.

    Attributes
    ----------
    epoch : int
        Number of updates; 0 is the network as it was given.
    train_loss, validation_loss : float
        Mean cross-entropy.
    train_accuracy, validation_accuracy : float
        Share of nodes classified correctly.
    best_epoch : int
        The epoch of the lowest validation loss so far.
    seconds : float
        Time since the start of the fit.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    train_accuracy: float
    validation_accuracy: float
    best_epoch: int
    seconds: float


class Run:
    """One network in training: what happened so far, and its best weights."""

    def __init__(
        self,
        number: int,
        model: nn.Module,
        parts: Parts,
        seed: int,
        callback: Callable[[int, Epoch], None] | None,
    ) -> None:
        self.number, self.model, self.parts, self.seed, self.callback = number, model, parts, seed, callback
        self.history: list[Epoch] = []
        self.best: dict[str, Tensor] | None = None
        self.start = time.perf_counter()

    def note(self, rows: list[list[float]]) -> list[Epoch]:
        """Add epochs to the history and return them."""
        for train_loss, loss, train_accuracy, validation_accuracy in rows:
            epoch = len(self.history)
            best = self.history[-1].best_epoch if self.history else 0
            better = not self.history or loss < self.history[best].validation_loss
            self.history.append(
                Epoch(
                    epoch=epoch,
                    train_loss=train_loss,
                    validation_loss=loss,
                    train_accuracy=train_accuracy,
                    validation_accuracy=validation_accuracy,
                    best_epoch=epoch if better else best,
                    seconds=time.perf_counter() - self.start,
                )
            )
        return self.history[len(self.history) - len(rows) :]

    def tell(self, epochs: list[Epoch]) -> None:
        """Call the callback, if there is one, with each of these epochs."""
        if self.callback is not None:
            for epoch in epochs:
                self.callback(self.number, epoch)
