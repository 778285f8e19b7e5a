"""The report of an experiment as one HTML page, and beside it as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from dahgnn.experiments.lines import read_lines
from dahgnn.files.atomic import replacing
from dahgnn.files.jsonl import Line
from dahgnn.report.charts import class_names, confusions, curves, figures, pairs
from dahgnn.report.html import chart_text, chip, colour, document
from dahgnn.report.summary import Agreement, Summary, read_spec, summarise
from dahgnn.report.tables import (
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
    learning, matrices = curves(lines, summary), confusions(lines, summary)
    present = {"curves": bool(learning), "confusion": bool(matrices), "ablation": bool(summary.comparisons)}
    shown = [part for part in parts if present.get(part[0], True)]
    links = "".join(f'<a href="#{name}">{heading}</a>' for name, heading, _ in shown)
    body = "".join(
        f'<section><h2 id="{name}">{heading}</h2>{content}</section>' for name, heading, content in shown
    )
    return document(
        title=summary.title,
        body=f"{_header(summary, links)}<main>{body}</main>{_footer(summary)}",
        data={
            "figures": figures(summary),
            "curves": learning,
            "confusions": matrices,
            "classes": class_names(spec, summary),
            # What the page sets as text is left as it is; what plotly gets is escaped.
            "titles": [method.title for method in summary.methods],
            "methods": [
                {"title": chart_text(method.title), "colour": colour(place)}
                for place, method in enumerate(summary.methods)
            ],
        },
        code=resources.files("dahgnn.report")
        .joinpath("assets", "experiment_page.js")
        .read_text(encoding="utf-8"),
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
        chip(f"ours-{place}", method.title, colour(place), pressed=not method.hidden_at_first)
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
    compared = pairs(summary)
    chips = "".join(
        chip(f"pair-{place}", f"{summary.title_of(first)} less {summary.title_of(second)}", colour(place))
        for place, (first, second) in enumerate(compared)
    )
    return (
        "<p>Mean difference in points over runs that share a split, with its 95 % interval.</p>"
        f'<div class="chips">{chips}</div>{_charts(summary, "pairs")}<p></p>'
        + _cards(comparison_tables(summary))
    )


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
