"""The command: which measurements there are, each in a process of its own, a line each, tables at the end."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dahgnn.environment import describe_environment
from dahgnn.files.jsonl import append_lines, read_objects
from scale.extrapolation import Cluster, Task, extrapolate, read_costs, say_extrapolation
from scale.fit_part import measure_fit, measure_mnist
from scale.graph_part import measure_graph
from scale.parquet_part import measure_parquet, prepare_parquet
from scale.tables import say_growth, say_table
from scale.train_part import measure_train
from scale.watch import Watch

Spec = dict[str, Any]
Line = dict[str, Any]

SCRIPT = Path(__file__).parents[1] / "scale.py"
PARTS = ("graph", "fit", "mnist", "train", "parquet", "extrapolation")
MEASURES: Mapping[str, Callable[[Spec, Path, Watch], Line]] = {
    "graph": measure_graph,
    "fit": measure_fit,
    "mnist": measure_mnist,
    "train": measure_train,
    "parquet": measure_parquet,
    "parquet files": prepare_parquet,
}
METRICS = ["euclidean", "local-scale"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for, or one thing where another process asks for it."""
    options = _parser().parse_args(arguments)
    if options.measure is not None:
        measure(json.loads(options.measure), options.work, options.answer)
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    lines = [line for _, line in read_objects(options.out)] if options.out.exists() else []
    failed = False
    for line in _measure_all(options):
        append_lines(options.out, [line])
        lines.append(line)
        failed |= "problem" in line and "skipped" not in line
        print(_say(line), flush=True)
    for part in PARTS[:-1]:
        for text in filter(None, (say_table(part, lines), say_growth(part, lines))):
            print(f"\n{text}")
    if "extrapolation" in options.parts:
        print("\n" + say_extrapolation(extrapolate(read_costs(lines), Task(), Cluster())))
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure what a fit costs against rows and processes.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["graph", "fit", "train"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[30_000, 100_000], metavar="N")
    parser.add_argument("--columns", nargs="+", type=int, default=[64, 128], help="of the graph")
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=METRICS, help="likewise")
    parser.add_argument("--jobs", nargs="+", type=int, default=[1, 2], help="processes of the graph")
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2], help="of torchrun")
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=3, help="of the part train")
    parser.add_argument("--batch", type=int, default=256, help="labelled rows of an update")
    parser.add_argument("--fit-batch", type=_count_or_auto, default="auto", help="likewise, of a fit")
    parser.add_argument("--memory", type=float, help="GiB that a fit may use")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of the part mnist")
    parser.add_argument("--mnist", type=Path, help="folder of MNIST's four files")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "dahgnn-scale")
    parser.add_argument("--out", type=Path, default=Path("scale.jsonl"))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    return parser


def _count_or_auto(word: str) -> int | str:
    return word if word == "auto" else int(word)


def measure(spec: Spec, work: Path, answer: Path) -> None:
    """Make one measurement in this process, and write what came of it."""
    with Watch() as watch:
        found = MEASURES[spec["part"]](spec, work, watch)
    if int(os.environ.get("RANK", 0)) == 0:
        line = spec | found | watch.as_fields() | describe_environment(spec.get("device", "cpu"))
        answer.write_text(json.dumps(line), encoding="utf-8")


def run(spec: Spec, work: Path) -> Line:
    """Make a measurement in a process of its own, or in several that torchrun starts."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable]
        if spec.get("processes", 1) > 1:
            command += [
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={spec['processes']}",
            ]
        command += [str(SCRIPT), "--measure", json.dumps(spec), "--work", str(work), "--answer", str(answer)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603, our own program
        if ended.returncode == 0 and answer.exists():
            return dict(json.loads(answer.read_text(encoding="utf-8")))
    print(ended.stderr, file=sys.stderr)
    last = (ended.stderr.strip().splitlines() or ["nothing was said"])[-1]
    how = f"signal {-ended.returncode}" if ended.returncode < 0 else last
    return spec | {"problem": how} | describe_environment()


def _measure_all(options: argparse.Namespace) -> Iterator[Line]:
    """Make the measurements of all parts that are asked for, and yield a line each."""
    for spec in list_fits(options):
        if spec["part"] == "parquet":
            run(spec | {"part": "parquet files"}, options.work)
        yield run(spec, options.work)
    for n in options.sizes if "graph" in options.parts else ():
        for d in options.columns:
            yield from _measure_graph(n, d, options)


def _measure_graph(n: int, d: int, options: argparse.Namespace) -> Iterator[Line]:
    """Find the neighbours by both metrics, in some numbers of processes, and by hand beside them."""
    for metric in options.metrics:
        spec: Spec = {"part": "graph", "n": n, "d": d, "metric": metric}
        ours = [run(spec | {"who": "ours", "jobs": jobs}, options.work) for jobs in options.jobs]
        yield from ours
        if ours[0].get("problem") is None:
            found = {name: ours[0][name] for name in ("neighbours", "settings")}
            yield run(spec | {"who": "by hand", "jobs": 1, "found": found}, options.work)


def list_fits(options: argparse.Namespace) -> list[Spec]:
    """Return all measurements but those of the graph, of which one depends on another."""
    fit: Spec = {
        "labels": options.labels,
        "memory": options.memory,
        "batch": options.fit_batch,
        "jobs": 1,
        "device": options.device,
        "seed": 0,
    }
    specs: list[Spec] = []
    for n in options.sizes:
        rows: Spec = {"n": n, "d": 64}
        specs += [{"part": part} | rows | fit for part in ("fit", "parquet") if part in options.parts]
        if "train" in options.parts:
            specs += [{"part": "train"} | rows | each for each in _trainings(options)]
    if "mnist" in options.parts:
        if options.mnist is None:
            raise SystemExit("The part mnist needs the folder of MNIST's files. Name it with --mnist.")
        folder = str(options.mnist.resolve())
        images = {"part": "mnist", "n": 70_000, "d": 784, "mnist": folder}
        specs += [images | fit | {"seed": seed} for seed in options.seeds]
    return specs


def _trainings(options: argparse.Namespace) -> list[Spec]:
    """Return trainings by batches, with one thread and with all, in several processes, and all at once.

    Where a GPU trains, all cores prepare.
    """
    cores = len(os.sched_getaffinity(0))
    spec: Spec = {"labels": options.labels, "epochs": options.epochs, "device": options.device}
    ways = [(count, max(1, cores // count)) for count in options.processes]
    if options.device == "cpu":
        ways += [(count, 1) for count in options.processes]
    by_batches = [
        spec | {"batch": options.batch, "processes": count, "threads": threads}
        for count, threads in sorted(set(ways))
    ]
    return [*by_batches, spec | {"batch": 0, "processes": 1, "threads": cores}]


def _say(line: Line) -> str:
    """Return one short line on a measurement that was made."""
    known = ("part", "n", "d", "who", "metric", "jobs", "batch", "processes", "threads", "seed")
    what = ", ".join(f"{name} {line[name]}" for name in known if line.get(name) is not None)
    return f"{what}: {line.get('problem') or format(line['seconds'], '.3f') + ' s'}"
