"""The scale of a table's columns: kept with a model, so that new rows get the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import check_choice
from dahgnn.knn import knn

SCALES = ("auto", "columns", "whole", "none")
# Of scaled rows, in the mean of squares. The learning rate is for rows of about this length.
_LENGTH = 3.0
# Labelled rows that "auto" looks at.
_MOST_LOOKED_AT = 5000
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is subtracted from rows, and what they are multiplied with.

    Attributes
    ----------
    shift, factor : Tensor of float64, (d,)
        One number a column.
    """

    shift: Tensor
    factor: Tensor

    def apply(self, rows: NDArray[Any]) -> Tensor:
        """Return the scaled rows and a column of ones, (n, d + 1) of float32.

        The ones are the bias that the network has not: without them it could not tell a group of rows in the
        middle from the middle of all. Distances do not see them.
        """
        scaled = np.ones((len(rows), rows.shape[1] + 1), dtype=np.float32)
        shift, factor = self.shift.numpy(), self.factor.numpy()
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            # In float64: a column may be a small difference of large numbers. Zeros lose their sign, so that
            # equal rows have equal bytes.
            scaled[start : start + _ROWS_AT_ONCE, :-1] = (some - shift) * factor
        scaled += 0.0
        return torch.from_numpy(scaled)


def choose_scaling(
    rows: NDArray[Any], labels: Tensor, kind: str, generator: np.random.RandomState | None = None
) -> Scaling:
    """Return a scaling of the rows.

    Parameters
    ----------
    rows : array of float, (n, d)
        The table.
    labels : Tensor of int64, (n,)
        Classes, −1 where unknown; read by "auto" alone.
    kind : {"auto", "columns", "whole", "none"}
        See `DAHGNNClassifier`.
    generator : RandomState, optional
        Draws the rows that "auto" looks at, where there are many.
    """
    check_choice("scale", kind, SCALES, "DAHGNNClassifier")
    if kind != "auto":
        return _scaling(rows, kind)
    known = np.flatnonzero(labels.numpy() >= 0)
    whole, columns = (_scaling(rows, each) for each in ("whole", "columns"))
    if len(known) < 2:
        return whole
    if len(known) > _MOST_LOOKED_AT:
        known = (generator or np.random.RandomState(0)).choice(known, _MOST_LOOKED_AT, replace=False)
    agree = [_agreement(scaling.apply(rows[known]), labels[known]) for scaling in (whole, columns)]
    return columns if agree[1] > agree[0] else whole


def _scaling(rows: NDArray[Any], kind: str) -> Scaling:
    d = rows.shape[1]
    if kind == "none":
        return _as_scaling(np.zeros(d), np.ones(d))
    mean, deviation = rows.mean(0, dtype=np.float64), rows.std(0, dtype=np.float64)
    # Rounding alone makes a column of constants differ from its mean.
    varies = deviation > 1e-12 * np.abs(mean)
    if not varies.any():
        return _as_scaling(mean, np.zeros(d))
    if kind == "whole":
        factor = np.where(varies, _LENGTH / np.sqrt(np.sum(deviation[varies] ** 2)), 0)
    else:
        factor = _LENGTH / np.sqrt(varies.sum()) / np.where(varies, deviation, np.inf)
    return _as_scaling(mean, factor)


def _as_scaling(shift: NDArray[Any], factor: NDArray[Any]) -> Scaling:
    return Scaling(torch.from_numpy(shift), torch.from_numpy(factor))


def _agreement(features: Tensor, labels: Tensor) -> float:
    """Return the share of rows whose nearest other row has their label."""
    closest = knn(features, 1).indices.squeeze(1)
    return float((labels[closest] == labels).double().mean())
