import json
import re
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch

from dahgnn.bench import measure as bench
from dahgnn.bench.contenders import Contender, Workload, random_data
from dahgnn.bench.lower_bound import Machine, Size, floor
from dahgnn.bench.measure import BenchConfig, Cost, compare
from dahgnn.bench.results import table_row
from dahgnn.config import PRESETS


@pytest.fixture
def workload() -> Workload:
    return Workload.make(random_data(120, torch.device("cpu")))


@pytest.fixture
def quick_machine(monkeypatch):
    machine = Machine(bandwidth=2e9, rate=1e10)
    monkeypatch.setattr(Machine, "measure", lambda _: machine)
    return machine


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
    assert table_row(gat).startswith("| 120 | GAT, PyG | 600 | 3.50 | 3.00 | ")
    assert table_row(dhg) == "| 120 | HGNN and UniGAT, DHG | out of memory | | | |"


def test_the_default_network_has_a_floor_of_its_own(monkeypatch, quick_machine):
    costs = {"ours": Cost(0.2), "default": Cost(0.5, columns=16)}
    monkeypatch.setattr(bench, "_measure_apart", lambda key, *_: costs[key])
    ours, default, least, own = compare(BenchConfig(nodes=(120,), features=40, methods=("ours", "default")))
    assert [line["method"] for line in (least, own)] == ["floor", "floor of the default network"]
    assert (ours["size"]["columns"], default["size"]["columns"]) == (40, 16)
    paper = floor(Size(**ours["size"]), quick_machine)
    expected = floor(Size(**default["size"]), quick_machine, PRESETS["default"].model)
    assert expected.products == pytest.approx(paper.products * (16 / 40) * (64 / 32))
    assert ours["times_floor"] == pytest.approx(0.2 / paper.seconds)
    assert default["times_floor"] == pytest.approx(0.5 / expected.seconds)
    assert least["milliseconds"] == pytest.approx(1e3 * paper.seconds)
    assert own["milliseconds"] == pytest.approx(1e3 * expected.seconds)
    assert own["floor"]["projections"] == pytest.approx(1e3 * expected.projections)


def test_a_default_network_that_was_not_measured_has_no_floor(monkeypatch, quick_machine):
    monkeypatch.setattr(bench, "_measure_apart", lambda *_: Cost(problem="out of memory"))
    lines = list(compare(BenchConfig(nodes=(120,), methods=("default",))))
    assert [line["method"] for line in lines] == ["Default network, ours", "floor"]


def test_a_method_is_measured_on_what_it_prepares(workload):
    given = []

    def time(prepared, repeats):
        given.append((prepared.features.shape[1], repeats))
        return 0.5

    half = Contender(
        "half",
        time,
        prepare=lambda workload: replace(workload, features=workload.features[:, ::2]),
        count_columns=lambda prepared: prepared.features.shape[1],
    )
    cost = bench._measure(half, workload, 7)
    assert given == [(392, 1), (392, 7)]  # the small workload first
    assert (cost.seconds, cost.columns) == (0.5, 392)


def test_methods_of_fits_alone_have_no_epochs(monkeypatch):
    monkeypatch.setattr(Machine, "measure", lambda _: pytest.fail("measured"))
    assert list(compare(BenchConfig(methods=("laplace",), fits=1))) == []


def test_without_ours_there_is_no_ratio_to_it(monkeypatch, quick_machine):
    monkeypatch.setattr(bench, "find_spec", lambda _: object())
    monkeypatch.setattr(bench, "_measure_apart", lambda *_: Cost(0.6, 3.5))
    line = next(compare(BenchConfig(nodes=(120,), methods=("gat",))))
    assert line["times_ours"] is None
    assert " | – | " in table_row(line)


def test_missing_peers_are_named(monkeypatch, quick_machine):
    monkeypatch.setattr(bench, "find_spec", lambda _: None)
    rows = [table_row(line) for line in compare(BenchConfig(nodes=(120,), methods=("pyg", "gat", "dhg")))]
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
def test_what_stands_in_the_way_is_said(monkeypatch, workload, error, problem):
    monkeypatch.setattr(bench, "METHODS", {"gat": Contender("GAT", failing(error))})
    assert bench._attempt("gat", workload, 1) == Cost(problem=problem)


def test_a_bug_is_no_lack_of_memory(monkeypatch, workload):
    monkeypatch.setattr(bench, "METHODS", {"gat": Contender("GAT", failing(RuntimeError("a bug")))})
    with pytest.raises(RuntimeError, match="a bug"):
        bench._attempt("gat", workload, 1)


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
        ({"methods": ("laplace",)}, "'default', 'pyg', 'gat', 'dhg'. Got 'laplace'."),
        ({"methods": ("laplac",), "fits": 1}, "Got 'laplac'. Did you mean 'laplace'?"),
        ({"fits": -1}, "The 'fits' parameter of BenchConfig must be at least 0. Got -1."),
        ({"features": 0}, "The 'features' parameter of BenchConfig must be at least 1. Got 0."),
        (
            {"features": 64, "mnist": Path("images")},
            "The 'features' parameter of BenchConfig must be left out where there are images. Got 64.",
        ),
        (
            {"nodes": (1000, 500), "fits": 1, "labels": 50},
            "The 'labels' parameter of BenchConfig must be less than the 50 nodes of a class. Got 50.",
        ),
        (
            {"device": "cuda:99"},
            "The 'device' parameter of BenchConfig must be a device that torch finds here, 'cpu'",
        ),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        BenchConfig(**settings)


def test_few_nodes_are_refused_for_fits_alone():
    assert BenchConfig(nodes=(100,), labels=50).labels == 50


def test_clocks_tell_own_work_from_that_of_others():
    before = bench.read_clocks()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    _, own, every = (b - a for a, b in zip(before, bench.read_clocks(), strict=True))
    assert own >= 0.03
    assert every >= own - 0.03  # it counts in hundredths


def test_others_are_what_all_did_less_what_this_process_did(monkeypatch):
    monkeypatch.setattr(bench, "read_clocks", lambda: (14.0, 103.0, 1009.0))
    assert bench.count_others((10.0, 100.0, 1000.0)) == (9 - 3) / 4
    assert bench.count_others((10.0, 100.0, 1009.0)) is None  # nobody tells
