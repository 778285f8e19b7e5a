import json

import numpy as np
import pandas as pd
import pytest

from dahgnn.tables.json_files import read_json, read_json_lines
from dahgnn.tables.sources import Reading, UnsupportedCells, Wanted
from dahgnn.tables.table import read_table

ROWS = [{"a": 1, "b": "x", "y": "p"}, {"b": "z", "a": 2.5}, {"a": None, "b": None, "y": "q"}]


@pytest.fixture
def lines(write):
    """Write values as JSON, one a line."""

    def lines(*values, name="data.jsonl"):
        return write("\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n", name)

    return lines


@pytest.mark.parametrize("name", ["data.jsonl", "data.ndjson"])
def test_an_object_a_line_is_a_row(lines, name):
    table = read_table(lines(*ROWS, name=name), label="y")
    assert table.names == ("a", "b=x", "b=z")
    assert table.features.tolist() == [[1, 1, 0], [2.5, 0, 1], [1.75, 0, 0]]
    assert table.labels == ("p", None, "q")


@pytest.mark.parametrize("orient", ["records", "columns", "list"])
def test_all_styles_of_json_read_alike(write, orient):
    frame = pd.DataFrame({"a": [1, 2.5, None], "b": ["x", "z", None], "y": ["p", None, "q"]}, index=[7, 9, 8])
    text = json.dumps(
        json.loads(frame.to_json(orient=orient))
        if orient != "list"
        else {name: [None if pd.isna(cell) else cell for cell in frame[name]] for name in frame}
    )
    table = read_table(write(text, "data.json"), label="y")
    assert table.features.tolist() == [[1, 1, 0], [2.5, 0, 1], [1.75, 0, 0]]
    assert table.labels == ("p", None, "q")


def test_blank_lines_are_skipped_and_lines_counted(write):
    path = write('\n{"a": 1}\n\r\n{"a": 2}\n\n{"a": "x"}\n{"a": 3}\n', "data.jsonl")
    with pytest.raises(ValueError, match="'a' must hold numbers, .* Got 'x' in line 6 of the file"):
        read_table(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_are_those_of_text(write, encoding):
    text = '[{"ä": 1}, {"ä": 2}]'
    assert read_table(write(text.encode(encoding), "data.json")).names == ("ä",)
    latin = write(text.encode("latin-1"), "data.json")
    assert read_table(latin, reading=Reading(encoding="latin-1")).names == ("ä",)
    with pytest.raises(ValueError, match="must be text in UTF-8, .* --encoding"):
        read_table(latin)


def test_lists_of_numbers_are_vectors(lines):
    path = lines({"v": [1, 2.5], "n": 1}, {"n": 2}, {"v": [None, 4], "n": 3})
    vectors = read_json_lines(path, Wanted()).cells["v"]
    assert np.array_equal(vectors, [[1, 2.5], [np.nan, np.nan], [np.nan, 4]], equal_nan=True)


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ([{"k": 1, "l": 2}, None], "objects with the keys 'k', 'l'"),
        ([[1], [1, 2]], "lists of 1 to 2 numbers"),
        ([["a"], ["b"]], "lists of other things than numbers"),
        ([[[1]], [[2]]], "lists of other things than numbers"),
        ([[], []], "lists of 0 numbers"),
        ([[1], 1], "lists and numbers in one column"),
        ([{"k": 1}, "x"], "objects and text in one column"),
    ],
)
def test_nested_values_are_refused_with_their_key(lines, values, got):
    path = lines(*({"x": value, "n": row} for row, value in enumerate(values)))
    assert read_json_lines(path, Wanted()).cells["x"] == UnsupportedCells(got)
    with pytest.raises(ValueError, match=f"The column 'x' must hold numbers, flags or text. Got {got}"):
        read_table(path)
    assert read_table(path, drop=["x"]).names == ("n",)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"a": 1}\n{"a": \n', r"must be JSON. Got an error in line 2, column 6: Expecting value"),
        ('{"a": 1}\n[1]\n', "Every row of the file .* must be a JSON object. Got an array in line 2"),
        ("1\n", "must be a JSON object. Got a number in line 1"),
        ('{"a": 1, "b": 2, "a": 3}\n', "must have different keys. Got 'a' more than once"),
        ('{"a": {"b": 1, "b": 2}}\n', "must have different keys. Got 'b' more than once"),
        ("\n \n", "at least one row of data"),
        ("{}\n{}\n", "must have a column that can be a feature"),
        ('{"a": ' + "[" * 100_000 + "}\n", "Got too many lists or objects within each other"),
    ],
)
def test_lines_that_are_no_rows_are_refused(write, text, match):
    with pytest.raises(ValueError, match=match):
        read_table(write(text, "data.jsonl"))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            '{"a": 1}\n{"a": 2}\n',
            "line 2, column 1: Extra data. If it has an object a line, say --format jsonl",
        ),
        ('[{"a": 1},\n {"a": 2}', "line 2, column 10: Expecting ',' delimiter"),
        ('[{"a": 1}, null]', "must be a JSON object. Got null in place 2 of the array"),
        ("[[1, 2]]", "must be a JSON object. Got an array in place 1"),
        ("[]", "at least one row of data"),
        ("{}", "must hold an array of objects, or an object of columns. Got an object of other things"),
        ('{"a": 1}', "must hold an array of objects, or an object of columns. Got an object of other"),
        ('"a"', "must hold an array of objects, or an object of columns. Got text"),
        ("true", "Got a flag"),
        ('{"a": [1, 2], "b": [1], "c": [3, 4]}', "must have one length. Got 2 cells in most, and 1 in 'b'"),
        ('{"a": [], "b": []}', "at least one row of data"),
        ("[" * 100_000, "Got too many lists or objects within each other"),
    ],
)
def test_json_of_another_shape_is_refused(write, text, match):
    with pytest.raises(ValueError, match=match):
        read_table(write(text, "data.json"))


def test_numbers_out_of_range_are_refused(write):
    for number in ("1e999", "9" * 400, "-" + "9" * 9000, "Infinity"):
        with pytest.raises(ValueError, match="The column 'a' must hold finite numbers"):
            read_table(write(f'[{{"a": {number}}}, {{"a": 1}}]', "data.json"))
    assert read_table(write('[{"a": NaN}, {"a": 1}, {"a": 3}]', "data.json")).features[0, 0] == 2


def test_labels_and_ids_are_text(write):
    path = write('[{"i": 12345678901234567890, "y": 1, "x": 1}, {"i": "a", "y": 2.5, "x": 3}]', "data.json")
    table = read_table(path, id="i", label="y")
    assert table.ids == ("12345678901234567890", "a")
    assert table.labels == ("1.0", "2.5")
    with pytest.raises(ValueError, match="The column 'y' must hold text or numbers. Got lists"):
        read_table(write('[{"y": [1], "x": 1}, {"y": [2], "x": 3}]', "data.json"), label="y")


def test_too_many_columns_are_refused(lines, write, monkeypatch):
    for module in ("values", "sources"):
        monkeypatch.setattr(f"dahgnn.tables.{module}.MOST_COLUMNS", 5)
    path = lines(*({f"c{row}": 1} for row in range(7)))
    with pytest.raises(ValueError, match="must have at most 5 columns. Got 6"):
        read_table(path)
    with pytest.raises(ValueError, match="must have at most 5 columns. Got 7"):
        read_json(write(json.dumps({f"c{n}": [1] for n in range(7)}), "data.json"), Wanted())
    monkeypatch.undo()
    monkeypatch.setattr("dahgnn.tables.memory.available_memory", lambda: 500)
    with pytest.raises(ValueError, match="The content of .* must fit into memory"):
        read_table(path)
