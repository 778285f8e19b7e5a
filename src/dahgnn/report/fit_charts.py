"""The charts of a fit's page as lines and points in a box, which a template writes as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.judgement import wilson_interval

# The box in which lines are drawn, inside the whole with its axes; pixels of a small screen.
WIDTH, HEIGHT = 420, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 40
_BINS = 10
# A curve has about so many points; more cannot be seen at this size.
_MOST_POINTS = 120


class Bin(NamedTuple):
    """Held-out rows of like confidence: the mean of it, how many rows are right, and how many there are."""

    confidence: float
    right: int
    n: int

    @property
    def accuracy(self) -> float:
        """The share that is right."""
        return self.right / self.n


def reliability(probabilities: NDArray[Any], labels: NDArray[Any]) -> list[Bin]:
    """Return the bins that have rows, of ten between 0 and 1.

    Parameters
    ----------
    probabilities : ndarray of float, (h, c)
        What is said of rows by those who have not seen their labels.
    labels : ndarray of int, (h,)
        Their classes.
    """
    top, right = probabilities.max(1), probabilities.argmax(1) == labels
    places = np.minimum((top * _BINS).astype(int), _BINS - 1)
    return [
        Bin(float(top[mine].mean()), int(right[mine].sum()), int(mine.sum()))
        for mine in (places == place for place in range(_BINS))
        if mine.any()
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error: the mean of |confidence − accuracy| over rows."""
    return sum(each.n * abs(each.confidence - each.accuracy) for each in bins) / sum(each.n for each in bins)


# Epochs and values of a curve.
Curve = tuple[list[int], list[float]]


def curves(history: Sequence[Mapping[str, float]], name: str) -> list[Curve]:
    """Return the curve of each network; what is missing or not finite is left out.

    Parameters
    ----------
    history : sequence of mappings
        For each epoch of each network, its numbers by name.
    name : str
        Which number; accuracies become percent.
    """
    factor = 100 if name.endswith("accuracy") else 1
    found: dict[int, Curve] = {}
    for entry in history:
        if math.isfinite(value := float(entry.get(name, math.nan))):
            epochs, values = found.setdefault(int(entry["network"]), ([], []))
            epochs.append(int(entry["epoch"]))
            values.append(factor * value)
    return [found.get(number, ([], [])) for number in range(max(found, default=-1) + 1)]


class Tick(NamedTuple):
    """A mark of an axis, and where it stands."""

    at: float
    text: str


class Line(NamedTuple):
    """A line as an SVG path; its kind is a class of the style sheet."""

    path: str
    kind: str


class Dot(NamedTuple):
    """A point, what it says when pointed at, and the ends of its interval if it has one."""

    x: float
    y: float
    kind: str
    text: str
    low: float | None = None
    high: float | None = None


@dataclass(kw_only=True)
class Chart:
    """Lines and points between two axes, in pixels from the left and the top.

    Parameters
    ----------
    title : str
        What the chart shows, for those who do not see it.
    x_title, y_title : str
        What the axes are.
    x_range, y_range : tuple of float
        The numbers at their ends.
    """

    title: str
    x_title: str
    y_title: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    lines: list[Line] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)

    def x(self, value: float) -> float:
        """Return where a number stands across."""
        low, high = self.x_range
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * (value - low) / (high - low), 1)

    def y(self, value: float) -> float:
        """Return where a number stands from the top."""
        low, high = self.y_range
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - low) / (high - low), 1)

    @property
    def x_ticks(self) -> list[Tick]:
        """The marks below."""
        return [Tick(self.x(value), text) for value, text in ticks(*self.x_range)]

    @property
    def y_ticks(self) -> list[Tick]:
        """The marks on the left."""
        return [Tick(self.y(value), text) for value, text in ticks(*self.y_range)]

    @property
    def frame(self) -> tuple[int, int, int, int]:
        """The left, top, right and bottom of the box."""
        return _LEFT, _TOP, WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def draw(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """Add a line through points."""
        places = (f"{self.x(x):g} {self.y(y):g}" for x, y in zip(xs, ys, strict=True))
        self.lines.append(Line("M" + "L".join(places), kind))


def ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Return round numbers between two ends, and how they are written.

    Examples
    --------
    >>> [text for _, text in ticks(0, 250)]
    ['0', '50', '100', '150', '200', '250']
    """
    rough = (high - low) / most
    size = 10 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(number * step, f"{number * step:,.{digits}f}") for number in numbers]


def reliability_chart(bins: Sequence[Bin]) -> Chart:
    """Draw how many rows are right against how sure the networks were, with Wilson's intervals."""
    chart = Chart(
        title="Share that is right against confidence",
        x_title="confidence in %",
        y_title="right in %",
        x_range=(0, 100),
        y_range=(0, 100),
    )
    chart.draw([0, 100], [0, 100], "ideal")
    sure, right = ([100 * getattr(each, name) for each in bins] for name in ("confidence", "accuracy"))
    chart.draw(sure, right, "main")
    for each, x, y in zip(bins, sure, right, strict=True):
        low, high = (chart.y(100 * end) for end in wilson_interval(each.accuracy, each.n))
        text = f"confidence {x:.1f} %: {y:.1f} % of {each.n:,} rows right"
        chart.dots.append(Dot(chart.x(x), chart.y(y), "main", text, low, high))
    return chart


def curve_chart(title: str, groups: Mapping[str, Sequence[Curve]], best: Sequence[int]) -> Chart | None:
    """Draw the curves of networks, each with a dot at its best epoch.

    Parameters
    ----------
    title : str
        What the values are.
    groups : mapping of str to sequences of curves
        Kinds of lines, and the curve of each network.
    best : sequence of int
        The best epoch of each network.

    Returns
    -------
    Chart or None
        None where no curve has a point.
    """
    drawn = [curve for group in groups.values() for curve in group if curve[0]]
    if not drawn:
        return None
    values = [value for _, values in drawn for value in values]
    chart = Chart(
        title=f"{title} by epoch",
        x_title="epoch",
        y_title=title,
        x_range=(0, max(1, *(epochs[-1] for epochs, _ in drawn))),
        y_range=_with_room(min(values), max(values)),
    )
    for kind, group in groups.items():
        for number, (epochs, found) in enumerate(group):
            if not epochs:
                continue
            kept = _thin(len(epochs))
            chart.draw([epochs[place] for place in kept], [found[place] for place in kept], kind)
            if number < len(best) and best[number] in epochs:
                value = found[epochs.index(best[number])]
                text = f"network {number + 1}, epoch {best[number]:,}: {value:.4g}"
                chart.dots.append(Dot(chart.x(best[number]), chart.y(value), kind, text))
    return chart


def _thin(count: int) -> list[int]:
    """Return places of a curve from the first to the last, not too many."""
    places = np.linspace(0, count - 1, min(count, _MOST_POINTS)).round()
    return [int(place) for place in places]


def _with_room(low: float, high: float) -> tuple[float, float]:
    """Return ends of an axis that no line touches."""
    room = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    return (max(0.0, low - room) if low >= 0 else low - room), high + room
