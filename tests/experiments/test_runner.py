"""Experiments: every run once, whatever happens meanwhile."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_experiment import TABLE, small_spec, small_task

from dahgnn import HGNN, Hypergraph, TrainingConfig, fit, split_per_class
from dahgnn.experiments.datasets import load_task
from dahgnn.experiments.jobs import Experiment, Job, plan
from dahgnn.experiments.runner import group_jobs, run_experiment


@pytest.fixture(scope="module")
def task():
    return small_task()


def read(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


def identity(line: dict) -> tuple:
    return line["dataset"], line["method"], line["labels"], line["run"]


NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@NEEDS_CUDA
def test_networks_train_on_the_device_while_the_rest_has_processes(tmp_path, task):
    run_experiment(small_spec(), tmp_path, {"mnist": task}, device="cuda", jobs=2)
    lines = read(tmp_path)
    assert len({identity(line) for line in lines}) == len(lines) == 12
    for line in lines:
        classical = line["method"] == "laplace"
        assert line["device"]["type"] == ("cpu" if classical else "cuda")
        assert line["device"].get("processes") == (2 if classical else None)


def test_a_spec_becomes_a_line_for_each_run(tmp_path, task):
    spec = small_spec()
    heard = []
    assert (
        run_experiment(spec, tmp_path, {"mnist": task}, jobs=1, progress=lambda *news: heard.append(news))
        == 12
    )
    lines = read(tmp_path)
    assert sorted(map(identity, lines)) == sorted(
        ("mnist", method, 3 * count, run)
        for method in ("hgnn", "laplace", "da-hgnn")
        for count in (3, 6)
        for run in (0, 1)
    )
    assert len({line["key"] for line in lines}) == 12
    assert [news[:2] for news in heard] == [(done, 12) for done in range(13)]
    for line in lines:  # all methods share the splits
        assert (
            line["split"]["digest"]
            == split_per_class(task.labels, train=line["labels"] // 3, validation=5, seed=line["run"]).digest
        )
    assert json.loads((tmp_path / "spec.json").read_text())["name"] == "small"


def test_a_line_is_what_fit_gives(tmp_path, task):
    run_experiment(small_spec(), tmp_path, {"mnist": task}, methods=["hgnn"], jobs=1)
    line = next(line for line in read(tmp_path) if (line["labels"], line["run"]) == (18, 1))
    split = split_per_class(task.labels, train=6, validation=5, seed=1)
    model = HGNN(6, 3, hidden=8, generator=torch.Generator().manual_seed(1))
    hypergraph = Hypergraph.from_neighbors(task.neighbours)
    result = fit(model, task.features, hypergraph, task.labels, split, TrainingConfig(max_epochs=5), seed=1)
    assert line["metrics"]["test_accuracy"] == result.accuracy(torch.from_numpy(task.labels), split.test)


def test_starting_again_runs_what_is_missing(tmp_path, task):
    spec, tasks = small_spec(), {"mnist": task}
    assert run_experiment(spec, tmp_path, tasks, methods=["laplace"], jobs=1) == 4
    first = read(tmp_path)
    assert run_experiment(spec, tmp_path, tasks, jobs=1) == 8
    assert read(tmp_path)[:4] == first
    assert run_experiment(spec, tmp_path, tasks, jobs=1) == 0
    assert len(read(tmp_path)) == 12


def test_processes_side_by_side_give_the_same(tmp_path, task):
    for name, jobs in (("one", 1), ("two", 2)):
        run_experiment(small_spec(), tmp_path / name, {"mnist": task}, jobs=jobs)
    one, two = ({line["key"]: line["metrics"] for line in read(tmp_path / name)} for name in ("one", "two"))
    assert one == two


def test_a_cluster_gives_the_same_lines_once(tmp_path, task):
    spec, tasks, heard = small_spec(), {"mnist": task}, []
    run_experiment(spec, tmp_path / "one", tasks, jobs=1)
    told = {"progress": lambda *news: heard.append(news[:2])}
    assert run_experiment(spec, tmp_path / "dask", tasks, jobs=2, backend="dask", **told) == 12
    one, dask = ({line["key"]: line["metrics"] for line in read(tmp_path / name)} for name in ("one", "dask"))
    assert one == dask
    assert len(read(tmp_path / "dask")) == 12
    assert heard == [(done, 12) for done in range(13)]
    assert {line["device"]["cluster"] for line in read(tmp_path / "dask")} == {"dask"}
    assert run_experiment(spec, tmp_path / "dask", tasks, jobs=2, backend="dask") == 0


def test_a_line_that_was_cut_is_run_again(tmp_path, task, caplog):
    tasks = {"mnist": task}
    run_experiment(small_spec(), tmp_path, tasks, jobs=1)
    file = tmp_path / "runs.jsonl"
    before = read(tmp_path)
    file.write_bytes(file.read_bytes()[:-40])
    assert run_experiment(small_spec(), tmp_path, tasks, jobs=1) == 1
    assert "was cut, and is run again" in caplog.text
    assert sorted(map(identity, read(tmp_path))) == sorted(map(identity, before))


@pytest.mark.parametrize("methods", [None, ["laplace"]])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"method": {**TABLE["method"], "hgnn": {**TABLE["method"]["hgnn"], "model": {"hidden": 9}}}},
            "'hidden' was 8, is 9",
        ),
        (
            {"method": {**TABLE["method"], "hgnn": {**TABLE["method"]["hgnn"], "networks": 2}}},
            "'networks' was 1, is 2",
        ),
        ({"validation": 6}, "the split"),
        ({"k": 4}, "'k' was 5, is 4"),
        ({"name": "other"}, "small"),
        ({"runs": 1}, "the spec has no such run"),
        ({"labels": [3]}, "the spec has no such run"),
    ],
)
def test_lines_of_other_settings_are_never_mixed_in(tmp_path, task, change, words, methods):
    run_experiment(small_spec(), tmp_path, {"mnist": task}, methods=["hgnn"], jobs=1)
    before = (tmp_path / "runs.jsonl").read_bytes()
    with pytest.raises(ValueError, match=words):
        run_experiment(small_spec(**change), tmp_path, {"mnist": task}, methods=methods, jobs=1)
    assert (tmp_path / "runs.jsonl").read_bytes() == before


def test_other_data_are_never_mixed_in(tmp_path, task):
    run_experiment(small_spec(), tmp_path, {"mnist": task}, methods=["hgnn"], jobs=1)
    with pytest.raises(ValueError, match=r"these data \(the data\). Choose another folder"):
        run_experiment(small_spec(), tmp_path, {"mnist": small_task(seed=1)}, jobs=1)


def test_a_line_that_is_none_is_named(tmp_path, task):
    (tmp_path / "runs.jsonl").write_text('{"experiment": "small"}\n')
    with pytest.raises(ValueError, match="runs.jsonl"):
        run_experiment(small_spec(), tmp_path, {"mnist": task}, jobs=1)


def test_a_class_without_nodes_is_named(tmp_path, task):
    labels = np.where(task.labels == 1, 0, task.labels)
    with pytest.raises(ValueError, match="must leave nodes of every class of 'mnist' to test. Got .* of 0."):
        run_experiment(small_spec(), tmp_path, {"mnist": replace(task, labels=labels)}, jobs=1)


def test_labels_that_leave_nothing_to_test_are_refused_before_anything(tmp_path, task):
    fewest = int(np.bincount(task.labels).min())
    spec = small_spec(labels=[3, fewest - 5])
    with pytest.raises(ValueError, match=f"Got {fewest - 5} labelled and 5 for validation of {fewest}"):
        run_experiment(spec, tmp_path, {"mnist": task}, jobs=1)
    assert list(tmp_path.iterdir()) == []


def start(folder: Path, code: str, jobs: int = 1, runs: int = 4) -> subprocess.Popen:
    """Start an experiment in a process of its own, each fit of which takes a while."""
    script = """
        import sys, time
        sys.path.insert(0, {tests!r})
        from pathlib import Path
        from dahgnn.experiments import runner as experiments
        from small_experiment import small_spec, small_task
        slow = experiments.fit_jobs
        experiments.fit_jobs = lambda *given: (time.sleep(0.05), slow(*given))[1]
        {code}
        print("started", flush=True)
        spec, folder = small_spec(runs={runs}), Path({folder!r})
        experiments.run_experiment(spec, folder, {{"mnist": small_task()}}, jobs={jobs})
    """
    tests = str(Path(__file__).parents[1])
    text = textwrap.dedent(script).format(tests=tests, folder=str(folder), code=code, jobs=jobs, runs=runs)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", text], **pipes, text=True, start_new_session=True)


def wait_for_lines(folder: Path, count: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if (folder / "runs.jsonl").exists() and len(
            (folder / "runs.jsonl").read_bytes().split(b"\n")
        ) > count:
            return
        time.sleep(0.01)
    raise AssertionError("no lines came")


def test_a_kill_loses_no_line_and_doubles_none(tmp_path, task):
    for count in (2, 6):
        process = start(tmp_path, "pass")
        wait_for_lines(tmp_path, count)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    before = len((tmp_path / "runs.jsonl").read_bytes().splitlines())
    assert 6 <= before < 24
    run_experiment(small_spec(runs=4), tmp_path, {"mnist": task}, jobs=1)
    lines = read(tmp_path)
    assert len(lines) == len({identity(line) for line in lines}) == 24


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_process_stays_behind(tmp_path, how):
    hears = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # also in the background
    )
    process = start(tmp_path, hears, jobs=2, runs=60)
    wait_for_lines(tmp_path, 2)  # the second may be interrupted before it is whole
    # The interruption of a terminal reaches all processes, and only the first one may say so.
    (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
    _, complaint = process.communicate(timeout=30)  # until all have closed what they print to
    assert process.returncode == -how
    assert "LokyProcess" not in complaint
    assert "not used" not in complaint
    lines = read(tmp_path)
    assert 1 <= len(lines) == len({line["key"] for line in lines}) < 360


def test_a_second_process_is_kept_out(tmp_path, task):
    process = start(tmp_path, "pass")
    wait_for_lines(tmp_path, 1)
    with pytest.raises(ValueError, match="Another process works in"):
        run_experiment(small_spec(runs=4), tmp_path, {"mnist": task}, jobs=1)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_full_disk_leaves_whole_lines(tmp_path, task):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (14_000, resource.RLIM_INFINITY))"
    process = start(tmp_path, limit)
    _, complaint = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "File too large" in complaint
    content = (tmp_path / "runs.jsonl").read_bytes()
    assert content.endswith(b"\n")
    assert 0 < len(read(tmp_path)) < 24
    assert run_experiment(small_spec(runs=4), tmp_path, {"mnist": task}, jobs=1) == 24 - len(
        content.splitlines()
    )


def test_what_trains_side_by_side_on_a_gpu_is_a_cell(task):
    spec = small_spec()
    experiment = Experiment(spec, {"mnist": task})
    together, alone = group_jobs(experiment, plan(spec), "cuda")
    assert together == [
        [Job("mnist", method, count, run) for run in (0, 1)]
        for method in ("hgnn", "da-hgnn")
        for count in (3, 6)
    ]
    assert alone == [[Job("mnist", "laplace", count, run)] for count in (3, 6) for run in (0, 1)]
    assert group_jobs(experiment, plan(spec), "cpu")[0] == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same_accuracies(tmp_path, task):
    for name, device in (("cpu", "cpu"), ("gpu", "cuda")):
        run_experiment(small_spec(), tmp_path / name, {"mnist": task}, device=device, jobs=1)
    cpu, gpu = ({line["key"]: line for line in read(tmp_path / name)} for name in ("cpu", "gpu"))
    assert cpu.keys() == gpu.keys()
    for key, line in gpu.items():
        assert line["metrics"]["test_accuracy"] == pytest.approx(
            cpu[key]["metrics"]["test_accuracy"], abs=0.1
        )
    assert {line["device"]["type"] for line in gpu.values() if line["epochs"]} == {"cuda"}


def test_processes_that_share_a_device_say_so(tmp_path, task):
    run_experiment(small_spec(), tmp_path, {"mnist": task}, methods=["laplace"], jobs=2)
    assert {line["device"]["processes"] for line in read(tmp_path)} == {2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 4}, "'k' was 5, is 4"),
        ({"validation": 6}, "the split"),
        ({"runs": 1}, "no such run"),
        ({"labels": [3]}, "no such run"),
        (
            {"method": {**TABLE["method"], "hgnn": {**TABLE["method"]["hgnn"], "model": {"hidden": 9}}}},
            "'hidden' was 8, is 9",
        ),
    ],
)
def test_lines_of_a_dataset_that_is_not_run_are_checked_too(tmp_path, change, words):
    both = {"dataset": {"mnist": {}, "svhn": {}}}
    tasks = {name: replace(small_task(classes=10), name=name) for name in ("mnist", "svhn")}
    run_experiment(small_spec(**both), tmp_path, {"mnist": tasks["mnist"]}, methods=["hgnn"], jobs=1)
    run_experiment(small_spec(**both), tmp_path, {"svhn": tasks["svhn"]}, methods=["laplace"], jobs=1)
    before = (tmp_path / "runs.jsonl").read_bytes()
    with pytest.raises(ValueError, match=words):
        run_experiment(
            small_spec(**both, **change), tmp_path, {"svhn": tasks["svhn"]}, methods=["laplace"], jobs=1
        )
    assert (tmp_path / "runs.jsonl").read_bytes() == before


def test_a_file_of_somebody_else_is_left_as_it_is(tmp_path, task):
    file = tmp_path / "runs.jsonl"
    file.write_text('{"a": 1}\n{"b": 2}')
    with pytest.raises(ValueError, match="Line 1"):
        run_experiment(small_spec(), tmp_path, {"mnist": task}, jobs=1)
    assert file.read_text() == '{"a": 1}\n{"b": 2}'


def test_a_last_line_that_lacks_only_its_end_counts(tmp_path, task):
    run_experiment(small_spec(), tmp_path, {"mnist": task}, jobs=1)
    file = tmp_path / "runs.jsonl"
    before = file.read_bytes()
    file.write_bytes(before.rstrip(b"\n"))
    assert run_experiment(small_spec(), tmp_path, {"mnist": task}, jobs=1) == 0
    assert file.read_bytes() == before


def test_a_table_of_ones_own_is_run_and_its_classes_are_named(tmp_path):
    """Three classes of 40, 15 and 9 rows, named by words."""
    generator = np.random.default_rng(0)
    labels = np.repeat(["pear", "apple", "fig"], [40, 15, 9])
    features = generator.normal(size=(64, 3)) + 4 * (labels[:, None] == ["apple", "fig", "pear"])
    np.savez(tmp_path / "fruit.npz", X=features, y=labels)
    dataset = {"fruit": {"file": "fruit.npz", "label": "y", "labels": [2, 4], "validation": 0}, "wine": {}}
    spec = small_spec(dataset=dataset, published={})
    tasks = {each.name: load_task(each, spec.k, tmp_path) for each in spec.datasets if each.name == "fruit"}
    assert run_experiment(spec, tmp_path / "out", tasks, jobs=1) == 12
    lines = read(tmp_path / "out")
    assert {line["labels"] for line in lines} == {6, 12}
    assert all(np.sum(line["confusion"]) == 64 - line["labels"] for line in lines)
    written = json.loads((tmp_path / "out" / "spec.json").read_text())
    assert [entry["classes"] for entry in written["datasets"]] == [["apple", "fig", "pear"], []]
    # Another start with the other dataset alone keeps the names, and checks the lines by the spec.
    other = load_task(spec.datasets[1], spec.k, tmp_path)
    run_experiment(spec, tmp_path / "out", {"wine": other}, methods=["laplace"], jobs=1)
    written = json.loads((tmp_path / "out" / "spec.json").read_text())
    assert written["datasets"][0]["classes"] == ["apple", "fig", "pear"]
    with pytest.raises(ValueError, match="the spec has no such run"):
        changed = dataset | {"fruit": dataset["fruit"] | {"labels": [2, 5]}}
        run_experiment(small_spec(dataset=changed, published={}), tmp_path / "out", {"wine": other}, jobs=1)
