import re

import pytest

from dahgnn.report.class_shares import complete_shares, note_all_labelled, note_equal_counts, note_shares

LABELS = ["no", "yes", None, "no", None]


def test_the_last_class_gets_the_rest():
    assert complete_shares(None, LABELS) is None
    assert complete_shares({"yes": 0.25}, LABELS) == {"no": 0.75, "yes": 0.25}
    assert complete_shares({"yes": 1, "no": 7}, LABELS) == {"no": 7, "yes": 1}


def test_shares_are_said_in_percent():
    assert note_shares({"no": 7, "yes": 1}) == (
        "Among all rows the classes are taken to have these shares, as said: 'no' 87.5 %, 'yes' 12.5 %. "
        "Held-out labels need not."
    )


@pytest.mark.parametrize(
    ("shares", "labels", "message"),
    [
        ({"yess": 0.2}, LABELS, "--class-prior must name a class. Got 'yess'. Did you mean 'yes'?"),
        ({"x": 0.2}, LABELS, "must name a class. Got 'x'. Classes are no, yes."),
        ({"a": 0.2}, ["a", "b", "c"], "for each class but one. Got none for b, c."),
        ({"yes": 1.5}, LABELS, "must leave something of 1 for the class 'no'. Got 1.5 for the others."),
    ],
)
def test_other_shares_are_refused(shares, labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        complete_shares(shares, labels)


def test_labels_that_were_chosen_class_by_class_are_noted():
    assert note_equal_counts(["a b"] * 6 + ["c"] * 6 + [None]) == [
        "All classes have 6 labels each, as if chosen class by class. Labels and accuracy suffer where classes "
        "are not equally common among all rows. If you know how common they are, even roughly, say it for each, "
        "such as --class-prior 'a b=0.7'."
    ]
    rare = note_equal_counts(["a"] * 6 + ["b"] * 6 + ["c"] * 2 + [None])
    assert rare[0].startswith("2 of 3 classes have 6 labels each")


@pytest.mark.parametrize(
    "labels",
    [
        ["a"] * 6 + ["b"] * 6,
        ["a"] * 4 + ["b"] * 4 + [None],
        ["a"] * 7 + ["b"] * 6 + [None],
        ["a"] * 6 + ["b"] * 6 + [*"cde"] + [None],
        [None],
    ],
)
def test_other_labels_are_not(labels):
    assert note_equal_counts(labels) == []


def test_a_table_without_an_unlabelled_row_is_noted():
    assert note_all_labelled(["a", "b", None]) == []
    assert note_all_labelled(["a", "b"]) == [
        "No row is unlabelled, so nothing is left to label in this file. An empty cell means unlabelled, and "
        "so does what --missing names."
    ]
