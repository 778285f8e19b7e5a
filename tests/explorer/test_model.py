"""What one fit of the labels says."""

import numpy as np
import pytest

from dahgnn import DAHGNNClassifier
from dahgnn.explorer.model import compare, fit_model


@pytest.fixture(scope="module")
def fitted(blobs):
    """Two models of three blobs, the second of which knows two wrong labels more."""
    features, truth = blobs[0].numpy(), np.array(["x", "y", "z"])[blobs[1].numpy()]
    classifier = DAHGNNClassifier(random_state=0)
    around = classifier.surroundings(features)
    models, last = [], None
    for wrong in ([], [0, 3]):
        labels = np.full(len(truth), None, dtype=object)
        labels[:45] = truth[:45]
        labels[wrong] = "z"
        last = fit_model(
            DAHGNNClassifier(random_state=0), features, labels, around, event=len(models), last=last
        )
        models.append(last)
    return models, truth


def test_models_are_numbered_and_know_what_they_have_seen(fitted):
    (first, second), _ = fitted
    assert [(model.number, model.event, model.n_labelled) for model in (first, second)] == [
        (1, 0, 45),
        (2, 1, 45),
    ]
    assert first.classes == ("x", "y", "z")


def test_guesses_are_those_of_the_classifier(fitted):
    (model, _), truth = fitted
    guesses = np.array([model.guess(row) for row in range(120)])
    assert (guesses == truth).mean() > 0.9
    np.testing.assert_array_equal(guesses, model.classifier.transduction_)
    likely = model.likely(50, 2)
    assert likely[0] == (guesses[50], pytest.approx(model.confidence[50]))
    assert likely[0][1] >= likely[1][1]


def test_what_changed_is_told_with_what_was(fitted):
    (first, second), _ = fitted
    before, after = first.classifier.transduction_, second.classifier.transduction_
    np.testing.assert_array_equal(second.changed, np.flatnonzero(before != after))
    np.testing.assert_array_equal(second.before, before[before != after])
    assert len(first.changed) == 0
    assert compare(first, None) is first


def test_wrong_labels_are_doubtful_and_opinions_have_not_seen_them(fitted):
    (_, second), truth = fitted
    assert {each.row for each in second.doubtful} >= {0, 3}
    assert second.opinions[0] == truth[0] == "x"
    assert set(second.opinions) == set(range(45))


def test_a_guess_is_explained(fitted):
    (model, _), _ = fitted
    assert model.explain(60).row == 60
    assert model.says.startswith("Labels come from ")
