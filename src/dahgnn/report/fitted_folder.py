"""What a fit has left in its folder, for new rows, explanations and suggestions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dahgnn.checks import bad_value, did_you_mean
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.explanation import Explanation, explain, margins, suggest
from dahgnn.classifier.saving import Saved, load_saved
from dahgnn.progress import Observer
from dahgnn.report.fit_files import METRICS, MODEL, SHARDS, fit_id, readable, settle_for_reading
from dahgnn.report.prediction_shards import ShardNames
from dahgnn.report.predictions import Predictions
from dahgnn.tables.columns import Column
from dahgnn.tables.formats import find_format, reading_as_fitted
from dahgnn.tables.keeping import unpack_columns
from dahgnn.tables.messages import no_column
from dahgnn.tables.sources import Reading
from dahgnn.tables.table import read_table

_AS_FITTED = Reading()


def predict_table(
    folder: Path, path: Path, name: str | None, observer: Observer, reading: Reading = _AS_FITTED
) -> Predictions:
    """Predict the rows of another file.

    The ids are those of the column ``name``, else of the fitted table's column, unless that was a file. What
    ``reading`` does not say is as at the fit.
    """
    with observer.phase(f"Read {folder / MODEL}"):
        fitted = FittedFolder.open(folder)
    wanted = name
    if wanted is None and find_format(path, reading).roles == "columns":
        wanted = fitted.id
    said = reading.given
    reading = reading_as_fitted(path, reading, fitted.reading)
    kept = [f"--{name} '{value}'" for name, value in reading.given.items() if name not in (*said, "shape")]
    if kept:
        observer.note(f"{path.name} is read as at the fit, with {', '.join(kept)}.")
    with observer.phase(f"Read {path.name}"):
        table = read_table(path, id=wanted, columns=fitted.columns, reading=reading)
    if name is not None and table.source.ids is None:
        raise no_column(path, name, table.source.cells, "for --id")
    if fitted.hyperedges is not None:
        observer.note(
            f"New rows are in none of the hyperedges that the fit had from {fitted.hyperedges.file}: each "
            f"joins its {fitted.classifier.k_} nearest fitted rows by its features."
        )
    for note in table.notes:
        observer.note(note)
    with observer.phase(f"Predict {len(table.ids):,} rows"):
        found = fitted.classifier.evaluate(table.features)
    return Predictions(
        ids=table.ids,
        classes=[str(label) for label in fitted.classifier.classes_],
        probabilities=found.distributions,
        density=found.density,
    )


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A row to label next, with its predicted class, the margin of the prediction and its density."""

    id: str
    predicted: str
    margin: float
    density: float


@dataclass(frozen=True)
class FittedHyperedges:
    """The file that hyperedges of a fit came from, and the names of the first of them."""

    file: str
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FittedFolder:
    """A folder that `fit_table` filled.

    Attributes
    ----------
    classifier : DAHGNNClassifier
        The fitted classifier.
    columns : tuple of Column
        How the cells of a table become features.
    ids : list of str, or ShardNames
        The ids of the fitted rows; of a table that is larger than memory, those in its predictions.
    labels : list of (str or None)
        The given labels of the fitted rows; empty if the table is larger than memory.
    id : str or None
        The column that the ids come from.
    reading : Reading
        How the fitted file was read.
    hyperedges : FittedHyperedges or None
        What the user called them; None if they are of nearest neighbours.
    digest : str
        Tells this fit from others; empty where an earlier version wrote the file.
    """

    classifier: DAHGNNClassifier
    columns: tuple[Column, ...]
    ids: list[str] | ShardNames
    labels: list[str | None]
    id: str | None
    reading: Reading = _AS_FITTED
    hyperedges: FittedHyperedges | None = None
    digest: str = ""

    @classmethod
    def open(cls, folder: Path) -> FittedFolder:
        """Read the model of a folder, and see that the metrics beside it are of the same fit."""
        path = folder / MODEL
        classifier, notes, tensors = _load(folder)
        try:
            _check_texts(notes)
            arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
            columns = unpack_columns(notes["columns"], arrays)
            ids, labels = _read_names(folder, notes, len(classifier.embedding_))
            reading = Reading(**notes.get("reading", {}))
            hyperedges = _read_hyperedges(notes.get("hyperedges"), classifier.hypergraph_.n_hyperedges)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} was not written by 'dahgnn fit', or is damaged ({error}).") from error
        if len(ids) != len(classifier.embedding_) or (isinstance(ids, list) and len(labels) != len(ids)):
            raise ValueError(f"{path} is damaged: it has ids of other rows.")
        digest = str(notes.get("fit", ""))
        return cls(classifier, columns, ids, labels, notes.get("id"), reading, hyperedges, digest)

    def row(self, name: str) -> int:
        """Return the number of a row by its id."""
        ids = self.needed_names("A row")
        try:
            return ids.index(name)
        except ValueError:
            hint = did_you_mean(name, ids[:10_000])
            if ids == [str(row) for row in range(len(ids))]:
                hint = f"Ids are the numbers 0 to {len(ids) - 1}: the fit had no column of names (--id)."
            raise bad_value("row", "explain", "an id of a fitted row", repr(name), hint) from None

    def needed_names(self, what: str) -> list[str]:
        """Return all ids, which a table that is larger than memory has not; ``what`` begins the sentence."""
        if not isinstance(self.ids, list):
            raise ValueError(
                f"{what} must be of a table that fits into memory. Got one of {len(self.ids):,} rows. "
                "Fit to a part of it."
            )
        return self.ids

    def name_hyperedge(self, number: int) -> str | None:
        """Return what the user called a hyperedge, if it has a name."""
        names = () if self.hyperedges is None else self.hyperedges.names
        return names[number] if number < len(names) else None

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


def _load(folder: Path) -> Saved:
    """Return the classifier of a folder, and what the fit wrote beside it."""
    for _ in range(2):  # a fit may exchange its files just between the two that are read
        settle_for_reading(folder)
        if not (folder / MODEL).is_file():
            raise FileNotFoundError(f"There is no {MODEL} in {folder}. Make one with 'dahgnn fit'.")
        readable(folder / MODEL)
        saved = load_saved(folder / MODEL, "Make it again with 'dahgnn fit'.")
        beside = fit_id(folder)
        if beside is None or beside == saved.notes.get("fit", beside):
            return saved
    raise ValueError(f"{METRICS} and {MODEL} in {folder} are of different fits. Fit anew.")


def _read_names(
    folder: Path, notes: dict[str, Any], n_rows: int
) -> tuple[list[str] | ShardNames, list[str | None]]:
    """Return the ids and labels of a fit; those of a large one are in its predictions."""
    if notes["ids"] is None:
        return ShardNames(folder / SHARDS, n_rows, int(notes["rows_of_a_shard"])), []
    return list(notes["ids"]), list(notes["labels"])


def _check_texts(notes: dict[str, Any]) -> None:
    """Refuse ids and labels that are no texts, which only a damaged file has."""
    if notes["ids"] is None:
        if int(notes["rows_of_a_shard"]) < 1:
            raise ValueError("files without rows")
        return
    for text in (*notes["ids"], *(label for label in notes["labels"] if label is not None)):
        if not isinstance(text, str):
            raise TypeError("an id or a label is no text")
    if not isinstance(notes.get("id"), str | None):
        raise TypeError("'id' is no text")


def _read_hyperedges(kept: object, n_hyperedges: int) -> FittedHyperedges | None:
    if kept is None:
        return None
    if not isinstance(kept, dict):
        raise TypeError("'hyperedges' is no object")
    file, names = kept["file"], tuple(kept["names"])
    if not isinstance(file, str) or not all(isinstance(name, str) for name in names):
        raise TypeError("the name of a hyperedge is no text")
    if len(names) > n_hyperedges:
        raise ValueError("it names hyperedges that are not there")
    return FittedHyperedges(file, names)
