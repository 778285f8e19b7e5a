"""Fits are timed in turn, and what is known of them becomes lines."""

import json

import numpy as np
import pytest
import torch

from dahgnn.bench import measure_fits
from dahgnn.bench.fits import EPOCHS, FITS, FitMethod, Fitted, random_task
from dahgnn.bench.measure import BenchConfig
from dahgnn.bench.measure_fits import FitCost, Trial, compare_fits
from dahgnn.bench.results import fit_table_row

CONFIG = BenchConfig(nodes=(200,), features=8, fits=3, labels=4)


class Clock:
    """A clock that goes on when a method is fitted or asked."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure_fits, "time", clock)
    return clock


def timed(clock: Clock, seconds, calls: list, name: str) -> FitMethod:
    """A method whose fits take so many seconds, the small one first, and its prediction half a second."""
    left = iter(seconds)

    def predict(rows):
        calls.append(("predict", name, len(rows)))
        clock.now += 0.5
        return np.zeros(len(rows))

    def fit(task):
        calls.append(("fit", name, len(task.rows)))
        clock.now += next(left)
        # Right for every second row.
        wrong = np.arange(len(task.labels)) // 10 % 2
        return Fitted((task.labels + wrong) % 10, predict if name == "a" else None)

    return FitMethod(name, fit)


@pytest.fixture
def two(monkeypatch, clock):
    calls = []
    methods = {
        "default": timed(clock, [50.0, 2.0, 9.0, 4.0], calls, "a"),
        "label-spreading": timed(clock, [50.0, 1.0, 1.0, 2.0], calls, "b"),
    }
    monkeypatch.setattr(measure_fits, "FITS", methods)
    return calls


def test_methods_take_turns_after_a_small_fit(two):
    list(compare_fits(CONFIG))
    fitted = [(name, rows) for kind, name, rows in two if kind == "fit"]
    assert fitted == [("a", 300), ("b", 300)] + [("a", 200), ("b", 200)] * 3
    assert [rows for kind, _, rows in two if kind == "predict"] == [300, 200, 200, 200]


def test_lines_have_medians_and_multiples(two):
    ours, spreading = compare_fits(CONFIG)
    assert (ours["method"], ours["seconds"], ours["trials"]) == ("a", 4.0, [2.0, 9.0, 4.0])
    assert (ours["predict_seconds"], spreading["predict_seconds"]) == (0.5, None)
    assert (ours["times_default"], ours["times_label_spreading"]) == (1.0, 4.0)
    assert (spreading["times_default"], spreading["times_label_spreading"]) == (0.25, 1.0)
    assert (ours["nodes"], ours["labels"], ours["repeats"], ours["epochs"]) == (200, 4, 3, EPOCHS)
    assert ours["size"] == {"columns": 8, "new_rows": 200}
    assert json.loads(json.dumps(ours)) == ours
    assert fit_table_row(ours).startswith("| 200 | a | 4.00 | 0.500 | ")


def test_the_accuracy_is_that_of_rows_without_a_label(two):
    task = random_task(200, 8, 4, torch.device("cpu"))
    right = np.arange(200) // 10 % 2 == 0
    ours, _ = compare_fits(CONFIG)
    assert ours["accuracy"] == pytest.approx(right[task.known < 0].mean())
    assert ours["accuracy"] != pytest.approx(right.mean())  # the labelled rows are left out


def test_the_accuracy_on_new_rows_is_that_of_who_predicts_them(two):
    ours, spreading = compare_fits(CONFIG)
    assert ours["new_accuracy"] == pytest.approx(0.1)  # one class in ten is always said
    assert spreading["new_accuracy"] is None


def test_chosen_methods_alone_are_fitted(two):
    (line,) = compare_fits(BenchConfig(nodes=(200,), features=8, fits=1, labels=4, methods=("default",)))
    assert {name for _, name, _ in two} == {"a"}
    assert (line["times_default"], line["times_label_spreading"]) == (1.0, None)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ModuleNotFoundError(name="optuna"), "optuna is not installed"),
        (MemoryError(), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), "out of memory"),
    ],
)
def test_a_problem_is_a_row_and_the_method_is_left_alone(monkeypatch, two, error, problem):
    calls = []

    def fail(task):
        calls.append(len(task.rows))
        if len(task.rows) == 200:
            raise error
        return Fitted(task.labels)

    methods = {**measure_fits.FITS, "gat": FitMethod("GAT", fail)}
    monkeypatch.setattr(measure_fits, "FITS", methods)
    *others, line = compare_fits(CONFIG)
    assert calls == [300, 200]
    assert (line["problem"], line["seconds"], line["accuracy"]) == (problem, None, None)
    assert (line["times_default"], line["trials"]) == (None, [])
    assert all(other["problem"] is None for other in others)


def test_a_bug_is_no_problem_of_a_peer(monkeypatch):
    def fail(_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(measure_fits, "FITS", {"gat": FitMethod("GAT", fail)})
    with pytest.raises(RuntimeError, match="a bug"):
        list(compare_fits(CONFIG))


def test_missing_peers_are_named(monkeypatch):
    monkeypatch.setattr(measure_fits, "find_spec", lambda _: None)
    config = BenchConfig(nodes=(200,), features=8, fits=1, labels=4, methods=("gcn", "pyg"))
    assert [line["problem"] for line in compare_fits(config)] == ["torch_geometric is not installed"] * 2


def test_a_cost_without_trials_knows_nothing():
    cost = FitCost(problem="out of memory")
    assert (cost.seconds, cost.predict_seconds, cost.accuracy, cost.others) == (None,) * 4


def test_the_busiest_fit_says_how_busy_the_others_were():
    trials = [Trial(1.0, None, 0.5, None, others) for others in (0.2, None, 1.5)]
    assert FitCost(trials).others == 1.5


def test_real_fits_are_timed():
    config = BenchConfig(nodes=(200,), features=32, fits=1, labels=8, methods=("label-spreading", "laplace"))
    lines = list(compare_fits(config))
    assert [line["method"] for line in lines] == [FITS[key].name for key in ("label-spreading", "laplace")]
    assert all(line["seconds"] > 0 and line["accuracy"] > 0.3 for line in lines)
