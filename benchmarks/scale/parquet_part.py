"""The part ``parquet``: what `dahgnn fit` does to a folder of Parquet files, from files to results."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from dahgnn.config import ResourceConfig
from dahgnn.report.fit_folder import fit_table
from dahgnn.report.fit_options import FitOptions
from scale.rows import write_parquet
from scale.watch import Watch


def measure_parquet(spec: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    """Fit a folder of Parquet files, which a process before this one has written.

    Parameters
    ----------
    spec : dict
        "n", "d", "labels", "memory" (GiB, or None), "batch", "jobs" and "device".
    work : Path
        Where the files are, and large arrays meanwhile.
    watch : Watch
        Measures the phases that the command shows.
    """
    table, out = write_parquet(work, spec["n"], spec["d"], spec["labels"]), work / "parquet-results"
    shutil.rmtree(out, ignore_errors=True)
    resources = ResourceConfig(
        memory=spec["memory"], batch=spec["batch"], jobs=spec["jobs"], folder=str(work)
    )
    options = FitOptions(label="kind", map="none", device=spec["device"], resources=resources)
    start, before = time.perf_counter(), time.process_time()
    metrics = fit_table(table, out, options, watch)
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - before
    written = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    shutil.rmtree(out)
    return {
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "rows_a_second": spec["n"] / seconds,
        "seconds_fit": metrics["seconds"],
        "held_out_accuracy": metrics["held_out_accuracy"],
        "bytes_read": sum(file.stat().st_size for file in table.iterdir()),
        "bytes_written": written,
        "notes": watch.notes,
    }


def prepare_parquet(spec: dict[str, Any], work: Path, watch: Watch) -> dict[str, Any]:
    """Write the files, in a process of its own: its memory is not that of the fit."""
    with watch.phase("write"):
        write_parquet(work, spec["n"], spec["d"], spec["labels"])
    return {}
