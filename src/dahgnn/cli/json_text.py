"""What commands print with ``--json``: one object a command, in ASCII, whatever the terminal can show."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dahgnn.classifier.explanation import Explanation
from dahgnn.report.fitted_folder import FittedFolder, Suggestion
from dahgnn.report.predict_folder import PredictedFolder
from dahgnn.report.predictions import Predictions


def fit_as_json(metrics: Mapping[str, Any], folder: Path, files: Sequence[str]) -> str:
    """Return all of metrics.json, with "folder" and the "files" in it."""
    return json.dumps({**metrics, "folder": str(folder), "files": list(files)})


def predictions_as_json(predictions: Predictions, target: Path) -> str:
    """Return "rows", how many there are, "classes", how often each is predicted, and "file" with them."""
    counts = Counter(predictions.predicted)
    return json.dumps(
        {
            "rows": len(predictions.ids),
            "classes": {name: counts[name] for name in predictions.classes},
            "file": str(target),
        }
    )


def predicted_folder_as_json(predicted: PredictedFolder, target: Path) -> str:
    """Return "rows", "classes" as of one file, "folder" with the predictions, and the "files" in it."""
    said = {"rows": predicted.rows, "classes": predicted.classes}
    return json.dumps({**said, "folder": str(target), "files": list(predicted.files)})


def suggestions_as_json(suggestions: Sequence[Suggestion]) -> str:
    """Return "rows", a list of "id", "predicted", "margin" and "density", the most useful first."""
    return json.dumps({"rows": [asdict(each) for each in suggestions]})


def explanations_as_json(explanations: Sequence[Explanation], fitted: FittedFolder) -> str:
    """Return "rows", a list of what `describe` says of each, whole.

    A row has "id", "given" (or null), "predicted", "probabilities" by class, "labelled" (labelled rows that
    its attention came from: "id", "label" and "weight") and "hyperedges" ("name", which is null unless the
    user gave it, "centre", "weight" and "members": "id" and "weight").
    """
    return json.dumps({"rows": [_explanation(each, fitted) for each in explanations]})


def _explanation(explanation: Explanation, fitted: FittedFolder) -> dict[str, Any]:
    classifier, ids, row = fitted.classifier, fitted.ids, explanation.row
    probabilities = classifier.label_distributions_[row].tolist()
    return {
        "id": ids[row],
        "given": fitted.labels[row],
        "predicted": str(classifier.transduction_[row]),
        "probabilities": dict(zip(map(str, classifier.classes_), probabilities, strict=True)),
        "labelled": [
            {"id": ids[share.row], "label": fitted.labels[share.row], "weight": share.weight}
            for share in explanation.labelled
        ],
        "hyperedges": [
            {
                "name": fitted.name_hyperedge(hyperedge.hyperedge),
                "centre": None if hyperedge.centre is None else ids[hyperedge.centre],
                "weight": hyperedge.weight,
                "members": [{"id": ids[share.row], "weight": share.weight} for share in hyperedge.members],
            }
            for hyperedge in explanation.hyperedges
        ],
    }
