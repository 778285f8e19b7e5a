"""The report of an experiment as one HTML page, and beside it as Markdown, LaTeX and CSV."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dahgnn.document import chart_text, chip, colour, document
from dahgnn.files import replacing
from dahgnn.line_files import Line
from dahgnn.summary import Agreement, Cell, Comparison, Method, Summary, read_lines, read_spec, summarise
from dahgnn.tables import (
    Table,
    accuracy_tables,
    agreement_table,
    comparison_tables,
    csv_text,
    hardware,
    latex,
    markdown,
    merge_notes,
    time_tables,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Points of a learning curve; the run lines hold no more.
_POINTS = 40
_CURVES = ("train_loss", "validation_loss", "validation_accuracy")
_MARGIN = {"l": 52, "r": 14, "t": 14, "b": 46}


def write_report(folder: Path) -> list[Path]:
    """Write report.md, report.tex, report.csv and report.html beside the run lines.

    Parameters
    ----------
    folder : Path
        Holds ``runs.jsonl`` and ``spec.json``; the experiment need not be complete.

    Returns
    -------
    list of Path
        The four files; each is replaced whole.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If there is no run line yet, or one cannot be read.
    """
    lines, spec, summary = _read(folder)
    texts = {
        "report.md": markdown(summary),
        "report.tex": latex(summary),
        "report.csv": csv_text(summary),
        "report.html": page(lines, spec, summary),
    }
    return [_write(folder / name, text) for name, text in texts.items()]


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")
    return path


def _read(folder: Path) -> tuple[list[Line], dict[str, Any], Summary]:
    spec = read_spec(folder / "spec.json")
    path = folder / "runs.jsonl"
    lines = read_lines(path, spec["name"]) if path.exists() else []
    if not lines:
        raise ValueError(
            f"{path} must hold at least one run line to report on. Got none. "
            "Run the experiment first, with 'dahgnn reproduce'."
        )
    return lines, spec, summarise(lines, spec)


def page(lines: Sequence[Line], spec: Mapping[str, Any], summary: Summary) -> str:
    """Compose the HTML page; the same lines give the same text."""
    parts = [
        ("accuracy", "Accuracy", _accuracy(summary)),
        ("against-labels", "Accuracy against labels", _against_labels(summary)),
        ("curves", "Learning curves", _picks(summary, "curve", every=True) + _CURVE_CARDS),
        ("confusion", "Confusion matrices", _picks(summary, "confusion", every=False) + _CONFUSION_CARD),
        ("ablation", "Ablation and significance", _ablation(summary)),
        ("times", "Times", _times(summary)),
    ]
    curves, confusions = _curves(lines, summary), _confusions(lines, summary)
    present = {"curves": bool(curves), "confusion": bool(confusions), "ablation": bool(summary.comparisons)}
    shown = [part for part in parts if present.get(part[0], True)]
    links = "".join(f'<a href="#{name}">{heading}</a>' for name, heading, _ in shown)
    body = "".join(
        f'<section><h2 id="{name}">{heading}</h2>{content}</section>' for name, heading, content in shown
    )
    return document(
        title=summary.title,
        body=f"{_header(summary, links)}<main>{body}</main>{_footer(summary)}",
        data={
            "figures": _figures(summary),
            "curves": curves,
            "confusions": confusions,
            "classes": _classes(spec, summary),
            # What the page sets as text is left as it is; what plotly gets is escaped.
            "titles": [method.title for method in summary.methods],
            "methods": [
                {"title": chart_text(method.title), "colour": colour(place)}
                for place, method in enumerate(summary.methods)
            ],
        },
        code=_CODE,
    )


def _header(summary: Summary, links: str) -> str:
    seconds = sum(cell.seconds * cell.n for cell in summary.cells.values())
    facts = [(f"{summary.n_lines:,} of {summary.expected:,}", "runs are there")]
    facts += [_fact(summary, entry) for entry in summary.agreements]
    facts.append((_span(seconds), f"of training in all, on {hardware(summary)}"))
    cards = "".join(
        f'<div class="fact"><b>{escape(b)}</b><span>{escape(text)}</span></div>' for b, text in facts
    )
    absent = f"<p>No runs yet: {escape(', '.join(summary.absent))}.</p>" if summary.absent else ""
    return (
        f"<header><h1>{escape(summary.title)}</h1><p>Test accuracy of {len(summary.methods)} methods over "
        f"{summary.runs} runs a cell, beside the numbers that the paper prints.</p>{absent}"
        f'<nav aria-label="Sections">{links}</nav><div class="facts">{cards}</div></header>'
    )


def _fact(summary: Summary, entry: Agreement) -> tuple[str, str]:
    printed = (
        "its printed row"
        if entry.against == entry.method
        else f"the printed {summary.title_of(entry.against)}"
    )
    return (
        f"{entry.within} of {entry.cells} cells",
        f"{summary.title_of(entry.method)}: within two joint standard deviations of {printed}, "
        f"and {entry.above} above it",
    )


def _span(seconds: float) -> str:
    """Write a time in the unit that fits it."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _footer(summary: Summary) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in summary.versions.items())
    rows = {
        "Experiment": summary.name,
        "Run lines": f"{summary.n_lines:,}",
        "Hardware": hardware(summary),
        "Versions": versions,
        "Finished": f"{summary.first} to {summary.last}",
    }
    pairs = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows.items())
    return f"<footer><dl>{pairs}</dl></footer>"


def _accuracy(summary: Summary) -> str:
    agreement = agreement_table(summary)
    return _cards([*accuracy_tables(summary), *([agreement] if agreement else [])])


def _cards(tables: Sequence[Table]) -> str:
    """Return tables in boxes that scroll sideways by themselves, with a note below the last it is for."""
    return "".join(map(_card, merge_notes(tables)))


def _card(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_kind(table, column, "")}>{escape(text)}</th>'
        for column, text in enumerate(table.head)
    )
    rows = "".join(_row(table, place) for place in range(len(table.rows)))
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="card"><h3>{escape(table.title)}</h3>'
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}</div>"
    )


def _row(table: Table, place: int) -> str:
    kind = ' class="lesser"' if place in table.lesser else ""
    first, *rest = table.rows[place]
    if not any(rest):
        span = f'scope="rowgroup" colspan="{len(table.head)}"'
        return f'<tr class="group"><th {span}><span>{escape(first)}</span></th></tr>'
    cells = "".join(
        f"<td{_kind(table, column, text)}>"
        + (f"<b>{escape(text)}</b>" if (place, column) in table.strong else escape(text))
        + "</td>"
        for column, text in enumerate(rest, 1)
    )
    return f'<tr{kind}><th scope="row">{escape(first)}</th>{cells}</tr>'


def _kind(table: Table, column: int, text: str) -> str:
    if table.head[column] in ("Remark", "Printed row of"):
        return ' class="text"'
    return {"≈": ' class="good"', "≠": ' class="far"'}.get(text[-1:], "")


def _against_labels(summary: Summary) -> str:
    rows = [
        chip(f"ours-{place}", method.title, colour(place), pressed=not method.aside)
        for place, method in enumerate(summary.methods)
    ]
    printed = {method for _, method, _ in summary.printed}
    paper = [
        chip(f"paper-{place}", method.title, colour(place), dashed=True)
        for place, method in enumerate(summary.methods)
        if method.name in printed
    ]
    legend = f'<div class="chips"><span>Measured</span>{"".join(rows)}</div>'
    if paper:
        legend += f'<div class="chips"><span>Paper</span>{"".join(paper)}</div>'
    return (
        "<p>Mean over runs with a band of one standard deviation; the paper's numbers are dashed. A "
        "button shows or hides its line.</p>" + legend + _charts(summary, "labels")
    )


def _charts(summary: Summary, kind: str) -> str:
    cards = "".join(
        f'<div class="card"><h3>{escape(title)}</h3><div class="chart tall" id="{kind}-{place}"></div></div>'
        for place, title in enumerate(summary.datasets.values())
    )
    return f'<div class="cards">{cards}</div>'


def _picks(summary: Summary, name: str, *, every: bool) -> str:
    """Return the menus that choose dataset, method and number of labels."""
    first = next((place for place, method in enumerate(summary.methods) if method.ours), 0)
    methods = [(str(place), method.title) for place, method in enumerate(summary.methods)]
    counts = sorted({count for columns in summary.labels.values() for count in columns})
    menus = {
        "dataset": [(str(place), title) for place, title in enumerate(summary.datasets.values())],
        "method": methods + ([("all", "All methods")] if every else []),
        "labels": [(str(count), f"{count:,}") for count in counts],
    }
    fields = "".join(
        f'<label>{kind.capitalize()}<select id="{name}-{kind}">'
        + _options(options, str(first) if kind == "method" else "")
        + "</select></label>"
        for kind, options in menus.items()
    )
    return f'<div class="picks">{fields}</div>'


def _options(options: Sequence[tuple[str, str]], chosen: str) -> str:
    return "".join(
        f'<option value="{value}"{" selected" if value == chosen else ""}>{escape(text)}</option>'
        for value, text in options
    )


_CURVE_CARDS = (
    '<div class="chips keys" id="curve-keys"></div><div class="cards">'
    '<div class="card"><h3>Loss</h3><div class="chart" id="curve-loss"></div></div>'
    '<div class="card"><h3>Validation accuracy in %</h3><div class="chart" id="curve-accuracy"></div></div>'
    '</div><p class="note">Median over runs with a band from the lower to the upper quartile, at each epoch '
    "over the runs that still train there.</p>"
)

_CONFUSION_CARD = (
    '<div class="card"><div class="chart square" id="confusion-matrix"></div>'
    '<p class="note">Test nodes summed over runs, in % of each true class; colours follow the square root, '
    "so that mistakes can be seen beside what is right.</p></div>"
)


def _ablation(summary: Summary) -> str:
    pairs = _pairs(summary)
    chips = "".join(
        chip(f"pair-{place}", f"{summary.title_of(first)} less {summary.title_of(second)}", colour(place))
        for place, (first, second) in enumerate(pairs)
    )
    return (
        "<p>Mean difference in points over runs that share a split, with its 95 % interval.</p>"
        f'<div class="chips">{chips}</div>{_charts(summary, "pairs")}<p></p>'
        + _cards(comparison_tables(summary))
    )


def _pairs(summary: Summary) -> list[tuple[str, str]]:
    return list(dict.fromkeys((entry.first, entry.second) for entry in summary.comparisons))


def _times(summary: Summary) -> str:
    chips = "".join(
        chip(f"time-{place}", title, colour(place)) for place, title in enumerate(summary.datasets.values())
    )
    height = 90 + len(summary.methods) * max(30, 14 * len(summary.datasets))
    return (
        f'<div class="card"><h3>Mean seconds of a fit, logarithmic</h3><div class="chips dots">{chips}</div>'
        f'<div class="chart" id="times-all" style="height:{height}px"></div></div>'
        + _cards(time_tables(summary))
    )


def _figures(summary: Summary) -> dict[str, Any]:
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

    columns = list(summary.labels[dataset])
    traces: list[dict[str, Any]] = []
    for place, method in enumerate(summary.methods):
        cells = [
            summary.cells[key] for count in columns if (key := (dataset, method.name, count)) in summary.cells
        ]
        if cells:
            traces += _measured_traces(cells, method, place)
        printed = [
            (count, *summary.printed[key])
            for count in columns
            if (key := (dataset, method.name, count)) in summary.printed
        ]
        if printed:
            traces.append(_printed_trace(printed, method.title, place))
    axes = {
        "xaxis": {"title": {"text": "labelled nodes"}, "tickvals": columns, "tickformat": ",d"},
        "yaxis": {"title": {"text": "test accuracy in %"}},
    }
    return Figure(
        data=traces, layout={"showlegend": False, "margin": _MARGIN, "hovermode": "closest", **axes}
    )


def _measured_traces(cells: Sequence[Cell], method: Method, place: int) -> list[dict[str, Any]]:
    """Return the band and the line of a method; one button hides both."""
    x = [cell.labels for cell in cells]
    low, high = ([cell.mean + sign * (cell.deviation or 0) for cell in cells] for sign in (-1, 1))
    shared = {
        "type": "scatter",
        "legendgroup": f"ours-{place}",
        "name": chart_text(method.title),
        "visible": not method.aside,
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
    for place, pair in enumerate(_pairs(summary)):
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
                "name": chart_text(" less ".join(summary.title_of(name) for name in pair)),
                "x": [f"{entry.labels:,}" for entry in mine],
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
    columns = [f"{count:,}" for count in summary.labels[dataset]]
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
    for place, (dataset, title) in enumerate(summary.datasets.items()):
        seconds = [
            _mean_seconds([cell for key, cell in summary.cells.items() if key[:2] == (dataset, method.name)])
            for method in summary.methods
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "legendgroup": f"time-{place}",
                "name": chart_text(title),
                "x": seconds,
                "y": [_wrapped(method.title) for method in summary.methods],
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
    """Return a line's dataset and method by number, and its labels, or None if the summary left it out."""
    key = (line["dataset"], line["method"], line["labels"])
    if key not in summary.cells:
        return None
    methods = [method.name for method in summary.methods]
    return list(summary.datasets).index(key[0]), methods.index(key[1]), key[2]


def _curves(lines: Sequence[Line], summary: Summary) -> dict[str, Any]:
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


def _confusions(lines: Sequence[Line], summary: Summary) -> dict[str, list[list[int]]]:
    """Return the confusion matrices of each cell, summed over runs, by 'dataset/method/labels'."""
    groups: dict[tuple[int, int, int], np.ndarray[Any, Any]] = {}
    for line in lines:
        place = _place(summary, line)
        if place and line.get("confusion"):
            groups[place] = groups.get(place, 0) + np.asarray(line["confusion"], dtype=np.int64)
    return {"/".join(map(str, place)): groups[place].tolist() for place in sorted(groups)}


def _classes(spec: Mapping[str, Any], summary: Summary) -> list[list[str]]:
    """Return the names of each dataset's classes; none means that their numbers stand for them."""
    entries = {entry["name"]: entry for entry in spec["datasets"]}
    return [
        [chart_text(_shortened(str(name))) for name in entries[dataset].get("classes", [])]
        for dataset in summary.datasets
    ]


def _shortened(name: str, most: int = 16) -> str:
    """Cut a name that would leave the matrix no room."""
    return name if len(name) <= most else name[: most - 1] + "…"


_CODE = """
for (const [id, figure] of Object.entries(data.figures)) draw(id, figure.data, figure.layout);
const margin = {l: 52, r: 14, t: 14, b: 46};
const faded = hex => 'rgba(' + [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)) + ',0.16)';
const kinds = ['dataset', 'method', 'labels'];
const chosen = (name, kind) => find(name + '-' + kind).value;
function band(curve, kind, name, colour, dash, factor) {
  const [low, middle, high] = curve[kind].map(row => row.map(y => y === null ? null : y * factor));
  const kept = curve.epoch.map((_, i) => i).filter(i => middle[i] !== null);
  const at = row => kept.map(i => row[i]), x = at(curve.epoch);
  return [
    {type: 'scatter', mode: 'lines', x: [...x, ...x.slice().reverse()],
      y: [...at(high), ...at(low).reverse()],
      fill: 'toself', fillcolor: faded(colour), line: {width: 0}, hoverinfo: 'skip', showlegend: false},
    {type: 'scatter', mode: 'lines', x, y: at(middle), name, line: {color: colour, dash, width: 2.2},
      hovertemplate: 'epoch %{x}: %{y:.4~g}'}];
}
const nothing = text => ({text, showarrow: false, xref: 'paper', yref: 'paper', x: 0.5, y: 0.5});
// Its words are set as text, so they need no escape.
function keys(entries) {
  find('curve-keys').replaceChildren(...entries.map(([text, colour, kind]) => {
    const key = document.createElement('b'), mark = document.createElement('i');
    mark.className = kind;
    mark.style.setProperty('--c', colour);
    key.append(mark, text);
    return key;
  }));
}
function drawCurves() {
  const [dataset, method, labels] = kinds.map(kind => chosen('curve', kind)), all = method === 'all';
  const loss = [], accuracy = [], entries = [], training = '#7a8794';
  for (const place of all ? data.methods.map((_, i) => i) : [Number(method)]) {
    const curve = data.curves[dataset + '/' + place + '/' + labels];
    if (!curve) continue;
    const {title, colour} = data.methods[place];
    if (!all && curve.train_loss) {
      loss.push(...band(curve, 'train_loss', 'training', training, 'dash', 1));
      entries.push(['training', training, 'dashed']);
    }
    entries.push([all ? data.titles[place] : 'validation', colour, 'solid']);
    if (curve.validation_loss) loss.push(...band(curve, 'validation_loss', title, colour, 'solid', 1));
    if (curve.validation_accuracy)
      accuracy.push(...band(curve, 'validation_accuracy', title, colour, 'solid', 100));
  }
  keys(entries);
  const layout = title => ({margin, showlegend: false, hovermode: 'closest',
    xaxis: {title: {text: 'epoch'}, rangemode: 'tozero'}, yaxis: {title: {text: title}},
    annotations: entries.length ? [] : [nothing('no learning curve here')]});
  draw('curve-loss', loss, layout(all ? 'validation loss' : 'loss'));
  draw('curve-accuracy', accuracy, layout('validation accuracy in %'));
}
const category = {type: 'category', showgrid: false, automargin: true, fixedrange: true};
function drawConfusion() {
  const place = kinds.map(kind => chosen('confusion', kind)), dataset = place[0];
  const counts = data.confusions[place.join('/')] || [];
  const names = counts.map((_, i) => data.classes[dataset][i] ?? String(i));
  const sum = row => row.reduce((a, b) => a + b, 0) || 1;
  const shares = counts.map(row => row.map(n => 100 * n / sum(row)));
  const short = p => p === 0 ? '' : p.toFixed(p < 9.95 ? 1 : 0);
  const trace = {type: 'heatmap', x: names, y: names, z: shares.map(row => row.map(Math.sqrt)),
    zmin: 0, zmax: 10, showscale: false, xgap: 2, ygap: 2,
    text: shares.map(row => row.map(short)), texttemplate: '%{text}',
    customdata: counts.map((row, i) => row.map((n, j) => [n, shares[i][j]])),
    hovertemplate: 'true %{y}, predicted %{x}<br>%{customdata[0]:,} nodes, ' +
      '%{customdata[1]:.2f} %<extra></extra>',
    colorscale: [[0, 'rgba(47,126,216,0.05)'], [1, 'rgb(47,126,216)']]};
  draw('confusion-matrix', counts.length ? [trace] : [], {margin: {l: 20, r: 10, t: 10, b: 20},
    xaxis: {...category, title: {text: 'predicted'}},
    yaxis: {...category, title: {text: 'true'}, autorange: 'reversed'},
    annotations: counts.length ? [] : [nothing('no confusion matrix here')]});
}
for (const [name, redraw] of [['curve', drawCurves], ['confusion', drawConfusion]]) {
  if (!find(name + '-dataset')) continue;
  for (const kind of kinds) find(name + '-' + kind).addEventListener('change', redraw);
  redraw();
}
"""
