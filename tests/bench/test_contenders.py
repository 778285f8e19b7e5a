"""The workload and the methods that are timed on it."""

import pytest
import torch

from dahgnn.bench import contenders
from dahgnn.bench.contenders import Workload


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


@pytest.mark.parametrize("key", ["ours", "without-density", "ten"])
def test_ours_is_timed(workload, key):
    assert contenders.METHODS[key].time(workload, 2) > 0


def test_a_peer_is_timed_by_the_plain_loop(workload):
    calls = []

    def make(given):
        layer = torch.nn.Linear(contenders.IN_FEATURES, contenders.N_CLASSES)
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
