"""From a spec to its report, through the command line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from small_experiment import write_mnist
from small_images import SMALL, write_cifar10

from dahgnn.cli import commands as cli
from dahgnn.experiments.datasets import DatasetSpec, load_task
from dahgnn.images.cnn_features import load_features, read_header

SPEC = """
name = "mine"
runs = 2
labels = [4, 6]
validation = 5
k = 4
comparisons = [["da-hgnn", "laplace"]]

[dataset.mnist]
per_class = 15

[method.laplace]
kind = "LaplaceLearning"

[method.da-hgnn]
kind = "DAHGNN"
title = "DA-HGNN & <friends>"
ours = true
preset = "paper"
model = { hidden = 8 }
training = { max_epochs = 5 }

[published.mnist]
da-hgnn = { 40 = [90.0, 1.0] }
"""

FIGURE = """
name = "picture"
runs = 1
labels = [4]
validation = 5
k = 4
figure = ["da-hgnn"]

[dataset.mnist]
per_class = 15

[method.da-hgnn]
kind = "DAHGNN"
preset = "paper"
model = { hidden = 8 }
training = { max_epochs = 5 }
"""


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    write_mnist(folder)
    (tmp_path / "mine.toml").write_text(SPEC)
    return folder


def test_a_spec_of_ones_own_becomes_a_report(tmp_path, data, capsys):
    out = tmp_path / "out"
    command = [
        "reproduce",
        str(tmp_path / "mine.toml"),
        "--data",
        str(data),
        "--out",
        str(out),
        "--jobs",
        "1",
    ]
    assert cli.main([*command, "--method", "laplace"]) == 0
    assert len((out / "runs.jsonl").read_text().splitlines()) == 4
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert "DA-HGNN &amp; &lt;friends&gt;" in shown
    assert {path.name for path in out.iterdir()} >= {
        "runs.jsonl",
        "spec.json",
        "report.md",
        "report.tex",
        "report.csv",
        "report.html",
    }
    assert "<friends>" not in (out / "report.html").read_text()
    (out / "report.md").unlink()
    assert cli.main(["report", str(out)]) == 0
    assert (out / "report.md").exists()


def test_files_of_the_other_part_may_be_absent(tmp_path, data):
    for path in (data / "mnist").glob("t10k-*"):
        path.unlink()
    command = ["reproduce", str(tmp_path / "mine.toml"), "--data", str(data), "--out", str(tmp_path / "out")]
    assert cli.main([*command, "--method", "laplace", "--offline", "--jobs", "1"]) == 0


def test_a_figure_is_drawn(tmp_path, data):
    (tmp_path / "picture.toml").write_text(FIGURE)
    out = tmp_path / "out"
    assert (
        cli.main(["reproduce", str(tmp_path / "picture.toml"), "--data", str(data), "--out", str(out)]) == 0
    )
    assert {path.name for path in out.iterdir()} == {
        "figure.png",
        "figure.pdf",
        "figure.html",
        "figure.jsonl",
        ".lock",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "tabel2"], "Did you mean 'table2'?"),
        (["reproduce", "table2", "--dataset", "mnits"], "Did you mean 'mnist'?"),
        (["reproduce", "table2", "--method", "hgn"], "Did you mean 'hgnn'?"),
        (["reproduce", "table2", "--dataset", "mnist", "--offline"], "train-images-idx3-ubyte.gz"),
        (["reproduce", "table2", "--dataset", "svhn", "--offline"], "dahgnn features svhn"),
        (["reproduce", "table2", "--device", "warp"], "'device' parameter of reproduce"),
        (["reproduce", "table2", "--device", "cuda:99"], "'device' parameter of reproduce"),
        (["reproduce", "table2", "--device", "meta"], "'device' parameter of reproduce"),
        (["reproduce", "table2", "--jobs", "0"], "'jobs' parameter of reproduce must be at least 1"),
        (
            ["reproduce", "table2", "--jobs", "1000000"],
            "'jobs' parameter of reproduce must be at most 1000 proc",
        ),
        (["report", "nowhere"], "spec.json"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.setenv("DAHGNN_DATA", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_features_are_trained_once_and_used(tmp_path, monkeypatch, capsys):
    write_cifar10(tmp_path, records=8)
    monkeypatch.setattr("dahgnn.images.cnn.CONFIGS", {"cifar10": replace(SMALL, width=0.0625)})
    command = ["features", "cifar10", "--data", str(tmp_path), "--epochs", "1", "--offline"]
    assert cli.main(command) == 0
    shown = capsys.readouterr()
    assert "Train the CNN on 40 images" in shown.err
    assert " left" in shown.err  # at the start, although this is no terminal
    assert re.search(r"^Train the CNN on 40 images: epoch 1 of 1  loss .* s$", shown.err, re.MULTILINE)
    path = tmp_path / "features" / "cifar10.safetensors"
    assert f"% of the test images correctly. Features: {path}" in shown.out
    before = path.read_bytes()
    assert cli.main(command) == 0
    assert path.read_bytes() == before
    assert load_features(path, "cifar10").features.shape == (8, 128)
    percent = 100 * read_header(path, "cifar10").cnn_test_accuracy
    assert f"classifies {percent:.2f} %" in shown.out
    # Eight images are not of all ten classes.
    with pytest.raises(ValueError, match="CIFAR-10 must have images of all 10 classes"):
        load_task(DatasetSpec(name="cifar10", part="test", features="cnn"), 3, tmp_path)


def test_a_figure_leaves_run_lines_alone(tmp_path, data):
    out = tmp_path / "out"
    out.mkdir()
    (out / "runs.jsonl").write_text("somebody's\n")
    (tmp_path / "picture.toml").write_text(FIGURE)
    assert (
        cli.main(["reproduce", str(tmp_path / "picture.toml"), "--data", str(data), "--out", str(out)]) == 0
    )
    assert (out / "runs.jsonl").read_text() == "somebody's\n"


def test_titles_are_shown_as_they_are(tmp_path, data, capsys):
    (tmp_path / "odd.toml").write_text(SPEC.replace("runs = 2", 'runs = 2\ntitle = "[/bold] x"'))
    out = tmp_path / "out"
    command = ["reproduce", str(tmp_path / "odd.toml"), "--data", str(data), "--out", str(out), "--jobs", "1"]
    assert cli.main(command) == 0
    assert "[/bold] x" in capsys.readouterr().err


OFTEN = """
name = "often"
runs = 200
labels = [3]
validation = 5

[dataset.wine]

[method.laplace]
kind = "LaplaceLearning"

[method.hgnn]
kind = "HGNN"
training = { max_epochs = 50 }
"""


def test_sigterm_keeps_the_lines_and_leaves_no_process(tmp_path):
    (tmp_path / "often.toml").write_text(OFTEN)
    words = ["reproduce", str(tmp_path / "often.toml"), "--out", str(tmp_path / "out"), "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dahgnn", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    runs = tmp_path / "out" / "runs.jsonl"
    until = time.monotonic() + 60
    while not (runs.exists() and runs.read_bytes().count(b"\n") > 2) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=30)  # until its processes have closed what they print to
    assert process.returncode == 128 + signal.SIGTERM
    # On a busy machine joblib's own process may say a last word on folders that are gone already.
    assert "dahgnn: interrupted.\n" in complaint
    assert "Traceback" not in complaint
    lines = [json.loads(line) for line in runs.read_text().splitlines()]
    assert 2 <= len(lines) == len({line["key"] for line in lines}) < 400


def test_a_cluster_without_its_package_is_said(tmp_path, data, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["reproduce", str(tmp_path / "mine.toml"), "--data", str(data), "--out", str(tmp_path / "out")]
    assert cli.main([*command, "--jobs", "2", "--backend", "ray"]) == 2
    assert capsys.readouterr().err.endswith(
        "dahgnn: ray is not installed. It comes with dahgnn's extra 'cluster'.\n"
    )
