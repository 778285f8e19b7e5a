"""Fit a classifier to a table in a file, and keep all that comes of it in one folder.

The folder holds ``model.safetensors``, ``predictions.csv``, ``metrics.json`` and ``report.html``, and
``predictions.parquet`` if wanted. A table that is larger than memory goes another way, which
`dahgnn.report.large_fit` has. They are exchanged as one when the fit is done: whatever happens meanwhile,
the folder holds the last fit or this one. One that is interrupted leaves an earlier fit, too, while in an
empty folder it leaves the best so far. What simple methods reach is added to the metrics afterwards, and
the page comes last, as its map takes long; an older page does not stay beside a new model.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dahgnn.checks import bad_value, check_choice
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.saving import save_classifier
from dahgnn.classifier.stages import count_networks
from dahgnn.classifier.workplace import keeping_work
from dahgnn.config import PRESETS
from dahgnn.distributed import failing_together, share
from dahgnn.files.exchange import exchanging
from dahgnn.progress import Observer, SilentObserver, tell_ensemble_epochs, tell_shards
from dahgnn.report.assessment import assess
from dahgnn.report.class_shares import complete_shares, note_all_labelled, note_equal_counts, note_shares
from dahgnn.report.fit_contents import MAPS, gather_view
from dahgnn.report.fit_files import (
    FILES,
    METRICS,
    MODEL,
    PAGE,
    PARQUET,
    PREDICTIONS,
    check_inputs_stay,
    file_digest,
    owning,
    replace_metrics,
    write_json,
    write_text,
)
from dahgnn.report.fit_metrics import check_class_weight, gather_metrics, gather_origin
from dahgnn.report.fit_options import FitOptions, make_classifier, plan_fit
from dahgnn.report.fit_page import fit_page
from dahgnn.report.large_fit import fit_large_beside, fit_large_table, no_label
from dahgnn.report.predictions import Predictions, as_csv, write_parquet
from dahgnn.tables.formats import find_format
from dahgnn.tables.hyperedges import read_hyperedges
from dahgnn.tables.keeping import pack_columns
from dahgnn.tables.labels import check_labels
from dahgnn.tables.large_tables import open_large
from dahgnn.tables.messages import Problems, combined_error
from dahgnn.tables.sources import Reading
from dahgnn.tables.table import Survey, Table, survey_table
from dahgnn.world import ALONE, World

Array = NDArray[Any]


def fit_table(
    path: Path, folder: Path, options: FitOptions, observer: Observer, world: World = ALONE
) -> dict[str, Any]:
    """Fit a classifier to a file and fill the folder.

    Parameters
    ----------
    path, folder : Path
        The table, and where results go; files of an earlier fit there are replaced.
    options : FitOptions
        What to do.
    observer : Observer
        Sees the phases, and what was understood of the file before anything starts.
    world : World
        The processes that fit together, of which this is the first; the others call `fit_beside`.

    Returns
    -------
    dict
        The metrics.
    """
    with ExitStack() as stack:
        with failing_together(world):
            check_choice("map", options.map, MAPS, "fit")
            if not 0 <= options.seed < 2**32:
                raise bad_value("seed", "fit", "between 0 and 2**32 - 1", options.seed)
            for name in ("jinja2", "openTSNE"):
                import_module(name)  # fails now rather than after the fit
            was_there = folder.is_dir()
            if was_there:  # a second fit in it ends at once
                stack.enter_context(owning(folder))
            source = open_large(path, options.reading) if path.exists() else None
        # Machines with more memory than this one would read a table otherwise.
        if share(world, source is not None) and source is not None:
            owned = nullcontext() if was_there else owning(folder)
            return fit_large_table(source, folder, options, observer, owned, world)
        with failing_together(world):
            table = _read(path, folder, options, observer, world.size)
            if not was_there:  # a table that teaches nothing has left no folder
                stack.enter_context(owning(folder))
        shares = complete_shares(options.class_prior, table.labels or ())
        return fit_to_folder(path, folder, table, replace(options, class_prior=shares), observer, world)


def fit_beside(path: Path, options: FitOptions, world: World) -> None:
    """Fit together with the process that fills the folder; see `DAHGNNClassifier` on several processes."""
    with failing_together(world):
        pass  # the first process looks where results go
    if share(world, False):
        fit_large_beside(path, options, world)
        return
    with failing_together(world):
        survey = survey_fit(path, options)
        table = survey.table
        if table is None:
            raise combined_error(path, survey.problems)
    shares = complete_shares(options.class_prior, table.labels or ())
    labels = np.array(table.labels, dtype=object)
    _fit(table, labels, replace(options, class_prior=shares), SilentObserver())
    with failing_together(world):
        pass  # the first process writes the results


def _read(path: Path, folder: Path, options: FitOptions, observer: Observer, processes: int) -> Table:
    """Read the table, and refuse what no fit can learn from and what the results would replace."""
    beside = [Path(name) for name in (options.label, options.id) if name]  # of arrays these are files
    given = [] if options.hyperedges is None else [options.hyperedges]
    check_inputs_stay(folder, [path, *beside, *given])
    with observer.phase(f"Read {path.name}"):
        survey = survey_fit(path, options)
    for note in survey.notes:
        observer.note(note)
    table = survey.table
    if table is None:
        raise combined_error(path, survey.problems)
    (n, d), labels = table.features.shape, [label for label in table.labels or () if label is not None]
    plan = plan_fit(n, d, len(set(labels)), len(labels), options, processes)
    for sentence in plan.describe() if plan.is_large else ():
        observer.note(sentence)
    return table


def fit_to_folder(
    path: Path, folder: Path, table: Table, options: FitOptions, observer: Observer, world: World = ALONE
) -> dict[str, Any]:
    """Fit a classifier to a table that was read from a file, and fill a folder that the caller owns."""
    labels = np.array(table.labels, dtype=object)
    origin = gather_origin(path, table.notes, make_classifier(options), options.command)
    if options.hyperedges is not None:
        origin["hyperedges"] = {"file": options.hyperedges.name, "sha256": file_digest(options.hyperedges)}
    with keeping_work():
        start = time.perf_counter()
        classifier = _fit(table, labels, options, observer)
        interrupted = classifier.stopped_ == "interrupted"
        if interrupted and (folder / MODEL).exists():
            observer.note(f"The fit that was in {folder} stays.")
            raise KeyboardInterrupt
        metrics = gather_metrics(classifier, labels, time.perf_counter() - start) | origin
        # What a user waits for comes first: who is interrupted later has it. Other processes wait, too: they
        # are needed again if this fails.
        with failing_together(world), observer.phase("Write"), exchanging(folder, FILES) as stage:
            metrics = _write_predictions(stage, table, classifier, options) | metrics
            write_json(stage / METRICS, metrics)
            columns, arrays = pack_columns(table.columns)
            notes = _about(path, table, options) | {"columns": columns, "fit": metrics["fit"]}
            save_classifier(classifier, stage / MODEL, notes, arrays)
    with observer.phase("Compare with simple methods"):
        metrics["assessment"] = assess(classifier, table.features, labels).as_dict(table.ids)
        replace_metrics(folder, metrics)
    hurried = interrupted and options.map == "auto"
    with observer.phase("Draw the page") as progress:
        kind = "pca" if hurried else options.map
        page = fit_page(gather_view(path.name, table, classifier, metrics, kind, progress))
    with exchanging(folder, (PAGE,)) as stage:
        write_text(stage / PAGE, page)
    return metrics


def _write_predictions(
    stage: Path, table: Table, classifier: DAHGNNClassifier, options: FitOptions
) -> dict[str, Any]:
    """Write what is said of each row, and return the id of the fit: the digest of that."""
    predictions = Predictions(
        ids=table.ids,
        classes=[str(label) for label in classifier.classes_],
        probabilities=classifier.label_distributions_,
        density=classifier.density_,
        given=table.labels,
    )
    write_text(stage / PREDICTIONS, as_csv(predictions))
    if options.parquet:
        write_parquet(stage / PARQUET, predictions)
    return {"fit": file_digest(stage / PREDICTIONS)}


def survey_fit(path: Path, options: FitOptions) -> Survey:
    """Read a table for a fit, and return what was understood and all that keeps a fit from starting."""
    if options.label is None and find_format(path, options.reading).roles != "folders":
        raise no_label(path)
    survey = survey_table(
        path, label=options.label, id=options.id, choices=options.choices, reading=options.reading
    )
    problems = Problems()
    with problems.gathered():
        Parameters.of(make_classifier(options))
    if survey.labels is not None:
        with problems.gathered():
            check_labels(survey.labels, options.label or path.name)
        with problems.gathered():
            check_class_weight(options.class_weight, survey.labels)
        with problems.gathered():
            shares = complete_shares(options.class_prior, survey.labels)
            told = note_equal_counts(survey.labels) if shares is None else [note_shares(shares)]
            survey = _with_notes(survey, [*told, *note_all_labelled(survey.labels)])
    if options.hyperedges is not None and survey.table is not None:
        with problems.gathered():
            survey = _with_hyperedges(survey, survey.table, options.hyperedges, options)
    if not problems.sentences:
        return survey
    return replace(survey, table=None, problems=(*survey.problems, *problems.sentences))


def _with_hyperedges(survey: Survey, table: Table, path: Path, options: FitOptions) -> Survey:
    given = read_hyperedges(path, table.ids, id_column=options.id, reading=options.reading)
    survey = replace(survey, table=replace(table, hypergraph=given.hypergraph))
    return _with_notes(survey, given.notes)


def _with_notes(survey: Survey, notes: Sequence[str]) -> Survey:
    notes = (*survey.notes, *notes)
    return replace(survey, notes=notes, table=survey.table and replace(survey.table, notes=notes))


def _fit(table: Table, labels: Array, options: FitOptions, observer: Observer) -> DAHGNNClassifier:
    """Fit, and tell how far it is; after Ctrl-C the classifier is the best so far."""
    classifier = make_classifier(options)
    with observer.phase(f"Fit {len(labels):,} rows") as progress, warnings.catch_warnings():
        # An interruption is in ``stopped_``, too, which decides what is said of it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        count = count_networks(options.networks, len(labels))
        callback = tell_ensemble_epochs(progress, PRESETS["default"].training.max_epochs, count)
        classifier.fit(
            table.features,
            labels,
            hypergraph=table.hypergraph,
            callback=callback,
            progress=tell_shards(progress),
        )
        count = len(classifier.networks_)
        networks = "1 network" if count == 1 else f"{count} networks"
        progress(1, 1, f"{networks}  {classifier.n_iter_} epochs")
    return classifier


def _about(path: Path, table: Table, options: FitOptions) -> dict[str, Any]:
    """Return what `FittedFolder` needs beside the classifier and the columns."""
    return {
        "names": table.names,
        "ids": table.ids,
        "labels": table.labels,
        "label": options.label,
        "id": options.id,
        "file": path.name,
        "reading": _reading_for_others(path, table, options.reading),
        "hyperedges": _about_hyperedges(table, options),
    }


def _about_hyperedges(table: Table, options: FitOptions) -> dict[str, Any] | None:
    """Return what the user's hyperedges are called; those behind them, which a fit may add, have no name."""
    if table.hypergraph is None or table.hypergraph.names is None or options.hyperedges is None:
        return None
    return {"file": options.hyperedges.name, "names": list(table.hypergraph.names.hyperedges)}


def _reading_for_others(path: Path, table: Table, reading: Reading) -> dict[str, Any]:
    """Return how other files are to be read: as was said, without the format, and pictures in one shape."""
    # The folder of a fit, which `dahgnn label` goes on from, has said it already.
    if path.is_dir() and not (path / MODEL).exists() and len(table.source.shape) in (2, 3):
        reading = replace(reading, shape=table.source.shape)
    return replace(reading, format=None).given
