"""The networks and the classifier of this package, run as the methods that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from dahgnn.baselines.registry import (
    Answer,
    DirectKind,
    Problem,
    plain_parameters,
    register,
    register_network,
)
from dahgnn.checks import check_choice
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.nn.hgnn import HGNN
from dahgnn.nn.model import DAHGNN

# What the classifier does with the labels of the validation nodes.
VALIDATION_LABELS = ("none", "judge", "train")
# Whether the classifier gets a hypergraph that the dataset comes as.
HYPERGRAPHS = ("given", "none")

register_network(DAHGNN, takes_config=True)
register_network(HGNN)


def run_classifier(problem: Problem, parameters: Mapping[str, Any]) -> Answer:
    """Fit `DAHGNNClassifier` as a user does: it scales the features, and holds out labelled rows by itself.

    Parameters
    ----------
    problem : Problem
        The classifier learns from its training nodes, and never sees the labels of its test nodes.
    parameters : mapping
        Those of the classifier; ``model`` and ``training`` are tables of what differs from its defaults.
        Besides them ``validation_labels`` says what becomes of the labels of the validation nodes: "none",
        the default, leaves them out; "judge" holds them out, as other methods do that choose their settings
        by them; "train" adds them to the training nodes. And ``hypergraph`` says what becomes of a
        hypergraph that the dataset comes as: "given", the default, or "none", which leaves it out.
    """
    from dahgnn.classifier.estimator import DAHGNNClassifier

    given = complete_parameters(parameters)
    use = given.pop("validation_labels")
    hypergraph = problem.hypergraph if given.pop("hypergraph", "given") == "given" else None
    known = problem.known_labels(validation=use != "none")
    if use == "judge":
        given["validation"] = problem.split.validation.numpy()
    given |= {"model": ModelConfig(**given["model"]), "training": TrainingConfig(**given["training"])}
    of_the_run: dict[str, Any] = {"device": problem.device, "random_state": problem.seed}
    classifier = DAHGNNClassifier(**(of_the_run | given)).fit(problem.features, known, hypergraph=hypergraph)
    predictions = torch.from_numpy(np.asarray(classifier.transduction_)).long()
    estimate = classifier.estimate_
    stated = None if estimate is None else (estimate.accuracy, estimate.low, estimate.high)
    return Answer(predictions=predictions, stated=stated, chosen={"decision": classifier.decision_})


def complete_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of the classifier, with its defaults where a spec says nothing."""
    from dahgnn.classifier.estimator import DAHGNNClassifier

    preset = PRESETS["default"]
    whole = plain_parameters(DAHGNNClassifier()) | {"validation_labels": "none"} | dict(parameters)
    check_choice(
        "validation_labels", whole["validation_labels"], VALIDATION_LABELS, "DAHGNNClassifier in a spec"
    )
    # Run lines have it among their settings only where a spec names it: those of earlier versions have not.
    check_choice(
        "hypergraph", parameters.get("hypergraph", "given"), HYPERGRAPHS, "DAHGNNClassifier in a spec"
    )
    for name, kind in (("model", ModelConfig), ("training", TrainingConfig)):
        table = asdict(getattr(preset, name)) | dict(parameters.get(name) or {})
        whole[name] = asdict(kind.from_mapping(table))
    return whole


def _classifier_parameters() -> set[str]:
    from dahgnn.classifier.estimator import DAHGNNClassifier

    return {*DAHGNNClassifier().get_params(deep=False), "validation_labels", "hypergraph"}


register(
    "DAHGNNClassifier",
    DirectKind(
        solve=run_classifier,
        list_parameters=_classifier_parameters,
        complete=complete_parameters,
        scales_itself=True,
        uses_device=True,
    ),
)
