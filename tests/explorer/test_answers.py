"""What the page is told: the large answers; the others are tested over HTTP in test_server.py."""

import numpy as np
import pytest
from label_server import options, write_blobs

from dahgnn.explorer import answers
from dahgnn.explorer.project import open_project
from dahgnn.explorer.session import Action
from dahgnn.progress import SilentObserver


@pytest.fixture
def session(tmp_path):
    write_blobs(tmp_path / "fruit.csv", n=90, given=(0, 1))
    project = open_project(tmp_path / "fruit.csv", options(), SilentObserver())
    yield project.session
    project.session.journal.close()


def label(session, rows, word):
    known = {"window": "w", "key": f"k{session.state.version}", "seen": session.state.version}
    return session.label(Action(rows=rows, way="loop", **known), word)


def test_the_last_ten_are_told_newest_first_with_what_was_before(session):
    for row in range(12):
        label(session, [row], "fig")
    label(session, [20, 21, 22], "kiwi")
    recent = answers.recent(session)
    assert [each["row"] for each in recent] == [20, *range(11, 2, -1)]
    assert (recent[0]["count"], recent[0]["label"], recent[0]["before"]) == (3, "kiwi", None)
    label(session, [0], "kiwi")
    assert answers.recent(session)[0]["before"] == "fig"


def test_labels_of_many_rows_are_not_told_one_by_one(session, monkeypatch):
    assert answers.told_of_event(session, label(session, [4, 5], "fig"))["rows"] == [4, 5]
    monkeypatch.setattr(answers, "MOST_TOLD", 1)
    told = answers.told_of_event(session, label(session, [6, 7], "fig"))
    assert (told["rows"], told["labels"], told["labelled"]) == (None, None, 6)


def test_a_sample_is_spread_over_a_loop(session):
    rows = np.arange(90)
    sheet = answers.sheet(session, rows)
    sampled = [each["row"] for each in sheet["sample"]]
    assert len(sampled) == answers.MOST_SAMPLED
    assert (sampled[0], sampled[-1]) == (0, 89)
    assert len(set(sampled)) == len(sampled)
    assert dict(sheet["counts"]) == {"apple": 1, "pear": 1}  # without a model the others are of no class


def test_without_a_model_there_is_nothing_to_explain_or_to_doubt(session):
    assert answers.why(session, 3) == {"model": None}
    assert answers.doubtful(session)["rows"] == answers.changed(session)["rows"] == []
    card = answers.card(session, 3, "diverse")
    assert (card["likely"], card["model"]) == (None, None)


def test_an_export_before_the_first_model_has_what_is_known(session):
    label(session, [5], "fig")
    label(session, [0], None)
    columns = answers.exported(session)
    assert columns["label"][:6] == [None, "pear", None, None, None, "fig"]
    assert columns["by"][:6] == [None, "file", None, None, None, "person"]
    assert columns["time"][1] is None
    assert columns["time"][5].startswith("20")
