from pathlib import Path

import numpy as np

from dahgnn.tables.columns import Column
from dahgnn.tables.encoding import encode_block
from dahgnn.tables.encoding_notes import EncodingNotes
from dahgnn.tables.messages import Problems
from dahgnn.tables.sources import Source, text_array

COLUMNS = [
    Column(name="size", kind="number", fill=2.0),
    Column(name="colour", kind="category", categories=("blue", "red")),
    Column(name="place", kind="vector", mean=(0.0, 1.0)),
    Column(name="day", kind="date", fill=0.0, parts=("days",)),
]
CELLS = {
    "size": np.array([1.0, np.nan, 3.0, np.nan, np.nan]),
    "colour": text_array(["red", None, "green", "blue", "grey"]),
    "place": np.array([[0.0, 1.0], [np.nan, 2.0], [1.0, 1.0], [np.nan, np.nan], [3.0, 4.0]]),
    "day": np.array(["2000-01-02", "NaT", "2000-01-03", "2000-01-04", "NaT"], "datetime64[s]"),
}


def say(blocks):
    notes = EncodingNotes()
    for rows in blocks:
        cells = {name: found[rows] for name, found in CELLS.items()}
        encode_block(Source(n_rows=len(rows), cells=cells), COLUMNS, Problems(), Path(), notes)
    return notes.sentences(COLUMNS)


def test_blocks_are_told_of_as_the_whole_is():
    whole = say([np.arange(5)])
    assert whole == say([np.array([0]), np.array([1, 2]), np.array([3, 4])])
    assert whole == [
        "1 column is text, with one feature for each value: 'colour' ('blue', 'red').",
        "1 column has missing text, which is 0 in all its features: 'colour' (1).",
        "1 column has missing values, which became the median: 'size' (3, with 2).",
        "2 values of 'colour', unknown at the fit, became 0 in all its features: 'green', 'grey'.",
        "What is missing of 2 vectors of 'place' became the mean.",
        "The column 'day' holds dates; its features are days.",
        "2 missing dates of 'day' became the median, 2000-01-01.",
    ]


def test_a_column_that_was_refused_is_not_told_of():
    notes, problems = EncodingNotes("in the other rows"), Problems()
    cells = {**CELLS, "size": text_array(["1", "x", "2", "3", "4"])}
    encode_block(Source(n_rows=5, cells=cells), COLUMNS, problems, Path(), notes)
    assert (
        "must hold numbers, such as 1234.5, as in the other rows. Got 'x' in row 2" in problems.sentences[0]
    )
    assert not any("size" in sentence for sentence in notes.sentences(COLUMNS))


def test_only_some_unknown_values_are_kept(monkeypatch):
    monkeypatch.setattr("dahgnn.tables.encoding_notes._MOST_UNKNOWN", 2)
    notes = EncodingNotes()
    notes.add_unknown("colour", ["a", "b", "c", "a"])
    assert notes.unknown["colour"] == 4
    assert list(notes.unknown_values["colour"]) == ["a", "b"]
