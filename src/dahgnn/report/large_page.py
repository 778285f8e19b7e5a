"""The page of a fit to a table that is larger than memory: it shows some of the rows, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.progress import Progress
from dahgnn.report.assessment import held_out_opinions
from dahgnn.report.fit_contents import estimate_of, place_rows, say_facts
from dahgnn.report.fit_view import FitView
from dahgnn.tables.coded_labels import CodedLabels
from dahgnn.tables.large_tables import LargeTable

# Rows of the page, of which at most half are chosen for their labels.
PAGE_ROWS = 20_000
# Features of a row that it shows.
_MOST_FEATURES = 12

Array = NDArray[Any]


def choose_page_rows(labels: CodedLabels, doubtful: Array) -> Array:
    """Return the rows of the page, in order: doubtful labels, other labels, and others evenly spread.

    Parameters
    ----------
    labels : CodedLabels
        The labels of all rows.
    doubtful : array of int
        Rows that the page must have, as it lists them.
    """
    labelled = _some(labels.labelled(), PAGE_ROWS // 2)
    first = np.union1d(doubtful, labelled)
    every = np.arange(0, len(labels), max(1, -(-len(labels) // max(1, PAGE_ROWS - len(first)))))
    return np.union1d(first, every).astype(np.int64)


def _some(rows: Array, most: int) -> Array:
    if len(rows) <= most:
        return rows
    return np.asarray(rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)])


def gather_large_view(
    title: str,
    table: LargeTable,
    labels: CodedLabels,
    classifier: DAHGNNClassifier,
    metrics: dict[str, Any],
    kind: str,
    progress: Progress | None = None,
) -> FitView:
    """Gather what the page shows of some rows; the parameters are those of `gather_view`.

    Rows stand on the map by the last output of the networks. Their hyperedges are mostly of rows that the
    page has not, and are left out.
    """
    doubtful = np.array([each["row"] for each in metrics["assessment"]["doubtful"]], dtype=np.int64)
    rows = choose_page_rows(labels, doubtful)
    held = np.isin(classifier.held_out_indices_, rows)
    embedding = torch.from_numpy(np.asarray(classifier.embedding_[rows]))
    position, projection = (None, None) if kind == "none" else place_rows(embedding, kind, progress)
    said = (
        f"The page shows {len(rows):,} of {len(labels):,} rows: up to {PAGE_ROWS // 2:,} labelled ones, and "
        "others from all of the table. It shows no hyperedges."
    )
    return FitView(
        title=title,
        ids=[table.ids[row] for row in rows.tolist()],
        classes=list(labels.classes),
        probabilities=np.asarray(classifier.label_distributions_[rows]),
        given=labels.codes.numpy()[rows],
        held_out=np.searchsorted(rows, classifier.held_out_indices_[held]),
        held_out_probabilities=held_out_opinions(classifier)[held],
        density=np.asarray(classifier.density_[rows]),
        position=position,
        members=np.arange(len(rows))[:, None],
        attention=np.ones((len(rows), 1)),
        history=classifier.history_,
        best_epochs=[classifier.best_epoch_] * len(classifier.networks_),
        estimate=estimate_of(metrics),
        assessment=_on_page(metrics["assessment"], rows),
        facts={"Rows": said, **say_facts(classifier, metrics)},
        notes=[said, *table.notes],
        details=_details(table, rows),
        n_columns=len(table.names),
        projection=projection,
    )


def _on_page(assessment: Mapping[str, Any], rows: Array) -> dict[str, Any]:
    """Return the assessment with doubtful labels by their places on the page."""
    doubtful = [{**each, "row": int(np.searchsorted(rows, each["row"]))} for each in assessment["doubtful"]]
    return {**assessment, "doubtful": doubtful}


def _details(table: LargeTable, rows: Array) -> list[dict[str, str]]:
    """Return the first features of each row."""
    names = table.names[:_MOST_FEATURES]
    values = table.features[torch.from_numpy(rows), : len(names)].tolist()
    return [{name: f"{value:.6g}" for name, value in zip(names, row, strict=True)} for row in values]
