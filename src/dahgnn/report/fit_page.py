"""One fit on a user's data as a single HTML page: how right it is, a map of all rows, and what to look at.

The numbers of the map travel as typed arrays in base64. ``map.js`` draws them, and ``fit_page.js`` sets all
text of the data as text. Charts are SVG, so the page needs no library.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.judgement import wilson_interval
from dahgnn.report.fit_charts import (
    HEIGHT,
    WIDTH,
    Chart,
    calibration_error,
    curve_chart,
    curves,
    reliability,
    reliability_chart,
)
from dahgnn.report.fit_view import FitView, check_view
from dahgnn.report.html import COLOURS, render_page
from dahgnn.report.image_sheets import image_sheet

# Images with more bytes than this, before compression, make a page that few browsers open:
# 85,000 grey images of 28 × 28, or 21,000 of 32 × 32 in colour.
MOST_IMAGE_BYTES = 64 * 2**20
# Under so many held-out rows a reliability diagram shows chance alone.
LEAST_HELD_OUT = 20

# Rows and classes that are listed at first, and classes that a matrix has room for.
_MOST_LISTED = 20
_MOST_CLASSES = 24
_SHEET_SIDE = 1024
_ASSETS = (
    "map.css",
    "fit_page.css",
    "elements.js",
    "map_index.js",
    "map_painters.js",
    "map_view.js",
    "map.js",
    "map_colours.js",
    "fit_page.js",
)
_SECTIONS = {
    "map": "Map",
    "classes": "Classes",
    "mistakes": "Mistakes",
    "doubtful": "Doubtful labels",
    "uncertain": "Most uncertain rows",
    "calibration": "Calibration",
    "training": "Training",
    "about": "About this fit",
}
# What the methods of an assessment are called on the page.
_BASELINES = {
    "logistic_regression": "logistic regression",
    "nearest_neighbours": "nearest neighbours",
    "majority": "the commonest class",
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
    context = {
        "sections": _SECTIONS,
        "view": view,
        "n_rows": len(view.ids),
        "n_labelled": int((view.given >= 0).sum()),
        "n_held_out": len(view.held_out),
        "n_colours": len(COLOURS),
        "images_left_out": view.images is not None and view.images.nbytes > MOST_IMAGE_BYTES,
        "most_image_mib": MOST_IMAGE_BYTES // 2**20,
        "most_listed": _MOST_LISTED,
        "most_classes": _MOST_CLASSES,
        "headline": _headline(view),
        "methods": _methods(view),
        "uncertain": _uncertain(view, guess),
        "mistakes": _mistakes(view),
        **_balance(view, guess),
        **_calibration(view),
        "chart_size": (WIDTH, HEIGHT),
        "charts": _training(view),
        "least_held_out": LEAST_HELD_OUT,
    }
    return render_page("fit_page.html", context, title=view.title, data=_data(view, guess), assets=_ASSETS)


def _headline(view: FitView) -> dict[str, Any] | None:
    """Return the one number of the page, its interval and what it says; None where no label was held out."""
    if view.estimate is not None and (view.given < 0).any():
        accuracy, low, high = view.estimate
        return {
            "accuracy": accuracy,
            "low": low,
            "high": high,
            "of": "of the unlabelled rows are expected to be right",
        }
    if not len(view.held_out):
        return None
    right = view.held_out_probabilities.argmax(1) == view.given[view.held_out]
    low, high = wilson_interval(float(right.mean()), len(right))
    of = f"of {len(right):,} held-out labels are right"
    return {"accuracy": float(right.mean()), "low": low, "high": high, "of": of}


def _methods(view: FitView) -> list[tuple[str, float]]:
    """Return the share of held-out labels that this fit and the baselines get right, the fit first."""
    found = view.assessment
    if found is None or found["accuracy"] is None:
        return []
    others = [(_BASELINES.get(name, name), share) for name, share in found["baselines"].items()]
    told = sorted(((name, share) for name, share in others if share is not None), key=lambda each: -each[1])
    return [("this fit", found["accuracy"]), *told]


def _mistakes(view: FitView) -> list[dict[str, Any]]:
    """Return pairs of a given label and another class that was held for likelier, the most frequent first."""
    if view.assessment is None:
        return []
    counts = np.array(view.assessment["confusion"])
    sums = counts.sum(1)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[: np.count_nonzero(counts)]
    pairs = zip(*np.unravel_index(order, counts.shape), strict=True)
    return [
        {
            "given": view.classes[row],
            "opinion": view.classes[column],
            "n": int(counts[row, column]),
            "of": int(sums[row]),
        }
        for row, column in pairs
    ]


def _calibration(view: FitView) -> dict[str, Any]:
    if len(view.held_out) < LEAST_HELD_OUT:
        return {"reliability": None, "calibration_error": None}
    bins = reliability(view.held_out_probabilities, view.given[view.held_out])
    return {"reliability": reliability_chart(bins), "calibration_error": calibration_error(bins)}


def _training(view: FitView) -> list[Chart]:
    """Return the charts that have any curve: the held-out labels' too where there are such."""
    parts = {"main": "validation", "other": "train"} if len(view.held_out) else {"other": "train"}
    charts = (
        curve_chart(
            title,
            {kind: curves(view.history, f"{part}_{name}") for kind, part in parts.items()},
            view.best_epochs,
        )
        for name, title in (("loss", "loss"), ("accuracy", "accuracy in %"))
    )
    return [chart for chart in charts if chart is not None]


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
    rows = rows[np.argsort(guess.margin[rows], kind="stable")][:_MOST_LISTED]
    return [
        {
            "row": int(row),
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
    """Return how often each class is predicted, given and found, and the longest of the shares."""
    labels = view.given[view.given >= 0]
    predicted, given = (np.bincount(found, minlength=len(view.classes)) for found in (guess.first, labels))
    predicted_share, given_share = (count / max(count.sum(), 1) for count in (predicted, given))
    assessed: Mapping[str, Any] = view.assessment or {}
    nothing = [None] * len(view.classes)
    columns = {
        "name": view.classes,
        "predicted": predicted,
        "given": given,
        "predicted_share": predicted_share,
        "given_share": given_share,
        "recall": assessed.get("recall", nothing),
        "precision": assessed.get("precision", nothing),
    }
    return {
        "balance": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "longest_share": max(predicted_share.max(), given_share.max()),
    }


def _data(view: FitView, guess: _Guess) -> dict[str, Any]:
    """Return what the script needs; all text in it is set as text, none is markup."""
    # A few very dense rows would leave one colour for all the others.
    low, high = np.quantile(view.density, (0.02, 0.98))
    places = {}
    if view.position is not None:
        places = {axis: _packed(view.position[:, place], "f4") for place, axis in enumerate("xy")}
    doubtful = [] if view.assessment is None else [label["row"] for label in view.assessment["doubtful"]]
    return {
        "arrays": {
            **places,
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
        "doubtful": doubtful,
        "details": _details(view),
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
    rows = [[row.get(name, "") for name in columns] for row in details]
    return {"columns": columns, "rows": rows, "of": view.n_columns or len(columns)}


def _sheets(images: NDArray[Any]) -> dict[str, Any] | None:
    """Return the images as sheets of about a megapixel, so that a browser decodes only what it shows."""
    if images.nbytes > MOST_IMAGE_BYTES:
        return None
    height, width = images.shape[1:3]
    columns = max(1, _SHEET_SIDE // max(height, width))
    most = columns * columns
    sheets = [image_sheet(images[start : start + most], columns) for start in range(0, len(images), most)]
    return {"sheets": sheets, "columns": columns, "size": (width, height)}
