"""Run an experiment: from a spec to run lines, one for each method, dataset, label count and repetition.

Lines are appended whole. Starting again runs only what is missing, and lines of other settings, data or
splits stop it before anything is trained.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from pickle import PicklingError
from threading import Thread
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.baselines.classical import label_spreading, laplace_learning, logistic_regression
from dahgnn.config import TrainingConfig
from dahgnn.experiments.lines import compose_line, describe_training, read_lines
from dahgnn.experiments.spec import DatasetSpec, MethodSpec, Settings, Spec, make_network
from dahgnn.files.atomic import replacing
from dahgnn.files.jsonl import Line, append_lines, lock_folder, repair_last_line
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import knn
from dahgnn.graph.scaling import choose_scaling
from dahgnn.images.cnn_features import features_path, load_features, read_header
from dahgnn.images.datasets import N_CLASSES, load_images
from dahgnn.training.fit import FitResult, average, fit_many
from dahgnn.training.splits import Split, sample_per_class, split_per_class

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A dataset that is ready: features, labels and neighbours, as arrays that processes can share.

    Two tasks of the same content are equal.

    Attributes
    ----------
    name, digest : str
        The dataset, and its content.
    features, labels, neighbours : array, (n, d), (n,), (n, k)
        Of float32, int64 and int64.
    cnn : mapping
        What is known of the CNN whose features they are, if they are.
    """

    name: str
    digest: str
    features: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    neighbours: np.ndarray[Any, Any]
    cnn: Mapping[str, Any] = field(default_factory=dict)

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
    if spec.features == "cnn":
        path = features_path(data, spec.name)
        whole, header = load_features(path, spec.name), read_header(path, spec.name)
        cnn = {"digest": header.cnn_digest, "test_accuracy": header.cnn_test_accuracy}
    else:
        whole, cnn = load_images(spec.name, data, spec.part).as_features(), {}
    if whole.labels.unique().tolist() != list(range(N_CLASSES)):
        raise ValueError(
            f"{spec.title} must have images of all {N_CLASSES} classes. Got those of classes "
            f"{', '.join(map(str, whole.labels.unique().tolist()))}."
        )
    nodes = draw_nodes(whole.labels, spec)
    whole = whole if nodes is None else whole.subset(nodes)
    neighbours = knn(whole.features.to(device), k).indices.cpu()
    content = hashlib.sha256()
    for tensor in (whole.features, whole.labels, neighbours):
        content.update(tensor.numpy().tobytes())
    return Task(
        name=spec.name,
        digest=content.hexdigest()[:16],
        features=whole.features.numpy(),
        labels=whole.labels.numpy(),
        neighbours=neighbours.numpy(),
        cnn=cnn,
    )


def draw_nodes(labels: Tensor, spec: DatasetSpec) -> Tensor | None:
    """Return the nodes of a dataset that a spec takes; None means all."""
    if spec.per_class is None:
        return None
    if spec.skip == 0:
        return sample_per_class(labels, spec.per_class, seed=0)
    return split_per_class(labels, train=spec.skip, validation=spec.per_class, seed=0).validation


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


class Experiment:
    """A spec and its data: what each fit is, and by which lines it is done.

    Parameters
    ----------
    spec : Spec
        What to run.
    tasks : mapping of str to Task
        By the name of the dataset; those that this process runs.
    """

    def __init__(self, spec: Spec, tasks: Mapping[str, Task]) -> None:
        self.spec, self.tasks = spec, tasks
        self.methods = {method.name: method for method in spec.methods}

    def check(self) -> None:
        """Refuse label counts that leave no node of some class to test."""
        most = max(self.spec.labels)
        for name, task in self.tasks.items():
            fewest = int(np.bincount(task.labels.astype(np.int64)).min())
            if fewest <= most + self.spec.validation:
                raise ValueError(
                    f"The spec '{self.spec.name}' must leave nodes of every class of '{name}' to test. "
                    f"Got {most} labelled and {self.spec.validation} for validation of {fewest}."
                )

    def settings(self, job: Job) -> Settings:
        """Return the settings of a job's method on its dataset."""
        return self.methods[job.method].settings[job.dataset]

    def split(self, dataset: str, per_class: int, run: int) -> Split:
        """Return the split of a run, which all methods share."""
        labels = self.tasks[dataset].labels.astype(np.int64).tobytes()
        return _split(labels, per_class, self.spec.validation, run)

    def split_of(self, job: Job) -> Split:
        """Return the split of a job."""
        return self.split(job.dataset, job.per_class, job.run)

    def identity(self, job: Job) -> dict[str, Any]:
        """Return what makes two lines the same measurement."""
        settings = self.settings(job)
        return {
            "experiment": self.spec.name,
            "dataset": job.dataset,
            "data": self.tasks[job.dataset].digest,
            "method": job.method,
            "run": job.run,
            "split": self.split_of(job).digest,
            "settings": asdict(settings) | {"k": self.spec.k},
        }

    def key(self, job: Job) -> str:
        """Return the digest of a job's identity."""
        return hashlib.sha256(json.dumps(self.identity(job), sort_keys=True).encode()).hexdigest()[:16]

    def missing(self, jobs: Iterable[Job], lines: Iterable[Line], file: Path) -> list[Job]:
        """Return the jobs that none of the lines is of.

        Raises
        ------
        ValueError
            If a line of these datasets is of no job of the spec, or of other settings, data or splits.
        """
        places = {(job.dataset, job.method, len(self.split_of(job).train), job.run): job for job in jobs}
        for line in lines:
            if line["dataset"] not in self.tasks:
                self._check_elsewhere(line, file)
                continue
            job = places.pop((line["dataset"], line["method"], line["labels"], line["run"]), None)
            if job is None or line["key"] != self.key(job):
                why = "the spec has no such run" if job is None else _difference(line, self.identity(job))
                raise _foreign(line, file, why)
        return list(places.values())

    def _check_elsewhere(self, line: Line, file: Path) -> None:
        """Refuse a line of a dataset that is not loaded, as far as the spec alone can tell."""
        names = [dataset.name for dataset in self.spec.datasets]
        if line["dataset"] not in names or line["method"] not in self.methods:
            raise _foreign(line, file, "the spec has no such run")
        known = self.methods[line["method"]].settings[line["dataset"]]
        settings = asdict(known) | {"k": self.spec.k}
        if line["run"] not in range(self.spec.runs) or line["labels"] not in self.spec.label_counts:
            raise _foreign(line, file, "the spec has no such run")
        if line.get("settings") != settings:
            raise _foreign(line, file, _difference(line, {"settings": settings}))
        if line["split"].get("validation") != N_CLASSES * self.spec.validation:
            raise _foreign(line, file, "the split")


def _foreign(line: Line, file: Path, why: str) -> ValueError:
    return ValueError(
        f"{file} holds run {line['run']} of '{line['method']}' on {line['dataset']} with {line['labels']} "
        f"labels, which is not of this spec and these data ({why}). Choose another folder or remove the file."
    )


def _difference(line: Line, identity: Mapping[str, Any]) -> str:
    """Name the first thing in which a line differs."""
    if "data" in identity and line.get("data") != identity["data"]:
        return "the data"
    if "split" in identity and line["split"]["digest"] != identity["split"]:
        return "the split"
    old, new = (_flat(each.get("settings")) for each in (line, identity))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            return f"'{name}' was {old.get(name)}, is {new.get(name)}"
    return "another setting"


def _flat(settings: object) -> dict[str, Any]:
    """Return settings without the tables that divide them."""
    flat: dict[str, Any] = {}
    for name, value in settings.items() if isinstance(settings, dict) else ():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat


Progress = Callable[[int, int, str], None]
# Between the seeds of the networks of one run: more than there are runs.
_APART = 1 << 20


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
        Processes; by default all cores. Each has one thread. They are joblib's, so that its
        ``parallel_config`` can choose others, also on other machines. On a GPU networks train in this
        process, which then keeps a core, and beside it the methods that need none in others.
    progress : callable
        Gets how many fits are done, how many there are, and what was done last.

    Returns
    -------
    int
        Fits that were run.
    """
    file = folder / "runs.jsonl"
    experiment = Experiment(spec, tasks)
    experiment.check()
    with lock_folder(folder):
        lines = read_done(file, spec.name)
        every = plan(spec, datasets=list(tasks), methods=methods)
        # All lines are checked, also those of methods that this start leaves alone.
        missing = set(experiment.missing(plan(spec, datasets=list(tasks)), lines, file))
        todo = [job for job in every if job in missing]
        with replacing(folder / "spec.json") as temporary:
            temporary.write_text(json.dumps(spec.as_json(), indent=1) + "\n", encoding="utf-8")
        done = len(every) - len(todo)
        tell = progress or (lambda *_: None)
        tell(done, len(every), "")
        for new in _work(experiment, todo, device, jobs):
            append_lines(file, new)
            done += len(new)
            tell(done, len(every), _describe(experiment, new[-1]))
        return len(todo)


def read_done(file: Path, name: str) -> list[Line]:
    """Read the lines of an experiment, after a kill also those before the one that was cut."""
    if not file.exists():
        return []
    if not file.is_file():
        raise FileExistsError(f"{file} must be a file of run lines. Got a folder or device.")
    lines = read_lines(file, name)  # before anything is changed in what may be somebody else's
    repair_last_line(file)
    return lines


def _describe(experiment: Experiment, line: Line) -> str:
    title = experiment.methods[line["method"]].title
    percent = 100 * line["metrics"]["test_accuracy"]
    return f"{title}, {line['dataset']}, {line['labels']} labels: {percent:.2f} %"


def _work(experiment: Experiment, todo: Sequence[Job], device: str, jobs: int | None) -> Iterator[list[Line]]:
    """Yield the lines of jobs, some at a time, in any order; those of other processes come last.

    These are classical methods, quick to do again if the networks' training is killed.
    """
    from joblib import Parallel, cpu_count, delayed

    together, alone = group_jobs(experiment, todo, device)
    cores = max(1, cpu_count() - bool(together))  # one is for the networks here
    jobs = min(cores if jobs is None else jobs, len(alone))
    if jobs <= 1:
        yield from (_fit_group(experiment, group, device) for group in together + alone)
        return
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", max_nbytes="1M")
    spec, tasks, work = experiment.spec, experiment.tasks, delayed(_fit_elsewhere)
    fits = (work(spec, tasks[group[0].dataset], group, device, os.getpid()) for group in alone)
    with _sharing_data(), contextlib.closing(parallel(fits)) as started:
        for group in together:
            yield _fit_group(experiment, group, device)
        for lines in started:
            # Processes that share a machine slow each other down: whoever reads the seconds must know.
            yield [line | {"device": line["device"] | {"processes": jobs}} for line in lines]


@contextlib.contextmanager
def _sharing_data() -> Iterator[None]:
    """Say what to do when data cannot be shared with other processes."""
    try:
        yield
    except PicklingError as error:
        raise OSError(
            "The data could not be shared with other processes: is there room for temporary files? Set "
            "JOBLIB_TEMP_FOLDER to another folder, or use one process ('--jobs 1')."
        ) from error


def group_jobs(
    experiment: Experiment, todo: Sequence[Job], device: str
) -> tuple[list[list[Job]], list[list[Job]]]:
    """Divide jobs into those of a network on a GPU, a list for each cell, and the rest, one by one."""
    together: dict[tuple[str, str, int], list[Job]] = {}
    alone = []
    for job in todo:
        if device != "cpu" and experiment.settings(job).is_network:
            together.setdefault((job.dataset, job.method, job.per_class), []).append(job)
        else:
            alone.append([job])
    return list(together.values()), alone


def _fit_elsewhere(spec: Spec, task: Task, group: list[Job], device: str, parent: int) -> list[Line]:
    """Fit in a process of its own, which has one thread."""
    end_with(parent)
    torch.set_num_threads(1)
    return _fit_group(Experiment(spec, {task.name: task}), group, device)


@lru_cache(maxsize=1)
def end_with(parent: int) -> None:
    """End this process soon after its parent: one that was killed could not tell it.

    A process with another parent, as on a cluster, is left alone.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == parent:
        Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=4)
def _hypergraph(task: Task, device: str) -> Hypergraph:
    """Return the hypergraph, which a process makes once of a task."""
    return Hypergraph.from_neighbors(torch.from_numpy(np.array(task.neighbours)).to(device))


@lru_cache(maxsize=8)
def _features(task: Task, device: str, scale: str) -> Tensor:
    """Return the features, scaled once for all methods that ask for it."""
    rows = np.array(task.features)
    scaled = torch.from_numpy(rows) if scale == "none" else choose_scaling(rows, scale).apply(rows)
    return scaled.to(device)


def _fit_group(experiment: Experiment, group: list[Job], device: str) -> list[Line]:
    """Fit the jobs of one cell and return their lines."""
    task, settings = experiment.tasks[group[0].dataset], experiment.settings(group[0])
    if not settings.is_network:
        return [_classify(experiment, job) for job in group]
    splits = [experiment.split_of(job) for job in group]
    results = train(task, settings, splits, [job.run for job in group], device)
    return [
        _line(experiment, job, result.predictions, result.seconds, device) | describe_training(result)
        for job, result in zip(group, results, strict=True)
    ]


def train(
    task: Task, settings: Settings, splits: Sequence[Split], seeds: Sequence[int], device: str = "cpu"
) -> list[FitResult]:
    """Train a network for each split, or several that are averaged, from weights drawn by its seed."""
    labels = torch.from_numpy(np.array(task.labels)).long()
    n_classes = int(labels.max()) + 1
    config = TrainingConfig.from_mapping(settings.training)
    splits = [split for split in splits for _ in range(settings.networks)]
    seeds = [seed + number * _APART for seed in seeds for number in range(settings.networks)]
    features = _features(task, device, settings.scale)
    width, inputs = features.shape[1], (features, _hypergraph(task, device), labels)
    models = [
        make_network(settings.kind, width, n_classes, settings.model, torch.Generator().manual_seed(seed))
        for seed in seeds
    ]
    start = time.perf_counter()
    results = fit_many(models, *inputs, splits, config, seeds=seeds)
    if device != "cpu":  # of runs side by side each has its share of the time
        share = (time.perf_counter() - start) / len(results)
        results = [replace(result, seconds=share) for result in results]
    if any(result.stopped == "interrupted" for result in results):
        raise KeyboardInterrupt
    starts = range(0, len(results), settings.networks)
    return [average(results[start : start + settings.networks]) for start in starts]


def _classify(experiment: Experiment, job: Job) -> Line:
    task, split, k = experiment.tasks[job.dataset], experiment.split_of(job), experiment.spec.k
    kind = experiment.settings(job).kind
    start = time.perf_counter()
    if kind == "LogisticRegression":
        probabilities, chosen = logistic_regression(task.features, task.labels, split)
    elif kind == "LabelSpreading":
        probabilities, chosen = label_spreading(task.features, task.labels, split, k=k)
    else:
        probabilities, chosen = laplace_learning(task.features, task.labels, split, k=k)
    seconds = time.perf_counter() - start
    return _line(experiment, job, probabilities.argmax(1), seconds, "cpu") | {"chosen": chosen}


def _line(experiment: Experiment, job: Job, predictions: Tensor, seconds: float, device: str) -> Line:
    task = experiment.tasks[job.dataset]
    labels = torch.from_numpy(np.array(task.labels)).long()
    measured = compose_line(experiment.split_of(job), labels, predictions, seconds, device)
    named = {**experiment.identity(job), "key": experiment.key(job), "seed": job.run}
    return named | ({"cnn": dict(task.cnn)} if task.cnn else {}) | measured


def figure_results(
    spec: Spec, task: Task, device: str = "cpu"
) -> tuple[Split, list[tuple[MethodSpec, FitResult, Line]]]:
    """Train the methods of a figure once each, on the first split."""
    experiment = Experiment(spec, {task.name: task})
    split = experiment.split(task.name, spec.labels[0], 0)
    results = []
    for name in spec.figure:
        job = Job(task.name, name, spec.labels[0], 0)
        result = train(task, experiment.settings(job), [split], [0], device)[0]
        line = _line(experiment, job, result.predictions, result.seconds, device)
        results.append((experiment.methods[name], result, line | describe_training(result)))
    return split, results
