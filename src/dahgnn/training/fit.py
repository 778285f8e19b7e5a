"""Fit networks: one, or several side by side."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dahgnn.checks import as_indices, as_labels, bad_value
from dahgnn.config import TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.ops.backend import has_gpu_kernels
from dahgnn.ops.propagated import DropUnits, Folded, Weights
from dahgnn.threads import threads_for
from dahgnn.training.cuda_loop import GraphLoop, NewEpochs
from dahgnn.training.inputs import FitInputs, FitRequest
from dahgnn.training.plain_loop import PlainLoop, seeded
from dahgnn.training.run import Classifier, Epoch, Run
from dahgnn.training.splits import Split

logger = logging.getLogger(__name__)

# Why a training ended, the more serious the later.
REASONS = ("patience", "max_epochs", "diverged", "interrupted")
# Nodes times runs that train side by side on a GPU: some four gigabytes. Others wait for their turn.
_ROWS_AT_ONCE = 1 << 20


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
        There is one entry for each number of updates, from 0.
    best_epoch : int
        The epoch of the lowest validation loss, whose weights the results are from.
    stopped : {"patience", "max_epochs", "interrupted", "diverged"}
        Why the training ended.
    seconds : float
        Duration of the fit; of all runs together where they train side by side.
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


def average(results: Sequence[FitResult]) -> FitResult:
    """Return the mean of several networks for the same nodes, whose predictions are those of the mean logits.

    The history is that of the first, the seconds are the sum, and of the reasons to stop it is the last that
    occurs in `REASONS`.
    """
    if len(results) == 1:
        return results[0]
    if not results:
        raise bad_value("results", "average", "non-empty", "no result")
    embedding = torch.stack([result.embedding for result in results]).mean(0)
    return replace(
        results[0],
        predictions=embedding.argmax(1),
        probabilities=embedding.softmax(1),
        embedding=embedding,
        stopped=max((result.stopped for result in results), key=REASONS.index),
        seconds=sum(result.seconds for result in results),
    )


def fit(
    model: nn.Module,
    features: object,
    hypergraph: Hypergraph,
    labels: object,
    split: Split,
    config: TrainingConfig | None = None,
    *,
    seed: int = 0,
    callback: Callable[[Epoch], None] | None = None,
) -> FitResult:
    """Train a network in place, section 4.2: Adam, early stopping, the best weights restored.

    It is trained where the hypergraph is, and stays there. `FitRequest` has what is not said here: weights of
    nodes, another device, how a module of your own is trained fast.

    Parameters
    ----------
    model : DAHGNN, HGNN or another module
        Called as ``model(features, hypergraph)``; has ``in_features`` and ``n_classes``.
    features : array, (n, in_features)
        A row for each node.
    hypergraph : Hypergraph
        It has n nodes.
    labels : array of int, (n,)
        0 … n_classes − 1, read at training and validation nodes alone; −1 is unknown.
    split : Split
        Which nodes train and which choose the epoch. Without the latter, the training loss chooses it.
    config : TrainingConfig, optional
        The schedule; the paper's by default.
    seed : int
        The seed of dropout. Torch's global random state is used meanwhile and then put back, so fits of
        modules that drop by it should not share a process in two threads; `DAHGNN` and `HGNN` do not.
    callback : callable, optional
        Called with an `Epoch` for each evaluation; on a CUDA device some epochs later.

    Returns
    -------
    FitResult
        It is that of the weights with the lowest validation loss, which the model now has. Ctrl-C ends the
        training early and gives the best so far.

    Examples
    --------
    >>> from dahgnn.nn.model import DAHGNN
    >>> from dahgnn.training.splits import split_per_class
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
    heard = None if callback is None else lambda _, epoch: callback(epoch)
    request = FitRequest(
        [model], features, hypergraph, labels, [split], config, seeds=[seed], callback=heard, owner="fit"
    )
    return fit_request(request)[0]


def fit_many(
    models: Sequence[nn.Module],
    features: object,
    hypergraph: Hypergraph,
    labels: object,
    splits: Sequence[Split],
    config: TrainingConfig | None = None,
    *,
    seeds: Sequence[int] | None = None,
    callback: Callable[[int, Epoch], None] | None = None,
) -> list[FitResult]:
    """Train several networks of one kind on one hypergraph, each with its own weights, split and seed.

    On a CUDA device the runs of `DAHGNN` and `HGNN` train side by side, as heads of one network, at little
    more than the cost of one; elsewhere one after the other. Each stops by itself, and gets what `fit` would
    give it alone, up to rounding.

    Parameters
    ----------
    models : sequence of modules
        They are of one class and have the same settings. Each is trained in place.
    features : array, (n, in_features)
        See `fit`; this and the next two are the same for all runs, and so is ``config``.
    hypergraph : Hypergraph
        See there.
    labels : array of int, (n,)
        See there.
    splits : sequence of Split
        There is one for each model.
    config : TrainingConfig, optional
        See `fit`.
    seeds : sequence of int, optional
        The seeds of each run's dropout; 0, 1, 2 and so on by default.
    callback : callable, optional
        Called with the number of the run and an `Epoch`.

    Returns
    -------
    list of FitResult
        The results are in the order of the models. After Ctrl-C they end with the runs that were under way.

    Examples
    --------
    >>> from dahgnn.nn.model import DAHGNN
    >>> from dahgnn.training.splits import split_per_class
    >>> generator = torch.Generator().manual_seed(0)
    >>> labels = torch.arange(60) % 2
    >>> features = torch.randn(60, 5, generator=generator) + 3 * labels[:, None]
    >>> hypergraph = Hypergraph.from_features(features, k=5)
    >>> splits = [split_per_class(labels, train=5, validation=5, seed=seed) for seed in range(3)]
    >>> models = [DAHGNN(5, 2, generator=generator) for _ in splits]
    >>> results = fit_many(models, features, hypergraph, labels, splits, TrainingConfig(max_epochs=50))
    >>> [result.accuracy(labels, split.test) for result, split in zip(results, splits, strict=True)]
    [1.0, 1.0, 1.0]
    """
    given = list(models), features, hypergraph, labels, list(splits), config
    return fit_request(FitRequest(*given, seeds=seeds, callback=callback, owner="fit_many"))


def fit_request(request: FitRequest) -> list[FitResult]:
    """Train all models of a request in place; see `fit_many` for the results."""
    with torch.inference_mode(False), torch.enable_grad(), threads_for(request.hypergraph.n_nodes):
        inputs = FitInputs.make(request)
        capture = request.capture and request.weights is None
        return _Training(inputs, request.schedule, capture).train(inputs.make_runs(request))


class _Training:
    """Train runs on the same inputs, side by side where that is possible."""

    def __init__(self, inputs: FitInputs, config: TrainingConfig, capture: bool) -> None:
        self.inputs, self.config, self.capture = inputs, config, capture

    def train(self, runs: list[Run]) -> list[FitResult]:
        # What stands in the class itself is known to belong together; a subclass may add dropout, say, so it
        # does not inherit the folding.
        model, inputs = runs[0].model, (self.inputs.features, self.inputs.hypergraph)
        of_class = type(model).__dict__
        fold, capturable = of_class.get("fold"), of_class.get("capturable", False)
        folded = None if fold is None else fold(model, *inputs, self.config.precision)
        # The captured loop trains all weights; who has frozen some gets the plain one.
        trained = all(weight.requires_grad for run in runs for weight in run.model.parameters())
        captured = self.capture and trained and has_gpu_kernels(inputs[0])
        results: list[FitResult] = []
        together = max(1, _ROWS_AT_ONCE // len(inputs[0])) if folded is not None and captured else 1
        for start in range(0, len(runs), together):
            some = runs[start : start + together]
            for run in some:
                run.start = time.perf_counter()
            if captured and (folded is not None or capturable):
                reasons = self._replay(some, folded or call_with_weights(some[0].model, inputs))
            else:
                reasons = [PlainLoop(some[0], inputs, self.config, folded).train()]
            results += [_result(run, self.inputs, why) for run, why in zip(some, reasons, strict=True)]
            if "interrupted" in reasons:
                break
        return results

    def _replay(self, runs: list[Run], folded: Folded) -> list[str]:
        """Train by replays of a captured epoch; return why each run ended."""
        untold: list[tuple[Run, list[Epoch]]] = []

        def note(new: list[NewEpochs]) -> None:
            untold.extend((runs[each.run], runs[each.run].note(each.rows)) for each in new)

        def tell() -> None:
            while untold:
                run, epochs = untold.pop(0)
                run.tell(epochs)

        device = self.inputs.features.device
        # The capture takes the streams of the device, and a module's own dropout its generator.
        with torch.cuda.device(device), seeded(runs[0].seed, device):
            loop = GraphLoop(
                [run.model for run in runs],
                folded,
                [run.parts for run in runs],
                (len(self.inputs.labels), len(runs), cast(Classifier, runs[0].model).n_classes),
                self.config,
                [run.seed for run in runs],
            )
            interrupted = False
            try:
                loop.run(note, tell)
            except KeyboardInterrupt:
                interrupted = True
            if any(run.history for run in runs):  # before, the loop's weights are not yet anybody's
                loop.restore_best()
        for run in runs:
            run.best = run.model.state_dict() if run.history else None
        if interrupted and all(loop.stopped):  # in the last look; who pressed wants no further run
            return ["interrupted"] * len(runs)
        return [why or "interrupted" for why in loop.stopped]


def call_with_weights(model: nn.Module, inputs: tuple[Tensor, Hypergraph]) -> Folded:
    """Return a function that calls a network with the weights of one run, for a network without ``fold``."""

    def logits(weights: Weights, drop: DropUnits, *, evaluate: bool = True) -> tuple[Tensor, Tensor]:
        del drop  # the network drops by itself
        state = {name: weight.squeeze(0) for name, weight in weights.items()}
        trained = functional_call(model.train(), state, inputs).unsqueeze(1)
        if getattr(model, "dropout", None) == 0 or not evaluate:
            return trained, trained
        with torch.no_grad():
            return functional_call(model.eval(), state, inputs).unsqueeze(1), trained

    return logits


def _result(run: Run, inputs: FitInputs, stopped: str) -> FitResult:
    """Give the network its best weights and compute what it says of all nodes."""
    if run.best is None:
        if stopped == "interrupted":
            raise KeyboardInterrupt
        raise ValueError(
            "The loss of the untrained network must be finite. Got nan or inf. Scale the features first, "
            "to mean 0 and deviation 1, say."
        )
    best_epoch, seen = run.history[-1].best_epoch, len(run.history)
    if stopped in ("interrupted", "diverged"):
        logger.warning("Training %s after %d epochs. The best was epoch %d.", stopped, seen, best_epoch)
    run.model.load_state_dict(run.best)
    with torch.no_grad():  # not folded: to the bit what the caller gets from the model
        logits = run.model.eval()(inputs.features, inputs.hypergraph)
    return FitResult(
        predictions=logits.argmax(1).cpu(),
        probabilities=logits.softmax(1).cpu(),
        embedding=logits.cpu(),
        history=tuple(run.history),
        best_epoch=best_epoch,
        stopped=stopped,
        seconds=time.perf_counter() - run.start,
    )
