import tracemalloc

import numpy as np
import pytest

from dahgnn.tables.leaks import counts_rows, find_leaks, tells_label
from dahgnn.tables.sources import Source
from dahgnn.tables.table import read_table

NOISE = np.random.default_rng(0)
CODES = np.arange(60) % 3


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        (np.arange(12), True),
        (np.arange(1, 13), True),
        (1000 + 5 * np.arange(12), True),
        (np.arange(12)[::-1], True),
        (np.random.default_rng(0).permutation(12), True),
        (7 + np.random.default_rng(0).permutation(12), True),
        (5 * np.random.default_rng(0).permutation(12), False),
        (np.arange(12) / 2, False),
        (np.arange(12) ** 2, False),
        (np.ones(12), False),
        (np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, np.nan]), False),
        (np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]), False),
        (np.array([0, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), False),
        (np.array([3]), False),
        (np.concatenate([np.arange(1, 41), np.arange(1, 26), np.arange(1, 36)]), True),
        (np.concatenate([np.arange(1, 41), np.arange(2, 42)]), False),
        (np.arange(96) % 12, False),
        (np.arange(96) % 31, False),
    ],
)
def test_numbers_that_count_the_rows(values, counts):
    assert counts_rows(values.astype(float)) is counts


def by_hand(values, codes):
    """The share of labels that the others tell, looped: the majority of equal values, else the nearest."""
    told = []
    for row, value in enumerate(values):
        others = np.delete(np.arange(len(values)), row)
        equal = others[values[others] == value]
        if len(equal):
            told.append(np.mean(codes[equal] == codes[row]) > 0.5)
        else:
            told.append(codes[others[np.argmin(np.abs(values[others] - value))]] == codes[row])
    return np.mean([np.mean(np.array(told)[codes == code]) for code in np.unique(codes)])


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.2, 0.3, 0.5, 3.0])
@pytest.mark.parametrize("digits", [0, 1, 6])
def test_a_telling_column_is_found_as_by_hand(spread, digits):
    values = np.round(CODES + spread * NOISE.normal(size=60), digits)
    assert tells_label(values, CODES) == (by_hand(values, CODES) >= 0.98)


def test_few_labels_or_one_class_tell_nothing():
    values = CODES.astype(float)
    assert tells_label(values, CODES)
    assert not tells_label(values[:29], CODES[:29])
    assert not tells_label(values, np.zeros(60, dtype=int))
    rare = np.array([0] * 57 + [1] * 3)
    assert not tells_label(rare.astype(float), rare)


def test_a_rare_class_must_be_told_as_well():
    codes = np.array([0] * 950 + [1] * 50)
    assert not tells_label(np.zeros(1000), codes)
    assert tells_label(codes.astype(float), codes)


def test_categories_are_near_only_if_equal():
    codes = np.repeat([0, 1], 30)
    each = np.arange(60.0)
    assert tells_label(each, codes)
    assert not tells_label(each, codes, is_category=True)
    assert tells_label(codes + 5.0, codes, is_category=True)


def test_many_labels_are_looked_at_in_part():
    codes = np.arange(5000) % 2
    assert tells_label(codes + 0.1 * NOISE.normal(size=5000), codes)
    assert not tells_label(NOISE.normal(size=5000), codes)


def table_of(rows, header="a,b,y"):
    return header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def leaks(table):
    words = ("tells nearly all labels", "rises from row to row", "with another label")
    return [note for note in table.notes if any(each in note for each in words)]


def test_a_column_that_tells_the_label_is_named_and_stays(write):
    rows = [(round(float(NOISE.normal()), 3), "pqr"[code], "xyz"[code]) for code in CODES]
    table = read_table(write(table_of(rows)), label="y")
    assert table.names == ("a", "b=p", "b=q", "b=r")
    assert leaks(table) == [
        "The column 'b' tells nearly all labels by itself. If it is not known before the label is, leave it "
        "out with --drop."
    ]
    assert leaks(read_table(write(table_of(rows)), label="y", columns=table.columns)) == []
    unlabelled = [(a, b, y if place < 20 else "") for place, (a, b, y) in enumerate(rows)]
    assert leaks(read_table(write(table_of(unlabelled)), label="y")) == []


def test_several_telling_columns_are_named_together(write):
    rows = [(code, "pqr"[code], "xyz"[code]) for code in CODES]
    assert leaks(read_table(write(table_of(rows)), label="y"))[0].startswith(
        "Each of 2 columns ('a', 'b') tells nearly all labels by itself."
    )


def test_whole_numbers_that_only_rise_are_named(write):
    numbers = np.cumsum(NOISE.integers(1, 4, size=40))
    rows = [
        (number, round(float(NOISE.normal()), 3), "xy"[place % 2]) for place, number in enumerate(numbers)
    ]
    path = write(table_of(rows))
    assert leaks(read_table(path, label="y")) == [
        "The column 'a' rises from row to row, as numbers of rows do. If it is that, leave it out with --drop."
    ]
    assert leaks(read_table(path, label="y", keep=["a"])) == []
    assert leaks(read_table(path)) == leaks(read_table(path, label="y"))


def test_equal_rows_with_different_labels_are_counted(write):
    rows = [
        (1, "u", "x"),
        (2, "v", "x"),
        (1, "u", ""),
        (1, "u", "y"),
        (1, "u", "x"),
        (2, "v", "x"),
        (1, "u", "y"),
    ]
    assert leaks(read_table(write(table_of(rows)), label="y")) == [
        "2 labelled rows equal an earlier one with another label in all features; the first are line 2 of the "
        "file ('x') and line 5 of the file ('y'). Nothing can tell such rows apart: look whether a column is "
        "missing, or a label wrong."
    ]
    zeros = [(0, "u", "x"), ("-0.0", "u", "y"), (3, "v", "y")]
    assert leaks(read_table(write(table_of(zeros)), label="y"))[0].startswith(
        "1 labelled row equals an earlier"
    )


def test_numbers_that_rise_in_groups_are_named(write):
    group = np.cumsum(np.tile([1, 2, 1], 12))
    numbers = np.concatenate([group, group, group])
    classes = NOISE.choice(["x", "y"], size=len(numbers))
    rows = [(number, round(float(NOISE.normal()), 3), y) for number, y in zip(numbers, classes, strict=True)]
    path = write(table_of(rows))
    assert leaks(read_table(path, label="y")) == [
        "The column 'a' rises from row to row and begins again a few times, as numbers of rows in groups do. "
        "If it is that, leave it out with --drop."
    ]
    assert leaks(read_table(path, label="y", keep=["a"])) == []
    months = [(1 + place % 12, b, y) for place, (_, b, y) in enumerate(rows)]
    assert leaks(read_table(write(table_of(months)), label="y")) == []


def test_equal_rows_are_found_in_little_memory():
    features = NOISE.normal(size=(100, 10_000))
    features[99] = features[0]
    tracemalloc.start()
    notes = find_leaks(Source(n_rows=100, cells={}), (), features, ("x",) * 99 + ("y",))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert notes[0].startswith("1 labelled row equals an earlier one with another label")
    assert most < features.nbytes / 10
