"""The measured costs as a table, as lines and as a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dahgnn.bench.contenders import DEFAULT_FLOOR, FLOOR, METHODS
from dahgnn.bench.lower_bound import Machine
from dahgnn.environment import name_device
from dahgnn.files.atomic import replacing

TABLE_HEAD = """\
| n | method | ms an epoch | peak memory, MiB | times ours | times the floor |
| ---: | --- | ---: | ---: | ---: | ---: |"""


def table_row(line: Mapping[str, Any]) -> str:
    """Write a line as a row of the table.

    Examples
    --------
    >>> known = {"milliseconds": 25.04, "memory": None, "times_ours": 1.0, "times_floor": 4.55}
    >>> print(table_row({"nodes": 10000, "method": "ours", "problem": None, **known}))
    | 10,000 | ours | 25.0 | – | 1.00 | 4.55 |
    """
    start = f"| {line['nodes']:,} | {line['method']} |"
    if line["problem"] is not None:
        return f"{start} {line['problem']} | | | |"
    values = (line[name] for name in ("milliseconds", "memory", "times_ours", "times_floor"))
    return f"{start} {' | '.join(_figures(value) for value in values)} |"


FIT_TABLE_HEAD = """\
| n | method | s a fit | s to predict | accuracy, % | on new rows, % | times ours | times LabelSpreading |
| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"""


def is_fit(line: Mapping[str, Any]) -> bool:
    """Whether a line is of whole fits, and not of an epoch."""
    return "trials" in line


def fit_table_row(line: Mapping[str, Any]) -> str:
    """Write a line as a row of the table of fits.

    Examples
    --------
    >>> known = {"seconds": 6.04, "predict_seconds": None, "accuracy": 0.9512, "times_default": 1.0}
    >>> rest = {"problem": None, "new_accuracy": None, "times_label_spreading": 3.02}
    >>> print(fit_table_row({"nodes": 10000, "method": "ours", **known, **rest}))
    | 10,000 | ours | 6.04 | – | 95.1 | – | 1.00 | 3.02 |
    """
    start = f"| {line['nodes']:,} | {line['method']} |"
    if line["problem"] is not None:
        return f"{start} {line['problem']} | | | | | |"
    new_accuracy = line.get("new_accuracy")  # lines of earlier versions do not have it
    values = (
        line["seconds"],
        line["predict_seconds"],
        100 * line["accuracy"],
        None if new_accuracy is None else 100 * new_accuracy,
        line["times_default"],
        line["times_label_spreading"],
    )
    return f"{start} {' | '.join(_figures(value) for value in values)} |"


def _figures(value: float | None) -> str:
    """Write three figures, or all before the point."""
    if value is None:
        return "–"
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(digits, 0)}f}"


def table_notes(lines: Sequence[Mapping[str, Any]]) -> str:
    """Write under a table what was measured, where, and how quiet it was."""
    line = lines[0]
    machine = Machine(**line["machine"])
    named = {each["method"] for each in lines}
    many = METHODS["ten"].name
    notes = [
        _say_where(line),
        f"Medians of {line['repeats']} epochs (of ours on a GPU, of bunches of epochs, which the host sees "
        "together). Ours evaluates in each epoch, the peers do not.",
        f"{many}: the time of all, and their own floor." if many in named else "",
        f"{METHODS['default'].name}: updates without an evaluation, as the classifier makes them, "
        "and their own floor, with the projections behind the convolution."
        if METHODS["default"].name in named
        else "",
        "Floor: two large products and the passes over the incidences, by a rate of "
        f"{machine.rate / 1e9:,.0f} GFLOP/s (product in float32) and a bandwidth of "
        f"{machine.bandwidth / 1e9:,.0f} GB/s (copy), both measured in this run.",
        _say_others(lines),
    ]
    return " ".join(note for note in notes if note)


def fit_table_notes(lines: Sequence[Mapping[str, Any]]) -> str:
    """Write under a table of fits what was measured, where, and how quiet it was."""
    line = lines[0]
    counts = sorted({each["networks"] for each in lines})
    new_rows = max(each["size"]["new_rows"] for each in lines)
    notes = [
        _say_where(line),
        f"Medians of {line['repeats']} fits in turn, graph and all, with {line['labels']} labels a class. "
        f"Predictions are for as many new rows, {new_rows:,} at the most; the first accuracy is "
        "that of the fitted rows without a label.",
        f"HGNN, GCN, GAT and HypergraphConv: {' or '.join(map(str, counts))} networks of "
        f"{line['epochs']} epochs, as many as the classifier has at the most.",
        _say_others(lines),
    ]
    return " ".join(note for note in notes if note)


def _say_where(line: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in line["versions"].items() if number)
    return f"{name_device(line['device'])}; {versions}; {line['data']} data."


def _say_others(lines: Sequence[Mapping[str, Any]]) -> str:
    others = max(each["others"] or 0 for each in lines)
    return f"Other processes kept up to {others:.1f} cores busy meanwhile." if others >= 0.1 else ""


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write lines as JSON, one each; the file is replaced whole."""
    with replacing(path) as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines))


_COLOURS = {FLOOR: "0.45", DEFAULT_FLOOR: "0.7"} | {
    method.name: f"C{index}" for index, method in enumerate(METHODS.values())
}


def draw_costs(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Draw milliseconds an epoch against n, both logarithmic: one line a method, and the floor.

    Parameters
    ----------
    path : Path
        The file of the picture; its ending chooses the format, PNG without one.
    lines : sequence of dict
        What `compare` gave.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(9.5, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xscale="log", yscale="log")
    curves = _curves(lines)
    for method, points in curves.items():
        style = "--" if method in (FLOOR, DEFAULT_FLOOR) else "-"
        axes.plot(*zip(*points, strict=True), style, color=_COLOURS[method], marker="o", markersize=4)
    _label(axes, {method: points[-1] for method, points in curves.items()})
    axes.set(xlabel="nodes n", ylabel="milliseconds an epoch", title=_title(lines[0]))
    axes.grid(alpha=0.3)
    nodes = sorted({line["nodes"] for line in lines})
    axes.set_xticks(nodes, [f"{count:,}" for count in nodes])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix.removeprefix(".") or "png")


def _label(axes: Any, ends: Mapping[str, tuple[int, float]]) -> None:
    """Write the name of each curve behind its end, or above it where the others go on."""
    low, high = axes.get_ylim()
    last = max(nodes for nodes, _ in ends.values())
    heights = _spread_apart(
        {method: height for method, (nodes, height) in ends.items() if nodes == last},
        gap=(high / low) ** 0.045,
    )
    for method, end in ends.items():
        behind = method in heights
        axes.annotate(
            method,
            (last, heights[method]) if behind else end,
            xytext=(10, 0) if behind else (0, 7),
            textcoords="offset points",
            ha="left" if behind else "center",
            va="center" if behind else "bottom",
            color=_COLOURS[method],
            annotation_clip=False,
        )


def _title(line: Mapping[str, Any]) -> str:
    device = name_device(line["device"])
    return f"One training epoch, {line['data']} data\n{device}, torch {line['versions']['torch']}"


def _curves(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Collect the points of each method, the smallest n first; those that could not be measured have none."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        if line["milliseconds"] is not None:
            curves.setdefault(line["method"], []).append((line["nodes"], line["milliseconds"]))
    return {method: sorted(points) for method, points in curves.items()}


def _spread_apart(values: Mapping[str, float], *, gap: float) -> dict[str, float]:
    """Raise values until neighbours differ by the factor ``gap`` at least, so that labels can be read."""
    placed: dict[str, float] = {}
    below = 0.0
    for name in sorted(values, key=lambda name: values[name]):
        below = max(values[name], gap * below)
        placed[name] = below
    return {name: placed[name] for name in values}
