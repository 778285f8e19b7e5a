"""What the page of a fit shows, as one value; `check_view` refuses one that does not fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.checks import bad_type, bad_value, check_count

MOST_CLASSES = 2**15 - 1

_Shape = tuple[int | str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class FitView:
    """What the page shows of one fit.

    Parameters
    ----------
    title : str
        The heading of the page.
    ids : sequence of str, n
        The name of each row; `#row=ID` behind the page's address opens the first row of that name.
    classes : sequence of str, c
        The names of the classes.
    probabilities : ndarray of float, (n, c)
        Each row sums to one.
    given : ndarray of int, (n,)
        Class of the given label; −1 where there is none.
    held_out : ndarray of int, (h,)
        Labelled rows that some network did not learn from.
    held_out_probabilities : ndarray of float, (h, c)
        What those networks say of them.
    density : ndarray of float, (n,)
        The density around each row.
    position : ndarray of float, (n, 2), or None
        Where each row stands on the map; None is a page without a map.
    members : ndarray of int, (n, k + 1)
        Nodes of the hyperedge centred at each row, or of another one of it, the row first; −1 fills up.
    attention : ndarray of float, (n, k + 1)
        Weight of each member in that hyperedge; each row sums to one.
    history : sequence of mappings
        For each epoch of each network `network`, its number, `epoch`, `train_loss`,
        `validation_loss`, `train_accuracy` and `validation_accuracy`. What is missing or NaN is not drawn.
    best_epochs : sequence of int
        The epoch of each network whose weights gave the probabilities.
    estimate : tuple of three floats, or None
        The accuracy that is expected on unlabelled rows, and the ends of its interval of 95 % confidence.
    assessment : mapping, optional
        What held-out labels say, as `dahgnn.report.assessment.Assessment.as_dict` returns it.
    facts : mapping of str to str
        What the page says of how the fit was made, as ``{"seed": "0"}``.
    notes : sequence of str
        What was understood of the table, in sentences.
    details : sequence of mappings, n, optional
        A few more columns of each row.
    n_columns : int, optional
        How many columns there are, of which ``details`` has the first.
    images : ndarray of uint8, (n, h, w) or (n, h, w, 3), optional
        The picture of each row. The page says so where they are too many to be shown.
    projection : str, optional
        How the map was made, as "t-SNE".
    """

    title: str
    ids: Sequence[str]
    classes: Sequence[str]
    probabilities: NDArray[Any]
    given: NDArray[Any]
    held_out: NDArray[Any]
    held_out_probabilities: NDArray[Any]
    density: NDArray[Any]
    position: NDArray[Any] | None
    members: NDArray[Any]
    attention: NDArray[Any]
    history: Sequence[Mapping[str, float]]
    best_epochs: Sequence[int]
    estimate: tuple[float, float, float] | None = None
    assessment: Mapping[str, Any] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    details: Sequence[Mapping[str, str]] | None = None
    n_columns: int | None = None
    images: NDArray[Any] | None = None
    projection: str | None = None


def check_view(view: FitView) -> FitView:
    """Return the view with arrays of known types.

    Raises
    ------
    ValueError, TypeError
        If an array of the view has a wrong shape or type, or a number is not finite or out of range.
    """
    n, c = len(view.ids), len(view.classes)
    if not n:
        raise bad_value("ids", "FitView", "at least one row", "none")
    if not 1 <= c <= MOST_CLASSES:
        raise bad_value("classes", "FitView", f"between 1 and {MOST_CLASSES:,} names", f"{c:,}")
    if view.details is not None and len(view.details) != n:
        raise bad_value("details", "FitView", f"of length {n}, one for each id", len(view.details))
    for epoch in view.best_epochs:
        check_count("best_epochs", epoch, "FitView", low=0)
    held = max(np.size(view.held_out), len(view.held_out_probabilities))
    hyperedges = (n, np.shape(view.members)[1] if np.ndim(view.members) == 2 else "k + 1")
    found = replace(
        view,
        probabilities=_shares(view, "probabilities", (n, c)),
        given=_integers(view, "given", (n,), -1, c - 1),
        density=_numbers(view, "density", (n,)),
        position=None if view.position is None else _numbers(view, "position", (n, 2)),
        members=_integers(view, "members", hyperedges, -1, n - 1),
        attention=_shares(view, "attention", hyperedges),
    )
    if held:
        found = replace(
            found,
            held_out=_integers(view, "held_out", (held,), 0, n - 1),
            held_out_probabilities=_shares(view, "held_out_probabilities", (held, c)),
        )
        _check_held_out(found)
    _check_hyperedges(found)
    _check_images(found)
    _check_estimate(found)
    if found.assessment is not None:
        _check_assessment(found.assessment, n, c)
    return found


def _array(view: FitView, name: str, shape: _Shape, kinds: str, what: str) -> NDArray[Any]:
    array = np.asarray(getattr(view, name))
    if array.shape != shape or 0 in shape:
        raise bad_value(name, "FitView", f"of shape ({', '.join(map(str, shape))})", f"shape {array.shape}")
    if array.dtype.kind not in kinds:
        raise bad_type(name, "FitView", f"an array of {what}", f"an array of {array.dtype}")
    return array


def _integers(view: FitView, name: str, shape: _Shape, low: int, high: int) -> NDArray[Any]:
    array = _array(view, name, shape, "iu", "integers")
    for got in (array.min(), array.max()):
        if not low <= got <= high:
            raise bad_value(name, "FitView", f"between {low} and {high}", got)
    return array.astype(np.int64)


def _numbers(view: FitView, name: str, shape: _Shape) -> NDArray[Any]:
    array = _array(view, name, shape, "iuf", "numbers").astype(np.float64)
    # The page holds them in single precision.
    bad = ~(np.abs(array) < np.finfo(np.float32).max)
    if bad.any():
        place = tuple(np.argwhere(bad)[0].tolist())
        raise bad_value(name, "FitView", "finite in single precision", f"{array[place]} at {place}")
    return array


def _shares(view: FitView, name: str, shape: _Shape) -> NDArray[Any]:
    array = _numbers(view, name, shape)
    sums = array.sum(1)
    row = int(np.abs(sums - 1).argmax())
    if array.min() < 0 or abs(sums[row] - 1) > 1e-3:
        got = f"{array.min():.6g}" if array.min() < 0 else f"a sum of {sums[row]:.6g} in row {row}"
        raise bad_value(name, "FitView", "at least 0, with rows that sum to 1", got)
    return array.clip(max=1)


def _check_held_out(view: FitView) -> None:
    nameless = view.held_out[view.given[view.held_out] < 0]
    if len(nameless):
        got = f"{len(nameless)} rows without one, the first is row {nameless[0]}"
        raise bad_value("given", "FitView", "a label for each row that was held out", got)


def _check_hyperedges(view: FitView) -> None:
    strange = np.flatnonzero(view.members[:, 0] != np.arange(len(view.ids)))
    if len(strange):
        got = f"{view.members[strange[0], 0]} first in row {strange[0]}"
        raise bad_value("members", "FitView", "hyperedges with their centre first", got)


def _check_images(view: FitView) -> None:
    if view.images is None:
        return
    if view.images.dtype != np.uint8:
        raise bad_type("images", "FitView", "of uint8", view.images.dtype)
    n, shape = len(view.ids), view.images.shape
    if len(shape) not in (3, 4) or shape[0] != n or shape[3:] not in ((), (3,)) or 0 in shape:
        expected = f"of shape ({n}, height, width) or ({n}, height, width, 3)"
        raise bad_value("images", "FitView", expected, f"shape {shape}")


def _check_estimate(view: FitView) -> None:
    if view.estimate is None:
        return
    accuracy, low, high = view.estimate
    slack = 1e-9  # the ends of an interval are rounded
    if not -slack <= low <= accuracy + slack <= high + 2 * slack <= 1 + 3 * slack:
        raise bad_value("estimate", "FitView", "an accuracy and its interval, from 0 to 1", view.estimate)


def _check_assessment(found: Mapping[str, Any], n: int, c: int) -> None:
    counts = np.asarray(found["confusion"])
    if counts.shape != (c, c) or counts.dtype.kind not in "iu" or counts.min() < 0:
        got = f"shape {counts.shape} of {counts.dtype}"
        raise bad_value("assessment", "FitView", f"a confusion matrix of {c} × {c} counts", got)
    shares = [found["accuracy"], *found["recall"], *found["precision"], *found["baselines"].values()]
    if len(found["recall"]) != c or len(found["precision"]) != c:
        raise bad_value("assessment", "FitView", f"of {c} classes", len(found["recall"]))
    for share in shares:
        if share is not None and not 0 <= share <= 1:
            raise bad_value("assessment", "FitView", "shares from 0 to 1", share)
    for label in found["doubtful"]:
        if not 0 <= label["row"] < n:
            raise bad_value("assessment", "FitView", f"of rows from 0 to {n - 1}", label["row"])
