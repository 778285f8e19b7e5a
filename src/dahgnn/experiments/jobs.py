"""The fits of an experiment: what each of them is, and by which lines it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dahgnn.experiments.consistency import identity_key
from dahgnn.experiments.datasets import Task
from dahgnn.experiments.methods import Settings
from dahgnn.experiments.spec import Spec
from dahgnn.files.jsonl import Line
from dahgnn.training.splits import Split, sample_per_class, split_per_class


@dataclass(frozen=True)
class Job:
    """One fit, of which a line is to be written."""

    dataset: str
    method: str
    labels_per_class: int
    run: int


def plan(
    spec: Spec,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
) -> list[Job]:
    """Return the fits of a spec, or of some of its datasets and methods."""
    return [
        Job(dataset.name, method.name, count, run)
        for dataset in spec.datasets
        if datasets is None or dataset.name in datasets
        for method in spec.methods
        if methods is None or method.name in methods
        for count in spec.labels_on(dataset.name)
        for run in range(spec.runs)
    ]


@lru_cache(maxsize=256)
def _split(labels: bytes, labels_per_class: int, validation: int, run: int) -> Split:
    known = torch.from_numpy(np.frombuffer(labels, np.int64).copy())
    if validation:
        return split_per_class(known, train=labels_per_class, validation=validation, seed=run)
    train = sample_per_class(known, labels_per_class, seed=run)
    test = torch.ones(len(known), dtype=torch.bool)
    test[train] = False
    return Split(train=train, validation=[], test=test.nonzero().squeeze(1))


def _split_anywhere(task: Task, labels_per_class: int, validation: int, run: int) -> Split:
    """Draw as many nodes as so many of each class would be, whatever their class."""
    generator = torch.Generator().manual_seed(run)
    order = torch.randperm(len(task.labels), generator=generator)
    first, second = task.n_classes * labels_per_class, task.n_classes * (labels_per_class + validation)
    return Split(train=order[:first], validation=order[first:second], test=order[second:])


def _split_as_published(task: Task, labels_per_class: int, validation: int, run: int) -> Split:
    """Take the labelled nodes of the run from the file; all others are tested."""
    published = None if task.incidences is None else task.incidences.published
    if published is None or run >= len(published):
        there = 0 if published is None else len(published)
        raise ValueError(f"The dataset '{task.name}' has {there} published splits. Got a run {run}.")
    found = published.shape[1]
    if validation or found != task.n_classes * labels_per_class:
        raise ValueError(
            f"The published splits of '{task.name}' have {found} labelled nodes of {task.n_classes} classes "
            f"and no validation nodes. Got {labels_per_class} of each class, and {validation} for validation."
        )
    train = torch.from_numpy(published[run])
    test = torch.ones(len(task.labels), dtype=torch.bool)
    test[train] = False
    return Split(train=train, validation=[], test=test.nonzero().squeeze(1))


class Experiment:
    """A spec and its data: what each fit is, and by which lines it is done.

    Parameters
    ----------
    spec : Spec
        What to run.
    tasks : mapping of str to Task
        The datasets that this process runs, by name.
    """

    def __init__(self, spec: Spec, tasks: Mapping[str, Task]) -> None:
        self.spec, self.tasks = spec, tasks
        self.methods = {method.name: method for method in spec.methods}

    def check(self) -> None:
        """Refuse label counts that leave no node of some class of a dataset to test."""
        for name, task in self.tasks.items():
            if self.spec.dataset(name).draw != "per-class":
                continue
            most, validation = max(self.spec.labels_on(name)), self.spec.validation_on(name)
            fewest = int(task.class_sizes.min())
            if fewest <= most + validation:
                raise ValueError(
                    f"The spec '{self.spec.name}' must leave nodes of every class of '{name}' to test. "
                    f"Got {most} labelled and {validation} for validation of {fewest}."
                )

    def settings(self, job: Job) -> Settings:
        """Return the settings of a job's method on its dataset."""
        return self.methods[job.method].settings[job.dataset]

    def split(self, dataset: str, labels_per_class: int, run: int) -> Split:
        """Return the split of a run, which all methods share."""
        task, draw = self.tasks[dataset], self.spec.dataset(dataset).draw
        validation = self.spec.validation_on(dataset)
        if draw == "anywhere":
            return _split_anywhere(task, labels_per_class, validation, run)
        if draw == "published":
            return _split_as_published(task, labels_per_class, validation, run)
        labels = task.labels.astype(np.int64).tobytes()
        return _split(labels, labels_per_class, validation, run)

    def split_of(self, job: Job) -> Split:
        """Return the split of a job."""
        return self.split(job.dataset, job.labels_per_class, job.run)

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
            "settings": settings.as_json() | {"k": self.spec.k},
        }

    def key(self, job: Job) -> str:
        """Return the digest of a job's identity."""
        return identity_key(self.identity(job))

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
                raise _refuse_line(line, file, why)
        return list(places.values())

    def _check_elsewhere(self, line: Line, file: Path) -> None:
        """Refuse a line of a dataset that is not loaded, as far as the spec alone can tell."""
        name = line["dataset"]
        if name not in [dataset.name for dataset in self.spec.datasets] or line["method"] not in self.methods:
            raise _refuse_line(line, file, "the spec has no such run")
        settings = self.methods[line["method"]].settings[name].as_json() | {"k": self.spec.k}
        # How many classes there are, only the confusion matrix tells; a line without one is taken as it is.
        n_classes = len(line.get("confusion") or ())
        counts = [n_classes * count for count in self.spec.labels_on(name)]
        if line["run"] not in range(self.spec.runs) or (n_classes and line["labels"] not in counts):
            raise _refuse_line(line, file, "the spec has no such run")
        if line.get("settings") != settings:
            raise _refuse_line(line, file, _difference(line, {"settings": settings}))
        if n_classes and line["split"].get("validation") != n_classes * self.spec.validation_on(name):
            raise _refuse_line(line, file, "the split")


def _refuse_line(line: Line, file: Path, why: str) -> ValueError:
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
