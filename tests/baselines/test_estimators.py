"""Classifiers of scikit-learn, as methods of an experiment."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier

from dahgnn.baselines.registry import Problem, find_kind


@pytest.fixture
def problem(blobs, blob_split):
    return Problem(features=blobs[0].numpy(), labels=blobs[1].numpy(), split=blob_split)


@pytest.mark.parametrize("name", ["RandomForest", "SVC", "KNeighbors", "SelfTraining"])
def test_an_estimator_learns_the_blobs(problem, name):
    predictions = find_kind(name).solve(problem, {}).predictions.numpy()
    test = problem.split.test.numpy()
    assert np.mean(predictions[test] == problem.labels[test]) > 0.85


def test_boosting_learns_once_leaves_may_be_small(problem):
    predictions = (
        find_kind("HistGradientBoosting").solve(problem, {"min_samples_leaf": 2}).predictions.numpy()
    )
    test = problem.split.test.numpy()
    assert np.mean(predictions[test] == problem.labels[test]) > 0.7


def test_self_training_is_fitted_to_the_unlabelled_rows_too(problem):
    expected = SelfTrainingClassifier(LogisticRegression(max_iter=1000)).fit(
        problem.features, problem.known_labels()
    )
    found = find_kind("SelfTraining").solve(problem, {}).predictions.numpy()
    assert found.tolist() == expected.predict(problem.features).tolist()
