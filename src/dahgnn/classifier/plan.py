"""Which way a fit goes: exact or approximate neighbours, all at once or in batches, in memory or on the disk.

It is decided before anything is computed, by how much memory and time each way is expected to need. The
figures of a row were measured on fits of 200,000 to 5,000,000 rows; `docs/notes/scale.md` has them.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import torch

from dahgnn.checks import bad_value
from dahgnn.config import ResourceConfig
from dahgnn.files.scratch import Scratch, free_room, say_bytes
from dahgnn.graph.choice import choose_search, exact_seconds, has_room, hnsw_seconds, ivf_seconds
from dahgnn.graph.sharded import ROWS_OF_A_SHARD
from dahgnn.threads import processes_here
from dahgnn.training.sampling import Sampling

# Of free memory, what a fit takes by default.
_SHARE = 0.7
# Bytes of a row at the most while a fit has everything in memory: for each class, for each neighbour,
# and besides; the features are counted apart.
_A_CLASS, _A_NEIGHBOUR, _A_ROW = 220, 300, 1200
# Bytes of a row where large arrays are in files: labels, scales and degrees, all along; and of a neighbour
# while the graph is put together.
_A_ROW_ON_DISK, _A_NEIGHBOUR_ON_DISK = 350, 36
# Bytes of a number of the unknowns that conjugate gradients find together, and how many that are at the most.
_AN_UNKNOWN, _MOST_UNKNOWNS = 28, 1 << 26
# Bytes of a row while messages pass over the whole hypergraph at once, and of a node that a batch reaches.
_A_ROW_AT_ONCE, _A_REACHED = 3800, 2800
# Bytes of a row while messages pass over the whole hypergraph on a GPU, besides its features, which are there
# twice: measured as 37 GiB for 10,000,000 × 64.
_A_ROW_ON_GPU = 3500
# Nodes that each labelled row of a batch reaches among very many rows with ten neighbours each.
_REACHED = 12_500
# Bytes that a fit needs however few rows it has.
_ALWAYS = 600 << 20
# Bytes of a row for its links in an HNSW graph: 32 numbers of four bytes, and those of the higher levels.
_LINKS = 150
# Bytes of a process that searches for neighbours beside this one: Python with its libraries, and a shard.
_A_WORKER = 300 << 20
# Labelled rows of a batch, where nobody says it.
BATCH = 128
# Rows from which on the plan is worth a word.
_MANY = 100_000
# How neighbours are found, in words, and by which of it not all of them.
_FOUND = {
    "exact": "by an exact search",
    "ivf": "by FAISS's inverted lists",
    "hnsw": "by FAISS's HNSW graph",
    "given": "as given",
}
_APPROXIMATE = ("ivf", "hnsw")
# Seconds for a row and each class of all experts and the smoothing. They were measured on two idle cores
# that compute so many products and sums in a second, and so were all that follow for the CPU
# (docs/notes/scale.md).
_EXPERTS, _USUAL_SPEED = 7e-6, 2.1e11
# Epochs that are usual, and how often all rows are evaluated: after three stages, and for their density.
_EPOCHS, _EVALUATIONS = 28, 4
# Seconds for a row of an update that sees all rows, with its part of the evaluations. On a GPU it is 0.10 s
# for 10,000,000 rows on an H200.
_UPDATE, _UPDATE_ON_GPU = 1.1e-6, 1e-8
# Seconds for a node that a batch is expected to reach, with its preparation: 0.8e-6 of 1,000,000 rows and
# 0.9e-6 of 5,000,000. An H200 for which eight threads prepared took 3.4e-7.
_REACH, _REACH_ON_GPU = 9.5e-7, 3.4e-7
# Seconds for a row of an evaluation of all rows, block by block: 7.5 s for 1,000,000 rows, 51 s for
# 5,000,000, and 17 s for 10,000,000 on an H200.
_EVALUATE, _EVALUATE_ON_GPU = 1e-5, 1.7e-6


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The way of a fit, and what it is expected to cost.

    Attributes
    ----------
    n, d, n_classes, labels, k, networks : int
        Rows, columns, classes, labelled rows, neighbours of a row, and networks.
    device : torch.device
        Where networks train, and an exact search is.
    search : {"exact", "ivf", "hnsw", "given"}
        What finds neighbours; nothing has to where they are given.
    batch : int
        Labelled rows of an update; 0 is the whole hypergraph at once.
    on_disk : bool
        Whether large arrays are in files.
    memory, disk : int
        Bytes that this process and its workers here need at the most, of memory and in files.
    budget : int
        Bytes of memory that they may use.
    folder : Path
        Where files go, if there are some.
    resources : ResourceConfig
        What the user said.
    """

    n: int
    d: int
    n_classes: int
    labels: int
    k: int
    networks: int
    device: torch.device
    search: str
    batch: int
    on_disk: bool
    memory: int
    disk: int
    budget: int
    folder: Path
    resources: ResourceConfig

    @property
    def is_large(self) -> bool:
        """Whether there is something about it that a user should know."""
        return self.n >= _MANY or self.on_disk or self.batch > 0 or self.search in _APPROXIMATE

    @cached_property
    def seconds(self) -> float:
        """How long one process takes, roughly: neighbours, networks, experts and smoothing."""
        slower = _USUAL_SPEED / _speed()
        networks = self.networks * self._seconds_of_network * (1 if self.device.type == "cuda" else slower)
        return self._seconds_of_search + networks + self.n * _EXPERTS * self.n_classes * slower

    @property
    def _seconds_of_search(self) -> float:
        """How long it takes to find the neighbours; lists are expected to do where links may replace them."""
        if self.search == "given":
            return 0.0
        if self.search == "exact":
            return exact_seconds(self.n, self.d, self.device)
        return (hnsw_seconds if self.search == "hnsw" else ivf_seconds)(self.n, self.d)

    @property
    def _seconds_of_network(self) -> float:
        """How long the updates and evaluations of a network take on a GPU, or a CPU of the usual speed."""
        on_gpu = self.device.type == "cuda"
        if not self.batch:
            return _EPOCHS * self.n * (_UPDATE_ON_GPU if on_gpu else _UPDATE)
        updates = _EPOCHS * Sampling(batch=self.batch).count_updates(self.labels)
        reached = _count_reached(self.n, self.k, min(self.batch, self.labels))
        trained = updates * reached * (_REACH_ON_GPU if on_gpu else _REACH)
        return trained + _EVALUATIONS * self.n * (_EVALUATE_ON_GPU if on_gpu else _EVALUATE)

    def scratch(self) -> Scratch:
        """Return the room for large arrays."""
        return Scratch(self.folder if self.on_disk else None)

    def describe_training(self, networks: int) -> str:
        """Say how so many networks train, as part of a sentence."""
        count = "1 network" if networks == 1 else f"{networks} networks"
        return f"{count} trained {self._trained}"

    @property
    def _trained(self) -> str:
        return f"in batches of {self.batch} labelled rows" if self.batch else "on all rows at once"

    def describe(self) -> list[str]:
        """Return the plan in sentences."""
        found = _FOUND[self.search]
        if self.search in _APPROXIMATE and self.resources.search == "auto":
            found = "by FAISS's inverted lists, or its HNSW graph where that is faster"
        needs, budget, disk = map(say_bytes, (self.memory, self.budget, self.disk))
        sentences = [
            f"{self.n:,} rows of {self.d} columns: neighbours {found}; networks trained {self._trained}.",
            f"It needs up to {needs} of memory, of {budget} that it may use, and {_duration(self.seconds)}.",
        ]
        if self.on_disk:
            free = say_bytes(free_room(self.folder))
            sentences.append(
                f"Large arrays, up to {disk}, are files in {self.folder}, where {free} are free."
            )
        return sentences


def make_plan(
    n: int,
    d: int,
    n_classes: int,
    k: int,
    resources: ResourceConfig,
    device: torch.device,
    networks: int = 1,
    labels: int | None = None,
    known: str | None = None,
) -> Plan:
    """Choose the way of a fit.

    Parameters
    ----------
    n, d, n_classes, k : int
        Rows, columns, classes, and neighbours of a row.
    resources : ResourceConfig
        What the fit may use; what it says is done.
    device : torch.device
        Where networks train.
    networks : int
        How many of them.
    labels : int, optional
        How many rows have a label; by default all.
    known : {"neighbors", "hypergraph"}, optional
        What the user gives. Neighbours need no search; those beside given hyperedges come from an exact one.

    Raises
    ------
    ValueError
        If memory is not even enough for the leanest way.
    """
    budget = _budget(resources)
    search = "given" if known == "neighbors" else "exact"
    if known is None:
        search = choose_search(n, d, device, resources.search)
    index = _bytes_of_index(n, d, search, resources)
    workers = _bytes_of_workers(n, resources) if known is None else 0
    kept = _ALWAYS + index + n * (4 * d + _A_CLASS * n_classes + _A_NEIGHBOUR * k + _A_ROW)
    memory = kept + (workers if search in _APPROXIMATE else 0)  # an exact search in memory has none
    on_disk, said = memory > budget, resources.batch
    likely = said if isinstance(said, int) and said else BATCH
    at_once, in_batches = _needs_on_disk(n, n_classes, k, networks, max(index, workers), likely, device)
    batch = said if isinstance(said, int) else BATCH
    if said == "auto" and _has_room_at_once(n, d, device, not on_disk or at_once <= budget):
        batch = 0
    if on_disk:
        memory = in_batches if batch else at_once
        _check_room(min(at_once, in_batches), budget, resources)
    folder = Path(resources.folder) if resources.folder is not None else Path(tempfile.gettempdir())
    return Plan(
        n=n,
        d=d,
        n_classes=n_classes,
        labels=n if labels is None else labels,
        k=k,
        networks=networks,
        device=device,
        search=search,
        batch=batch,
        on_disk=on_disk,
        memory=memory,
        disk=kept - _ALWAYS if on_disk else 0,
        budget=budget,
        folder=folder,
        resources=resources,
    )


def _budget(resources: ResourceConfig) -> int:
    """Return the bytes that a process may use: as was said, or its part of what is free on the machine."""
    if resources.memory is not None:
        return int(resources.memory * 2**30)
    return int(_SHARE * free_memory() / processes_here())


def _bytes_of_index(n: int, d: int, search: str, resources: ResourceConfig) -> int:
    """Return the bytes of the largest index that may be built; never two of them are there at a time."""
    if search not in _APPROXIMATE:
        return 0
    has_links = search == "hnsw" or resources.search == "auto"  # which it takes where lists are too slow
    return n * (4 * d + (_LINKS if has_links else 0))


def _bytes_of_workers(n: int, resources: ResourceConfig) -> int:
    """Return the bytes of the processes that search for neighbours here, beside this one."""
    if resources.backend != "processes":  # a cluster's, which has memory of its own
        return 0
    jobs = min(resources.jobs or 1, math.ceil(n / ROWS_OF_A_SHARD))
    return jobs * _A_WORKER if jobs > 1 else 0  # a single one is this process


def _has_room_at_once(n: int, d: int, device: torch.device, fits_here: bool) -> bool:
    """Tell whether an update of all rows has room: in the memory of a GPU, or here."""
    return has_room(n * (8 * d + _A_ROW_ON_GPU), device) if device.type == "cuda" else fits_here


def _needs_on_disk(
    n: int, n_classes: int, k: int, networks: int, searching: int, batch: int, device: torch.device
) -> tuple[int, int]:
    """Return the bytes that a fit needs at the most with large arrays in files: all at once, and in batches.

    All rows at once are in the memory of the device. What is searched, which needs ``searching`` bytes, put
    together, trained and solved is in memory one after the other, so that the largest of them counts.
    """
    always = _ALWAYS + n * _A_ROW_ON_DISK
    unknowns = min(n * (networks + 1) * n_classes, _MOST_UNKNOWNS)
    others = max(searching, n * k * _A_NEIGHBOUR_ON_DISK, unknowns * _AN_UNKNOWN)
    whole = n * _A_ROW_AT_ONCE if device.type == "cpu" else 0
    return always + max(others, whole), always + max(others, int(_count_reached(n, k, batch) * _A_REACHED))


def _count_reached(n: int, k: int, batch: int) -> float:
    """Return how many of n nodes a batch of so many labelled rows reaches."""
    # Of so many draws with the same chances, so many nodes are different.
    draws = batch * _REACHED * (k / 10) ** 3
    return -n * math.expm1(-draws / n)


def _check_room(needed: int, budget: int, resources: ResourceConfig) -> None:
    """Refuse a fit that the leanest way has no room for, where somebody has said how much there is."""
    if needed > budget and resources.memory is not None:
        has_workers = (resources.jobs or 1) > 1 and resources.backend == "processes"
        fewer = "search with fewer jobs, " if has_workers else ""
        remedy = f"Allow more, {fewer}or fit to fewer rows."
        least = f"at least {say_bytes(needed)} here"
        raise bad_value("memory", "ResourceConfig", least, say_bytes(budget), remedy)


def free_memory() -> int:
    """Return the bytes of memory that are free, or that the system would free, for this process."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = 1024 * int(line.split()[1])
    return min(free, *_limits_of_groups(), 1 << 62)


def _limits_of_groups() -> list[int]:
    """Return what is left of the limits that control groups, such as containers, have for this process."""
    left = []
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        names = ("limit_in_bytes", "usage_in_bytes") if controllers else ("max", "current")
        for folder in (root / path.lstrip("/"), root):
            most, now = (_read(folder / f"memory.{name}").strip() for name in names)
            if most.isdigit() and now.isdigit():
                cached = _cached(folder / "memory.stat")
                left.append(max(0, int(most) - int(now) + cached))
    return left


def _cached(path: Path) -> int:
    """Return the bytes of a control group that hold files, which the system gives back when asked."""
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name in ("total_cache", "file"):
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


@cache
def _speed() -> float:
    """Return the products and sums that this machine computes in a second, from one small product."""
    matrix = torch.ones(1024, 1024)
    torch.mm(matrix, matrix)
    start = time.perf_counter()
    torch.mm(matrix, matrix)
    return 2 * 1024**3 / max(time.perf_counter() - start, 1e-6)


def _duration(seconds: float) -> str:
    """Return a rough time in words.

    Examples
    --------
    >>> _duration(3), _duration(200), _duration(20_000)
    ('some seconds', 'about 3 minutes', 'about 6 hours')
    """
    if seconds < 10:
        return "some seconds"
    if seconds < 100:
        return f"about {10 * round(seconds / 10)} seconds"
    if seconds < 100 * 60:
        return f"about {round(seconds / 60)} minutes"
    return f"about {math.ceil(seconds / 3600)} hours"
