"""Folds and scores for scikit-learn's cross-validation and searches, where many rows have no label."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names, roc_auc_score
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state

from dahgnn.checks import bad_type, bad_value, check_choice, check_count
from dahgnn.classifier.labels import find_classes, known_labels, number_labels

Array = NDArray[Any]
Scorer = Callable[..., float]


class LabelledKFold(BaseCrossValidator):  # type: ignore[misc]
    """Folds whose test rows all have a label, for ``cv=`` of scikit-learn.

    The labelled rows of each class are dealt out to the folds, so that fold sizes differ by one at most, in
    all and in each class. Rows without a label are in the training part of every fold. So is at least one
    labelled row of each class: a class with one labelled row is never tested.

    Parameters
    ----------
    n_splits : int
        How many folds, at least two.
    random_state : int, RandomState or None
        Deals out the rows. With None each call of `split` does so anew.

    Examples
    --------
    >>> y = np.array([0, -1, 0, 1, -1, 1, -1])
    >>> for train, test in LabelledKFold(2, random_state=0).split(np.zeros((7, 1)), y):
    ...     print(y[train], y[test])
    [ 0 -1 -1  1 -1] [0 1]
    [-1  0  1 -1 -1] [0 1]
    """

    def __init__(self, n_splits: int = 5, *, random_state: int | np.random.RandomState | None = None) -> None:
        check_count("n_splits", n_splits, type(self).__name__, low=2)
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return how many folds there are."""
        return int(self.n_splits)

    def split(
        self, X: ArrayLike, y: ArrayLike | None, groups: object = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the rows to train with and the rows to test, for each fold.

        Parameters
        ----------
        X : array, (n, d)
            Its number of rows alone counts.
        y : array, (n,)
            Labels; unlabelled is −1 among numbers, and None or NaN among others.
        groups
            Not used; here because scikit-learn passes it.
        """
        if y is None:
            raise bad_value("y", type(self).__name__, "labels, some of which may be unknown", None)
        labels, known = known_labels(y)
        check_consistent_length(X, known)
        fold = np.full(len(known), -1)
        fold[known] = self._deal(labels)
        rows = np.arange(len(known))
        for number in range(self.n_splits):
            yield rows[fold != number], rows[fold == number]

    def _deal(self, labels: Array) -> Array:
        """Return the fold in which each labelled row is tested, −1 if in none."""
        generator = check_random_state(self.random_state)
        classes = find_classes(labels)
        numbers = number_labels(labels, classes)
        fold, dealt = np.full(len(labels), -1), 0
        for number in range(len(classes)):
            rows = generator.permutation(np.flatnonzero(numbers == number))
            if len(rows) > 1:
                fold[rows] = (dealt + np.arange(len(rows))) % self.n_splits
                dealt += len(rows)
        if dealt < self.n_splits:
            expected = f"at most {dealt}, the labelled rows in classes with two or more"
            raise bad_value("n_splits", type(self).__name__, expected, self.n_splits)
        return fold


def labelled_scorer(scoring: str | Scorer) -> LabelledScorer:
    """Return a scorer for ``scoring=`` of scikit-learn that leaves rows without a label out.

    Parameters
    ----------
    scoring : str or callable
        One of `sklearn.metrics.get_scorer_names`, or a scorer: a callable of estimator, X and y.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> zeros = DummyClassifier(strategy="constant", constant=0).fit([[0.0]] * 2, [0, 1])
    >>> labelled_scorer("accuracy")(zeros, [[0.0]] * 4, [0, -1, 1, -1])
    0.5
    """
    if isinstance(scoring, str):
        check_choice("scoring", scoring, get_scorer_names(), "labelled_scorer")
    elif not callable(scoring):
        raise bad_type("scoring", "labelled_scorer", "a name or a scorer", type(scoring).__name__)
    return LabelledScorer(scoring)


class LabelledScorer:
    """A scorer of labelled rows; see `labelled_scorer`, which makes it.

    A fold may lack classes. Where a class of y is not one of the estimator's, it has the probability 0. Where
    one of the estimator's is not in y, losses such as that of "neg_log_loss" count it all the same, and areas
    under curves, which are not defined for it, leave it out.
    """

    def __init__(self, scoring: str | Scorer) -> None:
        self.scoring = scoring

    def __repr__(self) -> str:
        return f"labelled_scorer({self.scoring!r})"

    def __call__(
        self, estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the score of the rows that have a label."""
        labels, known = known_labels(y)
        check_consistent_length(X, known)
        if not known.any():
            raise bad_value("y", repr(self), "labelled at some rows", "none")
        rows = np.flatnonzero(known)
        weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[rows]}
        if labels.dtype.kind == "O":
            estimator, labels = _in_numbers(estimator, labels)
        scorer: Scorer = get_scorer(self.scoring)
        scorer, estimator = _agree(scorer, estimator, find_classes(labels))
        return float(scorer(estimator, _safe_indexing(X, rows), labels, **weights))


def _in_numbers(estimator: Any, labels: Array) -> tuple[Any, Array]:
    """Return both with numbers for classes, for metrics that know numbers and words alone."""
    classes = find_classes(np.concatenate([estimator.classes_, labels]))
    return _Numbered(estimator, classes), number_labels(labels, classes)


def _agree(scorer: Scorer, estimator: Any, present: Array) -> tuple[Scorer, Any]:
    """Let scorer and estimator speak of the same classes, where those of the test rows are others."""
    metric = getattr(scorer, "_score_func", None)
    known = getattr(estimator, "classes_", None)
    if metric is None or known is None or np.array_equal(known, present):
        return scorer, estimator
    if metric is roc_auc_score and len(present) < 2:
        raise bad_value("y", "an area under a curve", "of two classes at least", f"{present[0]} alone")
    if "labels" not in inspect.signature(metric).parameters or metric is roc_auc_score:
        return scorer, _OfClasses(estimator, present)
    if "predict" in np.atleast_1d(scorer._response_method):  # type: ignore[attr-defined]
        return scorer, estimator  # labels would say which classes an average is of
    classes = np.union1d(known, present)
    scorer = copy.copy(scorer)
    scorer._kwargs = {**scorer._kwargs, "labels": classes}  # type: ignore[attr-defined]
    return scorer, _OfClasses(estimator, classes)


class _Numbered(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier that predicts the numbers of its labels among some classes."""

    def __init__(self, estimator: Any, classes: Array) -> None:
        self.estimator = estimator
        self.classes = classes
        self.numbers = number_labels(estimator.classes_, classes)
        self.classes_ = np.sort(self.numbers)

    def predict(self, X: ArrayLike) -> Array:
        return number_labels(np.asarray(self.estimator.predict(X)), self.classes)

    def predict_proba(self, X: ArrayLike) -> Array:
        return np.asarray(self.estimator.predict_proba(X))[:, np.argsort(self.numbers)]


class _OfClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier whose probabilities are those of other classes, as far as it knows them."""

    def __init__(self, estimator: Any, classes: Array) -> None:
        self.estimator = estimator
        self.classes_ = classes

    def predict(self, X: ArrayLike) -> Array:
        return np.asarray(self.estimator.predict(X))

    def predict_proba(self, X: ArrayLike) -> Array:
        given = self.estimator.predict_proba(X)
        found = np.zeros((len(given), len(self.classes_)))
        known = np.isin(self.classes_, self.estimator.classes_)
        found[:, known] = given[:, np.searchsorted(self.estimator.classes_, self.classes_[known])]
        total = found.sum(1, keepdims=True)
        # Where it knows none of them, all are as likely.
        return np.where(total > 0, found / np.where(total > 0, total, 1), 1 / len(self.classes_))
