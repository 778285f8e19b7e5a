"""The training loop on a CUDA device: one captured graph an epoch, and a host that rarely looks.

Validation loss, best weights and the decision to stop live on the device. What comes out is what the plain
loop of `training` gives on the same device: the same losses, the same epoch, the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dahgnn import kernels_gpu, kernels_training
from dahgnn.config import TrainingConfig
from dahgnn.kernels_training import Adam, Record

# Epochs between two looks of the host; those behind the stop are computed in vain.
_EPOCHS_AT_ONCE = 20
# Passes before the capture, in which libraries make their plans and kernels are compiled.
_WARM_UP = 3


class Labelled(NamedTuple):
    """Nodes and their labels, on the device."""

    nodes: Tensor
    labels: Tensor


def score(logits: Tensor, labelled: Labelled) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy and the accuracy at labelled nodes."""
    if kernels_gpu.supports(logits) and logits.is_cuda:
        loss, accuracy = kernels_training.score(logits, *labelled).sum(0) / len(labelled.nodes)
        return loss, accuracy
    chosen = logits.index_select(0, labelled.nodes)
    correct = chosen.argmax(1) == labelled.labels
    return cross_entropy(chosen, labelled.labels), correct.float().mean()


def backward(logits: Tensor, labelled: Labelled) -> None:
    """Compute the gradients of the mean cross-entropy at labelled nodes."""
    if kernels_gpu.supports(logits) and logits.is_cuda:
        logits.backward(kernels_training.score_gradient(logits.detach(), *labelled))
    else:
        cross_entropy(logits.index_select(0, labelled.nodes), labelled.labels).backward()


def make_optimizer(model: nn.Module, config: TrainingConfig) -> Adam:
    """Return the Adam of the CUDA device, its schedule included."""
    return Adam(
        list(model.parameters()),
        rate=config.learning_rate,
        decay=config.decay,
        decay_every=config.decay_every,
        weight_decay=config.weight_decay,
    )


class GraphLoop:
    """Train a network by replaying a captured epoch.

    Parameters
    ----------
    model : nn.Module
        On a CUDA device; ends with the weights of the lowest validation loss.
    logits : callable
        Computes the logits of the model, in its present mode and with its present weights.
    train, validation : Labelled
        Nodes that train and nodes that choose the epoch.
    config : TrainingConfig
        The schedule.
    one_pass : bool
        Whether the logits of the training pass are also those of the evaluation.
    """

    def __init__(
        self,
        model: nn.Module,
        logits: Callable[[], Tensor],
        train: Labelled,
        validation: Labelled,
        config: TrainingConfig,
        *,
        one_pass: bool,
    ) -> None:
        self.model, self.logits, self.config, self.one_pass = model, logits, config, one_pass
        self.train, self.validation = train, validation
        self.optimizer = make_optimizer(model, config)
        self.first = [weight.detach().clone() for weight in self.optimizer.weights]
        self.record = Record(
            self.optimizer.epoch,
            self.optimizer.better,
            patience=config.patience,
            max_epochs=config.max_epochs,
            rows=config.max_epochs + 1 + _EPOCHS_AT_ONCE,
            like=self.first[0],
        )

    def run(self, report: Callable[[int, list[list[float]]], None]) -> str:
        """Train and return why it ended; ``report`` gets the first of some new epochs and their rows."""
        graph = self._capture()
        seen = 0
        while True:
            for _ in range(_EPOCHS_AT_ONCE):
                graph.replay()
            running, last = bool(self.record.running), int(self.record.last_epoch)
            rows = self.record.history[seen : last + 1].tolist()
            finite = all(math.isfinite(row[0] + row[1]) for row in rows)
            report(seen, rows if finite else rows[:-1])
            if not running:
                patient = last - int(self.record.best_epoch) < self.config.patience
                return "diverged" if not finite else "max_epochs" if patient else "patience"
            seen = last + 1

    def restore_best(self) -> None:
        """Give the network the best weights so far."""
        self._set_weights(self.optimizer.best)

    @torch.no_grad()
    def _set_weights(self, weights: list[Tensor]) -> None:
        for weight, given in zip(self.optimizer.weights, weights, strict=True):
            weight.copy_(given)

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Record one epoch, after some passes whose traces are wiped out."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._epoch()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._epoch()
        self._reset()
        return graph

    def _reset(self) -> None:
        """Return to the state before the first epoch."""
        self._set_weights(self.first)
        self.optimizer.reset()
        self.record.reset()

    def _epoch(self) -> None:
        with torch.set_grad_enabled(self.one_pass):
            logits = self._forward(training=self.one_pass)
        known = logits.detach()
        counts = len(self.train.nodes), len(self.validation.nodes)
        train, validation = (kernels_training.score(known, *part) for part in (self.train, self.validation))
        self.record.add(train, validation, counts)
        if not self.one_pass:
            logits = self._forward(training=True)
        self.optimizer.zero_grad()
        backward(logits, self.train)
        self.optimizer.step()

    def _forward(self, *, training: bool) -> Tensor:
        self.model.train(training)
        return self.logits()
