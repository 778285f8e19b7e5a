import datetime
import math
from pathlib import Path

import numpy as np
import pytest

from dahgnn.tables.sources import UnsupportedCells
from dahgnn.tables.values import cells_of, columns_of

NOON = datetime.datetime(2024, 2, 29, 12, 30, 1, 900_000)
DAY = datetime.date(2024, 2, 29)


def test_rows_become_columns_in_the_order_of_their_first_keys():
    rows = [{"b": 1}, {"a": 2, "b": 3}, {}]
    assert columns_of(rows, Path("f")) == {"b": [1, 3, None], "a": [None, 2, None]}


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([1, None, 2.5], [1, math.nan, 2.5]),
        ([None, None], [math.nan, math.nan]),
        ([2**53 + 1, 1], [2**53, 1]),
        ([10**400, -(10**400)], [math.inf, -math.inf]),
    ],
)
def test_numbers_are_an_array(values, want):
    cells = cells_of(values, as_text=False)
    assert cells.dtype == np.float64
    assert np.array_equal(cells, want, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([True, None, False], ["True", None, "False"]),
        (["a", "", None], ["a", "", None]),
        ([1, "a", 2.5, True], ["1", "a", "2.5", "True"]),
    ],
)
def test_the_rest_is_text_as_in_a_text_file(values, want):
    assert cells_of(values, as_text=False).tolist() == want
    assert cells_of(values, as_text=True).tolist() == want


def test_whole_numbers_are_exact_as_text():
    assert cells_of([2**60 + 1, None], as_text=True).tolist() == [str(2**60 + 1), None]
    assert cells_of([1.0, 2], as_text=True).tolist() == [1.0, 2.0]


def test_dates_are_seconds():
    cells = cells_of([NOON, None, DAY], as_text=False)
    assert cells.dtype == "datetime64[s]"
    assert [str(cell) for cell in cells] == ["2024-02-29T12:30:01", "NaT", "2024-02-29T00:00:00"]
    assert cells_of([DAY, None], as_text=True).tolist() == ["2024-02-29", None]
    plain = NOON.replace(microsecond=0)
    assert cells_of([plain, DAY], as_text=True).tolist() == ["2024-02-29 12:30:01", "2024-02-29 00:00:00"]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([datetime.time(1), None], "times of day or durations"),
        ([datetime.timedelta(1)], "times of day or durations"),
        ([NOON, "a"], "dates and text in one column"),
        ([NOON, 3, True], "dates and flags and numbers in one column"),
        ([{}], "objects with the keys none"),
        ([[1, True]], "lists of other things than numbers"),
        ([[0] * 100_001], "lists of 100,001 numbers"),
    ],
)
def test_other_values_are_named(values, type_):
    assert cells_of(values, as_text=False) == UnsupportedCells(type_)


def test_lists_are_no_text():
    assert cells_of([[1], [2]], as_text=True) == UnsupportedCells("lists")
