"""The one training loop, for every model."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from dahgnn import kernels_gpu
from dahgnn.checks import as_features, as_indices, as_labels, bad_type, bad_value, check_seed
from dahgnn.config import TrainingConfig
from dahgnn.graph_loop import GraphLoop, Labelled, backward, make_optimizer, score
from dahgnn.hypergraph import Hypergraph
from dahgnn.kernels_training import Adam
from dahgnn.splits import Split, check_split

logger = logging.getLogger(__name__)


class Classifier(Protocol):
    """A module that gives logits (n, n_classes) for features (n, in_features) on a hypergraph."""

    in_features: int
    n_classes: int


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
        Since the start of the fit.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    train_accuracy: float
    validation_accuracy: float
    best_epoch: int
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class FitResult:
    """What a fit gives; all tensors are on the CPU.

    Attributes
    ----------
    predictions : Tensor of int64, (n,)
        The class of every node.
    probabilities : Tensor, (n, c)
        Softmax of the embedding.
    embedding : Tensor, (n, c)
        The network's last output, which the paper's figure shows.
    history : tuple of Epoch
        One entry for each number of updates, from 0.
    best_epoch : int
        The epoch of the lowest validation loss, whose weights the results are from.
    stopped : {"patience", "max_epochs", "interrupted", "diverged"}
        Why the training ended.
    seconds : float
        Duration of the fit.
    """

    predictions: Tensor
    probabilities: Tensor
    embedding: Tensor
    history: tuple[Epoch, ...] = field(repr=False)
    best_epoch: int
    stopped: str
    seconds: float

    def accuracy(self, labels: object, nodes: object) -> float:
        """Return the share of these nodes that is classified correctly."""
        return accuracy(self.predictions, labels, nodes)


def accuracy(predictions: Tensor, labels: object, nodes: object) -> float:
    """Return the share of the nodes, all of known label, whose prediction is their label."""
    known = as_labels(labels, "accuracy", n_nodes=len(predictions)).cpu()
    chosen = as_indices(nodes, "nodes", "accuracy", below=len(predictions)).cpu()
    if len(chosen) == 0:
        raise bad_value("nodes", "accuracy", "non-empty", "no node")
    if bool((known[chosen] < 0).any()):
        raise bad_value("labels", "accuracy", "known at all these nodes", "-1")
    return float((predictions[chosen] == known[chosen]).double().mean())


def fit(
    model: nn.Module,
    features: object,
    hypergraph: Hypergraph,
    labels: object,
    split: Split,
    config: TrainingConfig | None = None,
    *,
    seed: int = 0,
    device: torch.device | str | None = None,
    callback: Callable[[Epoch], None] | None = None,
    capture: bool = True,
) -> FitResult:
    """Train a network in place, section 4.2: Adam, early stopping, the best weights restored.

    Parameters
    ----------
    model : DAHGNN, HGNN or another module
        Called as ``model(features, hypergraph)``; has ``in_features`` and ``n_classes``.
    features : array, (n, in_features)
        One row a node.
    hypergraph : Hypergraph
        Of the same n nodes.
    labels : array of int, (n,)
        Classes 0 … n_classes − 1, read at the training and validation nodes alone; −1 is unknown.
    split : Split
        Which nodes train and which choose the epoch.
    config : TrainingConfig, optional
        The schedule; the paper's by default.
    seed : int
        Of dropout. Torch's global random state is used meanwhile and then put back, so fits with
        dropout should not share a process in two threads.
    device : torch.device or str, optional
        Where to train; by default where the hypergraph is. The model stays there.
    callback : callable, optional
        Called with an `Epoch` for each evaluation; on a CUDA device some epochs later.
    capture : bool
        Whether to replay a captured graph on a CUDA device, which gives the same result faster. A module of
        your own is always trained epoch by epoch.

    Returns
    -------
    FitResult
        With the weights of the lowest validation loss, which the model now has. Ctrl-C ends the
        training early and gives the best so far.

    Examples
    --------
    >>> from dahgnn.model import DAHGNN
    >>> from dahgnn.splits import split_per_class
    >>> generator = torch.Generator().manual_seed(0)
    >>> labels = torch.arange(60) % 2
    >>> features = torch.randn(60, 5, generator=generator) + 3 * labels[:, None]
    >>> hypergraph = Hypergraph.from_features(features, k=5)
    >>> split = split_per_class(labels, train=5, validation=5, seed=0)
    >>> model = DAHGNN(5, 2, generator=generator)
    >>> result = fit(model, features, hypergraph, labels, split, TrainingConfig(max_epochs=50))
    >>> result.accuracy(labels, split.test)
    1.0
    """
    config = TrainingConfig() if config is None else config
    for name, value, kind in (
        ("model", model, nn.Module),
        ("hypergraph", hypergraph, Hypergraph),
        ("split", split, Split),
        ("config", config, TrainingConfig),
    ):
        if not isinstance(value, kind):
            raise bad_type(name, "fit", f"a {kind.__name__}", type(value).__name__)
    check_seed(seed, "fit")
    device = hypergraph.device if device is None else torch.empty(0, device=device).device
    with _seeded(seed, device), torch.inference_mode(False), torch.enable_grad():
        task = _Task.make(model, features, hypergraph, labels, split, device)
        return _Loop(model.to(device), task, config, callback).run(capture=capture)


@contextlib.contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the generator of one device for the block; `torch.manual_seed` would seed those of all."""
    cuda = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        generator = torch.cuda.default_generators[cuda[0]] if cuda else torch.default_generator
        generator.manual_seed(seed)
        yield


@dataclass(frozen=True, eq=False)
class _Task:
    """Inputs of a fit, checked and on the device."""

    features: Tensor
    hypergraph: Hypergraph
    train: Labelled
    validation: Labelled

    @classmethod
    def make(
        cls,
        model: nn.Module,
        features: object,
        hypergraph: Hypergraph,
        labels: object,
        split: Split,
        device: torch.device,
    ) -> _Task:
        for name in ("in_features", "n_classes"):
            if not isinstance(getattr(model, name, None), int):
                got = f"{type(model).__name__} without '{name}'"
                raise bad_type("model", "fit", "a module with 'in_features' and 'n_classes'", got)
        shape = cast(Classifier, model)
        rows = as_features(features, "fit")
        if rows.shape != (hypergraph.n_nodes, shape.in_features):
            expected = f"of shape (n_nodes, in_features) = ({hypergraph.n_nodes}, {shape.in_features})"
            raise bad_value("features", "fit", expected, f"shape {tuple(rows.shape)}")
        known = as_labels(labels, "fit", n_nodes=len(rows)).cpu()
        check_split(split, known, shape.n_classes, "fit")
        return cls(
            features=rows.to(device, next(model.parameters()).dtype),
            hypergraph=hypergraph.to(device),
            train=Labelled(split.train.to(device), known[split.train].to(device)),
            validation=Labelled(split.validation.to(device), known[split.validation].to(device)),
        )


class _Loop:
    """Evaluate and update in turn, keep the best weights, and say why it ended."""

    def __init__(
        self, model: nn.Module, task: _Task, config: TrainingConfig, callback: Callable[[Epoch], None] | None
    ) -> None:
        self.model, self.task, self.config, self.callback = model, task, config, callback
        # Where training and evaluation compute the same, one pass serves both; where nothing stands behind
        # the first convolution, it is folded. A subclass may add dropout, so it inherits neither.
        own = type(model).__dict__
        self.one_pass = bool(own.get("trains_as_it_evaluates"))
        inputs = task.features, task.hypergraph
        self.folded = "fold" in own
        self.logits = own["fold"](model, *inputs) if self.folded else partial(model, *inputs)
        self.on_gpu = kernels_gpu.supports(task.features) and task.features.is_cuda
        self.history: list[Epoch] = []
        # Bound in one step, so that an interruption finds the old weights or the new ones.
        self.best: tuple[int, dict[str, Tensor]] | None = None
        self.start = time.perf_counter()

    def run(self, *, capture: bool) -> FitResult:
        # Only networks of ours are known to let a graph capture them.
        captured = capture and self.folded and self.on_gpu
        try:
            stopped = self._replay() if captured else self._train()
        except KeyboardInterrupt:
            stopped = "interrupted"
        if not self.history or self.best is None:
            if stopped == "interrupted":
                raise KeyboardInterrupt
            raise ValueError(
                "The loss of the untrained network must be finite. Got nan or inf. Scale the features first, "
                "to mean 0 and deviation 1, say."
            )
        best_epoch, weights = self.best
        if stopped in ("interrupted", "diverged"):
            seen = len(self.history)
            logger.warning("Training %s after %d epochs. The best was epoch %d.", stopped, seen, best_epoch)
        self.model.load_state_dict(weights)
        return self._result(best_epoch, stopped)

    def _replay(self) -> str:
        """Train by replays of a captured epoch."""
        loop = GraphLoop(
            self.model,
            self.logits,
            self.task.train,
            self.task.validation,
            self.config,
            one_pass=self.one_pass,
        )
        try:
            with torch.cuda.device(self.task.features.device):  # whose streams the capture takes
                return loop.run(self._report)
        finally:
            loop.restore_best()
            if self.history:
                self.best = self.history[-1].best_epoch, self.model.state_dict()

    def _train(self) -> str:
        """Train epoch by epoch."""
        optimizer = self._optimizer()
        for epoch in range(self.config.max_epochs + 1):
            with torch.set_grad_enabled(self.one_pass):
                logits = self._forward(training=self.one_pass)
            if epoch == 0:
                self._check_shape(logits)
            if not self._record(logits.detach()):
                return "diverged"
            if epoch - self.history[-1].best_epoch >= self.config.patience:
                return "patience"
            if epoch < self.config.max_epochs:
                optimizer.zero_grad()
                backward(logits if self.one_pass else self._forward(training=True), self.task.train)
                optimizer.step()
        return "max_epochs"

    def _optimizer(self) -> torch.optim.Adam | Adam:
        """Return Adam with the schedule in it; on a GPU the one that the captured loop has."""
        if self.on_gpu:
            return make_optimizer(self.model, self.config)
        config = self.config
        adam = torch.optim.Adam(
            self.model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        schedule = torch.optim.lr_scheduler.StepLR(adam, config.decay_every, config.decay)
        adam.register_step_post_hook(lambda *_: schedule.step())
        return adam

    def _forward(self, *, training: bool) -> Tensor:
        self.model.train(training)
        return cast(Tensor, self.logits())

    def _check_shape(self, logits: Tensor) -> None:
        expected = (self.task.hypergraph.n_nodes, cast(Classifier, self.model).n_classes)
        if logits.shape != expected:
            got = f"logits of shape {tuple(logits.shape)}"
            raise bad_value("model", "fit", f"one that gives logits of shape {expected}", got)

    def _record(self, logits: Tensor) -> bool:
        """Note the epoch and keep its weights if they are the best; False if a loss is not finite."""
        train_loss, train_accuracy = (value.item() for value in score(logits, self.task.train))
        loss, accuracy = (value.item() for value in score(logits, self.task.validation))
        if not math.isfinite(train_loss + loss):
            return False
        if self.best is None or loss < self.history[self.best[0]].validation_loss:
            weights = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
            self.best = len(self.history), weights
        self._report(len(self.history), [[train_loss, loss, train_accuracy, accuracy]])
        return True

    def _report(self, first: int, rows: list[list[float]]) -> None:
        """Add epochs to the history and tell whoever listens."""
        for epoch, (train_loss, loss, train_accuracy, validation_accuracy) in enumerate(rows, first):
            best = self.history[-1].best_epoch if self.history else 0
            better = not self.history or loss < self.history[best].validation_loss
            state = Epoch(
                epoch=epoch,
                train_loss=train_loss,
                validation_loss=loss,
                train_accuracy=train_accuracy,
                validation_accuracy=validation_accuracy,
                best_epoch=epoch if better else best,
                seconds=time.perf_counter() - self.start,
            )
            self.history.append(state)
            if self.callback is not None:
                self.callback(state)

    def _result(self, best_epoch: int, stopped: str) -> FitResult:
        with torch.no_grad():  # not folded: to the bit what the caller gets from the model
            logits = self.model.eval()(self.task.features, self.task.hypergraph)
        return FitResult(
            predictions=logits.argmax(1).cpu(),
            probabilities=logits.softmax(1).cpu(),
            embedding=logits.cpu(),
            history=tuple(self.history),
            best_epoch=best_epoch,
            stopped=stopped,
            seconds=time.perf_counter() - self.start,
        )
