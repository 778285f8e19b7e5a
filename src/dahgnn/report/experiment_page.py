"""Write the report of an experiment as one HTML page, and beside it as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.spec_file import read_spec
from dahgnn.files.atomic import replacing
from dahgnn.files.jsonl import Line
from dahgnn.report.charts import (
    class_names,
    confusions,
    curves,
    figures,
    pairs,
    shown_methods,
    shown_pairs,
)
from dahgnn.report.html import chart_text, colour, render_page
from dahgnn.report.summary import Agreement, Summary, summarise
from dahgnn.report.tables import (
    Table,
    accuracy_tables,
    agreement_table,
    comparison_tables,
    csv_text,
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


_SECTIONS = {
    "accuracy": "Accuracy",
    "against-labels": "Accuracy against labels",
    "curves": "Learning curves",
    "confusion": "Confusion matrices",
    "ablation": "Ablation and significance",
    "times": "Times",
}


def page(lines: Sequence[Line], spec: Mapping[str, Any], summary: Summary) -> str:
    """Compose the HTML page; the same lines give the same text."""
    learning, matrices = curves(lines, summary), confusions(lines, summary)
    present = {"curves": bool(learning), "confusion": bool(matrices), "ablation": bool(summary.comparisons)}
    shown, first_pairs = shown_methods(summary), shown_pairs(summary)
    context = {
        "summary": summary,
        "shown": shown,
        "sections": {name: heading for name, heading in _SECTIONS.items() if present.get(name, True)},
        "facts": _facts(summary),
        "about": _about(summary),
        "tables": _tables(summary),
        "printed_methods": {method for _, method, _ in summary.printed},
        "pairs": [
            (" less ".join(map(summary.title_of, pair)), pair in first_pairs) for pair in pairs(summary)
        ],
        "n_folded": sum(method.hidden_at_first for method in summary.methods),
        "label_counts": sorted({count for columns in summary.label_counts.values() for count in columns}),
        "first_with_curve": _first_method(learning, summary),
        "first_with_matrix": _first_method(matrices, summary),
        "times_height": 90 + len(shown) * max(36, 14 * len(summary.datasets)),
    }
    data = {
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
    }
    assets = ("experiment_page.css", "charts.js", "experiment_page.js")
    return render_page(
        "experiment_page.html", context, title=summary.title, data=data, assets=assets, plotly=True
    )


def _first_method(charts: Mapping[str, Any], summary: Summary) -> int:
    """Return the place of the method that a menu begins with: one with a chart, of ours if there is any."""
    places = {int(key.split("/")[1]) for key in charts}
    return min(places, key=lambda place: (not summary.methods[place].ours, place), default=0)


def _facts(summary: Summary) -> list[tuple[str, str]]:
    """Return the numbers of the head, each with what it counts."""
    shown = shown_methods(summary)
    seconds = sum(cell.seconds * cell.n for cell in summary.cells.values())
    return [
        (f"{summary.n_lines:,} of {summary.expected:,}", "runs are there"),
        *(_fact(summary, entry) for entry in summary.agreements if entry.method in shown),
        (_span(seconds), f"of training in all, on {summary.hardware}"),
    ]


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


def _about(summary: Summary) -> dict[str, str]:
    """Return what the foot of the page says of the runs."""
    return {
        "Experiment": summary.name,
        "Run lines": f"{summary.n_lines:,}",
        "Hardware": summary.hardware,
        "Versions": ", ".join(f"{name} {version}" for name, version in summary.versions.items()),
        "Finished": f"{summary.first} to {summary.last}",
    }


def _tables(summary: Summary) -> dict[str, list[Table]]:
    """Return the tables of the sections that have any; those that all are open share a note."""
    agreement = agreement_table(summary)
    return {
        "accuracy": merge_notes([*accuracy_tables(summary), *([agreement] if agreement else [])]),
        "comparisons": comparison_tables(summary),
        "times": time_tables(summary),
    }
