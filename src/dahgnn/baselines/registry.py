"""The registry of methods: every kind that a spec may name, with how it is run.

A module of this folder registers what it holds, beside its definition: `register_network` takes a class,
`register_function` decorates a function, and `register_estimator` names a class of scikit-learn.
`find_kind` imports all modules of the folder first, so that a new method is one entry in one file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dahgnn.checks import check_choice, did_you_mean
from dahgnn.config import ModelConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import Neighbors
from dahgnn.training.splits import Split


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What a method without a network of its own is given for one run.

    Attributes
    ----------
    features : array of float32, (n, d)
        One row a node.
    labels : array of int64, (n,)
        Those of the test nodes are there to be counted, and no method may read them.
    split : Split
        The training nodes are the labelled ones. The validation nodes, if there are any, choose settings.
    k : int
        Neighbours of a node.
    neighbors : Neighbors, optional
        The nearest others of each node, by the metric that the spec names.
    hypergraph : Hypergraph, optional
        That the dataset comes as. A method of the features alone does without it.
    seed : int
        The source of all randomness.
    device : str
        "cpu" or a CUDA device.
    """

    features: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    split: Split
    k: int = 10
    neighbors: Neighbors | None = None
    hypergraph: Hypergraph | None = None
    seed: int = 0
    device: str = "cpu"

    def known_labels(self, *, validation: bool = False) -> np.ndarray[Any, Any]:
        """Return the labels of the training nodes, or of the validation nodes as well, and −1 elsewhere."""
        known = np.full(len(self.labels), -1, dtype=np.int64)
        parts = [self.split.train, self.split.validation] if validation else [self.split.train]
        for nodes in parts:
            known[nodes.numpy()] = self.labels[nodes.numpy()]
        return known


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What a method without a network of its own gives.

    Attributes
    ----------
    predictions : Tensor of int64, (n,)
        The class of each node.
    chosen : mapping
        The settings that the validation nodes chose.
    stated : tuple of float, or None
        How accurate the method expects to be on rows without a label, and the lower and upper end of the
        interval of 95 % confidence, if it says so.
    """

    predictions: Tensor
    chosen: Mapping[str, Any] = field(default_factory=dict)
    stated: tuple[float, float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """A network that `fit` trains on the hypergraph.

    Attributes
    ----------
    network : type
        Its class, made of in_features, n_classes, its settings and a generator.
    takes_config : bool
        Whether the settings are a `ModelConfig`, which presets have, and not keywords of the class.
    """

    network: type[Any]
    takes_config: bool = False

    @property
    def settings(self) -> set[str]:
        """The names of the settings."""
        if self.takes_config:
            return {each.name for each in fields(ModelConfig)}
        return set(signature(self.network).parameters) - {"in_features", "n_classes", "generator"}

    def make(
        self,
        in_features: int,
        n_classes: int,
        settings: Mapping[str, Any],
        generator: torch.Generator | None = None,
    ) -> nn.Module:
        """Return a network whose weights are drawn from the generator."""
        model: nn.Module
        if self.takes_config:
            config = ModelConfig.from_mapping(settings)
            model = self.network(in_features, n_classes, config, generator=generator)
        else:
            model = self.network(in_features, n_classes, **settings, generator=generator)
        return model

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings, also those that nobody named; a wrong value is an error."""
        with torch.device("meta"):  # which takes no memory, however large the network is
            whole: Any = self.make(2, 2, settings).settings
        return {name: whole[name] for name in whole if name not in ("in_features", "n_classes")}


@dataclass(frozen=True, kw_only=True)
class DirectKind:
    """A method that goes from a problem to its answer by itself.

    Attributes
    ----------
    solve : callable
        Takes a `Problem` and the parameters of the spec, and returns an `Answer`.
    list_parameters : callable
        Returns the names of the parameters that a spec may give.
    complete : callable
        Takes the parameters of a spec and returns all, also those that nobody named, for the run line.
    uses_neighbors : bool
        Whether it works on the neighbours of the problem.
    scales_itself : bool
        Whether the features come as they are, because the method scales them.
    uses_device : bool
        Whether it computes on the problem's device; others compute on the CPU.
    """

    solve: Callable[[Problem, Mapping[str, Any]], Answer]
    list_parameters: Callable[[], set[str]]
    complete: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    uses_neighbors: bool = False
    scales_itself: bool = False
    uses_device: bool = False


Kind = NetworkKind | DirectKind

# Parameters of estimators that change nothing but the run, and therefore are no part of its settings.
_OF_THE_RUN = ("random_state", "n_jobs", "verbose", "device", "warm_start")

# Keywords of a function that it gets from the problem and not from the spec.
_OF_A_PROBLEM = {"k", "neighbors", "hypergraph", "seed"}

# Filled by the modules of this folder. Ask `all_kinds` or `find_kind`, which import these modules first.
_KINDS: dict[str, Kind] = {}


def register(name: str, kind: Kind) -> None:
    """Add a kind of method under the name by which specs call it."""
    if name in _KINDS:
        raise ValueError(f"The kind of method '{name}' is registered twice.")
    _KINDS[name] = kind


def register_network(network: type[nn.Module], *, takes_config: bool = False) -> None:
    """Add a network under the name of its class."""
    register(network.__name__, NetworkKind(network=network, takes_config=takes_config))


Classify = Callable[..., tuple[Tensor, dict[str, Any]]]


def register_function(name: str) -> Callable[[Classify], Classify]:
    """Add a function of features, labels and split, which returns probabilities and what was chosen.

    Where it has keywords "k", "neighbors", "hypergraph" and "seed", it gets those of the run; its other
    keywords are its parameters.
    """

    def decorate(function: Classify) -> Classify:
        keywords = {
            each.name
            for each in signature(function).parameters.values()
            if each.kind is Parameter.KEYWORD_ONLY
        }

        def solve(problem: Problem, parameters: Mapping[str, Any]) -> Answer:
            of_the_run = {key: getattr(problem, key) for key in keywords & _OF_A_PROBLEM}
            probabilities, chosen = function(
                problem.features, problem.labels, problem.split, **of_the_run, **parameters
            )
            return Answer(predictions=probabilities.argmax(1), chosen=chosen)

        register(
            name,
            DirectKind(
                solve=solve,
                list_parameters=lambda: keywords - _OF_A_PROBLEM,
                uses_neighbors="neighbors" in keywords,
            ),
        )
        return function

    return decorate


def register_estimator(
    name: str, path: str, *, takes_unlabelled: bool = False, defaults: Mapping[str, Any] | None = None
) -> None:
    """Add a classifier of scikit-learn, which is imported when it is used.

    Parameters
    ----------
    name : str
        The name by which specs call it.
    path : str
        Module and class, such as "sklearn.svm.SVC".
    takes_unlabelled : bool
        Whether it is fitted to all rows, with −1 for those without a label; else to the labelled ones.
    defaults : mapping
        Parameters where scikit-learn's own defaults are not meant. A function there is called when the
        estimator is made.
    """

    def make(parameters: Mapping[str, Any]) -> Any:
        module, _, title = path.rpartition(".")
        values = {key: value() if callable(value) else value for key, value in (defaults or {}).items()}
        return getattr(import_module(module), title)(**(values | dict(parameters)))

    def solve(problem: Problem, parameters: Mapping[str, Any]) -> Answer:
        estimator = make(parameters)
        if "random_state" in estimator.get_params() and "random_state" not in parameters:
            estimator.set_params(random_state=problem.seed)
        known = problem.known_labels()
        rows = np.arange(len(known)) if takes_unlabelled else np.flatnonzero(known >= 0)
        if hasattr(estimator, "n_neighbors"):
            estimator.set_params(n_neighbors=min(estimator.n_neighbors, len(rows)))
        estimator.fit(problem.features[rows], known[rows])
        return Answer(predictions=torch.from_numpy(estimator.predict(problem.features)).long())

    register(
        name,
        DirectKind(
            solve=solve,
            list_parameters=lambda: set(make({}).get_params(deep=False)),
            complete=lambda parameters: plain_parameters(make(parameters)),
        ),
    )


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that a run line can hold and that belong to its settings."""
    return {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in _OF_THE_RUN and (value is None or isinstance(value, bool | int | float | str))
    }


@cache
def _import_modules() -> None:
    """Import all modules of this folder, which register what they hold."""
    package = import_module("dahgnn.baselines")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")


def all_kinds() -> dict[str, Kind]:
    """Return all kinds of methods by name."""
    _import_modules()
    return dict(sorted(_KINDS.items()))


def find_kind(name: str, owner: str = "find_kind") -> Kind:
    """Return a kind of method, or refuse a name that there is not and suggest the nearest one."""
    kinds = all_kinds()
    check_choice("kind", name, tuple(kinds), owner)
    return kinds[name]


def check_parameters(kind: DirectKind, parameters: Mapping[str, Any], owner: str) -> None:
    """Refuse a parameter that a method has not, and suggest the nearest one."""
    known = kind.list_parameters()
    for name in parameters:
        if name not in known:
            hint = did_you_mean(str(name), known) or f"It has: {', '.join(sorted(known)) or 'none'}."
            raise ValueError(f"{owner} has no parameter '{name}'. {hint}")
