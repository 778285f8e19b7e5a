import json

import numpy as np

from dahgnn.tables.columns import Column
from dahgnn.tables.keeping import pack_columns, unpack_columns
from dahgnn.tables.table import read_table

COLUMNS = (
    Column(name="a", kind="number", fill=1.5, missing=("?",)),
    Column(name="c", kind="category", categories=("x", "y")),
    Column(name="d", kind="date", fill=3.0, parts=("days", "year")),
    Column(name="v", kind="vector", mean=(1.0, 2.0)),
    Column(name="u", kind="unused"),
)


def test_columns_survive_json():
    packed, arrays = pack_columns(COLUMNS)
    assert arrays == {}
    assert packed[4] == {"name": "u", "kind": "unused", "categories": []}
    assert unpack_columns(json.loads(json.dumps(packed)), arrays) == COLUMNS


def test_columns_of_an_earlier_version_are_read():
    packed = [{"name": "a", "kind": "number", "fill": 1.0, "categories": []}]
    assert unpack_columns(packed, {}) == (Column(name="a", kind="number", fill=1.0),)


def test_text_keeps_its_words_and_arrays(write):
    path = write(
        "a,x\n" + "".join(f"{row},{'red apple' if row % 2 else 'green pear'} {row}\n" for row in range(30))
    )
    table = read_table(path, text=["x"], keep=["a"])
    packed, arrays = pack_columns(table.columns)
    assert set(arrays) == {"column.1.weights", "column.1.components"}
    columns = unpack_columns(json.loads(json.dumps(packed)), arrays)
    assert np.array_equal(read_table(path, columns=columns).features, table.features)
