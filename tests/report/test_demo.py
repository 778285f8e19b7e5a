import contextlib
import json
from collections import Counter
from dataclasses import replace

import pytest
import torch

from dahgnn.config import TrainingConfig
from dahgnn.images.datasets import Dataset
from dahgnn.report import demo
from dahgnn.report.demo import markdown_table


class Recorder:
    """An observer that remembers the stages and how many epochs each had."""

    def __init__(self, interrupt_at: str | None = None):
        self.epochs = Counter()
        self.interrupt_at = interrupt_at

    @contextlib.contextmanager
    def stage(self, name):
        self.epochs[name] += 0

        def progress(done, *_, **__):
            self.epochs[name] += 1
            if name == self.interrupt_at and done == 5:
                raise KeyboardInterrupt

        yield progress


@pytest.fixture
def small_digits(monkeypatch):
    """Ten blobs of 40 in place of the digits, with fewer labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 10
    features = 3 * torch.randn(10, 8, generator=generator)[labels] + torch.randn(400, 8, generator=generator)
    monkeypatch.setattr(demo, "load_embedded_digits", lambda: Dataset("blobs", features, labels))
    monkeypatch.setattr(demo, "LABELLED_PER_CLASS", 5)
    monkeypatch.setattr(demo, "VALIDATION_PER_CLASS", 5)
    short = TrainingConfig(max_epochs=40, learning_rate=0.01)
    monkeypatch.setattr(demo, "NETWORKS", [replace(network, training=short) for network in demo.NETWORKS])


@pytest.mark.usefixtures("small_digits")
def test_the_demo_writes_lines_table_and_picture(tmp_path):
    recorder = Recorder()
    report = demo.run_demo(tmp_path / "demo", recorder, runs=2)
    lines = [json.loads(text) for text in (tmp_path / "demo" / "runs.jsonl").read_text().splitlines()]
    methods = ["DA-HGNN", "DA-HGNN without density", "HGNN", "LabelSpreading"]
    assert [line["method"] for line in lines] == methods * 2
    assert [line["split"]["digest"] for line in lines[:4]] == [lines[0]["split"]["digest"]] * 4
    assert lines[0]["split"]["digest"] != lines[4]["split"]["digest"]
    assert all(line["metrics"]["test_accuracy"] > 0.8 for line in lines)
    assert [line["settings"]["model"]["density"] for line in lines[:2]] == [True, False]
    assert lines[0]["split"] | {"digest": ""} == {"digest": "", "train": 50, "validation": 50, "test": 300}
    assert {"dahgnn", "torch", "python"} <= lines[0]["versions"].keys()
    assert markdown_table(lines) in report
    assert (tmp_path / "demo" / "table.md").read_text(encoding="utf-8").strip() == report
    assert (tmp_path / "demo" / "embedding.png").read_bytes().startswith(b"\x89PNG")
    assert recorder.epochs["HGNN 2/2"] == lines[6]["epochs"] + 1


@pytest.mark.usefixtures("small_digits")
def test_an_interrupted_demo_changes_no_file(tmp_path):
    (tmp_path / "table.md").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path, Recorder(interrupt_at="HGNN 1/3"))
    assert [path.name for path in tmp_path.iterdir()] == ["table.md"]
    assert (tmp_path / "table.md").read_text() == "old"


@pytest.mark.usefixtures("small_digits")
def test_a_folder_that_cannot_be_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    recorder = Recorder()
    with pytest.raises(OSError, match="file"):
        demo.run_demo(tmp_path / "file" / "demo", recorder)
    assert not recorder.epochs


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
