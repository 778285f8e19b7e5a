"""Files that are no journal, not whole, or not ours: each is refused in a sentence and left as it is."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from rights import plain_user

from dahgnn.explorer.events import NewEvent
from dahgnn.explorer.journal import Journal
from dahgnn.explorer.journal_file import FORMAT_VERSION, loaded_text, stored_text

ABOUT = {"rows": "digest"}


def make(path, events=3, rows=1):
    with Journal.open(path, ABOUT) as journal:
        for number in range(events):
            ids = [f"row {number} {place}" for place in range(rows)]
            journal.write(NewEvent(key=str(number), window="w", kind="label", rows=ids, label="cat"))
    return path


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "labels.sqlite", rows=300)


def check_refused(path, message, about=ABOUT):
    """The file is refused, as it was, and not held by the attempt."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ValueError, match=message) as caught:
        Journal.open(path, about)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert before is None or path.read_bytes() == before
    return str(caught.value)


def test_a_folder_in_its_place(tmp_path):
    path = tmp_path / "labels.sqlite"
    path.mkdir()
    check_refused(path, "must be a file. Got a folder or device. Move it away")


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"a,b\n1,2\n" * 100, bytes(5000)])
def test_what_is_no_sqlite_file(tmp_path, content):
    path = tmp_path / "labels.sqlite"
    path.write_bytes(content)
    check_refused(path, "is cut, or no journal. Move it away")


def test_a_file_of_another_program(tmp_path):
    path = tmp_path / "labels.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE events (id)")
    check_refused(path, "is an SQLite file, but no journal of dahgnn")


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1])
def test_another_format(path, version):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    check_refused(path, f"must be of format {FORMAT_VERSION}. Got {version}. Open it with the version")


@pytest.mark.parametrize("left", [99, 100, 512, 4096, 5000, 0.3, 0.6, 0.9, -4096, -1])
def test_a_cut_file(path, left):
    content = path.read_bytes()
    size = int(left * len(content)) if isinstance(left, float) else left % len(content)
    path.write_bytes(content[:size])
    check_refused(path, "cut")


def test_a_file_with_holes(path):
    """Wherever a page is wiped out, the file is refused or has lost nothing that was in use."""
    content = path.read_bytes()
    refused = []
    for start in range(4096, len(content), 4096):
        path.write_bytes(content[:start] + bytes(4096) + content[start + 4096 :])
        try:
            with Journal.open(path, ABOUT) as journal:
                assert len(journal.events()) == 3
        except ValueError as error:
            refused.append(str(error))
    assert all("cut or damaged" in message for message in refused)
    assert len(refused) >= len(content) // 4096 - 3


def test_an_undo_of_nothing(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO events VALUES (9, 0, 'w', 'k', 'undo', NULL, '', 7, NULL)")
    check_refused(path, r"cut or damaged \(There is no event 7 to undo\.\)")


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"rows": "other"}, "there 'rows' is 'digest', and here 'other'"),
        ({}, "there 'rows' is 'digest', and here 'nothing'"),
        (
            ABOUT | {"id": "\x1b[2Jname" + "x" * 500},
            "there 'id' is 'nothing', and here '.x1b.2Jnamexx.{0,50}'",
        ),
    ],
)
def test_a_journal_of_other_data(path, about, told):
    check_refused(path, f"belongs to other data: {told}. Take the data that it was made with", about)


def test_a_journal_of_other_data_that_was_not_closed(path, tmp_path):
    """What a killed process left beside the file is not touched either."""
    journal = Journal.open(path, ABOUT)
    journal.write(NewEvent(key="k", window="w", kind="label", rows=["x"], label="dog"))
    copies = tmp_path / "copies"
    copies.mkdir()
    for ending in ("", "-wal"):
        (copies / f"{path.name}{ending}").write_bytes((tmp_path / f"{path.name}{ending}").read_bytes())
    journal.close()
    copy = copies / path.name
    rest = copies / f"{path.name}-wal"
    before = rest.read_bytes()
    check_refused(copy, "belongs to other data", {"rows": "other"})
    assert rest.read_bytes() == before
    with Journal.open(copy, ABOUT) as journal:
        assert journal.state().label("x") == "dog"


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_the_rest_of_a_journal_that_is_gone(tmp_path, ending):
    path, rest = tmp_path / "labels.sqlite", tmp_path / f"labels.sqlite{ending}"
    rest.write_bytes(b"labels")
    check_refused(path, f"There is {rest} without the journal {path}")
    assert not path.exists()
    assert rest.read_bytes() == b"labels"


def test_a_file_that_may_not_be_written(path):
    path.parent.chmod(0o777)
    for parent in path.parents[1:3]:  # pytest's folders are for their owner alone
        parent.chmod(parent.stat().st_mode | 0o011)
    path.chmod(0o444)
    (path.parent / f".{path.name}.lock").unlink(missing_ok=True)
    with plain_user():
        check_refused(path, r"cannot be opened for writing \(Permission denied\).*the right to write")


def test_a_folder_that_may_not_be_written(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(parent.stat().st_mode | 0o011)
    folder.chmod(0o555)
    with plain_user():
        check_refused(folder / "labels.sqlite", r"cannot be opened for writing \(Permission denied\)")
    assert list(folder.iterdir()) == []


def test_a_second_process_is_refused_until_the_first_has_ended(path):
    script = (
        "import sys; from pathlib import Path; from dahgnn.explorer.journal import Journal\n"
        "journal = Journal.open(Path(sys.argv[1]), {'rows': 'digest'}); print('open', flush=True)\n"
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(ValueError, match=f"Another process has the journal {path} open"):
            Journal.open(path, ABOUT)
        other.kill()
    with Journal.open(path, ABOUT) as journal:  # the lock of a killed process is free
        with pytest.raises(ValueError, match="Another process"):  # and this process is one, too
            Journal.open(path, ABOUT)
        assert len(journal.events()) == 3
    journal.close()  # once more does no harm
    Journal.open(path, ABOUT).close()


def test_journals_in_one_folder_are_apart(tmp_path):
    with Journal.open(tmp_path / "a.sqlite", ABOUT), Journal.open(tmp_path / "b.sqlite", ABOUT):
        pass


@pytest.mark.parametrize(
    "name", ["a b#c?d%20.sqlite", "ü.sqlite", "file:x.sqlite", os.fsdecode(b"\xff.sqlite")]
)
def test_any_name_of_a_file(tmp_path, name):
    make(tmp_path / name)
    with Journal.open(tmp_path / name, ABOUT) as journal:
        assert len(journal.events()) == 3
    assert {each.name for each in tmp_path.iterdir()} == {name, f".{name}.lock"}


def test_a_link_leads_to_the_journal(path, tmp_path):
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    with Journal.open(link, ABOUT) as journal:
        assert len(journal.events()) == 3


@pytest.mark.parametrize("text", ["", "a\0b", "ü", "\ud800", "x\udcff"])
def test_text_comes_back(text):
    assert loaded_text(stored_text(text)) == text
    assert isinstance(stored_text(text), bytes) == ("\ud800" in text or "\udcff" in text)
