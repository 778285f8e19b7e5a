"""The command line: words in, calls out."""

from __future__ import annotations

import argparse
import io
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dahgnn._version import __version__
from dahgnn.bench import (
    METHODS,
    TABLE_HEAD,
    BenchConfig,
    compare,
    draw_costs,
    table_notes,
    table_row,
    write_lines,
)
from dahgnn.config import TrainingConfig
from dahgnn.demo import run_demo
from dahgnn.plain_loop import Epoch

if TYPE_CHECKING:
    from rich.progress import Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 2 for an error, 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets the table
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="dahgnn: %(message)s")
    try:
        options.command(options)
        sys.stdout.flush()
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
        return _complain(str(error), 2)
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

    version = commands.add_parser("version", help="print the versions of dahgnn and what it runs on")
    version.set_defaults(command=_version, extra="demo")
    return parser


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


def _version(_: argparse.Namespace) -> None:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    print(f"dahgnn {__version__}, Python {platform.python_version()}, torch {torch.__version__}, {device}")


def _complain(message: str, status: int) -> int:
    print(f"dahgnn: {message}", file=sys.stderr)
    return status


class _Display:
    """One line a stage: what it does, how far it is, how long it still takes."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        console = Console(stderr=True)
        # The bar needs room that a terminal of 80 columns has not.
        bar = [BarColumn(bar_width=20)] if console.width >= 110 else []
        self.progress: Progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            *bar,
            TextColumn("{task.fields[state]}"),
            console=console,
        )

    def __enter__(self) -> _Display:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    @contextmanager
    def stage(self, name: str, config: TrainingConfig | None = None) -> Iterator[Callable[[Epoch], None]]:
        """Show a stage until the block ends; a bar fills as the training nears its end."""
        start = time.perf_counter()
        task = self.progress.add_task(name, total=None, state="")
        shown = ""

        def show(epoch: Epoch) -> None:
            nonlocal shown
            if config is not None:
                shown = _describe(epoch)
                last = min(epoch.best_epoch + config.patience, config.max_epochs)
                # It holds unless the validation loss falls once more.
                left = (last - epoch.epoch) * epoch.seconds / max(epoch.epoch, 1)
                self.progress.update(
                    task, completed=epoch.epoch, total=last, state=f"{shown}{left:.0f} s left"
                )

        yield show
        seconds = time.perf_counter() - start
        self.progress.update(task, total=1, completed=1, state=f"{shown}{seconds:.1f} s")


def _describe(epoch: Epoch) -> str:
    """Write epoch, training and validation loss, and validation accuracy in the room of 80 columns."""
    losses = f"{epoch.train_loss:.3f}/{epoch.validation_loss:.3f}"
    return f"epoch {epoch.epoch:3d}  loss {losses}  {100 * epoch.validation_accuracy:.1f} %  "
