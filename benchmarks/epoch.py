"""Time one training epoch of ours and of peers, in one run: forward, loss, backward, Adam.

    python benchmarks/epoch.py [--device cpu|cuda] [--nodes 10000 100000] [--mnist FOLDER] [--repeats 20]

Prints a Markdown table: milliseconds an epoch (median), peak memory, and the ratio of each peer to ours, at
d₀ = 784, k = 10, 256 hidden, four heads of eight units and one of ten. Peers that are missing are named.
Without ``--mnist``, the graph is a random one with the degrees of a nearest-neighbour graph.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, elu

from dahgnn import DAHGNN, Hypergraph, TrainingConfig, fit, split_per_class
from dahgnn.datasets import load_mnist
from dahgnn.splits import Split, sample_per_class

Task = tuple[Tensor, Hypergraph, Tensor, Split]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000])
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {describe(options.device)}\n")
    print("| n | method | ms an epoch | peak memory, MiB | times ours |\n| ---: | --- | ---: | ---: | ---: |")
    for nodes in options.nodes:
        task = make_task(nodes, options.mnist, options.device)
        mine = None
        for name, measure in METHODS.items():
            try:
                seconds, memory = measure(task, options.repeats)
            except ModuleNotFoundError as error:
                print(f"| {nodes} | {name} | {error.name} is not installed | | |")
                continue
            mine = mine or seconds
            print(f"| {nodes} | {name} | {1e3 * seconds:.2f} | {memory} | {seconds / mine:.1f} |", flush=True)


def describe(device: str) -> str:
    """Name the hardware."""
    return torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} CPU threads"


def make_task(nodes: int, mnist: Path | None, device: str) -> Task:
    """Return features, hypergraph, labels and split of so many nodes."""
    if mnist is not None:
        images = load_mnist(mnist)
        images = images.subset(sample_per_class(images.labels, nodes // 10, seed=0))
        features, labels = images.features.to(device), images.labels
        hypergraph = Hypergraph.from_features(features)
    else:
        generator = torch.Generator(device).manual_seed(0)
        features = torch.rand(nodes, 784, device=device, generator=generator)
        labels = torch.arange(nodes) % 10
        near = torch.randint(-500, 500, (nodes, 10), device=device, generator=generator)
        hypergraph = Hypergraph.from_neighbors((torch.arange(nodes, device=device)[:, None] + near) % nodes)
    return features, hypergraph, labels, split_per_class(labels, train=100, validation=100, seed=0)


def ours(task: Task, repeats: int, **settings: bool) -> tuple[float, str]:
    """Time the epochs inside ``fit``, evaluation and early stopping included."""
    config = TrainingConfig(max_epochs=max(10 * repeats, 100), patience=100_000)
    model = DAHGNN(784, 10, **settings)
    fit(DAHGNN(784, 10, **settings), *task, TrainingConfig(max_epochs=2))  # compiles what there is to compile
    forget_memory()
    result = fit(model, *task, config)
    seconds = [epoch.seconds for epoch in result.history]
    # On a GPU the epochs are seen in bunches; the mean over the second half is their time.
    half = len(seconds) // 2
    if task[0].is_cuda:
        return (seconds[-1] - seconds[half]) / (len(seconds) - 1 - half), peak_memory()
    return statistics.median(after - before for before, after in itertools.pairwise(seconds)), peak_memory()


def peer(make: Callable[[Task], nn.Module]) -> Callable[[Task, int], tuple[float, str]]:
    """Time the plain loop around a network of a peer."""

    def measure(task: Task, repeats: int) -> tuple[float, str]:
        features, _, labels, split = task
        model = make(task).to(features.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
        nodes, targets = split.train.to(features.device), labels[split.train].to(features.device)
        forget_memory()
        times = []
        for _ in range(repeats + 3):
            synchronize()
            start = time.perf_counter()
            loss = cross_entropy(model(features)[nodes], targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times[3:]), peak_memory()

    return measure


def pyg_hypergraph(task: Task) -> nn.Module:
    """PyG's HypergraphConv, with attention in the two layers that have it here."""
    from torch_geometric.nn import HypergraphConv

    incidence = torch.stack([task[1].by_hyperedge.indices, task[1].by_hyperedge.owners()])

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = HypergraphConv(784, 256, bias=False)
            self.second = HypergraphConv(256, 8, use_attention=True, heads=4)
            self.third = HypergraphConv(32, 10, use_attention=True, heads=1)

        def forward(self, features: Tensor) -> Tensor:
            x = self.first(features, incidence)
            x = elu(self.second(x, incidence, hyperedge_attr=x))
            return elu(self.third(x, incidence, hyperedge_attr=x))

    return Network()


def pyg_gat(task: Task) -> nn.Module:
    """PyG's GAT on the symmetrised graph of nearest neighbours, four heads of eight and one of ten."""
    from torch_geometric.nn import GATConv
    from torch_geometric.utils import to_undirected

    forward, _ = task[1].neighbourhood("centre")
    edges = to_undirected(torch.stack([forward.indices, forward.owners()]))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GATConv(784, 8, heads=4)
            self.second = GATConv(32, 10)

        def forward(self, features: Tensor) -> Tensor:
            return self.second(elu(self.first(features, edges)), edges)

    return Network()


METHODS: dict[str, Callable[[Task, int], tuple[float, str]]] = {
    "DA-HGNN, ours": ours,
    "DA-HGNN without density, ours": lambda task, repeats: ours(task, repeats, density=False),
    "HypergraphConv with attention, PyG": peer(pyg_hypergraph),
    "GAT, PyG": peer(pyg_gat),
}


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def forget_memory() -> None:
    """Start a new measurement of the GPU's peak."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory() -> str:
    """Return the peak of the GPU's memory since then; on the CPU it is not measured."""
    return f"{torch.cuda.max_memory_allocated() / 2**20:.0f}" if torch.cuda.is_available() else "–"


if __name__ == "__main__":
    main()
