"""Experts that look at a row's own features: a linear model and a kernel model.

Where neighbours mislead, as among few rows or many irrelevant columns, these are the better ones. An expert
chooses its settings by cross-validation within the labelled rows, and is then fitted to several parts of
them at a time: all but each fold, so that every label is judged by a model that has not seen it, and all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.classifier.logistic import Rotation, fit_logistic, rotate
from dahgnn.ops.distances import working_precision
from dahgnn.ops.matrices import tall_product

Array = NDArray[Any]

# Inverse strengths of the linear model's penalty, for rows of mean square length nine (`graph.scaling`).
_PENALTIES = (0.03, 0.3, 3.0, 30.0)
# How much larger than usual the gradient may be where models are only compared. That takes half of the steps,
# and confuses only models that are nearly as good.
_LOOSELY = 3.0
# How fast the kernel falls, in the mean squared distance of a row to the mean, and its ridge.
_WIDTHS, _RIDGES = (0.25, 1.0, 3.0), (1e-3, 1e-2, 1e-1, 1.0)
# Of a row that counts much: with less, rounding makes the system unsolvable.
LEAST_RIDGE = 1e-4
# By what the kernel model's scores, which are near 0 and 1, are multiplied before the softmax.
_SHARPNESS = 4.0
# Labelled rows by which the linear and the kernel model choose settings, and centres of the latter, at most.
_MOST_TO_CHOOSE, _MOST_TO_CHOOSE_A_KERNEL, _MOST_CENTRES = 1000, 600, 5000
# Numbers of a block of the kernel that predicts. On a GPU each block costs the host some launches.
_BLOCK, _BLOCK_GPU = 1 << 22, 1 << 24


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """What an expert learns from.

    Attributes
    ----------
    features : Tensor, (l, d)
        The labelled rows, scaled, on the device where the expert is to learn.
    labels : array of int, (l,)
        Their classes.
    n_classes : int
        How many there are.
    weights : array, (l,)
        How much each row counts; one is usual.
    """

    features: Tensor
    labels: Array
    n_classes: int
    weights: Array

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Array) -> LabelledRows:
        """Return some of the rows."""
        if np.array_equal(rows, np.arange(len(self))):
            return self
        there = torch.as_tensor(rows, device=self.features.device)
        return LabelledRows(self.features[there], self.labels[rows], self.n_classes, self.weights[rows])

    def sample(self, most: int) -> Array:
        """Return about so many places, evenly from the order of the classes, one of each at the least."""
        if len(self) <= most:
            return np.arange(len(self))
        order = np.argsort(self.labels, kind="stable")
        chosen = order[np.linspace(0, len(self) - 1, most).round().astype(np.int64)]
        missing = np.setdiff1d(self.labels, self.labels[chosen])
        firsts = [np.flatnonzero(self.labels == label)[0] for label in missing]
        return np.sort(np.r_[chosen, firsts].astype(np.int64))

    @cached_property
    def rotation(self) -> Rotation:
        """The directions of the rows, which a linear model needs to choose and to learn."""
        return rotate(self.features)

    @property
    def targets(self) -> Array:
        """One in the column of the row's class, and zero elsewhere, (l, c)."""
        return np.eye(self.n_classes)[self.labels]


class Model(Protocol):
    """What an expert has learned from some parts of the rows: it gives the probabilities of any row."""

    def predict(self, features: Tensor) -> Tensor:
        """Return the probabilities of rows (q, d) by each part, (q, parts, c)."""

    def last(self) -> Self:
        """Return the model of the last part alone, on the CPU."""

    def as_arrays(self) -> dict[str, Array]:
        """Return what `from_arrays` of its expert needs, for a file."""


class FeatureExpert(Protocol):
    """A way to learn from labelled rows alone."""

    def suits(self, rows: LabelledRows, /) -> bool:
        """Tell whether the expert has something to say of such rows."""

    def choose(self, rows: LabelledRows) -> Any:
        """Return the settings that cross-validation prefers."""

    def fit(self, rows: LabelledRows, parts: Sequence[Array], settings: Any) -> Model:
        """Fit a model with these settings to each part of the rows, given by their places."""

    def from_arrays(self, arrays: Mapping[str, Array]) -> Model:
        """Make a model of what `Model.as_arrays` gave."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Logistic regression: (d, parts, c) coefficients and (parts, c) intercepts."""

    coefficients: Tensor
    intercepts: Tensor

    def predict(self, features: Tensor) -> Tensor:
        """Return the probabilities of rows (q, d), (q, parts, c)."""
        scores = features @ self.coefficients.flatten(1)
        distributions: Tensor = (scores.unflatten(1, self.intercepts.shape) + self.intercepts).softmax(2)
        return distributions

    def last(self) -> LinearModel:
        """Return the model of the last part alone."""
        return LinearModel(self.coefficients[:, -1:].cpu().contiguous(), self.intercepts[-1:].cpu())

    def as_arrays(self) -> dict[str, Array]:
        """Return coefficients and intercepts."""
        return {"coefficients": self.coefficients.numpy(), "intercepts": self.intercepts.numpy()}


class LinearExpert:
    """Logistic regression with a quadratic penalty."""

    def suits(self, _: LabelledRows, /) -> bool:
        """Tell that it is for all rows."""
        return True

    def choose(self, rows: LabelledRows) -> float:
        """Return the inverse strength of the penalty with the least cross-validated loss."""
        from sklearn.model_selection import StratifiedKFold

        rows = rows.take(rows.sample(_MOST_TO_CHOOSE))
        count = min(3, int(np.bincount(rows.labels).min()))
        if count < 2:
            return _PENALTIES[2]
        folds = list(StratifiedKFold(count, shuffle=True, random_state=0).split(rows.labels, rows.labels))
        parts = [train for train, _ in folds for _ in _PENALTIES]
        models = self._fit(rows, parts, _PENALTIES * count, looseness=_LOOSELY)
        said = models.predict(rows.features).cpu().numpy()
        losses = np.zeros(len(_PENALTIES))
        for number, (_, test) in enumerate(folds):
            own = said[test, number * len(_PENALTIES) :][np.arange(len(test)), :, rows.labels[test]]
            losses -= rows.weights[test] @ np.log(np.maximum(own[:, : len(_PENALTIES)], 1e-6))
        return _PENALTIES[int(losses.argmin())]

    def fit(self, rows: LabelledRows, parts: Sequence[Array], settings: float) -> LinearModel:
        """Fit a model to each part."""
        return self._fit(rows, parts, [settings] * len(parts))

    def _fit(
        self, rows: LabelledRows, parts: Sequence[Array], penalties: Sequence[float], looseness: float = 1.0
    ) -> LinearModel:
        """Fit a model to each part, each with its own inverse strength of the penalty."""
        counts = np.zeros((len(parts), len(rows)))
        for number, part in enumerate(parts):
            counts[number, part] = rows.weights[part]
        device = rows.features.device
        labels, weights = (torch.from_numpy(each).to(device) for each in (rows.labels, counts))
        inverse = torch.tensor(penalties, device=device)
        found = fit_logistic(
            rows.features, labels, rows.n_classes, weights, inverse, rows.rotation, looseness=looseness
        )
        return LinearModel(*found)

    def from_arrays(self, arrays: Mapping[str, Array]) -> LinearModel:
        """Make a model of its arrays."""
        return LinearModel(torch.from_numpy(arrays["coefficients"]), torch.from_numpy(arrays["intercepts"]))


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Kernel ridge regression of the classes: Σ_j exp(−width ‖x − x_j‖²) a_j + b.

    Attributes
    ----------
    centres : Tensor, (l, d)
        x_j, of all parts.
    coefficients : Tensor, (l, parts, c)
        a_j; zero where a part has not the centre.
    intercepts : Tensor, (parts, c)
        b.
    width : float
        How fast the kernel falls.
    """

    centres: Tensor
    coefficients: Tensor
    intercepts: Tensor
    width: float

    def predict(self, features: Tensor) -> Tensor:
        """Return the probabilities of rows (q, d), (q, parts, c)."""
        step = max(1, (_BLOCK_GPU if features.is_cuda else _BLOCK) // max(1, len(self.centres)))
        blocks = [
            gaussian_kernel(some, self.centres, self.width) @ self.coefficients.flatten(1)
            for some in features.split(step)
        ]
        scores = torch.cat(blocks).unflatten(1, self.intercepts.shape) + self.intercepts
        return as_distributions(scores)

    def last(self) -> KernelModel:
        """Return the model of the last part alone."""
        own = self.coefficients[:, -1:].cpu()
        there = own.abs().amax((1, 2)) > 0
        there = there if bool(there.any()) else ~there
        centres = self.centres.cpu()[there]
        return KernelModel(centres, own[there].contiguous(), self.intercepts[-1:].cpu(), self.width)

    def as_arrays(self) -> dict[str, Array]:
        """Return centres, coefficients, intercepts and the width."""
        return {
            "centres": self.centres.numpy(),
            "coefficients": self.coefficients.numpy(),
            "intercepts": self.intercepts.numpy(),
            "width": np.array([self.width]),
        }


class KernelExpert:
    """Ridge regression of the classes with a Gaussian kernel."""

    def suits(self, _: LabelledRows, /) -> bool:
        """Tell that it is for all rows."""
        return True

    def choose(self, rows: LabelledRows) -> tuple[float, float]:
        """Return width and ridge with the least squared error of each row by all others, in closed form."""
        rows = rows.take(rows.sample(_MOST_TO_CHOOSE_A_KERNEL))
        targets = torch.from_numpy(rows.targets - rows.targets.mean(0)).to(rows.features.device)
        spread = float((rows.features - rows.features.mean(0)).double().square().sum(1).mean()) or 1.0
        widths = [width / spread for width in _WIDTHS]
        kernels = torch.stack(
            [gaussian_kernel(rows.features, rows.features, width).double() for width in widths]
        )
        ridges = torch.tensor(_RIDGES, dtype=torch.float64, device=kernels.device)
        one = torch.eye(len(rows), dtype=torch.float64, device=kernels.device)
        roots, failed = torch.linalg.cholesky_ex(kernels[:, None] + ridges[:, None, None] * one)
        # Rounding may leave a system that is not positive, whose settings are out of the question.
        roots = torch.where(failed[..., None, None] == 0, roots, one)
        inverse = torch.cholesky_inverse(roots)  # (widths, ridges, l, l)
        left_out = (inverse @ targets) / inverse.diagonal(dim1=2, dim2=3)[..., None]
        errors = torch.where(failed == 0, left_out.square().sum((2, 3)), torch.inf)
        width, ridge = divmod(int(errors.cpu().argmin()), len(_RIDGES))
        return widths[width], _RIDGES[ridge]

    def fit(self, rows: LabelledRows, parts: Sequence[Array], settings: tuple[float, float]) -> KernelModel:
        """Fit a model to each part; a row that counts more has a smaller ridge."""
        width, ridge = settings
        centres = rows.sample(_MOST_CENTRES)
        rows = rows.take(centres)
        device = rows.features.device
        kernel = gaussian_kernel(rows.features, rows.features, width).double()
        ridges = np.maximum(ridge / np.maximum(rows.weights, 1e-6), LEAST_RIDGE)
        kernel += torch.from_numpy(ridges).to(device).diag()
        coefficients = rows.features.new_zeros((len(rows), len(parts), rows.n_classes))
        intercepts = rows.features.new_zeros((len(parts), rows.n_classes))
        for number, part in enumerate(parts):
            own = np.flatnonzero(np.isin(centres, part))
            targets = torch.from_numpy(rows.targets[own]).to(device)
            there = torch.from_numpy(own).to(device)
            factor = torch.linalg.cholesky(kernel[there[:, None], there])
            solved = torch.cholesky_solve(targets - targets.mean(0), factor)
            coefficients[there, number] = solved.to(coefficients)
            intercepts[number] = targets.mean(0)
        return KernelModel(rows.features, coefficients, intercepts, width)

    def from_arrays(self, arrays: Mapping[str, Array]) -> KernelModel:
        """Make a model of its arrays."""
        return KernelModel(
            torch.from_numpy(arrays["centres"]),
            torch.from_numpy(arrays["coefficients"]),
            torch.from_numpy(arrays["intercepts"]),
            float(arrays["width"][0]),
        )


def as_distributions(scores: Tensor) -> Tensor:
    """Return the kernel model's scores, (…, c), as distributions."""
    return (_SHARPNESS * scores).softmax(-1)


def gaussian_kernel(here: Tensor, there: Tensor, width: float) -> Tensor:
    """Return exp(−width ‖x − y‖²) of all pairs, (q, l)."""
    middle = there.mean(0)  # without it, far from zero, distances are small differences of large numbers
    work = working_precision(here.dtype)  # a product that rounds more would leave no positive definite matrix
    left, right = (here - middle).to(work), (there - middle).to(work)
    # Squares of both lengths, less twice the scalar product: one product of longer rows.
    left = torch.cat([-2 * left, left.square().sum(1, keepdim=True), left.new_ones(len(left), 1)], 1)
    right = torch.cat([right, right.new_ones(len(right), 1), right.square().sum(1, keepdim=True)], 1)
    return tall_product(left, right.T).clamp_min_(0).mul_(-width).exp_().to(here.dtype)
