"""The demonstration: real digits, four methods, one table and one picture."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dahgnn._version import __version__
from dahgnn.baselines.classical import label_spreading
from dahgnn.checks import check_count
from dahgnn.config import PRESETS, TrainingConfig
from dahgnn.files.atomic import replacing
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.images.datasets import Dataset, load_embedded_digits
from dahgnn.nn.hgnn import HGNN
from dahgnn.nn.model import DAHGNN
from dahgnn.progress import Observer, tell_epochs
from dahgnn.report.projection import draw_embedding, tsne
from dahgnn.training.fit import FitResult, accuracy, fit
from dahgnn.training.run import Epoch
from dahgnn.training.splits import Split, split_per_class

LABELLED_PER_CLASS = 50
VALIDATION_PER_CLASS = 100
K = 10

_PARTS = ("train", "validation", "test")
_COLUMNS = ("Method", "Test accuracy, %", "Validation, %", "Epochs", "Seconds")


@dataclass(frozen=True)
class Network:
    """A network of the comparison, and how it is trained."""

    name: str
    make: Callable[[int, int, torch.Generator], DAHGNN | HGNN]
    training: TrainingConfig


_PAPER = PRESETS["paper"]
_WITHOUT = replace(_PAPER.model, density=False)
NETWORKS = (
    Network("DA-HGNN", lambda d, c, g: DAHGNN(d, c, _PAPER.model, generator=g), _PAPER.training),
    Network("DA-HGNN without density", lambda d, c, g: DAHGNN(d, c, _WITHOUT, generator=g), _PAPER.training),
    # Dropout and weight decay are those of HGNN's own paper, the units half as many, which saves time; the
    # schedule is the same for all.
    Network("HGNN", lambda d, c, g: HGNN(d, c, hidden=64, generator=g), TrainingConfig(weight_decay=5e-4)),
)


def run_demo(folder: Path, observer: Observer, *, runs: int = 3) -> str:
    """Compare the methods on the embedded digits and write lines, table and picture to a folder.

    Parameters
    ----------
    folder : Path
        Gets ``runs.jsonl``, ``table.md`` and ``embedding.png``; each is replaced whole.
    observer : Observer
        Sees the progress.
    runs : int
        Splits to repeat everything on; all methods share them.

    Returns
    -------
    str
        The table, with a line above it that says what was measured.
    """
    check_count("runs", runs, "run_demo")
    folder.mkdir(parents=True, exist_ok=True)  # fails now rather than after the training
    with observer.stage("Read the digits"):
        digits = load_embedded_digits()
    with observer.stage("Build the hypergraph"):
        hypergraph = Hypergraph.from_features(digits.features, K)
    lines, first, split = _compare(digits, hypergraph, runs, observer)
    report = _describe(digits, runs) + "\n\n" + markdown_table(lines)
    _write(folder, lines, report)
    with observer.stage("Lay out the embedding by t-SNE"):
        layout = tsne(first.embedding, seed=0)
    title = _title(lines[0])
    draw_embedding(
        folder / "embedding.png", layout, digits.labels, first.predictions, split.test, title=title
    )
    return report


def _compare(
    digits: Dataset, hypergraph: Hypergraph, runs: int, observer: Observer
) -> tuple[list[dict[str, Any]], FitResult, Split]:
    """Return all run lines, and the first network's first result with its split."""
    lines: list[dict[str, Any]] = []
    shown = None
    for run in range(runs):
        split = split_per_class(
            digits.labels, train=LABELLED_PER_CLASS, validation=VALIDATION_PER_CLASS, seed=run
        )
        suffix = f" {run + 1}/{runs}" if runs > 1 else ""
        for network in NETWORKS:
            with observer.stage(network.name + suffix) as progress:
                callback = partial(tell_epochs(progress, network.training), 0)
                line, result = _train(network, digits, hypergraph, split, run, callback)
            lines.append(line)
            shown = shown or (result, split)
        with observer.stage("LabelSpreading" + suffix):
            lines.append(_spread_labels(digits, split, run))
    assert shown is not None  # noqa: S101, there is a network and a run
    return lines, *shown


def _train(
    network: Network,
    digits: Dataset,
    hypergraph: Hypergraph,
    split: Split,
    seed: int,
    callback: Callable[[Epoch], None],
) -> tuple[dict[str, Any], FitResult]:
    generator = torch.Generator().manual_seed(seed)
    model = network.make(digits.features.shape[1], digits.n_classes, generator)
    result = fit(
        model,
        digits.features,
        hypergraph,
        digits.labels,
        split,
        network.training,
        seed=seed,
        callback=callback,
    )
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    settings = {"model": model.settings, "training": asdict(network.training), "k": K}
    line = _line(network.name, digits, split, seed, settings, result.predictions, result.seconds)
    line |= {"epochs": len(result.history) - 1, "best_epoch": result.best_epoch, "stopped": result.stopped}
    return line, result


def _spread_labels(digits: Dataset, split: Split, seed: int) -> dict[str, Any]:
    start = time.perf_counter()
    probabilities, chosen = label_spreading(digits.features, digits.labels, split, k=K)
    seconds = time.perf_counter() - start
    settings = {"kernel": "knn", "k": K, **chosen}
    return _line("LabelSpreading", digits, split, seed, settings, probabilities.argmax(1), seconds)


def _line(
    method: str,
    digits: Dataset,
    split: Split,
    seed: int,
    settings: dict[str, Any],
    predictions: Tensor,
    seconds: float,
) -> dict[str, Any]:
    """Compose a run line: all that is needed to know where a number is from."""
    return {
        "dataset": digits.name,
        "method": method,
        "seed": seed,
        "split": {"digest": split.digest, **{part: len(getattr(split, part)) for part in _PARTS}},
        "settings": settings,
        "metrics": {
            f"{part}_accuracy": accuracy(predictions, digits.labels, getattr(split, part)) for part in _PARTS
        },
        "epochs": None,
        "seconds": round(seconds, 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {"type": "cpu", "threads": torch.get_num_threads(), "machine": platform.machine()},
        "versions": {
            "dahgnn": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn", "mlxtend")},
        },
    }


def _describe(digits: Dataset, runs: int) -> str:
    labelled, validation = (count * digits.n_classes for count in (LABELLED_PER_CLASS, VALIDATION_PER_CLASS))
    n = len(digits.labels)
    repeats = "1 run" if runs == 1 else f"mean ± deviation of {runs} runs"
    return (
        f"{n:,} MNIST images, {labelled} labelled, {validation:,} for validation, "
        f"{n - labelled - validation:,} to test; {repeats}, {torch.get_num_threads()} CPU threads. "
        "Seconds are those of one fit on the finished hypergraph; LabelSpreading's are of five fits, among "
        "which the validation images choose."
    )


def _title(line: dict[str, Any]) -> str:
    train, validation, test = (line["split"][part] for part in _PARTS)
    percent = 100 * line["metrics"]["test_accuracy"]
    return (
        f"{line['method']} with {train} labels: {percent:.2f} % of {test:,} test digits correct\n"
        f"t-SNE of the learned embedding of all {train + validation + test:,} MNIST digits"
    )


def _write(folder: Path, lines: list[dict[str, Any]], report: str) -> None:
    with replacing(folder / "runs.jsonl") as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with replacing(folder / "table.md") as temporary:
        temporary.write_text(report + "\n", encoding="utf-8")


def markdown_table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return one row a method, mean ± standard deviation over its run lines, in order of appearance.

    Examples
    --------
    >>> metrics = {"test_accuracy": 0.9, "validation_accuracy": 0.8}
    >>> print(markdown_table([{"method": "HGNN", "metrics": metrics, "epochs": 120, "seconds": 3.21}]))
    | Method | Test accuracy, % | Validation, % | Epochs | Seconds |
    | --- | ---: | ---: | ---: | ---: |
    | HGNN | 90.00 | 80.00 | 120 | 3.2 |
    """
    methods: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        methods.setdefault(line["method"], []).append(line)
    rows = [_COLUMNS, ("---", *["---:"] * (len(_COLUMNS) - 1))]
    rows += [_row(method, group) for method, group in methods.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(method: str, lines: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return (
        method,
        _spread([100 * line["metrics"]["test_accuracy"] for line in lines]),
        _spread([100 * line["metrics"]["validation_accuracy"] for line in lines]),
        "–" if lines[0]["epochs"] is None else f"{statistics.mean(line['epochs'] for line in lines):.0f}",
        f"{statistics.mean(line['seconds'] for line in lines):.1f}",
    )


def _spread(values: Sequence[float]) -> str:
    """Write mean ± standard deviation, or the value alone if there is one."""
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.2f}"
