"""Read Parquet files as cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dahgnn.tables.sources import (
    Cells,
    Source,
    UnsupportedCells,
    Wanted,
    check_header,
    kept_as_text,
    opened,
    text_array,
    with_roles,
)


def read_parquet(path: Path, wanted: Wanted) -> Source:
    """Read Parquet; labels, ids and ``wanted.texts`` become text where they have another exact form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept = kept_as_text(wanted)
    with opened(path) as file:
        try:
            content = pq.ParquetFile(file).read()
            check_header(content.schema.names, path)
            columns = zip(content.schema.names, content.columns, strict=True)
            cells = {name: _from_arrow(column, name in kept) for name, column in columns}
        except (pa.ArrowException, OSError, UnicodeError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"The file {path} is cut, damaged or not Parquet ({reason}). Write it again."
            ) from error
    index = tuple(name for name in _index_names(content.schema) if name in cells and name not in kept)
    return with_roles(path, Source(n_rows=content.num_rows, cells=cells, index=index), wanted)


def _index_names(schema: Any) -> list[str]:
    try:
        return [name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)]
    except (ValueError, TypeError, KeyError):  # there is none, or not as pandas writes it
        return []


def _from_arrow(column: Any, as_text: bool) -> Cells:
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if as_text and (is_.is_integer(kind) or is_.is_decimal(kind) or is_.is_temporal(kind)):
        column = column.cast(pa.string())
    elif is_.is_null(kind) or is_.is_decimal(kind):
        column = column.cast(pa.float64())
    kind = column.type
    if is_.is_integer(kind) or is_.is_floating(kind):
        return np.asarray(column.to_numpy())
    if is_.is_boolean(kind) or is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return text_array(None if cell is None else str(cell) for cell in column.to_pylist())
    return UnsupportedCells("dates or times" if is_.is_temporal(kind) else f"values of type {kind}")
