"""A fit on a table in a file, and all that comes of it in one folder.

The folder holds ``model.safetensors``, ``predictions.csv``, ``metrics.json`` and ``report.html``, each of
which is replaced whole. Nothing is written before the fit is done.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from dahgnn.checks import bad_value, check_choice
from dahgnn.checks import suggest as did_you_mean
from dahgnn.classifier_files import load_classifier, save_classifier
from dahgnn.estimator import DAHGNNClassifier
from dahgnn.explanation import Explanation, explain, margins, means, suggest
from dahgnn.files import replacing
from dahgnn.fit_page import FitView, fit_page
from dahgnn.plain_loop import Epoch
from dahgnn.report import tsne
from dahgnn.table_files import Column, Table, read_table

MODEL, PREDICTIONS, METRICS, PAGE = "model.safetensors", "predictions.csv", "metrics.json", "report.html"
MAPS = ("auto", "tsne", "pca")
# Rows up to which "auto" makes a t-SNE; it takes minutes beyond.
_MOST_FOR_TSNE = 20_000
Array = NDArray[Any]


class Display(Protocol):
    """Who shows what is going on."""

    def stage(self, name: str, config: Any = None) -> AbstractContextManager[Callable[[Epoch], None]]:
        """Show a stage until the block ends."""

    def note(self, text: str) -> None:
        """Show a sentence."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What a user may choose.

    Parameters
    ----------
    label, id : str, str or None
        Columns, see `read_table`.
    drop : sequence of str
        Columns to leave out.
    k, seed : int
        Neighbours, and the seed of everything.
    validation : float
        Share of the labelled rows of each class that is held out.
    scale, device : str
        As in `DAHGNNClassifier`.
    map : {"auto", "tsne", "pca"}
        How the page places the rows; "auto" is t-SNE up to 20,000 rows.
    """

    label: str
    id: str | None = None
    drop: Sequence[str] = ()
    k: int = 10
    seed: int = 0
    validation: float = 0.2
    scale: str = "auto"
    device: str = "auto"
    map: str = "auto"


def fit_table(path: Path, folder: Path, options: FitOptions, display: Display) -> dict[str, Any]:
    """Fit a classifier to a file and fill the folder.

    Parameters
    ----------
    path, folder : Path
        The table, and where results go; files of an earlier fit there are replaced.
    options : FitOptions
        What to do.
    display : Display
        Shows the stages, and what was understood of the file before anything starts.

    Returns
    -------
    dict
        The metrics.
    """
    check_choice("map", options.map, MAPS, "fit")
    with display.stage(f"Read {path.name}"):
        table = read_table(path, label=options.label, id=options.id, drop=options.drop)
    for note in table.notes:
        display.note(note)
    labels = np.array(table.labels, dtype=object)
    classifier = DAHGNNClassifier(
        k=options.k,
        validation=options.validation,
        scale=options.scale,
        random_state=options.seed,
        device=options.device,
    )
    start = time.perf_counter()
    with display.stage(f"Fit {len(labels):,} rows", classifier) as callback:
        classifier.fit(table.features, labels, callback=callback)
    seconds = time.perf_counter() - start
    metrics = _metrics(classifier, labels, seconds)
    about = {
        "columns": [asdict(column) for column in table.columns],
        "names": table.names,
        "ids": table.ids,
        "labels": table.labels,
        "label": options.label,
        "id": options.id,
        "file": path.name,
    }
    with display.stage("Write the model and the predictions"):
        _write_json(folder / METRICS, metrics)
        _write_predictions(
            folder / PREDICTIONS,
            table.ids,
            classifier,
            classifier.label_distributions_,
            classifier.density_,
            given=table.labels,
        )
        save_classifier(classifier, folder / MODEL, about)
    with display.stage("Draw the map"):
        view = _view(path.name, table, classifier, metrics, options.map)
    with display.stage("Write the page"), replacing(folder / PAGE) as temporary:
        temporary.write_text(fit_page(view), encoding="utf-8")
    return metrics


def predict_table(folder: Path, path: Path, target: Path, display: Display) -> int:
    """Predict the rows of another file, and write them to a CSV file; return how many."""
    with display.stage(f"Read {folder / MODEL}"):
        fitted = FittedFolder.open(folder)
    with display.stage(f"Read {path.name}"):
        table = read_table(path, id=fitted.id, columns=fitted.columns)
    for note in table.notes:
        display.note(note)
    with display.stage(f"Predict {len(table.ids):,} rows"):
        probabilities, density = fitted.classifier.predict_both(table.features)
        _write_predictions(target, table.ids, fitted.classifier, probabilities, density)
    return len(table.ids)


@dataclass(frozen=True, eq=False)
class FittedFolder:
    """A folder that `fit_table` filled.

    Attributes
    ----------
    classifier : DAHGNNClassifier
        The fitted one.
    columns : tuple of Column
        How cells become features.
    ids, labels : list of str, list of str or None
        Of the fitted rows.
    id : str or None
        The column of the ids.
    """

    classifier: DAHGNNClassifier
    columns: tuple[Column, ...]
    ids: list[str]
    labels: list[str | None]
    id: str | None

    @classmethod
    def open(cls, folder: Path) -> FittedFolder:
        """Read the model of a folder."""
        path = folder / MODEL
        if not path.is_file():
            raise FileNotFoundError(f"There is no {MODEL} in {folder}. Make one with 'dahgnn fit'.")
        saved = load_classifier(path)
        try:
            columns = tuple(
                Column(**{**column, "categories": tuple(column["categories"])})
                for column in saved.about["columns"]
            )
            ids, labels = list(saved.about["ids"]), list(saved.about["labels"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} was not written by 'dahgnn fit', or is damaged ({error}).") from error
        if not len(ids) == len(labels) == len(saved.classifier.embedding_):
            raise ValueError(f"{path} is damaged: it has ids of other rows.")
        return cls(saved.classifier, columns, ids, labels, saved.about.get("id"))

    def row(self, name: str) -> int:
        """Return the number of a row by its id."""
        try:
            return self.ids.index(name)
        except ValueError:
            hint = did_you_mean(name, self.ids[:10_000])
            raise bad_value("row", "explain", "an id of a fitted row", repr(name), hint) from None

    def explain(self, name: str) -> str:
        """Say in words why a row got its label."""
        return describe(explain(self.classifier, self.row(name)), self)

    def suggest(self, count: int) -> list[tuple[str, str, float, float]]:
        """Return rows to label next: id, predicted class, margin and density."""
        classifier = self.classifier
        apart = margins(classifier.label_distributions_)
        rows = suggest(classifier, count)
        values = (classifier.transduction_[rows], apart[rows], classifier.density_[rows])
        return [
            (self.ids[row], str(label), float(margin), float(density))
            for row, label, margin, density in zip(rows, *values, strict=True)
        ]


def describe(explanation: Explanation, fitted: FittedFolder, most: int = 5) -> str:
    """Write an explanation as text."""
    classifier, row = fitted.classifier, explanation.row
    probabilities = classifier.label_distributions_[row]
    order = np.argsort(-probabilities)[:3]
    ranking = ", ".join(f"{classifier.classes_[place]} {100 * probabilities[place]:.1f} %" for place in order)
    lines = [f"Row {fitted.ids[row]}: {ranking}."]
    if fitted.labels[row] is not None:
        lines.append(f"Its given label is {fitted.labels[row]}.")
    total = sum(share.weight for share in explanation.labelled)
    lines.append(f"\nLabelled rows that its attention came from (all of them: {100 * total:.1f} %):")
    lines += [
        f"  {100 * share.weight:5.2f} %  {fitted.ids[share.row]}: {fitted.labels[share.row]}"
        for share in explanation.labelled[:most]
    ] or ["  none: no labelled row is within reach of two layers."]
    lines.append("\nHyperedges that it listened to in the last layer, and who spoke most in each:")
    for hyperedge in explanation.hyperedges[:most]:
        centre = "" if hyperedge.centre is None else f" around {fitted.ids[hyperedge.centre]}"
        members = ", ".join(
            f"{fitted.ids[share.row]} ({_word(fitted, share.row)}) {100 * share.weight:.0f} %"
            for share in hyperedge.members[:4]
        )
        lines.append(f"  {100 * hyperedge.weight:5.2f} %  hyperedge{centre}: {members}")
    return "\n".join(lines)


def _word(fitted: FittedFolder, row: int) -> str:
    given = fitted.labels[row]
    return given if given is not None else f"predicted {fitted.classifier.transduction_[row]}"


def _metrics(classifier: DAHGNNClassifier, labels: Array, seconds: float) -> dict[str, Any]:
    held = classifier.validation_indices_
    right = classifier.transduction_[held] == labels[held]
    return {
        "rows": len(labels),
        "features": int(classifier.n_features_in_),
        "classes": [str(name) for name in classifier.classes_],
        "labelled": len(held) + len(classifier.train_indices_),
        "held_out": len(held),
        # These rows chose the epoch, which makes it somewhat too good.
        "held_out_accuracy": float(right.mean()) if len(held) else None,
        "best_epoch": classifier.best_epoch_,
        "epochs": classifier.n_iter_,
        "temperature": classifier.temperature_,
        "seconds": round(seconds, 3),
    }


def _write_json(path: Path, value: object) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_predictions(
    path: Path,
    ids: Sequence[str],
    classifier: DAHGNNClassifier,
    probabilities: Array,
    density: Array,
    given: Sequence[str | None] | None = None,
) -> None:
    """Write a row for each: id, class, probability, margin, density, and the given label if there are any."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "class", "probability", "margin", "density"] + ["given"] * (given is not None))
    best, apart = probabilities.argmax(1), margins(probabilities)
    for row, name in enumerate(ids):
        numbers = (probabilities[row, best[row]], apart[row], density[row])
        cells = [name, str(classifier.classes_[best[row]]), *(f"{number:.6g}" for number in numbers)]
        writer.writerow(cells if given is None else [*cells, given[row] or ""])
    with replacing(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8", newline="")


def _view(
    title: str, table: Table, classifier: DAHGNNClassifier, metrics: dict[str, Any], kind: str
) -> FitView:
    """Gather what the page shows."""
    n = len(table.ids)
    names = [str(name) for name in classifier.classes_]
    places = {name: place for place, name in enumerate(names)}
    role = np.zeros(n, dtype=np.int64)
    role[classifier.train_indices_], role[classifier.validation_indices_] = 1, 2
    position, projection = _position(classifier, kind)
    members, attention = _own_hyperedges(classifier)
    held = metrics["held_out_accuracy"]
    facts = {
        "rows": f"{n:,}, of which {metrics['labelled']:,} are labelled",
        "held-out accuracy": "–" if held is None else f"{100 * held:.1f} % of {metrics['held_out']}",
        "fit": f"{metrics['seconds']:.0f} s, {metrics['epochs']} epochs",
    }
    return FitView(
        title=title,
        ids=table.ids,
        classes=names,
        probabilities=classifier.label_distributions_,
        given=np.array([-1 if label is None else places[label] for label in table.labels or ()]),
        role=role,
        density=classifier.density_,
        position=position,
        members=members,
        attention=attention,
        history=classifier.history_,
        best_epoch=classifier.best_epoch_,
        metrics=facts,
        images=_as_images(table.features),
        projection=projection,
    )


def _position(classifier: DAHGNNClassifier, kind: str) -> tuple[Array, str]:
    """Place the rows on a map by their hidden units, of which similar rows have similar ones."""
    hidden = classifier.traces()[0].back.sums.flatten(1)
    if kind == "tsne" or (kind == "auto" and len(hidden) <= _MOST_FOR_TSNE and len(hidden) > 3):
        return tsne(hidden, seed=0).numpy(), "t-SNE"
    centred = hidden - hidden.mean(0)
    _, _, axes = torch.pca_lowrank(centred, q=min(2, *hidden.shape), center=False)
    placed = (centred @ axes).numpy()
    return np.pad(placed, ((0, 0), (0, 2 - placed.shape[1]))), "principal components"


def _own_hyperedges(classifier: DAHGNNClassifier) -> tuple[Array, Array]:
    """Return the members of the hyperedge centred at each row, the centre first, and their weights."""
    hypergraph = classifier.hypergraph_
    there = means(classifier.traces()[1], hypergraph, "there").numpy()
    offsets, nodes = hypergraph.by_hyperedge.offsets.numpy(), hypergraph.by_hyperedge.indices.numpy()
    n, size = hypergraph.n_nodes, int(np.diff(offsets).max())
    members, weights = np.full((n, size), -1, dtype=np.int64), np.zeros((n, size))
    centres = np.arange(n) if hypergraph.centres is None else hypergraph.centres.numpy()
    for number, centre in enumerate(centres):
        part = slice(offsets[number], offsets[number + 1])
        order = np.argsort(nodes[part] != centre, kind="stable")
        members[centre, : len(order)] = nodes[part][order]
        weights[centre, : len(order)] = there[part][order]
    return members, weights


def _as_images(features: Array) -> Array | None:
    """Return rows as square pictures if they look like such: whole numbers from 0 to 255, or 0 to 1."""
    side = int(np.sqrt(features.shape[1]))
    if side < 8 or side**2 != features.shape[1] or features.min() < 0 or features.max() > 255:
        return None
    scale = 255 / max(float(features.max()), 1e-9) if features.max() <= 16 else 1
    return (features * scale).astype(np.uint8).reshape(-1, side, side)
