"""Read Parquet and Arrow files as cells; Feather files are the latter.

`dahgnn.tables.arrow_cells` says what becomes of their columns.
"""

from __future__ import annotations

from pathlib import Path

from dahgnn.tables.arrow_cells import cells_from_arrow, index_names
from dahgnn.tables.memory import check_memory
from dahgnn.tables.row_files import look_at, read_whole
from dahgnn.tables.sources import Source, Wanted, kept_as_text, with_roles


def read_parquet(path: Path, wanted: Wanted) -> Source:
    """Read Parquet; labels, ids and ``wanted.texts`` become text where they have another exact form."""
    return _read(path, "parquet", wanted)


def read_arrow(path: Path, wanted: Wanted) -> Source:
    """Read an Arrow file as Parquet is read."""
    return _read(path, "arrow", wanted)


def _read(path: Path, kind: str, wanted: Wanted) -> Source:
    kept = kept_as_text(wanted)
    part = look_at(path, kind)
    check_memory(f"The content of {path}", part.n_values * 8)
    content = read_whole(part, lambda name, column: cells_from_arrow(column, name in kept))
    index = tuple(name for name in index_names(part.schema) if name in content and name not in kept)
    return with_roles(path, Source(n_rows=part.n_rows, cells=content, index=index), wanted)
