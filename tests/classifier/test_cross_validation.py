"""Folds and scores where many rows have no label."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score, get_scorer, log_loss, make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.semi_supervised import LabelSpreading

import dahgnn
from dahgnn import DAHGNNClassifier, LabelledKFold, labelled_scorer
from dahgnn.config import PRESETS

QUICK = {"training": replace(PRESETS["default"].training, max_epochs=4), "networks": 1, "random_state": 0}
SCORINGS = ["accuracy", "f1_macro", "roc_auc_ovr", "neg_log_loss", "neg_brier_score", "top_k_accuracy"]


@pytest.fixture(scope="module")
def iris():
    """Rows, their labels, and those of them that are known."""
    features, labels = load_iris(return_X_y=True)
    return features, labels, np.where(np.arange(150) % 4 == 0, labels, -1)


@pytest.fixture(scope="module")
def fitted(iris):
    features, _, given = iris
    return DAHGNNClassifier(**QUICK).fit(features, given)


def test_the_names_are_exported():
    assert {"LabelledKFold", "labelled_scorer"} <= set(dahgnn.__all__)


def test_test_rows_are_labelled_and_of_every_class():
    y = np.array([0] * 11 + [1] * 6 + [2] * 7 + [-1] * 20)
    folds = list(LabelledKFold(5, random_state=0).split(np.zeros((44, 1)), y))
    tested = np.concatenate([test for _, test in folds])
    assert sorted(tested) == list(range(24))  # each once
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(44))
        assert len(test) in (4, 5)
        assert set(y[test]) == {0, 1, 2}
        counts = np.bincount(y[test], minlength=3)
        assert (abs(counts - np.array([11, 6, 7]) / 5) < 1).all()


def test_every_class_stays_in_the_training_part():
    y = ["a", None, "a", "b", "b", "b", "lonely", None]
    tested = []
    for train, test in LabelledKFold(3, random_state=1).split(np.zeros((8, 1)), y):
        assert {y[row] for row in train} == {"a", "b", "lonely", None}
        assert {1, 6, 7} <= set(train)
        tested += test.tolist()
    assert sorted(tested) == [0, 2, 3, 4, 5]


def test_folds_are_those_of_their_seed():
    y = np.arange(60) % 3
    rows = np.zeros((60, 1))
    first, again, other = (
        np.concatenate([test for _, test in LabelledKFold(4, random_state=seed).split(rows, y)])
        for seed in (0, 0, 1)
    )
    assert first.tolist() == again.tolist() != other.tolist()
    assert LabelledKFold(4).get_n_splits() == 4


def test_folds_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="'n_splits' parameter of LabelledKFold must be at least 2. Got 1"):
        LabelledKFold(1)
    with pytest.raises(ValueError, match="at most 2, the labelled rows in classes with two or more. Got 3"):
        next(LabelledKFold(3).split(np.zeros((5, 1)), [0, 0, 1, -1, -1]))
    with pytest.raises(ValueError, match="'y' parameter of LabelledKFold must be labels, .* Got None"):
        next(LabelledKFold(3).split(np.zeros((5, 1)), None))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        next(LabelledKFold(2).split(np.zeros((4, 1)), [0, 0, 1, 1, -1]))


@pytest.mark.parametrize("scoring", SCORINGS)
def test_scores_are_those_of_the_labelled_rows_alone(iris, fitted, scoring):
    features, labels, given = iris
    rows = np.arange(0, 150, 4)
    expected = get_scorer(scoring)(fitted, features[rows], labels[rows])
    assert labelled_scorer(scoring)(fitted, features, given) == pytest.approx(expected)
    words = np.array(["x", "y", "z"], dtype=object)[labels]
    words[given < 0] = None
    of_words = DAHGNNClassifier(**QUICK).fit(features, words)
    assert labelled_scorer(scoring)(of_words, features, words) == pytest.approx(expected)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_scores_of_labels_that_metrics_do_not_know(iris, fitted, scoring):
    features, _, given = iris
    names = [Fraction(1, 3), Fraction(1, 2), Fraction(3)]
    fractions = [None if label < 0 else names[label] for label in given]
    of_fractions = DAHGNNClassifier(**QUICK).fit(features, fractions)
    found = labelled_scorer(scoring)(of_fractions, features[:80], fractions[:80])  # without the third
    assert found == pytest.approx(labelled_scorer(scoring)(fitted, features[:80], given[:80]))
    folds = LabelledKFold(3, random_state=0)
    assert [test.tolist() for _, test in folds.split(features, fractions)] == [
        test.tolist() for _, test in folds.split(features, given)
    ]


def test_weights_are_those_of_the_labelled_rows(iris, fitted):
    features, labels, given = iris
    weights = np.linspace(0, 1, 150)
    rows = np.arange(0, 150, 4)
    expected = get_scorer("neg_log_loss")(fitted, features[rows], labels[rows], sample_weight=weights[rows])
    found = labelled_scorer("neg_log_loss")(fitted, features, given, sample_weight=weights)
    assert found == pytest.approx(expected)


def test_a_scorer_of_ones_own(iris, fitted):
    features, labels, given = iris
    two = np.where(given == 2, -1, given)
    scorer = make_scorer(f1_score, average="macro", labels=[0, 1, 2], zero_division=0)
    found = labelled_scorer(scorer)(fitted, features, two)
    assert found == scorer(fitted, features[two >= 0], labels[two >= 0])
    seen = []
    labelled_scorer(lambda *of: seen.append(of) or 0.5)(fitted, features, given)
    ((estimator, rows, y),) = seen
    assert estimator is fitted
    np.testing.assert_array_equal(rows, features[::4])
    np.testing.assert_array_equal(y, labels[::4])


class Fixed(ClassifierMixin, BaseEstimator):
    """Says of every row what it was told."""

    def __init__(self, classes=(), chances=()):
        self.classes, self.chances = classes, chances

    def fit(self, X, y):
        self.classes_ = np.array(self.classes)
        return self

    def predict_proba(self, X):
        return np.array(self.chances)[: len(X)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


def test_a_class_that_is_not_in_the_fold():
    chances = [[0.5, 0.1, 0.4], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1], [0.3, 0.6, 0.1]]
    fixed = Fixed([0, 1, 2], chances).fit(None, None)
    rows, y = np.zeros((5, 1)), [0, 0, 1, 1, -1]
    # The loss counts what the third class was given; the area does not know it.
    assert labelled_scorer("neg_log_loss")(fixed, rows, y) == pytest.approx(
        np.mean(np.log([0.5, 0.2, 0.8, 0.6]))
    )
    second = [1 / 6, 1 / 2, 8 / 9, 2 / 3]
    assert labelled_scorer("roc_auc_ovr")(fixed, rows, y) == roc_auc_score(y[:4], second) == 1
    assert labelled_scorer("accuracy")(fixed, rows, y) == 0.75
    assert labelled_scorer("f1_macro")(fixed, rows, y) == pytest.approx((2 / 3 + 1 + 0) / 3)


def test_a_class_that_the_estimator_does_not_know():
    chances = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]]
    fixed = Fixed(["a", "b"], chances).fit(None, None)
    rows, y = np.zeros((4, 1)), ["a", "c", "b", None]
    expected = log_loss(
        ["a", "c", "b"], [[0.9, 0.1, 0], [0.6, 0.4, 0], [0.2, 0.8, 0]], labels=["a", "b", "c"]
    )
    assert labelled_scorer("neg_log_loss")(fixed, rows, y) == pytest.approx(-expected)
    # By one-versus-rest a and b come first, and c is as likely everywhere.
    assert labelled_scorer("roc_auc_ovr")(fixed, rows, y) == pytest.approx((1 + 1 + 0.5) / 3)


def test_what_no_score_can_be_made_of(iris, fitted):
    features, _, given = iris
    with pytest.raises(
        ValueError, match=r"The 'y' parameter of labelled_scorer\('accuracy'\) must be labelled"
    ):
        labelled_scorer("accuracy")(fitted, features, np.full(150, -1))
    with pytest.raises(ValueError, match="must be of two classes at least. Got 0 alone"):
        labelled_scorer("roc_auc_ovr")(fitted, features, np.where(given == 0, 0, -1))
    with pytest.raises(ValueError, match="Did you mean 'f1_macro'"):
        labelled_scorer("f1_makro")
    with pytest.raises(TypeError, match="must be a name or a scorer. Got int"):
        labelled_scorer(3)


@pytest.mark.filterwarnings("error")
def test_cross_validation_and_searches(iris):
    features, _, given = iris
    words = np.array(["x", "y", "z", None], dtype=object)[given]
    folds = LabelledKFold(3, random_state=0)
    scoring = {name: labelled_scorer(name) for name in SCORINGS}
    numbers, names = (
        cross_validate(DAHGNNClassifier(**QUICK), features, y, cv=folds, scoring=scoring)
        for y in (given, words)
    )
    for name in SCORINGS:
        found = numbers[f"test_{name}"]
        assert np.isfinite(found).all()
        np.testing.assert_allclose(names[f"test_{name}"], found)
    assert numbers["test_accuracy"].mean() > 0.8
    search = GridSearchCV(
        DAHGNNClassifier(**QUICK), {"k": [3, 8]}, cv=folds, scoring=labelled_scorer("neg_log_loss")
    ).fit(features, words)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert search.best_estimator_.classes_.tolist() == ["x", "y", "z"]


def test_it_serves_other_estimators_that_know_unlabelled_rows(iris):
    features, _, given = iris
    folds = LabelledKFold(3, random_state=0)
    found = cross_val_score(
        LabelSpreading(kernel="knn"), features, given, cv=folds, scoring=labelled_scorer("accuracy")
    )
    assert (found > 0.8).all()


def test_a_scorer_goes_to_other_processes():
    again = pickle.loads(pickle.dumps(labelled_scorer("f1_macro")))  # noqa: S301
    assert repr(again) == "labelled_scorer('f1_macro')"


def test_calibration_by_further_labels(iris, fitted):
    features, labels, _ = iris
    further = np.arange(150) % 4 == 1
    calibrated = CalibratedClassifierCV(FrozenEstimator(fitted)).fit(features[further], labels[further])
    assert calibrated.classes_.tolist() == [0, 1, 2]
    assert calibrated.score(features[2::4], labels[2::4]) > 0.8
