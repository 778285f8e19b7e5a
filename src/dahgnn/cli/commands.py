"""The command line: words in, calls out."""

from __future__ import annotations

import argparse
import errno
import io
import logging
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from dahgnn._version import __version__
from dahgnn.bench.contenders import METHODS
from dahgnn.bench.measure import BenchConfig, compare
from dahgnn.bench.results import TABLE_HEAD, draw_costs, table_notes, table_row, write_lines
from dahgnn.config import SCALES
from dahgnn.experiments.spec import builtin_specs, load_spec
from dahgnn.images.cnn import CONFIGS
from dahgnn.images.cnn_features import make_features, read_header
from dahgnn.images.cnn_training import CNNEpoch
from dahgnn.images.datasets import TITLES, load_images
from dahgnn.images.downloads import data_folder, fetch
from dahgnn.report.demo import run_demo
from dahgnn.report.experiment_page import write_report
from dahgnn.report.reproduce import ReproduceOptions, reproduce
from dahgnn.training.run import Epoch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Between two lines on the progress, where they are kept.
_SECONDS_A_LINE = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 2 for an error, 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets the table
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="dahgnn: %(message)s")
    try:
        options.command(options)
        print(end="", flush=True)  # nothing, where there is no output
    except BrokenPipeError:
        # The reader has seen enough. What is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return _complain("interrupted.", 130)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("dahgnn"):
            raise
        return _complain(f"{error.name} is not installed. It comes with dahgnn's extra '{options.extra}'.", 2)
    except (OSError, ValueError) as error:
        return _complain(_explain_error(error), 2)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dahgnn", description="Labels for the rest of your feature vectors."
    )
    parser.add_argument("--version", action="version", version=f"dahgnn {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="train and compare on 5,000 real MNIST digits")
    demo.add_argument(
        "--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="results (%(default)s)"
    )
    demo.add_argument(
        "--runs", type=int, default=3, metavar="N", help="repetitions, each on a new split (%(default)s)"
    )
    demo.set_defaults(command=_demo, extra="demo")

    bench = commands.add_parser("bench", help="time an epoch of ours, of peers, and the least there can be")
    bench.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    bench.add_argument("--nodes", type=int, nargs="+", default=[10_000], metavar="N", help="sizes n (10000)")
    bench.add_argument("--mnist", type=Path, metavar="DIR", help="take the images there, not random data")
    bench.add_argument("--repeats", type=int, default=20, metavar="N", help="epochs (%(default)s)")
    bench.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), help="rows of the table (all)"
    )
    bench.add_argument("--out", type=Path, metavar="FILE.jsonl", help="write the results there, too")
    bench.add_argument("--plot", type=Path, metavar="FILE.png", help="draw cost against n")
    bench.set_defaults(command=_bench, extra="bench")

    features = commands.add_parser("features", help="train the 13-layer CNN and cache its features")
    features.add_argument("dataset", choices=tuple(CONFIGS), help="whose images")
    features.add_argument("--epochs", type=int, metavar="N", help="passes over the images")
    features.add_argument("--seed", type=int, default=0, metavar="N", help="of the training (%(default)s)")
    _add_data(features)
    features.set_defaults(command=_features, extra="reproduce")

    again = commands.add_parser("reproduce", help="run an experiment of the paper, or your own spec")
    again.add_argument("spec", metavar="SPEC", help=f"{', '.join(builtin_specs())} or a TOML file")
    again.add_argument("--dataset", nargs="+", metavar="NAME", help="only these datasets")
    again.add_argument("--method", nargs="+", metavar="NAME", help="only these methods")
    again.add_argument("--out", type=Path, metavar="DIR", help="results (runs/SPEC)")
    again.add_argument("--jobs", type=int, metavar="N", help="processes (all cores)")
    _add_data(again)
    again.set_defaults(command=_reproduce, extra="reproduce")

    report = commands.add_parser("report", help="write the tables and the page of a folder of runs anew")
    report.add_argument("folder", type=Path, metavar="DIR", help="holds runs.jsonl and spec.json")
    report.set_defaults(command=_report, extra="reproduce")

    own = commands.add_parser("fit", help="label the rest of your own table")
    own.add_argument("table", type=Path, metavar="FILE", help="csv, tsv, parquet, npz or npy")
    own.add_argument("--label", required=True, metavar="COLUMN", help="its labels; empty means unlabelled")
    own.add_argument("--id", metavar="COLUMN", help="names of the rows (their numbers)")
    own.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    own.add_argument("--out", type=Path, metavar="DIR", help="results (runs/FILE)")
    own.add_argument("-k", type=int, default=10, metavar="N", help="neighbours of a row (%(default)s)")
    own.add_argument("--seed", type=int, default=0, metavar="N", help="of everything (%(default)s)")
    own.add_argument(
        "--networks",
        type=_count_or_auto,
        default="auto",
        metavar="N",
        help="how many are averaged (auto: 5 up to 20,000 rows, then 1)",
    )
    own.add_argument(
        "--validation",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="of labelled rows, held out by each network; 0 is none (%(default)s)",
    )
    own.add_argument("--scale", choices=SCALES, default="auto", help="of the columns (%(default)s)")
    own.add_argument(
        "--map",
        choices=("auto", "tsne", "pca"),
        default="auto",
        help="of the page (auto: t-SNE for 100 rows or more)",
    )
    own.add_argument("--device", default="auto", help="cpu or cuda (what there is)")
    own.set_defaults(command=_fit, extra="fit")

    predict = commands.add_parser("predict", help="label the rows of another file, without a new fit")
    _add_fitted(predict)
    predict.add_argument("table", type=Path, metavar="FILE", help="with the columns of the fitted one")
    predict.add_argument("--id", metavar="COLUMN", help="names of the rows (as at the fit)")
    predict.add_argument("--out", type=Path, metavar="FILE.csv", help="results (DIR/FILE-predictions.csv)")
    predict.set_defaults(command=_predict, extra="fit")

    why = commands.add_parser("explain", help="say why a row got its label")
    _add_fitted(why)
    why.add_argument("--row", required=True, metavar="ID", help="the id of a fitted row")
    why.set_defaults(command=_explain, extra="fit")

    more = commands.add_parser("suggest", help="choose the rows to label next")
    _add_fitted(more)
    more.add_argument("-n", type=int, default=20, metavar="N", help="how many (%(default)s)")
    more.set_defaults(command=_suggest, extra="fit")

    version = commands.add_parser("version", help="print the versions of dahgnn and what it runs on")
    version.set_defaults(command=_version, extra="demo")
    return parser


def _add_fitted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="what 'dahgnn fit' wrote")


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="datasets and features (DAHGNN_DATA, or the user's cache)"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--offline", action="store_true", help="download nothing")


def _demo(options: argparse.Namespace) -> None:
    with _Display() as display:
        report = run_demo(options.out, display, runs=options.runs)
    print(f"\n{report}\n\nWritten to {options.out}: runs.jsonl, table.md, embedding.png")


def _bench(options: argparse.Namespace) -> None:
    config = BenchConfig(
        device=options.device,
        nodes=tuple(options.nodes),
        mnist=options.mnist,
        repeats=options.repeats,
        methods=tuple(options.methods),
    )
    if options.plot:
        import_module("matplotlib")  # fails now rather than after the measurements
    lines = []
    print(TABLE_HEAD, flush=True)
    for line in compare(config):
        print(table_row(line), flush=True)
        lines.append(line)
        if options.out:
            write_lines(options.out, lines)
    print(f"\n{table_notes(lines)}")
    if options.plot:
        draw_costs(options.plot, lines)


def _features(options: argparse.Namespace) -> None:
    folder, name = data_folder(options.data), options.dataset
    config = replace(CONFIGS[name], seed=options.seed)
    if options.epochs is not None:
        config = replace(config, epochs=options.epochs)
    with _Display() as display:
        fetch(name, folder, progress=display.received(), offline=options.offline)
        with display.stage(f"Read {TITLES[name]}"):
            train, test = (load_images(name, folder, part) for part in ("train", "test"))
        with display.batches(f"Train the CNN on {len(train.labels):,} images") as callback:
            path = make_features(name, train, test, folder, config, device=options.device, callback=callback)
    percent = 100 * read_header(path, name).cnn_test_accuracy
    print(f"\nThe CNN classifies {percent:.2f} % of the test images correctly. Features: {path}")


def _reproduce(options: argparse.Namespace) -> None:
    spec = load_spec(options.spec)
    folder = options.out or Path("runs") / spec.name
    with _Display() as display:
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
    _print_written(options.folder, write_report(options.folder))


def _count_or_auto(text: str) -> int | str:
    if text == "auto":
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number from 1 on, or auto. Got '{text}'")


def _fit(options: argparse.Namespace) -> None:
    from dahgnn.report.fit_folder import METRICS, MODEL, PAGE, PREDICTIONS, FitOptions, fit_table

    folder = options.out or Path("runs") / options.table.stem
    chosen = FitOptions(
        label=options.label,
        id=options.id,
        drop=options.drop,
        k=options.k,
        seed=options.seed,
        networks=options.networks,
        validation=options.validation or None,
        scale=options.scale,
        device=options.device,
        map=options.map,
    )
    with _Display() as display:
        metrics = fit_table(options.table, folder, chosen, display)
    if metrics["held_out"]:
        percent = 100 * metrics["held_out_accuracy"]
        print(f"\n{percent:.1f} % of {metrics['held_out']} labelled rows that were held out are right.")
        print("They also chose the epochs: with few labels, expect somewhat less.")
    else:
        print("\nNothing was held out, so that no accuracy is known.")
    print(f"Written to {folder}: {', '.join((PREDICTIONS, METRICS, MODEL, PAGE))}")
    if metrics["stopped"] == "diverged":
        print("The training diverged; this is of its best epoch before. Other scales may help, see --scale.")
    if metrics["stopped"] == "interrupted":
        count = metrics["networks"]
        trained = "one network" if count == 1 else f"the {count} networks that were done"
        print(f"The training was interrupted; this is of {trained}.")
        raise KeyboardInterrupt


def _predict(options: argparse.Namespace) -> None:
    from dahgnn.report.fit_folder import predict_table

    target = options.out or options.folder / f"{options.table.stem}-predictions.csv"
    with _Display() as display:
        count = predict_table(options.folder, options.table, target, options.id, display)
    print(f"\n{count:,} rows. Written to {target}")


def _explain(options: argparse.Namespace) -> None:
    from dahgnn.report.fit_folder import FittedFolder

    print(FittedFolder.open(options.folder).explain(options.row))


def _suggest(options: argparse.Namespace) -> None:
    from dahgnn.report.fit_folder import FittedFolder

    rows = FittedFolder.open(options.folder).suggest(options.n)
    if len(rows) < options.n:
        print(f"No more than {len(rows):,} rows are unlabelled.", file=sys.stderr)
    width = max([2, *(len(row[0]) for row in rows)])
    print(f"{'id':{width}}  margin  density  predicted")
    for name, label, margin, density in rows:
        print(f"{name:{width}}  {margin:6.3f}  {density:7.2f}  {label}")


def _print_written(folder: Path, written: Sequence[Path]) -> None:
    markdown = folder / "report.md"
    if markdown in written:
        print(f"\n{markdown.read_text(encoding='utf-8')}")
    print(f"Written to {folder}: {', '.join(path.name for path in written)}")


def _version(_: argparse.Namespace) -> None:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    print(f"dahgnn {__version__}, Python {platform.python_version()}, torch {torch.__version__}, {device}")


def _explain_error(error: OSError | ValueError) -> str:
    """Say in words what the system says by a number; what was being written is whole or absent."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "The disk is full. What was finished before is kept: make room, and start again."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def _complain(message: str, status: int) -> int:
    print(f"dahgnn: {message}", file=sys.stderr)
    return status


class _Schedule(Protocol):
    """When a training ends."""

    @property
    def max_epochs(self) -> int:
        """At the latest."""

    @property
    def patience(self) -> int:
        """Without a better epoch."""


class _Display:
    """One line a stage: what it does, how far it is, how long it still takes.

    Where nobody sees a line change, as in a file, there is a line at the start, one every so often, and one
    at the end.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        console = Console(stderr=True)
        # The bar needs room that a terminal of 80 columns has not.
        bar = [BarColumn(bar_width=20)] if console.width >= 110 else []
        self.progress: Progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            *bar,
            TextColumn("{task.fields[state]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._names: dict[TaskID, str] = {}
        self._told: dict[TaskID, float] = {}

    def _add(self, name: str, total: float | None = None) -> TaskID:
        task = self.progress.add_task(name, total=total, state="")
        self._names[task] = name
        return task

    def _update(
        self, task: TaskID, completed: float, total: float, state: str, *, done: bool = False
    ) -> None:
        self.progress.update(task, completed=completed, total=total, state=state)
        now = time.monotonic()
        if self.progress.disable and (done or now - self._told.get(task, -math.inf) >= _SECONDS_A_LINE):
            self._told[task] = now
            self.note(f"{self._names[task]}: {state.strip()}")

    def __enter__(self) -> _Display:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def note(self, text: str) -> None:
        """Show a sentence above the stages; it may quote a file, so nothing in it steers the terminal."""
        from dahgnn.report.fit_folder import shown

        self.progress.console.print(
            shown(text), markup=False, highlight=False, soft_wrap=self.progress.disable
        )

    @contextmanager
    def stage(
        self, name: str, config: _Schedule | None = None, networks: int = 1
    ) -> Iterator[Callable[[int, Epoch], None]]:
        """Show a stage until the block ends; a bar fills as the training of a network nears its end."""
        start = time.perf_counter()
        task = self._add(name)
        shown = ""

        def show(network: int, epoch: Epoch) -> None:
            nonlocal shown
            if config is not None:
                shown = _describe(epoch)
                number = "" if networks == 1 else f"{network + 1}/{networks} "
                last = min(epoch.best_epoch + config.patience, config.max_epochs)
                # It holds unless the validation loss falls once more, and the others take as long.
                epochs = last - epoch.epoch + (networks - network - 1) * last
                left = epochs * epoch.seconds / max(epoch.epoch, 1)
                self._update(task, epoch.epoch, last, f"{number}{shown}{left:.0f} s left")

        yield show
        seconds = time.perf_counter() - start
        done = shown if networks == 1 else f"{networks} networks  "
        self._update(task, 1, 1, f"{done}{seconds:.1f} s", done=True)

    @contextmanager
    def count(self, name: str) -> Iterator[Callable[[int, int, str], None]]:
        """Show how many of many fits are done, the last of them, and how long the rest takes."""
        start = time.perf_counter()
        task = self._add(name)
        first = None

        def show(done: int, total: int, last: str) -> None:
            nonlocal first
            first = done if first is None else first
            state = f"{done:,} of {total:,}"
            if done > first:
                left = (total - done) * (time.perf_counter() - start) / (done - first)
                state += f", {_duration(left)} left  {last}"
            self._update(task, done, total, state)

        yield show
        self._update(task, 1, 1, _duration(time.perf_counter() - start), done=True)

    @contextmanager
    def batches(self, name: str) -> Iterator[Callable[[CNNEpoch], None]]:
        """Show the training of the CNN, which says at its start how long it will take."""
        start = time.perf_counter()
        task = self._add(name)

        def show(epoch: CNNEpoch) -> None:
            state = f"{_duration(epoch.seconds_left)} left"
            if epoch.loss is not None:
                state = f"epoch {epoch.epoch} of {epoch.epochs}  loss {epoch.loss:.3f}  {state}"
            if epoch.test_accuracy is not None:
                state += f"  {100 * epoch.test_accuracy:.2f} %"
            self._update(task, epoch.epoch, epoch.epochs, state)

        yield show
        self._update(task, 1, 1, _duration(time.perf_counter() - start), done=True)

    def received(self) -> Callable[[str, int, int], None]:
        """Return what shows the bytes of downloads, a line for each file."""
        tasks: dict[str, TaskID] = {}

        def show(file: str, received: int, size: int) -> None:
            if file not in tasks:
                tasks[file] = self._add(f"Download {file}", size)
            state = f"{received / 2**20:.1f} of {size / 2**20:.1f} MiB"
            self._update(tasks[file], received, size, state)

        return show


def _duration(seconds: float) -> str:
    """Write a span as a reader says it.

    Examples
    --------
    >>> [_duration(seconds) for seconds in (9.4, 200, 9000)]
    ['9 s', '3 min', '2.5 h']
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _describe(epoch: Epoch) -> str:
    """Write epoch, training and validation loss, and validation accuracy in the room of 80 columns."""
    losses = f"{epoch.train_loss:.3f}/{epoch.validation_loss:.3f}"
    return f"epoch {epoch.epoch:3d}  loss {losses}  {100 * epoch.validation_accuracy:.1f} %  "
