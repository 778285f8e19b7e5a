"""Run lines, written and read: what was measured, how it was reached, when, and on what."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from dahgnn.environment import describe_environment
from dahgnn.experiments.consistency import Agreement, contradiction
from dahgnn.files.jsonl import Line, read_objects
from dahgnn.training.fit import FitResult, accuracy
from dahgnn.training.run import Epoch
from dahgnn.training.splits import Split

logger = logging.getLogger(__name__)

# What a count in a line can be.
_COUNTS = range(10**9)
# Points of a learning curve that a line keeps.
_CURVE = 40
_PARTS = ("train", "validation", "test")


def compose_line(split: Split, labels: Tensor, predictions: Tensor, seconds: float, device: str) -> Line:
    """Compose what every method's line has; that of a network has more, see `describe_training`.

    Parameters
    ----------
    split : Split
        The nodes that the run trained on, chose by and was tested on.
    labels, predictions : Tensor of int64, (n,)
        True and predicted classes.
    seconds : float
        How long the fit took.
    device : str
        "cpu" or a CUDA device.
    """
    return {
        "labels": len(split.train),
        "split": {"digest": split.digest, **{part: len(getattr(split, part)) for part in _PARTS}},
        "metrics": {
            # A split may have no validation nodes.
            f"{part}_accuracy": accuracy(predictions, labels, nodes)
            if len(nodes := getattr(split, part))
            else None
            for part in _PARTS
        },
        "confusion": _confusion(labels[split.test], predictions[split.test], int(labels.max()) + 1),
        "history": None,
        "epochs": None,
        "best_epoch": None,
        "stopped": None,
        "seconds": round(seconds, 4),
    } | describe_environment(device)


def describe_training(result: FitResult) -> Line:
    """Compose what the line of a network has besides."""
    return {
        "history": _curve(result.history),
        "epochs": len(result.history) - 1,
        "best_epoch": result.best_epoch,
        "stopped": result.stopped,
    }


def _confusion(labels: Tensor, predictions: Tensor, n_classes: int) -> list[list[int]]:
    """Count the test nodes of each true class (rows) and predicted class (columns)."""
    from sklearn.metrics import confusion_matrix

    counts: list[list[int]] = confusion_matrix(labels, predictions, labels=range(n_classes)).tolist()
    return counts


def _curve(history: Sequence[Epoch]) -> dict[str, list[float]]:
    """Thin a history out to the points that a picture needs, the first and the last among them."""
    places = sorted({round(place) for place in np.linspace(0, len(history) - 1, min(_CURVE, len(history)))})
    names = ("train_loss", "validation_loss", "validation_accuracy")
    curve: dict[str, list[float]] = {"epoch": list(places)}
    return curve | {name: [round(getattr(history[place], name), 4) for place in places] for name in names}


def read_lines(path: Path, experiment: str | None = None) -> list[Line]:
    """Read run lines, each run once.

    Parameters
    ----------
    path : Path
        One JSON object a line. A last line that a kill cut short is left out, with a warning.
    experiment : str, optional
        The experiment whose lines they must be; by default that of the first line.

    Raises
    ------
    ValueError
        If another line cannot be read, lacks something, is of another experiment, or contradicts itself
        or a line before it.
    """
    lines: dict[str, Line] = {}
    agreement = Agreement()
    for number, line in read_objects(path):
        problem = _problem(line)
        if problem:
            shown = json.dumps(line)[:60]
            raise ValueError(f"Line {number} of {path} must be a run line with {problem}. Got {shown!r}.")
        experiment = line["experiment"] if experiment is None else experiment
        if line["experiment"] != experiment:
            raise ValueError(
                f"Line {number} of {path} must be of experiment {experiment!r}. Got {line['experiment']!r}. "
                "Give each experiment its own folder."
            )
        problem = contradiction(line) or agreement.conflict(number, line)
        if problem:
            raise ValueError(
                f"Line {number} of {path} {problem}. Somebody changed it: take it out, and "
                "'dahgnn reproduce' runs it again."
            )
        if line["key"] in lines:
            logger.warning("%s: line %d repeats run %s; the first one counts.", path, number, line["key"])
        lines.setdefault(line["key"], line)
    return list(lines.values())


def _problem(line: object) -> str:
    """Name the first thing that a run line lacks, or nothing."""
    if not isinstance(line, dict):
        return "keys and values"
    for name in ("experiment", "key", "dataset", "method", "finished"):
        if not isinstance(line.get(name), str):
            return f"a text '{name}'"
    for name in ("labels", "run"):
        if type(line.get(name)) is not int:
            return f"an integer '{name}'"
    for name in ("split", "metrics", "device", "versions"):
        if not isinstance(line.get(name), dict):
            return f"an object '{name}'"
    return _problem_of_values(line)


def _problem_of_values(line: Mapping[str, Any]) -> str:
    accuracy: Any = line["metrics"].get("test_accuracy")
    seconds: Any = line.get("seconds")
    if not _is_number(accuracy) or not 0 <= accuracy <= 1:
        return "a 'test_accuracy' between 0 and 1"
    if not _is_number(seconds) or not 0 <= seconds <= 1e9:
        return "a number of 'seconds'"
    if line["labels"] not in _COUNTS or line["run"] not in _COUNTS:
        return "a count of 'labels' and a number of a 'run'"
    if not isinstance(line["split"].get("digest"), str):
        return "the digest of its split"
    if not all(_is_count(line["split"].get(part)) for part in _PARTS):
        return "counts of nodes in its 'split'"
    if not all(_is_share(value) for value in line["metrics"].values()):
        return "'metrics' between 0 and 1, or none"
    try:
        datetime.fromisoformat(line["finished"])
    except ValueError:
        return "an ISO date in 'finished'"
    return _problem_of_details(line)


def _problem_of_details(line: Mapping[str, Any]) -> str:
    """Name what is wrong in that which some lines have."""
    confusion, history, cnn = (line.get(name) for name in ("confusion", "history", "cnn"))
    for name in ("epochs", "best_epoch"):
        if not _is_count(line.get(name)):
            return f"a count as '{name}', or none"
    if confusion is not None and not _is_square(confusion):
        return "a square matrix of counts as 'confusion'"
    if history is not None and not _is_curve(history):
        return "lists of numbers of one length as 'history'"
    if cnn is not None and not (isinstance(cnn, dict) and _is_share(cnn.get("test_accuracy", -1))):
        return "a 'test_accuracy' of its 'cnn'"
    return ""


def _is_count(value: object) -> bool:
    return value is None or (type(value) is int and value in _COUNTS)


def _is_share(value: Any) -> bool:
    return value is None or (_is_number(value) and 0 <= value <= 1)


def _is_square(matrix: object) -> bool:
    return isinstance(matrix, list) and all(
        isinstance(row, list)
        and len(row) == len(matrix)
        and all(type(count) is int and count in _COUNTS for count in row)
        for row in matrix
    )


def _is_curve(history: object) -> bool:
    if not isinstance(history, dict) or not all(isinstance(values, list) for values in history.values()):
        return False
    known = (value for values in history.values() for value in values if value is not None)
    numbers = all(_is_number(value) and abs(value) < 1e15 for value in known)
    return numbers and len({len(values) for values in history.values()}) == 1


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**63
    return isinstance(value, float) and math.isfinite(value)
