from pathlib import Path

import numpy as np
import pytest

from dahgnn.tables.columns import Column
from dahgnn.tables.encoding import encode_block, encode_columns
from dahgnn.tables.encoding_notes import EncodingNotes
from dahgnn.tables.messages import Problems
from dahgnn.tables.sources import Source, text_array

COLUMNS = [
    Column(name="left out", kind="unused"),
    Column(name="size", kind="number", fill=2.0),
    Column(name="colour", kind="category", categories=("blue", "red")),
    Column(name="flag", kind="flag", fill=1.0),
    Column(name="place", kind="vector", mean=(5.0, 6.0)),
]
CELLS = {
    "size": np.array([1.0, np.nan, 3.0]),
    "colour": text_array(["red", None, "green"]),
    "flag": text_array(["True", "False", None]),
    "place": np.array([[0.0, np.nan], [np.nan, np.nan], [1.0, 2.0]]),
}
FEATURES = [[1, 0, 1, 1, 0, 6], [2, 0, 0, 0, 5, 6], [3, 0, 0, 1, 1, 2]]


def test_each_kind_of_column_has_its_features():
    features, names, notes = encode_columns(Source(n_rows=3, cells=CELLS), COLUMNS, Problems(), Path())
    assert features.tolist() == FEATURES
    assert names == ("size", "colour=blue", "colour=red", "flag", "place[0]", "place[1]")
    assert len(notes) == 5


@pytest.mark.parametrize("split", [1, 2])
def test_blocks_together_are_the_whole(split):
    notes = EncodingNotes()
    blocks = [
        Source(n_rows=len(rows), cells={name: found[rows] for name, found in CELLS.items()})
        for rows in np.split(np.arange(3), [split])
    ]
    found = [encode_block(block, COLUMNS, Problems(), Path(), notes) for block in blocks]
    assert np.concatenate(found).tolist() == FEATURES


def test_what_is_refused_is_gathered():
    problems = Problems()
    cells = {**CELLS, "size": np.array([1, np.inf, 2]), "place": np.ones((3, 3))}
    encode_columns(Source(n_rows=3, cells=cells), COLUMNS, problems, Path())
    assert len(problems.sentences) == 2
    assert "vectors of 2 numbers, as at the fit. Got vectors of 3" in problems.sentences[1]
