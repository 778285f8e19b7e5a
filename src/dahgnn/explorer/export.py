"""What a project gives away: labels as CSV or Parquet, and the folder of a fit."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dahgnn.explorer.rows import Rows
from dahgnn.progress import Observer
from dahgnn.report.fit_files import FILES, as_utf8, check_inputs_stay, owning
from dahgnn.report.fit_folder import fit_to_folder
from dahgnn.report.fit_options import FitOptions

Columns = Mapping[str, Sequence[Any]]


def as_csv(columns: Columns) -> bytes:
    """Return the bytes of a CSV file in UTF-8; all texts are quoted, and a missing cell is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    for cells in zip(*columns.values(), strict=True):
        writer.writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue().encode("utf-8", "backslashreplace")


def as_parquet(columns: Columns) -> bytes:
    """Return the bytes of a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    kinds = {"probability": pyarrow.float64()}
    arrays = {
        name: pyarrow.array(
            [as_utf8(cell) if isinstance(cell, str) else cell for cell in cells],
            kinds.get(name, pyarrow.string()),
        )
        for name, cells in columns.items()
    }
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), file)
    return file.getvalue()


def write_fit(
    rows: Rows, labels: Sequence[str | None], folder: Path, options: FitOptions, observer: Observer
) -> list[str]:
    """Fit the labels as `dahgnn fit` would, into a folder that `dahgnn predict` and `explain` take.

    Returns
    -------
    list of str
        The names of the files in it.
    """
    check_inputs_stay(folder, [rows.path])
    table = replace(rows.table, labels=tuple(labels))
    with owning(folder):
        fit_to_folder(rows.path, folder, table, options, observer)
    return [name for name in FILES if (folder / name).exists()]
