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


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is subtracted from rows, and what they are multiplied with.

    Attributes
    ----------
    shift, factor : Tensor, (d,)
        One number a column.
    """

    shift: Tensor
    factor: Tensor

    def apply(self, rows: NDArray[Any]) -> Tensor:
        """Return the scaled rows, (n, d) of float32."""
        return (torch.from_numpy(rows) - self.shift) * self.factor


def choose_scaling(rows: NDArray[Any], labels: Tensor, kind: str) -> Scaling:
    """Return a scaling of the rows.

    Parameters
    ----------
    rows : array of float32, (n, d)
        The table.
    labels : Tensor of int64, (n,)
        Classes, −1 where unknown; read by "auto" alone.
    kind : {"auto", "columns", "whole", "none"}
        See `DAHGNNClassifier`.
    """
    check_choice("scale", kind, SCALES, "DAHGNNClassifier")
    if kind != "auto":
        return _scaling(rows, kind)
    known = torch.nonzero(labels >= 0).squeeze(1)
    whole, columns = (_scaling(rows, each) for each in ("whole", "columns"))
    if len(known) < 2:
        return whole
    known = known[:: -(-len(known) // _MOST_LOOKED_AT)]
    agree = [_agreement(scaling.apply(rows[known.numpy()]), labels[known]) for scaling in (whole, columns)]
    return columns if agree[1] > agree[0] else whole


def _scaling(rows: NDArray[Any], kind: str) -> Scaling:
    d = rows.shape[1]
    if kind == "none":
        return Scaling(torch.zeros(d), torch.ones(d))
    mean, deviation = rows.mean(0, dtype=np.float64), rows.std(0, dtype=np.float64)
    # Rounding alone makes a column of constants differ from its mean.
    varies = deviation > 10 * np.finfo(np.float32).eps * np.abs(mean)
    if not varies.any():
        return Scaling(torch.from_numpy(mean.astype(np.float32)), torch.zeros(d))
    if kind == "whole":
        factor = np.full(d, _LENGTH / np.sqrt(np.sum(deviation[varies] ** 2)))
    else:
        factor = _LENGTH / np.sqrt(varies.sum()) / np.where(varies, deviation, np.inf)
    return Scaling(*(torch.from_numpy(each.astype(np.float32)) for each in (mean, factor)))


def _agreement(features: Tensor, labels: Tensor) -> float:
    """Return the share of rows whose nearest other row has their label."""
    closest = knn(features, 1).indices.squeeze(1)
    return float((labels[closest] == labels).double().mean())
