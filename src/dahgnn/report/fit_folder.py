"""A fit on a table in a file, and all that comes of it in one folder.

The folder holds ``model.safetensors``, ``predictions.csv``, ``metrics.json`` and ``report.html``. They are
written when the fit is done, each replaced whole: one that fails or is killed before leaves those of the last
one, and so does one that is interrupted, while in an empty folder it leaves the best so far. The page comes
last, as its map takes long; an older page does not stay beside a new model.
"""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from dahgnn.checks import bad_value, check_choice
from dahgnn.checks import suggest as did_you_mean
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.explanation import Explanation, explain, margins, means, suggest
from dahgnn.classifier.labels import encode_labels
from dahgnn.classifier.saving import load_classifier, save_classifier
from dahgnn.files.atomic import replacing
from dahgnn.report.fit_page import FitView, fit_page
from dahgnn.report.projection import MOST_BY_TSNE, tsne
from dahgnn.tables.columns import Column, as_texts
from dahgnn.tables.sources import Source
from dahgnn.tables.table import Table, read_table
from dahgnn.training.run import Epoch

MODEL, PREDICTIONS, METRICS, PAGE = "model.safetensors", "predictions.csv", "metrics.json", "report.html"
MAPS = ("auto", "tsne", "pca")
# Rows from which "auto" makes a t-SNE: fewer are no crowd.
_FEWEST_FOR_TSNE = 100
# Columns of the table that the page shows of a row, and cells of them in all.
_MOST_COLUMNS, _MOST_CELLS = 12, 500_000
# Pictures are at least so high and wide.
_LEAST_SIDE = 4
Array = NDArray[Any]


class Display(Protocol):
    """Who shows what is going on."""

    def stage(
        self, name: str, config: Any = None, networks: int = 1
    ) -> AbstractContextManager[Callable[[int, Epoch], None]]:
        """Show a stage until the block ends, and epochs of networks that are trained in it."""

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
    validation : float or None
        Share of the labelled rows of each class that each network holds out.
    networks, scale, device
        As in `DAHGNNClassifier`.
    map : {"auto", "tsne", "pca"}
        How the page places the rows; "auto" is t-SNE for 100 rows or more.
    """

    label: str
    id: str | None = None
    drop: Sequence[str] = ()
    k: int = 10
    seed: int = 0
    networks: int | str = "auto"
    validation: float | None = 0.2
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
    for name in ("openTSNE", "plotly"):
        import_module(name)  # fails now rather than after the fit
    with display.stage(f"Read {path.name}"):
        table = read_table(path, label=options.label, id=options.id, drop=options.drop)
    for note in table.notes:
        display.note(note)
    labels = np.array(table.labels, dtype=object)
    encode_labels(labels, len(labels))  # refuses what no fit can learn from, before there is a folder
    if path.parent.resolve() == folder.resolve() and path.name in (MODEL, PREDICTIONS, METRICS, PAGE):
        raise ValueError(f"The results in {folder} would replace {path.name}. Choose another folder.")
    _make_folder(folder)
    start = time.perf_counter()
    classifier = _fit(table.features, labels, options, display)
    interrupted = classifier.stopped_ == "interrupted"
    if interrupted and (folder / MODEL).exists():
        display.note(f"The fit that was in {folder} stays.")
        raise KeyboardInterrupt
    metrics = _metrics(classifier, labels, time.perf_counter() - start)
    with display.stage("Write"):
        _write_text(folder / METRICS, json.dumps(metrics, indent=1, ensure_ascii=False) + "\n")
        values = classifier.label_distributions_, classifier.density_
        _write_text(folder / PREDICTIONS, _predictions(table.ids, classifier, *values, given=table.labels))
        save_classifier(classifier, folder / MODEL, _about(path, table, options))
        (folder / PAGE).unlink(missing_ok=True)  # of another fit
    # Last, as it takes long: who is interrupted here has all the rest.
    hurried = interrupted and options.map == "auto"
    with display.stage("Draw the map"):
        view = _view(path.name, table, classifier, metrics, "pca" if hurried else options.map)
        _write_text(folder / PAGE, fit_page(view))
    return metrics


def _fit(features: Array, labels: Array, options: FitOptions, display: Display) -> DAHGNNClassifier:
    """Fit, and show how far it is; after Ctrl-C it is the best so far."""
    classifier = DAHGNNClassifier(
        k=options.k,
        networks=options.networks,
        validation=options.validation,
        scale=options.scale,
        random_state=options.seed,
        device=options.device,
    )
    count = classifier.count_networks(len(labels))
    with display.stage(f"Fit {len(labels):,} rows", classifier, count) as show:
        try:
            classifier.fit(features, labels, callback=show)
        except KeyboardInterrupt:
            if getattr(classifier, "stopped_", None) != "interrupted":
                raise  # before there was anything
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


def predict_table(folder: Path, path: Path, target: Path, name: str | None, display: Display) -> int:
    """Predict the rows of another file, and write them to a CSV file; return how many.

    The ids are those of the column ``name``, else of the fitted table's column, unless that was a file.
    """
    if any(target.exists() and target.samefile(each) for each in (path, folder / MODEL) if each.exists()):
        raise ValueError(
            f"Predictions would replace {target}, which they are made from. Choose another file."
        )
    with display.stage(f"Read {folder / MODEL}"):
        fitted = FittedFolder.open(folder)
    if name is None and path.suffix.lower() != ".npy":
        name = fitted.id
    with display.stage(f"Read {path.name}"):
        table = read_table(path, id=name, columns=fitted.columns)
    for note in table.notes:
        display.note(note)
    with display.stage(f"Predict {len(table.ids):,} rows"):
        values = fitted.classifier.predict_proba_and_density(table.features)
        _write_text(target, _predictions(table.ids, fitted.classifier, *values))
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
            _check_words(saved.about)
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
            (shown(self.ids[row]), shown(label), float(margin), float(density))
            for row, label, margin, density in zip(rows, *values, strict=True)
        ]


def _check_words(about: dict[str, Any]) -> None:
    for word in (*about["ids"], *(label for label in about["labels"] if label is not None)):
        if not isinstance(word, str):
            raise TypeError("a name that is no word")
    if not isinstance(about.get("id"), str | None):
        raise TypeError("'id' is no word")


def shown(text: object) -> str:
    """Return text for a terminal: what would steer it or break the line becomes a mark."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(text))


def describe(explanation: Explanation, fitted: FittedFolder, most: int = 5) -> str:
    """Write an explanation as text."""
    classifier, row = fitted.classifier, explanation.row
    probabilities = classifier.label_distributions_[row]
    order = np.argsort(-probabilities)[:3]
    ranking = ", ".join(
        f"{shown(classifier.classes_[place])} {100 * probabilities[place]:.1f} %" for place in order
    )
    lines = [f"Row {shown(fitted.ids[row])}: {ranking}."]
    if fitted.labels[row] is not None:
        lines.append(f"Its given label is {shown(fitted.labels[row])}.")
    total = sum(share.weight for share in explanation.labelled)
    lines.append(f"\nLabelled rows that its attention came from (all of them: {100 * total:.1f} %):")
    lines += [
        f"  {100 * share.weight:5.2f} %  {shown(fitted.ids[share.row])}: {shown(fitted.labels[share.row])}"
        for share in explanation.labelled[:most]
    ] or ["  none: no labelled row is within reach of two layers."]
    lines.append("\nHyperedges that it listened to in the last layer, and who spoke most in each:")
    for hyperedge in explanation.hyperedges[:most]:
        centre = "" if hyperedge.centre is None else f" around {shown(fitted.ids[hyperedge.centre])}"
        members = ", ".join(
            f"{shown(fitted.ids[share.row])} ({_word(fitted, share.row)}) {100 * share.weight:.0f} %"
            for share in hyperedge.members[:4]
        )
        lines.append(f"  {100 * hyperedge.weight:5.2f} %  hyperedge{centre}: {members}")
    return "\n".join(lines)


def _word(fitted: FittedFolder, row: int) -> str:
    given = fitted.labels[row]
    return shown(given if given is not None else f"predicted {fitted.classifier.transduction_[row]}")


def _metrics(classifier: DAHGNNClassifier, labels: Array, seconds: float) -> dict[str, Any]:
    held = classifier.held_out_indices_
    right = classifier.classes_[classifier.held_out_distributions_.argmax(1)] == labels[held]
    return {
        "rows": len(labels),
        "features": int(classifier.n_features_in_),
        "classes": [str(name) for name in classifier.classes_],
        "labelled": len(classifier.labelled_indices_),
        "held_out": len(held),
        # By networks that have not learned from the row's label. It chose their epoch, which makes it
        # somewhat too good; but each is alone, and learned from fewer labels than there are.
        "held_out_accuracy": float(right.mean()) if len(held) else None,
        "networks": len(classifier.networks_),
        "best_epochs": classifier.best_epochs_,
        "epochs": classifier.n_iter_,
        "stopped": classifier.stopped_,
        "temperature": classifier.temperature_,
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
    best, apart = probabilities.argmax(1), margins(probabilities)
    for row, name in enumerate(ids):
        numbers = (probabilities[row, best[row]], apart[row], density[row])
        cells = [name, str(classifier.classes_[best[row]]), *(f"{number:.6g}" for number in numbers)]
        writer.writerow(cells if given is None else [*cells, given[row] or ""])
    return text.getvalue()


def _view(
    title: str, table: Table, classifier: DAHGNNClassifier, metrics: dict[str, Any], kind: str
) -> FitView:
    """Gather what the page shows."""
    n = len(table.ids)
    names = [str(name) for name in classifier.classes_]
    places = {name: place for place, name in enumerate(names)}
    position, projection = _position(classifier, kind)
    members, attention = _own_hyperedges(classifier)
    held = metrics["held_out_accuracy"]
    images = _as_images(table.source)
    facts = {
        "rows": f"{n:,}, of which {metrics['labelled']:,} are labelled",
        "held-out accuracy": "–" if held is None else f"{100 * held:.1f} % of {metrics['held_out']}",
        "fit": f"{metrics['seconds']:.0f} s, {_networks(metrics)}, ended by {metrics['stopped']}",
    }
    return FitView(
        title=title,
        ids=table.ids,
        classes=names,
        probabilities=classifier.label_distributions_,
        given=np.array([-1 if label is None else places[label] for label in table.labels or ()]),
        held_out=classifier.held_out_indices_,
        held_out_probabilities=classifier.held_out_distributions_,
        density=classifier.density_,
        position=position,
        members=members,
        attention=attention,
        history=classifier.history_,
        best_epochs=classifier.best_epochs_,
        metrics=facts,
        details=None if images is not None else _details(table.source),
        images=images,
        projection=projection,
    )


def _networks(metrics: dict[str, Any]) -> str:
    """Say how many networks there are, and how long they were trained."""
    count, epochs = metrics["networks"], metrics["epochs"]
    return f"{epochs} epochs" if count == 1 else f"{count} networks, up to {epochs} epochs"


def _position(classifier: DAHGNNClassifier, kind: str) -> tuple[Array, str]:
    """Place the rows on a map by their hidden units, of which similar rows have similar ones."""
    hidden = torch.cat([first.to_nodes.sums.flatten(1) for first, _ in classifier.traces()], 1)
    if kind == "tsne" or (kind == "auto" and len(hidden) >= _FEWEST_FOR_TSNE):
        placed = tsne(hidden, seed=0).numpy()
        if np.isfinite(placed).all():  # rows that are all alike have no such map
            return placed, "t-SNE" if len(hidden) <= MOST_BY_TSNE else f"t-SNE of {MOST_BY_TSNE:,} of them"
    centred = hidden - hidden.mean(0)
    _, _, axes = torch.pca_lowrank(centred, q=min(2, *hidden.shape), center=False)
    placed = (centred @ axes).numpy()
    return np.pad(placed, ((0, 0), (0, 2 - placed.shape[1]))), "principal components"


def _own_hyperedges(classifier: DAHGNNClassifier) -> tuple[Array, Array]:
    """Return the members of the hyperedge centred at each row, the centre first, and their weights."""
    hypergraph = classifier.hypergraph_
    last = [second for _, second in classifier.traces()]
    there = means(last, hypergraph, "there").numpy()
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


def _as_images(source: Source) -> Array | None:
    """Return rows as pictures, (n, h, w) or (n, h, w, 3), if they may be such: values 0 to 255 or 0 to 1.

    An array says how high and wide they are; else they are square, of 64 or more grey values.
    """
    shape = source.shape
    if len(shape) < 2:
        side = math.isqrt(len(source.cells))
        shape = (side, side) if side >= 8 else ()
    flat = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if not flat or math.prod(shape) != len(source.cells) or min(shape[:2]) < _LEAST_SIDE:
        return None
    columns = [cells for cells in source.cells.values() if isinstance(cells, np.ndarray)]
    if len(columns) < len(source.cells) or any(cells.dtype.kind not in "biuf" for cells in columns):
        return None
    lowest, highest = (float(end([end(cells) for cells in columns])) for end in (np.min, np.max))
    if not 0 <= lowest <= highest <= 255 or highest == 0:  # NaN is neither
        return None
    parts = (cells for cells in columns if cells.dtype.kind == "f")
    if highest > 1 and not all((cells == cells.round()).all() for cells in parts):
        return None
    scale = 255 / highest if highest <= 16 else 1
    pixels = np.empty((source.n_rows, len(columns)), dtype=np.uint8)
    for place, cells in enumerate(columns):
        pixels[:, place] = cells * scale
    return pixels.reshape(-1, *shape)


def _details(source: Source) -> list[dict[str, str]] | None:
    """Return the first cells of each row as they were read; those of an array have no names."""
    if source.is_array:
        return None
    count = max(1, min(_MOST_COLUMNS, _MOST_CELLS // source.n_rows))
    names = [name for name, cells in source.cells.items() if isinstance(cells, np.ndarray)][:count]
    texts = [as_texts(source.cells[name], name) for name in names]
    return [
        {name: "–" if cell is None else cell for name, cell in zip(names, cells, strict=True)}
        for cells in zip(*texts, strict=True)
    ]
