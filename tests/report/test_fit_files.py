import json
import os
import subprocess
import sys

import pytest

from dahgnn.files.jsonl import lock_folder
from dahgnn.report.fit_files import (
    FILES,
    check_inputs_stay,
    check_target,
    file_digest,
    fit_id,
    owning,
    readable,
    replace_metrics,
    settle_for_reading,
    write_json,
)

# Fits A into a folder. Then, for each call that changes the disk while B is written there, a child ends at it as
# by a kill. The parent opens what is left, and prints which fit it found, and what was there before it looked.
KILLED_FITS = """
import json, os, shutil, sys
from pathlib import Path
import numpy as np, torch
from dahgnn.classifier.saving import load_with_notes
from dahgnn.progress import SilentObserver
from dahgnn.report import fit_folder
from dahgnn.report.fit_files import FILES
from dahgnn.report.fitted_folder import FittedFolder
torch.set_num_threads(1)
base = Path(sys.argv[1])
rows = np.random.default_rng(0).normal(size=(24, 2)) + 4 * (np.arange(24) % 2)[:, None]
for name in "ab":
    lines = [f"{x:.3f},{y:.3f},{name}{row % 2 if row < 12 else ''}" for row, (x, y) in enumerate(rows)]
    lines = [line if row < 12 else line[:-1] for row, line in enumerate(lines)]
    (base / f"{name}.csv").write_text("x,y,kind\\n" + "\\n".join(lines) + "\\n")
options = fit_folder.FitOptions(label="kind", networks=1, map="pca")
fitted, observer = {}, SilentObserver()
really = fit_folder._fit
def keep(*arguments):
    fitted["last"] = really(*arguments)
    return fitted["last"]
fit_folder._fit = keep
fit_folder.fit_table(base / "b.csv", base / "new", options, observer)
last = fitted["last"]
fit_folder.fit_table(base / "a.csv", base / "old", options, observer)
fit_folder._fit = lambda *_: last
page = (base / "new" / "report.html").read_text()
fit_folder.gather_view = lambda *_: None
fit_folder.fit_page = lambda _: page

def run(folder, moment):
    left = [moment]
    def cut(function):
        def call(*arguments, **keywords):
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            return function(*arguments, **keywords)
        return call
    for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync"):
        setattr(os, name, cut(getattr(os, name)))
    fit_folder.fit_table(base / "b.csv", folder, options, observer)
    os._exit(0)

def contents(folder):
    files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    if "metrics.json" in files:  # seconds differ
        files["metrics.json"] = json.loads(files["metrics.json"])["fit"]
    # The order of what safetensors writes differs, too. A digest has seen that the file is whole.
    files["model.safetensors"] = load_with_notes(folder / "model.safetensors")[1]["fit"]
    return files

for moment in range(99):
    folder = base / str(moment)
    shutil.copytree(base / "old", folder)
    (folder / "mine.txt").write_text("mine")
    child = os.fork()
    if child == 0:
        try:
            run(folder, moment)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    before = contents(folder)
    found = str(FittedFolder.open(folder).classifier.classes_[0])[0]
    after, lots = contents(folder), [contents(base / each) for each in ("old", "new")]
    print(json.dumps({
        "status": status, "found": found, "mine": (folder / "mine.txt").read_text(),
        "mixed": not any(before.items() <= lot.items() for lot in lots),
        "whole": ["ab"[place] for place, lot in enumerate(lots)
                  if {**lot, "report.html": 0} == {**after, "report.html": 0} and after.items() <= lot.items()],
        "page": "report.html" in after, "hidden": sorted(set(os.listdir(folder)) - {*FILES, ".lock", "mine.txt"}),
    }), flush=True)
    if status == 0:
        break
"""


@pytest.mark.slow
def test_a_fit_that_is_killed_at_any_moment_leaves_one_fit_whole(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED_FITS, str(tmp_path)], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    assert [line["status"] for line in lines] == [9] * (len(lines) - 1) + [0], done.stderr
    assert len(lines) > 20
    for line in lines:
        assert line["mine"] == "mine"
        assert not line["mixed"], line
        assert line["whole"] == [line["found"]], line
        assert line["page"] or line["found"] == "b"  # the old fit never loses its page
        assert set(line["hidden"]) <= {".staged"}, line
    found = [line["found"] for line in lines]
    assert found == sorted(found)
    assert set(found) == {"a", "b"}
    assert lines[-1]["page"]


def test_a_second_fit_is_refused_at_once(tmp_path):
    with lock_folder(tmp_path), pytest.raises(ValueError, match="Another process works in"), owning(tmp_path):
        pytest.fail("two at once")
    with owning(tmp_path / "new"):
        assert (tmp_path / "new").is_dir()


def test_a_fit_begins_with_a_settled_folder(tmp_path):
    (tmp_path / ".ready").mkdir()
    (tmp_path / ".ready" / "plan.json").write_text('{"arriving": ["metrics.json"], "leaving": []}')
    (tmp_path / ".ready" / "metrics.json").write_text("{}")
    with owning(tmp_path):
        assert (tmp_path / "metrics.json").read_text() == "{}"
        assert not (tmp_path / ".ready").exists()


def test_a_reader_finishes_an_exchange_but_leaves_a_fit_that_is_being_written(tmp_path):
    (tmp_path / ".staged").mkdir()
    with lock_folder(tmp_path):
        settle_for_reading(tmp_path)  # nothing that counts: it neither waits nor cleans up
    assert (tmp_path / ".staged").exists()
    (tmp_path / ".ready").mkdir()
    settle_for_reading(tmp_path)
    assert not (tmp_path / ".ready").exists()


@pytest.mark.parametrize("name", FILES)
def test_no_input_is_replaced(tmp_path, name):
    table, folder = tmp_path / "table.csv", tmp_path / "fit"
    table.write_text("mine")
    folder.mkdir()
    check_inputs_stay(folder, [table])
    (folder / name).symlink_to(table)
    with pytest.raises(ValueError, match="would replace table.csv"):
        check_inputs_stay(folder, [table])
    with pytest.raises(ValueError, match="belongs to the fit"):
        check_target(folder / name, folder, [])
    (folder / name).unlink()
    (folder / name).hardlink_to(table)
    with pytest.raises(ValueError, match="would replace table.csv"):
        check_inputs_stay(folder, [table])
    with pytest.raises(ValueError, match="would replace"):
        check_inputs_stay(folder, [folder / name])
    with pytest.raises(ValueError, match="among the files of"):
        check_inputs_stay(folder, [folder])


def test_a_link_to_itself_is_no_input(tmp_path):
    (tmp_path / "table.csv").write_text("mine")
    (tmp_path / "fit").symlink_to(tmp_path / "fit")
    check_inputs_stay(tmp_path / "fit", [tmp_path / "table.csv"])
    with pytest.raises(OSError, match="cannot be written to"), owning(tmp_path / "fit"):
        pass


def test_the_digest_of_a_file_is_that_of_sha256sum(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_digest(tmp_path / "file") == expected
    assert file_digest(tmp_path) is None


def test_names_that_are_no_text_are_written_all_the_same(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    write_json(tmp_path / "a.json", {"name": name, "word": "é"})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"name": name, "word": "é"}
    assert "é" in (tmp_path / "a.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fit": 7}', "[" * 99_999])
def test_metrics_without_an_id_have_none(tmp_path, text):
    assert fit_id(tmp_path) is None
    (tmp_path / "metrics.json").write_text(text)
    assert fit_id(tmp_path) is None


def test_a_file_that_may_not_be_read_is_said_so(tmp_path, monkeypatch):
    (tmp_path / "model").write_text("")
    readable(tmp_path / "model")

    def refuse(path, _):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        readable(tmp_path / "model")


def test_metrics_are_replaced_alone_and_whole(tmp_path):
    for name in FILES:
        if not name.endswith("/"):
            (tmp_path / name).write_text(name)
    replace_metrics(tmp_path, {"fit": "abc"})
    assert fit_id(tmp_path) == "abc"
    others = [name for name in FILES if not name.endswith("/") and name != "metrics.json"]
    assert all((tmp_path / name).read_text() == name for name in others)
    assert {path.name for path in tmp_path.iterdir()} == {*others, "metrics.json"}
    with pytest.raises(TypeError):
        replace_metrics(tmp_path, {"fit": object()})  # no JSON: what was there stays
    assert fit_id(tmp_path) == "abc"
    assert {path.name for path in tmp_path.iterdir()} == {*others, "metrics.json"}
