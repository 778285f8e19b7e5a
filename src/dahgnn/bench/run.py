"""Measure, and keep what is known so far in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dahgnn.bench import measure
from dahgnn.bench.results import draw_costs, write_lines


def run_bench(
    config: measure.BenchConfig, *, out: Path | None = None, plot: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of `compare` as they are known.

    Parameters
    ----------
    config : BenchConfig
        What is measured.
    out : Path, optional
        A file for the lines; it has each line before it is yielded, so that an interruption loses none.
    plot : Path, optional
        An image for the picture of all lines, which is drawn at the end.
    """
    if plot is not None:
        import matplotlib  # noqa: F401, fails now rather than after the measurements
    lines = []
    for line in measure.compare(config):
        lines.append(line)
        if out is not None:
            write_lines(out, lines)
        yield line
    if plot is not None:
        draw_costs(plot, lines)
