"""What a fit would cost that is larger than any machine here: arithmetic on what was measured.

Nothing here is a measurement. Each figure is a measured power law, carried to more rows and divided by
what the work divides among, and each assumption is a sentence of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dahgnn.classifier.plan import make_plan
from dahgnn.config import ResourceConfig
from dahgnn.graph.local_scale import count_candidates
from scale.arithmetic import PowerLaw, fit_power

Line = Mapping[str, Any]

# Bytes of a candidate in a shard of the search: its number and its distance.
_CANDIDATE = 8


@dataclass(frozen=True, kw_only=True)
class Task:
    """The fit: rows, columns, classes, neighbours, labels, and how its network is trained and evaluated."""

    n: int = 100_000_000
    d: int = 64
    classes: int = 10
    k: int = 10
    labels: int = 100_000
    epochs: int = 28
    batch: int = 8192
    evaluations: int = 4


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Machines that nobody has measured, by their data sheets.

    Attributes
    ----------
    machines, gpus, cores : int
        Machines, and GPUs and cores of each.
    memory : float
        GiB of a machine.
    network, disk : float
        Bytes a second, of the network of a machine and of the disks of one.
    memory_speed : float
        How many times as fast as on the measured machine work is that waits for memory.
    latency : float
        Seconds of an exchange of gradients, however few they are.
    """

    machines: int = 8
    gpus: int = 8
    cores: int = 64
    memory: float = 1024.0
    network: float = 12.5e9
    disk: float = 2e9
    memory_speed: float = 8.0
    latency: float = 1e-3

    @property
    def processes(self) -> int:
        """Processes that train, one a GPU."""
        return self.machines * self.gpus


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What was measured.

    Attributes
    ----------
    index, search, collect : PowerLaw
        Of the graph: to build the index, to search the shards, to choose by local scale.
    table : PowerLaw
        To read the Parquet files and to write the results.
    propagate, evaluate : PowerLaw
        Of one network: to propagate features, and to evaluate it on all rows.
    rest : PowerLaw
        Experts, labels that spread, and the combination.
    update : float
        Seconds for a target of an update, of the largest size.
    trained_on : str
        The type of device that ``propagate``, ``evaluate`` and ``update`` were measured on.
    weights : int
        Weights of the network.
    threads : int
        Threads with which all else was measured.
    """

    index: PowerLaw
    search: PowerLaw
    collect: PowerLaw
    table: PowerLaw
    propagate: PowerLaw
    evaluate: PowerLaw
    rest: PowerLaw
    update: float
    trained_on: str
    weights: int
    threads: int


@dataclass(frozen=True)
class Step:
    """A step of the fit: its name, the seconds that it takes, and what it divides among."""

    name: str
    seconds: float
    divides: str


@dataclass(frozen=True, kw_only=True)
class Extrapolation:
    """What a fit would take: its steps, bytes on disks and of memory by name, and what all of it assumes."""

    steps: tuple[Step, ...]
    sizes: Mapping[str, float]
    assumptions: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The sum of all steps, of which none overlap."""
        return sum(step.seconds for step in self.steps)


def read_costs(lines: Iterable[Line]) -> Costs:
    """Fit power laws to the lines of a run.

    Raises
    ------
    ValueError
        If a part that is needed has not been measured.
    """
    sound = [line for line in lines if line.get("problem") is None]
    # By local scale, as a fit searches; processes beside each other are measured for themselves.
    graph = _select(
        [
            line
            for line in sound
            if (line.get("metric"), line.get("jobs"), line.get("d")) == ("local-scale", 1, 64)
        ],
        part="graph",
        who="ours",
    )
    train = [line for line in _select(sound, part="train") if line["batch"] and line["processes"] == 1]
    on_gpu = [line for line in train if line["device"]["type"] == "cuda"]
    train = on_gpu or train
    most = max(line["threads"] for line in train)
    train = [line for line in train if line["threads"] == most]
    fits, parquet = _select(sound, part="fit"), _select(sound, part="parquet")
    return Costs(
        index=_law(graph, "seconds_index"),
        search=_law(graph, "seconds_search"),
        collect=_law(graph, "seconds_collect"),
        table=fit_power([line["n"] for line in parquet], [_beside_fit(line) for line in parquet], least=1.0),
        propagate=_law(train, "seconds_propagate"),
        evaluate=_law(train, "seconds_evaluate"),
        rest=_law(fits, "seconds_rest"),
        update=1 / max(train, key=lambda line: int(line["n"]))["targets_a_second"],
        trained_on=train[0]["device"]["type"],
        weights=max(line["weights"] for line in train),
        threads=int(graph[0]["device"].get("threads", 1)),
    )


def _select(lines: Iterable[Line], **fields: object) -> list[Line]:
    found = [line for line in lines if all(line.get(name) == value for name, value in fields.items())]
    if not found:
        raise ValueError(f"The lines must have one of {fields}. Got none. Measure that part first.")
    return found


def _law(lines: list[Line], name: str) -> PowerLaw:
    return fit_power([line["n"] for line in lines], [max(line[name], 1e-3) for line in lines], least=1.0)


def _beside_fit(line: Line) -> float:
    """Return the seconds of `dahgnn fit` besides the fit; the page shows a sample and does not grow."""
    took = sum(phase["seconds"] for phase in line["phases"] if phase["name"] not in ("fit", "draw"))
    return max(float(took), 1e-3)


def extrapolate(costs: Costs, task: Task, cluster: Cluster) -> Extrapolation:
    """Carry measured costs to a larger fit on a larger cluster.

    Work is of four kinds. Shards of queries and batches are independent, and are divided among all machines.
    The index is built once, with all cores of one machine. Every process propagates the features and
    evaluates the network for itself. So it does with conjugate gradients over the graph and with the experts,
    which wait for the memory that the processes of a machine share. The choice by local scale sees all rows
    and stays on one machine.

    Parameters
    ----------
    costs : Costs
        What was measured, `read_costs`.
    task : Task
        The fit.
    cluster : Cluster
        The machines.

    Returns
    -------
    Extrapolation
        Steps that follow one another, sizes in bytes, and all that was assumed.
    """
    faster = cluster.cores / costs.threads
    n, one, everywhere = task.n, "one machine", f"{cluster.machines} machines"
    on_gpu = costs.trained_on == "cuda"
    trainers = f"{cluster.processes} GPUs" if on_gpu else f"{everywhere}, all cores"
    # What was measured on a GPU is divided by GPUs, and what was measured on threads by threads.
    times = cluster.processes if on_gpu else cluster.machines * faster
    updates = task.epochs * math.ceil(task.labels / task.batch)
    sizes = count_bytes(costs, task, cluster, updates)
    to_machines = sizes["index"] + sizes["features"]
    exchange = updates * (cluster.latency + 2 * 4 * costs.weights / cluster.network)
    steps = (
        Step("read the table, write the results", costs.table.at(n), one),
        Step("build the index", costs.index.at(n) / faster, f"{one}, all cores"),
        Step(
            "bring index and rows to the machines",
            to_machines / min(cluster.network, cluster.disk),
            everywhere,
        ),
        Step(
            "search the shards", costs.search.at(n) / (faster * cluster.machines), f"{everywhere}, all cores"
        ),
        Step("choose by local scale", costs.collect.at(n), one),
        Step(
            "propagate features",
            costs.propagate.at(n) / (1 if on_gpu else faster),
            "every process does it whole",
        ),
        Step("updates", task.epochs * task.labels * costs.update / times, trainers),
        Step("exchange gradients", exchange, "every update waits for it"),
        Step(
            "evaluate the network",
            task.evaluations * costs.evaluate.at(n) / (1 if on_gpu else faster),
            "every process does it whole",
        ),
        Step(
            "experts, labels that spread",
            costs.rest.at(n) * _sharing(costs, cluster) / cluster.memory_speed,
            "every process does it whole, in one memory",
        ),
    )
    return Extrapolation(steps=steps, sizes=sizes, assumptions=_assumptions(costs, task, cluster, updates))


def _sharing(costs: Costs, cluster: Cluster) -> int:
    """Return how many processes share a machine: one for each GPU, or one that has all cores."""
    return cluster.gpus if costs.trained_on == "cuda" else 1


def count_bytes(costs: Costs, task: Task, cluster: Cluster, updates: int) -> dict[str, float]:
    """Return the bytes on disks, over the network, and in memory of one machine, by name."""
    candidates = count_candidates(task.k, task.n)
    sharing = _sharing(costs, cluster)
    own = max(1, task.batch // (cluster.machines * sharing))  # the part of a batch that a process has
    resources = ResourceConfig(memory=cluster.memory / sharing, search="ivf", batch=own)
    plan = make_plan(task.n, task.d, task.classes, task.k, resources, torch.device("cpu"))
    return {
        "features": 4.0 * task.n * task.d,
        "index": task.n * (4.0 * task.d + 8),
        "candidates in shards": float(task.n * candidates * _CANDIDATE),
        "large arrays of the fit": float(plan.disk),
        "predictions": 4.0 * task.n * (task.classes + 3),
        "memory of a machine, all its processes": float(plan.memory * sharing),
        "gradients of a process": 4.0 * costs.weights * updates,
    }


def _assumptions(costs: Costs, task: Task, cluster: Cluster, updates: int) -> tuple[str, ...]:
    """Say all that the arithmetic takes for granted."""
    laws = {
        "index": costs.index,
        "search": costs.search,
        "choice by local scale": costs.collect,
        "table": costs.table,
        "propagation": costs.propagate,
        "evaluation": costs.evaluate,
        "experts": costs.rest,
    }
    grows = "; ".join(
        f"{name} {law.at_a_million:.3g} s × (n / 10⁶)^{law.exponent:.2f}, from n = "
        + ", ".join(f"{n:,}" for n in law.measured)
        for name, law in laws.items()
    )
    largest = max(costs.index.measured)
    by_lists = [each.at(largest) * (task.n / largest) ** 1.5 for each in (costs.index, costs.search)]
    faster = cluster.cores / costs.threads
    return (
        f"The fit: {task.n:,} rows of {task.d} columns, {task.classes} classes, k = {task.k}, "
        f"{task.labels:,} labels, one network, {task.epochs} epochs, batches of {task.batch:,} labelled "
        f"rows: {updates:,} updates.",
        f"The cluster: {cluster.machines} machines of {cluster.gpus} GPUs, {cluster.cores} cores and "
        f"{cluster.memory:g} GiB, {8e-9 * cluster.network:g} Gbit/s of network and "
        f"{1e-9 * cluster.disk:g} GB/s of disk each.",
        f"Costs grow as measured, also where nobody measured: {grows}. Where one size was measured, "
        "or they seemed to grow slower than linearly, growth is assumed to be linear.",
        "With 4 √n lists the index and the search grow as n^1.5 in the end. If they did from the largest "
        f"size on, they would take {_duration(by_lists[0] / faster)} and "
        f"{_duration(by_lists[1] / faster / cluster.machines)}.",
        f"A core is as fast as one of the {costs.threads} measured ones, and {cluster.cores} of them are "
        f"{faster:g} times as fast together where work divides among cores.",
        f"Work that waits for memory is {cluster.memory_speed:g} times as fast as on the measured machine.",
        f"The network was measured on {costs.trained_on}; a target costs {1e3 * costs.update:.3g} ms, "
        "however large the hypergraph is, as the fan-out bounds what a batch reaches. The measured "
        "neighbours were random rows of a block of 1,000, among which a batch reaches a quarter of the nodes "
        "that it reaches with real ones: updates may take four times as long.",
        f"An exchange of gradients takes {1e3 * cluster.latency:g} ms and twice "
        f"{4 * costs.weights / 2**20:.2f} MiB over the network (a ring), and nothing overlaps with it.",
        "Shards of queries and targets of a batch divide without loss. Every process propagates the features "
        f"and evaluates the network, {task.evaluations} times, on all rows; blocks of rows could be divided, "
        "and are not yet.",
        "The quantiser is trained and the index filled on one machine. Reading and writing the table and "
        "the choice by local scale are not divided either. Each process computes the experts and conjugate "
        f"gradients over the graph, and {_sharing(costs, cluster)} of them share the memory of a machine: "
        "they could be divided, and are not yet. Their time has the last evaluation of the network in it, "
        "which counts twice.",
        "Every machine gets a copy of index and rows, all at the same time, through the slower of network "
        "and disk.",
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def say_extrapolation(found: Extrapolation) -> str:
    """Return the extrapolation as Markdown."""
    rows = [f"| {step.name} | {_duration(step.seconds)} | {step.divides} |" for step in found.steps]
    total = f"| all, one after the other | {_duration(found.seconds)} | |"
    sizes = [f"| {name} | {size / 2**30:.3g} |" for name, size in found.sizes.items()]
    assumed = [f"{number}. {sentence}" for number, sentence in enumerate(found.assumptions, 1)]
    return "\n".join(
        [
            "| step | time | divides among |",
            "| --- | ---: | --- |",
            *rows,
            total,
            "",
            "| size | GiB |",
            "| --- | ---: |",
            *sizes,
            "",
            *assumed,
        ]
    )
