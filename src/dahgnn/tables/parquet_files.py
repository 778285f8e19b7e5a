"""Read Parquet files as cells.

Numbers, flags and text are read as in a text file, so that both give the same features. Dates and timestamps
become datetimes by the second, those with a time zone in UTC. A column of lists of numbers, all of one
length, becomes vectors; a list that is missing is NaN throughout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dahgnn.tables.memory import check_memory
from dahgnn.tables.sources import (
    MOST_COLUMNS,
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
            parquet = pq.ParquetFile(file)
            _check_size(path, parquet)
            content = parquet.read()
            columns = zip(content.schema.names, content.columns, strict=True)
            cells = {name: _from_arrow(column, name in kept) for name, column in columns}
        except (pa.ArrowException, OSError, UnicodeError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"The file {path} is cut, damaged or not Parquet ({reason}). Write it again."
            ) from error
    index = tuple(name for name in _index_names(content.schema) if name in cells and name not in kept)
    return with_roles(path, Source(n_rows=content.num_rows, cells=cells, index=index), wanted)


def _check_size(path: Path, parquet: Any) -> None:
    """Refuse too many columns, and more values than memory holds, before any is unpacked."""
    check_header(parquet.schema_arrow.names, path)
    groups = [parquet.metadata.row_group(place) for place in range(parquet.metadata.num_row_groups)]
    n_values = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    check_memory(f"The content of {path}", n_values * 8)


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
    return _from_other(column, as_text)


def _from_other(column: Any, as_text: bool) -> Cells:
    import pyarrow as pa

    is_, kind = pa.types, column.type
    if is_.is_date(kind) or is_.is_timestamp(kind):
        return np.asarray(column.cast(pa.timestamp("s"), safe=False).to_numpy())
    if is_.is_temporal(kind):
        return UnsupportedCells("times of day or durations")
    is_list = is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind)
    if is_list and not as_text and (is_.is_integer(kind.value_type) or is_.is_floating(kind.value_type)):
        return _from_lists(column)
    return UnsupportedCells(f"values of type {kind}")


def _from_lists(column: Any) -> Cells:
    """Return lists of numbers of one length as vectors."""
    import pyarrow.compute as pc

    lengths = {length for length in pc.list_value_length(column).unique().to_pylist() if length is not None}
    if len(lengths) != 1:
        between = f"of {min(lengths):,} to {max(lengths):,} numbers" if lengths else "that are all missing"
        return UnsupportedCells(f"lists {between}")
    width = lengths.pop()
    if not 0 < width <= MOST_COLUMNS:
        return UnsupportedCells(f"lists of {width:,} numbers")
    values = pc.list_flatten(column).to_numpy()
    is_small = values.dtype in (np.float32, np.float16)
    vectors = np.full((len(column), width), np.nan, dtype=np.float32 if is_small else np.float64)
    vectors[pc.is_valid(column).to_numpy()] = values.reshape(-1, width)
    return vectors
