"""The registry of datasets that a spec may name, users' own tables, and how either becomes a task.

A dataset is one entry of `DATASETS`. Besides these a spec may name any file that `dahgnn.tables` reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.checks import bad_type, bad_value, check_choice, check_count
from dahgnn.experiments.hypergraph_files import FOLDER, Incidences, read_hypergraph
from dahgnn.graph.neighbours import build_search
from dahgnn.images.cnn_features import features_path, load_features, read_header
from dahgnn.images.datasets import CLASSES, N_CLASSES, TITLES, Dataset, load_embedded_digits, load_images
from dahgnn.tables.table import read_table
from dahgnn.training.splits import sample_per_class, split_per_class

FEATURES = ("pixels", "cnn")
# How labelled nodes are drawn: as many of each class; from all nodes alike, so many in all; or as published.
DRAWS = ("per-class", "anywhere", "published")


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """Which nodes of which dataset.

    Parameters
    ----------
    name : str
        One of `DATASETS`, or any name where there is a file.
    title : str, optional
        What tables call it; by default the title of the registry, or the name.
    file, label : str, optional
        A table that `dahgnn.tables` reads, and its column of labels. Rows without a label are left out.
    folder : Path, optional
        Where a relative file is: beside the spec. Without it, in the data folder.
    part : {"train", "test"}
        Which of the official images are taken.
    features : {"pixels", "cnn"}
        Values of pixels, or those of the 13-layer CNN, which are of the test images.
    rows : int, optional
        Rows drawn at random, the same ones each time.
    per_class : int or None
        Nodes drawn of each class; None takes all.
    skip : int
        Nodes of each class that are left to others: those that a spec of so many a class would draw.
    labels_per_class : tuple of int, optional
        Labelled nodes of each class, where they are not those of the spec.
    validation : int, optional
        Validation nodes of each class, where they are not as many as the spec says.
    draw : {"per-class", "anywhere", "published"}
        How labelled and validation nodes of a hypergraph are drawn: so many of each class; as many from all
        nodes alike; or as its file says, without validation nodes.
    """

    name: str
    title: str = ""
    file: str | None = None
    label: str | None = None
    folder: Path | None = None
    part: str = "train"
    features: str = "pixels"
    rows: int | None = None
    per_class: int | None = None
    skip: int = 0
    labels_per_class: tuple[int, ...] | None = None
    validation: int | None = None
    draw: str = "per-class"

    def __post_init__(self) -> None:
        owner = f"the dataset '{self.name}'"
        if self.file is None:
            check_choice("name", self.name, tuple(DATASETS), owner)
            source = DATASETS[self.name]
            object.__setattr__(self, "title", self.title or source.title)
            source.check(self, owner)
        elif self.label is None:
            raise bad_value("label", owner, "the column of the labels where there is a 'file'", "none")
        for name in ("file", "label"):
            if not isinstance(getattr(self, name), str | None):
                raise bad_type(name, owner, "a text", repr(getattr(self, name)))
        object.__setattr__(self, "title", self.title or self.name)
        self._check_counts(owner)

    def _check_counts(self, owner: str) -> None:
        for name in ("rows", "per_class"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), owner)
        check_count("skip", self.skip, owner, low=0)
        if self.skip and self.per_class is None:
            raise bad_value("skip", owner, "0 where all images are taken", self.skip)

    @property
    def has_images(self) -> bool:
        """Whether its rows are images, whose official files can be downloaded."""
        return self.file is None and self.name in TITLES

    def as_json(self) -> dict[str, Any]:
        """Return what the report needs."""
        source = DATASETS.get(self.name) if self.file is None else None
        other = {"part", "features", "draw", *FILE_SETTINGS, "folder"} - set(
            source.settings if source else FILE_SETTINGS
        )
        entry = {name: value for name, value in asdict(self).items() if name not in other}
        return entry | {"classes": source.classes if source else ()}


@dataclass(frozen=True, kw_only=True)
class LoadedTable:
    """All rows of a dataset.

    Attributes
    ----------
    features, labels : Tensor, (n, d), (n,)
        Rows of float32, and classes 0, 1, ….
    classes : tuple of str
        What the classes are called; empty means that they have numbers alone.
    cnn : mapping
        What is known of the CNN whose features they are, if they are.
    incidences : Incidences or None
        The hyperedges, if it comes as a hypergraph.
    """

    features: Tensor
    labels: Tensor
    classes: tuple[str, ...] = ()
    cnn: Mapping[str, Any] = field(default_factory=dict)
    incidences: Incidences | None = None

    def subset(self, nodes: Tensor) -> LoadedTable:
        """Return these rows, in this order."""
        left = self.incidences and self.incidences.subset(nodes.numpy(), len(self.labels))
        return replace(self, features=self.features[nodes], labels=self.labels[nodes], incidences=left)


def _refuse_nothing(_: DatasetSpec, __: str) -> None:
    """Accept every setting."""


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """An entry of the registry.

    Attributes
    ----------
    title : str
        What tables call it.
    load : callable
        Takes a `DatasetSpec` and the data folder, and returns a `LoadedTable`.
    settings : tuple of str
        The settings of a `DatasetSpec` that are for this dataset, besides those that are for all.
    classes : tuple of str
        What the classes are called, where they are more than numbers.
    check : callable
        Refuses a `DatasetSpec` that it cannot load; it gets the words for the owner of the settings, too.
    """

    title: str
    load: Callable[[DatasetSpec, Path], LoadedTable]
    settings: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    check: Callable[[DatasetSpec, str], None] = _refuse_nothing


def _load_image_set(spec: DatasetSpec, data: Path) -> LoadedTable:
    if spec.features == "cnn":
        path = features_path(data, spec.name)
        whole, header = load_features(path, spec.name), read_header(path, spec.name)
        cnn = {"digest": header.cnn_digest, "test_accuracy": header.cnn_test_accuracy}
    else:
        whole, cnn = load_images(spec.name, data, spec.part).as_features(), {}
    found = whole.labels.unique().tolist()
    if found != list(range(N_CLASSES)):
        raise ValueError(
            f"{spec.title} must have images of all {N_CLASSES} classes. Got those of classes "
            f"{', '.join(map(str, found))}."
        )
    return LoadedTable(
        features=whole.features, labels=whole.labels, classes=CLASSES.get(spec.name, ()), cnn=cnn
    )


def _check_image_set(spec: DatasetSpec, owner: str) -> None:
    check_choice("part", spec.part, ("train", "test"), owner)
    check_choice("features", spec.features, FEATURES, owner)
    if spec.features == "cnn" and spec.name == "mnist":
        raise bad_value("features", owner, "'pixels': the CNN is for pictures in colour", "'cnn'")
    if spec.features == "cnn" and spec.part != "test":
        raise bad_value("part", owner, "'test' where the features are those of the CNN", repr(spec.part))


def _image_set(name: str) -> DatasetEntry:
    return DatasetEntry(
        title=TITLES[name],
        load=_load_image_set,
        settings=("part", "features"),
        classes=CLASSES.get(name, ()),
        check=_check_image_set,
    )


def _load_embedded_digits(_: DatasetSpec, __: Path) -> LoadedTable:
    digits: Dataset = load_embedded_digits()
    return LoadedTable(features=digits.features, labels=digits.labels)


def _bundled(title: str, function: str, classes: tuple[str, ...] = ()) -> DatasetEntry:
    """Return the entry of a dataset that scikit-learn carries, by the name of the function that loads it."""

    def load(_: DatasetSpec, __: Path) -> LoadedTable:
        from sklearn import datasets

        content = getattr(datasets, function)()
        return LoadedTable(
            features=torch.from_numpy(content.data.astype(np.float32)),
            labels=torch.from_numpy(content.target.astype(np.int64)),
            classes=classes,
        )

    return DatasetEntry(title=title, load=load, classes=classes)


def _draw_noise(_: DatasetSpec, __: Path) -> LoadedTable:
    """Draw 400 rows of ten columns, and one of three classes for each, which nothing tells."""
    generator = np.random.default_rng(0)
    return LoadedTable(
        features=torch.from_numpy(generator.normal(size=(400, 10)).astype(np.float32)),
        labels=torch.from_numpy(generator.integers(0, 3, 400)),
    )


def _hypergraph(title: str, file: str) -> DatasetEntry:
    """Return the entry of a dataset that comes as a hypergraph, by the name of its file."""

    def load(_: DatasetSpec, data: Path) -> LoadedTable:
        features, labels, incidences = read_hypergraph(data / FOLDER / file)
        return LoadedTable(
            features=torch.from_numpy(features), labels=torch.from_numpy(labels), incidences=incidences
        )

    def check(spec: DatasetSpec, owner: str) -> None:
        check_choice("draw", spec.draw, DRAWS, owner)
        if spec.draw == "published" and (spec.rows, spec.per_class) != (None, None):
            raise bad_value(
                "draw", owner, "'per-class' or 'anywhere' where some rows are drawn", "'published'"
            )

    return DatasetEntry(title=title, load=load, settings=("draw",), check=check)


DATASETS: Mapping[str, DatasetEntry] = {
    **{name: _image_set(name) for name in TITLES},
    "mnist-digits": DatasetEntry(title="MNIST digits", load=_load_embedded_digits),
    "digits": _bundled("scikit-learn's digits", "load_digits"),
    "wine": _bundled("Wine", "load_wine"),
    "breast-cancer": _bundled("Breast cancer", "load_breast_cancer", ("malignant", "benign")),
    "noise": DatasetEntry(title="Noise", load=_draw_noise),
    "cocitation-cora": _hypergraph("Cora, co-citation", "cocitation_cora.npz"),
    "cocitation-citeseer": _hypergraph("Citeseer, co-citation", "cocitation_citeseer.npz"),
    "coauthorship-cora": _hypergraph("Cora, co-authorship", "coauthorship_cora.npz"),
    "newsgroups": _hypergraph("20 newsgroups, 100 words", "20newsw100.npz"),
    "mushroom": _hypergraph("Mushroom", "mushroom.npz"),
}

# Settings of a `DatasetSpec` that any dataset may have in a spec, and those of a file.
COMMON_SETTINGS = ("title", "rows", "per_class", "skip", "labels_per_class", "validation")
FILE_SETTINGS = ("file", "label")


def allowed_settings(name: str, entry: Mapping[str, Any]) -> set[str]:
    """Return the settings that a dataset may have in a spec."""
    own: tuple[str, ...] = FILE_SETTINGS if "file" in entry else ()
    if not own and name in DATASETS:
        own = DATASETS[name].settings
    return {*COMMON_SETTINGS, *own}


def _load_file(spec: DatasetSpec, data: Path) -> LoadedTable:
    """Read a table, without its rows that have no label."""
    path = (spec.folder or data) / str(spec.file)  # an absolute file stays as it is
    label = spec.label if path.suffix.lower() != ".npy" else str(path.parent / str(spec.label))
    table = read_table(path, label=label)
    texts = table.labels or ()
    classes = _in_order({text for text in texts if text is not None})
    if len(classes) < 2:
        raise ValueError(
            f"The labels of the dataset '{spec.name}' must be of two classes or more. Got {len(classes)}."
        )
    known = [row for row, text in enumerate(texts) if text is not None]
    numbers = {name: number for number, name in enumerate(classes)}
    return LoadedTable(
        features=torch.from_numpy(table.features[known].astype(np.float32)),
        labels=torch.tensor([numbers[str(texts[row])] for row in known]),
        classes=classes,
    )


def _in_order(names: set[str]) -> tuple[str, ...]:
    """Sort the names of classes, by their value where all are whole numbers."""
    whole = all(name.lstrip("+-").isdecimal() for name in names)
    return tuple(sorted(names, key=int) if whole else sorted(names))


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A dataset that is ready: features, labels and neighbours, as arrays that processes can share.

    Two tasks of the same content are equal.

    Attributes
    ----------
    name, digest : str
        The dataset, and a name of its content.
    features, labels, neighbours, distances : array, (n, d), (n,), (n, k), (n, k)
        The rows, of float32; their classes, and the nearest rows of each, both of int64; and how far those
        are.
    classes : tuple of str
        What the classes are called; empty means that they have numbers alone.
    cnn : mapping
        What is known of the CNN whose features they are, if they are.
    incidences : Incidences or None
        The hyperedges, if the dataset comes as a hypergraph.
    """

    name: str
    digest: str
    features: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    neighbours: np.ndarray[Any, Any]
    distances: np.ndarray[Any, Any]
    classes: tuple[str, ...] = ()
    cnn: Mapping[str, Any] = field(default_factory=dict)
    incidences: Incidences | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and (self.name, self.digest) == (other.name, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def class_sizes(self) -> np.ndarray[Any, Any]:
        """The number of nodes of each class."""
        return np.bincount(self.labels.astype(np.int64))

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.class_sizes)


def load_task(spec: DatasetSpec, k: int, data: Path, device: str = "cpu") -> Task:
    """Read a dataset, draw its nodes and find their neighbours."""
    whole = _load_file(spec, data) if spec.file is not None else DATASETS[spec.name].load(spec, data)
    nodes = draw_nodes(whole.labels, spec)
    whole = whole if nodes is None else whole.subset(nodes)
    found = build_search(whole.features.to(device)).among(k).to("cpu")
    neighbours = found.indices
    content = hashlib.sha256()
    for tensor in (whole.features, whole.labels, neighbours):
        content.update(tensor.numpy().tobytes())
    if whole.incidences is not None:
        for array in (whole.incidences.node, whole.incidences.hyperedge):
            content.update(array.tobytes())
    return Task(
        name=spec.name,
        digest=content.hexdigest()[:16],
        features=whole.features.numpy(),
        labels=whole.labels.numpy(),
        neighbours=neighbours.numpy(),
        distances=found.distances.numpy(),
        classes=whole.classes,
        cnn=whole.cnn,
        incidences=whole.incidences,
    )


def draw_nodes(labels: Tensor, spec: DatasetSpec) -> Tensor | None:
    """Return the nodes of a dataset that a spec takes; None means all."""
    drawn = None
    if spec.rows is not None and spec.rows < len(labels):
        order = np.random.default_rng(0).permutation(len(labels))
        drawn = torch.from_numpy(np.sort(order[: spec.rows]))
    if spec.per_class is None:
        return drawn
    left = labels if drawn is None else labels[drawn]
    if spec.skip == 0:
        nodes = sample_per_class(left, spec.per_class, seed=0)
    else:
        nodes = split_per_class(left, train=spec.skip, validation=spec.per_class, seed=0).validation
    return nodes if drawn is None else drawn[nodes]
