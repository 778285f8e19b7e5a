"""What a user may choose for a fit of a table, the classifier that this makes, and which way it goes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.plan import Plan
from dahgnn.config import ResourceConfig
from dahgnn.distributed import join_world, processes_of_torchrun
from dahgnn.tables.planning import Choices
from dahgnn.tables.sources import Reading
from dahgnn.world import ALONE, World


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What a user may choose for a fit.

    Parameters
    ----------
    label, id : str or None
        The columns of labels and ids, see `read_table`. A folder of pictures has neither.
    choices : Choices
        What is to become of columns.
    k, seed : int
        The number of neighbours of a row, and the seed of everything that is random.
    validation : float
        Share of the labelled rows of each class that each network holds out; 0 is none.
    networks, scale, class_weight, device
        As in `DAHGNNClassifier`.
    map : {"auto", "tsne", "pca", "none"}
        How the page places the rows; "auto" is t-SNE for 100 rows or more, and "none" is no map.
    class_prior : mapping of str to float, or None
        How common each class is among all rows; of one class it may be left out.
    parquet : bool
        Whether predictions are written as Parquet, too.
    command : str or None
        How the user asked for the fit, which metrics.json keeps.
    reading : Reading
        How the file is to be read.
    hyperedges : Path or None
        A file of hyperedges of the rows, see `dahgnn.tables.hyperedges`; None joins nearest neighbours.
    resources : ResourceConfig
        What the fit may use, and which way it goes where there are very many rows.
    """

    label: str | None = None
    id: str | None = None
    choices: Choices = field(default_factory=Choices)
    k: int = 10
    seed: int = 0
    networks: int | str = "auto"
    validation: float = 0.2
    scale: str = "auto"
    class_weight: Mapping[str, float] | str | None = None
    class_prior: Mapping[str, float] | None = None
    device: str = "auto"
    map: str = "auto"
    parquet: bool = False
    command: str | None = None
    reading: Reading = field(default_factory=Reading)
    hyperedges: Path | None = None
    resources: ResourceConfig = field(default_factory=ResourceConfig)


def make_classifier(options: FitOptions) -> DAHGNNClassifier:
    """Return the classifier of a fit, not fitted yet."""
    weights = options.class_weight
    return DAHGNNClassifier(
        k=options.k,
        networks=options.networks,
        validation=options.validation,
        scale=options.scale,
        class_weight=weights if weights is None or isinstance(weights, str) else dict(weights),
        class_prior=options.class_prior,
        random_state=options.seed,
        device=options.device,
        resources=options.resources,
    )


def plan_fit(n: int, d: int, n_classes: int, labels: int, options: FitOptions, processes: int = 1) -> Plan:
    """Return which way a fit goes.

    Parameters
    ----------
    n, d, n_classes, labels : int
        Rows, features, classes, and rows that have a label.
    options : FitOptions
        What the user chose.
    processes : int
        How many processes fit together. None of them waits for another one here.
    """
    known = None if options.hyperedges is None else "hypergraph"
    return Parameters.of(make_classifier(options)).plan_for(n, d, n_classes, labels, processes, known)


def count_processes() -> int:
    """Return how many processes `join_world_of` joins, without joining them."""
    return processes_of_torchrun() if "RANK" in os.environ else 1


def join_world_of(options: FitOptions) -> AbstractContextManager[World]:
    """Join the processes that torchrun has started to fit together; outside of it there is one."""
    if "RANK" not in os.environ:
        return nullcontext(ALONE)
    return join_world(Parameters.of(make_classifier(options)).device)
