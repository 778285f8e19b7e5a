"""The benchmark of scale: its arithmetic, its tables, what it watches, and a small run of it."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scale.arithmetic import PowerLaw, fit_power
from scale.command import main, run
from scale.extrapolation import Cluster, Costs, Task, extrapolate, read_costs, say_extrapolation
from scale.graph_part import recall_of
from scale.rows import block_neighbours, draw_rows, hide_classes, open_rows, write_parquet
from scale.tables import say_growth, say_table
from scale.watch import Watch, find_family, read_memory

from dahgnn.files.jsonl import read_objects
from dahgnn.files.scratch import Scratch

SIZES = (1_000, 10_000, 100_000)


def test_a_power_law_is_the_line_of_least_squares_through_logarithms():
    seconds = [0.2, 1.7, 25.0]
    law = fit_power(SIZES, seconds)
    slope, height = np.polyfit(np.log(SIZES), np.log(seconds), 1)
    assert law.exponent == pytest.approx(slope)
    assert law.at(3e6) == pytest.approx(math.exp(height) * 3e6**slope)
    assert law.measured == SIZES


def test_one_size_is_assumed_to_grow_as_said():
    assert fit_power([10_000, 10_000], [2.0, 8.0]).at(20_000) == pytest.approx(8)  # the mean of logarithms
    assert fit_power([10_000], [2.0], exponent=1.5).at(40_000) == pytest.approx(16)


def test_what_seems_to_grow_too_slowly_grows_by_the_least_power_from_the_largest_size_on():
    slow = fit_power([10_000, 40_000], [10.0, 20.0], least=1.0)
    assert (slow.exponent, slow.at(80_000)) == pytest.approx((1.0, 40.0))
    assert fit_power([10_000, 40_000], [10.0, 80.0], least=1.0).exponent == pytest.approx(1.5)


@pytest.mark.parametrize(("sizes", "seconds"), [([], []), ([1], [1.0, 2.0]), ([1, 2], [1.0, 0.0])])
def test_nothing_to_fit_to_is_refused(sizes, seconds):
    with pytest.raises(ValueError, match="There must be seconds for each of some sizes"):
        fit_power(sizes, seconds)


def law(seconds, exponent=1.0):
    return PowerLaw(seconds, exponent, (1_000_000,))


COSTS = Costs(
    index=law(60.0, 1.5),
    search=law(40.0, 1.5),
    collect=law(3.0),
    table=law(2.0),
    propagate=law(1.0),
    evaluate=law(4.0),
    rest=law(16.0),
    update=0.002,
    trained_on="cpu",
    weights=5_000_000,
    threads=2,
)
TASK = Task(n=4_000_000, labels=1_000, epochs=10, batch=300)
CLUSTER = Cluster(
    machines=4, gpus=2, cores=8, memory=24.0, network=1e9, disk=2e9, memory_speed=2, latency=0.01
)


def test_an_extrapolation_is_what_one_computes_by_hand():
    steps = {step.name: step.seconds for step in extrapolate(COSTS, TASK, CLUSTER).steps}
    assert steps == pytest.approx(
        {
            "read the table, write the results": 2 * 4,
            "build the index": 60 * 8 / 4,  # 4^1.5 = 8, and 8 cores in place of 2
            "bring index and rows to the machines": 4e6 * (4 * 64 + 8 + 4 * 64) / 1e9,
            "search the shards": 40 * 8 / (4 * 4),
            "choose by local scale": 3 * 4,
            "propagate features": 4 / 4,
            "updates": 10 * 1_000 * 0.002 / (4 * 4),
            "exchange gradients": 10 * 4 * (0.01 + 2 * 4 * 5e6 / 1e9),  # four updates an epoch
            "evaluate the network": 4 * 4 * 4 / 4,  # four times, with the cores of one machine
            "experts, labels that spread": 16 * 4 / 2,
        }
    )


def test_what_was_measured_on_a_gpu_divides_by_gpus():
    found = extrapolate(replace(COSTS, trained_on="cuda"), TASK, CLUSTER)
    steps = {step.name: step.seconds for step in found.steps}
    assert steps["updates"] == pytest.approx(10 * 1_000 * 0.002 / 8)
    assert steps["evaluate the network"] == pytest.approx(4 * 4 * 4)
    assert steps["propagate features"] == pytest.approx(4)
    assert steps["experts, labels that spread"] == pytest.approx(2 * 16 * 4 / 2)  # of two processes a machine
    memory = "memory of a machine, all its processes"
    assert found.sizes[memory] > 1.5 * extrapolate(COSTS, TASK, CLUSTER).sizes[memory]


def test_more_machines_help_with_what_divides_alone():
    few, many = (extrapolate(COSTS, TASK, replace(CLUSTER, machines=count)) for count in (4, 8))
    faster = {one.name: one.seconds / other.seconds for one, other in zip(few.steps, many.steps, strict=True)}
    divided = {"search the shards", "updates"}
    assert faster == pytest.approx({name: 2.0 if name in divided else 1.0 for name in faster})


def test_sizes_are_counted_and_all_assumptions_are_said():
    found = extrapolate(COSTS, TASK, CLUSTER)
    assert found.sizes["features"] == 4e6 * 64 * 4
    assert found.sizes["candidates in shards"] == 4e6 * 50 * 8
    assert found.sizes["gradients of a process"] == 4 * 5e6 * 40
    assert found.seconds == sum(step.seconds for step in found.steps)
    said = say_extrapolation(found)
    for words in (
        "4,000,000 rows of 64 columns",
        "60 s × (n / 10⁶)^1.50",
        "4 machines",
        "could be divided, and are not yet",
        "120 s and 20 s",
    ):
        assert words in said


PHASES = [
    {"name": name, "seconds": took}
    for name, took in (("read", 6.0), ("fit", 30.0), ("write", 4.0), ("draw", 9.0))
]


def made_lines():
    device = {"type": "cpu", "threads": 2}
    graph = {"part": "graph", "metric": "local-scale", "d": 64, "device": device, "settings": {"probes": 8}}
    took = {"seconds_index": 2.0, "seconds_search": 3.0, "seconds_collect": 1.0, "seconds": 6.0}
    more = {"recall": 0.97, "anonymous": 1 << 30, "resident": 2 << 30, "backend": "ivf", "neighbours": 50}
    ours = {"who": "ours", "n": 1_000_000, "jobs": 1, **graph, **took, **more}
    return [
        ours,
        ours | {"n": 4_000_000, "seconds_index": 16.0, "seconds_search": 12.0, "seconds": 48.0},
        ours | {"jobs": 2, "seconds_search": 1.5, "seconds": 4.5},
        ours | {"who": "by hand", "seconds": 5.0, "recall": 0.96},
        {"part": "fit", "n": 1_000_000, "d": 64, "device": device, "seconds_rest": 16.0, "seconds": 30.0},
        {"part": "parquet", "n": 1_000_000, "d": 64, "device": device, "phases": PHASES},
        {
            "part": "train",
            "n": 1_000_000,
            "d": 64,
            "device": device,
            "batch": 256,
            "processes": 1,
            "threads": 2,
        }
        | {"seconds_propagate": 1.0, "seconds_evaluate": 4.0, "targets_a_second": 500.0, "weights": 5_000},
        {"part": "train", "n": 1_000_000, "d": 64, "device": device, "batch": 0, "problem": "no memory"},
    ]


def test_costs_are_read_from_the_lines_of_a_run():
    costs = read_costs(made_lines())
    assert costs.index.exponent == pytest.approx(1.5)
    assert costs.index.at_a_million == pytest.approx(2)
    assert costs.search.at(1_000_000) == pytest.approx(3)  # without that of two processes
    assert costs.table.at(2_000_000) == pytest.approx(20)
    assert (costs.update, costs.weights, costs.trained_on) == (0.002, 5_000, "cpu")
    with pytest.raises(ValueError, match="Measure that part first"):
        read_costs([line for line in made_lines() if line["part"] != "parquet"])


def test_a_gpu_is_what_networks_are_extrapolated_from_where_one_was_measured():
    lines = made_lines()
    on_gpu = lines[6] | {
        "device": {"type": "cuda", "name": "one"},
        "targets_a_second": 10_000.0,
        "threads": 1,
    }
    costs = read_costs([*lines, on_gpu])
    assert (costs.trained_on, costs.update) == ("cuda", 1e-4)


def test_tables_have_a_row_a_line_beside_what_was_done_by_hand():
    lines = made_lines()
    head, _, first, *others = say_table("graph", lines).splitlines()
    cells = dict(zip(head.split(" | "), first.split(" | "), strict=True))
    assert cells["search"] == "ivf (probes 8)"
    assert cells["by hand, s"] == "5.000"
    assert first.endswith(" 1.20 |")  # six seconds by five
    assert len(others) == 2
    assert "no memory" in say_table("train", lines[-1:])
    assert say_table("mnist", lines) == ""
    assert "6 s × (n / 10⁶)^1.50 over n = 1,000,000, 4,000,000" in say_growth("graph", lines)
    assert say_growth("fit", lines) == ""


def test_a_phase_has_the_memory_that_was_used_in_it():
    with Watch() as watch:
        with watch.phase("Read 5 rows"):
            held = np.ones(1 << 24)  # 128 MiB
        assert held.sum() > 0
        before = read_memory(find_family(0)[0])
        del held
        with watch.phase("Write"):
            pass
    assert before == (0, 0)  # the process 0 has no file
    phases = watch.phases
    assert list(phases) == ["read", "write"]
    assert phases["read"].anonymous - phases["write"].anonymous > 100 << 20
    fields = watch.as_fields()
    assert fields["anonymous"] >= phases["read"].anonymous >= fields["at_start"]
    assert fields["resident"] >= fields["anonymous"]


def test_processes_that_a_process_starts_are_its_family():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"]) as child:
        try:
            assert child.pid in find_family(os.getpid())
            assert read_memory(child.pid).resident > 0
        finally:
            child.kill()
    assert read_memory(child.pid) == (0, 0)


def test_rows_are_the_same_every_time_and_told_by_their_classes(tmp_path):
    rows, classes = open_rows(tmp_path, 3000, 16)
    again = [np.concatenate(each) for each in zip(*draw_rows(3000, 16), strict=True)]
    assert np.array_equal(rows, again[0])
    assert np.array_equal(classes, again[1])
    some = hide_classes(classes, 200, seed=3)
    assert np.bincount(some[some >= 0]).tolist() == [20] * 10
    assert (some[some >= 0] == classes[some >= 0]).all()


@pytest.mark.parametrize("n", [50, 2500])
def test_neighbours_of_a_block_are_others_of_it(n):
    found = block_neighbours(n, 7, Scratch())
    own = torch.arange(n)[:, None]
    assert found.shape == (n, 7)
    assert ((found >= 0) & (found < n) & (found != own)).all()
    assert (found - own).abs().max() < 1000


def test_recall_counts_the_true_neighbours():
    points = torch.rand(60, 4, generator=torch.Generator().manual_seed(0))
    order = torch.cdist(points, points).argsort(1)  # each begins with the row itself
    assert recall_of(points, order[:, :6], 5) == 1
    assert recall_of(points, order[:, 1:7], 5) == 1
    worse = order[:, :6].clone()
    worse[:, 5] = order[:, -1]
    worse[:30, 4] = -1
    assert recall_of(points, worse, 5) == pytest.approx(1 - (60 + 30) / (60 * 5))


def test_parquet_files_have_all_rows_and_some_labels(tmp_path):
    import pyarrow.parquet as pq

    folder = write_parquet(tmp_path, 250, 4, labels=50, rows_a_file=100)
    assert write_parquet(tmp_path, 250, 4, labels=50) == folder
    assert len(list(folder.iterdir())) == 3
    table = pq.read_table(folder)
    assert table.num_rows == 250
    assert table["kind"].null_count == 200


def test_a_measurement_that_fails_is_a_line_with_its_problem(tmp_path):
    line = run({"part": "mnist", "n": 70_000, "mnist": str(tmp_path), "device": "cpu"}, tmp_path)
    assert "FileNotFoundError" in line["problem"]
    json.dumps(line)


@pytest.mark.slow
def test_a_small_run_measures_the_graph_and_a_fit(tmp_path, capsys):
    out = tmp_path / "scale.jsonl"
    chosen = ["--parts", "graph", "fit", "--sizes", "2000", "--columns", "64", "--labels", "400"]
    chosen += ["--metrics", "local-scale", "--jobs", "1"]
    assert main([*chosen, "--work", str(tmp_path / "work"), "--out", str(out)]) == 0
    fit, ours, by_hand = (line for _, line in read_objects(out))
    assert fit["accuracy"] > 0.6
    assert fit["laplace_accuracy"] > 0.6
    parts = [fit[f"seconds_{name}"] for name in ("neighbours", "networks", "rest")]
    assert sum(parts) == pytest.approx(fit["seconds"], rel=0.01)
    assert fit["fit_anonymous"] > fit["at_start"] > 0
    assert (ours["recall"], ours["backend"], ours["neighbours"]) == (1.0, "exact", by_hand["neighbours"])
    assert by_hand["recall"] > 0.8
    assert {"device", "versions", "finished"} <= ours.keys()
    said = capsys.readouterr().out
    assert "times by hand" in said
    assert "Laplace, %" in said
