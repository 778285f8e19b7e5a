"""Labels as files."""

import csv
import io

import pytest

from dahgnn.explorer.export import as_csv, as_parquet

COLUMNS = {
    "id": ["a", 'b"\n,', "c\ud800"],
    "label": ["x", None, "=cmd()"],
    "by": ["person", None, "model"],
    "probability": [None, None, 0.25],
    "time": ["2026-01-01T00:00:00Z", None, None],
}


def test_csv_comes_back_as_it_was():
    rows = list(csv.DictReader(io.StringIO(as_csv(COLUMNS).decode(), newline="")))
    assert [row["id"] for row in rows] == ["a", 'b"\n,', "c\\ud800"]
    assert [row["label"] for row in rows] == ["x", "", "=cmd()"]
    assert [row["probability"] for row in rows] == ["", "", "0.25"]


def test_parquet_comes_back_as_it_was_with_types():
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(as_parquet(COLUMNS)))
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "string", "double", "string"]
    assert table.column("label").to_pylist() == ["x", None, "=cmd()"]
    assert table.column("probability").to_pylist() == [None, None, 0.25]
