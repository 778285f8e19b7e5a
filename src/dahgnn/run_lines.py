"""What a run line says: what was measured, how it was reached, when, and on what."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn._version import __version__
from dahgnn.line_files import Line
from dahgnn.plain_loop import Epoch
from dahgnn.splits import Split
from dahgnn.training import FitResult, accuracy

# Points of a learning curve that a line keeps.
_CURVE = 40
_PARTS = ("train", "validation", "test")


def compose_line(split: Split, labels: Tensor, predictions: Tensor, seconds: float, device: str) -> Line:
    """Compose what every method's line has; that of a network has more, see `describe_training`.

    Parameters
    ----------
    split : Split
        Of the run.
    labels, predictions : Tensor of int64, (n,)
        True and predicted classes.
    seconds : float
        Of the fit.
    device : str
        "cpu" or a CUDA device.
    """
    return {
        "labels": len(split.train),
        "split": {"digest": split.digest, **{part: len(getattr(split, part)) for part in _PARTS}},
        "metrics": {
            f"{part}_accuracy": accuracy(predictions, labels, getattr(split, part)) for part in _PARTS
        },
        "confusion": _confusion(labels[split.test], predictions[split.test], int(labels.max()) + 1),
        "history": None,
        "epochs": None,
        "best_epoch": None,
        "stopped": None,
        "seconds": round(seconds, 4),
    } | describe_place(device)


def describe_place(device: str) -> Line:
    """Compose when, on what device and with which versions something was measured."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": _describe(device),
        "versions": _versions(),
    }


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
    cells = (labels * n_classes + predictions).bincount(minlength=n_classes**2)
    counts: list[list[int]] = cells.view(n_classes, n_classes).tolist()
    return counts


def _curve(history: Sequence[Epoch]) -> dict[str, list[float]]:
    """Thin a history out to the points that a picture needs, the first and the last among them."""
    places = sorted({round(place) for place in np.linspace(0, len(history) - 1, min(_CURVE, len(history)))})
    names = ("train_loss", "validation_loss", "validation_accuracy")
    curve: dict[str, list[float]] = {"epoch": list(places)}
    return curve | {name: [round(getattr(history[place], name), 4) for place in places] for name in names}


def _describe(device: str) -> dict[str, Any]:
    if device != "cpu":
        return {"type": "cuda", "name": torch.cuda.get_device_name(device)}
    return {"type": "cpu", "threads": torch.get_num_threads(), "machine": platform.machine()}


@cache
def _versions() -> dict[str, str]:
    found = {"dahgnn": __version__, "python": platform.python_version()}
    for name in ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
