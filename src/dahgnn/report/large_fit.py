"""Fit a classifier to a table that is larger than memory, and keep all that comes of it in one folder.

Features, labels and ids are in files of a working folder while the fit runs, as `dahgnn.tables.large_tables`
has them. The folder of results has ``model.safetensors``, ``metrics.json`` and ``report.html`` as that of any
fit has, exchanged as one. Predictions are a folder ``predictions`` of Parquet files, as a text file of so
many rows would be of little use; and the page shows some of the rows.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from dahgnn.checks import bad_value
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.saving import save_classifier
from dahgnn.classifier.stages import count_networks
from dahgnn.classifier.workplace import keeping_work
from dahgnn.config import PRESETS
from dahgnn.distributed import check_same, failing_together, make_for_all, take_from_first
from dahgnn.files.exchange import exchanging
from dahgnn.files.scratch import Scratch
from dahgnn.kernels.cpu.memory import release_memory
from dahgnn.progress import Observer, SilentObserver, tell_ensemble_epochs, tell_shards
from dahgnn.report.assessment import assess_encoded
from dahgnn.report.class_shares import complete_shares, note_all_labelled, note_equal_counts, note_shares
from dahgnn.report.fit_files import (
    FILES,
    METRICS,
    MODEL,
    PAGE,
    SHARDS,
    check_inputs_stay,
    replace_metrics,
    write_json,
    write_text,
)
from dahgnn.report.fit_metrics import check_class_weight, gather_metrics, gather_origin
from dahgnn.report.fit_options import FitOptions, make_classifier, plan_fit
from dahgnn.report.fit_page import fit_page
from dahgnn.report.large_page import gather_large_view
from dahgnn.report.prediction_shards import ManyPredictions, rows_of_a_shard, write_shards
from dahgnn.tables.coded_labels import CodedLabels
from dahgnn.tables.keeping import pack_columns
from dahgnn.tables.labels import check_labels
from dahgnn.tables.large_sources import LargeSource, PartRows
from dahgnn.tables.large_tables import (
    LargeSurvey,
    LargeTable,
    open_source,
    read_large_table,
    survey_large,
)
from dahgnn.tables.messages import Problems, combined_error
from dahgnn.tables.sources import text_array
from dahgnn.world import ALONE, World


def fit_large_table(
    source: LargeSource,
    folder: Path,
    options: FitOptions,
    observer: Observer,
    owned: AbstractContextManager[None],
    world: World = ALONE,
) -> dict[str, Any]:
    """Fit a classifier to a large table and fill the folder.

    Parameters
    ----------
    source : LargeSource
        The table.
    folder : Path
        Where results go; files of an earlier fit there are replaced.
    options : FitOptions
        What to do. ``resources.folder`` is where features lie meanwhile.
    observer : Observer
        Sees the phases, and what was understood of the table before anything starts.
    owned : context manager
        Makes the folder and keeps others out of it; it is entered once the table has been understood.
    world : World
        The processes that fit together, of which this is the first.

    Returns
    -------
    dict
        The metrics.
    """
    beside = [Path(name) for name in (options.label, options.id) if name and source.is_array]
    with Scratch(working_folder(options)) as scratch, ExitStack() as stack:
        with failing_together(world):
            check_inputs_stay(folder, [source.path, *beside])
            with observer.phase(f"Look through {source.path.name}"):
                survey = survey_large_fit(source, options, scratch)
            for note in survey.notes:
                observer.note(note)
            labels = _labels_of(survey)
            n_classes = len(labels.classes)
            sizes = source.n_rows, survey.width, n_classes, labels.n_labelled
            plan = plan_fit(*sizes, options, world.size)
            for sentence in plan.describe():
                observer.note(sentence)
        _check_alike(world, survey)
        with observer.phase(f"Read {source.n_rows:,} rows") as progress:
            tables: list[LargeTable] = []

            def read(room: Scratch) -> Tensor:
                stack.enter_context(owned)
                tables.append(read_large_table(survey, scratch, id=options.id, room=room, progress=progress))
                return tables[0].features

            make_for_all(world, scratch, read)
        for note in tables[0].notes[len(survey.notes) :]:
            observer.note(note)
        shares = complete_shares(options.class_prior, labels.classes)
        chosen = replace(options, class_prior=shares)
        release_memory()  # blocks of cells came and went
        return _fit_to_folder(source, folder, tables[0], labels, chosen, observer, world)


def fit_large_beside(path: Path, options: FitOptions, world: World) -> None:
    """Fit together with the process that fills the folder, which reads the table for all."""
    with Scratch(working_folder(options)) as scratch:
        with failing_together(world):
            source = open_source(path, options.reading) if path.exists() else None
            if source is None:
                raise bad_value("table", "fit", "the same for all processes", f"no such table at {path}")
            survey = survey_large_fit(source, options, scratch)
            labels = _labels_of(survey)
        _check_alike(world, survey)
        features = take_from_first(world)
        shares = complete_shares(options.class_prior, labels.classes)
        _fit(features, labels, replace(options, class_prior=shares), SilentObserver())
        with failing_together(world):
            pass  # the first process writes the results


def _labels_of(survey: LargeSurvey) -> CodedLabels:
    """Return the labels of a table that a fit can learn from."""
    if survey.problems or survey.labels is None:
        raise combined_error(survey.source.path, survey.problems)
    return survey.labels


def _check_alike(world: World, survey: LargeSurvey) -> None:
    """Refuse, in all processes, that they see tables of other sizes."""
    check_same(world, f"{survey.source.n_rows:,} rows of {survey.width:,} features", "table")


def working_folder(options: FitOptions) -> Path:
    """Return where large arrays lie as long as a fit runs."""
    return Path(options.resources.folder or tempfile.gettempdir())


def survey_large_fit(source: LargeSource, options: FitOptions, scratch: Scratch) -> LargeSurvey:
    """Look through a large table for a fit, and return all that keeps one from starting."""
    if options.label is None:
        raise no_label(source.path)
    if options.hyperedges is not None:
        remedy = "Hyperedges of your own are for tables that fit into memory."
        got = f"{options.hyperedges} for {source.n_rows:,} rows"
        raise bad_value("hyperedges", "fit", "left out for so large a table", got, remedy)
    survey = survey_large(source, scratch, label=options.label, id=options.id, choices=options.choices)
    problems, told = Problems(), []
    with problems.gathered():
        Parameters.of(make_classifier(options))
    if survey.labels is not None:
        labels = survey.labels
        with problems.gathered():
            check_labels(labels.classes, options.label)
        with problems.gathered():
            check_class_weight(options.class_weight, labels.classes)
        with problems.gathered():
            shares = complete_shares(options.class_prior, labels.classes)
            told = note_equal_counts(labels.counts) if shares is None else [note_shares(shares)]
            told += note_all_labelled(labels.counts)
    return replace(
        survey,
        notes=(*survey.notes, *told),
        problems=(*survey.problems, *problems.sentences),
    )


def no_label(path: Path) -> ValueError:
    """Return the error of a table without a column of labels."""
    return ValueError(f"A column of {path} must have the labels. Got none. Name it with --label.")


def _fit_to_folder(
    source: LargeSource,
    folder: Path,
    table: LargeTable,
    labels: CodedLabels,
    options: FitOptions,
    observer: Observer,
    world: World,
) -> dict[str, Any]:
    """Fit, and exchange the results with those of an earlier fit."""
    origin = gather_origin(source.path, table.notes, make_classifier(options), options.command)
    origin["files"] = _files(source)
    with keeping_work():
        start = time.perf_counter()
        classifier = _fit(table.features, labels, options, observer)
        interrupted = classifier.stopped_ == "interrupted"
        if interrupted and (folder / MODEL).exists():
            observer.note(f"The fit that was in {folder} stays.")
            raise KeyboardInterrupt
        metrics = gather_metrics(classifier, labels, time.perf_counter() - start) | origin
        with (
            failing_together(world),  # the others wait: they are needed again if this fails
            observer.phase("Write") as progress,
            exchanging(folder, FILES) as stage,
        ):
            predictions = ManyPredictions(
                ids=table.ids,
                classes=labels.classes,
                probabilities=classifier.label_distributions_,
                density=classifier.density_,
                given=labels,
            )
            metrics = {"fit": write_shards(stage / SHARDS, predictions, progress)} | metrics
            write_json(stage / METRICS, metrics)
            columns, arrays = pack_columns(table.columns)
            notes = _about(source, table, labels, options) | {"columns": columns, "fit": metrics["fit"]}
            save_classifier(classifier, stage / MODEL, notes, arrays)
    observer.note(f"Predictions are Parquet files in {folder / SHARDS}: for so many rows there is no CSV.")
    with observer.phase("Compare with simple methods"):
        found = assess_encoded(classifier, table.features.numpy(), labels.classes, labels.codes.numpy())
        metrics["assessment"] = found.as_dict(table.ids)
        replace_metrics(folder, metrics)
    with observer.phase("Draw the page") as progress:
        kind = "pca" if interrupted and options.map == "auto" else options.map
        view = gather_large_view(source.path.name, table, labels, classifier, metrics, kind, progress)
        page = fit_page(view)
    with exchanging(folder, (PAGE,)) as stage:
        write_text(stage / PAGE, page)
    return metrics


def _files(source: LargeSource) -> list[dict[str, Any]]:
    """Return the files of a table with their numbers of rows, in order."""
    if not isinstance(source, PartRows):
        return [{"file": source.path.name, "rows": source.n_rows}]
    return [{"file": file.path.name, "rows": file.n_rows} for file in source.parts.files]


def _fit(features: Tensor, labels: CodedLabels, options: FitOptions, observer: Observer) -> DAHGNNClassifier:
    """Fit to the numbers of classes, and call these by their names afterwards."""
    classifier = make_classifier(options)
    classifier.set_params(
        class_weight=_by_number(classifier.class_weight, labels.classes),
        class_prior=_by_number(classifier.class_prior, labels.classes),
    )
    n = len(labels)
    with observer.phase(f"Fit {n:,} rows") as progress, warnings.catch_warnings():
        # An interruption is in ``stopped_``, too, which decides what is said of it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        count = count_networks(options.networks, n)
        callback = tell_ensemble_epochs(progress, PRESETS["default"].training.max_epochs, count)
        classifier.fit(
            features.numpy(), labels.codes.numpy(), callback=callback, progress=tell_shards(progress)
        )
        networks = "1 network" if count == 1 else f"{count} networks"
        progress(1, 1, f"{networks}  {classifier.n_iter_} epochs")
    classifier.classes_ = np.array(labels.classes)
    classifier.transduction_ = text_array(labels.classes)[classifier.transduction_]
    return classifier


def _by_number(said: Any, classes: Sequence[str]) -> Any:
    """Return what was said of classes by their names with their numbers in place of them."""
    if not isinstance(said, dict):
        return said
    return {number: said[name] for number, name in enumerate(classes) if name in said}


def _about(
    source: LargeSource, table: LargeTable, labels: CodedLabels, options: FitOptions
) -> dict[str, Any]:
    """Return what `FittedFolder` needs beside the classifier and the columns; ids are in the predictions."""
    return {
        "names": table.names,
        "ids": None,
        "labels": None,
        "rows_of_a_shard": rows_of_a_shard(len(labels.classes)),
        "label": options.label,
        "id": options.id,
        "file": source.path.name,
        "reading": replace(options.reading, format=None).given,
        "hyperedges": None,
    }
