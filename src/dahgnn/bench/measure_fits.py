"""Time whole fits of ours and of peers, graph and all, and predictions for new rows.

Each method is fitted once to a small task, which imports and compiles, and then to the task some times. The
methods take turns, so that a busy minute of the machine meets all of them.
"""

from __future__ import annotations

import gc
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch

from dahgnn.bench.fits import DEFAULT, EPOCHS, FITS, REFERENCE, FitMethod, Task, mnist_task, random_task
from dahgnn.bench.measure import SMALL_WORKLOAD, BenchConfig, count_others, name_problem, read_clocks
from dahgnn.environment import describe_environment

# Labels of each class in the small task.
_FEW_LABELS = 5


class Trial(NamedTuple):
    """What one fit took.

    Attributes
    ----------
    fit, predict : float, float or None
        Seconds of the fit, and of the prediction for new rows if the method has one.
    accuracy, new_accuracy : float, float or None
        The share of the unlabelled rows that are right, and that of the new ones.
    others : float or None
        Cores of the CPU that other processes kept busy meanwhile.
    """

    fit: float
    predict: float | None
    accuracy: float
    new_accuracy: float | None
    others: float | None


@dataclass(frozen=True)
class FitCost:
    """The trials of a method, or the problem that it met."""

    trials: Sequence[Trial] = ()
    problem: str | None = None

    @property
    def seconds(self) -> float | None:
        """The median time of a fit."""
        return statistics.median(trial.fit for trial in self.trials) if self.trials else None

    @property
    def predict_seconds(self) -> float | None:
        """The median time of a prediction."""
        known = [trial.predict for trial in self.trials if trial.predict is not None]
        return statistics.median(known) if known else None

    @property
    def accuracy(self) -> float | None:
        """The mean of the accuracies."""
        return statistics.fmean(trial.accuracy for trial in self.trials) if self.trials else None

    @property
    def new_accuracy(self) -> float | None:
        """The mean of those on new rows."""
        known = [trial.new_accuracy for trial in self.trials if trial.new_accuracy is not None]
        return statistics.fmean(known) if known else None

    @property
    def others(self) -> float | None:
        """The most cores that other processes kept busy during a fit."""
        return max((trial.others for trial in self.trials if trial.others is not None), default=None)


def compare_fits(config: BenchConfig) -> Iterator[dict[str, Any]]:
    """Fit all methods in turn, as often as the config says, then yield one line a method.

    Returns
    -------
    iterator of dict
        ``seconds`` and ``predict_seconds`` are medians. The first is None where ``problem`` says why, the
        second also where a method has nothing to say of new rows. ``trials`` has the seconds of each fit,
        ``networks`` and ``epochs`` how many the peers have, as many as the classifier has at the most.
    """
    device = torch.device(config.device)
    keys = config.select(FITS)
    for nodes in config.nodes:
        task = _make_task(config, nodes, device)
        about = {
            "data": config.data_name,
            "repeats": config.fits,
            "labels": config.labels,
            "networks": task.networks,
            "epochs": EPOCHS,
            "size": {"columns": task.rows.shape[1], "new_rows": len(task.new_rows)},
        }
        costs = _fit_in_turn(keys, task, config.fits)
        for key in keys:
            line = {"nodes": len(task.rows), "method": FITS[key].name} | _describe(costs[key], costs)
            yield line | about | describe_environment(device)


def _make_task(config: BenchConfig, nodes: int, device: torch.device) -> Task:
    if config.mnist is not None:
        return mnist_task(config.mnist, nodes, config.labels, device)
    return random_task(nodes, config.columns, config.labels, device)


def _describe(cost: FitCost, costs: dict[str, FitCost]) -> dict[str, Any]:
    """Return what a line says of a method, with its multiples of the classifier and of label spreading."""

    def times(key: str) -> float | None:
        other = costs[key].seconds if key in costs else None
        return None if cost.seconds is None or other is None else cost.seconds / other

    return {
        "seconds": cost.seconds,
        "predict_seconds": cost.predict_seconds,
        "accuracy": cost.accuracy,
        "new_accuracy": cost.new_accuracy,
        "times_default": times(DEFAULT),
        "times_label_spreading": times(REFERENCE),
        "problem": cost.problem,
        "others": cost.others,
        "trials": [trial.fit for trial in cost.trials],
    }


def _fit_in_turn(keys: Sequence[str], task: Task, repeats: int) -> dict[str, FitCost]:
    small = random_task(SMALL_WORKLOAD, task.rows.shape[1], _FEW_LABELS, task.device)
    trials: dict[str, list[Trial]] = {key: [] for key in keys}
    problems: dict[str, str] = {}
    for turn in range(repeats + 1):  # the first is the small one
        for key in keys:
            if key in problems:
                continue
            trial = _attempt(FITS[key], task if turn else small)
            if isinstance(trial, str):
                problems[key] = trial
            elif turn:
                trials[key].append(trial)
    return {key: FitCost(problem=problems[key]) if key in problems else FitCost(trials[key]) for key in keys}


def _attempt(method: FitMethod, task: Task) -> Trial | str:
    """Fit a method, or say what stood in its way."""
    if method.package is not None and find_spec(method.package) is None:
        return f"{method.package} is not installed"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of a peer are none of ours
            return _fit_once(method, task)
    except (ImportError, MemoryError, RuntimeError) as error:
        problem = name_problem(error)
        if problem is None:
            raise
        return problem


def _fit_once(method: FitMethod, task: Task) -> Trial:
    gc.collect()
    clocks, start = read_clocks(), time.perf_counter()
    fitted = method.fit(task)
    seconds = time.perf_counter() - start
    others = count_others(clocks)
    unlabelled = task.known < 0
    accuracy = float((fitted.predictions == task.labels)[unlabelled].mean())
    predict_seconds = new_accuracy = None
    if fitted.predict is not None:
        start = time.perf_counter()
        predicted = fitted.predict(task.new_rows)
        predict_seconds = time.perf_counter() - start
        new_accuracy = float((predicted == task.new_labels).mean())
    return Trial(seconds, predict_seconds, accuracy, new_accuracy, others)
