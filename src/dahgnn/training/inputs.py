"""What a fit is asked for, and what it makes of that: checked, and on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from dahgnn.checks import as_features, as_labels, as_tensor, bad_type, bad_value, check_seed
from dahgnn.config import TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.training.run import Classifier, Epoch, Labelled, Parts, Run
from dahgnn.training.splits import Split, check_split


@dataclass(frozen=True, kw_only=True, eq=False)
class FitRequest:
    """What `fit` and `fit_many` are asked for; the arguments are described there.

    Attributes
    ----------
    owner : {"fit", "fit_many"}
        Which of the two was called, for errors.
    """

    owner: str
    models: list[nn.Module]
    features: object
    hypergraph: Hypergraph
    labels: object
    splits: list[Split]
    seeds: list[int]
    config: TrainingConfig | None = None
    weights: object = None
    device: torch.device | str | None = None
    callback: Callable[[int, Epoch], None] | None = None
    capture: bool = True

    @property
    def schedule(self) -> TrainingConfig:
        """The config, or the paper's if there is none."""
        return TrainingConfig() if self.config is None else self.config

    def check(self) -> None:
        """Refuse values of the wrong kind or number, and models that cannot be trained together."""
        for name, values in (("splits", self.splits), ("seeds", self.seeds)):
            if len(values) != len(self.models):
                expected = f"one for each of {len(self.models)} models"
                raise bad_value(name, self.owner, expected, f"{len(values)}")
        if self.owner == "fit_many":
            _check_alike(self.models)
        for name, value, kind in self._kinds():
            if not isinstance(value, kind):
                raise bad_type(name, self.owner, f"a {kind.__name__}", type(value).__name__)
        for seed in self.seeds:
            check_seed(seed, self.owner)

    def _kinds(self) -> Iterator[tuple[str, object, type]]:
        """Yield the arguments whose class matters, with their names."""
        for model in self.models:
            yield "model", model, nn.Module
        yield "hypergraph", self.hypergraph, Hypergraph
        for split in self.splits:
            yield "split", split, Split
        yield "config", self.schedule, TrainingConfig


def _check_alike(models: list[nn.Module]) -> None:
    """Refuse models that cannot be trained side by side."""
    if not models:
        raise bad_value("models", "fit_many", "non-empty", "no model")
    if len({id(model) for model in models}) < len(models):
        raise bad_value("models", "fit_many", "different objects", "the same one twice")
    for model in models[1:]:
        if type(model) is not type(models[0]):
            got = f"{type(models[0]).__name__} and {type(model).__name__}"
            raise bad_value("models", "fit_many", "of one class", got)
        first, other = (getattr(each, "settings", None) for each in (models[0], model))
        if first != other:
            raise bad_value("models", "fit_many", "of the same settings", f"{first} and {other}")


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
        Which function was called, for errors.
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
        given = zip(request.models, request.splits, request.seeds, strict=True)
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
