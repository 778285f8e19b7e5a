"""The demonstration: the spec "demo" run from the start, one table and one picture."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dahgnn.checks import check_count
from dahgnn.experiments.datasets import Task, load_task
from dahgnn.experiments.jobs import Experiment
from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.runner import run_experiment
from dahgnn.experiments.spec import Spec, load_spec
from dahgnn.files.atomic import replacing
from dahgnn.files.jsonl import Line
from dahgnn.progress import Observer, tell_fits
from dahgnn.report.projection import draw_embedding, tsne

_COLUMNS = ("Method", "Test accuracy, %", "Validation, %", "Epochs", "Seconds")


def run_demo(folder: Path, observer: Observer, *, runs: int = 3) -> str:
    """Compare the methods on the embedded digits and write lines, table and picture to a folder.

    Parameters
    ----------
    folder : Path
        Gets ``runs.jsonl`` and ``spec.json``, which `dahgnn report` reads, ``table.md`` and
        ``embedding.png``; each is replaced whole, once all runs are done.
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
    spec = replace(load_spec("demo"), runs=runs)
    with observer.phase("Read the digits and find their neighbours"):
        task = load_task(spec.datasets[0], spec.k, folder)
    with tempfile.TemporaryDirectory() as temporary:
        with observer.phase(spec.title) as progress:
            heard = tell_fits(progress)
            run_experiment(spec, Path(temporary), {task.name: task}, jobs=1, progress=heard)
        lines = read_lines(Path(temporary) / "runs.jsonl")
        contents = {name: (Path(temporary) / name).read_bytes() for name in ("runs.jsonl", "spec.json")}
    titles = {method.name: method.title for method in spec.methods}
    report = _describe(lines[0], runs) + "\n\n" + markdown_table(lines, titles)
    for name, content in (contents | {"table.md": f"{report}\n".encode()}).items():
        with replacing(folder / name) as path:
            path.write_bytes(content)
    _draw(folder / "embedding.png", spec, task, observer)
    return report


def _draw(path: Path, spec: Spec, task: Task, observer: Observer) -> None:
    """Draw the embedding of the classifier's first run, which is fitted once more for it."""
    from sklearn.metrics import accuracy_score

    from dahgnn.classifier.estimator import DAHGNNClassifier

    labels = torch.from_numpy(task.labels)
    split = Experiment(spec, {task.name: task}).split(task.name, spec.labels_on(task.name)[0], 0)
    known = torch.full_like(labels, -1)
    known[split.train] = labels[split.train]
    with observer.phase("Lay out the embedding by t-SNE"):
        classifier = DAHGNNClassifier(random_state=0).fit(task.features, known.numpy())
        layout = tsne(torch.from_numpy(classifier.embedding_), seed=0)
    predictions = torch.from_numpy(classifier.transduction_)
    percent = 100 * accuracy_score(labels[split.test], predictions[split.test])
    title = (
        f"dahgnn with {len(split.train)} labels: {percent:.2f} % of {len(split.test):,} test digits correct\n"
        f"t-SNE of what its networks learned of all {len(labels):,} MNIST digits"
    )
    draw_embedding(path, layout, labels, predictions, split.test, title=title)


def _describe(line: Line, runs: int) -> str:
    train, validation, test = (line["split"][part] for part in ("train", "validation", "test"))
    repeats = "1 run" if runs == 1 else f"mean ± deviation of {runs} runs"
    return (
        f"{train + validation + test:,} MNIST images, {train} labelled, {validation:,} for validation, "
        f"{test:,} to test; {repeats}, {torch.get_num_threads()} CPU threads. "
        "Seconds are those of one fit; dahgnn's include its neighbours, which the others are given, and "
        "LabelSpreading's are of five fits, among which the validation images choose."
    )


def markdown_table(lines: Iterable[Mapping[str, Any]], titles: Mapping[str, str] | None = None) -> str:
    """Return one row a method, mean ± standard deviation over its run lines, in order of appearance.

    Parameters
    ----------
    lines : iterable of dict
        Run lines.
    titles : mapping, optional
        What the methods are called in the table; by default as in the lines.

    Examples
    --------
    >>> metrics = {"test_accuracy": 0.9, "validation_accuracy": 0.8}
    >>> line = {"method": "hgnn", "metrics": metrics, "epochs": 120, "seconds": 3.21}
    >>> print(markdown_table([line], {"hgnn": "HGNN"}))
    | Method | Test accuracy, % | Validation, % | Epochs | Seconds |
    | --- | ---: | ---: | ---: | ---: |
    | HGNN | 90.00 | 80.00 | 120 | 3.2 |
    """
    methods: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        methods.setdefault(line["method"], []).append(line)
    rows = [_COLUMNS, ("---", *["---:"] * (len(_COLUMNS) - 1))]
    rows += [_row((titles or {}).get(method, method), group) for method, group in methods.items()]
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
