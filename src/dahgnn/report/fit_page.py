"""One fit on a user's data as a single HTML page: a map of all rows, what the model is sure of, and why.

The numbers of the map travel as typed arrays in base64; ``fit_page.js`` draws them and sets all text of the
data as text. What stands in the HTML from the start is escaped here.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.checks import bad_type, bad_value, check_count
from dahgnn.report.html import COLOURS, colour, document

# Images with more bytes than this, before compression, make a page that few browsers open:
# 85,000 grey images of 28 × 28, or 21,000 of 32 × 32 in colour.
MOST_IMAGE_BYTES = 64 * 2**20
MOST_CLASSES = 2**15 - 1
# Under so many held-out rows a reliability diagram shows chance alone.
LEAST_HELD_OUT = 20

_BINS = 10
_UNCERTAIN = 20
_SHEET_SIDE = 1024
_GREY = "#7a8794"
_Shape = tuple[int | str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class FitView:
    """What the page shows of one fit.

    Parameters
    ----------
    title : str
        Of the page.
    ids : sequence of str, n
        The name of each row; `#row=ID` behind the page's address opens the first row of that name.
    classes : sequence of str, c
        Their names.
    probabilities : ndarray of float, (n, c)
        Each row sums to one.
    given : ndarray of int, (n,)
        Class of the given label; −1 where there is none.
    held_out : ndarray of int, (h,)
        Labelled rows that some network did not learn from.
    held_out_probabilities : ndarray of float, (h, c)
        What those networks say of them.
    density : ndarray of float, (n,)
        Of each node.
    position : ndarray of float, (n, 2)
        Where each row stands on the map.
    members : ndarray of int, (n, k + 1)
        Nodes of the hyperedge centred at each row, the centre first; −1 fills up.
    attention : ndarray of float, (n, k + 1)
        Weight of each member in that hyperedge; each row sums to one.
    history : sequence of mappings
        For each epoch of each network `network`, its number, `epoch`, `train_loss`,
        `validation_loss`, `train_accuracy` and `validation_accuracy`. What is missing or NaN is not drawn.
    best_epochs : sequence of int
        Of each network, whose weights gave the probabilities.
    metrics : mapping of str to str
        Facts for the head, as ``{"held-out accuracy": "94.2 % of 200"}``.
    details : sequence of mappings, n, optional
        A few more columns of each row.
    images : ndarray of uint8, (n, h, w) or (n, h, w, 3), optional
        The picture of each row. Over `MOST_IMAGE_BYTES` in all, the page says that it leaves them out.
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
    position: NDArray[Any]
    members: NDArray[Any]
    attention: NDArray[Any]
    history: Sequence[Mapping[str, float]]
    best_epochs: Sequence[int]
    metrics: Mapping[str, str]
    details: Sequence[Mapping[str, str]] | None = None
    images: NDArray[Any] | None = None
    projection: str | None = None


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
    view = _checked(view)
    guess = _guess(view.probabilities)
    bins = _reliability(view)
    parts = [
        ("map", "Map", _map(view)),
        ("uncertain", "Most uncertain rows", _uncertain(view, guess)),
        ("balance", "Class balance", _balance(view, guess)),
        ("calibration", "Calibration", _calibration(view, bins)),
        ("training", "Training", _training(view)),
    ]
    links = "".join(f'<a href="#{name}">{head}</a>' for name, head, _ in parts)
    body = "".join(f'<section><h2 id="{name}">{head}</h2>{html}</section>' for name, head, html in parts)
    return document(
        title=view.title,
        body=f"<style>{_file('fit_page.css')}</style>{_header(view, links)}<main>{body}</main>",
        data={
            **_data(view, guess),
            "bins": [(confidence, right, n, *_wilson(right, n)) for confidence, right, n in bins],
            "curves": _curves(view),
            "best": [int(epoch) for epoch in view.best_epochs],
        },
        code=_file("fit_page.js"),
        webgl=True,
    )


def _file(name: str) -> str:
    return resources.files("dahgnn.report").joinpath("assets", name).read_text(encoding="utf-8")


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


def _checked(view: FitView) -> FitView:
    """Return the view with plain text and arrays of known types, or say what is wrong with it."""
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
    edges = (n, np.shape(view.members)[1] if np.ndim(view.members) == 2 else "k + 1")
    found = replace(
        view,
        title=_clean(view.title),
        ids=[_clean(name) for name in view.ids],
        classes=[_clean(name) for name in view.classes],
        probabilities=_shares(view, "probabilities", (n, c)),
        given=_integers(view, "given", (n,), -1, c - 1),
        density=_numbers(view, "density", (n,)),
        position=_numbers(view, "position", (n, 2)),
        members=_integers(view, "members", edges, -1, n - 1),
        attention=_shares(view, "attention", edges),
    )
    if held:
        found = replace(
            found,
            held_out=_integers(view, "held_out", (held,), 0, n - 1),
            held_out_probabilities=_shares(view, "held_out_probabilities", (held, c)),
        )
        _check_held_out(found)
    _check_edges(found)
    _check_images(found)
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


def _check_edges(view: FitView) -> None:
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


def _clean(text: object) -> str:
    """Return text that UTF-8 can hold; half a surrogate pair it cannot."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def _name(text: object, kind: str = "") -> str:
    """Return foreign text as HTML that cannot turn the direction of what follows."""
    return f"<bdi{kind}>{escape(_clean(text))}</bdi>"


def _cut(text: object) -> str:
    """Return foreign text in a box of bounded width, whole in its tooltip."""
    return _name(text, f' class="cut" title="{escape(_clean(text))}"')


def _header(view: FitView, links: str) -> str:
    labelled = int((view.given >= 0).sum())
    held = len(view.held_out)
    held_out = f" {held:,} of these were held out by some network, to choose its epoch." if held else ""
    cards = "".join(
        f'<div class="fact"><b>{_name(value)}</b><span>{_name(name)}</span></div>'
        for name, value in view.metrics.items()
    )
    return (
        f"<header><h1>{_name(view.title)}</h1>"
        f"<p>Of {len(view.ids):,} rows, {labelled:,} have a label.{held_out}</p>"
        f'<nav aria-label="Sections">{links}</nav><div class="facts">{cards}</div></header>'
    )


def _map(view: FitView) -> str:
    made = f" by {_name(view.projection)}" if view.projection else ""
    left_out = (
        f"The images are left out: a page holds {MOST_IMAGE_BYTES // 2**20} MiB of them, uncompressed."
        if view.images is not None and view.images.nbytes > MOST_IMAGE_BYTES
        else ""
    )
    return (
        f"<p>Each point is a row, placed{made} so that rows with like features stand together. Point at one "
        f"to see it; click it to see its hyperedge and how much attention each member gets. {left_out}</p>"
        f'<div class="card">{_TOOLS}<div id="legend"></div>{_STAGE}</div>'
    )


def _uncertain(view: FitView, guess: _Guess) -> str:
    rows = np.flatnonzero(view.given < 0)
    if not len(rows):
        return "<p>Every row has a label.</p>"
    rows = rows[np.argsort(guess.margin[rows], kind="stable")][:_UNCERTAIN]
    body = "".join(_uncertain_row(view, guess, int(row)) for row in rows)
    return (
        "<p>Rows without a label whose two likeliest classes are closest: worth a look, perhaps a label. "
        "Choose one to see it on the map.</p>"
        '<div class="card"><div class="box" tabindex="0" role="region" aria-label="Most uncertain rows">'
        '<table class="rows"><thead><tr><th scope="col">Row</th><th scope="col">Margin</th>'
        '<th scope="col" class="text">Predicted</th><th scope="col" class="text">Second</th>'
        f'<th scope="col">Density</th></tr></thead><tbody>{body}</tbody></table></div></div>'
    )


def _uncertain_row(view: FitView, guess: _Guess, row: int) -> str:
    second = int(guess.second[row])
    rival = f"{_cut(view.classes[second])}, {_percent(guess.next[row])}" if second >= 0 else "none"
    return (
        f'<tr data-row="{row}"><th scope="row"><button type="button" class="link">'
        f"{_cut(view.ids[row])}</button></th><td>{_percent(guess.margin[row])}</td>"
        f'<td class="text">{_cut(view.classes[int(guess.first[row])])}, {_percent(guess.top[row])}</td>'
        f'<td class="text">{rival}</td><td>{view.density[row]:.4g}</td></tr>'
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def _balance(view: FitView, guess: _Guess) -> str:
    labels = view.given[view.given >= 0]
    counts = [np.bincount(found, minlength=len(view.classes)) for found in (guess.first, labels)]
    shares = [count / max(count.sum(), 1) for count in counts]
    longest = max(share.max() for share in shares)
    rows = "".join(
        f'<tr><th scope="row">{_cut(name)}</th><td>{counts[0][place]:,}</td><td>{counts[1][place]:,}</td>'
        f'<td class="bars">{_bar(shares[0][place] / longest, shares[0][place], colour(place))}'
        f"{_bar(shares[1][place] / longest, shares[1][place], 'var(--faint)')}</td></tr>"
        for place, name in enumerate(view.classes)
    )
    keys = _keys([("share of all predictions", colour(0)), ("share of all given labels", "var(--faint)")])
    return (
        f'{keys}<div class="card"><div class="box long" tabindex="0" role="region" aria-label="Classes">'
        '<table><thead><tr><th scope="col">Class</th><th scope="col">Predicted</th><th scope="col">Given</th>'
        f'<th scope="col" class="text">Shares</th></tr></thead><tbody>{rows}</tbody></table></div></div>'
    )


def _bar(length: float, share: float, mark: str) -> str:
    return f'<i style="width:{100 * length:.2f}%;--c:{mark}"><span>{_percent(share)}</span></i>'


def _keys(entries: Sequence[tuple[str, str]]) -> str:
    marks = "".join(f'<b><i class="solid" style="--c:{mark}"></i>{text}</b>' for text, mark in entries)
    return f'<div class="chips keys">{marks}</div>'


def _reliability(view: FitView) -> list[tuple[float, float, int]]:
    """Return mean confidence, share of right ones and number of rows of each bin; too few rows give none."""
    if len(view.held_out) < LEAST_HELD_OUT:
        return []
    top = view.held_out_probabilities.max(1)
    right = view.held_out_probabilities.argmax(1) == view.given[view.held_out]
    places = np.minimum((top * _BINS).astype(int), _BINS - 1)
    return [
        (float(top[mine].mean()), float(right[mine].mean()), int(mine.sum()))
        for mine in (places == place for place in range(_BINS))
        if mine.any()
    ]


def _calibration(view: FitView, bins: Sequence[tuple[float, float, int]]) -> str:
    n = len(view.held_out)
    if not bins:
        held = "No row was" if n == 0 else "One row was" if n == 1 else f"Only {n} rows were"
        return f"<p>{held} held out; calibration needs at least {LEAST_HELD_OUT}.</p>"
    error = sum(count * abs(confidence - right) for confidence, right, count in bins) / n
    return (
        f"<p>How many of the {n:,} held-out rows are right, against how sure the networks were that had not "
        "learned from their labels. On the diagonal, confidence means what it says; the expected calibration "
        f"error is <b>{_percent(error)}</b>. The same rows chose the epoch, so fresh rows may do a little "
        "worse.</p>"
        '<div class="card"><div class="chart square" id="reliability"></div>'
        '<p class="note">Bars are 95 % intervals (Wilson). Bins without rows are left out.</p></div>'
    )


def _wilson(share: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval for a share of n, which holds the share itself."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))


def _training(view: FitView) -> str:
    curves = _curves(view)
    if not curves:
        return "<p>There is no training history.</p>"
    held_out = [("held out", colour(0))] if len(view.held_out) else []
    keys = _keys([("training", _GREY), *held_out])
    kinds = sorted({name.split("_")[1] for name in curves}, reverse=True)
    cards = "".join(f'<div class="card"><div class="chart" id="curve-{kind}"></div></div>' for kind in kinds)
    return f'<p>{_best(view.best_epochs)}</p>{keys}<div class="cards">{cards}</div>'


def _best(epochs: Sequence[int]) -> str:
    if len(epochs) == 1:
        return f"The dot is the best epoch, {epochs[0]:,}, whose weights this page shows."
    return (
        f"Each of {len(epochs)} networks has a curve, and a dot at its best epoch, whose weights are kept. "
        "The page shows the average of the networks."
    )


def _curves(view: FitView) -> dict[str, list[tuple[list[int], list[float]]]]:
    """Return epochs and values of each network's curve, by name if it has any, the accuracies in percent."""
    found = {}
    parts = ("train", "validation") if len(view.held_out) else ("train",)  # the latter is the former then
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
    rows = [[_clean(row[name]) if name in row else "" for name in columns] for row in details]
    return {"columns": [_clean(name) for name in columns], "rows": rows}


def _sheets(images: NDArray[Any]) -> dict[str, Any] | None:
    """Return the images as sheets of about a megapixel, so that a browser decodes only what it shows."""
    if images.nbytes > MOST_IMAGE_BYTES:
        return None
    height, width = images.shape[1:3]
    columns = max(1, _SHEET_SIDE // max(height, width))
    sheets = ["data:image/png;base64," + sheet for sheet in _drawn_sheets(images, columns)]
    return {"sheets": sheets, "columns": columns, "size": (width, height)}


def _drawn_sheets(images: NDArray[Any], columns: int) -> Iterator[str]:
    from PIL import Image

    height, width, *channels = images.shape[1:]
    for start in range(0, len(images), columns * columns):
        part = images[start : start + columns * columns]
        rows = math.ceil(len(part) / columns)
        sheet = np.zeros((rows * columns, height, width, *channels), dtype=np.uint8)
        sheet[: len(part)] = part
        tiled = sheet.reshape(rows, columns, height, width, *channels).swapaxes(1, 2)
        file = io.BytesIO()
        Image.fromarray(tiled.reshape(rows * height, columns * width, *channels)).save(file, "PNG")
        yield base64.b64encode(file.getvalue()).decode()


_TOOLS = """<div class="tools"><div class="modes" role="group" aria-label="Colour by">
<button type="button" class="mode" data-mode="predicted">predicted class</button>
<button type="button" class="mode" data-mode="confidence">confidence</button>
<button type="button" class="mode" data-mode="density">density</button>
<button type="button" class="mode" data-mode="given">given label</button></div>
<form id="search" role="search"><label for="wanted">Row</label>
<input type="search" id="wanted" placeholder="id" autocomplete="off" autocapitalize="off" spellcheck="false">
<button class="mode">Find</button><span id="missing" role="status"></span></form></div>"""
_STAGE = """<div class="stage"><div class="map"><div class="chart" id="points"></div>
<svg id="lines" aria-hidden="true"></svg><i id="ring"></i><div class="zoom" role="group" aria-label="Zoom">
<button type="button" class="mode" data-zoom="0.5" aria-label="Zoom in">+</button>
<button type="button" class="mode" data-zoom="2" aria-label="Zoom out">−</button>
<button type="button" class="mode" data-zoom="0">all</button></div></div>
<aside id="panel" tabindex="-1" aria-label="The chosen row"><p class="note">No row is chosen. Click a point,
or find a row by its id.</p></aside></div>
<div id="tip" role="status"><canvas></canvas><div></div></div>"""
