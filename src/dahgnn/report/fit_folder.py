"""Fit a classifier to a table in a file, and keep all that comes of it in one folder.

The folder holds ``model.safetensors``, ``predictions.csv``, ``metrics.json`` and ``report.html``. They are
written when the fit is done, each replaced whole: one that fails or is killed before leaves those of the last
one, and so does one that is interrupted, while in an empty folder it leaves the best so far. The page comes
last, as its map takes long; an older page does not stay beside a new model.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dahgnn.checks import bad_value, check_choice, did_you_mean
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.explanation import Explanation, explain, margins, suggest
from dahgnn.classifier.labels import encode_labels
from dahgnn.classifier.saving import load_with_notes, save_classifier
from dahgnn.classifier.stages import count_networks
from dahgnn.config import PRESETS
from dahgnn.files.atomic import replacing
from dahgnn.progress import Observer, tell_ensemble_epochs
from dahgnn.report.assessment import assess
from dahgnn.report.fit_contents import MAPS, gather_view
from dahgnn.report.fit_page import fit_page
from dahgnn.tables.columns import Column
from dahgnn.tables.formats import find_format
from dahgnn.tables.table import Table, read_table

MODEL, PREDICTIONS, METRICS, PAGE = "model.safetensors", "predictions.csv", "metrics.json", "report.html"
# The files of a fit, in the order in which a reader looks at them.
FILES = (PREDICTIONS, METRICS, MODEL, PAGE)
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What a user may choose for a fit.

    Parameters
    ----------
    label, id : str, str or None
        The columns of labels and ids, see `read_table`.
    drop, keep, missing : sequence of str
        Columns to leave out, columns that become features although they count the rows, and words that mean
        missing.
    k, seed : int
        The number of neighbours of a row, and the seed of everything that is random.
    validation : float
        Share of the labelled rows of each class that each network holds out; 0 is none.
    networks, scale, device
        As in `DAHGNNClassifier`.
    map : {"auto", "tsne", "pca"}
        How the page places the rows; "auto" is t-SNE for 100 rows or more.
    """

    label: str
    id: str | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    missing: Sequence[str] = ()
    k: int = 10
    seed: int = 0
    networks: int | str = "auto"
    validation: float = 0.2
    scale: str = "auto"
    device: str = "auto"
    map: str = "auto"


def fit_table(path: Path, folder: Path, options: FitOptions, observer: Observer) -> dict[str, Any]:
    """Fit a classifier to a file and fill the folder.

    Parameters
    ----------
    path, folder : Path
        The table, and where results go; files of an earlier fit there are replaced.
    options : FitOptions
        What to do.
    observer : Observer
        Sees the phases, and what was understood of the file before anything starts.

    Returns
    -------
    dict
        The metrics.
    """
    check_choice("map", options.map, MAPS, "fit")
    for name in ("jinja2", "openTSNE"):
        import_module(name)  # fails now rather than after the fit
    with observer.phase(f"Read {path.name}"):
        table = read_table(
            path,
            label=options.label,
            id=options.id,
            drop=options.drop,
            keep=options.keep,
            missing=options.missing,
        )
    for note in table.notes:
        observer.note(note)
    labels = np.array(table.labels, dtype=object)
    encode_labels(labels, len(labels))  # refuses what no fit can learn from, before there is a folder
    if path.parent.resolve() == folder.resolve() and path.name in FILES:
        raise ValueError(f"The results in {folder} would replace {path.name}. Choose another folder.")
    _make_folder(folder)
    start = time.perf_counter()
    classifier = _fit(table.features, labels, options, observer)
    interrupted = classifier.stopped_ == "interrupted"
    if interrupted and (folder / MODEL).exists():
        observer.note(f"The fit that was in {folder} stays.")
        raise KeyboardInterrupt
    metrics = _metrics(classifier, labels, time.perf_counter() - start)
    with observer.phase("Compare with simple methods"):
        metrics["assessment"] = assess(classifier, table.features, labels).as_dict(table.ids)
    with observer.phase("Write"):
        _write_text(folder / METRICS, json.dumps(metrics, indent=1, ensure_ascii=False) + "\n")
        values = classifier.label_distributions_, classifier.density_
        _write_text(folder / PREDICTIONS, _predictions(table.ids, classifier, *values, given=table.labels))
        save_classifier(classifier, folder / MODEL, _about(path, table, options))
        (folder / PAGE).unlink(missing_ok=True)  # it shows another fit
    # The page comes last, as it takes long: who is interrupted here has all the rest.
    hurried = interrupted and options.map == "auto"
    with observer.phase("Draw the map"):
        view = gather_view(path.name, table, classifier, metrics, "pca" if hurried else options.map)
        _write_text(folder / PAGE, fit_page(view))
    return metrics


def _fit(features: Array, labels: Array, options: FitOptions, observer: Observer) -> DAHGNNClassifier:
    """Fit, and tell how far it is; after Ctrl-C the classifier is the best so far."""
    classifier = DAHGNNClassifier(
        k=options.k,
        networks=options.networks,
        validation=options.validation,
        scale=options.scale,
        random_state=options.seed,
        device=options.device,
    )
    with observer.phase(f"Fit {len(labels):,} rows") as progress, warnings.catch_warnings():
        # An interruption is in ``stopped_``, too, which decides what is said of it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        count = count_networks(options.networks, len(labels))
        callback = tell_ensemble_epochs(progress, PRESETS["default"].training.max_epochs, count)
        classifier.fit(features, labels, callback=callback)
        count = len(classifier.networks_)
        networks = "1 network" if count == 1 else f"{count} networks"
        progress(1, 1, f"{networks}  {classifier.n_iter_} epochs")
    return classifier


def _about(path: Path, table: Table, options: FitOptions) -> dict[str, Any]:
    """Return what `FittedFolder` needs beside the classifier."""
    return {
        "columns": [asdict(column) for column in table.columns],
        "names": table.names,
        "ids": table.ids,
        "labels": table.labels,
        "label": options.label,
        "id": options.id,
        "file": path.name,
    }


def _make_folder(folder: Path) -> None:
    """Make the folder, and see whether it can be written to before anything takes time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"The folder {folder} cannot be written to ({reason}). Choose another.") from error


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def predict_table(folder: Path, path: Path, target: Path, name: str | None, observer: Observer) -> int:
    """Predict the rows of another file, and write them to a CSV file; return how many.

    The ids are those of the column ``name``, else of the fitted table's column, unless that was a file.
    """
    if any(target.exists() and target.samefile(each) for each in (path, folder / MODEL) if each.exists()):
        raise ValueError(
            f"Predictions would replace {target}, which they are made from. Choose another file."
        )
    with observer.phase(f"Read {folder / MODEL}"):
        fitted = FittedFolder.open(folder)
    if name is None and not find_format(path).labels_in_other_files:
        name = fitted.id
    with observer.phase(f"Read {path.name}"):
        table = read_table(path, id=name, columns=fitted.columns)
    for note in table.notes:
        observer.note(note)
    with observer.phase(f"Predict {len(table.ids):,} rows"):
        found = fitted.classifier.evaluate(table.features)
        _write_text(target, _predictions(table.ids, fitted.classifier, found.distributions, found.density))
    return len(table.ids)


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A row to label next, with its predicted class, the margin of the prediction and its density."""

    id: str
    predicted: str
    margin: float
    density: float


@dataclass(frozen=True, eq=False)
class FittedFolder:
    """A folder that `fit_table` filled.

    Attributes
    ----------
    classifier : DAHGNNClassifier
        The fitted classifier.
    columns : tuple of Column
        How the cells of a table become features.
    ids, labels : list of str, list of str or None
        The ids and the given labels of the fitted rows.
    id : str or None
        The column that the ids come from.
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
        classifier, notes = load_with_notes(path)
        try:
            _check_texts(notes)
            columns = tuple(
                Column(**{**column, "categories": tuple(column["categories"])}) for column in notes["columns"]
            )
            ids, labels = list(notes["ids"]), list(notes["labels"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} was not written by 'dahgnn fit', or is damaged ({error}).") from error
        if not len(ids) == len(labels) == len(classifier.embedding_):
            raise ValueError(f"{path} is damaged: it has ids of other rows.")
        return cls(classifier, columns, ids, labels, notes.get("id"))

    def row(self, name: str) -> int:
        """Return the number of a row by its id."""
        try:
            return self.ids.index(name)
        except ValueError:
            hint = did_you_mean(name, self.ids[:10_000])
            raise bad_value("row", "explain", "an id of a fitted row", repr(name), hint) from None

    def explain(self, name: str) -> Explanation:
        """Return why a row, given by its id, got its label."""
        return explain(self.classifier, self.row(name))

    def suggest(self, count: int) -> list[Suggestion]:
        """Return the rows to label next, the first of which helps most."""
        classifier = self.classifier
        margin = margins(classifier.label_distributions_)
        return [
            Suggestion(
                id=self.ids[row],
                predicted=str(classifier.transduction_[row]),
                margin=float(margin[row]),
                density=float(classifier.density_[row]),
            )
            for row in suggest(classifier, count)
        ]


def _check_texts(notes: dict[str, Any]) -> None:
    """Refuse ids and labels that are no texts, which only a damaged file has."""
    for text in (*notes["ids"], *(label for label in notes["labels"] if label is not None)):
        if not isinstance(text, str):
            raise TypeError("an id or a label is no text")
    if not isinstance(notes.get("id"), str | None):
        raise TypeError("'id' is no text")


def _metrics(classifier: DAHGNNClassifier, labels: Array, seconds: float) -> dict[str, Any]:
    held = classifier.held_out_indices_
    right = classifier.classes_[classifier.held_out_distributions_.argmax(1)] == labels[held]
    return {
        "rows": len(labels),
        "features": int(classifier.n_features_in_),
        "classes": [str(name) for name in classifier.classes_],
        "labelled": len(classifier.labelled_indices_),
        "held_out": len(held),
        # Each of them is judged by networks and experts that have not seen its label.
        "held_out_accuracy": float(right.mean()) if len(held) else None,
        "estimate": None if classifier.estimate_ is None else asdict(classifier.estimate_),
        "networks": len(classifier.networks_),
        "best_epoch": classifier.best_epoch_,
        "epochs": classifier.n_iter_,
        "stopped": classifier.stopped_,
        "combination": classifier.combination_,
        "seconds": round(seconds, 3),
    }


def _predictions(
    ids: Sequence[str],
    classifier: DAHGNNClassifier,
    probabilities: Array,
    density: Array,
    given: Sequence[str | None] | None = None,
) -> str:
    """Write CSV: id, class, probability, margin and density of each row, and the given label if any."""
    text = io.StringIO()
    # A bare carriage return ends a line for many readers, but is not quoted by itself.
    words = (*ids, *map(str, classifier.classes_), *(given or ()))
    bare = any("\r" in word for word in words if word)
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL)
    writer.writerow(["id", "class", "probability", "margin", "density"] + ["given"] * (given is not None))
    best, margin = probabilities.argmax(1), margins(probabilities)
    for row, name in enumerate(ids):
        numbers = (probabilities[row, best[row]], margin[row], density[row])
        cells = [name, str(classifier.classes_[best[row]]), *(f"{number:.6g}" for number in numbers)]
        writer.writerow(cells if given is None else [*cells, given[row] or ""])
    return text.getvalue()
