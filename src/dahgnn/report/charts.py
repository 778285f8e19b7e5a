"""The charts and matrices of a report, as plain values that the page's script draws."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dahgnn.files.jsonl import Line
from dahgnn.report.html import chart_text, colour
from dahgnn.report.summary import Cell, Comparison, Method, Summary

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# A learning curve has so many points; the run lines hold no more.
_POINTS = 40
_CURVES = ("train_loss", "validation_loss", "validation_accuracy")
# Lines that a chart begins with: few enough to tell them apart. Buttons bring the others in.
_LINES = 6
_MARGIN = {"l": 52, "r": 14, "t": 14, "b": 46}


def pairs(summary: Summary) -> list[tuple[str, str]]:
    """Return the methods that are compared, each pair once."""
    return list(dict.fromkeys((entry.first, entry.second) for entry in summary.comparisons))


def shown_methods(summary: Summary) -> list[str]:
    """Return the methods that charts begin with, in the order of the tables.

    They are those that the spec does not hide. If these are too many, they are the first of ours, those of
    ours that the paper prints, and the most accurate of the rest.
    """
    names = [method.name for method in summary.methods if not method.hidden_at_first]
    ours = [method.name for method in summary.methods if method.ours and method.name in names]
    printed = {method for _, method, _ in summary.printed}
    first = [name for place, name in enumerate(ours) if place == 0 or name in printed]
    rest = [name for name in names if name not in ours] + [name for name in ours if name not in first]
    rest.sort(key=lambda name: (name in ours, -_mean_accuracy(summary, name)))
    chosen = {*first, *rest[: max(0, _LINES - len(first))]}
    return [name for name in names if name in chosen]


def _mean_accuracy(summary: Summary, method: str) -> float:
    means = [cell.mean for place, cell in summary.cells.items() if place[1] == method]
    return sum(means) / len(means) if means else -math.inf


def shown_pairs(summary: Summary) -> list[tuple[str, str]]:
    """Return the pairs that charts begin with: those of methods that are shown, and never too many."""
    shown = shown_methods(summary)
    found = [pair for pair in pairs(summary) if set(pair) <= set(shown)]
    return (found or pairs(summary))[:_LINES]


def figures(summary: Summary) -> dict[str, Any]:
    """Return the charts that need no choice, by the element that they go to."""
    found = {"times-all": _time_figure(summary)}
    for place, dataset in enumerate(summary.datasets):
        found[f"labels-{place}"] = _labels_figure(summary, dataset)
        if summary.comparisons:
            found[f"pairs-{place}"] = _pairs_figure(summary, dataset)
    return {name: _plain(figure) for name, figure in found.items()}


def _plain(figure: Figure) -> dict[str, Any]:
    """Return data and layout as plain values, without plotly's template: the page has its own colours."""
    value: dict[str, Any] = json.loads(figure.to_json() or "{}")
    value["layout"].pop("template", None)
    return {"data": value["data"], "layout": value["layout"]}


def _labels_figure(summary: Summary, dataset: str) -> Figure:
    from plotly.graph_objects import Figure

    columns = list(summary.label_counts[dataset])
    traces: list[dict[str, Any]] = []
    shown = shown_methods(summary)
    for place, method in enumerate(summary.methods):
        cells = [
            summary.cells[key] for count in columns if (key := (dataset, method.name, count)) in summary.cells
        ]
        if cells:
            traces += _measured_traces(cells, method, place, visible=method.name in shown)
        printed = [
            (count, *summary.printed[key])
            for count in columns
            if (key := (dataset, method.name, count)) in summary.printed
        ]
        if printed:
            trace = _printed_trace(printed, method.title, place)
            traces.append(trace | {"visible": method.name in shown})
    axes = {
        "xaxis": {"title": {"text": "labelled nodes"}, "tickvals": columns, "tickformat": ",d"},
        "yaxis": {"title": {"text": "test accuracy in %"}},
    }
    return Figure(
        data=traces, layout={"showlegend": False, "margin": _MARGIN, "hovermode": "closest", **axes}
    )


def _measured_traces(
    cells: Sequence[Cell], method: Method, place: int, *, visible: bool
) -> list[dict[str, Any]]:
    """Return the band and the line of a method; one button hides both."""
    x = [cell.n_labelled for cell in cells]
    low, high = ([cell.mean + sign * (cell.deviation or 0) for cell in cells] for sign in (-1, 1))
    shared = {
        "type": "scatter",
        "legendgroup": f"ours-{place}",
        "name": chart_text(method.title),
        "visible": visible,
    }
    return [
        {
            **shared,
            "x": x + x[::-1],
            "y": high + low[::-1],
            "fill": "toself",
            "fillcolor": _faded(colour(place)),
            "line": {"width": 0},
            "mode": "lines",
            "hoverinfo": "skip",
        },
        {
            **shared,
            "x": x,
            "y": [cell.mean for cell in cells],
            "customdata": [[cell.deviation or 0, cell.n] for cell in cells],
            "mode": "lines+markers",
            "line": {"color": colour(place), "width": 3 if method.ours else 1.8},
            "marker": {"size": 6},
            "hovertemplate": "%{x:,} labels: %{y:.2f} ± %{customdata[0]:.2f} (%{customdata[1]} runs)",
        },
    ]


def _printed_trace(printed: Sequence[tuple[int, float, float]], title: str, place: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "legendgroup": f"paper-{place}",
        "name": chart_text(f"{title}, printed"),
        "x": [count for count, _, _ in printed],
        "y": [mean for _, mean, _ in printed],
        "customdata": [deviation for _, _, deviation in printed],
        "mode": "lines+markers",
        "line": {"color": colour(place), "dash": "dash", "width": 1.6},
        "marker": {"size": 5, "symbol": "circle-open"},
        "hovertemplate": "%{x:,} labels: %{y:.2f} ± %{customdata:.2f}",
    }


def _faded(hexadecimal: str) -> str:
    red, green, blue = (int(hexadecimal[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.14)"


def _pairs_figure(summary: Summary, dataset: str) -> Figure:
    from plotly.graph_objects import Figure

    traces = []
    shown = shown_pairs(summary)
    for place, pair in enumerate(pairs(summary)):
        mine = [
            entry
            for entry in summary.comparisons
            if entry.dataset == dataset
            and (entry.first, entry.second) == pair
            and entry.difference is not None
        ]
        traces.append(
            {
                "type": "scatter",
                "legendgroup": f"pair-{place}",
                "offsetgroup": f"pair-{place}",
                "visible": pair in shown,
                "name": chart_text(" less ".join(summary.title_of(name) for name in pair)),
                "x": [f"{entry.n_labelled:,}" for entry in mine],
                "y": [entry.difference for entry in mine],
                "error_y": {
                    "type": "data",
                    "array": [_half(entry) for entry in mine],
                    "thickness": 1.6,
                    "width": 4,
                },
                "text": [_verdict(entry.wilcoxon_holm) for entry in mine],
                "mode": "markers",
                "marker": {"color": colour(place), "size": 8},
                "hovertemplate": "%{x} labels: %{y:+.2f} points<br>%{text}",
            }
        )
    columns = [f"{count:,}" for count in summary.label_counts[dataset]]
    axes = {
        "xaxis": {
            "type": "category",
            "categoryarray": columns,
            "range": [-0.5, len(columns) - 0.5],
            "title": {"text": "labelled nodes"},
        },
        "yaxis": {"title": {"text": "points"}, "zeroline": True},
    }
    return Figure(
        data=traces, layout={"showlegend": False, "margin": _MARGIN, "scattermode": "group", **axes}
    )


def _half(entry: Comparison) -> float:
    """Return half the interval; a single pair has none."""
    return 0.0 if entry.low is None or entry.high is None else (entry.high - entry.low) / 2


def _verdict(p: float | None) -> str:
    return "no test" if p is None else f"Wilcoxon, Holm: p = {p:.4f}"


def _time_figure(summary: Summary) -> Figure:
    from plotly.graph_objects import Figure

    traces = []
    shown = shown_methods(summary)
    methods = [method for method in summary.methods if method.name in shown]
    for place, (dataset, title) in enumerate(summary.datasets.items()):
        seconds = [
            _mean_seconds([cell for key, cell in summary.cells.items() if key[:2] == (dataset, method.name)])
            for method in methods
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "legendgroup": f"time-{place}",
                "name": chart_text(title),
                "x": seconds,
                "y": [_wrapped(method.title) for method in methods],
                "marker": {"color": colour(place)},
                "hovertemplate": "%{x:.3g} s",
            }
        )
    axes = {
        "xaxis": {"type": "log", "title": {"text": "seconds a fit"}, "dtick": 1, "showgrid": True},
        # The first method goes on top, as in the tables.
        "yaxis": {"type": "category", "automargin": True, "autorange": "reversed"},
    }
    margin = {**_MARGIN, "l": 10}
    return Figure(
        data=traces,
        layout={"showlegend": False, "margin": margin, "bargap": 0.25, "barmode": "group", **axes},
    )


def _mean_seconds(cells: Sequence[Cell]) -> float | None:
    """Return the mean over all fits, or None where a logarithmic axis has no place for it."""
    n = sum(cell.n for cell in cells)
    seconds = sum(cell.seconds * cell.n for cell in cells)
    return seconds / n if n and seconds > 0 else None


def _wrapped(title: str, width: int = 18) -> str:
    """Break a title into lines that leave room for the bars on a phone."""
    return "<br>".join(chart_text(part) for part in textwrap.wrap(title, width)) or chart_text(title)


def _place(summary: Summary, line: Line) -> tuple[int, int, int] | None:
    """Return a line's dataset and method by number, and its label count, or None if it was left out."""
    key = (line["dataset"], line["method"], line["labels"])
    if key not in summary.cells:
        return None
    methods = [method.name for method in summary.methods]
    return list(summary.datasets).index(key[0]), methods.index(key[1]), key[2]


def curves(lines: Sequence[Line], summary: Summary) -> dict[str, Any]:
    """Return the learning curves of each cell that has any, by 'dataset/method/labels'."""
    groups: dict[tuple[int, int, int], list[Mapping[str, Any]]] = {}
    for line in lines:
        place = _place(summary, line)
        if place and line.get("history") and line["history"].get("epoch"):
            groups.setdefault(place, []).append(line["history"])
    return {"/".join(map(str, place)): _curve(groups[place]) for place in sorted(groups)}


def _curve(histories: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return lower quartile, median and upper quartile over runs, on epochs that all can be read at."""
    last = max(max(history["epoch"]) for history in histories)
    grid = np.unique(np.linspace(0, last, _POINTS).round())
    found: dict[str, Any] = {"epoch": grid.astype(int).tolist(), "n": len(histories)}
    for name in _CURVES:
        rows = [
            np.interp(grid, history["epoch"], _numbers(history[name]), right=math.nan)
            for history in histories
            if history.get(name)
        ]
        if rows:
            found[name] = _quartiles(np.stack(rows))
    return found


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _quartiles(rows: np.ndarray[Any, Any]) -> list[list[float | None]]:
    """Return the quartiles of each column over its finite entries, rounded; None where it has none."""
    columns = [column[np.isfinite(column)] for column in rows.T]
    return [
        [float(f"{np.quantile(column, share):.5g}") if len(column) else None for column in columns]
        for share in (0.25, 0.5, 0.75)
    ]


def confusions(lines: Sequence[Line], summary: Summary) -> dict[str, list[list[int]]]:
    """Return the confusion matrices of each cell, summed over runs, by 'dataset/method/labels'."""
    groups: dict[tuple[int, int, int], np.ndarray[Any, Any]] = {}
    for line in lines:
        place = _place(summary, line)
        if place and line.get("confusion"):
            groups[place] = groups.get(place, 0) + np.asarray(line["confusion"], dtype=np.int64)
    return {"/".join(map(str, place)): groups[place].tolist() for place in sorted(groups)}


def class_names(spec: Mapping[str, Any], summary: Summary) -> list[list[str]]:
    """Return the names of each dataset's classes; none means that their numbers stand for them."""
    entries = {entry["name"]: entry for entry in spec["datasets"]}
    return [
        [chart_text(_shortened(str(name))) for name in entries[dataset].get("classes", [])]
        for dataset in summary.datasets
    ]


def _shortened(name: str, most: int = 16) -> str:
    """Cut a name that would leave the matrix no room."""
    return name if len(name) <= most else name[: most - 1] + "…"
