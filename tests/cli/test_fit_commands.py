import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
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
    # Without a number a cluster works with all that it has.
    assert options("--backend", "dask").resources.jobs is None


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


def together(folder, *words, processes=2, restarts=0):
    """Run `dahgnn fit` by torchrun, as `torchrun_programs.run_fit` does."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    program = Path(__file__).parents[1] / "torchrun_programs.py"
    command = [sys.executable, *start, "--max-restarts", str(restarts), str(program), "fit", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *words], env=environment, capture_output=True, text=True, timeout=240, check=False
    )


FIT = ("--label", "kind", "--networks", "1", "--map", "none", "--batch", "16", "--work", "work")


@pytest.mark.slow
def test_two_processes_of_torchrun_fit_together_though_one_is_killed(tmp_path):
    pytest.importorskip("openTSNE")
    write_animals(tmp_path / "animals")
    found = []
    for name, processes in (("alone", 1), ("both", 2)):
        done = together(tmp_path, "animals", *FIT, "--out", name, processes=processes, restarts=1)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Written to") == 1  # one of them writes
        found.append(pq.read_table(tmp_path / name / "predictions").to_pydict())
    assert (tmp_path / "restarted").exists()
    alone, both = found
    assert both["predicted"] == alone["predicted"]
    np.testing.assert_allclose(both["probability"], alone["probability"], atol=1e-3)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.slow
def test_a_process_with_another_table_ends_all_of_them(tmp_path):
    pytest.importorskip("openTSNE")
    write_animals(tmp_path / "animals-0")
    write_animals(tmp_path / "animals-1")
    for path in (tmp_path / "animals-1").iterdir():
        table = pq.read_table(path)
        pq.write_table(
            table.rename_columns([name.replace("kind", "sort") for name in table.column_names]), path
        )
    done = together(tmp_path, "animals-RANK", *FIT, "--out", "out")
    assert done.returncode != 0
    assert "Process 1 must have what process 0 has. It says: " in done.stderr
    assert "'kind'" in done.stderr.split("It says: ")[1]
    assert not (tmp_path / "out").exists()
