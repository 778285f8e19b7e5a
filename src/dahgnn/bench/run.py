"""Measure, and keep what is known so far in files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dahgnn.bench import measure, measure_fits
from dahgnn.bench.results import draw_costs, is_fit, write_lines


def run_bench(
    config: measure.BenchConfig, *, out: Path | None = None, plot: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of `compare`, and of `compare_fits` if there are fits, as they are known.

    Parameters
    ----------
    config : BenchConfig
        What is measured.
    out : Path, optional
        A file for the lines; it has each line before it is yielded, so that an interruption loses none.
    plot : Path, optional
        An image for the picture of the epochs, which is drawn at the end.
    """
    if plot is not None:
        import matplotlib  # noqa: F401, fails now rather than after the measurements
    lines = []
    fits = measure_fits.compare_fits(config) if config.fits else ()
    for line in itertools.chain(measure.compare(config), fits):
        lines.append(line)
        if out is not None:
            write_lines(out, lines)
        yield line
    epochs = [line for line in lines if not is_fit(line)]
    if plot is not None and epochs:
        draw_costs(plot, epochs)
