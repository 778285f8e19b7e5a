"""Fitted classifiers in files: safetensors, whose JSON header holds parameters, classes and history."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dahgnn.checks import as_indices
from dahgnn.classifier.ensemble import Combined, Ensemble, Evaluation
from dahgnn.classifier.estimator import STOPPED, DAHGNNClassifier
from dahgnn.classifier.judgement import Estimate
from dahgnn.classifier.opinions import FEATURE_EXPERTS
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.stacking import AROUND, POISSON_EXPERTS, SELF_TRAINED, Candidate, Stack
from dahgnn.classifier.trees import TreesModel
from dahgnn.config import ModelConfig, TrainingConfig
from dahgnn.files.tensors import read_tensors, write_tensors
from dahgnn.graph.categories import Categories
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.recall import SearchReport
from dahgnn.graph.scaling import Scaling
from dahgnn.nn.model import DAHGNN

Array = NDArray[Any]

FORMAT = "dahgnn-classifier"
# Counts the changes of what a file holds. The last two are for what earlier versions do not know, words and
# surroundings, and categories: they read files without these, and refuse the others.
_LAYOUT, _LAYOUT_OF_GIVEN, _LAYOUT_OF_CATEGORIES = 3, 4, 5
_REMEDY = "Write it anew with save_classifier."
# What the classifier keeps of its labels, as arrays.
_OF_LABELS = ("labelled_indices", "held_out_indices", "held_out_distributions")
# Tensors that a caller keeps beside the classifier begin so.
_BESIDE = "beside."
# Those of the categories of a scaling.
_CATEGORIES = "scaling.categories."
# Who makes the models of features from their arrays; the self-trained one is a kernel model, too.
_READERS = {**FEATURE_EXPERTS, SELF_TRAINED: FEATURE_EXPERTS["kernel"]}
_KINDS = {"i": int, "u": np.uint64, "f": float, "b": bool, "U": str}
# Types whose values are written as words, and made of words by themselves.
_BY_WORD: dict[str, type[Fraction | Decimal | int]] = {
    "Fraction": Fraction,
    "Decimal": Decimal,
    "int": int,  # beyond 64 bits
}


class Saved(NamedTuple):
    """What `load_saved` reads: a classifier, and the notes and tensors that were saved beside it."""

    classifier: DAHGNNClassifier
    notes: dict[str, Any]
    tensors: dict[str, Tensor]


def save_classifier(
    classifier: DAHGNNClassifier,
    path: str | os.PathLike[str],
    notes: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Tensor | Array] | None = None,
) -> None:
    """Write a fitted classifier to a file, whole or not at all.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Fitted; its classes are numbers, words, True and False, fractions or decimals. The fitted rows are in
        the file. Of its parameters a ``class_weight`` or ``class_prior`` and a ``random_state`` that is no
        number are not, nor its ``resources``.
    path : path
        By custom ``….safetensors``; missing folders are made.
    notes : mapping, optional
        Further values that JSON can hold; `load_with_notes` and `load_saved` give them back.
    tensors : mapping of str to Tensor or array, optional
        Further numbers; `load_saved` gives them back as tensors.
    """
    check_is_fitted(classifier, "ensemble_")
    class_kind, classes = _write_classes(classifier.classes_)
    ensemble = classifier.ensemble_
    kept = _ensemble_tensors(ensemble) | {
        name: torch.from_numpy(getattr(classifier, f"{name}_")) for name in _OF_LABELS
    }
    stack = ensemble.combined.stack
    header = {
        "layout": _layout(ensemble),
        "parameters": _plain_parameters(classifier),
        "network": ensemble.networks[0].settings,
        "networks": len(ensemble.networks),
        "classes": classes,
        "class_kind": class_kind,
        "n_hyperedges": ensemble.hypergraph.n_hyperedges,
        "k": ensemble.k,
        "stack": {
            "candidates": [_write_candidate(candidate) for candidate in stack.candidates],
            "weights": stack.weights,
        },
        "experts": sorted(ensemble.combined.models),
        "history": classifier.history_,
        "best_epoch": classifier.best_epoch_,
        "epochs": classifier.n_iter_,
        "stopped": classifier.stopped_,
        "decision": classifier.decision_,
        "search": None if classifier.search_ is None else asdict(classifier.search_),
        "estimate": None if classifier.estimate_ is None else asdict(classifier.estimate_),
        "feature_names": getattr(classifier, "feature_names_in_", np.array([])).tolist(),
    }
    # A header may have 100 MB, and names of millions of rows are more.
    # Half of a surrogate pair, as in names of files that are no text, is escaped.
    text = json.dumps(dict(notes or {}), ensure_ascii=False).encode("utf-8", "backslashreplace")
    kept["notes"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    kept |= {f"{_BESIDE}{name}": torch.as_tensor(values) for name, values in (tensors or {}).items()}
    write_tensors(path, FORMAT, header, kept)


def _layout(ensemble: Ensemble) -> int:
    if ensemble.scaling.categories is not None:
        return _LAYOUT_OF_CATEGORIES
    beyond = ensemble.scaling.words is not None or AROUND in ensemble.combined.potentials
    return _LAYOUT_OF_GIVEN if beyond else _LAYOUT


def _write_classes(classes: Array) -> tuple[str, list[Any]]:
    """Return of what kind classes are, and the classes as JSON can hold them."""
    kind = classes.dtype.kind
    if kind in _KINDS:
        return kind, classes.tolist()
    types = {type(label) for label in classes.tolist()}
    if types <= set(_BY_WORD.values()) and len(types) == 1:
        name = types.pop().__name__
        return name, [str(label) for label in classes.tolist()]
    names = ", ".join(sorted(each.__name__ for each in types))
    raise TypeError(
        f"Classes must be numbers, words, flags, fractions or decimals to be saved. Got {names}. "
        "Fit with words for them, such as str(label) or the names of an Enum's members."
    )


def _read_classes(kind: str, classes: list[Any]) -> Array:
    if kind not in _BY_WORD:
        return np.array(classes, dtype=_KINDS[kind])
    read = np.empty(len(classes), dtype=object)
    read[:] = [_BY_WORD[kind](word) for word in classes]
    return read


def _ensemble_tensors(ensemble: Ensemble) -> dict[str, Tensor]:
    hypergraph, combined = ensemble.hypergraph, ensemble.combined
    tensors = {
        f"network.{number}.{name}": weight
        for number, network in enumerate(ensemble.networks)
        for name, weight in network.state_dict().items()
    }
    tensors |= {
        "features": ensemble.features,
        "scaling.shift": ensemble.scaling.shift,
        "scaling.factor": ensemble.scaling.factor,
        "hypergraph.node": hypergraph.by_hyperedge.indices,
        "hypergraph.hyperedge": hypergraph.by_hyperedge.owners(),
    }
    arrays = {f"fitted.{name}": value for name, value in ensemble.fitted._asdict().items()}
    arrays |= {
        f"candidate.{number}": combined.fitted[candidate]
        for number, candidate in enumerate(combined.stack.candidates)
        if candidate in combined.fitted
    }
    arrays |= {
        f"expert.{name}.{part}": values
        for name, model in combined.models.items()
        for part, values in model.as_arrays().items()
    }
    arrays |= {f"potentials.{name}": values for name, values in combined.potentials.items()}
    optional = {
        "scaling.words": ensemble.scaling.words,
        **{f"{_CATEGORIES}{name}": values for name, values in _write_categories(ensemble.scaling).items()},
        "hypergraph.centres": hypergraph.centres,
        "hypergraph.weights": hypergraph.weights,
        "hypergraph.incidence_weights": hypergraph.incidence_weights,
        "radius": ensemble.radius,
        "scales": ensemble.scales,
        "factors": combined.factors,
    }
    everything = tensors | arrays | {name: value for name, value in optional.items() if value is not None}
    return {name: torch.as_tensor(np.ascontiguousarray(value)) for name, value in everything.items()}


def _write_categories(scaling: Scaling) -> dict[str, Tensor]:
    categories = scaling.categories
    if categories is None:
        return {}
    return {name: getattr(categories, name) for name in Categories.__dataclass_fields__}


def _rebuild_scaling(tensors: Mapping[str, Tensor]) -> Scaling:
    kept = {
        name.removeprefix(_CATEGORIES): tensor
        for name, tensor in tensors.items()
        if name.startswith(_CATEGORIES)
    }
    shift = tensors["scaling.shift"]
    categories = _check_categories(Categories(**kept), len(shift)) if kept else None
    return Scaling(shift, tensors["scaling.factor"], tensors.get("scaling.words"), categories)


def _check_categories(categories: Categories, width: int) -> Categories:
    """Refuse categories of columns that there are not, or of columns that are measured as well."""
    everybody = torch.cat([categories.measured, categories.columns.unique()])
    _check(everybody.dtype == torch.int64, "columns that are no numbers")
    _check(torch.equal(everybody.sort().values, torch.arange(len(everybody))), "categories of other columns")
    fits = len(categories.codes) == len(categories.columns) == width - len(categories.measured)
    _check(fits, "other codes than categories")
    return categories


def _write_candidate(candidate: Candidate) -> list[Any]:
    """Return a candidate as JSON can hold it: None is an infinite strength."""
    return [candidate.expert, candidate.strength if math.isfinite(candidate.strength) else None]


def _plain_parameters(classifier: DAHGNNClassifier) -> dict[str, Any]:
    """Return the parameters that JSON can hold; others become None."""
    parameters: dict[str, Any] = classifier.get_params(deep=False)
    for name in ("model", "training"):
        if parameters[name] is not None:
            parameters[name] = asdict(parameters[name])
    del parameters["resources"]  # they are those of the machine that fitted it
    if np.ndim(parameters["validation"]) > 0:
        parameters["validation"] = np.asarray(parameters["validation"]).tolist()
    if not isinstance(parameters["random_state"], int | np.integer):
        parameters["random_state"] = None
    if isinstance(parameters["class_weight"], Mapping):
        parameters["class_weight"] = None
    parameters["class_prior"] = None
    return parameters


def load_classifier(path: str | os.PathLike[str]) -> DAHGNNClassifier:
    """Read a classifier that `save_classifier` wrote. Nothing in the file is executed.

    Raises
    ------
    FileNotFoundError, ValueError
        If the file is missing, cut, damaged, of another kind, or of another version.
    """
    return load_with_notes(path)[0]


def load_with_notes(
    path: str | os.PathLike[str], remedy: str = _REMEDY
) -> tuple[DAHGNNClassifier, dict[str, Any]]:
    """Read a classifier and the notes that were saved beside it; see `load_saved`."""
    return load_saved(path, remedy)[:2]


def load_saved(path: str | os.PathLike[str], remedy: str = _REMEDY) -> Saved:
    """Read a classifier with the notes and tensors that were saved beside it; see `load_classifier`.

    Parameters
    ----------
    path : path
        The file.
    remedy : str
        A sentence for the end of errors, which says how to get a file that is whole.
    """
    header, everything = read_tensors(path, FORMAT, remedy)
    if header.get("layout") not in (_LAYOUT, _LAYOUT_OF_GIVEN, _LAYOUT_OF_CATEGORIES):
        raise ValueError(f"The classifier file {path} is of another version of dahgnn. Fit it anew.")
    beside = {name: everything.pop(name) for name in list(everything) if name.startswith(_BESIDE)}
    try:
        classifier = _rebuild(header, everything)
        notes = json.loads(everything["notes"].numpy().tobytes())
        _check(isinstance(notes, dict), "something else than a mapping beside it")
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, ArithmeticError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"The classifier file {path} is damaged ({reason}). {remedy}") from error
    return Saved(classifier, notes, {name.removeprefix(_BESIDE): tensor for name, tensor in beside.items()})


def _rebuild(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DAHGNNClassifier:
    parameters = dict(header["parameters"])
    for name, kind in (("model", ModelConfig), ("training", TrainingConfig)):
        if parameters[name] is not None:
            parameters[name] = kind.from_mapping(parameters[name])
    classifier = DAHGNNClassifier(**parameters)
    Parameters.of(classifier)  # checks them
    classifier.classes_ = _read_classes(header["class_kind"], header["classes"])
    ensemble = _rebuild_ensemble(header, tensors, len(classifier.classes_))
    n, width = len(ensemble.features), ensemble.scaling.n_columns
    classifier.n_features_in_ = width
    names = header["feature_names"]
    if names:
        _check(len(names) == width and all(isinstance(name, str) for name in names), "other columns")
        classifier.feature_names_in_ = np.array(names, dtype=object)
    classifier.history_, classifier.stopped_ = list(header["history"]), str(header["stopped"])
    # Files of earlier versions have neither of these.
    classifier.decision_, search = str(header.get("decision", "")), header.get("search")
    classifier.search_ = None if search is None else SearchReport(**search)
    classifier.best_epoch_, classifier.n_iter_ = int(header["best_epoch"]), int(header["epochs"])
    for name in ("labelled_indices", "held_out_indices"):
        setattr(classifier, f"{name}_", as_indices(tensors[name], name, "it", below=n).numpy())
    classifier.held_out_distributions_ = tensors["held_out_distributions"].double().numpy()
    classifier.estimate_ = None if header["estimate"] is None else Estimate(**header["estimate"])
    _check_training(classifier)
    classifier._keep(ensemble)
    return classifier


def _rebuild_ensemble(header: Mapping[str, Any], tensors: Mapping[str, Tensor], n_classes: int) -> Ensemble:
    there = {name.split(".")[1] for name in tensors if name.startswith("network.")}
    numbers = range(len(there))
    _check(
        header["networks"] == len(there) > 0 and there == set(map(str, numbers)),
        "another number of networks than it says",
    )
    networks = [_network(header["network"], tensors, number).eval() for number in numbers]
    _check_shapes(networks[0], n_classes, tensors)
    n, count, k = len(tensors["features"]), header["n_hyperedges"], int(header["k"])
    _check(0 < count <= len(tensors["hypergraph.node"]), "hyperedges without nodes")
    _check(1 <= k <= n, "a number of neighbours that there are not")
    hypergraph = Hypergraph.from_incidence(
        tensors["hypergraph.node"],
        tensors["hypergraph.hyperedge"],
        n_nodes=n,
        n_hyperedges=count,
        centres=tensors.get("hypergraph.centres"),
        weights=tensors.get("hypergraph.weights"),
        # As they stand in by_hyperedge, which is the order of the pairs above.
        incidence_weights=tensors.get("hypergraph.incidence_weights"),
        cover_isolated=False,
    )
    fitted = Evaluation(*(tensors[f"fitted.{name}"].numpy() for name in Evaluation._fields))
    _check(bool((fitted.distributions >= 0).all()), "probabilities that are none")
    return Ensemble(
        scaling=_rebuild_scaling(tensors),
        features=tensors["features"],
        hypergraph=hypergraph,
        k=k,
        radius=tensors.get("radius"),
        scales=tensors.get("scales"),
        networks=tuple(networks),
        combined=_rebuild_combined(header, tensors, fitted.distributions.shape[1]),
        fitted=fitted,
    )


def _rebuild_combined(header: Mapping[str, Any], tensors: Mapping[str, Tensor], n_classes: int) -> Combined:
    saved = header["stack"]
    models = {
        name: _READERS[name].from_arrays(_arrays(tensors, f"expert.{name}.")) for name in header["experts"]
    }
    a_row = tensors["features"][:1, :-1]
    for name, model in models.items():
        _check(model.predict(a_row).shape == (1, 1, n_classes), f"an expert '{name}' of other classes")
        if isinstance(model, TreesModel):
            _check(bool((model.columns < a_row.shape[1]).all()), "trees of other columns")
    candidates = tuple(
        Candidate(expert, math.inf if strength is None else float(strength))
        for expert, strength in saved["candidates"]
    )
    stack = Stack(candidates, tuple(map(float, saved["weights"])))
    potentials = _arrays(tensors, "potentials.")
    known = {"networks", "laplace", *header["experts"], *potentials}
    _check(len(candidates) == len(stack.weights) > 0, "a combination of other parts")
    _check({candidate.expert for candidate in candidates} <= known, "experts that are not there")
    _check(all(0 < weight < math.inf for weight in stack.weights), "weights that are none")
    _check(set(potentials) <= {*POISSON_EXPERTS, AROUND}, "potentials of somebody else")
    factors = tensors.get("factors")
    return Combined(
        stack=stack,
        models=models,
        fitted={
            candidate: tensors[f"candidate.{number}"].numpy()
            for number, candidate in enumerate(candidates)
            if math.isfinite(candidate.strength)
        },
        potentials=potentials,
        factors=None if factors is None else factors.numpy(),
    )


def _arrays(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): tensor.numpy()
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _check_training(classifier: DAHGNNClassifier) -> None:
    """Refuse what is said of the training if it cannot be."""
    _check(all(isinstance(entry, dict) for entry in classifier.history_), "a history of something else")
    _check(classifier.stopped_ in STOPPED, "an unknown reason to stop")
    known = np.isin(classifier.held_out_indices_, classifier.labelled_indices_)
    _check(bool(known.all()), "held-out rows without a label")
    distributions = classifier.held_out_distributions_
    whole = (distributions >= 0).all() and np.allclose(distributions.sum(1), 1)
    _check(bool(whole), "probabilities that are none")


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
        "fitted.distributions": (n, n_classes),
        "fitted.embedding": (n, n_classes),
        "fitted.density": (n,),
        "factors": (n_classes,),
        "scales": (n,),
        "held_out_distributions": (len(tensors["held_out_indices"]), n_classes),
        "radius": (n,),
        "scaling.shift": (width - 1,),  # features have a column of ones behind them
        "scaling.factor": (width - 1,),
        "scaling.words": (width - 1,),
    }
    for name, tensor in tensors.items():
        of_rows = name.startswith(("candidate.", "potentials."))
        wanted = (n, n_classes) if of_rows else shapes.get(name, tensor.shape)
        _check(tensor.shape == wanted, f"'{name}' of another shape")
        if tensor.is_floating_point():
            _check(bool(tensor.isfinite().all()), f"'{name}' with NaN or infinities")
            single = name == "features" or name.startswith("network.")
            _check(tensor.dtype == torch.float32 or not single, f"'{name}' of another precision")


def _check(fits: bool, otherwise: str) -> None:
    if not fits:
        raise ValueError(f"it holds {otherwise}")
