import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dahgnn.tables.arrow_cells import cells_from_arrow, index_names
from dahgnn.tables.sources import UnsupportedCells


@pytest.mark.parametrize(
    ("values", "as_text", "expected"),
    [
        (pa.array([1, None]), False, [1, None]),
        (pa.array([1, 2]), True, ["1", "2"]),
        (pa.array([1.5, None]), True, [1.5, None]),
        (pa.array(["a", None]).dictionary_encode(), False, ["a", None]),
        (pa.array([True, None]), False, ["True", None]),
        (pa.nulls(2), False, [None, None]),
    ],
)
def test_numbers_flags_and_text_become_cells(values, as_text, expected):
    cells = cells_from_arrow(pa.chunked_array([values]), as_text)
    assert [None if cell is None or cell != cell else cell for cell in cells.tolist()] == expected


def test_lists_of_one_length_become_vectors_over_all_chunks():
    cells = cells_from_arrow(pa.chunked_array([[[1.0, 2.0]], [None], [[3.0, None]]]), as_text=False)
    assert np.array_equal(cells, [[1, 2], [np.nan, np.nan], [3, np.nan]], equal_nan=True)
    assert isinstance(cells_from_arrow(pa.chunked_array([[[1], [1, 2]]]), as_text=False), UnsupportedCells)


def test_the_index_of_pandas_is_known_by_its_name():
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index([5, 6], name="n"))
    assert index_names(pa.Table.from_pandas(frame).schema) == ["n"]
    assert index_names(pa.schema([("a", pa.int8())])) == []
