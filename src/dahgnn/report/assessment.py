"""What held-out labels say of a fit: classes that are confused, simple methods beside it, doubtful labels.

Everything here is judged by labels that whoever speaks has not seen. ``metrics.json`` keeps it under
"assessment", as `Assessment.as_dict` returns it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from dahgnn.classifier.ensemble import equal_rows
from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.labels import encode_labels, join_copies, split_labels
from dahgnn.tables.row_names import RowNames

Array = NDArray[Any]

# The methods that a fit is compared with, by their names in metrics.json.
BASELINES = ("majority", "logistic_regression", "nearest_neighbours")
# Baselines learn from at most so many labels, and are judged by no fewer than so many.
_MOST_LABELS, _FEWEST_JUDGED = 2_000, 6
_FOLDS, _NEIGHBOURS = 5, 5
# A label is doubtful if another class is likelier than not, and its own is so many times rarer than usual.
_LIKELY, _RARER = 0.5, 4
# So many doubtful labels are listed.
_MOST_LISTED = 1_000


@dataclass(frozen=True, kw_only=True)
class DoubtfulLabel:
    """A given label that those who have not seen it contradict.

    Attributes
    ----------
    row : int
        The number of the row, from 0 on.
    given, opinion : str
        The given label, and the likeliest class.
    probability, given_probability : float
        Of the likeliest class, and of the given label.
    """

    row: int
    given: str
    opinion: str
    probability: float
    given_probability: float


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """How right a fit is, class by class, beside simple methods.

    Attributes
    ----------
    classes : tuple of c str
        The names of the classes.
    given : tuple of c int
        How many labels of each class were given.
    confusion : tuple of c tuples of c int
        Counts of held-out labels: a row for each given label, a column for each class that those who had
        not seen the label hold for the likeliest.
    recall, precision : tuple of c (float or None)
        Of each class, the share of its held-out labels that were found, and the share of those called so
        that were right; None where there are none.
    accuracy : float or None
        The share of all held-out labels that were found; None where there are none.
    baselines : mapping of str to (float or None)
        The same share for the methods of `BASELINES`, each label judged by a model that has not seen it;
        None where fewer than six are held out.
    baseline_labels : int
        How many labels the baselines had: all, or 2,000 if there are more.
    doubtful : tuple of DoubtfulLabel
        Held-out labels for which another class has a probability of at least one half, and the given one
        less than a quarter of its share of all labels. The clearest comes first.
    """

    classes: tuple[str, ...]
    given: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]
    recall: tuple[float | None, ...]
    precision: tuple[float | None, ...]
    accuracy: float | None
    baselines: Mapping[str, float | None]
    baseline_labels: int
    doubtful: tuple[DoubtfulLabel, ...]

    def as_dict(self, ids: Sequence[str] | RowNames) -> dict[str, Any]:
        """Return what metrics.json holds.

        The keys are the names of the attributes. Each item of "doubtful" has the keys "row", "id",
        "given", "opinion", "probability" and "given_probability"; at most 1,000 are listed, and
        "doubtful_count" says how many there are.

        Parameters
        ----------
        ids : sequence of n str, or RowNames
            The names of the rows.
        """
        listed = [{"id": ids[label.row], **vars(label)} for label in self.doubtful[:_MOST_LISTED]]
        return {
            **vars(self),
            "baselines": dict(self.baselines),
            "doubtful_count": len(self.doubtful),
            "doubtful": listed,
        }


def held_out_opinions(classifier: DAHGNNClassifier) -> Array:
    """Return what is said of held-out rows, (m, c), by what was learned from labels alone.

    Known shares of the classes are taken out: they are those of all rows, and the labels have others.
    """
    said = classifier.held_out_distributions_
    factors = classifier.ensemble_.combined.factors
    if factors is None or not len(said):
        return said
    plain = said / factors
    return np.asarray(plain / plain.sum(1, keepdims=True))


def assess(classifier: DAHGNNClassifier, features: Array, labels: ArrayLike) -> Assessment:
    """Assess a fitted classifier by the labels that it held out.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Fitted to these features and labels.
    features : array, (n, d)
        The rows as they were given.
    labels : array, (n,)
        Their labels, None where there is none.
    """
    classes, numbers = encode_labels(labels, len(features))
    return assess_encoded(classifier, features, classes, numbers.numpy())


def assess_encoded(
    classifier: DAHGNNClassifier, features: Array, classes: ArrayLike, encoded: Array
) -> Assessment:
    """Assess a fitted classifier as `assess` does.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Fitted to these features and labels.
    features : array, (n, d)
        The rows as they were given; they may be in a file.
    classes : array, (c,)
        The names of the classes.
    encoded : array of int, (n,)
        The number of each row's class, −1 where there is none.
    """
    classes = np.asarray(classes)
    held, said = classifier.held_out_indices_, held_out_opinions(classifier)
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (encoded[held], said.argmax(1)), 1)
    found = confusion.diagonal()
    baselines, used = _judge_baselines(classifier, features, encoded)
    return Assessment(
        classes=tuple(map(str, classes)),
        given=tuple(np.bincount(encoded[encoded >= 0], minlength=len(classes)).tolist()),
        confusion=tuple(map(tuple, confusion.tolist())),
        recall=_shares(found, confusion.sum(1)),
        precision=_shares(found, confusion.sum(0)),
        accuracy=_shares(found.sum(keepdims=True), confusion.sum(keepdims=True).ravel())[0],
        baselines=baselines,
        baseline_labels=used,
        doubtful=find_doubtful(classes, encoded, held, said),
    )


def _shares(parts: Array, wholes: Array) -> tuple[float | None, ...]:
    return tuple(
        part / whole if whole else None for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True)
    )


def find_doubtful(classes: Array, encoded: Array, held: Array, said: Array) -> tuple[DoubtfulLabel, ...]:
    """Return the held-out labels that are contradicted, the clearest first.

    Parameters
    ----------
    classes : array, (c,)
        The names of the classes.
    encoded : array of int, (n,)
        The class of each given label, −1 where there is none.
    held : array of int, (h,)
        Rows whose labels were held out.
    said : array, (h, c)
        What is said of them by those who have not seen the labels.
    """
    given, opinion = encoded[held], said.argmax(1)
    places = np.arange(len(held))
    own, other = said[places, given], said[places, opinion]
    usual = np.bincount(encoded[encoded >= 0], minlength=len(classes)) / (encoded >= 0).sum()
    doubtful = np.flatnonzero((opinion != given) & (other >= _LIKELY) & (own < usual[given] / _RARER))
    return tuple(
        DoubtfulLabel(
            row=int(held[place]),
            given=str(classes[given[place]]),
            opinion=str(classes[opinion[place]]),
            probability=float(other[place]),
            given_probability=float(own[place]),
        )
        for place in doubtful[np.argsort(own[doubtful] - other[doubtful], kind="stable")]
    )


def _judge_baselines(
    classifier: DAHGNNClassifier, features: Array, encoded: Array
) -> tuple[dict[str, float | None], int]:
    """Return the accuracy of each baseline on held-out labels, and how many labels they had."""
    generator = np.random.RandomState(0)
    rows = np.flatnonzero(encoded >= 0)
    if len(rows) > _MOST_LABELS:
        rows = np.sort(generator.permutation(rows)[:_MOST_LABELS])
    judged = np.isin(rows, classifier.held_out_indices_)
    classes, labels = np.unique(encoded[rows], return_inverse=True)
    if judged.sum() < _FEWEST_JUDGED or len(classes) < 2:
        return dict.fromkeys(BASELINES), len(rows)
    scaled = classifier.ensemble_.scaling.apply(np.asarray(features)[rows])
    together = join_copies(equal_rows(classifier.ensemble_.features), encoded)[rows]
    folds = _split(labels, classes, together, generator)
    known = _shorten(scaled.numpy()[:, :-1])
    accuracies: dict[str, float | None] = {}
    for name in BASELINES:
        said = _cross_validate(name, known, labels, folds)
        with_one = judged & (said.sum(1) > 0)  # the only label of a class is never held out
        accuracies[name] = float((said.argmax(1) == labels)[with_one].mean()) if with_one.any() else None
    return accuracies, len(rows)


def _split(
    labels: Array, classes: Array, together: Array, generator: np.random.RandomState
) -> list[tuple[Array, Array]]:
    """Return rows to learn from and rows to judge, drawn as the classifier draws its own."""
    numbers = torch.from_numpy(labels)
    splits = split_labels(numbers, classes, 1 / _FOLDS, _FOLDS, generator, together)
    return [(split.train.numpy(), split.validation.numpy()) for split in splits if len(split.validation)]


def _shorten(rows: Array) -> Array:
    """Return rows with the same products in as many columns as there are rows, if they have more.

    Logistic regression and nearest neighbours are the same for both, but cost less.
    """
    if rows.shape[1] <= rows.shape[0]:
        return rows
    (triangle,) = qr(rows.T, mode="r", check_finite=False)
    return np.asarray(triangle[: len(rows)].T)


def _cross_validate(name: str, rows: Array, labels: Array, folds: list[tuple[Array, Array]]) -> Array:
    """Return what models that have not seen its label say of each row, (n, c), summed over the folds."""
    said = np.zeros((len(labels), labels.max() + 1))
    for train, judged in folds:
        model = _make_baseline(name, len(train))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows[train], labels[train])
        said[judged] += model.predict_proba(rows[judged])
    return said


def _make_baseline(name: str, count: int) -> Any:
    """Return a new model, for so many rows to learn from."""
    if name == "majority":
        return DummyClassifier(strategy="prior")
    if name == "logistic_regression":
        return LogisticRegression(max_iter=100, tol=1e-3)
    return KNeighborsClassifier(min(_NEIGHBOURS, count))
