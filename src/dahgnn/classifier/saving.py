"""Fitted classifiers in files: safetensors, whose JSON header holds parameters, classes and history."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dahgnn.checks import as_indices
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.files.tensors import read_tensors, write_tensors
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.scaling import Scaling
from dahgnn.nn.model import DAHGNN
from dahgnn.training.fit import REASONS

FORMAT = "dahgnn-classifier"
_REMEDY = "Write it anew with save_classifier."
_KINDS = {"i": int, "u": int, "f": float, "b": bool, "U": str}


@dataclass(frozen=True)
class Saved:
    """What a file holds: the classifier, and what else was put beside it."""

    classifier: DAHGNNClassifier
    about: dict[str, Any]


def save_classifier(
    classifier: DAHGNNClassifier, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted classifier to a file, whole or not at all.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Fitted; its classes are numbers, words, or True and False. The fitted rows are in the file. Of its
        parameters a ``class_weight`` by class and a ``random_state`` that is no number are not.
    path : path
        By custom ``….safetensors``; missing folders are made.
    about : mapping, optional
        Further values that JSON can hold; `load_classifier` gives them back.
    """
    check_is_fitted(classifier, "networks_")
    kind = classifier.classes_.dtype.kind
    if kind not in _KINDS:
        raise TypeError(
            f"Classes must be numbers, words or flags to be saved. Got {classifier.classes_.dtype}."
        )
    hypergraph, scaling = classifier.hypergraph_, classifier._scaling
    tensors = {
        f"network.{number}.{name}": weight
        for number, network in enumerate(classifier.networks_)
        for name, weight in network.state_dict().items()
    }
    tensors |= {
        "features": classifier._features,
        "scaling.shift": scaling.shift,
        "scaling.factor": scaling.factor,
        "hypergraph.node": hypergraph.by_hyperedge.indices,
        "hypergraph.hyperedge": hypergraph.by_hyperedge.owners(),
        "embedding": torch.from_numpy(classifier.embedding_),
        "density": torch.from_numpy(classifier.density_),
        "labelled_indices": torch.from_numpy(classifier.labelled_indices_),
        "held_out_indices": torch.from_numpy(classifier.held_out_indices_),
        "held_out_distributions": torch.from_numpy(classifier.held_out_distributions_),
    }
    optional = {
        "hypergraph.centres": hypergraph.centres,
        "hypergraph.weights": hypergraph.weights,
        "radius": classifier._radius,
    }
    tensors |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    header = {
        "parameters": _plain_parameters(classifier),
        "network": classifier.networks_[0].settings,
        "networks": len(classifier.networks_),
        "classes": classifier.classes_.tolist(),
        "class_kind": kind,
        "n_hyperedges": hypergraph.n_hyperedges,
        "temperature": classifier.temperature_,
        "k": classifier.k_,
        "history": classifier.history_,
        "best_epochs": classifier.best_epochs_,
        "epochs": classifier.n_iter_,
        "stopped": classifier.stopped_,
        "feature_names": getattr(classifier, "feature_names_in_", np.array([])).tolist(),
    }
    # A header may have 100 MB, and names of millions of rows are more.
    text = json.dumps(dict(about or {}), ensure_ascii=False).encode()
    tensors["about"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    write_tensors(path, FORMAT, header, tensors)


def _plain_parameters(classifier: DAHGNNClassifier) -> dict[str, Any]:
    """Return the parameters that JSON can hold; others become None."""
    parameters: dict[str, Any] = classifier.get_params(deep=False)
    if np.ndim(parameters["validation"]) > 0:
        parameters["validation"] = np.asarray(parameters["validation"]).tolist()
    if not isinstance(parameters["random_state"], int | np.integer):
        parameters["random_state"] = None
    if isinstance(parameters["class_weight"], Mapping):
        parameters["class_weight"] = None
    return parameters


def load_classifier(path: str | os.PathLike[str]) -> Saved:
    """Read a classifier that `save_classifier` wrote. Nothing in the file is executed.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, damaged, of another kind, or of a newer format.
    """
    header, tensors = read_tensors(path, FORMAT, _REMEDY)
    try:
        classifier = _rebuild(header, tensors)
        about = json.loads(tensors["about"].numpy().tobytes())
        _check(isinstance(about, dict), "something else than a mapping beside it")
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, ArithmeticError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"The classifier file {path} is damaged ({reason}). {_REMEDY}") from error
    return Saved(classifier, about)


def _rebuild(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DAHGNNClassifier:
    classifier = DAHGNNClassifier(**header["parameters"])
    classifier.check_parameters()
    classifier.classes_ = np.array(header["classes"], dtype=_KINDS[header["class_kind"]])
    there = {name.split(".")[1] for name in tensors if name.startswith("network.")}
    numbers = range(len(there))
    _check(
        header["networks"] == len(there) > 0 and there == set(map(str, numbers)),
        "another number of networks than it says",
    )
    networks = [_network(header["network"], tensors, number) for number in numbers]
    _check_shapes(networks[0], len(classifier.classes_), tensors)
    n, width = len(tensors["features"]), len(tensors["scaling.shift"])
    count = header["n_hyperedges"]
    _check(0 < count <= len(tensors["hypergraph.node"]), "hyperedges without nodes")
    hypergraph = Hypergraph.from_incidence(
        tensors["hypergraph.node"],
        tensors["hypergraph.hyperedge"],
        n_nodes=n,
        n_hyperedges=count,
        centres=tensors.get("hypergraph.centres"),
        weights=tensors.get("hypergraph.weights"),
        cover_isolated=False,
    )
    classifier.n_features_in_ = width
    names = header["feature_names"]
    if names:
        _check(len(names) == width and all(isinstance(name, str) for name in names), "other columns")
        classifier.feature_names_in_ = np.array(names, dtype=object)
    classifier.k_, classifier.temperature_ = int(header["k"]), float(header["temperature"])
    _check(1 <= classifier.k_ <= n, "a number of neighbours that there are not")
    _check(math.isfinite(classifier.temperature_) and classifier.temperature_ > 0, "a wrong temperature")
    classifier.history_, classifier.stopped_ = list(header["history"]), str(header["stopped"])
    classifier.best_epochs_, classifier.n_iter_ = list(map(int, header["best_epochs"])), int(header["epochs"])
    _check(len(classifier.best_epochs_) == len(networks), "epochs of other networks")
    for name in ("labelled_indices", "held_out_indices"):
        setattr(classifier, f"{name}_", as_indices(tensors[name], name, "it", below=n).numpy())
    classifier.held_out_distributions_ = tensors["held_out_distributions"].double().numpy()
    _check_training(classifier)
    classifier.embedding_ = tensors["embedding"].double().numpy()
    classifier.density_ = tensors["density"].double().numpy()
    classifier.label_distributions_ = softmax(classifier.embedding_ / classifier.temperature_, axis=1)
    classifier.transduction_ = classifier.classes_[classifier.embedding_.argmax(1)]
    scaling = Scaling(tensors["scaling.shift"], tensors["scaling.factor"])
    classifier.keep(networks, tensors["features"], hypergraph, tensors.get("radius"), scaling)
    return classifier


def _check_training(classifier: DAHGNNClassifier) -> None:
    """Refuse what is said of the training if it cannot be."""
    _check(all(isinstance(entry, dict) for entry in classifier.history_), "a history of something else")
    _check(classifier.stopped_ in REASONS, "an unknown reason to stop")
    known = np.isin(classifier.held_out_indices_, classifier.labelled_indices_)
    _check(bool(known.all()), "held-out rows without a label")
    shares = classifier.held_out_distributions_
    _check(bool((shares >= 0).all() and np.allclose(shares.sum(1), 1)), "shares that are none")


def _network(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], number: int) -> DAHGNN:
    with torch.device("meta"):
        network = DAHGNN.from_settings(settings)
    prefix = f"network.{number}."
    weights = {
        name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)
    }
    network.load_state_dict(weights, assign=True)
    return network


def _check_shapes(network: DAHGNN, n_classes: int, tensors: Mapping[str, Tensor]) -> None:
    """Refuse numbers of other shapes or types, or that are none."""
    n, width = tensors["features"].shape
    _check(n > 0 and network.in_features == width, "features of another width than the network's")
    _check(network.n_classes == n_classes, "classes that are not the network's")
    shapes = {
        "embedding": (n, n_classes),
        "density": (n,),
        "held_out_distributions": (len(tensors["held_out_indices"]), n_classes),
        "radius": (n,),
        "scaling.shift": (width - 1,),  # features have a column of ones behind them
        "scaling.factor": (width - 1,),
    }
    for name, tensor in tensors.items():
        _check(tensor.shape == shapes.get(name, tensor.shape), f"'{name}' of another shape")
        if tensor.is_floating_point():
            _check(bool(tensor.isfinite().all()), f"'{name}' with NaN or infinities")
            single = name == "features" or name.startswith("network.")
            _check(tensor.dtype == torch.float32 or not single, f"'{name}' of another precision")


def _check(fits: bool, otherwise: str) -> None:
    if not fits:
        raise ValueError(f"it holds {otherwise}")
