"""Read ``spec.json``, the resolved spec beside the run lines, of which nothing is taken on trust."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dahgnn.checks import did_you_mean
from dahgnn.experiments.spec import MOST, MOST_COUNTS

NEEDED = ("name", "title", "runs", "labels", "datasets", "methods")
_MOST_BYTES = 1 << 26
# Characters of a name or title; a page should still be one that can be read.
_LONGEST = 2000


def read_spec(path: Path) -> dict[str, Any]:
    """Read the resolved spec beside the run lines.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If it is not JSON, or something in it is not what it should be; says where.
    """
    try:
        spec = _parse(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path} must hold the specification of the runs. Got no such file. "
            "Name the folder that 'dahgnn reproduce' wrote to."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a JSON object. Got {error}.") from error
    missing = sorted(set(NEEDED) - set(spec)) if isinstance(spec, dict) else sorted(NEEDED)
    if missing:
        raise ValueError(f"{path} must have {', '.join(sorted(NEEDED))}. Got none of {', '.join(missing)}.")
    try:
        _check_spec(spec)
    except ValueError as error:
        way_out = "'dahgnn reproduce' writes it again where its run lines are."
        raise ValueError(f"In {path}, {error} {way_out}") from error
    return dict(spec)


def _parse(path: Path) -> Any:
    if path.exists() and path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"a file of more than {_MOST_BYTES >> 20} MiB")
    return json.loads(
        path.read_text(encoding="utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a key twice, of which JSON keeps the last without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!r} twice")
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name}, which is no number of JSON")


def _check_spec(spec: Mapping[str, Any]) -> None:
    _check_text(spec["name"], "name")
    _check_text(spec["title"], "title")
    _check_count(spec["runs"], "runs")
    _check_counts(spec["labels"], "labels")
    datasets = _check_entries(spec["datasets"], "datasets", _check_dataset)
    methods = _check_entries(spec["methods"], "methods", _check_method)
    _check_published(spec.get("published", {}), datasets, methods)
    comparisons = _list(spec.get("comparisons", []), "comparisons")
    for place, pair in enumerate(comparisons):
        where = f"comparisons[{place}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise _wrong(where, "a pair of methods", pair)
        for name in pair:
            _check_known(name, methods, where, "methods")


def _check_entries(entries: object, where: str, check: Callable[[Mapping[str, Any], str], None]) -> list[str]:
    """Check datasets or methods, and return their names, of which no two may be equal."""
    names: list[str] = []
    for place, entry in enumerate(_list(entries, where)):
        here = f"{where}[{place}]"
        if not isinstance(entry, dict):
            raise _wrong(here, "an object", entry)
        _check_text(entry.get("name"), f"{here}.name")
        _check_text(entry.get("title", entry["name"]), f"{here}.title")
        check(entry, here)
        if entry["name"] in names:
            raise _wrong(f"{here}.name", "a name that no other has", entry["name"])
        names.append(entry["name"])
    if not names:
        raise _wrong(where, "a list that is not empty", entries)
    return names


def _check_dataset(entry: Mapping[str, Any], where: str) -> None:
    if entry.get("labels") is not None:
        _check_counts(entry["labels"], f"{where}.labels")
    for place, name in enumerate(_list(entry.get("classes", []), f"{where}.classes")):
        if not isinstance(name, str):
            raise _wrong(f"{where}.classes[{place}]", "a text", name)
        _check_letters(name, f"{where}.classes[{place}]")


def _check_method(entry: Mapping[str, Any], where: str) -> None:
    # Earlier versions wrote "aside".
    for flag in ("ours", "hidden_at_first", "aside"):
        if not isinstance(entry.get(flag, False), bool):
            raise _wrong(f"{where}.{flag}", "true or false", entry[flag])
    _object(entry.get("settings", {}), f"{where}.settings")


def _check_published(published: object, datasets: Sequence[str], methods: Sequence[str]) -> None:
    for dataset, rows in _object(published, "published").items():
        where = f"published.{dataset}"
        _check_known(dataset, datasets, "published", "datasets")
        for method, row in _object(rows, where).items():
            _check_known(method, methods, where, "methods")
            for count, values in _object(row, f"{where}.{method}").items():
                _check_printed(count, values, f"{where}.{method}")


def _check_printed(count: str, values: object, where: str) -> None:
    if not (count.isascii() and count.isdecimal() and len(count) < 10 and int(count) > 0):
        raise _wrong(where, "by numbers of labelled nodes", count)
    if not (isinstance(values, list) and len(values) == 2 and all(_is_percentage(each) for each in values)):
        raise _wrong(f"{where}.{count}", "[mean, deviation] in percent", values)


def _is_percentage(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100


def _check_counts(counts: object, where: str) -> None:
    found = _list(counts, where)
    if not 0 < len(found) <= MOST_COUNTS:
        raise _wrong(where, f"a list of 1 to {MOST_COUNTS} counts", f"{len(found)} of them")
    for place, count in enumerate(found):
        _check_count(count, f"{where}[{place}]")
    if len(set(found)) < len(found):
        raise _wrong(where, "a list of different counts", counts)


def _check_count(value: object, where: str) -> None:
    if type(value) is not int or not 1 <= value <= MOST:
        raise _wrong(where, f"a whole number from 1 to {MOST}", value)


def _check_text(value: object, where: str) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
        raise _wrong(where, f"a text of 1 to {_LONGEST} characters", value)
    _check_letters(value, where)


def _check_letters(value: str, where: str) -> None:
    """Refuse half of a pair of surrogates, which no file can hold."""
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _wrong(where, "a text of whole characters", value)


def _check_known(name: object, known: Sequence[str], where: str, what: str) -> None:
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(name, known) if isinstance(name, str) else ""
        raise ValueError(" ".join([str(_wrong(where, f"of its {what}", name)), hint]).strip())


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, "a list", value)
    return value


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return value


def _wrong(where: str, expected: str, got: object) -> ValueError:
    message = f"'{where[:200]}' must be {expected}. Got {reprlib.repr(got)}."
    return ValueError(message.encode(errors="backslashreplace").decode())
