import math

import numpy as np
import pytest

from dahgnn.tables.dates import (
    as_days,
    choose_parts,
    date_features,
    find_order,
    from_days,
    parse_date,
    part_names,
)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-01-31", "2024-01-31T00:00:00"),
        (" 2024-01-31 ", "2024-01-31T00:00:00"),
        ("2024-01-31T14:30", "2024-01-31T14:30:00"),
        ("2024-01-31 14:30:59.75", "2024-01-31T14:30:59"),
        ("2024-01-31T00:30:00Z", "2024-01-31T00:30:00"),
        ("2024-01-31T00:30+01:00", "2024-01-30T23:30:00"),
        ("0001-01-01", "0001-01-01T00:00:00"),
        ("9999-12-31", "9999-12-31T00:00:00"),
        ("2024/01/31", "2024-01-31T00:00:00"),
        ("2024-1-3 04:05", "2024-01-03T04:05:00"),
    ],
)
def test_dates_that_begin_with_the_year_are_parsed(text, moment):
    assert str(parse_date(text)) == moment


@pytest.mark.parametrize(
    "text",
    ["31.1.2024", "2024/01-31", "24-1-31", "20240131", "2024-02-30", "0000-01-01", "2024-01-31T25:00",
     "0001-01-01T00:00+05:00", "2024-W01-1", "", "2024"],
)  # fmt: skip
def test_others_are_no_dates(text):
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("text", "order", "day"),
    [
        ("03/04/2024", "day", "2024-04-03"),
        ("03/04/2024", "month", "2024-03-04"),
        ("3.4.2024 14:30", "day", "2024-04-03"),
        ("2024-04-03", "month", "2024-04-03"),
        ("31/01/2024", "month", "None"),
        ("03/04/24", "day", "None"),
    ],
)
def test_dates_that_end_with_the_year_follow_the_order_of_their_column(text, order, day):
    assert str(parse_date(text, order))[:10] == day


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["2024-01-31", "2024/2/1"], "year"),
        (["03/04/2024", "31/01/2024"], "day"),
        (["03/04/2024", "01/31/2024"], "month"),
        (["3.4.2024", "1.2.2024"], "day"),
        (["03/04/2024", "01/02/2024"], None),
        (["3.4.2024", "3/4/2024"], None),
        (["03/04/24", "text"], None),
        ([], None),
    ],
)
def test_one_date_tells_the_order_of_all(texts, order):
    assert find_order(texts) == order


def moments(*texts):
    return np.array(texts, dtype="datetime64[s]")


@pytest.mark.parametrize(
    ("dates", "parts"),
    [
        (["2024-01-31"], ()),
        (["2024-01-30", "2024-01-31"], ("days",)),
        (["2023-01-30", "2024-01-31"], ("days",)),
        (["2024-01-31", "2024-02-01"], ("days", "year")),
        (["2024-01-31T10:00", "2024-01-31T11:00"], ("days", "day")),
        (["2024-01-30T10:00", "2024-01-31T11:00"], ("days", "week", "day")),
        (["2024-01-31T10:00", "2024-02-01T10:00"], ("days", "year")),
    ],
)
def test_parts_are_those_in_which_dates_differ(dates, parts):
    assert choose_parts(moments(*dates)) == parts


def test_the_features_of_a_date():
    # A Thursday at six in the evening, a quarter of a year before the end of a year of 365 days.
    dates = moments("2023-01-01", "2001-10-04T18:00")
    names = part_names(("days", "year", "week", "day"))
    assert names == (
        "days", "sin of year", "cos of year", "sin of week", "cos of week", "sin of day", "cos of day",
    )  # fmt: skip
    found = date_features(dates, ("days", "year", "week", "day"))
    assert found[0].tolist()[:3] == [8401, 0, 1]
    assert found[1, 0] == 366 + 276 + 0.75
    places = [276.75 / 365, 3.75 / 7, 0.75]
    circle = [
        value for place in places for value in (math.sin(2 * math.pi * place), math.cos(2 * math.pi * place))
    ]
    assert np.allclose(found[1, 1:], circle)
    assert date_features(dates, ()).shape == (2, 0)


def test_days_there_and_back():
    dates = moments("1999-12-31", "NaT", "2024-02-29T12:34:56")
    days = as_days(dates)
    assert days[0] == -1
    assert math.isnan(days[1])
    assert from_days(days[2]) == dates[2]
