import math

import numpy as np
import pytest

from dahgnn.tables.cells import as_texts, classify, first, no_number
from dahgnn.tables.missing import Missing
from dahgnn.tables.sources import Source, UnsupportedCells, text_array


def source_of(cells, lines=None):
    return Source(n_rows=3, cells={"x": cells}, lines=lines)


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (np.array([1, 2, 3]), "number", [1, 2, 3]),
        (text_array(["1", " 2.5", "-3e2"]), "number", [1, 2.5, -300]),
        (np.array([True, False, True]), "flag", [1, 0, 1]),
        (text_array(["true", "FALSE", "True"]), "flag", [1, 0, 1]),
        (text_array(["a", "1", "NA"]), "text", ["a", "1", None]),
    ],
)
def test_the_content_says_what_cells_are(cells, kind, values):
    found, got = classify(source_of(cells), "x", Missing())
    assert (found, got.tolist()) == (kind, values)


def test_missing_words_turn_text_into_numbers():
    kind, values = classify(source_of(text_array(["1", "n.d.", "3"])), "x", Missing(["n.d."]))
    assert kind == "number"
    assert values[[0, 2]].tolist() == [1, 3]
    assert math.isnan(values[1])


def test_errors_say_where():
    cells = np.array([1, np.inf, 3])
    with pytest.raises(ValueError, match=r"'x' .* Got inf in row 2 \(counted from 1\)"):
        classify(source_of(cells), "x", Missing())
    with pytest.raises(ValueError, match="'x' .* Got inf in line 9 of the file"):
        classify(source_of(cells, np.array([2, 9, 10])), "x", Missing())
    error = no_number(source_of(cells, np.array([2, 9, 10])), "x", ["1", "x", "3"])
    assert "Got 'x' in line 9 of the file." in str(error)
    with pytest.raises(ValueError, match="Got values of type struct. Drop it"):
        classify(source_of(UnsupportedCells("values of type struct")), "x", Missing())


def test_cells_as_texts():
    assert as_texts(np.array([1.0, np.nan, 3.0]), "x") == ["1", None, "3"]
    assert as_texts(np.array([1.5, np.nan, 3.0]), "x") == ["1.5", None, "3.0"]
    assert as_texts(text_array(["a", None]), "x") == ["a", None]
    days = np.array(["2024-01-31", "NaT"], dtype="datetime64[s]")
    assert as_texts(days, "x") == ["2024-01-31", None]
    times = np.array(["2024-01-31", "2024-01-31T10:20:30"], dtype="datetime64[s]")
    assert as_texts(times, "x") == ["2024-01-31T00:00:00", "2024-01-31T10:20:30"]
    with pytest.raises(ValueError, match="'x' must hold text or numbers. Got vectors"):
        as_texts(np.ones((2, 2)), "x")


def test_the_first_text_that_is_sought():
    assert first([None, "a", "b1", "b2"], lambda text: text.startswith("b")) == (2, "b1")
