import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dahgnn.files.exchange import check_replaceable, exchanging, is_unsettled, settle

NAMES = ("model", "table", "page")

# Does an exchange and ends, as by a kill, at the given one of the calls that change the folder.
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
for owner, name in [(os, each) for each in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "open")]:
    setattr(owner, name, cut(getattr(owner, name)))
with exchange.exchanging(folder, ("model", "table", "page")) as stage:
    for name in sys.argv[3:]:
        (stage / name).write_text("new")
"""


def kill_at(moment, folder, written):
    command = [sys.executable, "-c", KILLED, str(folder), str(moment), *written]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 9), done.stderr
    return done.returncode == 9


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("written", [("model", "table", "page"), ("model", "table")])
def test_after_a_kill_at_any_moment_all_files_are_old_or_all_are_new(tmp_path, written):
    new = dict.fromkeys(written, "new")
    outcomes = []
    for moment in range(60):
        folder = tmp_path / str(moment)
        folder.mkdir()
        old = dict.fromkeys(NAMES, "old")
        for name in (*NAMES, "mine.txt"):
            (folder / name).write_text("old")
        killed = kill_at(moment, folder, written)
        seen = contents(folder)
        assert seen.pop("mine.txt") == "old"
        assert len(set(seen.values())) == 1, (moment, seen)  # not even for a moment do both stand together
        assert "model" in seen
        settle(folder, NAMES)
        seen = contents(folder)
        assert seen.pop("mine.txt") == "old"
        assert seen in (old, new), (moment, seen)
        assert {path.name for path in folder.iterdir()} == {*seen, "mine.txt"}
        outcomes.append(seen == new)
        if not killed:
            break
    assert not killed
    assert outcomes == sorted(outcomes)  # first the old ones, from one moment on the new ones
    assert 3 < outcomes.count(False) < len(outcomes) - 3


def test_a_second_kill_while_the_first_is_mended_is_mended_too(tmp_path):
    (tmp_path / ".ready").mkdir()
    (tmp_path / ".ready" / "plan.json").write_text(
        json.dumps({"arriving": ["model", "table"], "leaving": ["page"]})
    )
    (tmp_path / ".ready" / "table").write_text("new")
    (tmp_path / "model").write_text("new")  # this one has been moved
    assert is_unsettled(tmp_path)
    settle(tmp_path, NAMES)
    assert contents(tmp_path) == {"model": "new", "table": "new"}
    (tmp_path / ".ready").mkdir()  # all has been moved, and the plan is gone
    settle(tmp_path, NAMES)
    assert not is_unsettled(tmp_path)
    assert contents(tmp_path) == {"model": "new", "table": "new"}


def test_a_block_that_fails_leaves_all_as_it_was(tmp_path):
    (tmp_path / "table").write_text("old")
    with pytest.raises(OSError, match="full"), exchanging(tmp_path, NAMES) as stage:
        (stage / "model").write_text("new")
        raise OSError("full")
    assert {path.name for path in tmp_path.iterdir()} == {"table"}


def test_a_file_keeps_its_permissions(tmp_path):
    (tmp_path / "table").write_text("old")
    (tmp_path / "table").chmod(0o640)
    with exchanging(tmp_path, NAMES) as stage:
        (stage / "table").write_text("new")
    assert (tmp_path / "table").stat().st_mode & 0o777 == 0o640


def test_what_a_link_points_to_stays(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / "table").symlink_to(tmp_path / "mine")
    with exchanging(tmp_path / "fit", NAMES) as stage:
        (stage / "table").write_text("new")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "fit" / "table").read_text() == "new"
    assert not (tmp_path / "fit" / "table").is_symlink()


def test_a_folder_in_the_way_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "table").mkdir()
    with pytest.raises(FileExistsError, match="must be a file to be replaced"):
        check_replaceable(tmp_path, NAMES)
    with pytest.raises(FileExistsError), exchanging(tmp_path, NAMES):
        pytest.fail("written")
    assert {path.name for path in tmp_path.iterdir()} == {"table"}


@pytest.mark.parametrize("name", ["../mine", "mine", 7, None])
def test_a_plan_touches_no_other_files(tmp_path, name):
    fit = tmp_path / "fit"
    (fit / ".ready").mkdir(parents=True)
    (fit / ".ready" / "plan.json").write_text(json.dumps({"arriving": [], "leaving": [name]}))
    for path in (tmp_path / "mine", fit / "mine"):
        path.write_text("mine")
    with pytest.raises(ValueError, match="must name files of a fit"):
        settle(fit, NAMES)
    assert (tmp_path / "mine").exists()
    assert (fit / "mine").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"arriving": 3, "leaving": []}', "[" * 99_999])
def test_a_damaged_plan_is_named(tmp_path, text):
    (tmp_path / ".ready").mkdir()
    (tmp_path / ".ready" / "plan.json").write_text(text)
    with pytest.raises(ValueError, match="plan.json is damaged. Remove the folder"):
        settle(tmp_path, NAMES)


@pytest.mark.parametrize("name", [".ready", ".staged"])
def test_links_to_folders_of_others_are_refused(tmp_path, name):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "model").write_text("theirs")
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / name).symlink_to(tmp_path / "others")
    with pytest.raises(ValueError, match="Got a link or a file"):
        settle(tmp_path / "fit", NAMES)
    assert (tmp_path / "others" / "model").read_text() == "theirs"


def test_what_is_ready_but_in_no_plan_is_not_lost(tmp_path):
    (tmp_path / ".ready").mkdir()
    (tmp_path / ".ready" / "mine").write_text("mine")
    with pytest.raises(OSError, match=r"\.ready"):
        settle(tmp_path, NAMES)
    assert Path(tmp_path, ".ready", "mine").read_text() == "mine"
    assert os.listdir(tmp_path) == [".ready"]


def test_a_folder_is_exchanged_whole(tmp_path):
    names = ("model", "parts/", "page")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "old").write_text("old")
    (tmp_path / "model").write_text("old")
    with exchanging(tmp_path, names) as stage:
        (stage / "model").write_text("new")
        (stage / "parts").mkdir()
        (stage / "parts" / "new").write_text("new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["model", "new", "parts"]
    with exchanging(tmp_path, names) as stage:
        (stage / "model").write_text("newer")
    assert [path.name for path in tmp_path.rglob("*")] == ["model"]


def test_a_folder_of_other_things_than_files_is_not_replaced(tmp_path):
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="must be a folder of files to be replaced"):
        check_replaceable(tmp_path, ("model", "parts/"))
    (tmp_path / "parts" / "deep").rmdir()
    check_replaceable(tmp_path, ("model", "parts/"))
    (tmp_path / "parts").rmdir()
    (tmp_path / "parts").write_text("a file")
    with pytest.raises(FileExistsError, match="must be a folder of files to be replaced"):
        check_replaceable(tmp_path, ("model", "parts/"))
