"""Standard input as a table: what is read from it lies in a file as long as a command runs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def received(path: Path, format_name: str | None) -> Iterator[Path]:
    """Give the path of a table; for the path "-" that of a file with all that standard input holds."""
    from dahgnn.tables.formats import find_format
    from dahgnn.tables.sources import Reading

    if str(path) != "-":
        yield path
        return
    if format_name is None:
        raise ValueError(
            "The format of standard input must be named. Got none. Say --format csv, for example."
        )
    reading = Reading(format=format_name)
    find_format(path, reading)  # refuses what is no format before anything is read
    with tempfile.TemporaryDirectory(prefix="dahgnn-") as folder:
        target = Path(folder) / f"stdin.{format_name.removeprefix('.').lower()}"
        with target.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield target
