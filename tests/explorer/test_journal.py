"""The file of events: what was acknowledged is kept, once, whatever happens."""

import json
import resource
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dahgnn.explorer.events import JournalState, NewEvent, NothingToUndoError
from dahgnn.explorer.journal import ConflictError, Journal
from dahgnn.explorer.journal_file import JournalError, JournalFullError

ABOUT = {"rows": "digest"}


def label(key, rows=("a",), name="cat", window="one", **others):
    return NewEvent(key=key, window=window, kind="label", rows=list(rows), label=name, way="map", **others)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flowers.csv.labels.sqlite"


@pytest.fixture
def journal(path):
    with Journal.open(path, ABOUT) as opened:
        yield opened


def test_events_are_read_as_they_were_written(path):
    with Journal.open(path, ABOUT) as journal:
        written = [
            journal.write(label("1", ["a", "b"], predicted=["dog", None], probability=[0.75, None], model=3)),
            journal.write(NewEvent(key="2", window="two", kind="skip", rows=["c"], way="uncertain")),
            journal.write(NewEvent(key="3", window="two", kind="keep", rows=["a"], label="cat")),
            journal.undo(key="4", window="one"),
            journal.write(label("5", ["b"], None, seen=0)),
        ]
        assert journal.events() == written
        assert journal.events(after=3) == written[3:]
        assert [each.number for each in written] == [1, 2, 3, 4, 5]
        assert written[3].undoes == 1
        assert written[3].rows == ("a", "b")
        state = journal.state()
    with Journal.open(path, ABOUT) as journal:
        assert journal.events() == written
        assert journal.state() == state
        assert (state.label("a"), state.skipped, state.kept) == (None, {"c"}, {"a": "cat"})
        assert journal.write(label("6")).number == 6


def test_a_key_that_comes_again_gets_the_stored_event(journal):
    first = journal.write(label("1"))
    journal.write(label("2", name="dog", window="two"))
    # Although by now another window has changed the row, which would be a conflict for a new key.
    assert journal.write(label("1", seen=0)) == first
    undone = journal.undo(key="3", window="one")
    assert journal.undo(key="3", window="one") == undone
    assert len(journal.events()) == 3


def test_another_window_does_not_overwrite_what_it_has_not_seen(journal):
    journal.write(label("1", ["a", "b"]))
    with pytest.raises(ConflictError, match="2 of these rows were changed in another window") as caught:
        journal.write(label("2", ["c", "b", "a"], "dog", "two", seen=0))
    assert caught.value.rows == ("b", "a")
    with pytest.raises(ConflictError, match="This row was changed in another window"):
        journal.write(NewEvent(key="3", window="two", kind="skip", rows=["a"], seen=0))
    assert len(journal.events()) == 1
    assert journal.write(label("4", ["c"], window="two", seen=0)).number == 2  # nobody else's row
    assert journal.write(label("5", ["a"], "dog", "two", seen=1)).number == 3
    # The undo of another window counts like any event.
    journal.undo(key="6", window="two")
    with pytest.raises(ConflictError):
        journal.write(label("7", ["a"], "bird", "one", seen=3))
    assert journal.write(label("8", ["a"], "bird", "one")).number == 5  # who asks nothing is not told


def test_an_action_is_undone_once(journal):
    journal.write(label("1"))
    journal.write(label("2", name="dog"))
    journal.write(label("3", name="bird", window="two"))
    assert journal.undo(key="4", window="one").undoes == 2
    assert journal.state().label("a") == "bird"
    assert journal.undo(key="5", window="one", event=3).undoes == 3
    assert journal.state().label("a") == "cat"
    with pytest.raises(NothingToUndoError, match="Event 3 was undone before"):
        journal.undo(key="6", window="two", event=3)
    assert journal.undo(key="7", window="one").undoes == 1
    with pytest.raises(NothingToUndoError, match="nothing left"):
        journal.undo(key="8", window="one")
    assert journal.state().label("a") is None
    assert len(journal.events()) == 6


# Any letters, half a surrogate pair and NUL among them.
texts = st.text(st.characters(exclude_categories=()), min_size=1, max_size=20)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(texts, min_size=1, max_size=5, unique=True), name=texts)
def test_any_text_is_an_id_and_a_label(journal, rows, name):
    event = journal.write(label(str(journal.state().version), rows, name, predicted=[name] * len(rows)))
    assert journal.events(after=event.number - 1) == [event]
    assert event.rows == tuple(rows)
    assert [journal.state().label(row) for row in rows] == [name] * len(rows)


def test_texts_that_look_alike_stay_apart(path):
    rows = ["\ud800", "a\0", "a\0b", "a", "\udcff", "ÿ", "\u00e9", "e\u0301", "x" * 1_000_000, ""]
    with Journal.open(path, ABOUT) as journal:
        for number, row in enumerate(rows):
            journal.write(label(str(number), [row], f"label {number}"))
    with Journal.open(path, ABOUT) as journal:
        found = [journal.state().label(row) for row in rows]
    assert found == [f"label {number}" for number in range(len(rows))]


actions = st.tuples(
    st.sampled_from(["label", "skip", "keep", "undo"]),
    st.sets(st.sampled_from("abc"), min_size=1).map(sorted),
    st.sampled_from(["cat", "dog", None]),
    st.sampled_from(["one", "two"]),
    st.none() | st.integers(0, 8),  # what the window has seen, or which event it undoes
)


@settings(max_examples=30)
@given(st.lists(actions, max_size=15))
def test_what_the_file_holds_amounts_to_what_the_journal_says(drawn):
    with TemporaryDirectory() as folder:
        path, refused = Path(folder) / "labels.sqlite", 0
        with Journal.open(path, ABOUT) as journal:
            for number, (kind, rows, name, window, known) in enumerate(drawn):
                try:
                    if kind == "undo":
                        journal.undo(key=str(number), window=window, event=known)
                    else:
                        said = {"kind": kind, "rows": rows, "label": name, "seen": known}
                        journal.write(NewEvent(key=str(number), window=window, **said))
                except (ConflictError, NothingToUndoError):
                    refused += 1
            state, events = journal.state(), journal.events()
        assert len(events) == len(drawn) - refused
        again = JournalState()
        for event in events:
            again.apply(event)
        with Journal.open(path, ABOUT) as journal:
            assert journal.state() == state == again


def test_many_rows_are_one_event(path):
    rows = [f"row {number}" for number in range(50_000)]
    with Journal.open(path, ABOUT) as journal:
        event = journal.write(label("1", rows, predicted=["cat"] * 50_000, probability=[0.5] * 50_000))
        journal.undo(key="2", window="one")
        journal.write(label("3", rows[::-1], "dog"))
    with Journal.open(path, ABOUT) as journal:
        assert journal.events()[0] == event
        assert journal.events()[2].rows == tuple(rows[::-1])
        assert {event.label for _, event in journal.state().label_events()} == {"dog"}


def test_threads_share_a_journal(journal):
    def work(name):
        for number in range(25):
            journal.write(label(f"{name} {number}", [name], str(number), name))

    threads = [threading.Thread(target=work, args=[name]) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.number for event in journal.events()] == list(range(1, 201))
    assert [journal.state().label(name) for name in "abcdefgh"] == ["24"] * 8
    again = JournalState()
    for event in journal.events():
        again.apply(event)
    assert again == journal.state()


@pytest.mark.parametrize("table", ["events", "event_rows", "about"])
@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET {} = 0"])
def test_nothing_in_the_file_is_ever_changed(journal, path, table, change):
    journal.write(label("1"))
    column = {"events": "label", "event_rows": "probability", "about": "value"}[table]
    with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError, match="only added"):
        other.execute(change.format(table, column))


def test_what_another_program_adds_is_noticed(journal, path):
    journal.write(label("1"))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("INSERT INTO events VALUES (9, 0, 'w', 'k', 'label', 'dog', '', NULL, NULL)")
    with pytest.raises(JournalError, match="Another program has written into"):
        journal.write(label("2"))


def test_another_program_that_holds_the_file_makes_it_wait_not_fail_for_good(journal, path):
    journal._connection.execute("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="Another program holds the journal"):
            journal.write(label("1"))
        other.rollback()
    assert journal.write(label("1")).number == 1


def test_layouts_are_kept_one_of_a_kind(path):
    with Journal.open(path, ABOUT) as journal:
        assert journal.layout("tsne", "x") is None
        journal.keep_layout("tsne", "x", b"\0\1")
        journal.keep_layout("pca", "x", b"other")
        journal.keep_layout("tsne", "y", b"newer")
    with Journal.open(path, ABOUT) as journal:
        assert journal.layout("tsne", "x") is None
        assert (journal.layout("tsne", "y"), journal.layout("pca", "x")) == (b"newer", b"other")


def test_an_error_within_an_event_leaves_nothing_of_it(journal):
    before = replace(journal.write(label("1")))
    with pytest.raises(AttributeError):
        journal.write(label("2", ["b", 7]))  # no text
    assert journal.events() == [before]
    assert journal.write(label("2", ["b"])).number == 2


def check_full(journal, make_room):
    """Fill what there is, check that nothing is half there, make room and go on."""
    kept = []
    with pytest.raises(JournalFullError, match="Make room") as caught:
        for number in range(10_000):
            kept.append(journal.write(label(f"{number}", [f"row {number} {place}" for place in range(40)])))
    assert "nothing was kept of this" in str(caught.value)
    assert kept
    assert journal.events() == kept
    assert journal.state().version == len(kept)
    with pytest.raises(JournalFullError):
        journal.write(label(f"{len(kept)}", [f"more {number}" for number in range(9000)]))
    make_room()
    for number in range(len(kept), len(kept) + 5):
        kept.append(journal.write(label(f"{number}", ["row"])))
    assert journal.events() == kept
    return kept


def test_a_full_file_is_told_and_takes_events_again_when_there_is_room(path):
    with Journal.open(path, ABOUT) as journal:
        journal._connection.execute("PRAGMA max_page_count = 60")
        kept = check_full(
            journal, lambda: journal._connection.execute("PRAGMA max_page_count = 1000").fetchall()
        )
    with Journal.open(path, ABOUT) as journal:
        assert journal.events() == kept


def test_a_limit_on_the_size_of_files_is_like_a_full_disk(path):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal.open(path, ABOUT) as journal:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limit[1]))
            kept = check_full(journal, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    with Journal.open(path, ABOUT) as journal:
        assert journal.events() == kept


def test_a_journal_is_made_whole_or_not_at_all(path):
    """Whatever the size at which a disk is full."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    made = []
    for size in range(0, 80_000, 4_000):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
            Journal.open(path, ABOUT).close()
        except (ValueError, JournalFullError) as error:
            made.append(str(error))
        else:
            made.append("")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert not made[-1] or "ake room" in made[-1]
        if path.exists():
            with Journal.open(path, ABOUT) as journal:
                journal.write(label("1"))
            path.unlink()
        assert [each.name for each in path.parent.iterdir()] == [f".{path.name}.lock"]
    assert made[0]
    assert not made[-1]


@contextmanager
def small_disk(folder, size):
    """A disk of some bytes in memory, where the test may make one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        failed = subprocess.run(mount, capture_output=True, check=False).returncode
    except FileNotFoundError:
        failed = 1
    if failed:
        pytest.skip("only a superuser may make a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S607


def fill(ballast):
    with pytest.raises(OSError, match="No space"), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_is_told_and_the_journal_goes_on_when_there_is_room(tmp_path):
    path, ballast = tmp_path / "disk" / "labels.sqlite", tmp_path / "disk" / "ballast"
    with small_disk(tmp_path / "disk", 2**20):
        ballast.write_bytes(bytes(500_000))
        with Journal.open(path, ABOUT) as journal:
            kept = check_full(journal, ballast.unlink)
        with Journal.open(path, ABOUT) as journal:
            assert journal.events() == kept


def test_a_journal_on_a_disk_that_is_full_from_the_start(tmp_path):
    path, ballast = tmp_path / "disk" / "labels.sqlite", tmp_path / "disk" / "ballast"
    with small_disk(tmp_path / "disk", 2**20):
        fill(ballast)
        with pytest.raises((ValueError, JournalFullError), match="(?i)make room"):
            Journal.open(path, ABOUT)
        assert not path.exists()
        ballast.unlink()
        with Journal.open(path, ABOUT) as journal:
            event = journal.write(label("1"))
        fill(ballast)
        with pytest.raises((ValueError, JournalFullError), match="(?i)make room"):
            Journal.open(path, ABOUT)
        ballast.unlink()
        with Journal.open(path, ABOUT) as journal:
            assert journal.events() == [event]


# It forks children that write as fast as they can, kills each, and says what each had acknowledged.
KILLER = """
import json, os, random, signal, sqlite3, sys, time
from pathlib import Path
from dahgnn.explorer.journal import Journal
from dahgnn.explorer.events import NewEvent

def write(journal, number):
    said = dict(key=str(number), window=f"window {number % 2}")
    if number % 11 == 10:
        journal.undo(**said)
    else:
        rows = [f"{number} {place}" for place in range(40 if number % 7 == 6 else 1)]
        journal.write(NewEvent(kind="label", rows=rows, label=f"label {number}", **said))

def child(path, start, pipe):
    with Journal.open(path, {"rows": "digest"}) as journal:
        os.write(pipe, b"open\\n")
        for number in range(start, 10**9):
            write(journal, number)
            os.write(pipe, b"%d\\n" % number)

def kill_one(path, start, seconds):
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        try:
            child(path, start, into)
        finally:
            os._exit(1)
    os.close(into)
    first = os.read(out, 5)  # the child is about to write
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    lines = first + b"".join(iter(lambda: os.read(out, 65536), b""))
    os.close(out)
    assert os.WIFSIGNALED(status), (status, lines)
    return [int(line) for line in lines.split(b"\\n")[1:-1]]  # whole lines

assert "torch" not in sys.modules
folder, generator, acknowledged, extra = Path(sys.argv[1]), random.Random(0), 0, 0
for kill in range(50):
    path = folder / f"{kill // 10}.sqlite"
    if kill % 10 == 0:
        start = 0
    # The first event that was not acknowledged is sent again, with its key.
    told = kill_one(path, start, generator.uniform(0.0, 0.06))
    assert told == list(range(start, start + len(told))), told
    start, acknowledged = start + len(told), acknowledged + len(told)
    with Journal.open(path, {"rows": "digest"}) as journal:
        events = journal.events()
    assert [int(event.key) for event in events] == list(range(len(events))), "lost or doubled"
    assert start <= len(events) <= start + 1, (start, len(events))
    extra += len(events) - start
    for number, event in enumerate(events):
        if event.kind == "label":
            assert len(event.rows) == (40 if number % 7 == 6 else 1)
            assert event.label == f"label {number}"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
print(json.dumps({"acknowledged": acknowledged, "unacknowledged": extra}))
"""


def test_after_50_kills_nothing_acknowledged_is_lost_or_doubled(tmp_path):
    command = [sys.executable, "-c", KILLER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["acknowledged"] > 50
