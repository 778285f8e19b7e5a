"""A small experiment for the tests of specs, experiments and reports: blobs in place of images."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
from small_images import publish_files

from dahgnn.experiments.datasets import Task
from dahgnn.experiments.spec import Spec, parse_spec
from dahgnn.graph.neighbours import knn

TABLE = {
    "name": "small",
    "title": "A small experiment",
    "runs": 2,
    "labels": [3, 6],
    "validation": 5,
    "k": 5,
    "comparisons": [["da-hgnn", "hgnn"]],
    "dataset": {"mnist": {"part": "train"}},
    "method": {
        "hgnn": {"kind": "HGNN", "title": "HGNN", "model": {"hidden": 8}, "training": {"max_epochs": 5}},
        "laplace": {"kind": "LaplaceLearning"},
        "da-hgnn": {
            "kind": "DAHGNN",
            "ours": True,
            "preset": "paper",
            "model": {"hidden": 16},
            "training": {"max_epochs": 4},
        },
    },
    "published": {"mnist": {"da-hgnn": {"9": [90.0, 1.5]}}},
}


def small_spec(**changes: object) -> Spec:
    return parse_spec(TABLE | changes)


def small_task(seed: int = 0, classes: int = 3, count: int = 30) -> Task:
    generator = np.random.default_rng(seed)
    labels = np.arange(classes * count) % classes
    centres = 2.5 * generator.normal(size=(classes, 6))
    features = (centres[labels] + generator.normal(size=(len(labels), 6))).astype(np.float32)
    digest = hashlib.sha256(features.tobytes()).hexdigest()[:16]
    found = knn(features, 5)
    return Task(
        name="mnist",
        digest=digest,
        features=features,
        labels=labels,
        neighbours=found.indices.numpy(),
        distances=found.distances.numpy(),
    )


def write_mnist(folder: Path, per_class: int = 20) -> None:
    """Write images in MNIST's format, of which each class has a bright row of its own."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), per_class).astype(np.uint8)
    images = generator.integers(0, 60, size=(len(labels), 28, 28)).astype(np.uint8)
    images[np.arange(len(labels)), 2 * labels + 4] = 250
    (folder / "mnist").mkdir(parents=True)
    for part in ("train", "t10k"):
        header = struct.pack(">IIII", 2051, len(labels), 28, 28)
        (folder / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(header + images.tobytes())
        )
        header = struct.pack(">II", 2049, len(labels))
        (folder / "mnist" / f"{part}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(header + labels.tobytes())
        )
    publish_files("mnist", folder / "mnist")
