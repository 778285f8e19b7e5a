"""The training loop on a CUDA device: runs side by side, a captured graph an epoch, a host that rarely looks.

Validation loss, best weights and the decision to stop live on the device. Each run gets what the plain loop
gives it on the same device: the same losses, the same epoch, the same weights, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dahgnn.config import TrainingConfig
from dahgnn.kernels.gpu.capture import capture
from dahgnn.kernels.gpu.programs import compile_ahead, compiling
from dahgnn.kernels.gpu.training import Adam, Labels, Record
from dahgnn.ops.dropout import Mask, drop_units
from dahgnn.ops.propagated import Folded
from dahgnn.training.interrupts import collect_interrupts
from dahgnn.training.run import Parts

# Epochs between two looks of the host; those behind the stop are computed in vain.
_EPOCHS_AT_ONCE = 20
# Passes before the capture, in which libraries make their plans.
_WARM_UP = 1


class _KnownGradient(Function):
    """A loss (its value is undefined) whose gradient by the logits is known.

    To `torch.autograd.grad` one could give the gradient, but then torch imports its symbolic algebra, which
    takes longer than a fit.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return logits.new_empty(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        # The product, with one, is also the first kernel of autograd's thread. A library would warn that the
        # thread has no context of the device yet.
        return above * ctx.gradient, None


class NewEpochs(NamedTuple):
    """The epochs of a run since the last look of the host.

    Attributes
    ----------
    run, first : int
        The number of the run, and the first of these epochs.
    rows : list of list of float
        The losses and then the accuracies of each epoch, of training and of validation.
    """

    run: int
    first: int
    rows: list[list[float]]


class GraphLoop:
    """Train networks of one kind by replaying a captured epoch.

    Parameters
    ----------
    models : sequence of nn.Module
        They are on a CUDA device. Their weights are read now, and written by `restore_best`.
    logits : callable
        Computes the logits (n, runs, n_classes) of all of them from their weights, see ``DAHGNN.fold``.
    parts : sequence of Parts
        The labelled nodes of each run.
    shape : tuple of int
        The shape of the logits.
    config : TrainingConfig
        The schedule.
    seeds : sequence of int
        The seed of each run's dropout.
    evaluate : bool
        Whether the losses are those of evaluation, without dropout, which takes a pass of its own.

    Attributes
    ----------
    stopped : list of str
        Why each run ended; empty while it goes on.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        logits: Folded,
        parts: Sequence[Parts],
        shape: tuple[int, int, int],
        config: TrainingConfig,
        seeds: Sequence[int],
        *,
        evaluate: bool = True,
    ) -> None:
        self.models, self.logits, self.config, self.evaluate = models, logits, config, evaluate
        self._graph: torch.cuda.CUDAGraph | None = None
        self.stopped, self._seen = [""] * len(models), [0] * len(models)
        states = [dict(model.named_parameters()) for model in models]
        self.optimizer = Adam(
            {name: torch.stack([state[name].detach() for state in states]) for name in states[0]},
            rate=config.learning_rate,
            decay=config.decay,
            decay_every=config.decay_every,
            weight_decay=config.weight_decay,
        )
        labelled = [[(part.nodes, part.labels) for part in of_run] for of_run in parts]
        self.labels = Labels(labelled, shape, next(iter(self.optimizer.weights.values())).dtype)
        self.record = Record(
            self.labels,
            patience=config.patience,
            max_epochs=config.max_epochs,
            rows=config.max_epochs + 1 + _EPOCHS_AT_ONCE,
        )
        self.seeds = torch.tensor(seeds, device=self.record.epoch.device)

    def run(self, note: Callable[[list[NewEpochs]], None], tell: Callable[[], None]) -> None:
        """Train until every run has ended.

        At each look ``note`` gets what is new, and ``tell`` may pass it on, while the device goes on. After
        Ctrl-C nobody is told, but all is noted that the weights have seen.
        """
        # Each time, as networks may draw from torch's generator, of which every pass takes some.
        with compiling():
            self._epoch()
        graph = self._capture(collect_first=True)
        new: list[NewEpochs] = []
        with collect_interrupts() as interrupts:
            while not all(self.stopped) and not interrupts:
                for _ in range(_EPOCHS_AT_ONCE):
                    graph.replay()
                note(new)
                try:
                    tell()
                except KeyboardInterrupt as error:
                    interrupts.append(error)
                new = self._look()
            note(new)
        if interrupts:
            raise interrupts[0]
        tell()

    def advance(self, epochs: int) -> Tensor:
        """Train for so many epochs, in all up to the schedule's; the host does not wait for them.

        Returns
        -------
        Tensor, (runs,)
            The last loss of each run, on the device.
        """
        graph = self.capture()
        for _ in range(epochs):
            graph.replay()
        return self.record.history[self.record.epoch, torch.arange(len(self.models)), 0]

    @torch.no_grad()
    def copy_weights(self) -> None:
        """Give each network its present weights."""
        self._copy(self.optimizer.weights)

    @property
    def kind(self) -> tuple[object, ...]:
        """What loops with the same logits and schedule must share to take each other's place."""
        weights = self.optimizer.weights
        shapes = tuple((name, weight.shape, weight.dtype) for name, weight in weights.items())
        return shapes, self.labels.nodes.shape

    @torch.no_grad()
    def take_place_of(self, other: GraphLoop) -> None:
        """Go on where a loop of the same kind is: with its weights, labels, epochs and dropout.

        A captured epoch reads and writes these numbers where they are, so that it serves any such loop.
        """
        torch._foreach_copy_(self._state(), other._state())  # one call for all of them
        self.labels.gradient.zero_()  # it is nowhere written but at nodes that train

    def _state(self) -> list[Tensor]:
        return [*self.optimizer.state, *self.labels.state, *self.record.state, self.seeds]

    def _look(self) -> list[NewEpochs]:
        """Fetch the epochs since the last look, and note why runs ended."""
        record = self.record
        state = torch.stack((record.running, record.last_epoch, record.best_epoch))  # one copy, one wait
        running, last, best = state.tolist()
        open_runs = [run for run, why in enumerate(self.stopped) if not why]
        oldest = min(self._seen[run] for run in open_runs)
        history = record.history[oldest : max(last) + 1].tolist()
        new = []
        for run in open_runs:
            first = self._seen[run]
            rows = [row[run] for row in history[first - oldest : last[run] + 1 - oldest]]
            finite = math.isfinite(rows[-1][0] + rows[-1][1])  # the first that is not ends a run
            new.append(NewEpochs(run, first, rows if finite else rows[:-1]))
            self._seen[run] = last[run] + 1
            if not running[run]:
                patient = last[run] - best[run] < self.config.patience
                self.stopped[run] = "diverged" if not finite else "max_epochs" if patient else "patience"
        return new

    @torch.no_grad()
    def restore_best(self) -> None:
        """Give each network its best weights so far."""
        self._copy(self.optimizer.best)

    def _copy(self, weights: Mapping[str, Tensor]) -> None:
        for run, model in enumerate(self.models):
            named = dict(model.named_parameters())
            torch._foreach_copy_(list(named.values()), [weights[name][run] for name in named])

    def capture(self) -> torch.cuda.CUDAGraph:
        """Record one epoch, unless it is recorded, after some passes whose traces are wiped out."""
        if self._graph is None:
            gradient, settings = self.labels.gradient, str(getattr(self.models[0], "settings", ""))
            kind = ("epoch", gradient.device, gradient.shape, self.kind, settings, self.config.precision)
            compile_ahead(self._epoch, (*kind, self.evaluate))
            self._graph = self._capture()
        return self._graph

    def _capture(self, *, collect_first: bool = False) -> torch.cuda.CUDAGraph:
        graph = capture(self._epoch, _WARM_UP, collect_first=collect_first)
        self.optimizer.reset()
        self.record.reset()
        return graph

    def _drop(self, values: Tensor, rate: float, site: int) -> Tensor:
        return drop_units(values, Mask(self.seeds, self.record.epoch, site, rate))

    def _epoch(self) -> None:
        weights = self.optimizer.weights
        evaluated, trained = self.logits(weights, self._drop, evaluate=self.evaluate)
        self.labels.score(evaluated, trained)
        loss = _KnownGradient.apply(trained, self.labels.gradient)
        gradients = torch.autograd.grad(loss, list(weights.values()))
        self.record.add()  # after the gradient, whose dropout reads the epoch
        self.optimizer.step(gradients, self.record)
