"""The commands: each turns its options into a call, and shows what comes back.

A command imports what it needs when it runs, so that no other command waits for it.
"""

from __future__ import annotations

import argparse
import io
import itertools
import logging
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dahgnn.cli.errors import (
    SaidElsewhereError,
    describe_error,
    describe_shortage,
    is_out_of_memory,
    warnings_in_a_line,
)
from dahgnn.cli.fit_commands import read_choices, read_reading, run_fit, run_predict
from dahgnn.cli.interruption import INTERRUPTED, TERMINATED, hearing_sigterm, is_interruption
from dahgnn.cli.parser import make_parser


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
    except SaidElsewhereError as error:
        return error.status
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
        if "dahgnn's extra" in str(error):  # it knows better than the command
            return str(error)
        return f"{error.name} is not installed. It comes with dahgnn's extra '{options.extra}'."
    if isinstance(error, ImportError) and error.name == "faiss":  # it is there, and broken
        return str(error)
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
                backend=options.backend,
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
    from dahgnn.report.fit_options import FitOptions

    place = Place(host=options.host, port=options.port, known_risk=options.i_know)
    chosen = LabelOptions(
        fit=FitOptions(
            label=options.label,
            id=options.id,
            choices=read_choices(options),
            k=options.k,
            seed=options.seed,
            map=options.map,
            command=shlex.join(["dahgnn", *options.words]),
            reading=read_reading(options),
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
    "fit": _with_standard_input(run_fit),
    "predict": _with_standard_input(run_predict),
    "explain": _explain,
    "suggest": _suggest,
    "label": _label,
    "version": _version,
}
