import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from part_folders import change_column, write_animals, write_whole

from dahgnn.cli.commands import main
from dahgnn.cli.fit_commands import _read_fit_options
from dahgnn.cli.parser import make_parser
from dahgnn.config import ResourceConfig
from dahgnn.distributed import DisagreementError, EndedElsewhereError, LostProcessError
from dahgnn.report import fit_folder, fit_options
from dahgnn.tables import large_tables
from dahgnn.world import ALONE


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


@pytest.mark.parametrize(
    ("share", "said"),
    [("0", "No label was held out to tell"), ("0.2", "Too few labels could be held out to tell")],
)
def test_who_wanted_no_held_out_labels_is_not_told_that_there_are_too_few(tmp_path, share, said, capsys):
    lines = [f"{row},{row * row % 7},{'uv'[row % 2] if row < 2 else ''}\n" for row in range(20)]
    (tmp_path / "a.csv").write_text("a,b,y\n" + "".join(lines))
    words = ["--label", "y", "--networks", "1", "--map", "none", "--out", str(tmp_path / "out")]
    assert main(["fit", str(tmp_path / "a.csv"), *words, "--validation", share]) == 0
    assert f"{said} how many of them are right." in capsys.readouterr().out


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


@pytest.mark.parametrize("rank", [0, 1])
def test_of_torchruns_processes_the_first_one_says_the_plan_of_all(tmp_path, monkeypatch, capsys, rank):
    write_animals(tmp_path / "animals")
    for name, value in (("RANK", rank), ("WORLD_SIZE", 2), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", 1)):
        monkeypatch.setenv(name, str(value))
    assert main(["fit", str(tmp_path / "animals"), "--label", "kind", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert ("trained in batches of 128 labelled rows" in said) == (rank == 0)
    assert bool(said) == (rank == 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LostProcessError("Process 1 got no answer"), 2),
        (DisagreementError("All processes must have the same table."), 2),
        (EndedElsewhereError("ValueError: wrong", 3), 3),
    ],
)
def test_a_process_beside_the_first_fails_without_a_word_where_that_one_speaks(
    tmp_path, monkeypatch, capfd, error, status
):
    """torchrun counts a process as done for good that ends with 0, and cannot start it again with the others."""

    def fail(*_):
        raise error

    (tmp_path / "a.csv").write_text("a,y\n1,u\n2,v\n")
    monkeypatch.setattr(fit_folder, "fit_beside", fail)
    monkeypatch.setattr(fit_options, "join_world", lambda _: contextlib.nullcontext(ALONE))
    monkeypatch.setenv("RANK", "1")
    assert main(["fit", str(tmp_path / "a.csv"), "--label", "y"]) == status
    assert capfd.readouterr() == ("", "")


def start(folder, *words, agent=("--standalone", "--nproc-per-node", "2"), restarts=0, killed=""):
    """Start `dahgnn fit` by torchrun, as `torchrun_programs.run_fit` does."""
    program = str(Path(__file__).parents[1] / "torchrun_programs.py")
    options = [*agent, "--max-restarts", str(restarts), program, "fit", str(folder), *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DAHGNN_TEST_KILLED": killed}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    return subprocess.Popen(command, env=environment, **pipes)


def together(folder, *words, **how):
    """Run `dahgnn fit` by torchrun, and return its status, what it prints, and what it says besides."""
    with start(folder, *words, **how) as process:
        printed, said = process.communicate(timeout=240)
    return process.returncode, printed, said


FIT = ("--label", "kind", "--networks", "1", "--map", "none", "--batch", "16", "--work", "work")


@pytest.mark.slow
def test_two_processes_of_torchrun_fit_together_though_one_is_killed(tmp_path):
    pytest.importorskip("openTSNE")
    write_animals(tmp_path / "animals")
    found = []
    for name, processes in (("alone", "1"), ("both", "2")):
        agent = ("--standalone", "--nproc-per-node", processes)
        status, printed, said = together(
            tmp_path, "animals", *FIT, "--out", name, agent=agent, restarts=1, killed="1"
        )
        assert status == 0, said
        assert printed.count("Written to") == 1  # one of them writes
        found.append(pq.read_table(tmp_path / name / "predictions").to_pydict())
    assert (tmp_path / "killed").exists()
    alone, both = found
    assert both["predicted"] == alone["predicted"]
    np.testing.assert_allclose(both["probability"], alone["probability"], atol=1e-3)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.slow
def test_two_machines_fit_together_though_the_first_process_is_killed(tmp_path):
    """Each machine has a torchrun of its own, which counts restarts by itself; both start their process again."""
    pytest.importorskip("openTSNE")
    write_animals(tmp_path / "animals")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        place = f"localhost:{free.getsockname()[1]}"
    agent = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", place)
    with contextlib.ExitStack() as stack:
        machines = []
        for _ in range(2):
            one = start(tmp_path, "animals", *FIT, "--out", "out", agent=agent, restarts=2, killed="0")
            machines.append(stack.enter_context(one))
            stack.callback(one.terminate)
        said = [machine.communicate(timeout=240) for machine in machines]
    assert (tmp_path / "killed").exists()
    assert [machine.returncode for machine in machines] == [0, 0], said
    assert "".join(printed for printed, _ in said).count("Written to") == 1
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
    status, _, said = together(tmp_path, "animals-RANK", *FIT, "--out", "out")
    assert status != 0
    assert "Process 1 must have what process 0 has. It says: " in said
    assert "'kind'" in said.split("It says: ")[1]
    assert not (tmp_path / "out").exists()


def write_for_each(folder):
    """Write what two processes are given: in files called by their number the second has something else."""
    for rank in (0, 1):
        write_animals(folder / f"animals-{rank}")
        # A table so small that each process reads it by itself, and may have hyperedges.
        write_whole(folder / f"few-{rank}.parquet", sizes=(60,))
        pairs = [f"x{row},{row % 7}\n" for row in range(60 - rank)]
        (folder / f"pairs-{rank}.csv").write_text("name,group\n" + "".join(pairs))
    second = folder / "animals-1" / "part-0.parquet"
    kinds = pq.read_table(second)["kind"].to_pylist()
    change_column(second, "kind", pa.array(["bee", *kinds[1:]]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("animals-RANK",), "labels and settings"),
        (("animals-0", "-k", "1RANK"), "labels and settings"),
        (("few-0.parquet", "--id", "name", "--hyperedges", "pairs-RANK.csv"), "rows and hyperedges"),
    ],
    ids=["labels", "settings", "hyperedges"],
)
def test_processes_that_were_given_different_things_say_so_once(tmp_path, words, what):
    pytest.importorskip("openTSNE")
    write_for_each(tmp_path)
    status, _, said = together(tmp_path, *words, *FIT, "--out", "out")
    assert status != 0
    assert said.count(f"dahgnn: All processes must have the same {what}. Got ") == 1
    assert not list((tmp_path / "out").glob("[a-z]*"))
    assert not list((tmp_path / "work").glob(".dahgnn-*"))
