"""Run an experiment: from a spec to run lines, one for each method, dataset, label count and repetition.

Lines are appended whole. Starting again runs only what is missing, and lines of other settings, data or
splits stop it before anything is trained.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from pickle import PicklingError
from threading import Thread
from typing import Any

import torch

from dahgnn.baselines.registry import NetworkKind, find_kind
from dahgnn.experiments.datasets import Task
from dahgnn.experiments.fit_jobs import fit_jobs
from dahgnn.experiments.jobs import Experiment, Job, plan
from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.spec import Spec
from dahgnn.experiments.spec_file import read_spec
from dahgnn.files.atomic import replacing
from dahgnn.files.jsonl import Line, append_lines, lock_folder, repair_last_line

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
        The folder of the lines, which is made if need be, and locked meanwhile.
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
            temporary.write_text(json.dumps(_describe_spec(spec, tasks, folder), indent=1) + "\n", "utf-8")
        done = len(every) - len(todo)
        tell = progress or (lambda *_: None)
        tell(done, len(every), "")
        for new in _work(experiment, todo, device, jobs):
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


def _work(experiment: Experiment, todo: Sequence[Job], device: str, jobs: int | None) -> Iterator[list[Line]]:
    """Yield the lines of jobs, some at a time, in any order; those of other processes come last.

    These are classical methods, quick to do again if the networks' training is killed.
    """
    from joblib import Parallel, cpu_count, delayed

    together, alone = group_jobs(experiment, todo, device)
    cores = max(1, cpu_count() - bool(together))  # one is for the networks here
    jobs = min(cores if jobs is None else jobs, len(alone))
    if jobs <= 1:
        yield from (fit_jobs(experiment, group, device) for group in together + alone)
        return
    parallel = Parallel(
        n_jobs=jobs,
        return_as="generator_unordered",
        max_nbytes="1M",
        # At the start of a process, for one that waits for its first fit must not stay behind, either.
        initializer=_belong_to,
        initargs=(os.getpid(),),
    )
    spec, tasks, work = experiment.spec, experiment.tasks, delayed(_fit_elsewhere)
    fits = (work(spec, tasks[group[0].dataset], group, device, os.getpid()) for group in alone)
    with _sharing_data(), _closing(parallel(fits)) as started:
        for group in together:
            yield fit_jobs(experiment, group, device)
        for lines in started:
            # Processes that share a machine slow each other down: whoever reads the seconds must know.
            yield [line | {"device": line["device"] | {"processes": jobs}} for line in lines]


@contextlib.contextmanager
def _closing(started: Generator[list[Line], None, None]) -> Iterator[Generator[list[Line], None, None]]:
    """End what still runs with the block; that some of it was for nothing goes without saying."""
    try:
        yield started
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            started.close()


@contextlib.contextmanager
def _sharing_data() -> Iterator[None]:
    """Say what to do when data cannot be shared with other processes, or one of them is gone."""
    try:
        yield
    except BrokenProcessPool as error:
        raise OSError(
            "A process that fitted was ended from outside, or could not start: is there enough memory? All "
            "fits before are kept. Start again, perhaps with fewer processes ('--jobs 1')."
        ) from error
    except PicklingError as error:
        raise OSError(
            "The data could not be shared with other processes: is there room for temporary files? Set "
            "JOBLIB_TEMP_FOLDER to another folder, or use one process ('--jobs 1')."
        ) from error


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


def _fit_elsewhere(spec: Spec, task: Task, group: list[Job], device: str, parent: int) -> list[Line]:
    """Fit in a process of its own, which has one thread."""
    end_with(parent)
    torch.set_num_threads(1)
    return fit_jobs(Experiment(spec, {task.name: task}), group, device)


def _belong_to(parent: int) -> None:
    """Begin as a process that ends with its parent, or at once if the parent is already gone."""
    # The process 1 takes the children of those that are gone. In a container it may be the parent itself.
    if os.getppid() == 1 != parent or not _is_alive(parent):
        os._exit(1)
    # These reach all processes of a terminal or a service. Only the parent acts, and ends this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with(parent)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
