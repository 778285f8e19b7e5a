"""Experts that look at a row's own features: a linear model and a kernel model.

Where neighbours mislead, as among few rows or many irrelevant columns, these are the better ones. An expert
chooses its settings by cross-validation within the labelled rows, and is then fitted to all of them and to
all but each fold, so that every label is judged by a model that has not seen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

Array = NDArray[Any]

# Inverse strengths of the linear model's penalty, for rows of mean square length nine (`graph.scaling`).
_PENALTIES = (0.03, 0.3, 3.0, 30.0)
# How fast the kernel falls, in the mean squared distance of a row to the mean, and its ridge.
_WIDTHS, _RIDGES = (0.25, 1.0, 3.0), (1e-3, 1e-2, 1e-1, 1.0)
# By what the kernel model's scores, which are near 0 and 1, are multiplied before the softmax.
_SHARPNESS = 4.0
# Settings are chosen by so many labelled rows at the most, and the kernel has so many of them.
_MOST_TO_CHOOSE, _MOST_CENTRES = 1000, 5000
# Steps of the linear model's optimiser, and the gradient at which it stops.
_STEPS, _GRADIENT = 200, 1e-3


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """What an expert learns from.

    Attributes
    ----------
    features : array, (l, d)
        The labelled rows, scaled.
    labels : array of int, (l,)
        Their classes.
    n_classes : int
        How many there are.
    weights : array, (l,)
        How much each row counts; one is usual.
    """

    features: Array
    labels: Array
    n_classes: int
    weights: Array

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Array) -> LabelledRows:
        """Return some of the rows."""
        return LabelledRows(self.features[rows], self.labels[rows], self.n_classes, self.weights[rows])

    def sample(self, most: int) -> LabelledRows:
        """Return about so many rows, evenly from the order of their classes, one of each at the least."""
        if len(self) <= most:
            return self
        order = np.argsort(self.labels, kind="stable")
        chosen = order[np.linspace(0, len(self) - 1, most).round().astype(np.int64)]
        missing = np.setdiff1d(self.labels, self.labels[chosen])
        firsts = [np.flatnonzero(self.labels == label)[0] for label in missing]
        return self.take(np.r_[chosen, firsts].astype(np.int64))

    @property
    def targets(self) -> Array:
        """One in the column of the row's class, and zero elsewhere, (l, c)."""
        return np.eye(self.n_classes)[self.labels]


class Model(Protocol):
    """What an expert has learned: it gives the probabilities of any row."""

    def predict(self, features: Array) -> Array:
        """Return the probabilities of rows (q, d), (q, c)."""

    def as_arrays(self) -> dict[str, Array]:
        """Return what `from_arrays` of its expert needs, for a file."""


class FeatureExpert(Protocol):
    """A way to learn from labelled rows alone."""

    def suits(self, rows: LabelledRows, /) -> bool:
        """Tell whether the expert has something to say of such rows."""

    def choose(self, rows: LabelledRows) -> Any:
        """Return the settings that cross-validation prefers."""

    def fit(self, rows: LabelledRows, settings: Any) -> Model:
        """Fit a model with these settings."""

    def from_arrays(self, arrays: Mapping[str, Array]) -> Model:
        """Make a model of what `Model.as_arrays` gave."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Logistic regression: (d, c) coefficients and (c,) intercepts."""

    coefficients: Array
    intercepts: Array

    def predict(self, features: Array) -> Array:
        """Return the probabilities of rows (q, d), (q, c)."""
        return np.asarray(softmax(features @ self.coefficients + self.intercepts, axis=1))

    def as_arrays(self) -> dict[str, Array]:
        """Return coefficients and intercepts."""
        return {"coefficients": self.coefficients, "intercepts": self.intercepts}


class LinearExpert:
    """Logistic regression with a quadratic penalty (scikit-learn's)."""

    def suits(self, _: LabelledRows, /) -> bool:
        """Tell that it is for all rows."""
        return True

    def choose(self, rows: LabelledRows) -> float:
        """Return the inverse strength of the penalty with the least cross-validated loss."""
        from sklearn.model_selection import StratifiedKFold

        rows = rows.sample(_MOST_TO_CHOOSE)
        parts = min(3, int(np.bincount(rows.labels).min()))
        if parts < 2:
            return _PENALTIES[2]
        folds = list(StratifiedKFold(parts, shuffle=True, random_state=0).split(rows.labels, rows.labels))

        def loss(penalty: float) -> float:
            return sum(
                _log_loss(self.fit(rows.take(train), penalty).predict(rows.features[test]), rows.take(test))
                for train, test in folds
            )

        return min(_PENALTIES, key=loss)

    def fit(self, rows: LabelledRows, settings: float) -> LinearModel:
        """Fit a model; where there are more columns than rows, within the span of the rows."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        features, directions = rows.features, None
        if features.shape[1] > len(rows):
            directions = np.linalg.svd(features, full_matrices=False)[2].T  # (d, l)
            features = features @ directions
        regression = LogisticRegression(C=settings, max_iter=_STEPS, tol=_GRADIENT)
        with warnings.catch_warnings():  # nearly the best penalised loss is as good
            warnings.simplefilter("ignore", ConvergenceWarning)
            regression.fit(features, rows.labels, sample_weight=rows.weights)
        coefficients, intercepts = regression.coef_.T, regression.intercept_
        if rows.n_classes == 2:  # scikit-learn then has one column, the second class against the first
            coefficients = np.column_stack([np.zeros_like(coefficients), coefficients])
            intercepts = np.array([0.0, intercepts[0]])
        coefficients = coefficients if directions is None else directions @ coefficients
        return LinearModel(np.ascontiguousarray(coefficients), intercepts)

    def from_arrays(self, arrays: Mapping[str, Array]) -> LinearModel:
        """Make a model of its arrays."""
        return LinearModel(arrays["coefficients"], arrays["intercepts"])


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Kernel ridge regression of the classes: Σ_j exp(−width ‖x − x_j‖²) a_j + b."""

    centres: Array
    coefficients: Array
    intercepts: Array
    width: float

    def predict(self, features: Array) -> Array:
        """Return the probabilities of rows (q, d), (q, c)."""
        scores = np.empty((len(features), len(self.intercepts)))
        step = max(1, (1 << 24) // max(1, len(self.centres)))
        for start in range(0, len(features), step):
            some = features[start : start + step]
            scores[start : start + step] = _kernel(some, self.centres, self.width) @ self.coefficients
        return np.asarray(softmax(_SHARPNESS * (scores + self.intercepts), axis=1))

    def as_arrays(self) -> dict[str, Array]:
        """Return centres, coefficients, intercepts and the width."""
        return {
            "centres": self.centres,
            "coefficients": self.coefficients,
            "intercepts": self.intercepts,
            "width": np.array([self.width]),
        }


class KernelExpert:
    """Ridge regression of the classes with a Gaussian kernel."""

    def suits(self, _: LabelledRows, /) -> bool:
        """Tell that it is for all rows."""
        return True

    def choose(self, rows: LabelledRows) -> tuple[float, float]:
        """Return width and ridge with the least squared error of each row by all others, in closed form."""
        rows = rows.sample(_MOST_TO_CHOOSE)
        targets = rows.targets - rows.targets.mean(0)
        spread = float(((rows.features - rows.features.mean(0)) ** 2).sum(1).mean()) or 1.0
        errors = {}
        for width in _WIDTHS:
            values, vectors = np.linalg.eigh(_kernel(rows.features, rows.features, width / spread))
            rotated = vectors.T @ targets
            for ridge in _RIDGES:
                inverse = 1 / (np.clip(values, 0, None) + ridge)
                diagonal = vectors**2 @ inverse
                left_out = vectors @ (inverse[:, None] * rotated) / diagonal[:, None]
                errors[width / spread, ridge] = float((left_out**2).sum())
        return min(errors, key=lambda settings: errors[settings])

    def fit(self, rows: LabelledRows, settings: tuple[float, float]) -> KernelModel:
        """Fit a model; a row that counts more has a smaller ridge."""
        rows = rows.sample(_MOST_CENTRES)
        width, ridge = settings
        mean = rows.targets.mean(0)
        matrix = _kernel(rows.features, rows.features, width)
        matrix[np.diag_indices_from(matrix)] += ridge / np.maximum(rows.weights, 1e-6)
        coefficients = cho_solve(cho_factor(matrix, overwrite_a=True), rows.targets - mean)
        # In the order of memory that a file has, so that one who comes back says the same to the last digit.
        centres, coefficients = map(np.ascontiguousarray, (rows.features, coefficients))
        return KernelModel(centres, coefficients, mean, width)

    def from_arrays(self, arrays: Mapping[str, Array]) -> KernelModel:
        """Make a model of its arrays."""
        return KernelModel(
            arrays["centres"], arrays["coefficients"], arrays["intercepts"], float(arrays["width"][0])
        )


def _kernel(here: Array, there: Array, width: float) -> Array:
    """Return exp(−width ‖x − y‖²) of all pairs, (q, l)."""
    from sklearn.metrics.pairwise import rbf_kernel

    return np.asarray(rbf_kernel(here, there, gamma=width), dtype=np.float64)


def _log_loss(probabilities: Array, rows: LabelledRows) -> float:
    own = probabilities[np.arange(len(rows)), rows.labels]
    return float(-(rows.weights * np.log(np.maximum(own, 1e-6))).sum())
