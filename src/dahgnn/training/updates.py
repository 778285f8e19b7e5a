"""Train a network by updates alone, some epochs at a time; whoever asks judges it in between.

`dahgnn.training.fit` looks at the network after each update, which takes a pass of its own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dahgnn.config import TrainingConfig
from dahgnn.graph.gradients import reached_from
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.cpu.memory import kept_memory
from dahgnn.kernels.gpu.capture import capture
from dahgnn.kernels.gpu.programs import compile_ahead
from dahgnn.nn.induction import Induction
from dahgnn.nn.model import DAHGNN
from dahgnn.ops.backend import has_gpu_kernels
from dahgnn.ops.dropout import CounterDropout
from dahgnn.ops.propagated import SelectiveFolded
from dahgnn.training.cuda_loop import GraphLoop
from dahgnn.training.interrupts import collect_interrupts
from dahgnn.training.plain_loop import Adam, cross_entropy_of
from dahgnn.training.run import Labelled, Parts

# Epochs between two looks at the loss on a CUDA device.
_EPOCHS_A_LOOK = 16
# How much of the propagated features the updates may leave out; what the networks say is of all of them.
LEAVE_OUT = 0.01


@dataclass(frozen=True, kw_only=True)
class Update:
    """What is known of a network after so many updates.

    Attributes
    ----------
    epoch : int
        Number of updates.
    train_loss : float
        Mean cross-entropy of the nodes that train, before the last update and with dropout.
    interrupted : bool
        Whether Ctrl-C ended the training here.
    """

    epoch: int
    train_loss: float
    interrupted: bool = False


_UNTRAINED = Update(epoch=0, train_loss=math.nan)


class Updates(Protocol):
    """A network in training."""

    def begin(self, epochs: int) -> None:
        """Start to train for so many epochs more, if a device does so by itself; `advance` then ends it.

        Where several networks begin before one of them advances, the device need not wait for the host.
        """

    def advance(self, epochs: int, callback: Callable[[Update], None]) -> Update:
        """Train for so many epochs more; the network then has the new weights.

        Ctrl-C ends it early; before the very first update it goes on up.
        """

    def evaluate(self) -> Tensor:
        """Return what the network says of all nodes, (n, c), on the CPU."""


class Room(Protocol):
    """What all networks of a fit share."""

    def enter(self, network: DAHGNN, labelled: Labelled, seed: int) -> Updates:
        """Return the training of a network, which moves to where it is trained.

        Parameters
        ----------
        network : DAHGNN
            Of the same settings as those that entered before.
        labelled : Labelled
            The nodes that train.
        seed : int
            The seed of all that is random in its training.
        """

    def measure_density(self, network: DAHGNN) -> Tensor:
        """Return the density of all nodes in the first attention layer of a network, (n,), on the CPU."""


class Classroom:
    """What all networks of a fit share: features, hypergraph, schedule.

    Parameters
    ----------
    features : Tensor, (n, d)
        Each row is a node's.
    hypergraph : Hypergraph
        The hypergraph of the same nodes.
    config : TrainingConfig
        The schedule, of which ``patience`` plays no part.
    device : torch.device
        Where to train.
    """

    def __init__(
        self, features: Tensor, hypergraph: Hypergraph, config: TrainingConfig, device: torch.device
    ) -> None:
        self.features, self.hypergraph = features.to(device), hypergraph.to(device)
        self.config, self.device = config, device
        self._folded: SelectiveFolded | None = None
        self._stages: dict[object, GraphLoop] = {}
        self._evaluation: _CapturedEvaluation | None = None

    def enter(self, network: DAHGNN, labelled: Labelled, seed: int) -> Updates:
        """Return the training of a network, which moves to the device.

        Parameters
        ----------
        network : DAHGNN
            Of the same settings as those that entered before.
        labelled : Labelled
            The nodes that train.
        seed : int
            The seed of dropout.
        """
        network.to(self.device)
        if self._folded is None:  # it depends on the settings of a network alone
            self._folded = network.fold(self.features, self.hypergraph, self.config.precision, LEAVE_OUT)
        weights = labelled.weights
        here = Labelled(
            labelled.nodes.to(self.device),
            labelled.labels.to(self.device),
            None if weights is None else weights.to(self.features),
        )
        captured = weights is None and has_gpu_kernels(self.features)
        kind = _CapturedUpdates if captured else _PlainUpdates
        return kind(self, network, self._folded, here, seed)

    def stage_for(self, make: Callable[[], GraphLoop]) -> tuple[GraphLoop, GraphLoop]:
        """Return a loop, and the one on whose place it trains: networks of a kind share a captured epoch.

        A capture takes as long as hundreds of epochs.
        """
        loop = make()
        if loop.kind not in self._stages:
            self._stages[loop.kind] = make()
        return loop, self._stages[loop.kind]

    def evaluate(self, network: DAHGNN) -> Tensor:
        """Return what a network that has entered says of all nodes, (n, c), on the device."""
        if not has_gpu_kernels(self.features):
            return _evaluate(network, self)
        if self._evaluation is None:
            self._evaluation = _CapturedEvaluation(network, self)
        return self._evaluation.run(network)

    def measure_density(self, network: DAHGNN) -> Tensor:
        """Return the density of all nodes in the first attention layer of a network, (n,), on the CPU."""
        return Induction(network, self.features, self.hypergraph).density().cpu()


class _CapturedEvaluation:
    """What networks of a kind say of all nodes of a room, by replays of one captured pass."""

    def __init__(self, network: DAHGNN, room: Classroom) -> None:
        self.stand_in = copy.deepcopy(network).eval()
        self.logits = torch.empty(0)

        @torch.no_grad()
        def work() -> None:
            self.logits = self.stand_in(room.features, room.hypergraph)

        with torch.cuda.device(room.device):
            shape, dtype = room.features.shape, room.features.dtype
            compile_ahead(work, ("evaluation", room.device, str(network.settings), shape, dtype))
            self.graph = capture(work, passes=1)

    @torch.no_grad()
    def run(self, network: DAHGNN) -> Tensor:
        """Return what a network says, (n, c); the host does not wait for it."""
        with torch.cuda.device(self.logits.device):
            torch._foreach_copy_(list(self.stand_in.parameters()), list(network.parameters()))
            self.graph.replay()
            return self.logits.clone()


class _PlainUpdates:
    """Update epoch by epoch, on any device."""

    def __init__(
        self, room: Classroom, network: DAHGNN, folded: SelectiveFolded, labelled: Labelled, seed: int
    ) -> None:
        self.room, self.network, self.folded = room, network, folded
        # Logits of other nodes are not computed; ``labelled`` counts among these.
        self.nodes, places = labelled.nodes.unique(return_inverse=True)
        self.labelled = labelled._replace(nodes=places)
        self.reached = reached_from(self.nodes, room.hypergraph)
        self.optimizer = Adam(list(network.parameters()), room.config)
        self.seeds = torch.tensor([seed], device=room.device)
        self.last = _UNTRAINED

    def begin(self, epochs: int) -> None:
        """Start nothing: the host trains."""

    def advance(self, epochs: int, callback: Callable[[Update], None]) -> Update:
        """Train for so many epochs more."""
        try:
            with kept_memory():
                for _ in range(epochs):
                    with collect_interrupts() as interrupts:  # an update is done whole or not at all
                        update = self._update()
                    if interrupts:
                        raise interrupts[0]
                    callback(update)
        except KeyboardInterrupt:
            if self.last.epoch == 0:
                raise
            return replace(self.last, interrupted=True)
        return self.last

    def _update(self) -> Update:
        weights = {name: weight.unsqueeze(0) for name, weight in self.network.named_parameters()}
        behind = torch.tensor([self.optimizer.done - 1], device=self.room.device)
        drop = CounterDropout(self.seeds, behind)
        _, logits = self.folded(weights, drop, evaluate=False, nodes=self.nodes, reached=self.reached)
        loss = cross_entropy_of(logits.squeeze(1), self.labelled)
        loss.backward()
        self.optimizer.step()
        self.last = Update(epoch=self.optimizer.done, train_loss=loss.item())
        return self.last

    def evaluate(self) -> Tensor:
        """Return what the network says of all nodes."""
        return self.room.evaluate(self.network).cpu()


class _Begun(NamedTuple):
    """What a device is doing or has done.

    Attributes
    ----------
    epochs : int
        How many epochs it trains.
    losses : Tensor, (1,)
        The last loss, on the device.
    logits : Tensor, (n, c), or None
        What the network then says of all nodes, if that is the end of the stage, on the device.
    """

    epochs: int
    losses: Tensor
    logits: Tensor | None


class _CapturedUpdates:
    """Replay a captured epoch on a CUDA device, which all networks of a kind share."""

    def __init__(
        self, room: Classroom, network: DAHGNN, folded: SelectiveFolded, labelled: Labelled, seed: int
    ) -> None:
        self.room, self.network, self.last = room, network, _UNTRAINED
        self.begun: _Begun | None = None
        self.logits: Tensor | None = None
        shape = (len(room.features), 1, network.n_classes)
        parts = [Parts(labelled, labelled)]
        with torch.cuda.device(room.device):
            self.loop, self.stage = room.stage_for(
                lambda: GraphLoop([network], folded, parts, shape, room.config, [seed], evaluate=False)
            )

    def begin(self, epochs: int) -> None:
        """Let the device start, up to the next look at the loss."""
        if self.begun is not None or epochs == 0:
            return
        some = min(_EPOCHS_A_LOOK, epochs)
        with torch.cuda.device(self.room.device):
            self.stage.capture()
            self.stage.take_place_of(self.loop)
            losses = self.stage.advance(some)
            self.loop.take_place_of(self.stage)
            self.loop.copy_weights()
            logits = self.room.evaluate(self.network) if some == epochs else None
            self.begun = _Begun(some, losses, logits)

    def advance(self, epochs: int, callback: Callable[[Update], None]) -> Update:
        """Train for so many epochs more."""
        left = epochs
        try:
            while left:
                left -= self._end(left)
                callback(self.last)
        except KeyboardInterrupt:
            if self.last.epoch == 0:
                raise
            return replace(self.last, interrupted=True)
        return self.last

    def _end(self, epochs: int) -> int:
        """Train up to the next look, which may have begun already; return how many epochs these were."""
        self.begin(epochs)
        begun, self.begun = self.begun, None
        assert begun is not None  # noqa: S101, it was just made
        (loss,) = begun.losses.tolist()
        self.last = Update(epoch=self.last.epoch + begun.epochs, train_loss=loss)
        self.logits = begun.logits
        return begun.epochs

    def evaluate(self) -> Tensor:
        """Return what the network says of all nodes."""
        return (self.room.evaluate(self.network) if self.logits is None else self.logits).cpu()


@torch.no_grad()
def _evaluate(network: DAHGNN, room: Classroom) -> Tensor:
    logits: Tensor = network.eval()(room.features, room.hypergraph)
    return logits
