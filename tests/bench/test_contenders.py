"""The workload and the methods that are timed on it."""

import pytest
import torch

from dahgnn.bench import contenders
from dahgnn.bench.contenders import Workload
from dahgnn.config import PRESETS


@pytest.fixture
def workload() -> Workload:
    return Workload.make(contenders.random_data(120, torch.device("cpu")))


def test_the_median_leaves_the_warm_up_out():
    assert contenders.median_seconds([0, 100, 200, 300, 301, 303, 306]) == 2


def test_bunches_are_told_apart_and_the_last_is_left_out():
    # Bunches of 20 epochs, each seen within microseconds; the last holds one epoch and 19 in vain.
    stamps = [10.0 + 4.0 * (epoch // 20) + 1e-6 * (epoch % 20) for epoch in range(101)]
    assert contenders.bunch_seconds(stamps) == pytest.approx(0.2)
    assert contenders.bunch_seconds([1.0, 1.0, 3.0]) == 1.0  # too few to tell


@pytest.mark.parametrize(
    ("runs", "seconds"),
    [
        ([(0, 9, 2.0), (0, 9, 2.5), (1, 8, 2.0)], 2.5),  # side by side
        ([(5, 9, 3.0), (0, 5, 2.0), (9, 12, 1.0)], 6.0),  # one after the other
        ([(0, 5, 2.0), (1, 5, 2.0), (6, 9, 3.0), (7, 9, 3.0)], 5.0),  # two by two
    ],
)
def test_turns_add_up(runs, seconds):
    assert contenders.sum_of_turns(runs) == seconds


@pytest.mark.parametrize("key", ["ours", "without-density", "ten", "default"])
def test_ours_is_timed(workload, key):
    method = contenders.METHODS[key]
    assert method.time(method.prepare(workload), 2) > 0


@pytest.mark.parametrize("key", ["ours", "default"])
def test_ours_is_timed_with_any_number_of_columns(key):
    workload = Workload.make(contenders.random_data(120, torch.device("cpu"), 7))
    method = contenders.METHODS[key]
    assert workload.features.shape == (120, 7)
    assert method.time(method.prepare(workload), 1) > 0


def test_the_default_network_is_trained_as_the_classifier_does(workload, monkeypatch):
    entered = []

    class Room(contenders.Classroom):
        def enter(self, network, labelled, seed):
            entered.append((self, network, labelled))
            return super().enter(network, labelled, seed)

    monkeypatch.setattr(contenders, "Classroom", Room)
    method = contenders.METHODS["default"]
    prepared = method.prepare(workload)
    before = contenders._make_ours(prepared, 0, method.model).convolution.weight
    method.time(prepared, 2)
    ((room, network, labelled),) = entered
    assert network.config == PRESETS["default"].model
    assert room.config.learning_rate == PRESETS["default"].training.learning_rate
    assert torch.equal(labelled.labels, workload.labels[workload.split.train])
    assert not torch.equal(network.convolution.weight, before)
    # Scaled as by the classifier: columns of mean 0, and one of ones.
    assert room.features.shape == (120, contenders.IN_FEATURES + 1)
    assert room.features[:, :-1].mean(0).abs().max() < 1e-5
    assert torch.equal(room.features[:, -1], torch.ones(120))


def test_an_update_of_the_default_network_is_timed_after_the_warm_up(workload, monkeypatch):
    # Three updates of 100 seconds, and two of 2 and 4.
    clock = iter([100.0, 200.0, 300.0, 302.0, 306.0])
    monkeypatch.setattr(contenders.time, "perf_counter", lambda: next(clock))
    method = contenders.METHODS["default"]
    assert method.time(method.prepare(workload), 2) == 3


def test_the_columns_of_the_default_network_are_its_leading_directions():
    data = contenders.random_data(200, torch.device("cpu"), 60)
    method = contenders.METHODS["default"]
    # Random features have as many directions as columns, and one for the ones.
    assert method.count_columns(method.prepare(Workload.make(data))) == 61
    few = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    data["features"] = few @ torch.randn(4, 60, generator=torch.Generator().manual_seed(1))
    # Four directions and the ones, rounded up to a vector of the processor.
    assert method.count_columns(method.prepare(Workload.make(data))) == 16


def test_a_peer_is_timed_by_the_plain_loop(workload):
    calls = []

    def make(given, in_features):
        layer = torch.nn.Linear(in_features, contenders.N_CLASSES)
        layer.register_forward_hook(lambda *_: calls.append(layer.weight.detach().clone()))
        assert given is workload.hypergraph
        return layer

    assert contenders._time_peer(make, workload, 2) > 0
    assert len(calls) == 5  # three to warm up
    assert not torch.equal(calls[0], calls[-1])


def test_random_data_repeat():
    first, second = (contenders.random_data(150, torch.device("cpu")) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert int(first["neighbours"].max()) < 150
