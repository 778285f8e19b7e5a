"""Checks of the keys, names and titles in the tables of a spec."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dahgnn.checks import bad_value, did_you_mean

Table = Mapping[str, Any]


def check_keys(table: object, known: set[str], owner: str, required: Sequence[str] = ()) -> None:
    """Refuse what is no table, has an unknown key or lacks a required one; suggest the nearest key."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{owner} must be a table. Got {table!r}.")
    for key in table:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"It has: {', '.join(sorted(known))}."
            raise ValueError(f"{owner} has no key '{key}'. {hint}")
    for key in required:
        if key not in table:
            raise ValueError(f"{owner} needs the key '{key}'.")


def check_name(name: object, owner: str) -> None:
    """Refuse a name that is not fit for a folder and a column of a table."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise bad_value("name", owner, "letters, digits, '_', '-' and '.'", repr(name)[:120])


def check_title(title: object, owner: str) -> None:
    """Refuse a title that is no text, or an empty one."""
    if not isinstance(title, str) or not title.strip():
        raise bad_value("title", owner, "a text that is not empty", repr(title))
