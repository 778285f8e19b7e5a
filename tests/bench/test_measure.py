import json
import re
import time
from concurrent.futures.process import BrokenProcessPool
from unittest.mock import MagicMock

import pytest
import torch
from bench_lines import LINE

from dahgnn.bench import measure as bench
from dahgnn.bench.lower_bound import Machine, Size, floor
from dahgnn.bench.measure import BenchConfig, Cost, Task, compare


@pytest.fixture
def task() -> Task:
    return Task.make(bench.random_data(120, torch.device("cpu")))


@pytest.fixture
def quick_machine(monkeypatch):
    machine = Machine(bandwidth=2e9, rate=1e10)
    monkeypatch.setattr(Machine, "measure", lambda _: machine)
    return machine


def test_the_median_leaves_the_warm_up_out():
    assert bench.median_seconds([0, 100, 200, 300, 301, 303, 306]) == 2


def test_bunches_are_told_apart_and_the_last_is_left_out():
    # Bunches of 20 epochs, each seen within microseconds; the last holds one epoch and 19 in vain.
    stamps = [10.0 + 4.0 * (epoch // 20) + 1e-6 * (epoch % 20) for epoch in range(101)]
    assert bench.bunch_seconds(stamps) == pytest.approx(0.2)
    assert bench.bunch_seconds([1.0, 1.0, 3.0]) == 1.0  # too few to tell


@pytest.mark.parametrize(
    ("runs", "seconds"),
    [
        ([(0, 9, 2.0), (0, 9, 2.5), (1, 8, 2.0)], 2.5),  # side by side
        ([(5, 9, 3.0), (0, 5, 2.0), (9, 12, 1.0)], 6.0),  # one after the other
        ([(0, 5, 2.0), (1, 5, 2.0), (6, 9, 3.0), (7, 9, 3.0)], 5.0),  # two by two
    ],
)
def test_turns_add_up(runs, seconds):
    assert bench.sum_of_turns(runs) == seconds


@pytest.mark.parametrize("key", ["ours", "without-density", "ten"])
def test_ours_is_timed(task, key):
    assert bench.METHODS[key].time(task, 2) > 0


def test_a_peer_is_timed_by_the_plain_loop(task):
    calls = []

    def make(given):
        layer = torch.nn.Linear(bench.IN_FEATURES, bench.N_CLASSES)
        layer.register_forward_hook(lambda *_: calls.append(layer.weight.detach().clone()))
        assert given is task.hypergraph
        return layer

    assert bench._time_peer(make, task, 2) > 0
    assert len(calls) == 5  # three to warm up
    assert not torch.equal(calls[0], calls[-1])


def test_rows_have_ratios_to_ours_and_to_their_floor(monkeypatch, quick_machine):
    costs = {
        "gat": Cost(0.6, 3.5),
        "ours": Cost(0.2, 2.0),
        "ten": Cost(0.8),
        "dhg": Cost(problem="out of memory"),
    }
    monkeypatch.setattr(bench, "find_spec", lambda _: object())
    monkeypatch.setattr(bench, "_measure_apart", lambda key, *_: costs[key])
    lines = list(compare(BenchConfig(nodes=(120, 150), methods=("gat", "dhg", "ten", "ours"))))
    assert [line["nodes"] for line in lines] == [120] * 5 + [150] * 5
    ours, ten, gat, dhg, least = lines[:5]
    assert (ours["times_ours"], ten["times_ours"], gat["times_ours"]) == pytest.approx((1, 4, 3))
    size = Size(**ours["size"])
    one, many = (floor(size, quick_machine, runs=runs).seconds for runs in (1, 10))
    assert gat["times_floor"] == pytest.approx(0.6 / one)
    assert ten["times_floor"] == pytest.approx(0.8 / many)
    assert least["milliseconds"] == pytest.approx(1e3 * one)
    assert (least["method"], least["times_floor"]) == ("floor", 1)
    assert least["times_ours"] == pytest.approx(one / 0.2)
    assert bench.table_row(gat).startswith("| 120 | GAT, PyG | 600 | 3.50 | 3.00 | ")
    assert bench.table_row(dhg) == "| 120 | HGNN and UniGAT, DHG | out of memory | | | |"


def test_without_ours_there_is_no_ratio_to_it(monkeypatch, quick_machine):
    monkeypatch.setattr(bench, "find_spec", lambda _: object())
    monkeypatch.setattr(bench, "_measure_apart", lambda *_: Cost(0.6, 3.5))
    line = next(compare(BenchConfig(nodes=(120,), methods=("gat",))))
    assert line["times_ours"] is None
    assert " | – | " in bench.table_row(line)


def test_missing_peers_are_named(monkeypatch, quick_machine):
    monkeypatch.setattr(bench, "find_spec", lambda _: None)
    rows = [
        bench.table_row(line) for line in compare(BenchConfig(nodes=(120,), methods=("pyg", "gat", "dhg")))
    ]
    assert rows[:3] == [
        "| 120 | HypergraphConv with attention, PyG | torch_geometric is not installed | | | |",
        "| 120 | GAT, PyG | torch_geometric is not installed | | | |",
        "| 120 | HGNN and UniGAT, DHG | dhg is not installed | | | |",
    ]


def test_a_process_of_its_own_measures_time_and_memory(quick_machine):
    line, _ = compare(BenchConfig(nodes=(2000,), repeats=2, methods=("ours",)))
    assert line["problem"] is None
    assert line["milliseconds"] > 0
    # The fit holds the propagated features twice, 6 MiB each, and cannot need a hundred times that.
    assert 6 < line["memory"] < 600
    assert json.loads(json.dumps(line)) == line


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ModuleNotFoundError(name="optuna"), "optuna is not installed"),
        (ImportError("cannot import name 'a' from 'dhg'\nmore"), "cannot import name 'a' from 'dhg'"),
        (MemoryError(), "out of memory"),
        (torch.OutOfMemoryError("CUDA out of memory."), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), "out of memory"),
    ],
)
def test_what_stands_in_the_way_is_said(monkeypatch, task, error, problem):
    monkeypatch.setattr(bench, "METHODS", {"gat": bench.Method("GAT", failing(error))})
    assert bench._attempt("gat", task, 1) == Cost(problem=problem)


def test_a_bug_is_no_lack_of_memory(monkeypatch, task):
    monkeypatch.setattr(bench, "METHODS", {"gat": bench.Method("GAT", failing(RuntimeError("a bug")))})
    with pytest.raises(RuntimeError, match="a bug"):
        bench._attempt("gat", task, 1)


def test_a_killed_process_is_a_row_too(monkeypatch, tmp_path):
    pool = MagicMock()
    pool.return_value.__enter__.return_value.submit.return_value.result.side_effect = BrokenProcessPool
    monkeypatch.setattr(bench, "ProcessPoolExecutor", pool)
    assert bench._measure_apart("gat", tmp_path, 1) == Cost(problem="killed, out of memory perhaps")


def failing(error: Exception):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"nodes": (1000, 99)}, "The 'nodes' parameter of BenchConfig must be at least 100. Got 99."),
        ({"repeats": 0}, "The 'repeats' parameter of BenchConfig must be at least 1. Got 0."),
        ({"methods": ("our",)}, "Got 'our'. Did you mean 'ours'?"),
        (
            {"device": "cuda:99"},
            "The 'device' parameter of BenchConfig must be a device that torch finds here, 'cpu'",
        ),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        BenchConfig(**settings)


def test_random_data_repeat():
    first, second = (bench.random_data(150, torch.device("cpu")) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert int(first["neighbours"].max()) < 150


def test_the_notes_state_the_speeds():
    notes = bench.table_notes([LINE])
    assert "150 GFLOP/s" in notes
    assert "30 GB/s" in notes
    assert "torch 2.11;" in notes
    assert "Other processes" not in notes


def test_the_notes_say_when_others_were_in_the_way():
    lines = [LINE | {"others": others} for others in (0.2, 1.31, None)]
    assert bench.table_notes(lines).endswith("Other processes kept up to 1.3 cores busy meanwhile.")


def test_clocks_tell_own_work_from_that_of_others():
    before = bench._clocks()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    _, own, every = (b - a for a, b in zip(before, bench._clocks(), strict=True))
    assert own >= 0.03
    assert every >= own - 0.03  # it counts in hundredths


def test_lines_are_written_one_each(tmp_path):
    bench.write_lines(tmp_path / "new" / "lines.jsonl", [LINE, LINE])
    assert [json.loads(line) for line in (tmp_path / "new" / "lines.jsonl").read_text().splitlines()] == [
        LINE
    ] * 2


def test_the_picture_leaves_out_what_was_not_measured(tmp_path):
    ours = bench.METHODS["ours"].name
    lines = [LINE, LINE | {"method": ours, "nodes": 2000, "milliseconds": 7.0}]
    lines += [LINE | {"method": ours, "milliseconds": 5.0}, LINE | {"method": "x", "milliseconds": None}]
    assert bench._curves(lines) == {"floor": [(1000, 2.0)], ours: [(1000, 5.0), (2000, 7.0)]}
    bench.draw_costs(tmp_path / "costs.png", lines)
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")


def test_labels_are_spread_apart():
    placed = bench._spread_apart({"a": 4.0, "b": 1.0, "c": 1.1, "d": 1.2}, gap=2.0)
    assert list(placed) == ["a", "b", "c", "d"]
    assert (placed["b"], placed["c"], placed["d"], placed["a"]) == (1.0, 2.0, 4.0, 8.0)
