"""Dates as features: how many days after a fixed day, and where in the year, the week and the day.

The number of days since 2000-01-01 is always a feature. A place in a cycle is two, its sine and cosine, so
that December is near January. The place in the year is added where there are several months, and where there
are several times of day, the place in the day, and in the week if there are several weekdays.

Text is taken for dates if it is as ISO 8601 has it: 2024-01-31, perhaps followed by a time such as 14:30 or
14:30:59Z. A time with an offset is that of UTC. 2024/1/31 is read, too. Where the year comes last, 31/01/2024
has the day first and 01/31/2024 the month: one such cell tells of its whole column, and dots mean that the
day comes first. A column in which both could be meant is refused.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence

import numpy as np

# All parts that dates may have, in the order of their features. "days" is one feature, the others are two.
PARTS = ("days", "year", "week", "day")
# What comes first in a date.
ORDERS = ("year", "day", "month")
_TIME = r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
_YEAR_FIRST = re.compile(rf"\s*([0-9]{{4}})([-/.])([0-9]{{1,2}})\2([0-9]{{1,2}})({_TIME})\s*")
_YEAR_LAST = re.compile(rf"\s*([0-9]{{1,2}})([-/.])([0-9]{{1,2}})\2([0-9]{{4}})({_TIME})\s*")
_DAY = 86_400
_FIRST = np.datetime64("2000-01-01", "s")


def find_order(texts: Iterable[str]) -> str | None:
    """Return which of `ORDERS` the dates of a column have, or None if nothing tells.

    Examples
    --------
    >>> find_order(["2024-01-31"]), find_order(["03/04/2024", "31/01/2024"]), find_order(["03/04/2024"])
    ('year', 'day', None)
    """
    texts = list(texts)
    last = [match for match in map(_YEAR_LAST.fullmatch, texts) if match]
    if not last:
        return "year" if any(map(_YEAR_FIRST.fullmatch, texts)) else None
    first, second = (max(int(match[place]) for match in last) for place in (1, 3))
    if first <= 12 and second <= 12:
        return "day" if all(match[2] == "." for match in last) else None
    return "day" if first > 12 else "month"


def parse_date(text: str, order: str = "year") -> np.datetime64 | None:
    """Return the second that a text means, or None if it means none.

    Parameters
    ----------
    text : str
        A date, perhaps with a time.
    order : str
        One of `ORDERS`, for dates that end with the year; "year" refuses those.
    """
    if match := _YEAR_FIRST.fullmatch(text):
        year, _, month, day, time = match.groups()
    elif order != "year" and (match := _YEAR_LAST.fullmatch(text)):
        day, _, month, year, time = match.groups()
        day, month = (day, month) if order == "day" else (month, day)
    else:
        return None
    try:
        moment = datetime.datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}{time}")
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # no such day, or none before the first or behind the last
        return None
    return np.datetime64(moment, "s")


def choose_parts(dates: np.ndarray) -> tuple[str, ...]:
    """Return the parts of `PARTS` in which dates differ; none of the dates is missing."""
    days = dates.astype("datetime64[D]")
    several = {
        "days": len(np.unique(dates)) > 1,
        "year": len(np.unique(dates.astype("datetime64[M]").astype(np.int64) % 12)) > 1,
        "day": len(np.unique(dates - days)) > 1,
    }
    several["week"] = several["day"] and len(np.unique(days.astype(np.int64) % 7)) > 1
    return tuple(part for part in PARTS if several["days"] and several[part])


def part_names(parts: Sequence[str]) -> tuple[str, ...]:
    """Return what the features of the parts are called."""
    names: list[str] = []
    for part in parts:
        names += ["days"] if part == "days" else [f"sin of {part}", f"cos of {part}"]
    return tuple(names)


def date_features(dates: np.ndarray, parts: Sequence[str]) -> np.ndarray:
    """Return the features of dates.

    Parameters
    ----------
    dates : ndarray of datetime64[s], (n,)
        The dates, none of them missing.
    parts : sequence of str
        Those of `PARTS` that are wanted.

    Returns
    -------
    ndarray of float64, (n, d)
        The features, in the order of `part_names`.
    """
    features: list[np.ndarray] = []
    for part in parts:
        if part == "days":
            features.append(as_days(dates))
        else:
            angle = 2 * np.pi * _PLACES[part](dates)
            features += [np.sin(angle), np.cos(angle)]
    return np.column_stack(features) if features else np.empty((len(dates), 0))


def as_days(dates: np.ndarray) -> np.ndarray:
    """Return the days since 2000-01-01, with NaN where there is no date."""
    days = (dates - _FIRST).astype(np.float64) / _DAY
    return np.where(np.isnat(dates), np.nan, days)


def from_days(days: float) -> np.datetime64:
    """Return the second that `as_days` gives these days for."""
    return _FIRST + np.timedelta64(round(days * _DAY), "s")


def _in_year(dates: np.ndarray) -> np.ndarray:
    years = dates.astype("datetime64[Y]")
    first, next_first = years.astype("datetime64[s]"), (years + 1).astype("datetime64[s]")
    return np.asarray((dates - first).astype(np.float64) / (next_first - first).astype(np.float64))


def _in_week(dates: np.ndarray) -> np.ndarray:
    return (as_days(dates) + 5) % 7 / 7  # 2000-01-01 was a Saturday, and weeks begin with Monday


def _in_day(dates: np.ndarray) -> np.ndarray:
    return as_days(dates) % 1


_PLACES = {"year": _in_year, "week": _in_week, "day": _in_day}
