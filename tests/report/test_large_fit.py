"""`dahgnn fit` on tables that count as large, as a user calls it."""

import errno
import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from part_folders import KINDS, change_column, write_animals

from dahgnn.classifier import plan
from dahgnn.cli.commands import main
from dahgnn.files.exchange import settle
from dahgnn.graph.search_folder import SearchFolder
from dahgnn.report import fit_folder, large_page, prediction_shards
from dahgnn.report.fit_files import FILES
from dahgnn.report.fitted_folder import FittedFolder
from dahgnn.tables import large_sources, large_tables
from dahgnn.training.checkpoints import Checkpoints

pytest.importorskip("openTSNE")


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch):
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 100)
    monkeypatch.setattr(large_sources, "BLOCK_ROWS", 50)
    monkeypatch.setattr(prediction_shards, "SHARD_ROWS", 100)
    monkeypatch.setattr(large_page, "PAGE_ROWS", 200)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_animals(tmp_path_factory.mktemp("large") / "animals")


def fit(data, out, *more):
    words = ["--label", "kind", "--id", "name", "--networks", "1", "--map", "pca", "-k", "5"]
    return main(["fit", str(data), *words, "--out", str(out), *more])


def content(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def fitted(data, tmp_path):
    assert fit(data, tmp_path / "fit") == 0
    return tmp_path / "fit"


def test_who_is_interrupted_at_the_comparison_has_predictions_and_model(data, tmp_path, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dahgnn.report.large_fit.assess_encoded", press)
    out = tmp_path / "fit"
    assert fit(data, out) == 130
    names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    assert names == {"model.safetensors", "metrics.json", "predictions"}
    assert "assessment" not in json.loads((out / "metrics.json").read_text())
    assert main(["suggest", str(out), "-n", "2"]) == 0  # it refuses a model that is of another fit


def test_a_large_table_goes_in_and_comes_out(data, tmp_path, capsys):
    fitted = tmp_path / "fit"
    assert fit(data, fitted, "--work", str(tmp_path / "work")) == 0
    assert not list((tmp_path / "work").iterdir())
    names = {path.name for path in fitted.iterdir() if not path.name.startswith(".")}
    assert names == {"model.safetensors", "metrics.json", "predictions", "report.html"}
    found = pq.read_table(fitted / "predictions").to_pydict()
    assert [path.name for path in sorted((fitted / "predictions").iterdir())] == [
        f"part-0000{number}.parquet" for number in range(4)
    ]
    assert found["id"] == [f"x{row}" for row in range(327)]
    assert found["given"] == [KINDS[row % 3] if row % 5 == 0 else None for row in range(327)]
    right = np.array([KINDS[row % 3] for row in range(327)]) == found["predicted"]
    assert right.mean() > 0.9
    assert all(own is None or own == shown for own, shown in zip(found["given"], found["class"], strict=True))
    metrics = json.loads((fitted / "metrics.json").read_text())
    assert (metrics["rows"], metrics["classes"], metrics["labelled"]) == (327, list(KINDS), 66)
    assert metrics["files"][1] == {"file": "part-1.parquet", "rows": 7}
    assert metrics["held_out_accuracy"] == metrics["assessment"]["accuracy"] > 0.8
    said = " ".join(capsys.readouterr().err.split())
    assert "animals has 327 rows" in said
    assert "Predictions are Parquet files in" in said
    page = (fitted / "report.html").read_text()
    assert "of 327 rows: up to 100 labelled ones" in page


def test_the_fit_predicts_and_suggests_and_says_what_it_cannot(fitted, data, tmp_path, capsys):
    folder = FittedFolder.open(fitted)
    assert folder.ids.block(118, 122) == ["x118", "x119", "x120", "x121"]
    assert list(folder.classifier.classes_) == list(KINDS)
    assert (
        main(["predict", str(fitted), str(data / "part-0.parquet"), "--out", str(tmp_path / "p.parquet")])
        == 0
    )
    again = pq.read_table(tmp_path / "p.parquet").to_pydict()["predicted"]
    assert again == pq.read_table(fitted / "predictions").to_pydict()["predicted"][:120]
    assert main(["suggest", str(fitted), "-n", "2"]) == 0
    assert "x" in capsys.readouterr().out
    for words in (["explain", str(fitted), "--row", "x1"], ["label", str(fitted)]):
        assert main(words) == 2
        assert "must be of a table that fits into memory. Got one of 327 rows" in capsys.readouterr().err


def test_weights_and_shares_of_classes_are_by_their_names(data, tmp_path):
    more = ("--class-weight", "bee=3", "--class-prior", "ant=0.4", "--class-prior", "cat=0.4")
    assert fit(data, tmp_path / "fit", *more) == 0
    metrics = json.loads((tmp_path / "fit" / "metrics.json").read_text())
    assert metrics["settings"]["class_weight"] == {"bee": 3.0}
    assert metrics["settings"]["class_prior"]["bee"] == pytest.approx(0.2)
    shares = pq.read_table(tmp_path / "fit" / "predictions").to_pandas()[["p:ant", "p:bee", "p:cat"]].mean()
    assert shares["p:bee"] < 0.3


def test_a_small_fit_takes_the_place_of_a_large_one(fitted, data, monkeypatch):
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 1000)
    assert fit(data, fitted) == 0
    names = {path.name for path in fitted.iterdir() if not path.name.startswith(".")}
    assert names == {"model.safetensors", "metrics.json", "predictions.csv", "report.html"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind", pa.array([1] * 200)), "'kind' of the file .*part-3.parquet must hold text"),
        (("m0", pa.array([np.inf] * 200)), "Got inf in row 1 .* of part-3.parquet"),
        (("name", pa.array(["x1"] * 200)), "The ids in 'name' must differ. Got 'x1'"),
    ],
)
def test_bad_tables_leave_the_old_fit(fitted, tmp_path, change, message, capsys):
    data = write_animals(tmp_path / "other")
    change_column(data / "part-3.parquet", *change)
    before = content(fitted)
    status = fit(data, fitted)
    assert status == 2
    assert content(fitted) == before
    assert re.search(message, capsys.readouterr().err)


def test_tables_that_teach_nothing_are_refused_and_leave_no_folder(tmp_path, capsys):
    data = write_animals(tmp_path / "data")
    for path in data.iterdir():
        change_column(path, "kind", pa.nulls(pq.read_metadata(path).num_rows))
    assert fit(data, tmp_path / "fit") == 2
    assert "Got no label at all" in capsys.readouterr().err
    change_column(data / "part-1.parquet", "kind", pa.array(["ant"] * 7))
    assert fit(data, tmp_path / "fit") == 2
    assert "Got one class alone, 'ant'" in capsys.readouterr().err
    assert not (tmp_path / "fit").exists()
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("row,group\nx1,a\n")
    assert main(["fit", str(data), "--label", "kind", "--hyperedges", str(pairs)]) == 2
    assert "--hyperedges must be left out for so large a table" in capsys.readouterr().err
    assert main(["fit", str(data)]) == 2
    assert "Name it with --label" in capsys.readouterr().err


def test_a_disk_that_fills_while_predictions_are_written_leaves_the_old_fit(
    fitted, data, monkeypatch, capsys
):
    before, count = content(fitted), [2]
    really = prediction_shards.write_parquet

    def full(path, predictions):
        count[0] -= 1
        if not count[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        really(path, predictions)

    monkeypatch.setattr(prediction_shards, "write_parquet", full)
    assert fit(data, fitted, "--seed", "1") == 2
    assert "The disk is full" in capsys.readouterr().err
    assert content(fitted) == before


@pytest.mark.parametrize("rows", [100, 1000])
def test_what_was_done_stays_until_the_results_are_written(data, tmp_path, monkeypatch, capsys, caplog, rows):
    """A disk that fills at the end costs neither the search nor the training of a large or a small table."""
    monkeypatch.setattr(large_tables, "LARGE_ROWS", rows)
    monkeypatch.setattr(plan, "_SHARE", 0.0)  # which makes the fit a long one
    done = {"searched": 0, "trained": 0}

    def count(owner, name, what):
        really = getattr(owner, name)

        def counting(*arguments, **keywords):
            done[what] += 1
            return really(*arguments, **keywords)

        monkeypatch.setattr(owner, name, counting)

    count(SearchFolder, "write_shard", "searched")
    count(Checkpoints, "write", "trained")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    words = ("--work", str(tmp_path / "work"), "--search", "exact")
    with monkeypatch.context() as patched:
        patched.setattr(prediction_shards, "write_parquet", full)
        patched.setattr(fit_folder, "write_text", full)
        assert fit(data, tmp_path / "fit", *words) == 2
    assert "The disk is full" in capsys.readouterr().err
    assert "What was done is kept in" in caplog.text
    assert not (tmp_path / "fit" / "model.safetensors").exists()
    assert done["searched"] == 1
    assert done["trained"] > 5
    done.update(searched=0, trained=0)
    assert fit(data, tmp_path / "fit", *words) == 0
    assert done == {"searched": 0, "trained": 0}
    assert (tmp_path / "fit" / "model.safetensors").exists()
    assert list((tmp_path / "work").iterdir()) == []


def test_others_files_among_the_predictions_are_never_removed(fitted, data, capsys):
    (fitted / "predictions" / "mine.txt").write_text("mine")
    assert fit(data, fitted) == 2
    assert "mine.txt is no file of a fit, and would be removed" in capsys.readouterr().err
    assert (fitted / "predictions" / "mine.txt").read_text() == "mine"
    assert main(["fit", str(fitted / "predictions"), "--label", "class", "--out", str(fitted)]) == 2


# Fits once more into a folder, and ends as by a kill at the given one of the calls that exchange files.
KILLED = """
import os, sys
from pathlib import Path
from dahgnn.files import exchange
folder, moment = Path(sys.argv[1]), int(sys.argv[2])
left = [moment]
def cut(function):
    def call(*arguments, **keywords):
        if left[0] == 0:
            os._exit(9)
        left[0] -= 1
        return function(*arguments, **keywords)
    return call
for name in ("rename", "replace", "unlink", "rmdir", "mkdir"):
    setattr(os, name, cut(getattr(os, name)))
with exchange.exchanging(folder, sys.argv[3].split(",")) as stage:
    (stage / "model.safetensors").write_text("new")
    (stage / "predictions").mkdir()
    for number in range(2):
        (stage / "predictions" / f"part-0000{number}.parquet").write_text("new")
"""


def test_after_a_kill_at_any_moment_predictions_are_old_or_new(tmp_path):
    outcomes = set()
    for moment in range(40):
        folder = tmp_path / str(moment)
        (folder / "predictions").mkdir(parents=True)
        (folder / "model.safetensors").write_text("old")
        for number in range(3):
            (folder / "predictions" / f"part-0000{number}.parquet").write_text("old")
        command = [sys.executable, "-c", KILLED, str(folder), str(moment), ",".join(FILES)]
        status = subprocess.run(command, capture_output=True).returncode
        settle(folder, FILES)
        found = content(folder)
        kind = set(found.values())
        assert len(kind) == 1
        assert len(found) == (4 if kind == {b"old"} else 3)
        assert sorted(os.listdir(folder)) == ["model.safetensors", "predictions"]
        outcomes |= kind
        if status == 0:
            break
    assert outcomes == {b"old", b"new"}
