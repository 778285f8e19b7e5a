"""Fitted classifiers in files: safetensors, whose JSON header holds parameters, classes and history."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dahgnn.calibration import softmax
from dahgnn.estimator import DAHGNNClassifier
from dahgnn.hypergraph import Hypergraph
from dahgnn.model import DAHGNN
from dahgnn.scaling import Scaling
from dahgnn.tensor_files import read_tensors, write_tensors

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
        Fitted; its classes are numbers, words, or True and False. The fitted rows are in the file.
    path : path
        By custom ``….safetensors``; missing folders are made.
    about : mapping, optional
        Further values that JSON can hold; `load_classifier` gives them back.
    """
    kind = classifier.classes_.dtype.kind
    if kind not in _KINDS:
        raise TypeError(
            f"Classes must be numbers, words or flags to be saved. Got {classifier.classes_.dtype}."
        )
    hypergraph, scaling = classifier.hypergraph_, classifier._scaling
    tensors = {f"network.{name}": weight for name, weight in classifier.network_.state_dict().items()}
    tensors |= {
        "features": classifier._features,
        "scaling.shift": scaling.shift,
        "scaling.factor": scaling.factor,
        "hypergraph.node": hypergraph.by_hyperedge.indices,
        "hypergraph.hyperedge": hypergraph.by_hyperedge.owners(),
        "embedding": torch.from_numpy(classifier.embedding_),
        "density": torch.from_numpy(classifier.density_),
        "train_indices": torch.from_numpy(classifier.train_indices_),
        "validation_indices": torch.from_numpy(classifier.validation_indices_),
    }
    optional = {
        "hypergraph.centres": hypergraph.centres,
        "hypergraph.weights": hypergraph.weights,
        "radius": classifier._radius,
    }
    tensors |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    header = {
        "parameters": _plain_parameters(classifier),
        "network": classifier.network_.settings,
        "classes": classifier.classes_.tolist(),
        "class_kind": kind,
        "n_hyperedges": hypergraph.n_hyperedges,
        "temperature": classifier.temperature_,
        "k": classifier.k_,
        "history": classifier.history_,
        "best_epoch": classifier.best_epoch_,
        "feature_names": getattr(classifier, "feature_names_in_", np.array([])).tolist(),
        "about": dict(about or {}),
    }
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
        about = header["about"]
        if not isinstance(about, dict):
            raise TypeError("'about' is no mapping")
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"The classifier file {path} is damaged ({reason}). {_REMEDY}") from error
    return Saved(classifier, about)


def _rebuild(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DAHGNNClassifier:
    classifier = DAHGNNClassifier(**header["parameters"])
    classifier.classes_ = np.array(header["classes"], dtype=_KINDS[header["class_kind"]])
    with torch.device("meta"):
        network = DAHGNN(**header["network"])
    prefix = "network."
    weights = {
        name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)
    }
    network.load_state_dict(weights, assign=True)
    features = tensors["features"]
    n, width = features.shape
    _check(network.in_features == width, "features of another width than the network's")
    _check(network.n_classes == len(classifier.classes_), "classes that are not the network's")
    _check(tensors["embedding"].shape == (n, network.n_classes), "an embedding of other rows")
    _check(tensors["density"].shape == (n,), "densities of other rows")
    radius = tensors.get("radius")
    _check(radius is None or radius.shape == (n,), "radii of other rows")
    _check(math.isfinite(header["temperature"]) and header["temperature"] > 0, "a temperature")
    hypergraph = Hypergraph.from_incidence(
        tensors["hypergraph.node"],
        tensors["hypergraph.hyperedge"],
        n_nodes=n,
        n_hyperedges=header["n_hyperedges"],
        centres=tensors.get("hypergraph.centres"),
        weights=tensors.get("hypergraph.weights"),
        cover_isolated=False,
    )
    classifier.n_features_in_ = width
    if header["feature_names"]:
        classifier.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    classifier.k_, classifier.temperature_ = int(header["k"]), float(header["temperature"])
    classifier.history_, classifier.best_epoch_ = list(header["history"]), int(header["best_epoch"])
    classifier.n_iter_ = max(0, len(classifier.history_) - 1)
    for name in ("train_indices", "validation_indices"):
        rows = tensors[name].numpy()
        _check(rows.ndim == 1 and bool(((rows >= 0) & (rows < n)).all()), f"{name} of other rows")
        setattr(classifier, f"{name}_", rows)
    classifier.embedding_ = tensors["embedding"].double().numpy()
    classifier.density_ = tensors["density"].double().numpy()
    classifier.label_distributions_ = softmax(classifier.embedding_ / classifier.temperature_)
    classifier.transduction_ = classifier.classes_[classifier.embedding_.argmax(1)]
    scaling = Scaling(tensors["scaling.shift"], tensors["scaling.factor"])
    _check(scaling.shift.shape == scaling.factor.shape == (width,), "a scale of other columns")
    classifier.keep(network, features, hypergraph, radius, scaling)
    return classifier


def _check(fits: bool, otherwise: str) -> None:
    if not fits:
        raise ValueError(f"it holds {otherwise}")
