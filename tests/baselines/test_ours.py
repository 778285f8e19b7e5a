"""The classifier of this package, as a method of an experiment."""

import numpy as np
import pytest

from dahgnn import DAHGNNClassifier
from dahgnn.baselines.ours import run_classifier
from dahgnn.baselines.registry import Problem

SHORT = {"networks": 2, "max_epochs": 15}


@pytest.fixture
def problem(blobs, blob_split):
    return Problem(features=blobs[0].numpy(), labels=blobs[1].numpy(), split=blob_split, seed=4)


def test_it_is_the_classifier_of_users(problem):
    known = problem.known_labels()
    classifier = DAHGNNClassifier(**SHORT, random_state=4, device="cpu").fit(problem.features, known)
    answer = run_classifier(problem, SHORT)
    assert answer.predictions.tolist() == classifier.transduction_.tolist()
    held_out = classifier.held_out_indices_
    predicted = classifier.held_out_distributions_.argmax(1)
    assert answer.stated_accuracy == np.mean(predicted == problem.labels[held_out])


def test_without_held_out_rows_it_states_nothing(problem):
    assert run_classifier(problem, SHORT | {"validation": None}).stated_accuracy is None


def test_labels_of_validation_nodes_are_used_where_that_is_asked_for(problem):
    known = problem.known_labels(validation=True)
    classifier = DAHGNNClassifier(**SHORT, random_state=4, device="cpu").fit(problem.features, known)
    answer = run_classifier(problem, SHORT | {"validation_labels": "train"})
    assert answer.predictions.tolist() == classifier.transduction_.tolist()
    with pytest.raises(ValueError, match="Did you mean 'train'"):
        run_classifier(problem, {"validation_labels": "trian"})
