"""The part ``graph``: neighbours of n rows as a fit finds them, and FAISS by hand beside it.

By hand means what somebody would write who has FAISS's manual: an inverted file with 4 √n lists, trained on
a sample of 64 rows a list, filled and searched in blocks, for as many neighbours and with as many probes as
ours chose. It does not measure its recall, nor distances in double precision, and keeps no shards.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dahgnn.files.scratch import Scratch
from dahgnn.graph.neighbours import Neighbors
from dahgnn.graph.recall import Sample
from dahgnn.graph.sharded import find_neighbours_in_shards
from scale.rows import open_rows
from scale.watch import Watch

K = 10
# Probes by hand where ours needed no lists.
_PROBES = 16
_ROWS_A_LIST, _ROWS = 64, 1 << 16


def measure_graph(spec: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    """Find the neighbours of made-up rows.

    Parameters
    ----------
    spec : dict
        "n", "d", "who" ("ours" or "by hand"), "metric" and "jobs"; for "by hand" the line of ours as "ours".
    work : Path
        Where rows are kept.
    watch : Watch
        Measures phases.
    """
    rows, _ = open_rows(work, spec["n"], spec["d"])
    if spec["who"] == "ours":
        return _ours(rows, spec, work, watch)
    return _by_hand(rows, spec["found"], work, watch)


class _Times:
    """Notes when the search of the shards begins and ends."""

    def __init__(self) -> None:
        self.heard: list[float] = []

    def __call__(self, *_: object, **__: object) -> None:
        self.heard.append(time.perf_counter())


def _ours(rows: NDArray[np.float32], spec: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    times = _Times()
    with Scratch(work) as scratch:
        start = time.perf_counter()
        with watch.phase("all"):
            found = find_neighbours_in_shards(
                torch.from_numpy(rows),
                K,
                spec["metric"],
                search=spec.get("search", "auto"),
                scratch=scratch,
                jobs=spec["jobs"],
                progress=times,
            )
        end = time.perf_counter()
    report = found.report
    return {
        "seconds": end - start,
        "seconds_index": times.heard[0] - start,
        "seconds_search": times.heard[-1] - times.heard[0],
        "seconds_collect": end - times.heard[-1],
        "neighbours": report.k,
        "recall": report.recall,
        "backend": report.backend,
        "settings": dict(report.settings or {}),
    }


def _by_hand(rows: NDArray[np.float32], found: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    import faiss

    n, d = rows.shape
    neighbours, probes = found["neighbours"], found["settings"].get("probes", _PROBES)
    lists = max(1, min(int(4 * math.sqrt(n)), n // _ROWS_A_LIST))
    faiss.omp_set_num_threads(torch.get_num_threads())
    with Scratch(work) as scratch, watch.phase("all"):
        start = time.perf_counter()
        drawn = np.sort(np.random.default_rng(0).choice(n, min(n, _ROWS_A_LIST * lists), replace=False))
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, lists)
        index.cp.min_points_per_centroid = 1
        index.train(rows[drawn])
        for first in range(0, n, _ROWS):
            index.add(rows[first : first + _ROWS])
        built = time.perf_counter()
        index.nprobe = min(probes, lists)
        indices = scratch.empty((n, neighbours + 1), torch.int64)
        distances = scratch.empty((n, neighbours + 1))
        for first in range(0, n, _ROWS):
            part = slice(first, first + _ROWS)
            distances.numpy()[part], indices.numpy()[part] = index.search(rows[part], neighbours + 1)
        end = time.perf_counter()
    return {
        "seconds": end - start,
        "seconds_index": built - start,
        "seconds_search": end - built,
        "neighbours": neighbours,
        "recall": recall_of(torch.from_numpy(rows), indices, neighbours),
        "backend": "ivf",
        "settings": {"lists": lists, "probes": int(index.nprobe)},
    }


def recall_of(points: torch.Tensor, indices: torch.Tensor, k: int, seed: int = 0) -> float:
    """Return the share of the k nearest others of some points that are among k + 1 found ones, (n, k + 1)."""
    sample = Sample.draw(points, k, seed)
    found = indices[sample.numbers]
    apart = (points[sample.numbers].double()[:, None] - points[found.clamp_min(0)].double()).norm(dim=2)
    # A row is the nearest to itself and does not count. FAISS writes −1 where it finds no more.
    apart[(found == sample.numbers[:, None]) | (found < 0)] = math.inf
    nearest = apart.sort(dim=1)
    kept = nearest.values[:, :k] * (1 - 1e-7)  # truth is rounded otherwise
    return sample.recall(Neighbors(found.gather(1, nearest.indices)[:, :k], kept))[0]
