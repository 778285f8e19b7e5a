"""Labels of any type, some of them unknown."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from decimal import Decimal
from enum import Enum
from numbers import Integral, Number
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dahgnn.checks import as_indices, bad_type, bad_value, check_number
from dahgnn.training.splits import Split

Array = NDArray[Any]

# Who is named in errors.
_OWNER = "DAHGNNClassifier"
# Words that mean no label in other programs, or were made of such by `astype(str)`; here they are classes.
_LIKE_NO_LABEL = frozenset({"", "-1", "nan", "None"})
# Weights under this part of the largest one do not count; sums in float32 would not notice them.
_LIGHTEST = 1e-30
# Standard errors by which copies among labelled rows are more than chance: they come in twos and more, so
# that their number is less certain than that of rows on their own.
_SURE = 3.0


def known_labels(y: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Return the labels that are known, and at which rows: not −1 among numbers, not None or NaN.

    They are an array of numbers, words or flags, or one of objects where they are something else.
    """
    from sklearn.utils.validation import column_or_1d

    labels = column_or_1d(_as_array(y), warn=True)
    known = ~_missing(labels)
    values = labels[known]
    if values.dtype.kind == "O":
        values = _simplify(values)
    if values.dtype.kind == "U" and any("\0" in str(label) for label in labels[known]):
        raise bad_value("y", "DAHGNNClassifier", "words without the character NUL", "one with it")
    if values.dtype.kind in "iufO":
        if not _are_finite(values):
            raise ValueError("Input y contains infinity or a value too large for a class.")
        unlabelled = _are_minus_one(values)
        known[np.flatnonzero(known)[unlabelled]] = False
        values = values[~unlabelled]
    return values, known


def _as_array(y: Any) -> Array:
    kind = getattr(y, "dtype", None)
    if hasattr(y, "astype") and not isinstance(kind, np.dtype):
        return np.asarray(y.astype(object))  # of whole numbers with a gap pandas would make decimal ones
    # NumPy would write a NaN between words as a word.
    return np.asarray(y, dtype=object if kind is None else None)


def _simplify(values: Array) -> Array:
    """Return objects as an array of numbers, words or flags if they are nothing else."""
    kinds = {str if isinstance(label, str) else type(label) for label in values}
    if len(kinds) > 1 and str in kinds:
        got = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise bad_type("y", "DAHGNNClassifier", "labels of one type", got)
    if any(isinstance(label, Enum) for label in values):
        return values  # of which NumPy would keep the numbers or words that some of them are
    simple = np.array(values.tolist())
    rounded = simple.dtype.kind == "f" and all(isinstance(label, Integral) for label in values)
    return values if simple.ndim != 1 or rounded else simple


def _are_finite(values: Array) -> bool:
    if values.dtype.kind == "O":
        return not any(isinstance(label, Decimal) and label.is_infinite() for label in values)
    return bool(np.isfinite(values).all())


def _are_minus_one(values: Array) -> NDArray[np.bool_]:
    if values.dtype.kind == "O":
        return np.array([_is_minus_one(label) for label in values], dtype=np.bool_)
    return np.asarray(values == -1)


def _is_minus_one(label: object) -> bool:
    return isinstance(label, Number) and label == -1  # type: ignore[comparison-overlap]


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
    if isinstance(label, Decimal):
        return label.is_nan()
    return isinstance(label, float | np.floating) and bool(np.isnan(label))


def encode_labels(y: ArrayLike | None, n: int) -> tuple[Array, Tensor]:
    """Return the classes, and the number of each row's class, (n,), −1 where it has none."""
    from sklearn.utils.multiclass import check_classification_targets

    if y is None:
        raise ValueError("DAHGNNClassifier requires y to be passed, but the target y is None.")
    labels, known = known_labels(y)
    if len(known) != n:
        raise ValueError(f"X and y must have as many rows. Got {n} and {len(known)}.")
    if len(labels) and labels.dtype.kind != "O":
        check_classification_targets(labels)
    classes = find_classes(labels)
    if len(classes) < 2:
        got = f"{len(classes)} class" if len(classes) else "no labelled row"
        remedy = "Unlabelled is -1 among numbers, and None or NaN."
        raise bad_value("y", "DAHGNNClassifier", "labels of at least two classes", got, remedy)
    for name in classes:
        if isinstance(name, str) and name in _LIKE_NO_LABEL:
            warnings.warn(
                f"{(labels == name).sum():,} rows have the label {str(name)!r}, which is taken for a class. "
                "Unlabelled is None or NaN among words.",
                UserWarning,
                stacklevel=3,
            )
    encoded = np.full(n, -1, dtype=np.int64)
    encoded[known] = number_labels(labels, classes)
    return classes, torch.from_numpy(encoded)


def find_classes(labels: Array) -> Array:
    """Return the labels that occur, each once, in order; members of an Enum in that of their definition."""
    if labels.dtype.kind != "O":
        return np.unique(labels)
    try:
        different = dict.fromkeys(labels.tolist())  # a set would have another order in each process
    except TypeError as error:
        raise bad_type("y", _OWNER, "labels that have a hash, such as numbers or words", error) from error
    classes = np.empty(len(different), dtype=object)
    classes[:] = _in_order(different)
    return classes


def _in_order(labels: Collection[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        kinds = {type(label) for label in labels}
        members = [member for kind in kinds if issubclass(kind, Enum) for member in kind if member in labels]
        if len(kinds) == 1 and len(members) == len(labels):
            return members
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))


def number_labels(labels: Array, classes: Array) -> NDArray[np.int64]:
    """Return the number of each label among classes in the order of `find_classes`, −1 if it is none."""
    if labels.dtype.kind != "O":
        nearest = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        return np.where(classes[nearest] == labels, nearest, -1)
    numbers = {label: number for number, label in enumerate(classes.tolist())}
    return np.array([numbers.get(label, -1) for label in labels.tolist()], dtype=np.int64)


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


def join_copies(groups: Array, encoded: Array) -> Array:
    """Return a number for each row, (n,), the same for labelled rows that must be held out together.

    A copy of a held-out row tells its label. That is fair where rows without a label have labelled copies as
    often, as in a table of few categories. It is not where labelled rows were written twice: then their
    copies are held out with them, unless these have several classes and so tell nothing.

    Parameters
    ----------
    groups : array of int, (n,)
        A number for each row, the same for equal ones.
    encoded : array of int, (n,)
        Numbers of the classes, −1 where the label is not known.
    """
    known = np.flatnonzero(encoded >= 0)
    size = int(groups.max(initial=0)) + 1
    counts = np.bincount(groups[known], minlength=size)
    of_labelled = np.mean(counts[groups[known]] > 1)
    others = groups[encoded < 0]
    of_others = np.mean(counts[others] > 0) if len(others) else 0.0
    by_chance = _SURE * math.sqrt(of_others * (1 - of_others) / len(known))
    numbers = np.arange(len(groups))
    if of_labelled <= of_others + by_chance:
        return numbers
    least, greatest, first = np.full(size, len(groups)), np.full(size, -1), np.full(size, len(groups))
    np.minimum.at(least, groups[known], encoded[known])
    np.maximum.at(greatest, groups[known], encoded[known])
    telling = known[(least == greatest)[groups[known]]]
    np.minimum.at(first, groups[telling], telling)
    numbers[telling] = first[groups[telling]]
    return numbers


def split_labels(
    encoded: Tensor,
    classes: Array,
    validation: float | ArrayLike,
    count: int,
    generator: np.random.RandomState,
    together: Array | None = None,
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
    together : array of int, (n,), optional
        A number for each row, the same for labelled rows that are held out together, see `join_copies`. By
        default each is held out by itself.
    """
    known = np.flatnonzero(encoded.numpy() >= 0)
    copies = np.arange(len(encoded)) if together is None else together
    if np.ndim(validation) > 0:
        held = _named_rows(validation, len(encoded))
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


def _named_rows(validation: ArrayLike, n: int) -> Array:
    """Return the rows that a user named to be held out, in order."""
    rows, counts = np.unique(
        as_indices(validation, "validation", _OWNER, below=n, what="n_rows").numpy(), return_counts=True
    )
    if (counts > 1).any():
        raise bad_value("validation", _OWNER, "different rows", f"row {rows[counts > 1][0]} more than once")
    return rows


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
    from sklearn.utils.validation import _check_sample_weight

    if sample_weight is None and class_weight is None:
        return None
    weights = np.array(
        _check_sample_weight(sample_weight, encoded, dtype=np.float64, ensure_non_negative=True)
    )
    _drop_light(weights, encoded, classes, "sample_weight")
    if class_weight is not None:
        known = encoded.numpy() >= 0
        numbers = encoded.numpy()[known]
        weights[known] *= _weigh_classes(class_weight, classes, numbers)[numbers]
        _drop_light(weights, encoded, classes, "class_weight")
    return weights


def _drop_light(weights: Array, encoded: Tensor, classes: Array, name: str) -> None:
    """Divide weights by the largest of a labelled row, and take the labels of rows that do not count."""
    known = encoded.numpy() >= 0
    weights[known] /= weights[known].max(initial=0) or 1
    encoded[torch.from_numpy(known & (weights < _LIGHTEST))] = -1
    missing = np.setdiff1d(np.arange(len(classes)), encoded)
    if len(missing):
        expected = f"positive at a labelled row of each class, and at least {_LIGHTEST:g} of the largest"
        names = ", ".join(map(str, classes[missing]))
        raise bad_value(name, "fit", expected, f"none such of {names}")


def _weigh_classes(class_weight: Mapping[Any, float] | str, classes: Array, numbers: Array) -> Array:
    """Return how much the rows of each class count, (c,); the largest is 1."""
    found = _compute_class_weight(class_weight, classes, numbers)
    wrong = ~(np.isfinite(found) & (found > 0))
    if wrong.any():
        got = f"{found[wrong][0]} for {classes[wrong][0]}"
        raise bad_value("class_weight", _OWNER, "positive and finite", got)
    return np.asarray(found / found.max())


def _compute_class_weight(class_weight: Mapping[Any, float] | str, classes: Array, numbers: Array) -> Array:
    from sklearn.utils.class_weight import compute_class_weight

    if classes.dtype.kind != "O":
        return np.asarray(compute_class_weight(class_weight, classes=classes, y=classes[numbers]))
    # scikit-learn knows classes of numbers, words and flags alone.
    if isinstance(class_weight, Mapping):
        unknown = [label for label in class_weight if label not in classes.tolist()]
        if unknown:
            raise bad_value("class_weight", _OWNER, "of classes that occur", repr(unknown[0]))
        class_weight = {classes.tolist().index(label): weight for label, weight in class_weight.items()}
    return np.asarray(compute_class_weight(class_weight, classes=np.arange(len(classes)), y=numbers))


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
