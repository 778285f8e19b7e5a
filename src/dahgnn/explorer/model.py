"""One fit of the labels so far: what it says of every row, and what it learned that from."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.estimator import DAHGNNClassifier
from dahgnn.classifier.explanation import Explanation, explain
from dahgnn.classifier.stacking import say_combination
from dahgnn.classifier.surroundings import Surroundings
from dahgnn.report.assessment import DoubtfulLabel, find_doubtful, held_out_opinions

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A fitted classifier, and which labels it has seen.

    Parameters
    ----------
    number : int
        Models are numbered from 1 on.
    event : int
        The last event of the journal that it has seen.
    classifier : DAHGNNClassifier
        Fitted to all rows.
    labels : sequence of n (str or None)
        The labels that it learned from.
    seconds, finished : float
        How long the fit took, and when it was done, in seconds since 1970.
    changed : array of int
        Rows whose likeliest class is another than that of the model before.
    before : array of str
        What that was, one for each of them.
    """

    number: int
    event: int
    classifier: DAHGNNClassifier
    labels: Array
    seconds: float
    finished: float
    changed: Array = field(default_factory=lambda: np.empty(0, np.int64))
    before: Array = field(default_factory=lambda: np.empty(0, object))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes that it knows."""
        return tuple(map(str, self.classifier.classes_))

    @cached_property
    def predicted(self) -> Array:
        """The place of the likeliest class among the model's classes, (n,)."""
        return np.asarray(self.classifier.label_distributions_.argmax(1))

    @cached_property
    def confidence(self) -> Array:
        """The probability of that class, (n,)."""
        return np.asarray(self.classifier.label_distributions_.max(1))

    @cached_property
    def n_labelled(self) -> int:
        """How many labels it learned from."""
        return len(self.classifier.labelled_indices_)

    @property
    def says(self) -> str:
        """A sentence on whom its labels come from."""
        return f"Labels come from {say_combination(self.classifier.combination_)}."

    def guess(self, row: int) -> str:
        """Return the likeliest class of a row."""
        return self.classes[int(self.predicted[row])]

    def likely(self, row: int, most: int) -> list[tuple[str, float]]:
        """Return the likeliest classes of a row and their probabilities, the likeliest first."""
        shares = self.classifier.label_distributions_[row]
        order = np.argsort(-shares, kind="stable")[:most]
        return [(self.classes[place], float(shares[place])) for place in order]

    def explain(self, row: int) -> Explanation:
        """Return where the label of a row comes from."""
        return explain(self.classifier, row)

    @cached_property
    def opinions(self) -> dict[int, str]:
        """What those say of a labelled row who have not seen its label: the likeliest class by row."""
        said = held_out_opinions(self.classifier).argmax(1) if len(self.classifier.held_out_indices_) else ()
        held = self.classifier.held_out_indices_.tolist()
        return {row: self.classes[place] for row, place in zip(held, said, strict=True)}

    @cached_property
    def doubtful(self) -> tuple[DoubtfulLabel, ...]:
        """The labels that those contradict, the clearest first."""
        held = self.classifier.held_out_indices_
        if not len(held):
            return ()
        places = {name: place for place, name in enumerate(self.classes)}
        encoded = np.array([places.get(label, -1) for label in self.labels])
        return find_doubtful(np.array(self.classes), encoded, held, held_out_opinions(self.classifier))


def fit_model(
    classifier: DAHGNNClassifier,
    features: Array,
    labels: Array,
    surroundings: Surroundings,
    *,
    event: int,
    last: Model | None,
    callback: Callable[[int, Any], None] | None = None,
) -> Model:
    """Fit a new model.

    Parameters
    ----------
    classifier : DAHGNNClassifier
        Not fitted.
    features : array, (n, d)
        The rows.
    labels : array of n (str or None)
        Their labels.
    surroundings : Surroundings
        Who is near whom, which stays from fit to fit.
    event : int
        The last event that the labels know of.
    last : Model or None
        The model before.
    callback : callable, optional
        As in `DAHGNNClassifier.fit`.
    """
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, of nearly as many classes as labels
        classifier.fit(features, labels, neighbors=surroundings, callback=callback)
    return compare(
        Model(
            number=1 if last is None else last.number + 1,
            event=event,
            classifier=classifier,
            labels=labels,
            seconds=time.perf_counter() - start,
            finished=time.time(),
        ),
        last,
    )


def compare(model: Model, last: Model | None) -> Model:
    """Return a model that knows which rows it sees otherwise than the one before."""
    if last is None:
        return model
    names, before = np.array(model.classes, dtype=object), np.array(last.classes, dtype=object)
    changed = np.flatnonzero(names[model.predicted] != before[last.predicted])
    return replace(model, changed=changed, before=before[last.predicted[changed]])
