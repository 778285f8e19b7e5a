"""Labels of all rows, as the file and the journal have them."""

import numpy as np
import pytest
from label_server import write_blobs

from dahgnn.explorer.events import NewEvent
from dahgnn.explorer.journal import Journal
from dahgnn.explorer.labels import FILE, NOBODY, PERSON, Labels
from dahgnn.explorer.rows import read_rows_to_label


@pytest.fixture
def made(tmp_path):
    write_blobs(tmp_path / "fruit.csv", n=9, given=(0, 4))
    rows = read_rows_to_label(tmp_path / "fruit.csv", label="fruit", id="name")
    with Journal.open(tmp_path / "j.sqlite", {}) as journal:
        yield rows, journal


def label(journal, key, rows, word, **more):
    return journal.write(NewEvent(key=key, window="w", kind="label", rows=rows, label=word, **more))


def test_labels_follow_the_journal_and_a_new_start_gives_the_same(made):
    rows, journal = made
    labels = Labels(rows, journal.state())
    assert labels.classes == ["apple", "pear"]
    for event in (
        label(journal, "1", ["row-1", "row-0"], "fig"),
        label(journal, "2", ["row-1"], "apple"),
        label(journal, "3", ["row-4"], None),
        label(journal, "4", ["row-8", "gone"], "kiwi"),
        journal.undo(key="5", window="w", event=1),
    ):
        if event.kind == "label" and event.label:
            labels.place(event.label)
        labels.update(event.rows)
    again = Labels(rows, journal.state())
    for each in (labels, again):
        assert [each.of(row) for row in (0, 1, 4, 8)] == ["apple", "apple", None, "kiwi"]
        assert each.who[[0, 1, 4, 8]].tolist() == [FILE, PERSON, NOBODY, PERSON]
        assert each.n_labelled == 3
        texts = each.texts()
        assert texts[8] == "kiwi"
        assert sum(text is None for text in texts) == 6
    assert labels.classes == again.classes == ["apple", "pear", "fig", "kiwi"]
    np.testing.assert_array_equal(
        np.array(labels.classes)[labels.places], np.array(again.classes)[again.places]
    )


def test_what_a_row_was_before_an_event(made):
    rows, journal = made
    labels = Labels(rows, journal.state())
    for key, word in (("1", "fig"), ("2", "kiwi")):
        labels.update(label(journal, key, ["row-0"], word).rows)
    assert [labels.before(0, number) for number in (1, 2, 3)] == ["apple", "fig", "kiwi"]
    assert labels.before(1, 1) is None


def test_a_class_keeps_its_place(made):
    rows, journal = made
    labels = Labels(rows, journal.state())
    places = [labels.place(name) for name in ("fig", "apple", "fig", "kiwi")]
    assert places == [2, 0, 2, 3]


def test_a_class_is_known_by_what_a_page_shows_of_it(made):
    rows, journal = made
    labels = Labels(rows, journal.state())
    labels.place("fig\u202e")
    assert labels.named("fig[U+202E]") == "fig\u202e"
    assert labels.named("apple") == "apple"
    assert labels.named("kiwi") == "kiwi"
