"""Fit the jobs of an experiment: networks by `fit`, all other methods by themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.baselines.correct_and_smooth import smooth_result
from dahgnn.baselines.registry import DirectKind, NetworkKind, Problem, find_kind
from dahgnn.checks import bad_value
from dahgnn.config import TrainingConfig
from dahgnn.experiments.datasets import Task
from dahgnn.experiments.jobs import Experiment, Job
from dahgnn.experiments.lines import compose_line, describe_training
from dahgnn.experiments.methods import MethodSpec, Settings
from dahgnn.experiments.spec import Spec
from dahgnn.files.jsonl import Line
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.local_scale import METRICS
from dahgnn.graph.membership import share_hyperedges
from dahgnn.graph.neighbours import Neighbors, build_search
from dahgnn.graph.scaling import choose_scaling
from dahgnn.training.fit import FitResult, average, fit_many
from dahgnn.training.splits import Split

# The seeds of the networks of one run lie this far apart, which is more than there are runs.
_SEED_STEP = 1 << 20


@lru_cache(maxsize=8)
def _neighbors(task: Task, scale: str, metric: str, k: int) -> Neighbors:
    """Return the neighbours, which a process finds once for all methods that ask for them."""
    if (scale, metric) == ("none", "euclidean"):
        indices, distances = (torch.from_numpy(np.array(each)) for each in (task.neighbours, task.distances))
        return Neighbors(indices, distances)
    return METRICS[metric](build_search(_standard_features(task, scale))).among(k)


@lru_cache(maxsize=4)
def _hypergraph(task: Task, metric: str, device: str) -> Hypergraph:
    """Return the hypergraph, which a process makes once of a task: the given one, if there is one."""
    given = given_hypergraph(task)
    if given is not None:
        return given.to(device)
    k = task.neighbours.shape[1]
    return Hypergraph.from_neighbors(_neighbors(task, "none", metric, k).to(device))


@lru_cache(maxsize=4)
def given_hypergraph(task: Task) -> Hypergraph | None:
    """Return the hypergraph that a dataset comes as, or nothing."""
    if task.incidences is None:
        return None
    node, hyperedge = np.array(task.incidences.node), np.array(task.incidences.hyperedge)
    count = int(hyperedge.max()) + 1
    return Hypergraph.from_incidence(node, hyperedge, n_nodes=len(task.labels), n_hyperedges=count)


@lru_cache(maxsize=8)
def _features(task: Task, device: str, scale: str) -> Tensor:
    """Return the features, scaled once for all methods that ask for it."""
    rows = np.array(task.features)
    scaled = torch.from_numpy(rows) if scale == "none" else choose_scaling(rows, scale).apply(rows)
    return scaled.to(device)


@lru_cache(maxsize=8)
def _standard_features(task: Task, scale: str) -> np.ndarray[Any, Any]:
    """Return the features as methods without a network of ours expect them, with squares of mean one."""
    rows = np.array(task.features)
    if scale == "none":
        return rows
    scaled = choose_scaling(rows, scale).apply(rows)[:, :-1].numpy()  # without the column of ones
    standard: np.ndarray[Any, Any] = scaled / max(float(np.sqrt(np.mean(scaled**2))), 1e-12)
    return standard


def fit_jobs(experiment: Experiment, group: Sequence[Job], device: str) -> list[Line]:
    """Fit jobs of one dataset, method and label count, and return their lines."""
    task, settings = experiment.tasks[group[0].dataset], experiment.settings(group[0])
    kind = find_kind(settings.kind)
    if isinstance(kind, DirectKind):
        return [_fit_directly(experiment, job, kind, device) for job in group]
    splits = [experiment.split_of(job) for job in group]
    results = train(task, settings, splits, [job.run for job in group], device)
    return [
        _line(experiment, job, result.predictions, result.seconds, device) | describe_training(result)
        for job, result in zip(group, results, strict=True)
    ]


def _fit_directly(experiment: Experiment, job: Job, kind: DirectKind, device: str) -> Line:
    task, settings = experiment.tasks[job.dataset], experiment.settings(job)
    problem = Problem(
        features=_standard_features(task, settings.scale),
        labels=np.array(task.labels),
        split=experiment.split_of(job),
        k=experiment.spec.k,
        neighbors=_neighbors(task, settings.scale, settings.metric, experiment.spec.k)
        if kind.uses_neighbors
        else None,
        hypergraph=given_hypergraph(task),
        seed=job.run,
        device=device if kind.uses_device else "cpu",
    )
    start = time.perf_counter()
    answer = kind.solve(problem, settings.parameters)
    seconds = time.perf_counter() - start
    line = _line(experiment, job, answer.predictions, seconds, problem.device)
    line["chosen"] = dict(answer.chosen)
    if answer.stated is not None:
        names = ("stated_accuracy", "stated_low", "stated_high")
        line["metrics"] |= dict(zip(names, answer.stated, strict=True))
    return line


def train(
    task: Task, settings: Settings, splits: Sequence[Split], seeds: Sequence[int], device: str = "cpu"
) -> list[FitResult]:
    """Train a network for each split, or several that are averaged, from weights drawn by its seed."""
    labels = torch.from_numpy(np.array(task.labels)).long()
    kind, config = find_kind(settings.kind), TrainingConfig.from_mapping(settings.training)
    if not isinstance(kind, NetworkKind):
        raise bad_value("settings", "train", "those of a network", repr(settings.kind))
    splits = [split for split in splits for _ in range(settings.networks)]
    seeds = [seed + number * _SEED_STEP for seed in seeds for number in range(settings.networks)]
    features = _features(task, device, settings.scale)
    width, inputs = features.shape[1], (features, _hypergraph(task, settings.metric, device), labels)
    models = [
        kind.make(width, task.n_classes, settings.model, torch.Generator().manual_seed(seed))
        for seed in seeds
    ]
    start = time.perf_counter()
    results = fit_many(models, *inputs, splits, config, seeds=seeds)
    if device != "cpu":  # of runs side by side each has its share of the time
        seconds = (time.perf_counter() - start) / len(results)
        results = [replace(result, seconds=seconds) for result in results]
    if any(result.stopped == "interrupted" for result in results):
        raise KeyboardInterrupt
    starts = range(0, len(results), settings.networks)
    averaged = [average(results[start : start + settings.networks]) for start in starts]
    if settings.smoothing == "none":
        return averaged
    graph = _similarity_graph(task, settings.metric)
    return [
        smooth_result(result, labels, split, graph)
        for result, split in zip(averaged, splits[:: settings.networks], strict=True)
    ]


def _similarity_graph(task: Task, metric: str) -> SimilarityGraph:
    """Return what probabilities are smoothed on: who shares hyperedges, or neighbours."""
    given = given_hypergraph(task)
    if given is not None:
        return SimilarityGraph.from_matrix(share_hyperedges(given))
    return SimilarityGraph.from_neighbors(_neighbors(task, "none", metric, task.neighbours.shape[1]))


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
    count = spec.labels_on(task.name)[0]
    split = experiment.split(task.name, count, 0)
    results = []
    for name in spec.figure:
        job = Job(task.name, name, count, 0)
        result = train(task, experiment.settings(job), [split], [0], device)[0]
        line = _line(experiment, job, result.predictions, result.seconds, device)
        results.append((experiment.methods[name], result, line | describe_training(result)))
    return split, results
