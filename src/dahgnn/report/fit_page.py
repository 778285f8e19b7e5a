"""One fit on a user's data as a single HTML page: a map of all rows, what the model is sure of, and why.

The numbers of the map travel as typed arrays in base64; ``fit_page.js`` draws them and sets all text of the
data as text.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.judgement import wilson_interval
from dahgnn.report.fit_view import FitView, check_view
from dahgnn.report.html import COLOURS, colour, render_page
from dahgnn.report.image_sheets import image_sheet

# Images with more bytes than this, before compression, make a page that few browsers open:
# 85,000 grey images of 28 × 28, or 21,000 of 32 × 32 in colour.
MOST_IMAGE_BYTES = 64 * 2**20
# Under so many held-out rows a reliability diagram shows chance alone.
LEAST_HELD_OUT = 20

_BINS = 10
_UNCERTAIN = 20
_SHEET_SIDE = 1024
_GREY = "#7a8794"
_SECTIONS = {
    "map": "Map",
    "uncertain": "Most uncertain rows",
    "balance": "Class balance",
    "calibration": "Calibration",
    "training": "Training",
}


def fit_page(view: FitView) -> str:
    """Compose the page; the same view gives the same text.

    Returns
    -------
    str
        HTML that needs no other file and no network.

    Raises
    ------
    ValueError, TypeError
        If an array of the view has a wrong shape or type, or a number is not finite or out of range.
    """
    view = check_view(view)
    guess = _guess(view.probabilities)
    bins = _reliability(view)
    curves = _curves(view)
    context = {
        "sections": _SECTIONS,
        "metrics": view.metrics,
        "n_rows": len(view.ids),
        "n_labelled": int((view.given >= 0).sum()),
        "n_held_out": len(view.held_out),
        "projection": view.projection,
        "images_left_out": view.images is not None and view.images.nbytes > MOST_IMAGE_BYTES,
        "most_image_mib": MOST_IMAGE_BYTES // 2**20,
        "uncertain": _uncertain(view, guess),
        **_balance(view, guess),
        "calibration_error": _calibration_error(bins),
        "least_held_out": LEAST_HELD_OUT,
        "best_epochs": view.best_epochs,
        "curve_kinds": sorted({name.split("_")[1] for name in curves}, reverse=True),
        "curve_keys": [("training", _GREY), *([("held out", colour(0))] if len(view.held_out) else [])],
    }
    data = {
        **_data(view, guess),
        "bins": [
            (bin_.confidence, bin_.accuracy, bin_.n, *wilson_interval(bin_.accuracy, bin_.n)) for bin_ in bins
        ],
        "curves": curves,
        "best": [int(epoch) for epoch in view.best_epochs],
    }
    assets = ("fit_page.css", "fit_page.js")
    return render_page("fit_page.html", context, title=view.title, data=data, assets=assets, webgl=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Guess:
    """The two likeliest classes of each row; with one class alone the second is −1, of probability 0."""

    first: NDArray[Any]
    second: NDArray[Any]
    top: NDArray[Any]
    next: NDArray[Any]

    @property
    def margin(self) -> NDArray[Any]:
        return np.asarray(self.top - self.next)


def _guess(probabilities: NDArray[Any]) -> _Guess:
    rest = probabilities.copy()
    rows = np.arange(len(rest))
    first = rest.argmax(1)
    top = rest[rows, first]
    if rest.shape[1] == 1:
        return _Guess(first=first, second=first - 1, top=top, next=np.zeros_like(top))
    rest[rows, first] = -1
    second = rest.argmax(1)
    return _Guess(first=first, second=second, top=top, next=rest[rows, second])


def _uncertain(view: FitView, guess: _Guess) -> list[dict[str, Any]]:
    """Return the rows without a label whose two likeliest classes are closest."""
    rows = np.flatnonzero(view.given < 0)
    rows = rows[np.argsort(guess.margin[rows], kind="stable")][:_UNCERTAIN]
    return [
        {
            "number": int(row),
            "id": view.ids[int(row)],
            "margin": guess.margin[row],
            "first": view.classes[guess.first[row]],
            "top": guess.top[row],
            "second": view.classes[guess.second[row]] if guess.second[row] >= 0 else None,
            "next": guess.next[row],
            "density": view.density[row],
        }
        for row in rows
    ]


def _balance(view: FitView, guess: _Guess) -> dict[str, Any]:
    """Return how often each class is predicted and given, and the longest of the shares."""
    labels = view.given[view.given >= 0]
    predicted, given = (np.bincount(found, minlength=len(view.classes)) for found in (guess.first, labels))
    predicted_share, given_share = (count / max(count.sum(), 1) for count in (predicted, given))
    names = ("name", "predicted", "given", "predicted_share", "given_share")
    rows = zip(view.classes, predicted, given, predicted_share, given_share, strict=True)
    return {
        "balance": [dict(zip(names, row, strict=True)) for row in rows],
        "longest_share": max(predicted_share.max(), given_share.max()),
    }


class _Bin(NamedTuple):
    """Held-out rows of like confidence: the mean of it, how many rows are right, and how many there are."""

    confidence: float
    right: int
    n: int

    @property
    def accuracy(self) -> float:
        return self.right / self.n


def _reliability(view: FitView) -> list[_Bin]:
    """Return the bins that have rows; too few rows give none."""
    if len(view.held_out) < LEAST_HELD_OUT:
        return []
    top = view.held_out_probabilities.max(1)
    right = view.held_out_probabilities.argmax(1) == view.given[view.held_out]
    places = np.minimum((top * _BINS).astype(int), _BINS - 1)
    return [
        _Bin(float(top[mine].mean()), int(right[mine].sum()), int(mine.sum()))
        for mine in (places == place for place in range(_BINS))
        if mine.any()
    ]


def _calibration_error(bins: list[_Bin]) -> float | None:
    """Return the expected calibration error: the mean of |confidence − accuracy| over rows."""
    n = sum(bin_.n for bin_ in bins)
    return sum(bin_.n * abs(bin_.confidence - bin_.accuracy) for bin_ in bins) / n if n else None


def _curves(view: FitView) -> dict[str, list[tuple[list[int], list[float]]]]:
    """Return epochs and values of each network's curve, by name if it has any, the accuracies in percent."""
    found = {}
    parts = (
        ("train", "validation") if len(view.held_out) else ("train",)
    )  # without held-out rows both are the same
    for name in (f"{part}_{kind}" for kind in ("loss", "accuracy") for part in parts):
        factor = 100 if name.endswith("accuracy") else 1
        curves: dict[int, tuple[list[int], list[float]]] = {}
        for entry in view.history:
            if math.isfinite(value := float(entry.get(name, math.nan))):
                epochs, values = curves.setdefault(int(entry["network"]), ([], []))
                epochs.append(int(entry["epoch"]))
                values.append(float(f"{factor * value:.5g}"))
        if curves:
            found[name] = [curves.get(number, ([], [])) for number in range(max(curves) + 1)]
    return found


def _data(view: FitView, guess: _Guess) -> dict[str, Any]:
    """Return what the script needs; all text in it is set as text, none is markup."""
    # A few very dense rows would leave one colour for all the others.
    low, high = np.quantile(view.density, (0.02, 0.98))
    return {
        "arrays": {
            "x": _packed(view.position[:, 0], "f4"),
            "y": _packed(view.position[:, 1], "f4"),
            "first": _packed(guess.first, "i2"),
            "second": _packed(guess.second, "i2"),
            "top": _packed(guess.top, "f4"),
            "next": _packed(guess.next, "f4"),
            "density": _packed(view.density, "f4"),
            "given": _packed(view.given, "i2"),
            "members": _packed(view.members, "i4"),
            "weights": _packed(np.rint(view.attention * 65535), "u2"),
        },
        "ids": view.ids,
        "classes": view.classes,
        "details": _details(view),
        "colours": list(COLOURS),
        "ranges": {"confidence": (float(guess.top.min()), 1.0), "density": (float(low), float(high))},
        "images": None if view.images is None else _sheets(view.images),
    }


def _packed(values: NDArray[Any], kind: str) -> tuple[str, str]:
    """Return numbers as little-endian bytes in base64, a third of their size as text."""
    return kind, base64.b64encode(np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()).decode()


def _details(view: FitView) -> dict[str, Any]:
    """Return columns and rows as lists: a column named __proto__ would be lost in an object."""
    details = view.details or []
    columns = list(dict.fromkeys(name for row in details for name in row))
    return {"columns": columns, "rows": [[row.get(name, "") for name in columns] for row in details]}


def _sheets(images: NDArray[Any]) -> dict[str, Any] | None:
    """Return the images as sheets of about a megapixel, so that a browser decodes only what it shows."""
    if images.nbytes > MOST_IMAGE_BYTES:
        return None
    height, width = images.shape[1:3]
    columns = max(1, _SHEET_SIDE // max(height, width))
    most = columns * columns
    sheets = [image_sheet(images[start : start + most], columns) for start in range(0, len(images), most)]
    return {"sheets": sheets, "columns": columns, "size": (width, height)}
