"""The classifier of this package, as a method of an experiment."""

from dataclasses import replace

import numpy as np
import pytest

from dahgnn import PRESETS, DAHGNNClassifier, Hypergraph, Split
from dahgnn.baselines.ours import complete_parameters, run_classifier
from dahgnn.baselines.registry import Problem

SHORT = {"networks": 2, "training": {"max_epochs": 8}}


@pytest.fixture
def problem(blobs, blob_split):
    return Problem(features=blobs[0].numpy(), labels=blobs[1].numpy(), split=blob_split, seed=4)


def fit(problem, known):
    training = replace(PRESETS["default"].training, max_epochs=8)
    classifier = DAHGNNClassifier(networks=2, training=training, random_state=4, device="cpu")
    return classifier.fit(problem.features, known)


def test_it_is_the_classifier_of_users(problem):
    classifier = fit(problem, problem.known_labels())
    answer = run_classifier(problem, SHORT)
    assert answer.predictions.tolist() == classifier.transduction_.tolist()
    estimate = classifier.estimate_
    assert answer.stated == (estimate.accuracy, estimate.low, estimate.high)


def test_without_held_out_rows_it_states_nothing(problem):
    """A class with one label keeps it."""
    train = [int(np.flatnonzero(problem.labels == label)[0]) for label in range(3)]
    alone = replace(problem, split=Split(train=train, validation=[], test=[]))
    assert run_classifier(alone, SHORT).stated is None


def test_the_settings_of_its_networks_are_tables(problem):
    with pytest.raises(ValueError, match="ModelConfig has no setting 'hiden'. Did you mean 'hidden'"):
        run_classifier(problem, SHORT | {"model": {"hiden": 3}})


def test_labels_of_validation_nodes_are_used_where_that_is_asked_for(problem):
    classifier = fit(problem, problem.known_labels(validation=True))
    answer = run_classifier(problem, SHORT | {"validation_labels": "train"})
    assert answer.predictions.tolist() == classifier.transduction_.tolist()
    with pytest.raises(ValueError, match="Did you mean 'train'"):
        run_classifier(problem, {"validation_labels": "trian"})


def test_the_hypergraph_of_a_dataset_is_given_unless_the_spec_says_no(problem):
    groups = [np.flatnonzero(problem.labels == label).tolist() for label in range(3)]  # which tell everything
    noise = np.random.default_rng(0).normal(size=(len(problem.labels), 4)).astype(np.float32)
    hypergraph = Hypergraph.from_hyperedges(groups, n_nodes=len(problem.labels))
    told = replace(problem, features=noise, hypergraph=hypergraph)
    given, left = (run_classifier(told, {"networks": 1, "hypergraph": use}) for use in ("given", "none"))
    nodes = problem.split.test.numpy()
    right, by_noise = (
        np.mean(each.predictions.numpy()[nodes] == problem.labels[nodes]) for each in (given, left)
    )
    assert right > 0.9 > 0.6 > by_noise
    assert "given hyperedges" in given.chosen["decision"]
    assert "given hyperedges" not in left.chosen["decision"]
    with pytest.raises(ValueError, match="'hypergraph' parameter of DAHGNNClassifier in a spec must be"):
        run_classifier(told, {"hypergraph": "maybe"})
    assert "hypergraph" not in complete_parameters({})
