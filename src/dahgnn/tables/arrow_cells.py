"""Columns of Arrow as cells.

Numbers, flags and text are read as in a text file, so that both give the same features. Dates and timestamps
become datetimes by the second, those with a time zone in UTC. A column of lists of numbers, all of one
length, becomes vectors; a list that is missing is NaN throughout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dahgnn.tables.sources import MOST_COLUMNS, Cells, UnsupportedCells, text_array


def cells_from_arrow(column: Any, as_text: bool) -> Cells:
    """Return a column of Arrow, in chunks, as cells.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        The column.
    as_text : bool
        Whether exact numbers and dates are wanted as text, as labels, ids and known categories are.
    """
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


def index_names(schema: Any) -> list[str]:
    """Return the columns that are the index of a pandas table."""
    try:
        return [name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)]
    except (ValueError, TypeError, KeyError):  # there is none, or not as pandas writes it
        return []
