"""The plain training loop, on any device and for any module."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.adam import adam

from dahgnn.checks import bad_value
from dahgnn.config import TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.cpu.memory import kept_memory
from dahgnn.ops.dropout import CounterDropout
from dahgnn.ops.propagated import Folded
from dahgnn.training.interrupts import collect_interrupts
from dahgnn.training.run import Classifier, Labelled, Run


class PlainLoop:
    """Evaluate and update one run in turn, and keep its best weights.

    Parameters
    ----------
    run : Run
        Its network is trained in place and ends with the last weights.
    inputs : (Tensor, Hypergraph)
        What the network takes.
    config : TrainingConfig
        The schedule.
    folded : callable, optional
        Computes the logits instead of the network, see ``DAHGNN.fold``.
    """

    def __init__(
        self, run: Run, inputs: tuple[Tensor, Hypergraph], config: TrainingConfig, folded: Folded | None
    ) -> None:
        self.run, self.inputs, self.config, self.folded = run, inputs, config, folded
        self.seeds = torch.tensor([run.seed], device=inputs[0].device)

    def train(self) -> str:
        """Return why the training ended."""
        try:
            with kept_memory(), seeded(self.run.seed, self.inputs[0].device):
                return self._train()
        except KeyboardInterrupt:
            return "interrupted"

    def _train(self) -> str:
        run, patience = self.run, self.config.patience
        optimizer = Adam(list(run.model.parameters()), self.config)
        for epoch in range(self.config.max_epochs + 1):
            evaluated, trained = self._logits()
            if epoch == 0:
                self._check_shape(evaluated)
            if not self._record(evaluated.detach()):
                return "diverged"
            if epoch - run.history[-1].best_epoch >= patience:
                return "patience"
            if epoch < self.config.max_epochs:
                cross_entropy_of(trained() if callable(trained) else trained, run.parts.train).backward()
                optimizer.step()
        return "max_epochs"

    def _logits(self) -> tuple[Tensor, Tensor | Callable[[], Tensor]]:
        """Return the logits of evaluation and of training, or how to get the latter."""
        model = self.run.model
        if self.folded is not None:
            weights = {name: weight.unsqueeze(0) for name, weight in model.named_parameters()}
            drop = CounterDropout(self.seeds, torch.full_like(self.seeds, len(self.run.history) - 1))
            evaluated, trained = (each.squeeze(1) for each in self.folded(weights, drop))
            return evaluated, trained
        with torch.no_grad():
            evaluated = model.eval()(*self.inputs)
        return evaluated, lambda: model.train()(*self.inputs)

    def _check_shape(self, logits: Tensor) -> None:
        expected = (len(self.inputs[0]), cast(Classifier, self.run.model).n_classes)
        if logits.shape != expected:
            got = f"logits of shape {tuple(logits.shape)}"
            raise bad_value("model", "fit", f"one that gives logits of shape {expected}", got)

    def _record(self, logits: Tensor) -> bool:
        """Note the epoch and keep its weights if they are the best; False if a loss is not finite."""
        run = self.run
        losses, accuracies = zip(*(_score(logits, part) for part in run.parts), strict=True)
        if not math.isfinite(sum(losses)):
            return False
        with collect_interrupts() as interrupts:  # the best weights must be those of the best epoch
            epochs = run.note([[*losses, *accuracies]])
            if epochs[0].best_epoch == epochs[0].epoch:
                run.best = {name: tensor.detach().clone() for name, tensor in run.model.state_dict().items()}
        if interrupts:
            raise interrupts[0]
        run.tell(epochs)
        return True


class Adam:
    """Adam with the rate of the schedule, an epoch of which has one update or several.

    The gradients of several updates are those of parts of an epoch, and noisier. The rate is then divided by
    the root of their number: the square root scaling rule for Adam (Malladi et al., 2022).

    Not the optimizer of torch but the function it calls: making the first optimizer of a process imports
    torch's compiler, which takes longer than a small fit.
    """

    def __init__(
        self, weights: list[nn.Parameter], config: TrainingConfig, updates_an_epoch: int = 1
    ) -> None:
        self.weights, self.config, self.updates_an_epoch = weights, config, updates_an_epoch
        self.fused = all(weight.device.type in ("cpu", "cuda") for weight in weights)
        count = partial(torch.zeros, (), dtype=torch.float32)
        self.steps = [count(device=weight.device if self.fused else None) for weight in weights]
        self.means, self.squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
        self.done = 0
        self._clear()

    def _clear(self) -> None:
        for weight in self.weights:
            weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights that have a gradient, and take it away."""
        states = zip(self.weights, self.means, self.squares, self.steps, strict=True)
        used = [(weight, weight.grad, *state) for weight, *state in states if weight.grad is not None]
        if used:
            past = self.done // self.updates_an_epoch // self.config.decay_every
            weights, gradients, means, squares, steps = map(list, zip(*used, strict=True))
            adam(
                weights, gradients, means, squares, [], steps, fused=self.fused,
                lr=self.config.learning_rate * self.config.decay**past / self.updates_an_epoch**0.5,
                weight_decay=self.config.weight_decay, beta1=0.9, beta2=0.999, eps=1e-8,
                amsgrad=False, maximize=False,
            )  # fmt: skip
        self._clear()
        self.done += 1


def cross_entropy_of(logits: Tensor, labelled: Labelled) -> Tensor:
    """Return the mean cross-entropy at labelled nodes, by their weights if they have any."""
    rows = logits.index_select(0, labelled.nodes)
    if labelled.weights is None:
        return cross_entropy(rows, labelled.labels)
    losses = cross_entropy(rows, labelled.labels, reduction="none")
    return losses @ labelled.weights / labelled.weights.sum()


def _score(logits: Tensor, labelled: Labelled) -> tuple[float, float]:
    """Return the mean cross-entropy and the accuracy at labelled nodes."""
    correct = logits.index_select(0, labelled.nodes).argmax(1) == labelled.labels
    return cross_entropy_of(logits, labelled).item(), correct.float().mean().item()


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the generator of one device for the block; `torch.manual_seed` would seed those of all."""
    cuda = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        generator = torch.cuda.default_generators[cuda[0]] if cuda else torch.default_generator
        generator.manual_seed(seed)
        yield
