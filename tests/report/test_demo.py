"""The demonstration, on blobs in place of the digits."""

import contextlib
import json
import tomllib
from importlib import resources

import pytest
import torch

from dahgnn.experiments import datasets
from dahgnn.experiments.datasets import DatasetEntry, LoadedTable
from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.spec import parse_spec
from dahgnn.report import demo
from dahgnn.report.demo import markdown_table
from dahgnn.report.experiment_page import write_report


class Recorder:
    """An observer that remembers the phases, and how many fits it heard of."""

    def __init__(self, interrupt_at: int | None = None):
        self.phases, self.heard = [], []
        self.interrupt_at = interrupt_at

    @contextlib.contextmanager
    def phase(self, name):
        self.phases.append(name)

        def progress(done, total, text="", *, seconds_left=None):
            self.heard.append((done, total))
            if done == self.interrupt_at:
                raise KeyboardInterrupt

        yield progress


@pytest.fixture
def small_digits(monkeypatch):
    """Ten blobs of 40 in place of the digits, with fewer labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 10
    features = 3 * torch.randn(10, 8, generator=generator)[labels] + torch.randn(400, 8, generator=generator)
    blobs = DatasetEntry(title="Blobs", load=lambda *_: LoadedTable(features=features, labels=labels))
    monkeypatch.setattr(datasets, "DATASETS", datasets.DATASETS | {"mnist-digits": blobs})
    table = tomllib.loads((resources.files("dahgnn.experiments") / "specs" / "demo.toml").read_text())
    for method in table["method"].values():
        if method["kind"] == "DAHGNNClassifier":
            method["parameters"] = {"networks": 2, "training": {"max_epochs": 16}}
        elif method["kind"] in ("DAHGNN", "HGNN"):
            method["training"] = {"max_epochs": 40, "learning_rate": 0.01}
    small = parse_spec(table | {"labels": [5], "validation": 5})
    monkeypatch.setattr(demo, "load_spec", {"demo": small}.__getitem__)


@pytest.mark.usefixtures("small_digits")
def test_the_demo_writes_lines_table_and_picture(tmp_path):
    recorder = Recorder()
    report = demo.run_demo(tmp_path / "demo", recorder, runs=2)
    lines = [json.loads(text) for text in (tmp_path / "demo" / "runs.jsonl").read_text().splitlines()]
    methods = ["ours", "da-hgnn", "hgnn", "label-spreading", "laplace"]
    assert [(line["method"], line["run"]) for line in lines] == [(m, run) for m in methods for run in (0, 1)]
    digests = [[line["split"]["digest"] for line in lines if line["run"] == run] for run in (0, 1)]
    assert [len(set(each)) for each in digests] == [1, 1]
    assert digests[0] != digests[1]
    assert all(line["metrics"]["test_accuracy"] > 0.8 for line in lines)
    assert lines[0]["split"] | {"digest": ""} == {"digest": "", "train": 50, "validation": 50, "test": 300}
    assert {"dahgnn", "torch", "python"} <= lines[0]["versions"].keys()
    titles = ["dahgnn", "DA-HGNN, paper", "HGNN", "LabelSpreading", "Laplace learning"]
    assert markdown_table(lines, dict(zip(methods, titles, strict=True))) in report
    assert [row.split(" | ")[0] for row in report.splitlines()[-5:]] == [f"| {title}" for title in titles]
    assert (tmp_path / "demo" / "table.md").read_text(encoding="utf-8").strip() == report
    assert (tmp_path / "demo" / "embedding.png").read_bytes().startswith(b"\x89PNG")
    assert recorder.heard == [(done, 10) for done in range(11)]
    assert read_lines(tmp_path / "demo" / "runs.jsonl") == lines
    assert tmp_path / "demo" / "report.md" in write_report(tmp_path / "demo")


@pytest.mark.usefixtures("small_digits")
def test_an_interrupted_demo_changes_no_file(tmp_path):
    (tmp_path / "table.md").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path, Recorder(interrupt_at=7))
    assert [path.name for path in tmp_path.iterdir()] == ["table.md"]
    assert (tmp_path / "table.md").read_text() == "old"


@pytest.mark.usefixtures("small_digits")
def test_a_folder_that_cannot_be_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    recorder = Recorder()
    with pytest.raises(OSError, match="file"):
        demo.run_demo(tmp_path / "file" / "demo", recorder)
    assert not recorder.phases


def test_no_runs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'runs' parameter of run_demo must be at least 1"):
        demo.run_demo(tmp_path, Recorder(), runs=0)


def line(method: str, test: float, epochs: int | None = 100) -> dict:
    metrics = {"test_accuracy": test, "validation_accuracy": test + 0.01}
    return {"method": method, "metrics": metrics, "epochs": epochs, "seconds": 2.0}


def test_rows_are_means_with_deviations_in_order_of_appearance():
    table = markdown_table([line("B", 0.90), line("A", 0.5, epochs=None), line("B", 0.92, epochs=200)])
    assert table.splitlines()[2:] == [
        "| B | 91.00 ± 1.41 | 92.00 ± 1.41 | 150 | 2.0 |",
        "| A | 50.00 | 51.00 | – | 2.0 |",
    ]
