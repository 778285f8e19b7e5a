"""A project while it is open, without a server."""

import sqlite3

import numpy as np
import pytest
from label_server import options, write_blobs

from dahgnn.explorer.events import NothingToUndoError
from dahgnn.explorer.journal_file import JournalFullError
from dahgnn.explorer.project import open_project
from dahgnn.explorer.session import Action
from dahgnn.progress import SilentObserver


@pytest.fixture
def opened(tmp_path):
    """A project whose trainer is not started, so that each test decides when to fit."""
    truth = write_blobs(tmp_path / "fruit.csv", n=90)
    project = open_project(tmp_path / "fruit.csv", options(), SilentObserver())
    yield project.session, truth
    project.session.journal.close()


def act(session, rows, key=None, **more):
    known = {"window": "w", "key": key or f"k{session.state.version}", "seen": session.state.version}
    return Action(**known | {"rows": rows} | more)


def train(session):
    session._train(lambda *_, **__: None)


def test_labels_go_through_the_journal_to_the_next_model(opened):
    session, truth = opened
    assert not session.can_train()
    for row in range(6):
        session.label(act(session, [row]), truth[row])
    assert (session.can_train(), session.waiting, session.labels.n_labelled) == (True, 6, 6)
    train(session)
    assert (session.waiting, session.model.event, session.model.number) == (0, 6, 1)
    right = np.mean([session.model.guess(row) == truth[row] for row in range(90)])
    assert right > 0.9


def test_a_new_model_uses_the_neighbours_that_were_found_at_the_start(opened, monkeypatch):
    session, truth = opened
    for row in range(6):
        session.label(act(session, [row]), truth[row])
    monkeypatch.setattr("dahgnn.classifier.estimator.find_surroundings", None)
    train(session)
    assert session.model is not None


def test_what_the_disk_refuses_changes_nothing(opened):
    session, _ = opened
    session.label(act(session, [0]), "apple")
    session.journal._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(JournalFullError):
        session.label(act(session, [1], key="again"), "pear")
    assert (session.labels.of(1), session.state.version, session.labels.classes) == (None, 1, ["apple"])
    session.journal._connection.execute("PRAGMA query_only = OFF")
    session.label(act(session, [1], key="again"), "pear")
    assert session.labels.of(1) == "pear"


def test_audit_rows_alone_tell_how_right_it_is(opened):
    """Rows that the queue suggests and all others do not count, however wrong they are."""
    session, truth = opened
    for row in range(12):
        session.label(act(session, [row], way="uncertain"), truth[row])
    train(session)
    for row in range(12, 40):
        guess = session.model.guess(row)
        wrong = next(word for word in truth if word != guess)
        if row < 20:
            session.label(act(session, [row], way="audit"), wrong if row == 12 else guess)
        else:
            session.label(act(session, [row], way="map"), wrong)
    progress = session.progress()
    assert (progress["audits"], progress["accuracy"]) == (8, 7 / 8)
    session.undo("w", "u", 13)  # the one that was wrong, after its guess was told
    session.label(act(session, [12], way="audit"), session.model.guess(12))
    assert (session.progress()["audits"], session.progress()["accuracy"]) == (8, 7 / 8)


def test_every_tenth_row_of_the_queue_is_an_audit_row_also_after_a_new_start(opened, tmp_path):
    session, truth = opened
    ways = []
    for _ in range(15):
        ((row, way),) = session.next_rows("w", [], 1)
        ways.append(way)
        session.label(act(session, [row], way=way), truth[row])
    assert [place for place, way in enumerate(ways) if way == "audit"] == [9]
    session.journal.close()
    again = open_project(tmp_path / "fruit.csv", options(), SilentObserver()).session
    later = []
    for _ in range(6):
        ((row, way),) = again.next_rows("w", [], 1)
        later.append(way)
        again.label(act(again, [row], way=way), truth[row])
    assert later[4] == "audit"
    again.journal.close()


def test_rows_of_a_silent_window_are_given_to_others(opened, monkeypatch):
    session, _ = opened
    first = session.next_rows("one", [], 5)
    assert not {row for row, _ in first} & {row for row, _ in session.next_rows("two", [], 5)}
    import time

    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1000)
    rows = [row for row, _ in session.next_rows("three", [], 5)]
    monkeypatch.undo()
    assert set(session._leases) == {"three"}
    assert len(rows) == 5


def test_a_project_goes_on_where_it_was(opened, tmp_path):
    session, _ = opened
    session.label(act(session, [3, 4]), "fig")
    session.label(act(session, [5]), "kiwi")
    session.skip(act(session, [6]))
    session.undo("w", "u", None)
    session.undo("w", "v", None)
    session.journal.close()
    again = open_project(tmp_path / "fruit.csv", options(), SilentObserver()).session
    assert [again.labels.of(row) for row in (3, 4, 5)] == ["fig", "fig", None]
    assert again.counts() == {"fig": 2, "kiwi": 0}  # a class keeps its place
    again.undo("w", "x", None)
    assert again.labels.n_labelled == 0
    with pytest.raises(NothingToUndoError):
        again.undo("w", "y", None)
    again.journal.close()


def test_a_kept_label_is_kept_as_it_is(opened):
    session, _ = opened
    session.label(act(session, [3]), "fig")
    event = session.keep(act(session, [3]))
    assert (event.kind, event.label) == ("keep", "fig")
    assert session.state.kept == {"row-3": "fig"}
    assert isinstance(session.journal._connection, sqlite3.Connection)


def test_every_tenth_row_is_an_audit_also_if_a_window_still_names_its_last_one(opened):
    session, truth = opened
    ways, last = [], []
    for turn in range(40):
        # What a window had just sent may be on the disk already when it asks for more, or not yet named.
        ((row, way),) = session.next_rows("w", last if turn % 2 else [], 1)
        session.label(act(session, [row], way=way), truth[row])
        ways.append(way)
        last = [row]
    assert [turn for turn, way in enumerate(ways) if way == "audit"] == [9, 19, 29, 39]
