"""The one training loop, for every model."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dahgnn.checks import as_features, as_labels, check_count, fail
from dahgnn.config import TrainingConfig
from dahgnn.hypergraph import Hypergraph
from dahgnn.splits import Split

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

    def accuracy(self, labels: object, nodes: Tensor) -> float:
        """Return the share of these nodes that is classified correctly."""
        return accuracy(self.predictions, labels, nodes)


def accuracy(predictions: Tensor, labels: object, nodes: Tensor) -> float:
    """Return the share of the nodes whose prediction is their label."""
    known = as_labels(labels, "accuracy", n_nodes=len(predictions)).cpu()
    if len(nodes) == 0:
        raise ValueError(fail("nodes", "accuracy", "non-empty", "no node"))
    return float((predictions[nodes] == known[nodes]).double().mean())


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
        Classes 0 … n_classes − 1, read at the training and validation nodes alone.
    split : Split
        Which nodes train and which choose the epoch.
    config : TrainingConfig, optional
        The schedule; the paper's by default.
    seed : int
        Of dropout. Torch's global random state is neither read nor changed.
    device : torch.device or str, optional
        Where to train; by default where the hypergraph is. The model stays there.
    callback : callable, optional
        Called with an `Epoch` after each evaluation.

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
    config = config or TrainingConfig()
    check_count("seed", seed, "fit", low=0)
    device = torch.device(device) if device is not None else hypergraph.device
    task = _Task.make(model, features, hypergraph, labels, split, device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        return _Loop(model.to(device), task, config, callback).run()


@dataclass(frozen=True, eq=False)
class _Task:
    """Inputs of a fit, checked and on the device."""

    features: Tensor
    hypergraph: Hypergraph
    train: Tensor
    train_labels: Tensor
    validation: Tensor
    validation_labels: Tensor

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
        shape = cast(Classifier, model)
        rows = as_features(features, "fit")
        if rows.shape != (hypergraph.n_nodes, shape.in_features):
            expected = f"of shape (n_nodes, in_features) = ({hypergraph.n_nodes}, {shape.in_features})"
            raise ValueError(fail("features", "fit", expected, f"shape {tuple(rows.shape)}"))
        known = as_labels(labels, "fit", n_nodes=len(rows)).cpu()
        _check_split(split, known, shape.n_classes)
        return cls(
            features=rows.to(device, next(model.parameters()).dtype),
            hypergraph=hypergraph.to(device),
            train=split.train.to(device),
            train_labels=known[split.train].to(device),
            validation=split.validation.to(device),
            validation_labels=known[split.validation].to(device),
        )


def _check_split(split: Split, labels: Tensor, n_classes: int) -> None:
    for name in ("train", "validation", "test"):
        nodes = getattr(split, name)
        if len(nodes) == 0 and name != "test":
            raise ValueError(fail("split", "fit", f"one with {name} nodes", "none"))
        if len(nodes) and int(nodes[-1]) >= len(labels):
            expected = f"one of nodes between 0 and n_nodes - 1 = {len(labels) - 1}"
            raise ValueError(fail("split", "fit", expected, f"{name} node {int(nodes[-1])}"))
    for name in ("train", "validation"):
        wrong = [int(label) for label in labels[getattr(split, name)].unique() if not 0 <= label < n_classes]
        if wrong:
            expected = f"between 0 and n_classes - 1 = {n_classes - 1} at all {name} nodes"
            raise ValueError(fail("labels", "fit", expected, wrong[0]))
    missing = sorted(set(range(n_classes)) - set(labels[split.train].tolist()))
    if missing:
        expected = f"such that each of the {n_classes} classes has a labelled node"
        raise ValueError(fail("split", "fit", expected, f"none of class {', '.join(map(str, missing))}"))


class _Best(NamedTuple):
    epoch: int
    validation_loss: float
    weights: dict[str, Tensor]


class _Loop:
    def __init__(
        self, model: nn.Module, task: _Task, config: TrainingConfig, callback: Callable[[Epoch], None] | None
    ) -> None:
        self.model, self.task, self.config, self.callback = model, task, config, callback
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, config.decay_every, config.decay)
        # Where training and evaluation compute the same, one pass serves both.
        self.one_pass = getattr(model, "trains_as_it_evaluates", False)
        self.history: list[Epoch] = []
        self.best: _Best | None = None
        self.start = time.perf_counter()

    def run(self) -> FitResult:
        try:
            stopped = self._train()
        except KeyboardInterrupt:
            stopped = "interrupted"
        if self.best is None:
            if stopped == "interrupted":
                raise KeyboardInterrupt
            raise ValueError(
                "The loss of the untrained network must be finite. Got nan or inf. Scale the features first, "
                "to mean 0 and deviation 1, say."
            )
        if stopped in ("interrupted", "diverged"):
            logger.warning(
                "Training %s at epoch %d; epoch %d is used.", stopped, len(self.history), self.best.epoch
            )
        return self._result(self.best, stopped)

    def _train(self) -> str:
        """Evaluate and update in turn; return why it ended."""
        for epoch in range(self.config.max_epochs + 1):
            with torch.set_grad_enabled(self.one_pass):
                logits = self._forward(training=self.one_pass)
            if not self._record(epoch, logits.detach()):
                return "diverged"
            if self.best is not None and epoch - self.best.epoch >= self.config.patience:
                return "patience"
            if epoch < self.config.max_epochs:
                self._update(logits if self.one_pass else self._forward(training=True))
        return "max_epochs"

    def _forward(self, *, training: bool) -> Tensor:
        self.model.train(training)
        return cast(Tensor, self.model(self.task.features, self.task.hypergraph))

    def _update(self, logits: Tensor) -> None:
        loss, _ = _score(logits, self.task.train, self.task.train_labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()

    def _record(self, epoch: int, logits: Tensor) -> bool:
        """Note the epoch and keep its weights if they are the best; False if a loss is not finite."""
        train_loss, train_accuracy = _score(logits, self.task.train, self.task.train_labels)
        loss, validation_accuracy = _score(logits, self.task.validation, self.task.validation_labels)
        if not math.isfinite(float(train_loss) + float(loss)):
            return False
        if self.best is None or float(loss) < self.best.validation_loss:
            # Bound in one step, so that an interruption finds the old weights or the new ones.
            weights = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
            self.best = _Best(epoch, float(loss), weights)
        state = Epoch(
            epoch=epoch,
            train_loss=float(train_loss),
            validation_loss=float(loss),
            train_accuracy=float(train_accuracy),
            validation_accuracy=float(validation_accuracy),
            best_epoch=self.best.epoch,
            seconds=time.perf_counter() - self.start,
        )
        self.history.append(state)
        if self.callback is not None:
            self.callback(state)
        return True

    def _result(self, best: _Best, stopped: str) -> FitResult:
        self.model.load_state_dict(best.weights)
        with torch.no_grad():
            logits = self._forward(training=False)
        return FitResult(
            predictions=logits.argmax(1).cpu(),
            probabilities=logits.softmax(1).cpu(),
            embedding=logits.cpu(),
            history=tuple(self.history),
            best_epoch=best.epoch,
            stopped=stopped,
            seconds=time.perf_counter() - self.start,
        )


def _score(logits: Tensor, nodes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy and the accuracy at some nodes."""
    chosen = logits.index_select(0, nodes)
    return cross_entropy(chosen, labels), (chosen.detach().argmax(1) == labels).float().mean()
