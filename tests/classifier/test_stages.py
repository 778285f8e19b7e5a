"""Networks trained in stages: which stage stays, and when it ends."""

import math
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from dahgnn.classifier import stages as module
from dahgnn.classifier.stages import (
    _FIRST,
    _MOST_UNJUDGED,
    _TIMES,
    count_networks,
    stage_ends,
    train_in_stages,
)
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.nn.model import DAHGNN
from dahgnn.threads import threads_for
from dahgnn.training.run import Labelled
from dahgnn.training.splits import Split
from dahgnn.training.updates import Classroom, Update

# The ends of the first three stages, if there are many epochs.
FIRST, SECOND, THIRD = _FIRST, _FIRST * _TIMES, _FIRST * _TIMES**2
MANY = 100 * THIRD

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
    assert count_networks("auto", 20_000) == PRESETS["default"].networks > 1
    assert count_networks("auto", 20_001) == 1
    assert count_networks(3, 10**6) == 3


class Trainer:
    """Stands for the training: it says what a plan tells it to, and writes the stage into the weights.

    The plan has the probability of the right class at each network's held-out rows, stage by stage.
    """

    def __init__(self, networks, plan, splits=None, interrupt=None, begin=True):
        self.networks, self.plan, self.splits = networks, plan, splits or SPLITS
        self.interrupt, self.begin = interrupt, begin
        self.interrupt_beginning, self.calls, self.begun = None, [], []

    def train(self, most, listen=lambda *_: None, workers=1):
        """Train all networks in stages."""
        trainings = [Training(self, number) for number in range(len(self.networks))]
        return train_in_stages(self.networks, trainings, self.splits, LABELS, most, listen, workers)


class Training:
    """The training of one network."""

    def __init__(self, trainer, number):
        self.trainer, self.number, self.done = trainer, number, 0

    def begin(self, epochs):
        stage = sum(call[0] == self.number for call in self.trainer.calls)
        self.trainer.begun.append((stage, self.number, epochs, len(self.trainer.calls)))
        if self.trainer.interrupt_beginning == (stage, self.number):
            raise KeyboardInterrupt

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
    [
        (1, [1]),
        (FIRST - 1, [FIRST - 1]),
        (FIRST, [FIRST]),
        (FIRST + 1, [FIRST, FIRST + 1]),
        (SECOND, [FIRST, SECOND]),
        (SECOND + 1, [FIRST, SECOND, SECOND + 1]),
        (THIRD, [FIRST, SECOND, THIRD]),
        (_TIMES * THIRD - 1, [FIRST, SECOND, THIRD, _TIMES * THIRD - 1]),
    ],
)
def test_stages_multiply_and_end_at_the_most(most, ends):
    assert stage_ends(most) == ends


def test_the_preset_has_several_stages():
    most = PRESETS["default"].training.max_epochs
    ends = stage_ends(most)
    assert len(ends) > 2
    assert (ends[0], ends[-1]) == (FIRST, most)
    assert _MOST_UNJUDGED in ends  # whoever has no held-out labels ends with a whole stage


def test_the_best_stage_has_the_least_pooled_loss():
    # The first network is best after the third stage, the second after the first; together after the second.
    plan = [(0.5, 0.9), (0.8, 0.85), (0.9, 0.6), (0.99, 0.99)]
    networks = make()
    trainer = Trainer(networks, plan)
    trained = trainer.train(MANY)
    assert trained.epochs == SECOND
    assert weights_of(networks) == [10.0, 11.0]
    assert not trained.interrupted
    # It got worse in the third stage, so that there is no fourth.
    assert [(stage.network, stage.epoch) for stage in trained.history] == [
        (0, FIRST), (1, FIRST), (0, SECOND), (1, SECOND), (0, THIRD), (1, THIRD),
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
    trained = Trainer(networks, plan, splits).train(SECOND)
    assert trained.epochs == SECOND


def test_a_stage_is_described_by_labels_that_were_not_seen():
    networks = make()
    plan = [([0.7, 0.2], 0.9), (0.1, 0.1)]
    trained = Trainer(networks, plan).train(SECOND)
    first = trained.history[0]
    assert first.validation_loss == pytest.approx(-(math.log(0.7) + math.log(0.2)) / 2)
    assert first.validation_accuracy == 0.5
    assert trained.history[2].train_loss == pytest.approx(0.1)
    assert trained.epochs == FIRST
    loss = cross_entropy(trained.logits[0][[0, 1]], LABELS[[0, 1]])
    assert first.validation_loss == pytest.approx(float(loss), rel=1e-5)


def test_the_networks_train_in_turn_and_are_heard():
    networks, heard = make(), []
    trainer = Trainer(networks, [(0.5, 0.5), (0.6, 0.6), (0.7, 0.7)])
    ends = [FIRST, SECOND, SECOND + 4]
    trainer.train(ends[-1], lambda number, update: heard.append((number, update.epoch)))
    assert trainer.calls == [(number, more) for more in (FIRST, SECOND - FIRST, 4) for number in (0, 1)]
    assert heard == [(number, end) for end in ends for number in (0, 1)]


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
            trainer.train(MANY)
    else:
        assert trainer.train(MANY).epochs == FIRST


def test_a_loss_that_stays_the_same_is_no_reason_to_go_on():
    networks = make()
    trained = Trainer(networks, [(0.5, 0.5)] * 5).train(MANY)
    assert (trained.epochs, trained.history[-1].epoch) == (FIRST, SECOND)
    assert weights_of(networks) == [0.0, 1.0]


@pytest.mark.parametrize("most", [FIRST, FIRST + 1, _MOST_UNJUDGED, _MOST_UNJUDGED + 1, MANY])
def test_without_held_out_labels_all_stages_are_done_up_to_a_few_epochs(most):
    epochs = min(most, _MOST_UNJUDGED)
    stages = len(stage_ends(epochs))
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
    trained = Trainer(networks, plan, splits).train(MANY)
    assert (trained.epochs, trained.history[-1].epoch) == (SECOND, THIRD)


def test_an_interruption_in_the_first_stage_keeps_those_that_began():
    networks = make(3)
    splits = [*SPLITS, SPLITS[0]]
    trainer = Trainer(networks, [(0.5, 0.6, 0.7)], splits, interrupt=(0, 1))
    trained = trainer.train(MANY)
    assert trained.interrupted
    assert len(trained.logits) == len(trained.history) == 2
    assert trained.epochs == FIRST
    assert weights_of(networks)[:2] == [0.0, 1.0]


@pytest.mark.parametrize("number", [0, 1])
def test_an_interruption_in_a_later_stage_keeps_the_one_before(number):
    networks = make()
    plan = [(0.5, 0.5), (0.6, 0.6), (0.99, 0.99)]
    trained = Trainer(networks, plan, interrupt=(2, number)).train(MANY)
    assert trained.interrupted
    assert trained.epochs == SECOND
    assert weights_of(networks) == [10.0, 11.0]
    assert len(trained.logits) == 2


@pytest.mark.parametrize(("pressed", "kept"), [((0, 1), 1), ((1, 0), 2), ((1, 1), 2)])
def test_an_interruption_before_a_network_began_keeps_what_there_is(pressed, kept):
    networks = make()
    trainer = Trainer(networks, [(0.5, 0.5), (0.6, 0.6)], interrupt=pressed, begin=False)
    trained = trainer.train(MANY)
    assert trained.interrupted
    assert (len(trained.logits), trained.epochs) == (kept, FIRST)
    assert weights_of(networks)[:kept] == [0.0, 1.0][:kept]


def test_an_interruption_before_anything_goes_on_up():
    networks = make()
    with pytest.raises(KeyboardInterrupt):
        Trainer(networks, [(0.5, 0.5)], interrupt=(0, 0), begin=False).train(MANY)


def test_all_networks_begin_a_stage_before_the_first_goes_on():
    trainer = Trainer(make(), [(0.5, 0.5), (0.6, 0.6)])
    trainer.train(SECOND)
    rest = SECOND - FIRST
    assert trainer.begun == [(0, 0, FIRST, 0), (0, 1, FIRST, 0), (1, 0, rest, 2), (1, 1, rest, 2)]
    side_by_side = Trainer(make(), [(0.5, 0.5)])
    side_by_side.train(FIRST, workers=2)
    assert side_by_side.begun == []  # each has a thread of its own, which need not wait


def test_an_interruption_while_a_stage_begins_keeps_the_last_one():
    networks = make()
    trainer = Trainer(networks, [(0.5, 0.5), (0.6, 0.6)])
    trainer.interrupt_beginning = (1, 1)
    trained = trainer.train(MANY)
    assert trained.interrupted
    assert (len(trained.logits), trained.epochs, len(trained.history)) == (2, FIRST, 2)
    assert weights_of(networks) == [0.0, 1.0]
    trainer = Trainer(make(), [(0.5, 0.5)])
    trainer.interrupt_beginning = (0, 0)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(MANY)


def test_without_anything_said_of_workers_all_is_done_in_the_thread_of_the_caller():
    heard = []
    Trainer(make(), [(0.5, 0.5)]).train(FIRST, lambda *_: heard.append(threading.current_thread()))
    assert heard == [threading.current_thread()] * 2


class School:
    """Real networks on real rows, three of them, each with another part of the labels."""

    def __init__(self, features, labels, hypergraph):
        self.labels, self.features, self.hypergraph = labels, features, hypergraph
        config = ModelConfig(hidden=8, heads=2, units=4, dropout=0.5, activation=True)
        self.networks = [
            DAHGNN(6, 3, config, generator=torch.Generator().manual_seed(seed)) for seed in range(3)
        ]
        self.splits = [
            Split(
                train=np.setdiff1d(np.arange(30), np.arange(start, 30, 3)),
                validation=np.arange(start, 30, 3),
                test=[],
            )
            for start in range(3)
        ]

    def train(self, most, workers, listen=lambda *_: None):
        """Train all networks in stages."""
        training = TrainingConfig(learning_rate=0.01, max_epochs=most)
        room = Classroom(self.features, self.hypergraph, training, torch.device("cpu"))
        trainings = [
            room.enter(network, Labelled(split.train, self.labels[split.train], None), seed)
            for seed, (network, split) in enumerate(zip(self.networks, self.splits, strict=True))
        ]
        return train_in_stages(self.networks, trainings, self.splits, self.labels, most, listen, workers)


@pytest.fixture
def open_school(blobs, blob_hypergraph):
    """What makes a school; networks have one thread each."""
    with threads_for(0, 1):
        yield lambda: School(*blobs, blob_hypergraph)


def same_networks(networks, others):
    """Two lists of networks have the same weights, bit for bit."""
    for network, other in zip(networks, others, strict=True):
        for weight, expected in zip(network.parameters(), other.parameters(), strict=True):
            assert torch.equal(weight, expected)


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_threads_change_nothing_in_the_networks(open_school, workers):
    in_turn, at_once = open_school(), open_school()
    expected = in_turn.train(SECOND, 1)
    heard, threads = [], set()

    def listen(number, update):
        heard.append((number, update.epoch))
        threads.add(threading.current_thread())

    found = at_once.train(SECOND, workers, listen)
    assert threading.main_thread() not in threads
    assert len(expected.history) == 6
    assert found.history == expected.history
    assert (found.epochs, found.interrupted) == (expected.epochs, False)
    for here, there in zip(found.logits, expected.logits, strict=True):
        assert torch.equal(here, there)
    same_networks(at_once.networks, in_turn.networks)
    assert not torch.equal(found.logits[0], found.logits[1])
    for number in range(3):
        assert [epoch for each, epoch in heard if each == number] == [*range(1, SECOND + 1)]


class Press:
    """Does something once in the training, when two networks are under way, and is slow all the time.

    So all threads have begun by then, and hear of it long before they are at the end of the stage.
    """

    def __init__(self, act, number, after=0):
        self.act, self.number, self.after = act, number, after
        self.last, self.pressed = {}, False

    def __call__(self, number, update):
        self.last[number] = update.epoch
        under_way = [each for each, epoch in self.last.items() if epoch > self.after + 3]
        time.sleep(0.01)
        if len(under_way) > 1 and number == self.number and not self.pressed:
            self.pressed = True
            self.act()


def press_ctrl_c():
    raise KeyboardInterrupt


def send_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def listens_to_ctrl_c():
    """Whoever runs tests in the background may have Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


ENOUGH = 600


@pytest.mark.usefixtures("listens_to_ctrl_c")
@pytest.mark.parametrize("act", [press_ctrl_c, send_ctrl_c])
@pytest.mark.parametrize("number", [0, 1])
def test_ctrl_c_ends_all_threads_and_keeps_the_networks_that_began(open_school, monkeypatch, act, number):
    monkeypatch.setattr(module, "_FIRST", ENOUGH)
    school, press, running = open_school(), Press(act, number), threading.active_count()
    try:
        trained = school.train(ENOUGH, 2, press)
    except KeyboardInterrupt:  # which would end pytest
        pytest.fail("It goes on up.")
    assert trained.interrupted
    assert threading.active_count() == running
    # The third had to wait, and did not begin.
    assert set(press.last) == {0, 1}
    assert max(press.last.values()) < ENOUGH
    assert [stage.network for stage in trained.history] == [0, 1]
    assert all(abs(stage.epoch - press.last[stage.network]) <= 1 for stage in trained.history)
    assert trained.epochs == max(stage.epoch for stage in trained.history)
    with torch.no_grad():
        for network, logits in zip(school.networks[:2], trained.logits, strict=True):
            torch.testing.assert_close(network.eval()(school.features, school.hypergraph), logits)


@pytest.mark.usefixtures("listens_to_ctrl_c")
@pytest.mark.parametrize("act", [press_ctrl_c, send_ctrl_c])
@pytest.mark.parametrize("number", [0, 1])
def test_ctrl_c_in_a_later_stage_of_several_threads_keeps_the_one_before(
    open_school, monkeypatch, act, number
):
    monkeypatch.setattr(module, "_TIMES", ENOUGH)
    shorter, school = open_school(), open_school()
    expected = shorter.train(FIRST, 1)
    press = Press(act, number, after=FIRST)
    try:
        trained = school.train(ENOUGH, 2, press)
    except KeyboardInterrupt:
        pytest.fail("It goes on up.")
    assert trained.interrupted
    assert max(press.last.values()) < ENOUGH
    assert trained.epochs == FIRST
    assert trained.history[:3] == expected.history
    assert [stage.network for stage in trained.history[3:]] == [0, 1]
    same_networks(school.networks, shorter.networks)
    for here, there in zip(trained.logits, expected.logits, strict=True):
        assert torch.equal(here, there)


@pytest.mark.parametrize("number", [0, 1])
def test_an_error_in_a_thread_comes_up_and_ends_the_others(open_school, monkeypatch, number):
    monkeypatch.setattr(module, "_FIRST", ENOUGH)

    def fail():
        raise RuntimeError("enough")

    press, running = Press(fail, number), threading.active_count()
    with pytest.raises(RuntimeError, match="^enough$"):
        open_school().train(ENOUGH, 2, press)
    assert threading.active_count() == running
    assert set(press.last) == {0, 1}
    assert max(press.last.values()) < ENOUGH


def test_one_network_at_a_time_is_heard(open_school):
    inside, most = [], []

    def listen(number, _):
        inside.append(number)
        most.append(len(inside))
        time.sleep(0.002)
        inside.remove(number)

    open_school().train(FIRST, 3, listen)
    assert set(most) == {1}
    assert len(most) == 3 * FIRST
