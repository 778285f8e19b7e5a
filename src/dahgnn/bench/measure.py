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
import itertools
import json
import math
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dahgnn._version import __version__
from dahgnn.bench.lower_bound import Floor, Machine, Size, floor, synchronize
from dahgnn.bench.peers import IN_FEATURES, N_CLASSES, make_dhg, make_gat, make_pyg
from dahgnn.checks import bad_value, check_choice, check_count
from dahgnn.config import ModelConfig, TrainingConfig
from dahgnn.files.atomic import replacing
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import knn
from dahgnn.images.datasets import load_mnist
from dahgnn.nn.model import DAHGNN
from dahgnn.training.fit import FitResult, fit, fit_many
from dahgnn.training.run import Epoch
from dahgnn.training.splits import Split, sample_per_class, split_per_class

K = 10
RUNS_AT_ONCE = 10
_WARM_UP = 3  # epochs before the ones that are timed
_SMALL_TASK = 300
_FLOOR = "floor"


@dataclass(frozen=True, eq=False)
class Task:
    """What every method is given."""

    features: Tensor
    hypergraph: Hypergraph
    labels: Tensor
    split: Split

    @classmethod
    def make(cls, data: Mapping[str, Tensor]) -> Task:
        """Make the task of features (n, d₀), labels (n,) and neighbours (n, k)."""
        hypergraph = Hypergraph.from_neighbors(data["neighbours"])
        return cls(data["features"], hypergraph, data["labels"], _split(data["labels"], seed=0))

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self.features.device


def _split(labels: Tensor, *, seed: int) -> Split:
    """Take 100 nodes a class to train and to validate, or a third of the class each if that is less."""
    count = min(100, len(labels) // (3 * N_CLASSES))
    return split_per_class(labels, train=count, validation=count, seed=seed)


def random_data(nodes: int, device: torch.device) -> dict[str, Tensor]:
    """Draw features, and neighbours that are not far in number, as if a good order had been found."""
    generator = torch.Generator(device).manual_seed(0)
    steps = torch.randint(-500, 500, (nodes, K), device=device, generator=generator)
    return {
        "features": torch.rand(nodes, IN_FEATURES, device=device, generator=generator),
        "labels": torch.arange(nodes) % N_CLASSES,
        "neighbours": (torch.arange(nodes, device=device)[:, None] + steps) % nodes,
    }


def mnist_data(folder: Path, nodes: int, device: torch.device) -> dict[str, Tensor]:
    """Draw as many images of each digit, and find their nearest neighbours."""
    images = load_mnist(folder)
    images = images.subset(sample_per_class(images.labels, nodes // N_CLASSES, seed=0))
    features = images.features.to(device)
    return {"features": features, "labels": images.labels, "neighbours": knn(features, K).indices}


def _time_ours(task: Task, repeats: int, *, density: bool = True) -> float:
    network = ModelConfig(density=density)
    model = DAHGNN(IN_FEATURES, N_CLASSES, network, generator=torch.Generator().manual_seed(0))
    config = _schedule(task, repeats)
    return _epoch_seconds(fit(model, task.features, task.hypergraph, task.labels, task.split, config), task)


def _time_many(task: Task, repeats: int) -> float:
    """Time an epoch of ten networks, each with weights and a split of its own."""
    seeds = range(RUNS_AT_ONCE)
    models = [DAHGNN(IN_FEATURES, N_CLASSES, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    splits = [_split(task.labels, seed=seed) for seed in seeds]
    config = _schedule(task, repeats)
    spans: dict[int, tuple[float, float]] = {}

    def note(run: int, _: Epoch) -> None:
        now = time.perf_counter()
        spans[run] = spans.get(run, (now, now))[0], now

    results = fit_many(models, task.features, task.hypergraph, task.labels, splits, config, callback=note)
    return sum_of_turns([(*spans[run], _epoch_seconds(results[run], task)) for run in seeds])


def sum_of_turns(runs: Iterable[tuple[float, float, float]]) -> float:
    """Add up the epochs of runs: those that take turns all count, of those side by side the longest.

    Parameters
    ----------
    runs : iterable of tuple
        First and last moment of each run, and the seconds of its epoch.

    Examples
    --------
    >>> sum_of_turns([(0.0, 3.0, 0.5), (1.0, 4.0, 0.5), (4.0, 9.0, 2.0)])
    2.5
    """
    turns: list[float] = []
    until = -math.inf
    for first, last, seconds in sorted(runs):
        if first >= until:
            turns.append(0.0)
        turns[-1] = max(turns[-1], seconds)
        until = max(until, last)
    return sum(turns)


def _schedule(task: Task, repeats: int) -> TrainingConfig:
    """Plan so many epochs that as many as asked for can be timed; none ends early."""
    # On a GPU they are short, and seen in bunches.
    epochs = max(10 * repeats, 100) if task.device.type == "cuda" else repeats + _WARM_UP
    return TrainingConfig(max_epochs=epochs, patience=epochs)


def _epoch_seconds(result: FitResult, task: Task) -> float:
    stamps = [epoch.seconds for epoch in result.history]
    return bunch_seconds(stamps) if task.device.type == "cuda" else median_seconds(stamps)


def median_seconds(stamps: Sequence[float]) -> float:
    """Return the median time between epochs, those before the warm-up's end left out."""
    return statistics.median(after - before for before, after in itertools.pairwise(stamps[_WARM_UP:]))


def bunch_seconds(stamps: Sequence[float]) -> float:
    """Return the median time of an epoch where the host sees them in bunches.

    The stamps of a bunch are almost equal, so a step that is longer than the mean begins a new one. The last
    bunch may hold epochs that were computed in vain; from first to first, all are counted.

    Examples
    --------
    >>> bunch_seconds([1.0, 1.0, 1.5, 1.5, 2.0, 2.0, 2.5])
    0.25
    """
    steps = [after - before for before, after in itertools.pairwise(stamps)]
    mean = sum(steps) / len(steps)
    firsts = [index + 1 for index, step in enumerate(steps) if step > mean]
    if len(firsts) < 2:
        return mean
    return statistics.median((stamps[b] - stamps[a]) / (b - a) for a, b in itertools.pairwise(firsts))


def _time_peer(make: Callable[[Hypergraph], nn.Module], task: Task, repeats: int) -> float:
    """Time the plain loop around a network of a peer; its warnings are none of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _time_loop(make(task.hypergraph).to(task.device), task, repeats)


def _time_loop(model: nn.Module, task: Task, repeats: int) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=TrainingConfig.learning_rate)
    nodes = task.split.train.to(task.device)
    targets = task.labels[task.split.train].to(task.device)
    synchronize(task.device)
    stamps = [time.perf_counter()]
    for _ in range(_WARM_UP + repeats):
        optimizer.zero_grad()
        cross_entropy(model(task.features)[nodes], targets).backward()
        optimizer.step()
        synchronize(task.device)
        stamps.append(time.perf_counter())
    return median_seconds(stamps)


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    name : str
        In the table.
    time : callable
        Returns the seconds of an epoch, from a task and how many epochs to take the median of.
    package : str, optional
        What must be installed.
    runs : int
        Networks that one epoch trains.
    """

    name: str
    time: Callable[[Task, int], float]
    package: str | None = None
    runs: int = 1


METHODS: Mapping[str, Method] = {
    "ours": Method("DA-HGNN, ours", _time_ours),
    "without-density": Method("DA-HGNN without density, ours", partial(_time_ours, density=False)),
    "ten": Method(f"DA-HGNN, {RUNS_AT_ONCE} runs by fit_many, ours", _time_many, runs=RUNS_AT_ONCE),
    "pyg": Method("HypergraphConv with attention, PyG", partial(_time_peer, make_pyg), "torch_geometric"),
    "gat": Method("GAT, PyG", partial(_time_peer, make_gat), "torch_geometric"),
    "dhg": Method("HGNN and UniGAT, DHG", partial(_time_peer, make_dhg), "dhg"),
}


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """What to measure.

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
    about = _about(config, machine)
    for nodes in config.nodes:
        data = mnist_data(config.mnist, nodes, device) if config.mnist else random_data(nodes, device)
        size = Size.of(data["features"], Hypergraph.from_neighbors(data["neighbours"]))
        ours = None
        for key, cost in _costs(config, data):
            least = floor(size, machine, runs=METHODS[key].runs)
            ours = cost.seconds if key == "ours" else ours
            yield _line(METHODS[key].name, size, cost, ours, least) | about
        least = floor(size, machine)
        yield _line(_FLOOR, size, Cost(least.seconds), ours, least) | about


def _about(config: BenchConfig, machine: Machine) -> dict[str, Any]:
    """Say where the numbers of a run are from."""
    return {
        "data": "MNIST" if config.mnist else "random",
        "repeats": config.repeats,
        "device": describe(config.device),
        "machine": asdict(machine),
        "versions": {"dahgnn": __version__, "python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in ("torch", "torch-geometric", "dhg"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def describe(device: str) -> str:
    """Name the hardware."""
    if device == "cpu":
        return f"{torch.get_num_threads()} CPU threads, {platform.machine()}"
    return torch.cuda.get_device_name(device)


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
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _costs(config: BenchConfig, data: dict[str, Tensor]) -> Iterator[tuple[str, Cost]]:
    """Measure each method, on the CPU in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.pt"
        if config.device == "cpu":
            torch.save(data, file)
        for key in [key for key in METHODS if key in config.methods]:
            package = METHODS[key].package
            if package is not None and find_spec(package) is None:
                yield key, Cost(problem=f"{package} is not installed")
            elif config.device == "cpu":
                yield key, _measure_apart(key, file, config.repeats)
            else:
                yield key, _attempt(key, Task.make(data), config.repeats)
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
    return _attempt(key, Task.make(torch.load(file, weights_only=True)), repeats)


def _attempt(key: str, task: Task, repeats: int) -> Cost:
    """Measure a method, or say what stood in its way."""
    try:
        return _measure(METHODS[key], task, repeats)
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


def _measure(method: Method, task: Task, repeats: int) -> Cost:
    # Imports, pools of threads and compiled kernels are not the method's memory.
    method.time(Task.make(random_data(_SMALL_TASK, task.device)), 1)
    if task.device.type == "cuda":
        gc.collect()
        torch.cuda.reset_peak_memory_stats(task.device)
        held = torch.cuda.memory_allocated(task.device)
        seconds = method.time(task, repeats)
        used = torch.cuda.max_memory_allocated(task.device) - held
        return Cost(seconds, (used + task.features.nbytes) / 2**20)
    with contextlib.suppress(OSError):  # forget the highest so far; Linux alone can
        Path("/proc/self/clear_refs").write_text("5")
    resident, clocks = _resident_memory("VmRSS"), _clocks()
    seconds = method.time(task, repeats)
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


TABLE_HEAD = """\
| n | method | ms an epoch | peak memory, MiB | times ours | times the floor |
| ---: | --- | ---: | ---: | ---: | ---: |"""


def table_row(line: Mapping[str, Any]) -> str:
    """Write a line as a row of the table.

    Examples
    --------
    >>> known = {"milliseconds": 25.04, "memory": None, "times_ours": 1.0, "times_floor": 4.55}
    >>> print(table_row({"nodes": 10000, "method": "ours", "problem": None, **known}))
    | 10,000 | ours | 25.0 | – | 1.00 | 4.55 |
    """
    start = f"| {line['nodes']:,} | {line['method']} |"
    if line["problem"] is not None:
        return f"{start} {line['problem']} | | | |"
    values = (line[name] for name in ("milliseconds", "memory", "times_ours", "times_floor"))
    return f"{start} {' | '.join(_figures(value) for value in values)} |"


def _figures(value: float | None) -> str:
    """Write three figures, or all before the point."""
    if value is None:
        return "–"
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(digits, 0)}f}"


def table_notes(lines: Sequence[Mapping[str, Any]]) -> str:
    """Write under a table what was measured, where, and how quiet it was."""
    line = lines[0]
    machine = Machine(**line["machine"])
    versions = ", ".join(f"{name} {number}" for name, number in line["versions"].items() if number)
    others = max(each["others"] or 0 for each in lines)
    many = METHODS["ten"].name
    notes = [
        f"{line['device']}; {versions}; {line['data']} data.",
        f"Medians of {line['repeats']} epochs (of ours on a GPU, of bunches of epochs, which the host sees "
        "together). Ours evaluates in each epoch, the peers do not.",
        f"{many}: the time of all, and their own floor."
        if any(each["method"] == many for each in lines)
        else "",
        "Floor: two large products and the passes over the incidences, by a rate of "
        f"{machine.rate / 1e9:,.0f} GFLOP/s (product in float32) and a bandwidth of "
        f"{machine.bandwidth / 1e9:,.0f} GB/s (copy), both measured in this run.",
        f"Other processes kept up to {others:.1f} cores busy meanwhile." if others >= 0.1 else "",
    ]
    return " ".join(note for note in notes if note)


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write lines as JSON, one each; the file is replaced whole."""
    with replacing(path) as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines))


_COLOURS = {_FLOOR: "0.45"} | {method.name: f"C{index}" for index, method in enumerate(METHODS.values())}


def draw_costs(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Draw milliseconds an epoch against n, both logarithmic: one line a method, and the floor.

    Parameters
    ----------
    path : Path
        Of the picture; the ending chooses the format, PNG without one.
    lines : sequence of dict
        Of `compare`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(9.5, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xscale="log", yscale="log")
    curves = _curves(lines)
    for method, points in curves.items():
        style = "--" if method == _FLOOR else "-"
        axes.plot(*zip(*points, strict=True), style, color=_COLOURS[method], marker="o", markersize=4)
    _label(axes, {method: points[-1] for method, points in curves.items()})
    axes.set(xlabel="nodes n", ylabel="milliseconds an epoch", title=_title(lines[0]))
    axes.grid(alpha=0.3)
    nodes = sorted({line["nodes"] for line in lines})
    axes.set_xticks(nodes, [f"{count:,}" for count in nodes])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix.removeprefix(".") or "png")


def _label(axes: Any, ends: Mapping[str, tuple[int, float]]) -> None:
    """Write the name of each curve behind its end, or above it where the others go on."""
    low, high = axes.get_ylim()
    last = max(nodes for nodes, _ in ends.values())
    heights = _spread_apart(
        {method: height for method, (nodes, height) in ends.items() if nodes == last},
        gap=(high / low) ** 0.045,
    )
    for method, end in ends.items():
        behind = method in heights
        axes.annotate(
            method,
            (last, heights[method]) if behind else end,
            xytext=(10, 0) if behind else (0, 7),
            textcoords="offset points",
            ha="left" if behind else "center",
            va="center" if behind else "bottom",
            color=_COLOURS[method],
            annotation_clip=False,
        )


def _title(line: Mapping[str, Any]) -> str:
    return f"One training epoch, {line['data']} data\n{line['device']}, torch {line['versions']['torch']}"


def _curves(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Collect the points of each method, the smallest n first; those that could not be measured have none."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        if line["milliseconds"] is not None:
            curves.setdefault(line["method"], []).append((line["nodes"], line["milliseconds"]))
    return {method: sorted(points) for method, points in curves.items()}


def _spread_apart(values: Mapping[str, float], *, gap: float) -> dict[str, float]:
    """Raise values until neighbours differ by the factor ``gap`` at least, so that labels can be read."""
    placed: dict[str, float] = {}
    below = 0.0
    for name in sorted(values, key=lambda name: values[name]):
        below = max(values[name], gap * below)
        placed[name] = below
    return {name: placed[name] for name in values}
