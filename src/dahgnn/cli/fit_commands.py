"""The commands on users' tables: `fit` and `predict`."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dahgnn.cli.display import printable
from dahgnn.cli.errors import SaidElsewhereError

if TYPE_CHECKING:
    from dahgnn.config import ResourceConfig
    from dahgnn.report.fit_options import FitOptions
    from dahgnn.tables.planning import Choices
    from dahgnn.tables.sources import Reading


def run_fit(options: argparse.Namespace) -> None:
    """Fit a classifier to a table, or say what is understood of it and what a fit would need."""
    from dahgnn.cli.display import Display
    from dahgnn.cli.json_text import fit_as_json
    from dahgnn.report.fit_files import FILES
    from dahgnn.report.fit_folder import fit_table
    from dahgnn.report.fit_options import join_world_of

    folder = options.out or _default_folder(options.table)
    chosen = _read_fit_options(options)
    is_first = int(os.environ.get("RANK", "0")) == 0  # of torchrun's processes; it speaks and writes for all
    if options.dry_run:
        if options.json:
            raise ValueError("A dry run has no JSON. Got --dry-run and --json. Leave one of them out.")
        if is_first:
            _dry_run(options.table, chosen)
        return
    if not is_first:
        _fit_beside(options.table, chosen)
        return
    with join_world_of(chosen) as world, Display() as display:
        metrics = fit_table(options.table, folder, chosen, display, world)
    files = [name for name in FILES if (folder / name).exists()]
    if options.json:
        print(fit_as_json(metrics, folder, files))
    else:
        _print_metrics(metrics)
        print(f"Written to {folder}: {', '.join(files)}")
        _print_early_end(metrics)
    if metrics["stopped"] == "interrupted":
        raise KeyboardInterrupt


def _fit_beside(table: Path, chosen: FitOptions) -> None:
    """Fit together with the first process of torchrun, which speaks and writes for all.

    The status tells torchrun that this process has to be started again with the others.
    """
    from dahgnn.distributed import DisagreementError, EndedElsewhereError, LostProcessError
    from dahgnn.report.fit_folder import fit_beside
    from dahgnn.report.fit_options import join_world_of

    try:
        with join_world_of(chosen) as world:
            fit_beside(table, chosen, world)
    except EndedElsewhereError as error:
        raise SaidElsewhereError(error.status) from error
    except (DisagreementError, LostProcessError) as error:
        raise SaidElsewhereError from error


def _read_fit_options(options: argparse.Namespace) -> FitOptions:
    from dahgnn.report.fit_options import FitOptions

    return FitOptions(
        label=options.label,
        id=options.id,
        choices=read_choices(options),
        k=options.k,
        seed=options.seed,
        networks=options.networks,
        validation=options.validation,
        scale=options.scale,
        class_weight=_class_weight(options.class_weight),
        class_prior=_class_prior(options.class_prior),
        device=options.device,
        map=options.map,
        parquet=options.parquet,
        command=shlex.join(["dahgnn", *options.words]),
        reading=read_reading(options),
        hyperedges=options.hyperedges,
        resources=_read_resources(options),
    )


def _read_resources(options: argparse.Namespace) -> ResourceConfig:
    from dahgnn.config import ResourceConfig

    return ResourceConfig(
        search=options.search,
        recall=options.recall,
        batch=options.batch,
        memory=options.memory,
        folder=None if options.work is None else str(options.work),
        jobs=options.jobs,
        backend=options.backend,
    )


def _dry_run(path: Path, chosen: FitOptions) -> None:
    """Say what is understood of a table, all that is wrong with it, and what a fit would need."""
    from dahgnn.cli.survey_text import describe_survey
    from dahgnn.report.fit_options import count_processes
    from dahgnn.report.fit_plan import survey_and_plan
    from dahgnn.tables.messages import combined_error

    survey, plan = survey_and_plan(path, chosen, count_processes())
    print(describe_survey(survey))
    if plan:
        print("\n" + "\n".join(map(printable, plan)))
    if survey.problems:
        raise combined_error(path, survey.problems, most=len(survey.problems))
    print("\nNothing is wrong: a fit could start. Nothing was written.")


def read_choices(options: argparse.Namespace) -> Choices:
    """Return what the options say of columns."""
    from dahgnn.tables.planning import Choices

    names = ("drop", "keep", "missing", "text", "picture", "text_model")
    return Choices(**{name: getattr(options, name) for name in names})


def read_reading(options: argparse.Namespace) -> Reading:
    """Return how the options say that a file is read."""
    from dahgnn.tables.sources import Reading

    names = ("format", "encoding", "delimiter", "decimal", "sheet")
    return Reading(**{name: getattr(options, name) for name in names})


def _default_folder(table: Path) -> Path:
    """Return the folder of a fit; not by the stem of the file, as a.csv and a.npz are two tables."""
    return Path("runs") / table.resolve().name.encode("utf-8", "replace").decode("utf-8")


def _class_weight(words: Sequence[str]) -> dict[str, float] | str | None:
    """Return the weights of classes from ``balanced``, or from ``NAME=WEIGHT`` of some of them."""
    if list(words) in ([], ["balanced"]):
        return words[0] if words else None
    return _numbers(
        words, "The option --class-weight must be 'balanced', or NAME=WEIGHT with a weight above 0"
    )


def _class_prior(words: Sequence[str]) -> dict[str, float] | None:
    """Return the shares of classes from ``NAME=SHARE`` of all of them, or of all but one."""
    return _numbers(words, "The option --class-prior must be NAME=SHARE with a share above 0") or None


def _numbers(words: Sequence[str], wanted: str) -> dict[str, float]:
    """Return the numbers of classes, all above 0."""
    numbers = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            numbers[name] = math.nan
        if not (equals and 0 < numbers[name] < math.inf):
            raise ValueError(f"{wanted}. Got '{word}'.")
    return numbers


def _print_metrics(metrics: Mapping[str, Any]) -> None:
    print(f"\n{printable(metrics['decision'])}.")
    estimate = metrics["estimate"]
    if estimate is None:
        wanted = metrics["settings"]["validation"] > 0
        reason = "Too few labels could be held out" if wanted else "No label was held out"
        print(f"{reason} to tell how many of them are right.")
        return
    accuracy, low, high = (f"{100 * estimate[name]:.1f}" for name in ("accuracy", "low", "high"))
    held = f"judged by {estimate['n']} held-out labels"
    print(f"About {accuracy} % of them are right (95 % confidence: {low} to {high} %), {held}.")
    _print_assessment(metrics["assessment"], metrics["settings"]["class_prior"] is not None)


def _print_assessment(assessment: Mapping[str, Any], shares_known: bool) -> None:
    """Print what simple methods reach on the same labels, and how many labels are doubtful."""
    names = {
        "majority": "always the commonest class",
        "logistic_regression": "logistic regression",
        "nearest_neighbours": "5 nearest neighbours",
    }
    reached = {name: assessment["baselines"][key] for key, name in names.items()}
    if assessment["accuracy"] is not None and None not in reached.values():
        others = ", ".join(f"{name} {100 * share:.1f} %" for name, share in reached.items())
        labels = "the held-out labels, which need not have the shares of --class-prior,"
        labels = labels if shares_known else "the held-out labels"
        found = f"{100 * assessment['accuracy']:.1f} % of {labels} were found"
        print(f"{found}; on the same labels: {others}.")
    count = assessment["doubtful_count"]
    if count:
        labels = "1 given label is" if count == 1 else f"{count:,} given labels are"
        print(
            f"{labels} doubtful: report.html and metrics.json list the clearest first, with what is likelier."
        )


def _print_early_end(metrics: Mapping[str, Any]) -> None:
    if metrics["stopped"] == "interrupted":
        count = metrics["networks"]
        trained = "one network" if count == 1 else f"the {count} networks that were done"
        print(f"The training was interrupted; this is of {trained}.")


def run_predict(options: argparse.Namespace) -> None:
    """Predict the rows of another file, or of all files of a folder."""
    from dahgnn.cli.display import Display
    from dahgnn.cli.json_text import predictions_as_json
    from dahgnn.report.fit_files import check_target
    from dahgnn.report.fitted_folder import predict_table
    from dahgnn.report.predictions import as_csv, write_predictions
    from dahgnn.tables.formats import stem

    if _is_for_files(options):
        _predict_files(options)
        return
    reading = read_reading(options)
    if str(options.out) == "-":
        if options.json:
            raise ValueError("Only one of --json and --out - can be on the standard output. Got both.")
        with Display() as display:
            predictions = predict_table(
                options.folder, options.table, options.id, display, read_reading(options)
            )
        sys.stdout.flush()
        sys.stdout.buffer.write(as_csv(predictions).encode("utf-8", "backslashreplace"))
        return
    target = options.out or options.folder / f"{stem(options.table)}-predictions.csv"
    check_target(target, options.folder, [options.table])
    with Display() as display:
        predictions = predict_table(options.folder, options.table, options.id, display, reading)
        write_predictions(target, predictions)
    if options.json:
        print(predictions_as_json(predictions, target))
    else:
        print(f"\n{len(predictions.ids):,} rows. Written to {target}")


def _is_for_files(options: argparse.Namespace) -> bool:
    """Whether predictions are to be a folder of files, one for each file of rows."""
    from dahgnn.tables.formats import is_parts

    as_one = str(options.out) == "-" or (options.out and options.out.suffix.lower() in (".csv", ".parquet"))
    return is_parts(options.table, read_reading(options)) and not as_one


def _predict_files(options: argparse.Namespace) -> None:
    """Predict each file of a folder."""
    from dahgnn.cli.display import Display
    from dahgnn.cli.json_text import predicted_folder_as_json
    from dahgnn.report.predict_folder import predict_folder
    from dahgnn.tables.formats import stem

    target = options.out or options.folder / f"{stem(options.table)}-predictions"
    with Display() as display:
        done = predict_folder(
            options.folder,
            options.table,
            target,
            options.id,
            display,
            jobs=options.jobs,
            backend=options.backend,
        )
    if options.json:
        print(predicted_folder_as_json(done, target))
    else:
        print(f"\n{done.rows:,} rows. Written to {target}: {len(done.files):,} files")
