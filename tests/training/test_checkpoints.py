"""Checkpoints: a training that was ended goes on as if nothing had happened."""

from dataclasses import dataclass

import pytest
import torch

from dahgnn.config import ModelConfig
from dahgnn.nn.model import DAHGNN
from dahgnn.training.checkpoints import Checkpoints, KeptRoom
from dahgnn.training.run import Labelled
from dahgnn.training.updates import Update


class EndedError(Exception):
    """Stands for the end of the program."""


class CountingUpdates:
    """A training whose weights tell how often, and in which order, they were updated."""

    def __init__(self, seed):
        self.done, self.weight, self.work = 0, torch.tensor([float(seed), 1.0]), 0

    def advance(self, epochs, callback):
        for _ in range(epochs):
            self.done, self.work = self.done + 1, self.work + 1
            self.weight = self.weight * 1.5 + self.done
            callback(self._last())
        return self._last()

    def _last(self):
        return Update(epoch=self.done, train_loss=float(self.weight.sum()))

    def evaluate(self):
        return self.weight.clone()

    def state(self):
        return {"done": torch.tensor(self.done), "weight": self.weight.clone()}

    def restore(self, state):
        self.done, self.weight = int(state["done"]), state["weight"].clone()


class Room:
    def __init__(self):
        self.updates = []

    def enter(self, network, labelled, seed):
        self.updates.append(CountingUpdates(seed))
        return self.updates[-1]

    def measure_density(self, network):
        return torch.ones(3)


@dataclass
class Second:
    """The second of two processes, as far as writing goes."""

    rank: int = 1
    size: int = 2


NODES = torch.arange(4)
LABELLED = Labelled(NODES, NODES % 2)


def network(seed=0):
    return DAHGNN(3, 2, ModelConfig(hidden=4), generator=torch.Generator().manual_seed(seed))


def program(folder, *, end_at=None, identity=None, labelled=LABELLED, seed=5, first=0, every=1):
    """Train two networks in two stages, judged after each, and end the program at an epoch of the second."""
    room = Room()
    kept = KeptRoom(room, Checkpoints(folder=folder, identity=identity or {"rows": "a"}, every=every))
    trainings = [kept.enter(network(first), labelled, seed + number) for number in range(2)]
    judged = []
    for stage, epochs in enumerate((2, 3)):
        for number, training in enumerate(trainings):

            def hear(update, place=(stage, number)):
                if (*place, update.epoch) == end_at:
                    raise EndedError

            judged.append((training.advance(epochs, hear), training.evaluate().tolist()))
    return judged, [updates.work for updates in room.updates]


def test_what_comes_is_what_came_without_an_end(tmp_path):
    whole, work = program(tmp_path / "whole")
    assert work == [5, 5]
    with pytest.raises(EndedError):
        program(tmp_path / "cut", end_at=(1, 0, 4))
    again, work = program(tmp_path / "cut")
    assert again == whole  # also what was seen of the first stage
    assert work == [1, 3]  # one epoch was left of the first network, and a stage of the second
    again, work = program(tmp_path / "cut")
    assert (again, work) == (whole, [0, 0])


def test_checkpoints_may_be_rare(tmp_path):
    whole, _ = program(tmp_path / "whole")
    with pytest.raises(EndedError):
        program(tmp_path / "cut", end_at=(1, 0, 3), every=4)
    again, work = program(tmp_path / "cut", every=4)
    assert again == whole
    assert work == [3, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"identity": {"rows": "b"}}, "'rows' is a instead of b"),
        ({"identity": {"rows": "a", "k": 3}}, "'k' is None instead of 3"),
        ({"seed": 6}, "'seed' is 5 instead of 6"),
        ({"first": 1}, "'network' is "),
        ({"labelled": Labelled(NODES, 1 - NODES % 2)}, "'labelled' is "),
        ({"labelled": Labelled(NODES, NODES % 2, torch.ones(4))}, "'labelled' is "),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, change, words):
    program(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        ValueError, match=f"network-000-000.* must be of this training. Got one where {words}"
    ):
        program(tmp_path, **change)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_checkpoint_that_is_cut_is_refused(tmp_path):
    program(tmp_path)
    path = tmp_path / "network-000-000.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="Remove it to train from the start"):
        program(tmp_path)


def test_only_the_first_process_writes(tmp_path):
    checkpoints = Checkpoints(folder=tmp_path / "none", identity={}, world=Second())
    checkpoints.write("x", {}, 1, lambda: {"weight": torch.ones(1)})
    assert not (tmp_path / "none").exists()


def test_an_interrupted_stage_is_gone_on_with(tmp_path):
    room = Room()
    training = KeptRoom(room, Checkpoints(folder=tmp_path, identity={})).enter(network(), LABELLED, 0)
    inner = room.updates[0]
    really, inner.advance = (
        inner.advance,
        lambda epochs, callback: Update(epoch=0, train_loss=0.0, interrupted=True),
    )
    assert training.advance(4, lambda update: None).interrupted
    inner.advance = really
    assert training.advance(4, lambda update: None).epoch == 4


def test_the_room_measures_what_its_room_does(tmp_path):
    kept = KeptRoom(Room(), Checkpoints(folder=tmp_path, identity={}))
    assert kept.measure_density(network()).tolist() == [1.0] * 3


def test_epochs_between_checkpoints_are_counted_from_one(tmp_path):
    with pytest.raises(ValueError, match="'every' parameter of Checkpoints must be at least 1. Got 0"):
        Checkpoints(folder=tmp_path, identity={}, every=0)
