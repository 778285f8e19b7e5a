"""Compare DAHGNNClassifier with scikit-learn's classifiers where few rows have labels.

    python benchmarks/few_labels.py --out runs.jsonl [--data FOLDER] [--hypergraphs FOLDER] [--rows 3000]
                                    [--sets wine …] [--methods DA-HGNN …] [--labels 5 20 100 400] [--seeds 3]
    python benchmarks/few_labels.py --report runs.jsonl

The first command appends a line for each dataset, number of labels, seed and method, and skips those that the
file has. The second prints the tables of docs/when-to-use.md from the lines alone. In each split so many rows
of each class have a label; all others are unlabelled, and are tested. Nobody is tuned. Everything runs on one
thread of the CPU. ``--data`` is the folder of ``dahgnn features``; ``--hypergraphs`` has 20newsw100.npz and
mushroom.npz, of which only features and labels are used.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from threadpoolctl import threadpool_limits

from dahgnn import DAHGNNClassifier
from dahgnn.experiments.lines import describe_place
from dahgnn.files.jsonl import Line, append_lines, repair_last_line
from dahgnn.images.cnn_features import features_path, load_features
from dahgnn.images.datasets import load_embedded_digits
from dahgnn.training.splits import Split, sample_per_class

Array = NDArray[Any]

OURS = "DA-HGNN"
# Differences of accuracy, in points, that count as none.
EQUAL = 0.5
# From so many labels a class on, methods are counted against each other; below, apart.
ENOUGH = 20


def main() -> None:
    """Measure, or print the tables of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--out", type=Path, help="append the results there as JSON lines")
    action.add_argument("--report", type=Path, help="print the tables of these JSON lines")
    parser.add_argument("--data", type=Path, help="folder of features/cifar10.safetensors and svhn")
    parser.add_argument("--hypergraphs", type=Path, help="folder of 20newsw100.npz and mushroom.npz")
    parser.add_argument("--rows", type=int, default=3000, help="of a set from a folder, drawn at random")
    parser.add_argument("--sets", nargs="+", choices=SETS, help="by default all whose folder is given")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--labels", type=int, nargs="+", default=[5, 20, 100, 400], help="of each class")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    try:
        if options.report:
            print(compose_report(read_lines(options.report)))
        else:
            measure(options)
    except (OSError, ValueError) as error:
        raise SystemExit(f"few_labels: {error}") from error


@dataclass(frozen=True)
class Table:
    """A dataset: features (n, d) and classes 0, 1, … (n,)."""

    title: str
    features: Array
    labels: Array


@dataclass(frozen=True)
class Source:
    """How a dataset is loaded, from which folder, and whether its columns have scales of their own."""

    load: Callable[[Path], Table]
    folder: str | None = None
    own_scales: bool = False


@dataclass(frozen=True)
class Task:
    """What a method gets: rows as they are and scaled, labels with −1 where they are unknown."""

    features: Array
    scaled: Array
    known: Array
    seed: int

    @property
    def unlabelled(self) -> Array:
        """Which rows are tested."""
        mask: Array = self.known < 0
        return mask


def bundled(title: str, load: Callable[[], Any]) -> Callable[[Path], Table]:
    """Return how to load a dataset that scikit-learn carries."""

    def loader(_: Path) -> Table:
        content = load()
        return Table(title, content.data, content.target)

    return loader


def embedded_digits(_: Path) -> Table:
    """Load the 5,000 digits of the demo."""
    dataset = load_embedded_digits()
    return Table("MNIST digits", dataset.features.numpy(), dataset.labels.numpy())


def cnn_features(name: str, title: str) -> Callable[[Path], Table]:
    """Return how to load the features that `dahgnn features` made of the test images."""

    def loader(folder: Path) -> Table:
        dataset = load_features(features_path(folder, name), name)
        return Table(f"{title}, CNN features", dataset.features.numpy(), dataset.labels.numpy())

    return loader


def hypergraph_file(name: str, title: str) -> Callable[[Path], Table]:
    """Return how to load features and labels of a hypergraph's file, without its hyperedges."""

    def loader(folder: Path) -> Table:
        with np.load(folder / f"{name}.npz") as content:
            return Table(title, content["features"], content["labels"].astype(np.int64))

    return loader


SETS = {
    "embedded": Source(embedded_digits),
    "digits": Source(bundled("scikit-learn's digits", load_digits)),
    "cancer": Source(bundled("Breast cancer", load_breast_cancer), own_scales=True),
    "wine": Source(bundled("Wine", load_wine), own_scales=True),
    "cifar10": Source(cnn_features("cifar10", "CIFAR-10"), "data"),
    "svhn": Source(cnn_features("svhn", "SVHN"), "data"),
    "20newsw100": Source(hypergraph_file("20newsw100", "20 newsgroups, 100 words"), "hypergraphs"),
    "mushroom": Source(hypergraph_file("mushroom", "Mushroom"), "hypergraphs", own_scales=True),
}


def ours(task: Task) -> Array:
    """Fit with the defaults, which scale the rows and hold out a fifth of the labels."""
    classifier = DAHGNNClassifier(random_state=task.seed, n_jobs=1, device="cpu")
    labels: Array = classifier.fit(task.features, task.known).transduction_[task.unlabelled]
    return labels


def label_spreading(task: Task) -> Array:
    """Spread labels over the graph of ten nearest neighbours."""
    classifier = LabelSpreading(kernel="knn", n_neighbors=10).fit(task.scaled, task.known)
    labels: Array = classifier.transduction_[task.unlabelled]
    return labels


def self_training(task: Task) -> Array:
    """Fit a logistic regression again and again, to its own sure predictions too."""
    classifier = SelfTrainingClassifier(LogisticRegression(max_iter=1000)).fit(task.scaled, task.known)
    labels: Array = classifier.predict(task.scaled[task.unlabelled])
    return labels


def supervised(make: Callable[[int], ClassifierMixin]) -> Callable[[Task], Array]:
    """Return how to fit a classifier to the labelled rows alone."""

    def method(task: Task) -> Array:
        labelled = ~task.unlabelled
        classifier = make(task.seed).fit(task.scaled[labelled], task.known[labelled])
        labels: Array = classifier.predict(task.scaled[task.unlabelled])
        return labels

    return method


METHODS: dict[str, Callable[[Task], Array]] = {
    OURS: ours,
    "LabelSpreading": label_spreading,
    "LogisticRegression": supervised(lambda _: LogisticRegression(max_iter=1000)),
    "KNeighbors": supervised(lambda _: KNeighborsClassifier()),
    "SelfTraining": self_training,
    "HistGradientBoosting": supervised(lambda seed: HistGradientBoostingClassifier(random_state=seed)),
}


def measure(options: argparse.Namespace) -> None:
    """Append what the file has not."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.touch()
    repair_last_line(options.out)
    done = {cell(line) for line in read_lines(options.out)}
    torch.set_num_threads(1)
    with threadpool_limits(1):
        warm_up(options.methods)
        for name, table in load_tables(options):
            for line in run_table(name, table, options, done):
                append_lines(options.out, [line])
                print(f"{name} {line['per_class']} {line['seed']} {line['method']}: ", end="")
                print(f"{line['accuracy']:.2%}, {line['seconds']:.2f} s", flush=True)


def warm_up(methods: Iterable[str]) -> None:
    """Import and compile what the first fit would, so that no dataset pays for it."""
    features = np.random.default_rng(0).normal(size=(60, 4))
    known = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    for name in methods:
        METHODS[name](Task(features, features, known, 0))


def load_tables(options: argparse.Namespace) -> Iterator[tuple[str, Table]]:
    """Load the datasets that are wanted and at hand, those from a folder in part."""
    for name, source in SETS.items():
        if options.sets and name not in options.sets:
            continue
        folder = getattr(options, source.folder) if source.folder else Path()
        if folder is None:
            print(f"{name} is left out: it needs --{source.folder}")
            continue
        try:
            table = source.load(folder)
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error.name} is not installed")
            continue
        yield name, draw_rows(table, options.rows) if source.folder else table


def draw_rows(table: Table, rows: int) -> Table:
    """Return so many rows at random, the same each time."""
    drawn = np.sort(np.random.default_rng(0).permutation(len(table.labels))[:rows])
    return Table(table.title, table.features[drawn], table.labels[drawn])


def run_table(name: str, table: Table, options: argparse.Namespace, done: set[Any]) -> Iterator[Line]:
    """Run the methods on the same splits, and leave out what is done."""
    scaled = scale(table.features, own_scales=SETS[name].own_scales)
    smallest = int(np.bincount(table.labels).min())
    for count in options.labels:
        if 3 * count > 2 * smallest:  # at least a third of each class is tested
            continue
        for seed in range(options.seeds):
            rows = sample_per_class(table.labels, count, seed=seed).numpy()
            known = np.full(len(table.labels), -1)
            known[rows] = table.labels[rows]
            task = Task(table.features, scaled, known, seed)
            about = describe_task(table, task, count)
            for method in options.methods:
                if cell(about | {"method": method}) not in done:
                    yield about | {"method": method} | run(METHODS[method], task, table.labels)


def scale(features: Array, *, own_scales: bool) -> Array:
    """Scale columns each, or all numbers alike, as pixels and embeddings need it."""
    rows = features.astype(np.float64)
    scaled: Array = StandardScaler().fit_transform(rows) if own_scales else (rows - rows.mean()) / rows.std()
    return scaled


def describe_task(table: Table, task: Task, count: int) -> Line:
    """Compose what the lines of all methods have in common."""
    tested = task.unlabelled
    split = Split(train=np.flatnonzero(~tested), validation=[], test=np.flatnonzero(tested))
    return {
        "dataset": table.title,
        "nodes": len(tested),
        "columns": table.features.shape[1],
        "classes": int(table.labels.max()) + 1,
        "per_class": count,
        "seed": task.seed,
        "tested": int(tested.sum()),
        "split": split.digest,
    }


def run(method: Callable[[Task], Array], task: Task, labels: Array) -> Line:
    """Time a method, and test it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start, start_cpu = time.perf_counter(), time.process_time()
        predicted = method(task)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    accuracy = float(np.mean(predicted == labels[task.unlabelled]))
    said = sorted({warning.category.__name__ for warning in caught})
    times = {"seconds": round(seconds, 4), "cpu_seconds": round(cpu_seconds, 4)}
    return {"accuracy": accuracy} | times | {"warnings": said} | describe_place("cpu")


def read_lines(file: Path) -> list[Line]:
    """Read what was measured."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def cell(line: Line) -> tuple[Any, ...]:
    """Name what a line is about."""
    return tuple(line[key] for key in ("dataset", "nodes", "per_class", "seed", "method"))


Accuracies = dict[tuple[str, int], dict[int, dict[str, list[float]]]]


def compose_report(lines: list[Line]) -> str:
    """Compose the tables of accuracies, of seconds and of who is ahead, in Markdown."""
    if not lines:
        raise ValueError("The file of --report must have lines. Got none. Make them with --out.")
    accuracies = gather(lines)
    parts = [compose_table(lines, key, counts) for key, counts in accuracies.items()]
    parts += [compose_seconds(lines), compose_counts(accuracies), compose_losses(accuracies)]
    return "\n\n".join([*parts, compose_place(lines)])


def gather(lines: list[Line]) -> Accuracies:
    """Group accuracies, in percent, by dataset and size, labels a class, and method."""
    groups: Accuracies = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for line in lines:
        key = line["dataset"], line["nodes"]
        groups[key][line["per_class"]][line["method"]].append(100 * line["accuracy"])
    return groups


def compose_table(lines: list[Line], key: tuple[str, int], counts: dict[int, dict[str, list[float]]]) -> str:
    """Compose the accuracies of one dataset; the best of each column is bold."""
    of_it = [line for line in lines if (line["dataset"], line["nodes"]) == key]
    first = of_it[0]
    tested = ", ".join(str(next(one["tested"] for one in of_it if one["per_class"] == c)) for c in counts)
    size = f"{first['columns']} columns, {first['classes']} classes; tested rows: {tested}."
    head = ["Labels a class", *map(str, counts)]
    best = {
        count: max(round(statistics.mean(values), 1) for values in found.values())
        for count, found in counts.items()
    }
    rows = [
        [method, *(show(found.get(method, []), best[count]) for count, found in counts.items())]
        for method in METHODS
        if any(method in found for found in counts.values())
    ]
    return f"### {key[0]}, {key[1]:,} rows\n\n{size}\n\n{markdown([head, *rows])}"


def show(values: list[float], best: float) -> str:
    """Show mean and deviation, bold if no mean is higher."""
    if not values:
        return "–"
    mean = f"{statistics.mean(values):.1f}"
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"**{mean}**{spread}" if float(mean) >= best else mean + spread


def compose_seconds(lines: list[Line]) -> str:
    """Compose the seconds of fit and prediction: the median and the slowest of all runs on a dataset.

    They are the processor's, which on one thread are those of an idle machine, however busy this one was.
    """
    seconds: dict[Any, list[float]] = defaultdict(list)
    for line in lines:
        seconds[line["dataset"], line["nodes"], line["method"]].append(line["cpu_seconds"])
    methods = [method for method in METHODS if any(key[2] == method for key in seconds)]
    rows = [["CPU seconds, median (slowest)", *methods]]
    for title, nodes in dict.fromkeys(key[:2] for key in seconds):
        found = [seconds.get((title, nodes, method)) for method in methods]
        shown = [f"{statistics.median(some):.2f} ({max(some):.2f})" if some else "–" for some in found]
        rows.append([f"{title}, {nodes:,} rows", *shown])
    return f"### Seconds\n\n{markdown(rows)}"


def compose_counts(accuracies: Accuracies) -> str:
    """Count the cells, a dataset and a number of labels each, in which ours is ahead, equal or behind."""
    rows = [["Ours against", f"{ENOUGH} labels or more: ahead", "equal", "behind"]]
    rows[0] += ["fewer labels: ahead", "equal", "behind"]
    for peer in [*list(METHODS)[1:], "the best of these"]:
        tallies = [0] * 6
        for _, count, difference in differences(accuracies, peer):
            place = 0 if difference > EQUAL else 1 if difference >= -EQUAL else 2
            tallies[place if count >= ENOUGH else place + 3] += 1
        rows.append([peer, *map(str, tallies)])
    note = (
        f"Cells are a dataset and a number of labels. Equal means that the means differ by {EQUAL} points or "
        "less. The best of these is chosen afterwards in each cell, which no user can do."
    )
    return f"### Ahead, equal, behind\n\n{markdown(rows)}\n\n{note}"


def differences(accuracies: Accuracies, peer: str) -> Iterator[tuple[str, int, float]]:
    """Yield dataset, labels a class, and by how many points our mean is above that of a peer."""
    for (title, nodes), counts in accuracies.items():
        for count, found in counts.items():
            means = {method: statistics.mean(values) for method, values in found.items()}
            mine = means.pop(OURS, None)
            other = means.get(peer) if peer in METHODS else max(means.values(), default=None)
            if mine is not None and other is not None:
                yield f"{title}, {nodes:,} rows", count, mine - other


def compose_losses(accuracies: Accuracies) -> str:
    """List the cells in which ours is behind, and say in how many it is not."""
    parts = [f"### Where ours is behind, by more than {EQUAL} points"]
    for peer in list(METHODS)[1:]:
        found = list(differences(accuracies, peer))
        enough = [difference for _, count, difference in found if count >= ENOUGH]
        kept = sum(difference >= -EQUAL for difference in enough)
        lost = [
            f"{title}, {count} labels (−{-difference:.2f})"
            for title, count, difference in found
            if difference < -EQUAL
        ]
        parts.append(
            f"**{peer}**: with {ENOUGH} labels a class or more, ours is at least equal in {kept} of "
            f"{len(enough)} cells. Behind: {'; '.join(lost) or 'nowhere'}."
        )
    return "\n\n".join(parts)


def compose_place(lines: list[Line]) -> str:
    """Say on what the lines were measured, when, how long it took, and who warned."""
    devices = {f"{line['device']['threads']} thread, {line['device']['machine']}" for line in lines}
    versions = {", ".join(f"{name} {number}" for name, number in line["versions"].items()) for line in lines}
    minutes, idle = (sum(line[key] for line in lines) / 60 for key in ("seconds", "cpu_seconds"))
    seeds = sorted({line["seed"] for line in lines})
    warned: dict[str, int] = defaultdict(int)
    for line in lines:
        for name in line["warnings"]:
            warned[f"{line['method']} {name}"] += 1
    said = "; ".join(f"{name} in {number} runs" for name, number in warned.items()) or "none"
    return (
        f"### Measured on\n\n{' / '.join(sorted(devices))}; {' / '.join(sorted(versions))}; "
        f"{len(lines)} runs, seeds {', '.join(map(str, seeds))}; {minutes:.1f} minutes of fits, {idle:.1f} "
        f"of them on the processor; last {max(line['finished'] for line in lines)}. Warnings: {said}."
    )


def markdown(rows: list[list[str]]) -> str:
    """Write rows as a table, the first as its head."""
    ruler = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ruler, *rows[1:]])


if __name__ == "__main__":
    main()
