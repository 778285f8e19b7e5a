import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from dahgnn.classifier.explanation import Explanation, HyperedgeAttention, RowAttention
from dahgnn.cli.json_text import explanations_as_json, fit_as_json, predictions_as_json, suggestions_as_json
from dahgnn.report.fitted_folder import Suggestion
from dahgnn.report.predictions import Predictions


def test_a_fit_is_its_metrics_and_where_they_are():
    said = json.loads(fit_as_json({"rows": 3}, Path("runs/a"), ["metrics.json"]))
    assert said == {"rows": 3, "folder": "runs/a", "files": ["metrics.json"]}


def test_predictions_are_counted():
    predictions = Predictions(
        ids=["a", "b"],
        classes=["u", "v"],
        probabilities=np.array([[0.2, 0.8], [0.1, 0.9]]),
        density=np.ones(2),
    )
    text = predictions_as_json(predictions, Path("é.csv"))
    assert text.isascii()
    assert json.loads(text) == {"rows": 2, "classes": {"u": 0, "v": 2}, "file": "é.csv"}


def test_suggestions_are_listed():
    row = Suggestion(id="a", predicted="u", margin=0.5, density=2.0)
    expected = [{"id": "a", "predicted": "u", "margin": 0.5, "density": 2.0}]
    assert json.loads(suggestions_as_json([row])) == {"rows": expected}


def test_an_explanation_names_rows_by_id():
    fitted = SimpleNamespace(
        ids=["a", "b"],
        labels=["u", None],
        name_hyperedge={4: "club"}.get,
        classifier=SimpleNamespace(
            classes_=np.array(["u", "v"]),
            label_distributions_=np.array([[0.9, 0.1], [0.25, 0.75]]),
            transduction_=np.array(["u", "v"]),
        ),
    )
    hyperedge = HyperedgeAttention(
        hyperedge=4, centre=0, weight=0.5, members=(RowAttention(row=0, weight=0.7),)
    )
    explanation = Explanation(row=1, hyperedges=(hyperedge,), labelled=(RowAttention(row=0, weight=0.125),))
    assert json.loads(explanations_as_json([explanation], fitted)) == {
        "rows": [
            {
                "id": "b",
                "given": None,
                "predicted": "v",
                "probabilities": {"u": 0.25, "v": 0.75},
                "labelled": [{"id": "a", "label": "u", "weight": 0.125}],
                "hyperedges": [
                    {"name": "club", "centre": "a", "weight": 0.5, "members": [{"id": "a", "weight": 0.7}]}
                ],
            }
        ]
    }
