"""The commands: each turns its options into a call, and shows what comes back.

A command imports what it needs when it runs, so that no other command waits for it.
"""

from __future__ import annotations

import argparse
import io
import itertools
import logging
import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dahgnn.cli.errors import describe_error, describe_shortage, is_out_of_memory, warnings_in_a_line
from dahgnn.cli.interruption import INTERRUPTED, TERMINATED, hearing_sigterm, is_interruption
from dahgnn.cli.parser import make_parser

if TYPE_CHECKING:
    from dahgnn.tables.planning import Choices
    from dahgnn.tables.sources import Reading
    from dahgnn.tables.table import Survey


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 2 for an error, 130 after Ctrl-C, 143 after SIGTERM."""
    with hearing_sigterm() as terminated, warnings_in_a_line():
        try:
            return _run(arguments)
        except BaseException as error:
            if not is_interruption(error):
                raise
            return _complain("interrupted.", TERMINATED if terminated else INTERRUPTED)


def _run(arguments: Sequence[str] | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets the table
    options = make_parser().parse_args(arguments)
    options.words = sys.argv[1:] if arguments is None else list(arguments)
    logging.basicConfig(level=logging.WARNING, format="dahgnn: %(message)s")
    try:
        COMMANDS[options.command](options)
        print(end="", flush=True)  # nothing, where there is no output
    except BrokenPipeError:
        # The reader has seen enough. What is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        message = _describe(error, options)
        if message is None:
            raise
        return _complain(message, 2)
    return 0


def _describe(error: Exception, options: argparse.Namespace) -> str | None:
    """Say what a user can do about an error; None if it is ours, or no error."""
    if is_interruption(error):
        return None
    if is_out_of_memory(error):
        return describe_shortage(error)
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("dahgnn"):
        return f"{error.name} is not installed. It comes with dahgnn's extra '{options.extra}'."
    if isinstance(error, OSError | ValueError):
        return describe_error(error, of_fit=options.extra == "fit")
    return None


def _complain(message: str, status: int) -> int:
    """Print a message, which may quote a file: only the ends of its lines steer the terminal."""
    from dahgnn.cli.display import printable

    print("dahgnn: " + "\n".join(map(printable, message.split("\n"))), file=sys.stderr)
    return status


def _demo(options: argparse.Namespace) -> None:
    from dahgnn.cli.display import Display
    from dahgnn.report.demo import run_demo

    with Display() as display:
        report = run_demo(options.out, display, runs=options.runs)
    print(f"\n{report}\n\nWritten to {options.out}: runs.jsonl, table.md, embedding.png")


def _bench(options: argparse.Namespace) -> None:
    from dahgnn.bench import results
    from dahgnn.bench.measure import BenchConfig
    from dahgnn.bench.run import run_bench

    config = BenchConfig(
        device=options.device,
        nodes=tuple(options.nodes),
        mnist=options.mnist,
        features=options.features,
        repeats=options.repeats,
        methods=tuple(options.methods) if options.methods else None,
        fits=options.fits,
        labels=options.labels,
    )
    lines = run_bench(config, out=options.out, plot=options.plot)
    for number, (fits, rows) in enumerate(itertools.groupby(lines, key=results.is_fit)):
        print(("\n" if number else "") + (results.FIT_TABLE_HEAD if fits else results.TABLE_HEAD))
        write_row = results.fit_table_row if fits else results.table_row
        write_notes = results.fit_table_notes if fits else results.table_notes
        shown: list[dict[str, Any]] = []
        for row in rows:
            print(write_row(row), flush=True)
            shown.append(row)
        print(f"\n{write_notes(shown)}")


def _features(options: argparse.Namespace) -> None:
    from dahgnn.cli.display import Display
    from dahgnn.images.cnn_features import read_header
    from dahgnn.images.downloads import data_folder
    from dahgnn.images.preparation import prepare_features

    with Display() as display:
        path = prepare_features(
            options.dataset,
            data_folder(options.data),
            display,
            seed=options.seed,
            epochs=options.epochs,
            device=options.device,
            offline=options.offline,
        )
    percent = 100 * read_header(path, options.dataset).cnn_test_accuracy
    print(f"\nThe CNN classifies {percent:.2f} % of the test images correctly. Features: {path}")


def _reproduce(options: argparse.Namespace) -> None:
    from dahgnn.cli.display import Display
    from dahgnn.experiments.spec import load_spec
    from dahgnn.images.downloads import data_folder
    from dahgnn.report.reproduce import ReproduceOptions, reproduce

    spec = load_spec(options.spec)
    folder = options.out or Path("runs") / spec.name
    with Display() as display:
        written = reproduce(
            spec,
            folder,
            data_folder(options.data),
            display,
            ReproduceOptions(
                datasets=options.dataset,
                methods=options.method,
                device=options.device,
                jobs=options.jobs,
                offline=options.offline,
            ),
        )
    _print_written(folder, written)


def _report(options: argparse.Namespace) -> None:
    from dahgnn.report.experiment_page import write_report

    _print_written(options.folder, write_report(options.folder))


def _print_written(folder: Path, written: Sequence[Path]) -> None:
    markdown = folder / "report.md"
    if markdown in written:
        print(f"\n{markdown.read_text(encoding='utf-8')}")
    print(f"Written to {folder}: {', '.join(path.name for path in written)}")


def _fit(options: argparse.Namespace) -> None:
    from dahgnn.cli.display import Display
    from dahgnn.cli.json_text import fit_as_json
    from dahgnn.report.fit_files import FILES
    from dahgnn.report.fit_folder import FitOptions, fit_table, survey_fit

    folder = options.out or _default_folder(options.table)
    chosen = FitOptions(
        label=options.label,
        id=options.id,
        choices=_choices(options),
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
        reading=_reading(options),
        hyperedges=options.hyperedges,
    )
    if options.dry_run:
        if options.json:
            raise ValueError("A dry run has no JSON. Got --dry-run and --json. Leave one of them out.")
        _print_survey(options.table, survey_fit(options.table, chosen))
        return
    with Display() as display:
        metrics = fit_table(options.table, folder, chosen, display)
    files = [name for name in FILES if (folder / name).exists()]
    if options.json:
        print(fit_as_json(metrics, folder, files))
    else:
        _print_metrics(metrics)
        print(f"Written to {folder}: {', '.join(files)}")
        _print_early_end(metrics)
    if metrics["stopped"] == "interrupted":
        raise KeyboardInterrupt


def _choices(options: argparse.Namespace) -> Choices:
    from dahgnn.tables.planning import Choices

    names = ("drop", "keep", "missing", "text", "picture", "text_model")
    return Choices(**{name: getattr(options, name) for name in names})


def _reading(options: argparse.Namespace) -> Reading:
    from dahgnn.tables.sources import Reading

    names = ("format", "encoding", "delimiter", "decimal", "sheet")
    return Reading(**{name: getattr(options, name) for name in names})


def _default_folder(table: Path) -> Path:
    """Return the folder of a fit; not by the stem of the file, as a.csv and a.npz are two tables."""
    return Path("runs") / table.resolve().name.encode("utf-8", "replace").decode("utf-8")


def _print_survey(path: Path, survey: Survey) -> None:
    from dahgnn.cli.survey_text import describe_survey
    from dahgnn.tables.messages import combined_error

    print(describe_survey(survey))
    if survey.problems:
        raise combined_error(path, survey.problems, most=len(survey.problems))
    print("\nNothing is wrong: a fit could start. Nothing was written.")


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
    from dahgnn.classifier.stacking import say_combination

    print(f"\nLabels come from {say_combination(metrics['combination'])}.")
    estimate = metrics["estimate"]
    if estimate is None:
        print("Too few labels could be held out to tell how many of them are right.")
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


def _predict(options: argparse.Namespace) -> None:
    from dahgnn.cli.display import Display
    from dahgnn.cli.json_text import predictions_as_json
    from dahgnn.report.fit_files import check_target
    from dahgnn.report.fitted_folder import predict_table
    from dahgnn.report.predictions import as_csv, write_predictions
    from dahgnn.tables.formats import stem

    if str(options.out) == "-":
        if options.json:
            raise ValueError("Only one of --json and --out - can be on the standard output. Got both.")
        with Display() as display:
            predictions = predict_table(options.folder, options.table, options.id, display, _reading(options))
        sys.stdout.flush()
        sys.stdout.buffer.write(as_csv(predictions).encode("utf-8", "backslashreplace"))
        return
    target = options.out or options.folder / f"{stem(options.table)}-predictions.csv"
    check_target(target, options.folder, [options.table])
    with Display() as display:
        predictions = predict_table(options.folder, options.table, options.id, display, _reading(options))
        write_predictions(target, predictions)
    if options.json:
        print(predictions_as_json(predictions, target))
    else:
        print(f"\n{len(predictions.ids):,} rows. Written to {target}")


def _with_standard_input(
    command: Callable[[argparse.Namespace], None],
) -> Callable[[argparse.Namespace], None]:
    """Return a command that takes standard input as its table, too."""

    def run(options: argparse.Namespace) -> None:
        from dahgnn.cli.standard_input import received

        with received(options.table, options.format) as options.table:
            command(options)

    return run


def _explain(options: argparse.Namespace) -> None:
    from dahgnn.cli.explanation_text import describe
    from dahgnn.cli.json_text import explanations_as_json
    from dahgnn.report.fitted_folder import FittedFolder

    fitted = FittedFolder.open(options.folder)
    explanations = [fitted.explain(name) for name in options.row]
    if options.json:
        print(explanations_as_json(explanations, fitted))
    else:
        print("\n\n\n".join(describe(each, fitted) for each in explanations))


def _suggest(options: argparse.Namespace) -> None:
    from dahgnn.cli.display import printable
    from dahgnn.cli.json_text import suggestions_as_json
    from dahgnn.report.fitted_folder import FittedFolder

    rows = FittedFolder.open(options.folder).suggest(options.n)
    if len(rows) < options.n:
        print(f"No more than {len(rows):,} rows are unlabelled.", file=sys.stderr)
    if options.json:
        print(suggestions_as_json(rows))
        return
    names = [printable(row.id) for row in rows]
    width = max([2, *map(len, names)])
    print(f"{'id':{width}}  margin  density  predicted")
    for name, row in zip(names, rows, strict=True):
        print(f"{name:{width}}  {row.margin:6.3f}  {row.density:7.2f}  {printable(row.predicted)}")


def _label(options: argparse.Namespace) -> None:
    from dahgnn.cli.display import Display
    from dahgnn.explorer.project import LabelOptions, open_project
    from dahgnn.explorer.run import Place, serve
    from dahgnn.report.fit_folder import FitOptions

    place = Place(host=options.host, port=options.port, known_risk=options.i_know)
    chosen = LabelOptions(
        fit=FitOptions(
            label=options.label,
            id=options.id,
            choices=_choices(options),
            k=options.k,
            seed=options.seed,
            map=options.map,
            command=shlex.join(["dahgnn", *options.words]),
            reading=_reading(options),
        ),
        features=options.features,
        neighbors=options.neighbors,
        image_shape=options.image_shape,
        journal=options.journal,
        folder=options.out,
    )
    with Display() as display:
        project = open_project(options.table, chosen, display)
    serve(project, place, lambda text: print(text, flush=True), browser=not options.no_browser)
    print("\nAll labels are kept. The same command goes on where you were.")


def _version(_: argparse.Namespace) -> None:
    import platform

    import torch

    from dahgnn._version import __version__

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    print(f"dahgnn {__version__}, Python {platform.python_version()}, torch {torch.__version__}, {device}")


COMMANDS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "demo": _demo,
    "bench": _bench,
    "features": _features,
    "reproduce": _reproduce,
    "report": _report,
    "fit": _with_standard_input(_fit),
    "predict": _with_standard_input(_predict),
    "explain": _explain,
    "suggest": _suggest,
    "label": _label,
    "version": _version,
}
