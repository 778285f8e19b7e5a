"""Labels of any type, some of them unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dahgnn.checks import bad_type, bad_value, check_number
from dahgnn.training.splits import Split

Array = NDArray[Any]

# Who is named in errors.
_OWNER = "DAHGNNClassifier"


def known_labels(y: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Return the labels that are known, and at which rows: not −1 among numbers, not None or NaN."""
    from sklearn.utils.validation import column_or_1d

    # NumPy would write a NaN between words as a word.
    labels = column_or_1d(np.asarray(y, dtype=None if hasattr(y, "dtype") else object), warn=True)
    known = ~_missing(labels)
    values = labels[known]
    if values.dtype.kind == "O":
        kinds = {str if isinstance(label, str) else type(label) for label in values}
        if len(kinds) > 1 and str in kinds:
            got = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise bad_type("y", "DAHGNNClassifier", "labels of one type", got)
        values = np.array(values.tolist())
    if values.dtype.kind == "U" and any("\0" in str(label) for label in labels[known]):
        raise bad_value("y", "DAHGNNClassifier", "words without the character NUL", "one with it")
    if values.dtype.kind in "iuf":
        if not np.isfinite(values).all():
            raise ValueError("Input y contains infinity or a value too large for a class.")
        known[np.flatnonzero(known)[values == -1]] = False
        values = values[values != -1]
    return values, known


def _missing(labels: Array) -> NDArray[np.bool_]:
    if labels.dtype.kind == "O":
        return np.array([_is_missing(label) for label in labels], dtype=bool)
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind in "mM":
        return np.asarray(np.isnat(labels))
    return np.zeros(len(labels), dtype=bool)


def _is_missing(label: object) -> bool:
    """Whether a label is None, NaN, or pandas' NA or NaT; NA is equal to nothing and says so by an error."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(np.isnan(label))


def encode_labels(y: ArrayLike | None, n: int) -> tuple[Array, Tensor]:
    """Return the classes, and the number of each row's class, (n,), −1 where it has none."""
    from sklearn.utils.multiclass import check_classification_targets

    if y is None:
        raise ValueError("DAHGNNClassifier requires y to be passed, but the target y is None.")
    labels, known = known_labels(y)
    if len(known) != n:
        raise ValueError(f"X and y must have as many rows. Got {n} and {len(known)}.")
    if len(labels):
        check_classification_targets(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        got = f"{len(classes)} class" if len(classes) else "no labelled row"
        remedy = "Unlabelled is -1 among numbers, and None or NaN."
        raise bad_value("y", "DAHGNNClassifier", "labels of at least two classes", got, remedy)
    encoded = np.full(n, -1, dtype=np.int64)
    encoded[known] = numbers
    return classes, torch.from_numpy(encoded)


def hold_out(encoded: Array, share: float, times: int, generator: np.random.RandomState) -> list[Array]:
    """Draw a share of each class several times, at least one row and never all; none of a class of one.

    No row is drawn twice before all of its class have been: five times a fifth is every row once, if there
    are five at least.
    """
    held: list[list[Array]] = [[] for _ in range(times)]
    for label in range(int(encoded.max()) + 1):
        rows = generator.permutation(np.flatnonzero(encoded == label))
        first = 0
        for time, chosen in enumerate(held):
            last = max(first + 1, round((time + 1) * share * len(rows)))
            chosen.append(rows[np.arange(first, min(last, first + len(rows) - 1)) % len(rows)])
            first = last
    return [np.sort(np.concatenate(chosen)) for chosen in held]


def split_labels(
    encoded: Tensor,
    classes: Array,
    validation: float | ArrayLike,
    count: int,
    generator: np.random.RandomState,
    groups: Array | None = None,
) -> list[Split]:
    """Return which labelled rows each of some networks trains with, and which it does not see.

    Parameters
    ----------
    encoded : Tensor of int64, (n,)
        Numbers of the classes, −1 where the label is not known.
    classes : array, (c,)
        Their names.
    validation : float or array of int
        See `DAHGNNClassifier`.
    count : int
        How many networks there are.
    generator : RandomState
        Draws the rows.
    groups : array of int, (n,), optional
        A number for each row, the same for equal ones. Those of one class are held out together: a copy of
        a row would tell its label.
    """
    known = np.flatnonzero(encoded.numpy() >= 0)
    if groups is None:
        groups = np.arange(len(encoded))
    copies = groups * len(classes) + encoded.numpy()  # the same number for equal rows of one class
    if np.ndim(validation) > 0:
        held = Split(train=[], validation=validation, test=[]).validation.numpy()
        if not np.isin(held, known).all():
            raise bad_value("validation", _OWNER, "labelled rows", f"row {held[~np.isin(held, known)][0]}")
        held = known[np.isin(copies[known], copies[held])]
        return [_split(held, known, encoded, classes)] * count
    check_number("validation", validation, _OWNER, low=0, high=1)
    share = float(validation)  # type: ignore[arg-type]
    if share == 0:
        return [Split(train=known, validation=[], test=[])] * count
    firsts = known[np.unique(copies[known], return_index=True)[1]]
    distinct = np.full(len(encoded), -1)
    distinct[firsts] = encoded.numpy()[firsts]
    parts = [
        known[np.isin(copies[known], copies[held])] for held in hold_out(distinct, share, count, generator)
    ]
    return [_split(held, known, encoded, classes) for held in parts]


def _split(held: Array, known: Array, encoded: Tensor, classes: Array) -> Split:
    train = np.setdiff1d(known, held)
    missing = np.setdiff1d(np.arange(len(classes)), encoded[train])
    if len(missing):
        names = ", ".join(map(str, classes[missing]))
        raise bad_value("validation", _OWNER, "such that each class keeps a row to train", f"none of {names}")
    return Split(train=train, validation=held, test=[])


def weigh_rows(
    sample_weight: ArrayLike | None,
    class_weight: Mapping[Any, float] | str | None,
    classes: Array,
    encoded: Tensor,
) -> Array | None:
    """Return how much each row counts, or None if all do alike; a row that does not, loses its label."""
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.validation import _check_sample_weight

    if sample_weight is None and class_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, encoded, dtype=np.float64, ensure_non_negative=True)
    weights = np.array(weights)
    encoded[torch.from_numpy(weights == 0)] = -1
    missing = np.setdiff1d(np.arange(len(classes)), encoded)
    if len(missing):
        expected = "positive at a labelled row of each class"
        names = ", ".join(map(str, classes[missing]))
        raise bad_value("sample_weight", "fit", expected, f"none of {names}")
    if class_weight is not None:
        known = encoded.numpy() >= 0
        numbers = encoded.numpy()[known]
        weights[known] *= compute_class_weight(class_weight, classes=classes, y=classes[numbers])[numbers]
    return weights


def encode_class_prior(prior: Mapping[Any, float] | ArrayLike | None, classes: Array) -> Array | None:
    """Return the known share of each class, (c,), or None; see ``class_prior`` of `DAHGNNClassifier`."""
    if prior is None:
        return None
    given: Any = prior
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in classes.tolist()]
        if unknown or len(given) != len(classes):
            names = ", ".join(map(str, classes))
            raise bad_value("class_prior", _OWNER, f"a share for each class, {names}", f"{dict(given)}")
        given = [given[name] for name in classes.tolist()]
    shares = np.asarray(given, dtype=np.float64)
    if shares.shape != classes.shape or not (np.isfinite(shares) & (shares > 0)).all():
        expected = f"{len(classes)} positive shares, one for each class"
        raise bad_value("class_prior", _OWNER, expected, f"{shares}")
    return np.asarray(shares / shares.sum())
