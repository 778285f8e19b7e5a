"""What a fit is asked for, and what it makes of that: checked, and on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import cast

import torch
from torch import Tensor, nn

from dahgnn.checks import as_features, as_labels, as_tensor, bad_type, bad_value, check_seed
from dahgnn.config import TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.training.run import Classifier, Epoch, Labelled, Parts, Run
from dahgnn.training.splits import Split, check_split


@dataclass(frozen=True, eq=False)
class FitRequest:
    """Everything that a fit can be told, for `fit_request`; `fit` and `fit_many` make one of their arguments.

    Attributes
    ----------
    models : sequence of modules
        The networks: `DAHGNN`, `HGNN` or another module that is called as ``model(features, hypergraph)`` and
        has ``in_features`` and ``n_classes``. They are of one class and have the same settings. Each is
        trained in place.
    features : array, (n, in_features)
        Each row is a node's.
    hypergraph : Hypergraph
        The hypergraph of the same n nodes.
    labels : array of int, (n,)
        Classes 0 … n_classes − 1, read at the training and validation nodes alone; −1 is unknown.
    splits : sequence of Split
        Which nodes train each model and which choose its epoch. Without the latter, the training loss
        chooses it.
    config : TrainingConfig, optional
        The schedule; the paper's by default.
    weights : array, (n,), optional
        How much each labelled node counts in the losses, zero or more; all the same by default. With
        weights a network is trained epoch by epoch.
    seeds : sequence of int, optional
        The seeds of each model's dropout; 0, 1, 2 and so on by default.
    device : torch.device or str, optional
        Where to train; by default, where the hypergraph is. The models stay there.
    callback : callable, optional
        Called with the number of the model and an `Epoch` for each evaluation; on a CUDA device some epochs
        later.
    capture : bool
        Whether to replay a captured graph on a CUDA device, which gives the same result faster. A module of
        your own is trained epoch by epoch, unless its class says ``capturable = True``: a pass then has to
        be free of anything that waits for the device or depends on values there.
    owner : str
        Which function or class errors name.
    """

    models: Sequence[nn.Module]
    features: object
    hypergraph: Hypergraph
    labels: object
    splits: Sequence[Split]
    config: TrainingConfig | None = None
    _: KW_ONLY
    weights: object = None
    seeds: Sequence[int] | None = None
    device: torch.device | str | None = None
    callback: Callable[[int, Epoch], None] | None = None
    capture: bool = True
    owner: str = "FitRequest"

    def __post_init__(self) -> None:
        for name, values in (("splits", self.splits), ("seeds", self.seeds_of_runs)):
            if len(values) != len(self.models):
                expected = f"one for each of {len(self.models)} models"
                raise bad_value(name, self.owner, expected, f"{len(values)}")
        _check_alike(self.models, self.owner)
        for name, value, kind in self._kinds():
            if not isinstance(value, kind):
                raise bad_type(name, self.owner, f"a {kind.__name__}", type(value).__name__)
        for seed in self.seeds_of_runs:
            check_seed(seed, self.owner)

    @property
    def schedule(self) -> TrainingConfig:
        """The config, or the paper's if there is none."""
        return TrainingConfig() if self.config is None else self.config

    @property
    def seeds_of_runs(self) -> Sequence[int]:
        """The seeds, or the numbers of the models if there are none."""
        return range(len(self.models)) if self.seeds is None else self.seeds

    def _kinds(self) -> Iterator[tuple[str, object, type]]:
        """Yield the values whose class matters, with their names."""
        for model in self.models:
            yield "model", model, nn.Module
        yield "hypergraph", self.hypergraph, Hypergraph
        for split in self.splits:
            yield "split", split, Split
        yield "config", self.schedule, TrainingConfig


def _check_alike(models: Sequence[nn.Module], owner: str) -> None:
    """Refuse models that cannot be trained side by side."""
    if not models:
        raise bad_value("models", owner, "non-empty", "no model")
    if len({id(model) for model in models}) < len(models):
        raise bad_value("models", owner, "different objects", "the same one twice")
    for model in models[1:]:
        if type(model) is not type(models[0]):
            got = f"{type(models[0]).__name__} and {type(model).__name__}"
            raise bad_value("models", owner, "of one class", got)
        first, other = (getattr(each, "settings", None) for each in (models[0], model))
        if first != other:
            raise bad_value("models", owner, "of the same settings", f"{first} and {other}")


@dataclass(frozen=True, eq=False)
class FitInputs:
    """What all runs of a fit share, checked.

    Attributes
    ----------
    features, hypergraph
        They are on the device where the training runs.
    labels : Tensor of int64, (n,)
        The labels are on the CPU.
    weights : Tensor, (n,), or None
        How much each labelled node counts; None if all count the same.
    owner : str
        Which function or class errors name.
    """

    features: Tensor
    hypergraph: Hypergraph
    labels: Tensor
    weights: Tensor | None
    owner: str

    @classmethod
    def make(cls, request: FitRequest) -> FitInputs:
        """Check what was given and bring it to the device."""
        owner, hypergraph, model = request.owner, request.hypergraph, request.models[0]
        for name in ("in_features", "n_classes"):
            if not isinstance(getattr(model, name, None), int):
                got = f"{type(model).__name__} without '{name}'"
                raise bad_type("model", owner, "a module with 'in_features' and 'n_classes'", got)
        shape = hypergraph.n_nodes, cast(Classifier, model).in_features
        rows = as_features(request.features, owner)
        if rows.shape != shape:
            expected = f"of shape (n_nodes, in_features) = {shape}"
            raise bad_value("features", owner, expected, f"shape {tuple(rows.shape)}")
        weights = request.weights
        device = request.device
        device = hypergraph.device if device is None else torch.empty(0, device=device).device
        return cls(
            features=rows.to(device, next(model.parameters()).dtype),
            hypergraph=hypergraph.to(device),
            labels=as_labels(request.labels, owner, n_nodes=len(rows)).cpu(),
            weights=None if weights is None else _as_weights(weights, len(rows), owner),
            owner=owner,
        )

    def make_runs(self, request: FitRequest) -> list[Run]:
        """Bring the networks to the device, each with its labelled nodes and its seed."""
        given = zip(request.models, request.splits, request.seeds_of_runs, strict=True)
        runs = []
        for number, (model, split, seed) in enumerate(given):
            parts = self._parts(split, cast(Classifier, model).n_classes)
            runs.append(Run(number, model.to(self.features.device), parts, seed, request.callback))
        return runs

    def _parts(self, split: Split, n_classes: int) -> Parts:
        """Return the labelled nodes of a split, on the device."""
        check_split(split, self.labels, n_classes, self.owner, needs_validation=False)
        chooses = split.validation if len(split.validation) else split.train
        return Parts(*(self._labelled(nodes) for nodes in (split.train, chooses)))

    def _labelled(self, nodes: Tensor) -> Labelled:
        device = self.features.device
        weights = None if self.weights is None else self.weights[nodes].to(self.features)
        if weights is not None and not bool(weights.sum() > 0):
            expected = "positive at some of the nodes that train or validate"
            raise bad_value("weights", self.owner, expected, "none")
        return Labelled(nodes.to(device), self.labels[nodes].to(device), weights)


def _as_weights(weights: object, n_nodes: int, owner: str) -> Tensor:
    """Return weights of nodes as (n,), or say what is wrong."""
    values = as_tensor(weights, "weights", owner)
    if values.shape != (n_nodes,):
        raise bad_value("weights", owner, f"of shape ({n_nodes},)", f"shape {tuple(values.shape)}")
    if not bool((values.isfinite() & (values >= 0)).all()):
        raise bad_value("weights", owner, "finite and at least 0", "others")
    return values
