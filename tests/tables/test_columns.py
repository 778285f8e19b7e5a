import dataclasses
import json
import math
import re

import numpy as np
import pytest

from dahgnn.tables.columns import Column
from dahgnn.tables.sources import MISSING_WORDS
from dahgnn.tables.table import read_table

HOSTILE = "<script>alert('1')</script>"


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def one_column(cells):
    """A table whose column 'x' holds the cells, beside a column of numbers."""
    return "x,n\n" + "".join(f"{cell},{place**2}\n" for place, cell in enumerate(cells))


def said(table):
    return " ".join(table.notes)


def test_each_kind_of_column_is_encoded(write):
    path = write("size,sweet,colour,none,same\n1,True,red,,7\n2.5,false,blue,,7\n-3e2,TRUE,red,,7\n")
    table = read_table(path)
    assert table.names == ("size", "sweet", "colour=blue", "colour=red")
    assert table.features.dtype == np.float64
    assert table.features.tolist() == [[1, 1, 0, 1], [2.5, 0, 1, 0], [-300, 1, 0, 1]]
    assert table.columns == (
        Column(name="size", kind="number", fill=1.0),
        Column(name="sweet", kind="flag", fill=1.0),
        Column(name="colour", kind="category", categories=("blue", "red")),
        Column(name="none", kind="unused"),
        Column(name="same", kind="unused"),
    )
    assert table.labels is None
    assert table.ids == ("0", "1", "2")
    assert "data.csv has 3 rows, and 3 columns become 4 features." in table.notes
    assert "2 columns ('none', 'same') were left out" in said(table)
    assert "1 column is text, with one feature for each value: 'colour' ('blue', 'red')." in said(table)


@pytest.mark.parametrize("word", MISSING_WORDS)
def test_missing_cells_get_the_median_or_zeros(write, word):
    path = write(f"a,flag,c\n1,True,u\n{word},False,{word}\n2,{word},v\n10,True,u\n")
    table = read_table(path)
    assert kinds(table) == {"a": "number", "flag": "flag", "c": "category"}
    assert table.features.tolist() == [[1, 1, 1, 0], [2, 0, 0, 0], [2, 1, 0, 1], [10, 1, 1, 0]]
    assert (
        "2 columns have missing values, which became the median: 'a' (1, with 2), 'flag' (1, with 1)."
        in said(table)
    )
    assert "1 column has missing text, which is 0 in all its features: 'c' (1)." in said(table)


def test_columns_of_one_kind_are_told_of_in_one_sentence(write):
    table = read_table(write("a,b,n\nu,x,1\nv,,4\n,y,9\n"))
    assert table.notes[1:] == (
        "2 columns are text, with one feature for each value: 'a' ('u', 'v'), 'b' ('x', 'y').",
        "2 columns have missing text, which is 0 in all its features: 'a' (1), 'b' (1).",
    )


def test_a_column_that_is_constant_but_for_gaps_is_left_out_unless_the_gaps_tell_something(write):
    table = read_table(write("a,b,c,n\n1,x,x,1\n,,x,2\n1,x,x,3\n"))
    assert kinds(table) == {"a": "unused", "b": "category", "c": "unused", "n": "number"}
    assert table.names == ("b=x", "n")


def test_digits_that_float32_does_not_have_are_kept(write):
    table = read_table(write("a,n\n1700000016,1\n1700000017,2\n"))
    assert kinds(table) == {"a": "number", "n": "number"}
    assert np.diff(table.features[:, 0]) == [1]


@pytest.mark.parametrize("word", ["inf", "-inf", "Infinity", "1e400", "3.5e38", "9" * 60])
def test_infinities_and_numbers_beyond_float32_are_refused(write, word):
    match = r"column 'x' must hold finite numbers of at most 3.4e\+38 in size. Got .* in line 4 of the file"
    with pytest.raises(ValueError, match=match):
        read_table(write(one_column([1, 2, word, 4])))


def test_integers_beyond_64_bits_are_numbers(write):
    table = read_table(write(one_column([2**70, -1, 18446744073709551615, ""])))
    assert table.features[:, 0].tolist() == [2**70, -1, 2**64, 2**64]


def test_twenty_values_are_categories_and_more_are_not(write):
    cells = [f"v{place % 20:02d}" for place in range(60)]
    assert read_table(write(one_column(cells))).features.shape == (60, 21)
    table = read_table(write(one_column([f"v{place:02d}" for place in range(60)])))
    assert kinds(table) == {"x": "unused", "n": "number"}
    assert (
        "1 column ('x') was left out: text of many values, such as names of rows. To use a column as free text, "
        "say --text with its name, and to name rows by it, --id." in table.notes
    )


@pytest.mark.parametrize(
    "cells",
    [
        ["3/4/2024", "5/6/2024", "unknown"],
        ["1/31/24", "2/1/24"],
    ],
)
def test_dates_that_may_mean_several_days_are_refused(write, cells):
    with pytest.raises(
        ValueError,
        match="'x' must hold dates in which day, month and year are told apart, .* in line 2 of the file, and no",
    ):
        read_table(write(one_column(cells)))


@pytest.mark.parametrize(
    ("cells", "order", "days"),
    [
        (["3/1/2000", "31/1/2000", "1/1/2000"], "day", [2, 30, 0]),
        (["1/3/2000", "1/31/2000", "1/1/2000"], "month", [2, 30, 0]),
        (["3.1.2000", "5.1.2000", "1.1.2000"], "day", [2, 4, 0]),
        (["2000/1/3", "2000/01/05", "2000-01-01"], "year", [2, 4, 0]),
    ],
)
def test_one_cell_tells_of_all_dates_what_comes_first(write, cells, order, days):
    table = read_table(write(one_column(cells)))
    assert table.features[:, 0].tolist() == days
    assert (table.columns[0].kind, table.columns[0].order) == ("date", order)
    assert any(f"dates, the {order} first;" in note for note in table.notes) == (order != "year")


def test_later_dates_have_the_order_of_the_fit(write):
    columns = read_table(write(one_column(["3/1/2000", "31/1/2000", "1/1/2000"]))).columns
    later = read_table(write(one_column(["3/1/2000", "4/1/2000", "5/1/2000"])), columns=columns)
    assert later.features[:, 0].tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("cells", "row", "value"),
    [
        (["12", "13", "abc"], 2, "abc"),
        (["abc", "12"], 0, "abc"),
        (["12", "", "?"], 2, "?"),
        (["1", "True"], 1, "True"),
        (['"1,5"', '"2,5"'], 0, "1,5"),
        (["7", '"1,000"', '"2,000,000.5"'], 1, "1,000"),
        (["1.000.000", "2.000.000"], 0, "1.000.000"),
        (["1 000", "x"], 0, "1 000"),
        (["1", "0x10"], 1, "0x10"),
        (["1", "2", " "], 2, " "),
        (["1", "2", "x" * 99], 2, "x" * 60 + "…"),
    ],
)
def test_a_column_of_numbers_with_text_in_it_is_refused(write, cells, row, value):
    expected = f"'x' must hold numbers, such as 1234.5. Got '{value}' in line {row + 2} of the file. Correct"
    with pytest.raises(ValueError, match=re.escape(expected)):
        read_table(write(one_column(cells)))


def test_text_with_few_numbers_stays_text(write):
    table = read_table(write(one_column(["S", "M", "L", "38", "10-20"])))
    assert table.columns[0].categories == ("10-20", "38", "L", "M", "S")


def test_foreign_text_is_kept_as_it_is(write):
    table = read_table(write(f'"{HOSTILE}",b,y\n{HOSTILE},1,{HOSTILE}\n é ,2,\n'), label="y")
    assert table.names == (f"{HOSTILE}= é ", f"{HOSTILE}={HOSTILE}", "b")
    assert table.labels == (HOSTILE, None)


def test_columns_are_dropped(write):
    path = write("a,when,n\n1,2024-01-01,3\n2,2024-01-02,5\n")
    table = read_table(path, drop=["when", "n"])
    assert table.names == ("a",)
    assert kinds(table) == {"a": "number", "when": "unused", "n": "unused"}
    assert "2 columns ('when', 'n') were dropped, as asked." in table.notes
    with pytest.raises(ValueError, match="must have a column 'wen' for --drop. .* Did you mean 'when'?"):
        read_table(path, drop=["wen"])


def test_a_table_without_features_is_refused(write):
    with pytest.raises(
        ValueError, match="must have a column that can be a feature. Got 1 that are dropped, 1 "
    ):
        read_table(write("a,b,y\n1,2,p\n1,3,q\n"), label="y", drop=["b"])


def test_contradicting_arguments_are_refused(write):
    path = write("a,b\n1,2\n3,4\n")
    columns = read_table(path).columns
    for arguments, match in (
        ({"label": "a", "id": "a"}, "'id' .* another column than the label's"),
        ({"label": "a", "drop": ["a"]}, "'drop' .* without the column of the labels"),
        ({"id": "a", "drop": ["b", "a"]}, "'drop' .* without the column of the ids"),
        ({"columns": columns, "drop": ["a"]}, "'drop' .* empty where columns are given"),
        ({"columns": columns, "missing": ["?"]}, "'missing' .* empty where columns are given"),
        ({"label": "a", "keep": ["a"]}, "'keep' .* without the column of the labels"),
        ({"drop": ["a"], "keep": ["b", "a"]}, "'keep' .* of other columns than 'drop'. Got 'a'"),
        ({"columns": []}, "'columns' .* such that one gives a feature. Got 0 without"),
    ):
        with pytest.raises(ValueError, match=match):
            read_table(path, **arguments)
    with pytest.raises(TypeError, match="'drop' .* a sequence of column names"):
        read_table(path, drop="ab")
    with pytest.raises(TypeError, match="'missing' .* a sequence of words. Got 'NA'. Use .'NA'.."):
        read_table(path, missing="NA")


# A new file for a fitted model

FITTED = "size,sweet,colour,same,fruit\n1,True,red,5,a\n2,False,blue,5,b\n9,True,red,5,\n"


@pytest.fixture
def columns(write):
    return read_table(write(FITTED, "fitted.csv"), label="fruit").columns


def test_columns_survive_json(columns):
    text = json.dumps([dataclasses.asdict(column) for column in columns])
    assert tuple(Column(**column) for column in json.loads(text)) == columns


def test_the_same_file_reads_the_same(write, columns):
    path = write(FITTED)
    first, again = read_table(path, label="fruit"), read_table(path, label="fruit", columns=columns)
    assert np.array_equal(first.features, again.features)
    assert (first.names, first.columns, first.labels) == (again.names, again.columns, again.labels)


def test_a_new_file_has_its_columns_in_any_order(write, columns):
    table = read_table(
        write("when,colour,size,sweet\n2024-01-01,green,,\n2024-01-02,NA,7,True\n"), columns=columns
    )
    assert table.names == ("size", "sweet", "colour=blue", "colour=red")
    assert table.features.tolist() == [[2, 1, 0, 0], [7, 1, 0, 0]]
    assert table.columns == columns
    assert "1 column ('when') was ignored: the model was fitted without." in table.notes
    assert "1 value of 'colour', unknown at the fit, became 0 in all its features: 'green'." in table.notes
    assert "'size' (1, with 2), 'sweet' (1, with 1)" in said(table)


def test_constant_columns_may_be_missing_later_and_others_may_not(write, columns):
    assert read_table(write("size,sweet,colour\n1,True,red\n"), columns=columns).features.tolist() == [
        [1, 1, 0, 1]
    ]
    with pytest.raises(
        ValueError, match="a column 'colour' which the model was fitted with. .* Did you mean 'color'?"
    ):
        read_table(write("size,sweet,color\n1,True,red\n"), columns=columns)


def test_one_row_and_missing_columns_of_numbers_are_enough_later(write, columns):
    table = read_table(write("size,sweet,colour\n,,\n"), columns=columns)
    assert table.features.tolist() == [[2, 1, 0, 0]]


def test_categories_that_look_like_numbers_stay_text(write, columns):
    table = read_table(write("size,sweet,colour\n1,1,12\n2,0,NA\n"), columns=columns)
    assert table.features.tolist() == [[1, 1, 0, 0], [2, 0, 0, 0]]
    assert "unknown at the fit, became 0 in all its features: '12'" in said(table)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("abc,True,red", "'size' must hold numbers, such as 1234.5, as at the fit. Got 'abc' in line 3 "),
        ('"1,5",True,red', "'size' must hold numbers, such as 1234.5, as at the fit. Got '1,5' in line 3 "),
        ("1,yes,red", "'sweet' must hold True and False, or 1 and 0, as at the fit. Got 'yes' in line 3 "),
        ("inf,True,red", "'size' must hold finite numbers"),
    ],
)
def test_cells_unlike_those_of_the_fit_are_refused(write, columns, row, match):
    with pytest.raises(ValueError, match=match):
        read_table(write(f"size,sweet,colour\n1,True,red\n{row}\n"), columns=columns)


def test_columns_unlike_those_of_the_fit_are_refused(write, columns):
    with pytest.raises(ValueError, match="'size' must hold numbers, .* Got True in line 3 "):
        read_table(write("size,sweet,colour\n,True,red\nTrue,True,red\n"), columns=columns)
    with pytest.raises(ValueError, match="'sweet' must hold True and False, .* Got 2.0 in line 3 "):
        read_table(write("size,sweet,colour\n1,0,red\n1,2,red\n"), columns=columns)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "numbre"},
        {"kind": "number"},
        {"kind": "flag", "fill": math.nan},
        {"kind": "number", "fill": 1e39},
        {"kind": "category", "categories": [1]},
        {"kind": "unused", "name": 3},
        {"kind": "date", "fill": 3.0, "parts": ["hour"]},
        {"kind": "date", "fill": 3.0, "parts": ["days"], "order": "week"},
        {"kind": "vector", "mean": [1.0, math.inf]},
        {"kind": "text"},
    ],
)
def test_a_column_that_cannot_be_is_refused(settings):
    with pytest.raises((TypeError, ValueError), match="parameter of Column must be"):
        Column(**{"name": "a"} | settings)


def test_columns_of_a_table_are_not_looked_up_by_place(pack, columns):
    with pytest.raises(ValueError, match="a column 'size' which the model was fitted with"):
        read_table(pack(X=np.ones((2, 4))), columns=columns)


def test_words_that_meant_missing_at_the_fit_do_so_later(write):
    path = write("a,c\n1,u\n-999,n.d.\n n.d. ,v\n4,u\n")
    table = read_table(path, missing=["n.d.", "-999"])
    assert kinds(table) == {"a": "number", "c": "category"}
    assert table.features.tolist() == [[1, 1, 0], [2.5, 0, 0], [2.5, 0, 1], [4, 1, 0]]
    columns = tuple(Column(**json.loads(json.dumps(dataclasses.asdict(column)))) for column in table.columns)
    new = read_table(write("a,c\n-999.0,n.d.\n7,v\n"), columns=columns)
    assert new.features.tolist() == [[2.5, 0, 0], [7, 0, 1]]
    assert "unknown at the fit" not in said(new)


def test_all_that_a_new_file_lacks_is_said_at_once(write, columns):
    with pytest.raises(
        ValueError, match="has 2 problems.\n- .* a column 'sweet' .*\n- .* a column 'colour' "
    ):
        read_table(write("size\n1\n"), columns=columns)
    with pytest.raises(
        ValueError, match="has 2 problems.\n- .*'size' must hold numbers.*\n- .*'sweet' must "
    ):
        read_table(write("size,sweet,colour\nx,y,red\n"), columns=columns)


# Dates


def test_dates_become_days_and_places_in_the_year(write, columns):
    path = write("when,n\n2000-01-01,1\n,2\n2001-07-02,3\n2000-01-03,5\n")
    table = read_table(path)
    assert kinds(table) == {"when": "date", "n": "number"}
    assert table.names == ("when (days)", "when (sin of year)", "when (cos of year)", "n")
    assert table.features[:, 0].tolist() == [0, 2, 548, 2]
    angle = 2 * np.pi * np.array([0, 2 / 366, 182 / 365, 2 / 366])
    assert np.allclose(table.features[:, 1:3], np.column_stack([np.sin(angle), np.cos(angle)]))
    assert "1 missing date of 'when' became the median, 2000-01-03." in table.notes
    new = read_table(write("when,n\n2000-01-11,1\nNA,1\n"), columns=table.columns)
    assert new.features[:, 0].tolist() == [10, 2]
    assert read_table(write("when,n\n,1\n,2\n"), columns=table.columns).features[:, 0].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("cell", "got"),
    [("unknown", "'unknown'"), ("2024-02-30", "'2024-02-30'"), ("0000-01-01", "'0000-01-01'")],
)
def test_a_cell_that_is_no_date_is_refused_at_the_fit_and_later(write, cell, got):
    with pytest.raises(
        ValueError, match=f"'x' must hold dates, such as 2024-01-31. Got {got} in line 4 of the"
    ):
        read_table(write(one_column(["2024-01-31", "2024-02-01", cell])))
    columns = read_table(write(one_column(["2024-01-31", "2024-02-01"]))).columns
    with pytest.raises(
        ValueError, match=f"'x' must hold dates, such as 2024-01-31. Got {got} in line 2 of the"
    ):
        read_table(write(one_column([cell])), columns=columns)
    with pytest.raises(ValueError, match="'x' must hold dates, as at the fit. Got 7.0 in line 2 of the file"):
        read_table(write(one_column(["7"])), columns=columns)


def test_dates_of_parquet_and_text_are_the_same(store, write):
    import pyarrow as pa

    seconds = [0, 86_400 * 40, None, 86_400 * 800 + 3_600]
    texts = ["1970-01-01", "1970-02-10T00:00", "", "1972-03-11 02:00:00+01:00"]
    one = read_table(store({"x": pa.array(seconds, pa.timestamp("s")), "n": [0, 1, 4, 9]}))
    other = read_table(write(one_column(texts)))
    assert one.names[:7] == tuple(
        f"x ({part})"
        for part in (
            "days",
            "sin of year",
            "cos of year",
            "sin of week",
            "cos of week",
            "sin of day",
            "cos of day",
        )
    )
    assert one.columns == other.columns
    assert np.array_equal(one.features, other.features)


def test_dates_that_are_all_the_same_or_missing_are_left_out(store):
    import pyarrow as pa

    dates = {"same": pa.array([5, 5, None], pa.date32()), "none": pa.array([None] * 3, pa.date32())}
    table = read_table(store({**dates, "n": [1, 2, 5]}))
    assert kinds(table) == {"same": "unused", "none": "unused", "n": "number"}


# Vectors


def test_vectors_become_one_feature_a_place(store):
    import pyarrow as pa

    cells = pa.array([[1.0, 2.0], None, [3.0, None], [5.0, 6.0]])
    table = read_table(store({"e": cells, "n": [1, 2, 5, 9]}))
    assert kinds(table) == {"e": "vector", "n": "number"}
    assert table.names == ("e[0]", "e[1]", "n")
    assert table.columns[0].mean == (3.0, 4.0)
    assert table.features.tolist() == [[1, 2, 1], [3, 4, 2], [3, 4, 5], [5, 6, 9]]
    assert "What is missing of 2 vectors of 'e' became the mean." in table.notes
    text = json.dumps([dataclasses.asdict(column) for column in table.columns])
    assert tuple(Column(**column) for column in json.loads(text)) == table.columns
    with pytest.raises(
        ValueError, match="'e' must hold vectors of 2 numbers, as at the fit. Got vectors of 3"
    ):
        read_table(store({"e": pa.array([[1.0, 2.0, 3.0]]), "n": [1]}), columns=table.columns)
    with pytest.raises(
        ValueError, match="vectors of 2 numbers, as at the fit. Got a column of the kind 'number'"
    ):
        read_table(store({"e": [1.0], "n": [1]}), columns=table.columns)


def test_vectors_of_one_value_are_left_out_and_infinite_ones_refused(store):
    import pyarrow as pa

    table = read_table(store({"e": pa.array([[1.0, 2.0], [1.0, 2.0], None]), "n": [1, 2, 5]}))
    assert kinds(table) == {"e": "unused", "n": "number"}
    with pytest.raises(
        ValueError, match=r"'e' must hold finite numbers .* Got inf in row 2 \(counted from 1\)"
    ):
        read_table(store({"e": pa.array([[1.0, 2.0], [1.0, math.inf]]), "n": [1, 2]}))


# Free text

TOPICS = ("red apple pear fruit sweet", "train wheel road car engine")


def sentences(n, seed=0):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.permutation(TOPICS[row % 2].split())[:3]) + f" only{row}" for row in range(n)]


def test_free_text_becomes_features_that_a_new_file_has_as_well(write):
    cells = sentences(40)
    table = read_table(write(one_column(cells)))
    assert kinds(table) == {"x": "text", "n": "number"}
    assert table.names[:2] == ("x[0]", "x[1]")
    features = table.features[:, :-1]
    assert features.shape[1] == 6  # the root of 40
    assert np.allclose(np.linalg.norm(features, axis=1), 1)
    near = features @ features.T
    assert near[0::2, 0::2].min() > near[0::2, 1::2].max()
    new = read_table(
        write(one_column([cells[1], "", "nothing known", cells[0].upper()])), columns=table.columns
    )
    assert np.allclose(new.features[[0, 3], :-1], features[[1, 0]])
    assert not new.features[1:3, :-1].any()
    assert "2 texts of 'x' are missing or have no known word: they are 0." in new.notes


def test_any_column_can_be_free_text_if_asked_for(write):
    path = write(one_column(["12 a", "12 b", "13 a", "13 b"]))
    assert kinds(read_table(path))["x"] == "category"
    table = read_table(path, text=["x"])
    assert table.columns[0].kind == "text"
    assert table.columns[0].encoder.words == ("12", "13", "a", "b")
    numbers = read_table(write(one_column(["12", "12", "013", "013"])), text=["x"])
    assert numbers.columns[0].encoder.words == ("013", "12")
    with pytest.raises(
        ValueError, match="'x' must have words that are in two rows at least, to be used as text"
    ):
        read_table(write(one_column(["a", "b", ""])), text=["x"])
    with pytest.raises(ValueError, match="must have a column 'q' for --text"):
        read_table(path, text=["q"])
    with pytest.raises(ValueError, match="'text' .* of other columns than 'drop'"):
        read_table(path, text=["x"], drop=["x"])
