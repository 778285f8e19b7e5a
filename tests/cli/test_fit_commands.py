import csv
import os
import subprocess
import sys

import numpy as np
import pytest
from part_folders import write_animals

from dahgnn.cli.commands import main
from dahgnn.cli.fit_commands import _read_fit_options
from dahgnn.cli.parser import make_parser
from dahgnn.config import ResourceConfig
from dahgnn.tables import large_tables


def options(*words):
    parsed = make_parser().parse_args(["fit", "a.csv", "--label", "y", *words])
    parsed.words = []
    return _read_fit_options(parsed)


def test_what_a_fit_may_use_is_said_on_the_command_line():
    assert options().resources == ResourceConfig()
    words = ["--search", "ivf", "--recall", "0.9", "--batch", "128", "--memory", "4.5"]
    words += ["--work", "w", "--jobs", "3", "--backend", "ray"]
    assert options(*words).resources == ResourceConfig(
        search="ivf", recall=0.9, batch=128, memory=4.5, folder="w", jobs=3, backend="ray"
    )
    assert options("--batch", "auto").resources.batch == "auto"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--recall", "2"], "The option --recall must be a finite number, greater than 0"),
        (["--memory", "-1"], "The option --memory must be a finite number, greater than 0"),
        (["--jobs", "0"], "The option --jobs must be at least 1"),
    ],
)
def test_wrong_resources_are_refused_by_the_names_of_options(tmp_path, words, match, capsys):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,u\n2,v\n")
    assert main(["fit", str(path), "--label", "y", "--dry-run", *words]) == 2
    assert match in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "many", "1.5"])
def test_a_batch_is_a_count_or_auto(text, capsys):
    with pytest.raises(SystemExit):
        options("--batch", text)
    assert f"must be a number from 0 on, or auto. Got '{text}'" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [100, 1000])
def test_a_dry_run_says_what_a_fit_would_need_and_writes_nothing(tmp_path, monkeypatch, capsys, rows):
    monkeypatch.setattr(large_tables, "LARGE_ROWS", rows)
    folder = write_animals(tmp_path / "animals")
    words = [
        "--label",
        "kind",
        "--id",
        "name",
        "--out",
        str(tmp_path / "out"),
        "--work",
        str(tmp_path / "work"),
    ]
    assert main(["fit", str(folder), *words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "animals has 327 rows, and 6 columns become 8 features." in said
    assert "327 rows of 8 columns: neighbours by an exact search" in said
    assert "It needs up to" in said
    assert "Nothing is wrong: a fit could start. Nothing was written." in said
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("work/*"))


@pytest.mark.slow
def test_two_processes_of_torchrun_fit_together_and_one_of_them_writes(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.arange(150) % 3
    rows = generator.normal(size=(150, 4)) + 3 * labels[:, None]
    words = ["u", "v", "w"]
    lines = [
        ",".join([*map(str, row), words[label] if number < 45 else ""])
        for number, (row, label) in enumerate(zip(rows, labels, strict=True))
    ]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,c,d,y", *lines]) + "\n")
    fit = [
        "-m",
        "dahgnn",
        "fit",
        "a.csv",
        "--label",
        "y",
        "--networks",
        "1",
        "--map",
        "none",
        "--batch",
        "16",
    ]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    predictions = []
    for name, start in (("alone", []), ("together", torchrun)):
        command = [sys.executable, *start, *fit, "--work", "work", "--out", name]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Written to") == 1
        with (tmp_path / name / "predictions.csv").open() as file:
            predictions.append([[row["class"], float(row["p:u"])] for row in csv.DictReader(file)])
    for alone, together in zip(*predictions, strict=True):
        assert together[0] == alone[0]
        assert together[1] == pytest.approx(alone[1], abs=1e-3)
    assert list((tmp_path / "work").iterdir()) == []
