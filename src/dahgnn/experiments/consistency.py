"""Whether run lines agree with themselves and with one another: an edited number should not reach a table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dahgnn.files.jsonl import Line

# What makes two lines the same measurement, besides the digest of the split.
IDENTITY = ("experiment", "dataset", "data", "method", "run", "settings")
# Accuracies are counts over counts; only rounding keeps them apart.
_ROUNDING = 1e-6


def identity_key(identity: Mapping[str, Any]) -> str:
    """Return the digest of what makes two lines the same measurement."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def contradiction(line: Line) -> str:
    """Name the first thing in which a line contradicts itself, or nothing.

    Parameters
    ----------
    line : dict
        A run line whose values are of the right types, see `read_lines`.
    """
    checks = (_check_counts, _check_confusion, _check_accuracies, _check_stated, _check_epochs, _check_key)
    return next((problem for check in checks if (problem := check(line))), "")


def _check_counts(line: Line) -> str:
    train = line["split"].get("train", line["labels"])
    if train != line["labels"]:
        return f"has {line['labels']} labels, but a split of {train} training nodes"
    if line.get("seed", line["run"]) != line["run"]:
        return f"has the seed {line['seed']!r:.40} of another run than {line['run']}"
    return ""


def _check_confusion(line: Line) -> str:
    confusion, n_test, accuracy = line.get("confusion"), line["split"].get("test"), _test_accuracy(line)
    if not confusion:
        return ""
    total, right = sum(map(sum, confusion)), sum(row[place] for place, row in enumerate(confusion))
    if n_test is not None and total != n_test:
        return f"counts {total} test nodes in its confusion matrix, but has {n_test}"
    if total == 0 or abs(right / total - accuracy) > _ROUNDING:
        share = f"{right} of {total}"
        return f"has a 'test_accuracy' of {accuracy:.6g}, but {share} right in its confusion matrix"
    if line["labels"] % len(confusion):
        return f"has {line['labels']} labels, which are not as many of each of {len(confusion)} classes"
    return ""


def _test_accuracy(line: Line) -> float:
    accuracy: float = line["metrics"]["test_accuracy"]
    return accuracy


def _check_accuracies(line: Line) -> str:
    for part in ("train", "validation"):
        accuracy, count = line["metrics"].get(f"{part}_accuracy"), line["split"].get(part)
        if not count or accuracy is None:
            continue
        if abs(accuracy * count - round(accuracy * count)) > _ROUNDING * count:
            return f"has a '{part}_accuracy' of {accuracy:.6g}, which no number of its {count} nodes gives"
    return ""


def _check_stated(line: Line) -> str:
    low, stated, high = (line["metrics"].get(f"stated_{name}") for name in ("low", "accuracy", "high"))
    if None in (low, stated, high) or low - _ROUNDING <= stated <= high + _ROUNDING:
        return ""
    return f"states an accuracy of {stated:.6g} outside its own interval from {low:.6g} to {high:.6g}"


def _check_epochs(line: Line) -> str:
    best, epochs = line.get("best_epoch"), line.get("epochs")
    return f"has the best epoch {best} of {epochs}" if best is not None and (epochs or 0) < best else ""


def _check_key(line: Line) -> str:
    identity = {name: line.get(name) for name in IDENTITY} | {"split": line["split"]["digest"]}
    if line["key"] == _key_or_nothing(identity):
        return ""
    return f"has the key {line['key'][:40]!r}, which is not that of its settings, data and split"


def _key_or_nothing(identity: Mapping[str, Any]) -> str:
    try:
        return identity_key(identity)
    except RecursionError:  # settings that nobody wrote
        return ""


class Agreement:
    """What lines of one experiment must have in common, gathered from one after the other."""

    def __init__(self) -> None:
        self._first: dict[tuple[Any, ...], tuple[int, Any]] = {}

    def conflict(self, number: int, line: Line) -> str:
        """Say with which earlier line this one cannot be true together, or nothing."""
        for what, place, value in _shared_facts(line):
            earlier, expected = self._first.setdefault((what, *place), (number, value))
            if expected != value:
                return f"has other {what} than line {earlier}"
        return ""


def _shared_facts(line: Line) -> list[tuple[str, tuple[Any, ...], Any]]:
    """Return what every other line of the same dataset, split or key must say as well."""
    dataset, digest = line["dataset"], line["split"]["digest"]
    facts: list[tuple[str, tuple[Any, ...], Any]] = [
        ("data", (dataset,), line.get("data")),
        ("splits of the same run", (dataset, line["labels"], line["run"]), digest),
        ("results of the same run", (line["key"],), (line["metrics"], line.get("confusion"))),
    ]
    if line.get("confusion"):
        counts = [sum(row) for row in line["confusion"]]
        facts.append(("test nodes of each class", (dataset, digest), counts))
        facts.append(("classes", (dataset,), len(counts)))
    return facts
