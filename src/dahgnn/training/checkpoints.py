"""Checkpoints: what a training needs to go on after it was killed, in files that are written whole.

A restarted program does everything once more in the same order. Where a network was trained before,
`KeptRoom` takes its state from a file instead. The result is the one of a training that was never ended, bit
by bit, because what an update does follows from its number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from dahgnn.checks import check_count
from dahgnn.distributed import do_first
from dahgnn.files.tensors import read_tensors, tensors_digest, write_tensors
from dahgnn.nn.model import DAHGNN
from dahgnn.training.run import Labelled
from dahgnn.training.updates import Update, Updates
from dahgnn.world import ALONE, World

_KIND = "dahgnn-checkpoint"
_REMEDY = "Remove it to train from the start, or name another folder."


class KeepableUpdates(Updates, Protocol):
    """A network in training whose state can be kept."""

    def state(self) -> dict[str, Tensor]:
        """Return all that `restore` needs to go on as if nothing had happened, on the CPU."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that a training of the same kind had."""


class KeepableRoom(Protocol):
    """What all networks of a fit share whose trainings can be kept; `BatchRoom` is one."""

    def enter(self, network: DAHGNN, labelled: Labelled, seed: int) -> KeepableUpdates:
        """Return the training of a network."""

    def measure_density(self, network: DAHGNN) -> Tensor:
        """Return the density of all nodes in the first attention layer of a network, (n,), on the CPU."""


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """Where the states of trainings are kept, and whose they are.

    Parameters
    ----------
    folder : Path
        Holds a file for each network and stage. It is read and written by the first process alone.
    identity : mapping of str to JSON values
        The data and settings that a training must share to go on from a file here: digests of rows and
        labels, the schedule, the seed.
    every : int
        Epochs from one checkpoint to the next.
    world : World
        The processes that train together.
    replace : bool
        Whether a file of another training is replaced in place of being refused.
    """

    folder: Path
    identity: Mapping[str, Any]
    every: int = 1
    world: World = field(default=ALONE)
    replace: bool = False

    def __post_init__(self) -> None:
        check_count("every", self.every, "Checkpoints")

    def read(self, name: str, identity: Mapping[str, Any]) -> tuple[int, dict[str, Tensor]] | None:
        """Return the epoch and the state that a file holds, the same in all processes; None if there is none.

        Raises
        ------
        ValueError
            If the file is damaged, or of other data or settings; says which.
        """
        return do_first(self.world, lambda: self._read(name, identity))

    def _read(self, name: str, identity: Mapping[str, Any]) -> tuple[int, dict[str, Tensor]] | None:
        path = self._path(name)
        if not path.exists():
            return None
        header, state = read_tensors(path, _KIND, _REMEDY)
        before, now = header.get("identity", {}), self._whole(identity)
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                if self.replace:
                    return None
                raise ValueError(
                    f"The checkpoint {path} must be of this training. Got one where '{key}' is "
                    f"{before.get(key)} instead of {now.get(key)}. {_REMEDY}"
                )
        return int(header["epoch"]), state

    def write(
        self, name: str, identity: Mapping[str, Any], epoch: int, state: Callable[[], dict[str, Tensor]]
    ) -> None:
        """Keep a state, by the first process; the others go on meanwhile."""
        if self.world.rank == 0:
            header = {"identity": self._whole(identity), "epoch": epoch}
            write_tensors(self._path(name), _KIND, header, state())

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def _whole(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.identity, **identity}


class KeptRoom:
    """A room whose trainings are kept, and taken up again by a program that is started again.

    Parameters
    ----------
    room : KeepableRoom
        The room.
    checkpoints : Checkpoints
        Where the trainings are kept. A program that enters networks in the same order finds them again.
    """

    def __init__(self, room: KeepableRoom, checkpoints: Checkpoints) -> None:
        self.room, self.checkpoints, self._entered = room, checkpoints, 0

    def enter(self, network: DAHGNN, labelled: Labelled, seed: int) -> Updates:
        """Return the training of a network."""
        given = {name: tensor for name, tensor in labelled._asdict().items() if tensor is not None}
        first = {f"weight.{name}": tensor for name, tensor in network.state_dict().items()}
        identity = {"network": tensors_digest(first), "labelled": tensors_digest(given), "seed": seed}
        name = f"network-{self._entered:03d}"
        self._entered += 1
        return _KeptUpdates(self.room.enter(network, labelled, seed), self.checkpoints, name, identity)

    def measure_density(self, network: DAHGNN) -> Tensor:
        """Return the density of all nodes in the first attention layer of a network, (n,), on the CPU."""
        return self.room.measure_density(network)


class _KeptUpdates:
    """A network in training, of which each call of ``advance`` has a file."""

    def __init__(
        self, updates: KeepableUpdates, checkpoints: Checkpoints, name: str, identity: Mapping[str, Any]
    ) -> None:
        self.updates, self.checkpoints, self.name, self.identity = updates, checkpoints, name, identity
        self.stage, self.epoch = 0, 0

    def begin(self, epochs: int) -> None:
        """Start nothing: what a file has need not be trained."""

    def advance(self, epochs: int, callback: Callable[[Update], None]) -> Update:
        """Train for so many epochs more, of which those that a file has are left out.

        Whoever looks at the network after this call sees what it was at the end of the stage, also if it had
        been trained further before the program was killed: a stage has a file of its own.
        """
        name, end = f"{self.name}-{self.stage:03d}", self.epoch + epochs
        kept = self.checkpoints.read(name, self.identity)
        start = self.epoch
        if kept is not None:
            start, state = kept
            self.updates.restore(state)

        def keep(update: Update) -> None:
            if update.epoch == end or update.epoch % self.checkpoints.every == 0:
                self.checkpoints.write(name, self.identity, update.epoch, self.updates.state)
            callback(update)

        last = self.updates.advance(end - start, keep)
        if not last.interrupted:
            self.stage, self.epoch = self.stage + 1, end
        return last

    def evaluate(self) -> Tensor:
        """Return what the network says of all nodes, (n, c), on the CPU."""
        return self.updates.evaluate()
