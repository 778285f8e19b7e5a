"""Lines of measurements as Markdown tables, a table a part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scale.arithmetic import PowerLaw, fit_power

Line = Mapping[str, Any]


def gib(size: float | None) -> str:
    """Return bytes as GiB; a dash for what was not measured.

    Examples
    --------
    >>> gib(3 << 29), gib(None)
    ('1.50', '–')
    """
    return "–" if size is None else f"{size / 2**30:.2f}"


def seconds(value: float | None) -> str:
    """Return seconds with three digits that count.

    Examples
    --------
    >>> seconds(0.01234), seconds(12.345), seconds(1234.5), seconds(None)
    ('0.012', '12.3', '1,234', '–')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def percent(share: float | None) -> str:
    """Return a share in percent."""
    return "–" if share is None else f"{100 * share:.2f}"


def beside(line: Line, lines: Iterable[Line]) -> Line | None:
    """Return FAISS by hand of the same run, if a line of the graph has it."""
    same = ("part", "n", "d", "metric")
    found = [
        other
        for other in lines
        if other.get("who") == "by hand" and all(other[name] == line[name] for name in same)
    ]
    return found[-1] if found else None


def _graph_row(line: Line, lines: Sequence[Line]) -> list[str]:
    hand = beside(line, lines)
    settings = ", ".join(f"{name} {value:,}" for name, value in line["settings"].items())
    ratio = "–" if hand is None else f"{line['seconds'] / hand['seconds']:.2f}"
    return [
        f"{line['n']:,} × {line['d']}",
        line["metric"],
        str(line["jobs"]),
        f"{line['backend']} ({settings})" if settings else line["backend"],
        *(seconds(line[name]) for name in ("seconds", "seconds_index", "seconds_search", "seconds_collect")),
        f"{line['recall']:.3f}",
        gib(line["anonymous"]),
        gib(line["resident"]),
        seconds(hand["seconds"]) if hand else "–",
        f"{hand['recall']:.3f}" if hand else "–",
        ratio,
    ]


def _fit_row(line: Line, lines: Sequence[Line]) -> list[str]:  # noqa: ARG001, all rows are made alike
    return [
        f"{line['n']:,} × {line['d']}",
        str(line["seed"]),
        f"{line['backend']}, {'batches' if line['batches'] else 'at once'}, "
        f"{'on disk' if line['on_disk'] else 'in memory'}",
        *(
            seconds(line[name])
            for name in (
                "seconds",
                "seconds_neighbours",
                "seconds_networks",
                "seconds_rest",
                "expected_seconds",
            )
        ),
        seconds(line["rows_a_second"]),
        gib(line["fit_anonymous"]),
        gib(line["fit_resident"]),
        gib(line["expected_memory"]),
        percent(line["accuracy"]),
        percent(line["laplace_accuracy"]),
    ]


def _train_row(line: Line, lines: Sequence[Line]) -> list[str]:  # noqa: ARG001
    reached = line.get("nodes_a_batch")
    nodes = line["n"] if reached is None else reached * line["updates_an_epoch"]
    return [
        f"{line['n']:,} × {line['d']}",
        str(line["device"].get("name", line["device"]["type"])),
        f"{line['batch']:,}" if line["batch"] else "all at once",
        f"{line['processes']} × {line['threads']}",
        seconds(line["seconds_propagate"]),
        seconds(line["seconds_an_epoch"]),
        seconds(line["targets_a_second"]),
        seconds(nodes / line["seconds_an_epoch"]),
        seconds(line["seconds_evaluate"]),
        gib(line["anonymous_of_all"]),
        gib(line.get("resident_of_all")),
        gib(line["memory_on_device"]),
        seconds(line.get("seconds_prepare")),
        seconds(line.get("seconds_update")),
        seconds(line.get("seconds_update_plain")),
    ]


def _parquet_row(line: Line, lines: Sequence[Line]) -> list[str]:  # noqa: ARG001
    took = {phase["name"]: phase["seconds"] for phase in line["phases"]}
    return [
        f"{line['n']:,} × {line['d']}",
        seconds(line["seconds"]),
        *(seconds(took.get(name)) for name in ("look through", "read", "fit", "compare", "write", "draw")),
        seconds(line["rows_a_second"]),
        gib(line["anonymous"]),
        gib(line["resident"]),
        percent(line["held_out_accuracy"]),
    ]


_Row = Callable[[Line, Sequence[Line]], list[str]]
_FIT_HEAD = (
    "rows|seed|way|s|neighbours|networks|rest|expected s|rows a s|GiB|GiB with files|expected GiB|right, %|"
    "Laplace, %"
)
_PARTS: Mapping[str, tuple[str, _Row]] = {
    "graph": (
        "rows|metric|processes|search|s|index|shards|choice|recall|GiB|GiB with files|by hand, s|its recall|"
        "times by hand",
        _graph_row,
    ),
    "fit": (_FIT_HEAD, _fit_row),
    "mnist": (_FIT_HEAD, _fit_row),
    "train": (
        "rows|device|labelled rows an update|processes × threads|s to propagate|s an epoch|targets a s|"
        "nodes reached a s|s to evaluate|GiB|GiB with files|GiB on the GPU|s to prepare a batch|to update|"
        "by plain PyTorch",
        _train_row,
    ),
    "parquet": (
        "rows|s|look through|read|fit|compare|write|draw|rows a s|GiB|GiB with files|right of held out, %",
        _parquet_row,
    ),
}


def say_table(part: str, lines: Sequence[Line]) -> str:
    """Return the lines of a part as a table, or nothing if there are none."""
    own = [line for line in lines if line["part"] == part and line.get("who") != "by hand"]
    if not own:
        return ""
    head, row = _PARTS[part]
    names = head.split("|")
    rows = [names, ["---"] + ["---:"] * (len(names) - 1)]
    for line in own:
        problem = line.get("problem")
        rows.append(
            row(line, lines) if problem is None else [f"{line['n']:,}", problem, *[""] * (len(names) - 2)]
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def say_growth(part: str, lines: Sequence[Line]) -> str:
    """Say with which power of n the time of a part grows, if several sizes were measured."""
    name = {"train": "seconds_evaluate"}.get(part, "seconds")
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        if line["part"] == part and line.get("problem") is None:
            kind = tuple(
                line.get(key) for key in ("who", "d", "metric", "jobs", "batch", "processes", "threads")
            )
            groups.setdefault(kind, []).append(line)
    said = []
    for kind, own in groups.items():
        if len({line["n"] for line in own}) > 1:
            law: PowerLaw = fit_power([line["n"] for line in own], [line[name] for line in own])
            what = ", ".join(str(value) for value in kind if value is not None)
            said.append(
                f"{part} ({what}): {law.at_a_million:.3g} s × (n / 10⁶)^{law.exponent:.2f} over n = "
                + ", ".join(f"{n:,}" for n in law.measured)
            )
    return "\n".join(said)
