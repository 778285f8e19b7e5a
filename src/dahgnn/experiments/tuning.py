"""Search settings of a network by the accuracy on validation nodes.

Each run has a split of its own, and validation nodes of one are test nodes of others: an experiment that uses
the settings should be on nodes that the search has not seen (``skip`` in a spec), or say so.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dahgnn.environment import describe_environment
from dahgnn.experiments.datasets import Task
from dahgnn.experiments.fit_jobs import train
from dahgnn.experiments.jobs import Experiment
from dahgnn.experiments.methods import vary
from dahgnn.experiments.runner import Progress
from dahgnn.experiments.spec import Search, Spec
from dahgnn.files.jsonl import Line, append_lines, lock_folder, read_objects, repair_last_line

if TYPE_CHECKING:
    import optuna


def run_search(
    spec: Spec,
    folder: Path,
    tasks: Mapping[str, Task],
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[Line]:
    """Run what is missing of a search, and return its trials, the best first.

    Parameters
    ----------
    spec : Spec
        An experiment with a search.
    folder : Path
        Gets a line a trial in ``trials.jsonl``; a second start goes on where the first one stopped.
    tasks : mapping of str to Task
        The datasets, by name.
    device : str
        "cpu" or a CUDA device, where the runs of a cell train side by side.
    progress : callable
        Gets how many trials are done, how many there are, and the last.

    Returns
    -------
    list of dict
        "values" that were tried, "objective" (mean validation accuracy over datasets, label counts and
        runs, each of which has its own split and first weights), "cells" with the mean of each, "seconds".
    """
    search = spec.search
    if search is None:
        raise ValueError(f"The spec '{spec.name}' has no search. Add a table 'search'.")
    file, experiment = folder / "trials.jsonl", Experiment(spec, tasks)
    identity = _identity(experiment, search)
    with lock_folder(folder):
        lines = _read(file, identity)
        study = _study(search, lines)
        if progress is not None:
            progress(len(lines), search.trials, "")
        for number in range(len(lines), search.trials):
            trial = study.ask(_distributions(search))
            line: Line = {"search": identity, "number": number, "values": trial.params}
            line |= _try(experiment, search, trial.params, device) | describe_environment(device)
            study.tell(trial, line["objective"])
            append_lines(file, [line])
            lines.append(line)
            if progress is not None:
                last, best = (100 * value for value in (line["objective"], study.best_value))
                progress(number + 1, search.trials, f"{last:.2f} %, best {best:.2f} %")
    return sorted(lines, key=lambda line: -line["objective"])


def _identity(experiment: Experiment, search: Search) -> dict[str, Any]:
    """Return what two trials must share to be of one search; a longer one goes on with a shorter one."""
    spec, method = experiment.spec, experiment.methods[search.method]
    whole = {
        "experiment": spec.name,
        "runs": spec.runs,
        "labels": spec.labels_per_class,
        "validation": spec.validation,
        **_own_counts(spec),
        "k": spec.k,
        "data": {name: task.digest for name, task in experiment.tasks.items()},
        "settings": {name: method.settings[name].as_json() for name in experiment.tasks},
        **{key: value for key, value in asdict(search).items() if key != "trials"},
    }
    parsed: dict[str, Any] = json.loads(json.dumps(whole))  # as it is read back
    return parsed


def _own_counts(spec: Spec) -> dict[str, Any]:
    """Return the counts of datasets that have their own; a search without them is as in earlier versions."""
    own = {
        each.name: [each.labels_per_class, each.validation]
        for each in spec.datasets
        if each.labels_per_class is not None or each.validation is not None
    }
    return {"own_counts": own} if own else {}


def _read(file: Path, identity: Mapping[str, Any]) -> list[Line]:
    if not file.exists():
        return []
    lines: list[Line] = []
    for number, line in read_objects(file):
        if not isinstance(line, dict) or line.get("search") != identity:
            raise ValueError(f"Line {number} of {file} is of another search. Choose another folder.")
        lines.append(line)
    repair_last_line(file)
    return lines


def _study(search: Search, lines: list[Line]) -> optuna.Study:
    """Make a study that knows the trials so far."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Another seed for what is left: after a restart the sampler would draw its first numbers once more.
    sampler = optuna.samplers.TPESampler(seed=search.seed + len(lines))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for line in lines:
        study.add_trial(
            optuna.trial.create_trial(
                params=line["values"], distributions=_distributions(search), value=line["objective"]
            )
        )
    return study


def _distributions(search: Search) -> dict[str, optuna.distributions.BaseDistribution]:
    return {name: _distribution(space) for name, space in search.space.items()}


def _distribution(space: Any) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(space, list):
        return CategoricalDistribution(space)
    low, high, log, step = (space.get(key) for key in ("low", "high", "log", "step"))
    if isinstance(low, int) and isinstance(high, int):
        return IntDistribution(low, high, log=bool(log), step=step or 1)
    return FloatDistribution(low, high, log=bool(log), step=step)


def _try(experiment: Experiment, search: Search, values: Mapping[str, Any], device: str) -> Line:
    """Train with some values on all datasets and label counts, and score the validation nodes."""
    start = time.perf_counter()
    cells = {}
    for name, task in experiment.tasks.items():
        settings = vary(experiment.methods[search.method].settings[name], values)
        for count in experiment.spec.labels_on(name):
            runs = range(experiment.spec.runs)
            splits = [experiment.split(name, count, run) for run in runs]
            results = train(task, settings, splits, runs, device)
            cells[f"{name} {count}"] = statistics.mean(
                result.accuracy(task.labels, split.validation)
                for result, split in zip(results, splits, strict=True)
            )
    return {
        "objective": statistics.mean(cells.values()),
        "cells": cells,
        "seconds": round(time.perf_counter() - start, 3),
    }
