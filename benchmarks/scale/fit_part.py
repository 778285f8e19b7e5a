"""The parts ``fit`` and ``mnist``: a whole fit of the default, and Laplace learning on its neighbours.

Its time is that of the neighbours, which are found first and given to the fit; of the networks, until their
last epoch; and of the rest: the last evaluation, the experts, labels that spread, and the combination.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.config import ResourceConfig
from dahgnn.graph.diffusion import Given, SimilarityGraph
from dahgnn.images.datasets import PARTS, load_mnist
from scale.rows import hide_classes, open_rows
from scale.watch import Watch

Classes = NDArray[np.int64]

# Rows that are compared at a time.
_ROWS = 1 << 18


def measure_fit(spec: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    """Fit made-up rows.

    Parameters
    ----------
    spec : dict
        "n", "d", "labels", "memory" (GiB, or None), "batch", "jobs", "seed" and "device".
    work : Path
        Where rows are kept, and large arrays meanwhile.
    watch : Watch
        Measures phases.
    """
    rows, classes = open_rows(work, spec["n"], spec["d"])
    return _fit(rows, classes, spec, work, watch)


def measure_mnist(spec: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    """Fit all images of MNIST, whose files are in the folder "mnist"; the rest of ``spec`` as for a fit."""
    parts = [load_mnist(spec["mnist"], part) for part in PARTS]
    rows = np.concatenate([part.features.numpy() for part in parts])
    classes = np.concatenate([part.labels.numpy() for part in parts])
    del parts
    return _fit(rows, classes, spec, work, watch) | {"n": len(rows), "d": rows.shape[1]}


def _fit(
    rows: NDArray[np.float32], classes: Classes, spec: dict[str, Any], work: Path, watch: Watch
) -> dict[str, Any]:
    """Find neighbours, fit with them, and let labels spread over them."""
    some = hide_classes(classes, spec["labels"], spec["seed"])
    resources = ResourceConfig(
        memory=spec["memory"], batch=spec["batch"], jobs=spec["jobs"], folder=str(work)
    )
    classifier = DAHGNNClassifier(random_state=spec["seed"], resources=resources, device=spec["device"])
    last = start = time.perf_counter()

    def hear(*_: object) -> None:
        nonlocal last
        last = time.perf_counter()

    with watch.phase("neighbours"):
        around = classifier.surroundings(rows)
    with watch.phase("fit"):
        begin = time.perf_counter()
        classifier.fit(rows, some, neighbors=around, callback=hear)
    end = time.perf_counter()
    most = watch.most
    with watch.phase("laplace"):
        laplace = spread_labels(around.graphs.chosen, some)
    plan, report = classifier.plan_, around.report
    return {
        "seconds": end - start,
        "seconds_neighbours": begin - start,
        "seconds_networks": last - begin,
        "seconds_rest": end - last,
        "rows_a_second": len(rows) / (end - start),
        "accuracy": accuracy_of(classifier.label_distributions_, classes, some),
        "laplace_accuracy": accuracy_of(laplace, classes, some),
        "combination": classifier.combination_,
        "epochs": classifier.n_iter_,
        "backend": "exact" if report is None else report.backend,
        "recall": 1.0 if report is None else report.recall,
        "batches": plan.batch,
        "on_disk": plan.on_disk,
        "expected_seconds": plan.seconds,
        "expected_memory": plan.memory,
        "fit_anonymous": most.anonymous,
        "fit_resident": most.resident,
    }


def spread_labels(graph: SimilarityGraph, some: Classes) -> NDArray[np.float32]:
    """Return what Laplace learning says of all rows, (n, c), from known classes; −1 is unknown."""
    labelled = np.flatnonzero(some >= 0)
    targets = np.eye(int(some.max()) + 1)[some[labelled]]
    found: torch.Tensor = graph.smooth_all([Given(labelled, targets)], None, 0.0)
    return np.asarray(found[:, 0].cpu().numpy())


def accuracy_of(said: NDArray[Any], classes: Classes, some: Classes) -> float:
    """Return the share of rows without a label whose class is said, a block at a time."""
    right = 0
    for start in range(0, len(classes), _ROWS):
        part = slice(start, start + _ROWS)
        right += int(((said[part].argmax(1) == classes[part]) & (some[part] < 0)).sum())
    return right / int((some < 0).sum())
