"""Time the search of nearest neighbours, ours and of peers, in one run, all of them exact.

    python benchmarks/neighbors.py [--device cpu|cuda] [--nodes 10000 70000] [--mnist FOLDER] [--repeats 5]
                                   [--out FILE]

Prints a Markdown table: seconds (median, and the fastest and slowest), as a multiple of ours and of the bare
matrix product X Xᵀ of the machine, the floor of a search that computes all products; ours computes half of
them. k = 10, d = 784, float32. The methods take turns, so that a busy machine is as hard on each. Peers that
are missing are named; on a GPU, those that do not run there are timed on the CPU and say so. Without
``--mnist``, the features are random, which is harder: there all distances are nearly equal.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from dahgnn.bench.lower_bound import synchronize
from dahgnn.bench.results import write_lines
from dahgnn.environment import describe_device, name_device
from dahgnn.graph.neighbours import knn
from dahgnn.images.datasets import load_mnist

K = 10
# Rows of the bare product at a time; all of it would take 20 GB for 70,000 nodes.
ROWS = 2_000

OURS, PRODUCT = "knn, ours", "X Xᵀ alone, PyTorch"

Search = Callable[[], object]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000])
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the results there, too, as JSON lines")
    options = parser.parse_args()
    device = torch.device(options.device)
    hardware = f"{name_device(describe_device(options.device))}, {torch.get_num_threads()} CPU threads"
    print(f"torch {torch.__version__}, {hardware}, {options.repeats} repeats\n")
    print("| n | method | seconds | fastest – slowest | times ours | times X Xᵀ |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    lines = []
    for nodes in options.nodes:
        features = make_features(nodes, options.mnist).to(device)
        searches, missing = prepare(features)
        seconds = measure(searches, options.repeats, device)
        report(nodes, seconds)
        data = "random" if options.mnist is None else "MNIST"
        lines += [
            {"nodes": nodes, "method": name, "seconds": times, "data": data, "device": hardware, "k": K}
            for name, times in seconds.items()
        ]
        if options.out:
            write_lines(options.out, lines)
        for name, module in missing.items():
            print(f"| {nodes} | {name} | {module} is not installed | | | |", flush=True)


def make_features(nodes: int, mnist: Path | None) -> Tensor:
    """Return so many of the 70,000 images in random order, or random numbers."""
    generator = torch.Generator().manual_seed(0)
    if mnist is None:
        return torch.rand(nodes, 784, generator=generator)
    images = torch.cat([load_mnist(mnist, part).features for part in ("train", "test")])
    if nodes > len(images):
        raise SystemExit(f"MNIST has {len(images)} images. Got --nodes {nodes}.")
    return images[torch.randperm(len(images), generator=generator)[:nodes]]


def prepare(features: Tensor) -> tuple[dict[str, Search], dict[str, str]]:
    """Return what there is to time, each run once on a few rows, and the modules that the others miss."""
    searches, missing = {}, {}
    for name, make in METHODS.items():
        try:
            make(features[:1000])[1]()
            label, search = make(features)
            searches[name + label] = search
        except ModuleNotFoundError as error:
            missing[name] = str(error.name)
    return searches, missing


def measure(searches: dict[str, Search], repeats: int, device: torch.device) -> dict[str, list[float]]:
    """Time each search in turn, again and again."""
    seconds: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(repeats):
        for name, search in searches.items():
            synchronize(device)
            start = time.perf_counter()
            search()
            synchronize(device)
            seconds[name].append(time.perf_counter() - start)
    return seconds


def report(nodes: int, seconds: dict[str, list[float]]) -> None:
    """Print one row a method."""
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    mine, floor = medians[OURS], medians[PRODUCT]
    for name, median in medians.items():
        spread = f"{min(seconds[name]):.3f} – {max(seconds[name]):.3f}"
        ratios = f"{median / mine:.2f} | {median / floor:.2f}"
        print(f"| {nodes} | {name} | {median:.3f} | {spread} | {ratios} |", flush=True)


def ours(features: Tensor) -> tuple[str, Search]:
    """Search as this package does."""
    return "", lambda: knn(features, K)


def product(features: Tensor) -> tuple[str, Search]:
    """Compute all inner products, block over block, and nothing else."""
    buffer = features.new_empty(min(ROWS, len(features)), len(features))

    def multiply() -> None:
        for rows in features.split(ROWS):
            torch.mm(rows, features.T, out=buffer[: len(rows)])

    return "", multiply


def faiss_flat(features: Tensor) -> tuple[str, Search]:
    """Fill and search the flat index of faiss, which counts each node as its own neighbour."""
    import faiss

    array = features.cpu().numpy()
    on_gpu = features.is_cuda and hasattr(faiss, "StandardGpuResources")
    resources = faiss.StandardGpuResources() if on_gpu else None

    def search() -> None:
        index = faiss.IndexFlatL2(array.shape[1])
        if on_gpu:
            index = faiss.index_cpu_to_gpu(resources, features.device.index or 0, index)
        index.add(array)
        index.search(array, K + 1)

    return place(features, on_gpu), search


def scikit_brute(features: Tensor) -> tuple[str, Search]:
    """Search as scikit-learn does by brute force."""
    from sklearn.neighbors import NearestNeighbors

    array = features.cpu().numpy()
    nearest = NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=-1)
    return place(features, False), lambda: nearest.fit(array).kneighbors()


def place(features: Tensor, on_gpu: bool) -> str:
    """Say so if a peer stays on the CPU while the others use the GPU."""
    return ", on the CPU" if features.is_cuda and not on_gpu else ""


METHODS: dict[str, Callable[[Tensor], tuple[str, Search]]] = {
    OURS: ours,
    PRODUCT: product,
    "IndexFlatL2, faiss": faiss_flat,
    "NearestNeighbors brute, scikit-learn": scikit_brute,
}


if __name__ == "__main__":
    main()
