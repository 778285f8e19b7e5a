"""Run an experiment: from a spec to run lines, one for each method, dataset, label count and repetition.

Lines are appended whole. Starting again runs only what is missing, and lines of other settings, data or
splits stop it before anything is trained.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dahgnn.baselines.registry import NetworkKind, find_kind
from dahgnn.checks import ANY
from dahgnn.experiments.datasets import Task
from dahgnn.experiments.fit_jobs import fit_jobs
from dahgnn.experiments.jobs import Experiment, Job, plan
from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.spec import Spec
from dahgnn.experiments.spec_file import read_spec
from dahgnn.files.atomic import replacing
from dahgnn.files.jsonl import Line, append_lines, lock_folder, repair_last_line
from dahgnn.shards import spread
from dahgnn.workers import count_workers

Progress = Callable[[int, int, str], None]


def run_experiment(
    spec: Spec,
    folder: Path,
    tasks: Mapping[str, Task],
    *,
    methods: Sequence[str] | None = None,
    device: str = "cpu",
    jobs: int | None = None,
    backend: str = "processes",
    progress: Progress | None = None,
) -> int:
    """Run what is missing of an experiment, and append its lines.

    Parameters
    ----------
    spec : Spec
        What to run.
    folder : Path
        The folder of the lines, which is made if need be, and locked meanwhile.
    tasks : mapping of str to Task
        The datasets to run, by name.
    methods : sequence of str, optional
        The methods to run; all by default.
    device : str
        "cpu" or a CUDA device.
    jobs : int, optional
        Workers, each with one thread; by default one for each core of this machine or of the cluster. On a
        GPU networks train in this process, which then keeps a core, and beside it the methods that need none
        in others.
    backend : {"processes", "ray", "dask"}
        Where the workers are, see `dahgnn.shards.run_shards`. A run whose worker dies is done by another.
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
            temporary.write_text(json.dumps(_describe_spec(spec, tasks, folder), indent=1) + "\n", "utf-8")
        done = len(every) - len(todo)
        tell = progress or (lambda *_: None)
        tell(done, len(every), "")
        for new in _work(experiment, todo, device, jobs, backend):
            append_lines(file, new)
            done += len(new)
            tell(done, len(every), _describe(experiment, new[-1]))
        return len(todo)


def _describe_spec(spec: Spec, tasks: Mapping[str, Task], folder: Path) -> dict[str, Any]:
    """Return the spec with the names of classes: those of loaded datasets, and for the rest those known."""
    whole = spec.as_json()
    names: dict[str, Sequence[str]] = {}
    with contextlib.suppress(OSError, ValueError):  # one that is missing or damaged is written anew
        before = read_spec(folder / "spec.json")["datasets"]
        names = {entry["name"]: entry.get("classes", ()) for entry in before}
    names |= {name: task.classes for name, task in tasks.items()}
    for entry in whole["datasets"]:
        entry["classes"] = names.get(entry["name"]) or entry["classes"]
    return whole


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


def _work(
    experiment: Experiment, todo: Sequence[Job], device: str, jobs: int | None, backend: str
) -> Iterator[list[Line]]:
    """Yield the lines of jobs, some at a time, in any order; those of other processes come last.

    These are classical methods, quick to do again if the networks' training is killed.
    """
    together, alone = group_jobs(experiment, todo, device)
    where: dict[str, Any] = {"cluster": backend}
    if backend == "processes":
        # One core is for the networks here.
        jobs = min(max(1, count_workers(None, ANY) - bool(together)) if jobs is None else jobs, len(alone))
        # Processes that share a machine slow each other down: whoever reads the seconds must know.
        where = {"processes": jobs}
    if jobs in (0, 1) or len(alone) <= 1:
        yield from (fit_jobs(experiment, group, device) for group in together + alone)
        return
    spec, tasks = experiment.spec, experiment.tasks
    calls = [(spec, tasks[group[0].dataset], group, device) for group in alone]
    with contextlib.closing(spread(_fit_elsewhere, calls, jobs=jobs, backend=backend)) as started:
        for group in together:
            yield fit_jobs(experiment, group, device)
        for _, lines in started:
            yield [line | {"device": line["device"] | where} for line in lines]


def group_jobs(
    experiment: Experiment, todo: Sequence[Job], device: str
) -> tuple[list[list[Job]], list[list[Job]]]:
    """Divide jobs into those that compute on a GPU, a list for each cell, and the rest, one by one."""
    together: dict[tuple[str, str, int], list[Job]] = {}
    alone = []
    for job in todo:
        kind = find_kind(experiment.settings(job).kind)
        if device != "cpu" and (isinstance(kind, NetworkKind) or kind.uses_device):
            together.setdefault((job.dataset, job.method, job.labels_per_class), []).append(job)
        else:
            alone.append([job])
    return list(together.values()), alone


def _fit_elsewhere(spec: Spec, task: Task, group: list[Job], device: str) -> list[Line]:
    """Fit in a process of its own, which has one thread."""
    torch.set_num_threads(1)
    return fit_jobs(Experiment(spec, {task.name: task}), group, device)
