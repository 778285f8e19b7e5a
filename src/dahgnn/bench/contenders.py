"""What is timed: the workload that every method is given, and the methods, ours and peers."""

from __future__ import annotations

import itertools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dahgnn.bench.lower_bound import synchronize
from dahgnn.bench.peers import IN_FEATURES, N_CLASSES, make_dhg, make_gat, make_pyg
from dahgnn.config import ModelConfig, TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import build_search
from dahgnn.images.datasets import load_mnist
from dahgnn.nn.model import DAHGNN
from dahgnn.training.fit import FitResult, fit, fit_many
from dahgnn.training.run import Epoch
from dahgnn.training.splits import Split, sample_per_class, split_per_class

K = 10
RUNS_AT_ONCE = 10
FLOOR = "floor"
_WARM_UP = 3  # epochs before the ones that are timed


@dataclass(frozen=True, eq=False)
class Workload:
    """What every method is given."""

    features: Tensor
    hypergraph: Hypergraph
    labels: Tensor
    split: Split

    @classmethod
    def make(cls, data: Mapping[str, Tensor]) -> Workload:
        """Make the workload of features (n, d₀), labels (n,) and neighbours (n, k)."""
        hypergraph = Hypergraph.from_neighbors(data["neighbours"])
        return cls(data["features"], hypergraph, data["labels"], _split(data["labels"], seed=0))

    @property
    def device(self) -> torch.device:
        """The device of the features."""
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
    neighbours = build_search(features).among(K).indices
    return {"features": features, "labels": images.labels, "neighbours": neighbours}


def _make_ours(seed: int, *, density: bool = True) -> DAHGNN:
    """Return the paper's network, with weights drawn by the seed."""
    generator = torch.Generator().manual_seed(seed)
    return DAHGNN(IN_FEATURES, N_CLASSES, ModelConfig(density=density), generator=generator)


def _time_ours(workload: Workload, repeats: int, *, density: bool = True) -> float:
    model = _make_ours(0, density=density)
    config = _schedule(workload, repeats)
    return _epoch_seconds(
        fit(model, workload.features, workload.hypergraph, workload.labels, workload.split, config), workload
    )


def _time_many(workload: Workload, repeats: int) -> float:
    """Time an epoch of ten networks, each with weights and a split of its own."""
    seeds = range(RUNS_AT_ONCE)
    models = [_make_ours(seed) for seed in seeds]
    splits = [_split(workload.labels, seed=seed) for seed in seeds]
    config = _schedule(workload, repeats)
    spans: dict[int, tuple[float, float]] = {}

    def note(run: int, _: Epoch) -> None:
        now = time.perf_counter()
        spans[run] = spans.get(run, (now, now))[0], now

    results = fit_many(
        models, workload.features, workload.hypergraph, workload.labels, splits, config, callback=note
    )
    return sum_of_turns([(*spans[run], _epoch_seconds(results[run], workload)) for run in seeds])


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


def _schedule(workload: Workload, repeats: int) -> TrainingConfig:
    """Plan so many epochs that as many as asked for can be timed; none ends early."""
    # On a GPU they are short, and seen in bunches.
    epochs = max(10 * repeats, 100) if workload.device.type == "cuda" else repeats + _WARM_UP
    return TrainingConfig(max_epochs=epochs, patience=epochs)


def _epoch_seconds(result: FitResult, workload: Workload) -> float:
    stamps = [epoch.seconds for epoch in result.history]
    return bunch_seconds(stamps) if workload.device.type == "cuda" else median_seconds(stamps)


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


def _time_peer(make: Callable[[Hypergraph], nn.Module], workload: Workload, repeats: int) -> float:
    """Time the plain loop around a network of a peer; its warnings are none of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _time_loop(make(workload.hypergraph).to(workload.device), workload, repeats)


def _time_loop(model: nn.Module, workload: Workload, repeats: int) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=TrainingConfig.learning_rate)
    nodes = workload.split.train.to(workload.device)
    targets = workload.labels[workload.split.train].to(workload.device)
    synchronize(workload.device)
    stamps = [time.perf_counter()]
    for _ in range(_WARM_UP + repeats):
        optimizer.zero_grad()
        cross_entropy(model(workload.features)[nodes], targets).backward()
        optimizer.step()
        synchronize(workload.device)
        stamps.append(time.perf_counter())
    return median_seconds(stamps)


@dataclass(frozen=True)
class Contender:
    """A row of the table.

    Attributes
    ----------
    name : str
        What the table calls it.
    time : callable
        Returns the seconds of an epoch, from a workload and how many epochs to take the median of.
    package : str, optional
        What must be installed.
    runs : int
        Networks that one epoch trains.
    """

    name: str
    time: Callable[[Workload, int], float]
    package: str | None = None
    runs: int = 1


METHODS: Mapping[str, Contender] = {
    "ours": Contender("DA-HGNN, ours", _time_ours),
    "without-density": Contender("DA-HGNN without density, ours", partial(_time_ours, density=False)),
    "ten": Contender(f"DA-HGNN, {RUNS_AT_ONCE} runs by fit_many, ours", _time_many, runs=RUNS_AT_ONCE),
    "pyg": Contender("HypergraphConv with attention, PyG", partial(_time_peer, make_pyg), "torch_geometric"),
    "gat": Contender("GAT, PyG", partial(_time_peer, make_gat), "torch_geometric"),
    "dhg": Contender("HGNN and UniGAT, DHG", partial(_time_peer, make_dhg), "dhg"),
}
