"""What is timed: the workload that every method is given, and the methods, ours and peers."""

from __future__ import annotations

import itertools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from dahgnn.bench.lower_bound import PAPER, synchronize
from dahgnn.bench.peers import IN_FEATURES, N_CLASSES, make_dhg, make_gat, make_pyg, train_plainly
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import build_search
from dahgnn.graph.scaling import choose_scaling
from dahgnn.images.datasets import load_mnist
from dahgnn.nn.model import DAHGNN
from dahgnn.ops.propagated import PropagatedFeatures
from dahgnn.threads import threads_for
from dahgnn.training.fit import FitResult, fit, fit_many
from dahgnn.training.run import Epoch, Labelled
from dahgnn.training.splits import Split, sample_per_class, split_per_class
from dahgnn.training.updates import LEAVE_OUT, Classroom, Update

K = 10
RUNS_AT_ONCE = 10
FLOOR = "floor"
DEFAULT_FLOOR = "floor of the default network"
_DEFAULT = PRESETS["default"]
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


def random_data(nodes: int, device: torch.device, features: int = IN_FEATURES) -> dict[str, Tensor]:
    """Draw features, and neighbours that are not far in number, as if a good order had been found."""
    generator = torch.Generator(device).manual_seed(0)
    steps = torch.randint(-500, 500, (nodes, K), device=device, generator=generator)
    return {
        "features": torch.rand(nodes, features, device=device, generator=generator),
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


def _make_ours(workload: Workload, seed: int, config: ModelConfig) -> DAHGNN:
    """Return a network with weights drawn by the seed."""
    generator = torch.Generator().manual_seed(seed)
    return DAHGNN(workload.features.shape[1], N_CLASSES, config, generator=generator)


def _time_ours(workload: Workload, repeats: int, *, density: bool = True) -> float:
    model = _make_ours(workload, 0, ModelConfig(density=density))
    config = _schedule(workload, repeats)
    return _epoch_seconds(
        fit(model, workload.features, workload.hypergraph, workload.labels, workload.split, config), workload
    )


def _time_many(workload: Workload, repeats: int) -> float:
    """Time an epoch of ten networks, each with weights and a split of its own."""
    seeds = range(RUNS_AT_ONCE)
    models = [_make_ours(workload, seed, ModelConfig()) for seed in seeds]
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


def _prepare_default(workload: Workload) -> Workload:
    """Return the workload with the features that the classifier gives to its networks: scaled, and ones."""
    rows = workload.features.cpu().numpy()
    scaled = choose_scaling(rows, _DEFAULT.scale).apply(rows)
    return replace(workload, features=scaled.to(workload.device))


def _time_default(workload: Workload, repeats: int) -> float:
    """Time an update of the default network as the classifier makes it, without an evaluation."""
    epochs, nodes = _schedule(workload, repeats).max_epochs, workload.split.train
    training = replace(_DEFAULT.training, max_epochs=epochs)
    room = Classroom(workload.features, workload.hypergraph, training, workload.device)
    seen: list[tuple[int, float]] = []

    def note(update: Update) -> None:
        seen.append((update.epoch, time.perf_counter()))

    with threads_for(len(workload.features)):
        network = _make_ours(workload, 0, _DEFAULT.model)
        room.enter(network, Labelled(nodes, workload.labels[nodes]), seed=0).advance(epochs, note)
    # On a GPU updates are seen in bunches; what the first one compiles is before its end.
    return update_seconds(seen if workload.device.type == "cuda" else seen[_WARM_UP - 1 :])


def update_seconds(seen: Sequence[tuple[int, float]]) -> float:
    """Return the median time of an update from how many were done at some moments.

    Examples
    --------
    >>> update_seconds([(16, 2.0), (32, 6.0), (48, 10.0), (50, 11.0)])
    0.25
    """
    return statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(seen))


def _count_directions(workload: Workload) -> int:
    """Count the columns of the propagated features that the updates of the default network multiply."""
    convolution = _make_ours(workload, 0, _DEFAULT.model).convolution
    propagate = partial(convolution.to_hyperedges, hypergraph=workload.hypergraph)
    return PropagatedFeatures(workload.features, propagate, leave_out=LEAVE_OUT).matrix.shape[1]


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


def _time_peer(make: Callable[[Hypergraph, int], nn.Module], workload: Workload, repeats: int) -> float:
    """Time the plain loop around a network of a peer; its warnings are none of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = make(workload.hypergraph, workload.features.shape[1])
        return _time_loop(network.to(workload.device), workload, repeats)


def _time_loop(model: nn.Module, workload: Workload, repeats: int) -> float:
    nodes = workload.split.train.to(workload.device)
    targets = workload.labels[workload.split.train].to(workload.device)
    synchronize(workload.device)
    stamps = [time.perf_counter()]
    for _ in itertools.islice(train_plainly(model, workload.features, nodes, targets), _WARM_UP + repeats):
        synchronize(workload.device)
        stamps.append(time.perf_counter())
    return median_seconds(stamps)


def _as_given(workload: Workload) -> Workload:
    return workload


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
    model : ModelConfig
        The network whose floor is its own.
    prepare : callable
        Makes of the workload what it is given, before anything is measured.
    count_columns : callable, optional
        Returns the columns of its large product, if they are not those of the features.
    """

    name: str
    time: Callable[[Workload, int], float]
    package: str | None = None
    runs: int = 1
    model: ModelConfig = PAPER
    prepare: Callable[[Workload], Workload] = _as_given
    count_columns: Callable[[Workload], int] | None = None


METHODS: Mapping[str, Contender] = {
    "ours": Contender("DA-HGNN, ours", _time_ours),
    "without-density": Contender("DA-HGNN without density, ours", partial(_time_ours, density=False)),
    "ten": Contender(f"DA-HGNN, {RUNS_AT_ONCE} runs by fit_many, ours", _time_many, runs=RUNS_AT_ONCE),
    "default": Contender(
        "Default network, ours",
        _time_default,
        model=_DEFAULT.model,
        prepare=_prepare_default,
        count_columns=_count_directions,
    ),
    "pyg": Contender("HypergraphConv with attention, PyG", partial(_time_peer, make_pyg), "torch_geometric"),
    "gat": Contender("GAT, PyG", partial(_time_peer, make_gat), "torch_geometric"),
    "dhg": Contender("HGNN and UniGAT, DHG", partial(_time_peer, make_dhg), "dhg"),
}
