"""The numbers of a fit, and where they come from: what metrics.json holds beside the assessment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from dahgnn._version import __version__
from dahgnn.checks import did_you_mean
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.report.assessment import held_out_opinions
from dahgnn.report.fit_files import file_digest


class Labels(Protocol):
    """The labels of all rows, of which some can be asked for."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def __getitem__(self, rows: Any, /) -> Any:
        """Return the labels of some rows, as an array, None where there is none."""


def gather_metrics(classifier: DAHGNNClassifier, labels: Labels, seconds: float) -> dict[str, Any]:
    """Return what a fit gave.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Fitted.
    labels : Labels, n
        The labels that it was given, None where there is none.
    seconds : float
        How long the fit took.
    """
    held = classifier.held_out_indices_
    right = classifier.classes_[held_out_opinions(classifier).argmax(1)] == labels[held]
    return {
        "rows": len(labels),
        "features": int(classifier.n_features_in_),
        "classes": [str(name) for name in classifier.classes_],
        "labelled": len(classifier.labelled_indices_),
        "held_out": len(held),
        # Each of them is judged by networks and experts that have not seen its label.
        "held_out_accuracy": float(right.mean()) if len(held) else None,
        "estimate": None if classifier.estimate_ is None else asdict(classifier.estimate_),
        "k": classifier.k_,
        "networks": len(classifier.networks_),
        "best_epoch": classifier.best_epoch_,
        "epochs": classifier.n_iter_,
        "stopped": classifier.stopped_,
        "combination": classifier.combination_,
        "decision": classifier.decision_,
        "search": None if classifier.search_ is None else asdict(classifier.search_),
        "seconds": round(seconds, 3),
    }


def gather_origin(
    path: Path, notes: Sequence[str], classifier: DAHGNNClassifier, command: str | None
) -> dict[str, Any]:
    """Return what a fit was made from: the file and its digest, the settings, the version, the command.

    Parameters
    ----------
    path : Path
        The table. A folder has no digest.
    notes : sequence of str
        What was understood of it.
    classifier : DAHGNNClassifier
        Not fitted yet.
    command : str or None
        How the user asked for the fit.
    """
    names = ("k", "networks", "validation", "scale", "class_weight", "class_prior", "device")
    return {
        "version": __version__,
        "command": command,
        "file": path.name,
        "sha256": file_digest(path),
        "notes": list(notes),
        "seed": classifier.random_state,
        "settings": {name: getattr(classifier, name) for name in names},
    }


def check_class_weight(weights: Mapping[str, float] | str | None, labels: Iterable[str | None]) -> None:
    """Refuse weights of classes that no label names; a class without a weight counts 1."""
    if weights is None or isinstance(weights, str):
        return
    known = sorted({label for label in labels if label is not None})
    for name in weights:
        if name not in known:
            hint = did_you_mean(name, known) or f"Classes are {', '.join(known[:6])}."
            raise ValueError(f"The option --class-weight must name a class. Got '{name}'. {hint}")
