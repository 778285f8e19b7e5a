"""Time one training epoch of ours and of peers, beside the least time that the machine needs for it.

An epoch is forward, loss, backward and Adam on one task: d₀ = 784, k = 10, 256 hidden units, then four heads
of eight units and one of ten. Ours is timed inside `fit`, evaluation and early stopping included; peers have
the plain loop.

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
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from dahgnn.bench.contenders import FLOOR, METHODS, Contender, Workload, mnist_data, random_data
from dahgnn.bench.lower_bound import Floor, Machine, Size, floor
from dahgnn.checks import bad_value, check_choice, check_count
from dahgnn.environment import describe_environment
from dahgnn.graph.hypergraph import Hypergraph

# Nodes of the run before the measured one, which imports and compiles.
_SMALL_WORKLOAD = 300


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
    repeats : int
        Epochs to take the median of; ours runs ten times as many on a GPU, which it sees in bunches.
    methods : tuple of str
        Keys of `METHODS`, whose order the table keeps.
    """

    device: str = "cpu"
    nodes: tuple[int, ...] = (10_000,)
    mnist: Path | None = None
    repeats: int = 20
    methods: tuple[str, ...] = tuple(METHODS)

    _OWNER: ClassVar[str] = "BenchConfig"

    def __post_init__(self) -> None:
        check_count("repeats", self.repeats, self._OWNER)
        for count in self.nodes:
            check_count("nodes", count, self._OWNER, low=100)
        for method in self.methods:
            check_choice("methods", method, tuple(METHODS), self._OWNER)
        here = ["cpu"] + [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        if self.device not in here and not (self.device == "cuda" and len(here) > 1):
            expected = "a device that torch finds here, " + " or ".join(f"'{name}'" for name in here)
            raise bad_value("device", self._OWNER, expected, repr(self.device))


def compare(config: BenchConfig) -> Iterator[dict[str, Any]]:
    """Measure the machine, then yield one line a row of the table as it is known.

    Returns
    -------
    iterator of dict
        For each n the methods, then the floor. ``milliseconds`` is None where ``problem`` says why;
        ``memory`` is in MiB. The floor of a method of ten runs is that of ten networks.
    """
    device = torch.device(config.device)
    machine = Machine.measure(device)
    about = {
        "data": "MNIST" if config.mnist else "random",
        "repeats": config.repeats,
        "machine": asdict(machine),
    }
    for nodes in config.nodes:
        data = mnist_data(config.mnist, nodes, device) if config.mnist else random_data(nodes, device)
        size = Size.of(data["features"], Hypergraph.from_neighbors(data["neighbours"]))
        ours = None
        for key, cost in _costs(config, data):
            least = floor(size, machine, runs=METHODS[key].runs)
            ours = cost.seconds if key == "ours" else ours
            yield _line(METHODS[key].name, size, cost, ours, least) | about | describe_environment(device)
        least = floor(size, machine)
        yield _line(FLOOR, size, Cost(least.seconds), ours, least) | about | describe_environment(device)


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
    """

    seconds: float | None = None
    memory: float | None = None
    problem: str | None = None
    others: float | None = None


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
        "floor": {"products": 1e3 * least.products, "incidences": 1e3 * least.incidences},
        "size": asdict(size),
    }


def _costs(config: BenchConfig, data: dict[str, Tensor]) -> Iterator[tuple[str, Cost]]:
    """Measure each method, on the CPU in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "workload.pt"
        if config.device == "cpu":
            torch.save(data, file)
        for key in [key for key in METHODS if key in config.methods]:
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
    except ModuleNotFoundError as error:
        return Cost(problem=f"{error.name} is not installed")
    except ImportError as error:  # a peer that does not go with what is installed
        return Cost(problem=str(error).splitlines()[0])
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return Cost(problem="out of memory")


def _is_out_of_memory(error: Exception) -> bool:
    # Torch's allocator for the CPU has no error of its own.
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(error)


def _measure(method: Contender, workload: Workload, repeats: int) -> Cost:
    # Imports, pools of threads and compiled kernels are not the method's memory.
    method.time(Workload.make(random_data(_SMALL_WORKLOAD, workload.device)), 1)
    if workload.device.type == "cuda":
        gc.collect()
        torch.cuda.reset_peak_memory_stats(workload.device)
        held = torch.cuda.memory_allocated(workload.device)
        seconds = method.time(workload, repeats)
        used = torch.cuda.max_memory_allocated(workload.device) - held
        return Cost(seconds, (used + workload.features.nbytes) / 2**20)
    with contextlib.suppress(OSError):  # forget the highest so far; Linux alone can
        Path("/proc/self/clear_refs").write_text("5")
    resident, clocks = _resident_memory("VmRSS"), _clocks()
    seconds = method.time(workload, repeats)
    wall, own, every = (after - before for after, before in zip(_clocks(), clocks, strict=True))
    peak = _resident_memory("VmHWM")
    memory = None if peak is None or resident is None else peak - resident
    return Cost(seconds, memory, others=None if every == 0 else max(every - own, 0) / wall)


def _clocks() -> tuple[float, float, float]:
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
