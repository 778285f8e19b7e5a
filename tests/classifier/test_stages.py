"""Networks trained in stages: which stage stays, and when it ends."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from dahgnn.classifier.stages import count_networks, stage_ends, train_in_stages
from dahgnn.config import ModelConfig
from dahgnn.nn.model import DAHGNN
from dahgnn.training.splits import Split
from dahgnn.training.updates import Update

LABELS = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1])
SPLITS = [
    Split(train=[2, 3, 4, 5, 6, 7], validation=[0, 1], test=[]),
    Split(train=[0, 1, 4, 5, 6, 7], validation=[2, 3], test=[]),
]


def make(count=2):
    return [
        DAHGNN(3, 2, ModelConfig(hidden=2, heads=1, units=2), generator=torch.Generator().manual_seed(seed))
        for seed in range(count)
    ]


def test_many_rows_have_one_network_unless_asked_for():
    assert count_networks("auto", 20_000) == 5
    assert count_networks("auto", 20_001) == 1
    assert count_networks(3, 10**6) == 3


class Trainer:
    """Stands for the training: it says what a plan tells it to, and writes the stage into the weights.

    The plan has the probability of the right class at each network's held-out rows, stage by stage.
    """

    def __init__(self, networks, plan, splits=None, interrupt=None, begin=True):
        self.networks, self.plan, self.splits = networks, plan, splits or SPLITS
        self.interrupt, self.begin = interrupt, begin
        self.calls = []

    def train(self, most, listen=lambda *_: None):
        """Train all networks in stages."""
        trainings = [Training(self, number) for number in range(len(self.networks))]
        return train_in_stages(self.networks, trainings, self.splits, LABELS, most, listen)


class Training:
    """The training of one network."""

    def __init__(self, trainer, number):
        self.trainer, self.number, self.done = trainer, number, 0

    def advance(self, epochs, callback):
        trainer, number = self.trainer, self.number
        self.stage = sum(call[0] == number for call in trainer.calls)
        trainer.calls.append((number, epochs))
        pressed = trainer.interrupt == (self.stage, number)
        if pressed and not trainer.begin:
            raise KeyboardInterrupt
        with torch.no_grad():
            for weight in trainer.networks[number].parameters():
                weight.fill_(10 * self.stage + number)
        self.done += 3 if pressed else epochs
        update = Update(epoch=self.done, train_loss=0.1 * self.stage, interrupted=pressed)
        callback(update)
        return update

    def evaluate(self):
        right = torch.full((8,), 0.5)
        held = self.trainer.splits[self.number].validation
        right[held] = torch.as_tensor(self.trainer.plan[self.stage][self.number])
        return torch.stack([torch.where(c == LABELS, right, 1 - right) for c in (0, 1)], 1).log()


def weights_of(networks):
    """What the trainer wrote into each network: ten times the stage, and the network's number."""
    return [next(network.parameters()).flatten()[0].item() for network in networks]


@pytest.mark.parametrize(
    ("most", "ends"),
    [(1, [1]), (7, [7]), (8, [8]), (9, [8, 9]), (16, [8, 16]), (17, [8, 16, 17]), (64, [8, 16, 32, 64])],
)
def test_stages_double_and_end_at_the_most(most, ends):
    assert stage_ends(most) == ends


def test_the_best_stage_has_the_least_pooled_loss():
    # The first network is best after the third stage, the second after the first; together after the second.
    plan = [(0.5, 0.9), (0.8, 0.85), (0.9, 0.6), (0.99, 0.99)]
    networks = make()
    trainer = Trainer(networks, plan)
    trained = trainer.train(100)
    assert trained.epochs == 16
    assert weights_of(networks) == [10.0, 11.0]
    assert not trained.interrupted
    # It got worse in the third stage, so that there is no fourth.
    assert [(stage.network, stage.epoch) for stage in trained.history] == [
        (0, 8), (1, 8), (0, 16), (1, 16), (0, 32), (1, 32),
    ]  # fmt: skip
    for network, logits in enumerate(trained.logits):
        right = logits.softmax(1)[SPLITS[network].validation, LABELS[SPLITS[network].validation]]
        np.testing.assert_allclose(right, plan[1][network], rtol=1e-6)


def test_labels_count_and_not_networks():
    splits = [
        Split(train=[6, 7], validation=[0, 1, 2, 3, 4], test=[]),
        Split(train=[0, 1], validation=[2], test=[]),
    ]
    # By networks the second stage would be worse: 0.6 · 0.3 < 0.5 · 0.5. By labels it is better.
    plan = [(0.5, 0.5), (0.6, 0.3)]
    networks = make()
    trained = Trainer(networks, plan, splits).train(16)
    assert trained.epochs == 16


def test_a_stage_is_described_by_labels_that_were_not_seen():
    networks = make()
    plan = [([0.7, 0.2], 0.9), (0.1, 0.1)]
    trained = Trainer(networks, plan).train(16)
    first = trained.history[0]
    assert first.validation_loss == pytest.approx(-(math.log(0.7) + math.log(0.2)) / 2)
    assert first.validation_accuracy == 0.5
    assert trained.history[2].train_loss == pytest.approx(0.1)
    assert trained.epochs == 8
    loss = cross_entropy(trained.logits[0][[0, 1]], LABELS[[0, 1]])
    assert first.validation_loss == pytest.approx(float(loss), rel=1e-5)


def test_the_networks_train_in_turn_and_are_heard():
    networks, heard = make(), []
    trainer = Trainer(networks, [(0.5, 0.5), (0.6, 0.6), (0.7, 0.7)])
    trainer.train(20, lambda number, update: heard.append((number, update.epoch)))
    assert trainer.calls == [(0, 8), (1, 8), (0, 8), (1, 8), (0, 4), (1, 4)]
    assert heard == [(0, 8), (1, 8), (0, 16), (1, 16), (0, 20), (1, 20)]


@pytest.mark.parametrize("stage", [0, 1])
def test_a_loss_that_is_not_finite_ends_it(stage):
    networks = make()
    plan = [(0.5, 0.5), (0.6, 0.6)]
    plan[stage] = (math.nan, 0.9)
    trainer = Trainer(networks, plan)
    if stage == 0:
        with pytest.raises(
            ValueError, match=r"^The loss of the networks must stay finite\. Got nan or inf\."
        ):
            trainer.train(100)
    else:
        assert trainer.train(100).epochs == 8


def test_a_loss_that_stays_the_same_is_no_reason_to_go_on():
    networks = make()
    trained = Trainer(networks, [(0.5, 0.5)] * 5).train(100)
    assert (trained.epochs, trained.history[-1].epoch) == (8, 16)
    assert weights_of(networks) == [0.0, 1.0]


@pytest.mark.parametrize(("most", "epochs", "stages"), [(8, 8, 1), (20, 20, 3), (32, 32, 3), (100, 32, 3)])
def test_without_held_out_labels_all_stages_are_done_up_to_a_few_epochs(most, epochs, stages):
    splits = [Split(train=range(8), validation=[], test=[])] * 2
    networks = make()
    trainer = Trainer(networks, [(0.5, 0.5)] * 4, splits)
    trained = trainer.train(most)
    assert (trained.epochs, len(trained.history)) == (epochs, 2 * stages)
    assert weights_of(networks) == [10.0 * (stages - 1), 10.0 * (stages - 1) + 1]
    assert all(math.isnan(stage.validation_loss) for stage in trained.history)
    assert all(math.isnan(stage.validation_accuracy) for stage in trained.history)


def test_a_network_without_held_out_labels_does_not_count():
    splits = [SPLITS[0], Split(train=range(8), validation=[], test=[])]
    networks = make()
    plan = [(0.6, []), (0.7, []), (0.5, [])]
    trained = Trainer(networks, plan, splits).train(100)
    assert (trained.epochs, trained.history[-1].epoch) == (16, 32)


def test_an_interruption_in_the_first_stage_keeps_those_that_began():
    networks = make(3)
    splits = [*SPLITS, SPLITS[0]]
    trainer = Trainer(networks, [(0.5, 0.6, 0.7)], splits, interrupt=(0, 1))
    trained = trainer.train(100)
    assert trained.interrupted
    assert len(trained.logits) == len(trained.history) == 2
    assert trained.epochs == 8
    assert weights_of(networks)[:2] == [0.0, 1.0]


@pytest.mark.parametrize("number", [0, 1])
def test_an_interruption_in_a_later_stage_keeps_the_one_before(number):
    networks = make()
    plan = [(0.5, 0.5), (0.6, 0.6), (0.99, 0.99)]
    trained = Trainer(networks, plan, interrupt=(2, number)).train(100)
    assert trained.interrupted
    assert trained.epochs == 16
    assert weights_of(networks) == [10.0, 11.0]
    assert len(trained.logits) == 2


@pytest.mark.parametrize(("pressed", "kept"), [((0, 1), 1), ((1, 0), 2), ((1, 1), 2)])
def test_an_interruption_before_a_network_began_keeps_what_there_is(pressed, kept):
    networks = make()
    trainer = Trainer(networks, [(0.5, 0.5), (0.6, 0.6)], interrupt=pressed, begin=False)
    trained = trainer.train(100)
    assert trained.interrupted
    assert (len(trained.logits), trained.epochs) == (kept, 8)
    assert weights_of(networks)[:kept] == [0.0, 1.0][:kept]


def test_an_interruption_before_anything_goes_on_up():
    networks = make()
    with pytest.raises(KeyboardInterrupt):
        Trainer(networks, [(0.5, 0.5)], interrupt=(0, 0), begin=False).train(100)
