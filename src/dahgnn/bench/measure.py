"""Time one training epoch of ours and of peers, beside the least time that the machine needs for it.

An epoch is forward, loss, backward and Adam on one task: d₀ = 784, k = 10, 256 hidden units, then four heads
of eight units and one of ten. Ours is timed inside `fit`, evaluation and early stopping included; peers have
the plain loop. The network of the classifier has sizes of its own and a floor of its own, and is timed as the
classifier trains it: by updates alone.

Peak memory is, on a CUDA device, what torch allocated at the most, the features included. On the CPU each
method has a process of its own: its highest resident memory, less what was resident before the measured run,
when torch, the peer and the data were loaded and the method had run once on a small task. Only Linux tells.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from dahgnn.bench.contenders import (
    DEFAULT_FLOOR,
    FLOOR,
    METHODS,
    Contender,
    Workload,
    mnist_data,
    random_data,
)
from dahgnn.bench.fits import FITS
from dahgnn.bench.lower_bound import Floor, Machine, Size, floor
from dahgnn.bench.peers import IN_FEATURES, N_CLASSES
from dahgnn.checks import bad_value, check_choice, check_count
from dahgnn.environment import describe_environment
from dahgnn.graph.hypergraph import Hypergraph

# Nodes of the run before the measured one, which imports and compiles.
SMALL_WORKLOAD = 300


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """The settings of a measurement.

    Parameters
    ----------
    device : str
        "cpu" or a CUDA device.
    nodes : tuple of int
        Sizes n of the tasks.
    mnist : Path, optional
        Folder of the official files, whose images and neighbours are then used; else random ones.
    features : int, optional
        Columns of random features, by default 784; images have their own.
    repeats : int
        Epochs to take the median of; ours runs ten times as many on a GPU, which it sees in bunches.
    methods : tuple of str, optional
        Keys of `METHODS`, and of `FITS` where there are fits, whose order the tables keep; by default all.
    fits : int
        Whole fits of each method to take the median of; with 0 there are none.
    labels : int
        Labels of each class that a fit learns from.
    """

    device: str = "cpu"
    nodes: tuple[int, ...] = (10_000,)
    mnist: Path | None = None
    features: int | None = None
    repeats: int = 20
    methods: tuple[str, ...] | None = None
    fits: int = 0
    labels: int = 50

    _OWNER: ClassVar[str] = "BenchConfig"

    def __post_init__(self) -> None:
        check_count("repeats", self.repeats, self._OWNER)
        for count in self.nodes:
            check_count("nodes", count, self._OWNER, low=100)
        for method in self.methods or ():
            check_choice("methods", method, tuple({**METHODS, **(FITS if self.fits else {})}), self._OWNER)
        self._check_data()
        here = ["cpu"] + [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        if self.device not in here and not (self.device == "cuda" and len(here) > 1):
            expected = "a device that torch finds here, " + " or ".join(f"'{name}'" for name in here)
            raise bad_value("device", self._OWNER, expected, repr(self.device))

    def _check_data(self) -> None:
        check_count("fits", self.fits, self._OWNER, low=0)
        check_count("labels", self.labels, self._OWNER)
        if self.features is not None:
            check_count("features", self.features, self._OWNER)
            if self.mnist is not None:
                raise bad_value("features", self._OWNER, "left out where there are images", self.features)
        rows = min(self.nodes, default=0) // N_CLASSES
        if self.fits and self.labels >= rows:
            expected = f"less than the {rows} nodes of a class"
            raise bad_value("labels", self._OWNER, expected, self.labels)

    @property
    def data_name(self) -> str:
        """What the data are called in lines."""
        return "MNIST" if self.mnist else "random"

    @property
    def columns(self) -> int:
        """How many columns random features have."""
        return self.features or IN_FEATURES

    def select(self, table: Iterable[str]) -> list[str]:
        """Return the keys of a table that are asked for, in its order."""
        return [key for key in table if self.methods is None or key in self.methods]

    def make_data(self, nodes: int) -> dict[str, Tensor]:
        """Draw features, labels and neighbours of so many nodes."""
        device = torch.device(self.device)
        if self.mnist is not None:
            return mnist_data(self.mnist, nodes, device)
        return random_data(nodes, device, self.columns)


def compare(config: BenchConfig) -> Iterator[dict[str, Any]]:
    """Measure the machine, then yield one line a row of the table as it is known.

    Returns
    -------
    iterator of dict
        For each n the methods, then the floor. ``milliseconds`` is None where ``problem`` says why;
        ``memory`` is in MiB. The floor of a method of ten runs is that of ten networks, and the network of
        the classifier has its own. There is no line where no method is one of `METHODS`.
    """
    if not config.select(METHODS):
        return
    device = torch.device(config.device)
    machine = Machine.measure(device)
    about = {
        "data": config.data_name,
        "repeats": config.repeats,
        "machine": asdict(machine),
    }
    for nodes in config.nodes:
        data = config.make_data(nodes)
        size = Size.of(data["features"], Hypergraph.from_neighbors(data["neighbours"]))
        floors = {FLOOR: (size, floor(size, machine))}
        ours = None
        for key, cost in _costs(config, data):
            method = METHODS[key]
            own = size if cost.columns is None else replace(size, columns=cost.columns)
            least = floor(own, machine, method.model, runs=method.runs)
            if key == "default" and cost.columns is not None:
                floors[DEFAULT_FLOOR] = own, least
            ours = cost.seconds if key == "ours" else ours
            yield _line(method.name, own, cost, ours, least) | about | describe_environment(device)
        for name, (own, least) in floors.items():
            yield _line(name, own, Cost(least.seconds), ours, least) | about | describe_environment(device)


@dataclass(frozen=True)
class Cost:
    """What an epoch costs, or the problem that kept it from being measured.

    Attributes
    ----------
    seconds, memory : float or None
        The median time, and the peak in MiB.
    problem : str or None
        Why there is no time.
    others : float or None
        Cores of the CPU that other processes kept busy meanwhile. Much of that makes the time worthless.
    columns : int or None
        Columns of the large product, if they are not those of the features.
    """

    seconds: float | None = None
    memory: float | None = None
    problem: str | None = None
    others: float | None = None
    columns: int | None = None


def _line(name: str, size: Size, cost: Cost, ours: float | None, least: Floor) -> dict[str, Any]:
    seconds = cost.seconds
    return {
        "nodes": size.nodes,
        "method": name,
        "milliseconds": None if seconds is None else 1e3 * seconds,
        "memory": cost.memory,
        "times_ours": None if seconds is None or ours is None else seconds / ours,
        "times_floor": None if seconds is None else seconds / least.seconds,
        "problem": cost.problem,
        "others": cost.others,
        "floor": {part: 1e3 * seconds for part, seconds in asdict(least).items()},
        "size": asdict(size),
    }


def _costs(config: BenchConfig, data: dict[str, Tensor]) -> Iterator[tuple[str, Cost]]:
    """Measure each method, on the CPU in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "workload.pt"
        if config.device == "cpu":
            torch.save(data, file)
        for key in config.select(METHODS):
            package = METHODS[key].package
            if package is not None and find_spec(package) is None:
                yield key, Cost(problem=f"{package} is not installed")
            elif config.device == "cpu":
                yield key, _measure_apart(key, file, config.repeats)
            else:
                yield key, _attempt(key, Workload.make(data), config.repeats)
                gc.collect()
                torch.cuda.empty_cache()


def _measure_apart(key: str, file: Path, repeats: int) -> Cost:
    """Measure in a fresh process, which a lack of memory may kill."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        try:
            return pool.submit(_load_and_attempt, key, file, repeats, torch.get_num_threads()).result()
        except BrokenProcessPool:
            return Cost(problem="killed, out of memory perhaps")


def _load_and_attempt(key: str, file: Path, repeats: int, threads: int) -> Cost:
    torch.set_num_threads(threads)
    return _attempt(key, Workload.make(torch.load(file, weights_only=True)), repeats)


def _attempt(key: str, workload: Workload, repeats: int) -> Cost:
    """Measure a method, or say what stood in its way."""
    try:
        return _measure(METHODS[key], workload, repeats)
    except (ImportError, MemoryError, RuntimeError) as error:
        problem = name_problem(error)
        if problem is None:
            raise
        return Cost(problem=problem)


def name_problem(error: Exception) -> str | None:
    """Say what stood in the way of a method, or return None for an error that is a bug."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    if isinstance(error, ImportError):  # a peer that does not go with what is installed
        return str(error).splitlines()[0]
    # Torch's allocator for the CPU has no error of its own.
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(error):
        return "out of memory"
    return None


def _measure(method: Contender, workload: Workload, repeats: int) -> Cost:
    # Imports, pools of threads and compiled kernels are not the method's memory.
    small = random_data(SMALL_WORKLOAD, workload.device, workload.features.shape[1])
    method.time(method.prepare(Workload.make(small)), 1)
    workload = method.prepare(workload)
    cost = _measure_prepared(method, workload, repeats)
    count = method.count_columns
    return cost if count is None else replace(cost, columns=count(workload))


def _measure_prepared(method: Contender, workload: Workload, repeats: int) -> Cost:
    if workload.device.type == "cuda":
        gc.collect()
        torch.cuda.reset_peak_memory_stats(workload.device)
        held = torch.cuda.memory_allocated(workload.device)
        seconds = method.time(workload, repeats)
        used = torch.cuda.max_memory_allocated(workload.device) - held
        return Cost(seconds, (used + workload.features.nbytes) / 2**20)
    with contextlib.suppress(OSError):  # forget the highest so far; Linux alone can
        Path("/proc/self/clear_refs").write_text("5")
    resident, clocks = _resident_memory("VmRSS"), read_clocks()
    seconds = method.time(workload, repeats)
    others = count_others(clocks)
    peak = _resident_memory("VmHWM")
    memory = None if peak is None or resident is None else peak - resident
    return Cost(seconds, memory, others=others)


def count_others(since: tuple[float, float, float]) -> float | None:
    """Return how many cores other processes kept busy since the clocks were read, if that can be told."""
    wall, own, every = (after - before for after, before in zip(read_clocks(), since, strict=True))
    return None if every == 0 else max(every - own, 0) / wall


def read_clocks() -> tuple[float, float, float]:
    """Return the seconds of the clock, of this process and of all; the last is 0 where no Linux tells it."""
    file, own = Path("/proc/stat"), os.times()
    ticks = 0
    if file.exists():
        # user, nice, system, idle, waiting, interrupts, soft interrupts, and what other machines took.
        _, *fields = file.read_text().split("\n", 1)[0].split()
        ticks = sum(int(value) for index, value in enumerate(fields[:8]) if index not in (3, 4))
    return time.perf_counter(), own.user + own.system, ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def _resident_memory(field: str) -> float | None:
    """Read the present (VmRSS) or the highest (VmHWM) resident memory of this process, in MiB.

    ``getrusage`` would not do: its maximum begins with the memory of the process that started this one.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")]
    return found[0] if found else None
