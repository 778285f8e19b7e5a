"""Whole fits, ours and peers: from rows and some labels to a class for every row, the graph included."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dahgnn.baselines.classical import laplace_learning
from dahgnn.baselines.graph_networks import GAT, GCN
from dahgnn.bench.contenders import K
from dahgnn.bench.peers import N_CLASSES, make_pyg, train_plainly
from dahgnn.classifier.stages import count_networks
from dahgnn.config import PRESETS
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import build_search
from dahgnn.images.datasets import load_mnist
from dahgnn.nn.hgnn import HGNN
from dahgnn.training.fit import average, fit_many
from dahgnn.training.plain_loop import seeded
from dahgnn.training.splits import Split, sample_per_class

Array = NDArray[Any]

# What the multiples in the table are of.
DEFAULT, REFERENCE = "default", "label-spreading"
# As many epochs as the networks of the classifier have at the most; none ends early.
EPOCHS = PRESETS["default"].training.max_epochs
_TRAINING = replace(PRESETS["default"].training, patience=EPOCHS)


@dataclass(frozen=True, eq=False)
class Task:
    """What every fit is given.

    Attributes
    ----------
    rows, labels : array, (n, d), array of int64, (n,)
        The rows and their classes, most of which no method is told.
    labelled : array of int64
        The rows whose classes are told.
    new_rows, new_labels : array, (m, d), array of int64, (m,)
        Rows that are predicted after the fit, and their classes.
    device : torch.device
        Where those that can use it compute.
    """

    rows: Array
    labels: Array
    labelled: Array
    new_rows: Array
    new_labels: Array
    device: torch.device

    @property
    def known(self) -> Array:
        """The classes of the labelled rows, and −1 elsewhere."""
        known = np.full_like(self.labels, -1)
        known[self.labelled] = self.labels[self.labelled]
        return known

    @property
    def split(self) -> Split:
        """The labelled rows as training nodes; nothing else is known."""
        nobody = np.empty(0, np.int64)
        return Split(train=self.labelled, validation=nobody, test=nobody)

    @property
    def networks(self) -> int:
        """How many networks the classifier has for so many rows."""
        return count_networks("auto", len(self.rows))

    def build_hypergraph(self) -> tuple[Tensor, Hypergraph]:
        """Return the rows on the device, and the hypergraph of their neighbours."""
        features = torch.from_numpy(self.rows).to(self.device)
        return features, Hypergraph.from_neighbors(build_search(features).among(K))


def random_task(nodes: int, columns: int, labels: int, device: torch.device) -> Task:
    """Draw rows around a point for each class, with so many labels a class, and as many new rows."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(N_CLASSES, columns, generator=generator)
    classes = torch.arange(nodes) % N_CLASSES
    # So wide that classes overlap where columns are few.
    rows, new_rows = (
        (centres[classes] + 2 * torch.randn(nodes, columns, generator=generator)).numpy() for _ in range(2)
    )
    labelled = sample_per_class(classes, labels, seed=0)
    return Task(rows, classes.numpy(), labelled.numpy(), new_rows, classes.numpy(), device)


def mnist_task(folder: Path, nodes: int, labels: int, device: torch.device) -> Task:
    """Draw as many training images of each digit, so many of them labelled; test images are the new rows."""
    images = load_mnist(folder)
    images = images.subset(sample_per_class(images.labels, nodes // N_CLASSES, seed=0))
    labelled = sample_per_class(images.labels, labels, seed=0)
    new = load_mnist(folder, "test")
    return Task(
        images.features.numpy(),
        images.labels.numpy(),
        labelled.numpy(),
        new.features[:nodes].numpy(),
        new.labels[:nodes].numpy(),
        device,
    )


class Fitted(NamedTuple):
    """What a fit gives.

    Attributes
    ----------
    predictions : array of int, (n,)
        The class of each row.
    predict : callable, optional
        Returns the classes of new rows, if the method can tell them.
    """

    predictions: Array
    predict: Callable[[Array], Array] | None = None


def _fit_default(task: Task) -> Fitted:
    from dahgnn.classifier.estimator import DAHGNNClassifier

    classifier = DAHGNNClassifier(random_state=0, device=str(task.device)).fit(task.rows, task.known)
    return Fitted(classifier.transduction_, classifier.predict)


def _fit_label_spreading(task: Task) -> Fitted:
    from sklearn.semi_supervised import LabelSpreading

    spreading = LabelSpreading(kernel="knn", n_neighbors=K).fit(task.rows, task.known)
    return Fitted(spreading.transduction_, spreading.predict)


def _fit_laplace(task: Task) -> Fitted:
    probabilities, _ = laplace_learning(task.rows, task.labels, task.split, k=K)
    return Fitted(probabilities.argmax(1).numpy())


def _fit_networks(kind: Callable[..., nn.Module], task: Task) -> Fitted:
    """Train as many networks as the classifier has by `fit_many`, and take their mean."""
    features, hypergraph = task.build_hypergraph()
    seeds = range(task.networks)
    models = [
        kind(features.shape[1], N_CLASSES, generator=torch.Generator().manual_seed(seed)) for seed in seeds
    ]
    splits = [task.split for _ in seeds]
    return Fitted(
        average(fit_many(models, features, hypergraph, task.labels, splits, _TRAINING)).predictions.numpy()
    )


def _fit_pyg(task: Task) -> Fitted:
    """Train as many networks of PyG as the classifier has by the plain loop, and take their mean.

    They have the paper's rate: at that of the classifier, ten times as high, they learn nothing.
    """
    features, hypergraph = task.build_hypergraph()
    nodes = torch.from_numpy(task.labelled).to(task.device)
    targets = torch.from_numpy(task.labels).to(task.device)[nodes]
    logits = torch.zeros(len(features), N_CLASSES, device=task.device)
    with seeded(0, torch.device("cpu")):  # where their weights are drawn
        hidden = PRESETS["default"].model.hidden
        made = [make_pyg(hypergraph, features.shape[1], hidden=hidden) for _ in range(task.networks)]
    for network in (each.to(task.device) for each in made):
        for _ in itertools.islice(train_plainly(network, features, nodes, targets), EPOCHS):
            pass
        with torch.no_grad():
            logits += network(features)
    return Fitted(logits.argmax(1).cpu().numpy())


@dataclass(frozen=True)
class FitMethod:
    """A row of the table of fits.

    Attributes
    ----------
    name : str
        What the table calls it.
    fit : callable
        Makes a `Fitted` of a `Task`.
    package : str, optional
        What must be installed.
    """

    name: str
    fit: Callable[[Task], Fitted]
    package: str | None = None


_PYG = "torch_geometric"
FITS: Mapping[str, FitMethod] = {
    DEFAULT: FitMethod("DAHGNNClassifier, ours", _fit_default),
    REFERENCE: FitMethod("LabelSpreading, scikit-learn", _fit_label_spreading),
    "laplace": FitMethod("Laplace learning, ours", _fit_laplace),
    "hgnn": FitMethod("HGNN, ours", partial(_fit_networks, HGNN)),
    "gcn": FitMethod("GCN, PyG's layers in our fit", partial(_fit_networks, GCN), _PYG),
    "gat": FitMethod("GAT, PyG's layers in our fit", partial(_fit_networks, GAT), _PYG),
    "pyg": FitMethod("HypergraphConv with attention, PyG", _fit_pyg, _PYG),
}
