"""Time whole fits of `DAHGNNClassifier` on a GPU: the first ever, the first of a process, and further ones.

    python benchmarks/gpu_fits.py --mnist FOLDER [--fits 10] [--rows 1000000] [--out FILE]

The first fit ever finds no compiled kernel: its process has an empty cache of Triton's. The next processes
find what that one has compiled. Further fits of a process have other labelled images each, and take turns
with scikit-learn's `LabelSpreading` on the CPU of the same machine. The rows are 1,000 training images of
each digit of MNIST, and test images are the new rows. Last comes a large table, made up: rows of 64 columns
around ten points, 1,000 labels, and for neighbours ten random rows of the same thousand.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dahgnn import DAHGNNClassifier
from dahgnn.bench.fits import mnist_task
from dahgnn.bench.results import write_lines
from dahgnn.environment import describe_environment
from dahgnn.training.splits import sample_per_class

DEVICE = torch.device("cuda")
IMAGES, COLUMNS, CLASSES, BLOCK = 10_000, 64, 10, 1_000
# Fits whose time is not looked at.
WARM_UP = 2


def main() -> None:
    """Measure in processes of their own, and write what they print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mnist", type=Path, required=True, help="folder of the four official files")
    parser.add_argument("--fits", type=int, default=10, help="further fits of a process")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large table")
    parser.add_argument("--out", type=Path, help="file of JSON lines")
    parser.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part is not None:
        for line in PARTS[options.part](options):
            print(json.dumps(line | describe_environment(DEVICE)))
        return
    lines = []
    with tempfile.TemporaryDirectory() as cache:
        for part in ("first", "first", "first", "further", "large"):
            lines += run_part(part, options, cache)
    lines[0]["what"] = "first fit ever"
    for line in lines:
        print(line["what"], " ".join(f"{seconds:.3f}" for seconds in line["seconds"]))
    if options.out is not None:
        write_lines(options.out, lines)


def run_part(part: str, options: argparse.Namespace, cache: str) -> list[dict[str, Any]]:
    """Measure a part in a process that shares its compiled kernels with the others alone."""
    command = [sys.executable, __file__, "--part", part, "--mnist", str(options.mnist)]
    command += ["--fits", str(options.fits), "--rows", str(options.rows)]
    done = subprocess.run(  # noqa: S603, this file
        command, env=os.environ | {"TRITON_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure_first(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time the first fit of this process, and the first prediction."""
    task = mnist_task(options.mnist, IMAGES, 50, DEVICE)
    seconds, classifier = time_fit(task.rows, task.known)
    start = time.perf_counter()
    classifier.predict(task.new_rows)
    predicted = time.perf_counter() - start
    right = float((classifier.transduction_ == task.labels)[task.known < 0].mean())
    return [
        {"what": "first fit of a process", "seconds": [seconds], "labels": 50, "right": right},
        {"what": "first prediction", "seconds": [predicted], "rows": len(task.new_rows)},
    ]


def measure_further(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time further fits, in turn with label spreading."""
    from sklearn.semi_supervised import LabelSpreading

    lines = []
    for per_class in (50, 400):
        task = mnist_task(options.mnist, IMAGES, per_class, DEVICE)
        ours, theirs = [], []
        for seed in range(WARM_UP + options.fits):
            labelled = sample_per_class(task.labels, per_class, seed=seed).numpy()
            known = np.full(len(task.labels), -1)
            known[labelled] = task.labels[labelled]
            ours.append(time_fit(task.rows, known)[0])
            start = time.perf_counter()
            LabelSpreading(kernel="knn", n_neighbors=10).fit(task.rows, known)
            theirs.append(time.perf_counter() - start)
        ours, theirs = ours[WARM_UP:], theirs[WARM_UP:]
        lines.append({
            "what": f"further fits, {per_class} labels a class", "seconds": ours,
            "median": statistics.median(ours), "label_spreading": theirs,
            "times_label_spreading": statistics.median(ours) / statistics.median(theirs),
        })  # fmt: skip
    return lines


def measure_large(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time two fits to a large table whose neighbours are known."""
    generator = np.random.default_rng(0)
    n = options.rows // BLOCK * BLOCK
    classes = np.arange(n) // BLOCK % CLASSES
    rows = generator.normal(size=(CLASSES, COLUMNS))[classes] + 2 * generator.normal(size=(n, COLUMNS))
    others = generator.integers(1, BLOCK, size=(n, 10))
    own = np.arange(n)[:, None]
    neighbors = own // BLOCK * BLOCK + (own + others) % BLOCK
    known = np.full(n, -1)
    known[sample_per_class(classes, 1000 // CLASSES, seed=0).numpy()] = 0
    known = np.where(known == 0, classes, -1)
    fits = [time_fit(rows.astype(np.float32), known, neighbors) for _ in range(2)]
    right = float((fits[-1][1].transduction_ == classes)[known < 0].mean())
    memory = torch.cuda.max_memory_allocated() / 2**30
    seconds = [each for each, _ in fits]
    return [{"what": f"{n} rows, neighbours given", "seconds": seconds, "right": right, "GiB": memory}]


def time_fit(rows: Any, known: Any, neighbors: Any = None) -> tuple[float, DAHGNNClassifier]:
    """Return the seconds of a fit, and what came of it."""
    start = time.perf_counter()
    classifier = DAHGNNClassifier(random_state=0, device="cuda").fit(rows, known, neighbors=neighbors)
    return time.perf_counter() - start, classifier


PARTS = {"first": measure_first, "further": measure_further, "large": measure_large}

if __name__ == "__main__":
    main()
