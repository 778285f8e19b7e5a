"""Run an experiment: from a spec to run lines, one for each method, dataset, label count and repetition.

Lines are appended whole. Starting again runs only what is missing, and lines of other settings, data or
splits stop it before anything is trained.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.classical import label_spreading, laplace_learning, logistic_regression
from dahgnn.config import TrainingConfig
from dahgnn.datasets import Dataset, load_images
from dahgnn.features import features_path, load_features
from dahgnn.files import replacing
from dahgnn.hypergraph import Hypergraph
from dahgnn.knn import knn
from dahgnn.run_lines import Line, compose_line, describe_training
from dahgnn.specs import NETWORKS, DatasetSpec, MethodSpec, Settings, Spec
from dahgnn.splits import Split, sample_per_class, split_per_class
from dahgnn.training import FitResult, fit, fit_many

logger = logging.getLogger(__name__)

# Seed of the draw of nodes from a dataset, the same for all runs.
_SAMPLE = 0
# Processes that share a GPU, for networks whose loop keeps neither of them busy.
_PROCESSES_ON_A_GPU = 8


@dataclass(frozen=True, eq=False)
class Task:
    """A dataset that is ready: features, labels and neighbours, as arrays that processes can share.

    Two tasks of the same content are equal.

    Attributes
    ----------
    name, digest : str
        The dataset, and its content.
    features, labels, neighbours : array, (n, d), (n,), (n, k)
        Of float32, int64 and int64.
    """

    name: str
    digest: str
    features: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    neighbours: np.ndarray[Any, Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and (self.name, self.digest) == (other.name, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True)
class Job:
    """One fit: a line to be."""

    dataset: str
    method: str
    per_class: int
    run: int


def load_task(spec: DatasetSpec, k: int, data: Path, device: str = "cpu") -> Task:
    """Read a dataset, draw its nodes and find their neighbours."""
    whole = _read(spec, data)
    if spec.per_class is not None:
        whole = whole.subset(sample_per_class(whole.labels, spec.per_class, seed=_SAMPLE))
    neighbours = knn(whole.features.to(device), k).indices.cpu()
    content = hashlib.sha256()
    for tensor in (whole.features, whole.labels, neighbours):
        content.update(tensor.numpy().tobytes())
    arrays = (each.numpy() for each in (whole.features, whole.labels, neighbours))
    return Task(spec.name, content.hexdigest()[:16], *arrays)


def _read(spec: DatasetSpec, data: Path) -> Dataset:
    if spec.features == "cnn":
        return load_features(features_path(data, spec.name), spec.name)
    return load_images(spec.name, data, spec.part).as_features()


def plan(
    spec: Spec,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
) -> list[Job]:
    """Return the fits of a spec, or of some of its datasets and methods."""
    return [
        Job(dataset.name, method.name, per_class, run)
        for dataset in spec.datasets
        if datasets is None or dataset.name in datasets
        for method in spec.methods
        if methods is None or method.name in methods
        for per_class in spec.labels
        for run in range(spec.runs)
    ]


@lru_cache(maxsize=256)
def _split(labels: bytes, per_class: int, validation: int, run: int) -> Split:
    known = torch.from_numpy(np.frombuffer(labels, np.int64).copy())
    return split_per_class(known, train=per_class, validation=validation, seed=run)


class Run:
    """The state of an experiment in a folder.

    Parameters
    ----------
    spec : Spec
        What to run.
    folder : Path
        Gets ``spec.json`` and ``runs.jsonl``.
    tasks : mapping of str to Task
        By the name of the dataset; those that this process runs.
    """

    def __init__(self, spec: Spec, folder: Path, tasks: Mapping[str, Task]) -> None:
        self.spec, self.folder, self.tasks = spec, folder, tasks
        self.methods = {method.name: method for method in spec.methods}
        self.file = folder / "runs.jsonl"

    def settings(self, job: Job) -> Settings:
        """Return the settings of a job's method on its dataset."""
        return self.methods[job.method].settings[job.dataset]

    def split(self, job: Job) -> Split:
        """Return the split of a job, which all methods share."""
        labels = self.tasks[job.dataset].labels.astype(np.int64).tobytes()
        return _split(labels, job.per_class, self.spec.validation, job.run)

    def identity(self, job: Job) -> dict[str, Any]:
        """Return what makes two lines the same measurement."""
        settings = self.settings(job)
        return {
            "experiment": self.spec.name,
            "dataset": job.dataset,
            "data": self.tasks[job.dataset].digest,
            "method": job.method,
            "run": job.run,
            "split": self.split(job).digest,
            "settings": {
                "kind": settings.kind,
                "model": dict(settings.model),
                "training": dict(settings.training),
                "k": self.spec.k,
            },
        }

    def key(self, job: Job) -> str:
        """Return the digest of a job's identity."""
        return hashlib.sha256(json.dumps(self.identity(job), sort_keys=True).encode()).hexdigest()[:16]

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that have no line yet.

        Raises
        ------
        ValueError
            If there is a line of another experiment, or one for a job but of other settings or data.
        """
        lines = self._read_lines()
        done = {(line["dataset"], line["method"], line["labels"], line["run"]): line for line in lines}
        missing = []
        for job in jobs:
            split = self.split(job)
            line = done.get((job.dataset, job.method, len(split.train), job.run))
            if line is None:
                missing.append(job)
            elif line["key"] != self.key(job):
                raise ValueError(
                    f"{self.file} holds a run of '{job.method}' on {job.dataset} with {len(split.train)} "
                    f"labels whose settings, data or split differ from the spec's "
                    f"({_difference(line, self.identity(job))}). Choose another folder, or remove the file."
                )
        return missing

    def _read_lines(self) -> list[Line]:
        if not self.file.exists():
            return []
        mend(self.file)
        lines = []
        for number, text in enumerate(self.file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                known = line["experiment"] == self.spec.name and line["key"] is not None
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"Line {number} of {self.file} is no run line. Remove it.") from error
            if not known:
                raise ValueError(
                    f"Line {number} of {self.file} is of the experiment '{line['experiment']}', not of "
                    f"'{self.spec.name}'. Choose another folder."
                )
            lines.append(line)
        return lines

    def write_spec(self) -> None:
        """Keep the resolved spec beside the lines, for the report."""
        with replacing(self.folder / "spec.json") as temporary:
            temporary.write_text(json.dumps(self.spec.as_json(), indent=1) + "\n", encoding="utf-8")


def append_lines(file: Path, lines: Iterable[Line]) -> None:
    """Append lines; each is there whole or not at all, also after a kill or on a full disk."""
    # Without a buffer, which would be written once more when the file is closed after an error.
    with file.open("ab", buffering=0) as stream:
        for line in lines:
            start = stream.seek(0, os.SEEK_END)
            left = memoryview(json.dumps(line).encode() + b"\n")
            try:
                while left:
                    left = left[stream.write(left) :]
                os.fsync(stream.fileno())
            except BaseException:
                stream.truncate(start)
                raise


def mend(file: Path) -> None:
    """Cut off a last line that a kill left unfinished."""
    content = file.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        logger.warning("The last line of %s was cut, and is run again.", file)
        with file.open("r+b") as again:
            again.truncate(whole)


def _difference(line: Line, identity: Mapping[str, Any]) -> str:
    """Name the first thing in which a line differs."""
    split, settings = line["split"]["digest"], line["settings"]
    if line.get("data") != identity["data"]:
        return "the data"
    if split != identity["split"]:
        return "the split"
    for part in ("model", "training"):
        old, new = settings.get(part, {}), identity["settings"][part]
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                return f"'{name}' was {old.get(name)}, is {new.get(name)}"
    return "another setting"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep a second process out of a folder; a lock of a process that was killed is free."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(f"Another process runs an experiment in {folder}. Choose another folder.") from error
    try:
        yield
    finally:
        lock.release()


Progress = Callable[[int, int, str], None]


def run_experiment(
    spec: Spec,
    folder: Path,
    tasks: Mapping[str, Task],
    *,
    methods: Sequence[str] | None = None,
    device: str = "cpu",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Run what is missing of an experiment, and append its lines.

    Parameters
    ----------
    spec : Spec
        What to run.
    folder : Path
        Of the lines; is made, and locked meanwhile.
    tasks : mapping of str to Task
        The datasets to run, by name.
    methods : sequence of str, optional
        The methods to run; all by default.
    device : str
        "cpu" or a CUDA device.
    jobs : int, optional
        Processes; all cores by default, each with one thread. They are joblib's, so that its
        ``parallel_config`` can choose others, also on other machines.
    progress : callable
        Gets how many fits are done, how many there are, and what was done last.

    Returns
    -------
    int
        Fits that were run.
    """
    with alone_in(folder):
        run = Run(spec, folder, tasks)
        every = plan(spec, datasets=list(tasks), methods=methods)
        missing = run.missing(every)
        run.write_spec()
        done = len(every) - len(missing)
        for lines in _work(run, missing, device, jobs):
            append_lines(run.file, lines)
            done += len(lines)
            if progress is not None:
                progress(done, len(every), _describe(run, lines[-1]))
        return len(missing)


def _describe(run: Run, line: Line) -> str:
    title = run.methods[line["method"]].title
    percent = 100 * line["metrics"]["test_accuracy"]
    return f"{title}, {line['dataset']}, {line['labels']} labels: {percent:.2f} %"


def _work(run: Run, missing: list[Job], device: str, jobs: int | None) -> Iterator[list[Line]]:
    """Yield the lines of the missing jobs, some at a time, in any order."""
    together, alone = _group(run, missing, device)
    for group in together:
        yield _fit_group(run, group, device)
    if not alone:
        return
    if jobs is None:
        jobs = _PROCESSES_ON_A_GPU if device != "cpu" else os.cpu_count() or 1
    if jobs == 1 or len(alone) == 1:
        for group in alone:
            yield _fit_group(run, group, device)
        return
    from joblib import Parallel, delayed

    work = Parallel(n_jobs=min(jobs, len(alone)), return_as="generator_unordered", max_nbytes="1M")
    yield from work(delayed(_fit_elsewhere)(*_parcel(run, group), device) for group in alone)


def _group(run: Run, missing: Sequence[Job], device: str) -> tuple[list[list[Job]], list[list[Job]]]:
    """Divide jobs into those that train together on a GPU, a list for each cell, and the rest, one by one."""
    together: dict[tuple[str, str, int], list[Job]] = {}
    alone = []
    for job in missing:
        kind = NETWORKS.get(run.settings(job).kind)
        if device != "cpu" and kind is not None and "fold" in kind.__dict__:
            together.setdefault((job.dataset, job.method, job.per_class), []).append(job)
        else:
            alone.append([job])
    return list(together.values()), alone


def _parcel(run: Run, group: list[Job]) -> tuple[Spec, Task, list[Job]]:
    return run.spec, run.tasks[group[0].dataset], group


def _fit_elsewhere(spec: Spec, task: Task, group: list[Job], device: str) -> list[Line]:
    """Fit in a process of its own, which has one thread."""
    torch.set_num_threads(1)
    return _fit_group(Run(spec, Path(), {task.name: task}), group, device)


@lru_cache(maxsize=1)
def _on_device(task: Task, device: str) -> tuple[Tensor, Hypergraph]:
    """Return the features and the hypergraph, which a process makes once of a task."""
    features, neighbours = (
        torch.from_numpy(np.array(each)).to(device) for each in (task.features, task.neighbours)
    )
    return features, Hypergraph.from_neighbors(neighbours)


def _fit_group(run: Run, group: list[Job], device: str) -> list[Line]:
    """Fit the jobs of one cell and return their lines."""
    task, settings = run.tasks[group[0].dataset], run.settings(group[0])
    labels = torch.from_numpy(np.array(task.labels)).long()
    if not settings.is_network:
        return [_classify(run, job, task, labels) for job in group]
    results = train(task, settings, [run.split(job) for job in group], [job.run for job in group], device)
    return [
        _line(run, job, labels, result.predictions, result.seconds, device) | describe_training(result)
        for job, result in zip(group, results, strict=True)
    ]


def train(
    task: Task, settings: Settings, splits: Sequence[Split], seeds: Sequence[int], device: str = "cpu"
) -> list[FitResult]:
    """Train one network for each split, from weights drawn by its seed."""
    labels = torch.from_numpy(np.array(task.labels)).long()
    n_classes = int(labels.max()) + 1
    kind, config = NETWORKS[settings.kind], TrainingConfig.from_mapping(settings.training)
    models = [
        kind(
            task.features.shape[1], n_classes, **settings.model, generator=torch.Generator().manual_seed(seed)
        )
        for seed in seeds
    ]
    inputs = *_on_device(task, device), labels
    if len(models) == 1 or device == "cpu":
        runs = zip(models, splits, seeds, strict=True)
        results = [fit(model, *inputs, split, config, seed=seed) for model, split, seed in runs]
    else:
        start = time.perf_counter()
        results = fit_many(models, *inputs, splits, config, seeds=seeds)
        # Of runs side by side each has its share of the time.
        share = (time.perf_counter() - start) / len(results)
        results = [replace(result, seconds=share) for result in results]
    if any(result.stopped == "interrupted" for result in results):
        raise KeyboardInterrupt
    return results


def _classify(run: Run, job: Job, task: Task, labels: Tensor) -> Line:
    split, settings = run.split(job), run.settings(job)
    features = torch.from_numpy(np.array(task.features))
    start = time.perf_counter()
    if settings.kind == "LogisticRegression":
        probabilities, chosen = logistic_regression(features, labels, split)
    elif settings.kind == "LabelSpreading":
        probabilities, chosen = label_spreading(features, labels, split, k=run.spec.k)
    else:
        probabilities, chosen = laplace_learning(features, labels, split, k=run.spec.k)
    seconds = time.perf_counter() - start
    return _line(run, job, labels, probabilities.argmax(1), seconds, "cpu") | {"chosen": chosen}


def _line(run: Run, job: Job, labels: Tensor, predictions: Tensor, seconds: float, device: str) -> Line:
    measured = compose_line(run.split(job), labels, predictions, seconds, device)
    return {**run.identity(job), "key": run.key(job), "seed": job.run, **measured}


def figure_results(
    spec: Spec, task: Task, device: str = "cpu"
) -> tuple[Split, list[tuple[MethodSpec, FitResult]]]:
    """Train the methods of a figure once each, on the first split."""
    run = Run(spec, Path(), {task.name: task})
    split = run.split(Job(task.name, spec.figure[0], spec.labels[0], 0))
    methods = [run.methods[name] for name in spec.figure]
    results = [(each, train(task, each.settings[task.name], [split], [0], device)[0]) for each in methods]
    return split, results
