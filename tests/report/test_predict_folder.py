"""`dahgnn predict` on a folder of Parquet files, as a user calls it."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from part_folders import KINDS, animal_columns, change_column, write_animals, write_whole

from dahgnn.cli.commands import main
from dahgnn.report import predict_folder
from dahgnn.tables import large_sources

pytest.importorskip("openTSNE")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(large_sources, "BLOCK_ROWS", 50)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    base = tmp_path_factory.mktemp("model")
    write_whole(base / "animals.parquet")
    words = ["--label", "kind", "--id", "name", "--networks", "1", "--map", "none", "-k", "5"]
    assert main(["fit", str(base / "animals.parquet"), *words, "--out", str(base / "fit")]) == 0
    return base / "fit"


@pytest.fixture
def new(tmp_path):
    return write_animals(tmp_path / "new", sizes=(60, 0, 110), seed=1)


def predict(model, new, out, *more):
    return main(["predict", str(model), str(new), "--out", str(out), *more])


def stamps(folder):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_each_file_has_its_predictions(model, new, tmp_path, capsys):
    assert predict(model, new, tmp_path / "out") == 0
    said = capsys.readouterr()
    assert f"170 rows. Written to {tmp_path / 'out'}: 3 files" in said.out
    assert "1 column ('kind') was ignored" in said.err
    assert "1 column has missing text" in said.err
    assert sorted(os.listdir(tmp_path / "out")) == [f"part-{number}.parquet" for number in range(3)]
    assert [pq.read_metadata(path).num_rows for path in sorted((tmp_path / "out").iterdir())] == [60, 0, 110]
    found = pq.read_table(tmp_path / "out").to_pydict()
    assert found["id"] == [f"x{row}" for row in range(170)]
    assert np.mean(np.array(found["class"]) == [KINDS[row % 3] for row in range(170)]) > 0.9


def test_predictions_are_those_of_one_file_of_the_same_rows(model, new, tmp_path, capsys):
    assert predict(model, new, tmp_path / "out", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    whole = write_whole(tmp_path / "whole.parquet", sizes=(60, 0, 110), seed=1)
    assert predict(model, whole, tmp_path / "one.parquet") == 0
    parts, one = (pq.read_table(tmp_path / name).to_pandas() for name in ("out", "one.parquet"))
    assert list(parts.columns) == list(one.columns)
    assert parts["predicted"].tolist() == one["predicted"].tolist()
    numbers = [name for name in one.columns if one[name].dtype == float]
    assert np.allclose(parts[numbers], one[numbers], atol=1e-5)
    assert said["classes"] == {name: int((one["predicted"] == name).sum()) for name in KINDS}
    assert (said["rows"], said["folder"]) == (170, str(tmp_path / "out"))
    assert predict(model, new, tmp_path / "one.csv") == 0
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 171


def test_what_is_done_is_not_done_again(model, new, tmp_path, capsys):
    out = tmp_path / "out"
    assert predict(model, new, out) == 0
    before = stamps(out)
    assert predict(model, new, out) == 0
    assert stamps(out) == before
    assert "3 files are done already" in capsys.readouterr().err
    change_column(new / "part-2.parquet", "m0", pa.array(np.zeros(110)))
    (out / "part-0.parquet").write_bytes((out / "part-0.parquet").read_bytes()[:-30])
    assert predict(model, new, out) == 0
    after = stamps(out)
    assert after["part-1.parquet"] == before["part-1.parquet"]
    assert all(after[name] != before[name] for name in ("part-0.parquet", "part-2.parquet"))
    assert pq.read_table(out).num_rows == 170


def test_another_fit_or_other_ids_are_predicted_anew(model, new, tmp_path):
    out, other = tmp_path / "out", tmp_path / "fit"
    assert predict(model, new, out) == 0
    before = stamps(out)
    write_whole(tmp_path / "animals.parquet", seed=5)
    words = ["--label", "kind", "--networks", "1", "--map", "none", "--drop", "name"]
    assert main(["fit", str(tmp_path / "animals.parquet"), *words, "--out", str(other)]) == 0
    assert predict(other, new, out) == 0
    assert not set(before.values()) & set(stamps(out).values())
    assert pq.read_table(out)["id"].to_pylist()[60] == "part-2.parquet:0"
    assert predict(other, new, out, "--id", "name") == 0
    assert pq.read_table(out)["id"].to_pylist()[60] == "x60"


# Predicts a folder and ends, as by a kill, when so many files have been begun.
KILLED = """
import os, sys
from dahgnn.cli.commands import main
from dahgnn.report import predict_folder
really, left = predict_folder._predict, [int(sys.argv[1])]
def cut(*arguments):
    for block in really(*arguments):
        yield block
        left[0] -= 1
        if not left[0]:
            os._exit(9)
predict_folder._predict = cut
sys.exit(main(sys.argv[2:]))
"""


def test_a_kill_leaves_whole_files_and_the_next_start_goes_on(model, new, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, "2", "predict", str(model), str(new), "--out", str(out)]
    assert subprocess.run(command, capture_output=True).returncode == 9
    done = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    assert done == {"part-0.parquet", "part-1.parquet"}
    before = stamps(out)["part-0.parquet"]
    assert predict(model, new, out) == 0
    assert stamps(out)["part-0.parquet"] == before
    assert sum(pq.read_metadata(out / f"part-{number}.parquet").num_rows for number in range(3)) == 170


@pytest.mark.slow
def test_processes_share_the_files(model, new, tmp_path):
    assert predict(model, new, tmp_path / "one") == 0
    assert predict(model, new, tmp_path / "two", "--jobs", "2") == 0
    one, two = (pq.read_table(tmp_path / name).to_pandas() for name in ("one", "two"))
    assert one["id"].tolist() == two["id"].tolist()
    assert np.allclose(one["p:ant"], two["p:ant"], atol=1e-6)


def test_bad_files_are_named_and_good_ones_are_done(model, new, tmp_path, capsys):
    change_column(new / "part-2.parquet", "m0", pa.array([np.inf, *np.ones(109)]))
    assert predict(model, new, tmp_path / "out") == 2
    assert "Got inf in row 1 (counted from 1) of part-2.parquet" in capsys.readouterr().err
    assert (tmp_path / "out" / "part-0.parquet").exists()
    assert not (tmp_path / "out" / "part-2.parquet").exists()
    change_column(new / "part-2.parquet", "m0", pa.array(["a"] * 110))
    assert predict(model, new, tmp_path / "out") == 2
    assert "must hold numbers, as in part-0.parquet. Got text" in capsys.readouterr().err
    columns = animal_columns(110)
    del columns["m0"]
    pq.write_table(pa.table(columns), new / "part-2.parquet")
    assert predict(model, new, tmp_path / "out") == 2
    assert (
        "part-2.parquet must have the columns of part-0.parquet. Got none called 'm0'"
        in capsys.readouterr().err
    )


def test_ids_that_are_missing_are_said(model, new, tmp_path, capsys):
    change_column(new / "part-0.parquet", "name", pa.array([None, *["x"] * 59]))
    assert predict(model, new, tmp_path / "out") == 2
    assert "The ids in 'name' must all be there. Got none in row 1" in capsys.readouterr().err
    assert predict(model, new, tmp_path / "out", "--id", "nme") == 2
    assert (
        "must have a column 'nme' for --id. Got none of that name. Did you mean 'name'"
        in capsys.readouterr().err
    )
    for path in new.iterdir():
        pq.write_table(pq.read_table(path).drop_columns(["name"]), path)
    assert predict(model, new, tmp_path / "out") == 0
    assert "There is no column 'name' for the ids" in capsys.readouterr().err
    assert pq.read_table(tmp_path / "out")["id"].to_pylist()[59:61] == [
        "part-0.parquet:59",
        "part-2.parquet:0",
    ]


def test_predictions_never_replace_what_they_are_made_from(model, new, tmp_path, capsys):
    copy = tmp_path / "fit"
    shutil.copytree(model, copy)
    for target in (new, copy, copy / "predictions"):
        assert predict(copy, new, target) == 2
        assert "Choose another folder" in capsys.readouterr().err
    (tmp_path / "file").write_text("mine")
    assert predict(model, new, tmp_path / "file") == 2
    assert "must be a folder" in capsys.readouterr().err


def test_a_damaged_file_of_predictions_is_none(model, new, tmp_path):
    work = predict_folder._Work(model, predict_folder.look_at_parts(new), tmp_path, None, "fit")
    assert not work.is_done(0)
    work.path(0).write_bytes(b"PAR1")
    assert not work.is_done(0)
    pq.write_table(pa.table({"a": [1] * 60}), work.path(0))
    assert not work.is_done(0)
