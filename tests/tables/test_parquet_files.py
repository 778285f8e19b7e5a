import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dahgnn.tables.parquet_files import read_parquet
from dahgnn.tables.sources import Wanted
from dahgnn.tables.table import read_table


def test_parquet_reads_as_csv_does(store, write):
    columns = {
        "whole": pa.array([1, None, 3], pa.int64()),
        "part": pa.array([1.5, None, 2.5], pa.float32()),
        "flag": [True, None, False],
        "colour": pa.array(["red", "", "blue"]).dictionary_encode(),
        "money": pa.array(["1.50", "2.25", None]).cast(pa.decimal128(5, 2)),
        "digits": ["1", "2", "NA"],
        "none": pa.nulls(3),
        "view": pa.array(["a", "b", "a"], pa.large_string()),
        "y": pa.array([3.0, None, 4.0]),
    }
    path = store(columns)
    table = read_table(path, label="y")
    pq.read_table(path).to_pandas(ignore_metadata=True).to_csv(path.with_suffix(".csv"), index=False)
    same = read_table(path.with_suffix(".csv"), label="y")
    assert np.array_equal(table.features, same.features)
    assert (table.names, table.columns, table.labels) == (same.names, same.columns, same.labels)
    assert table.labels == ("3", None, "4")
    assert table.features[:, 0].tolist() == [1, 2, 3]


def test_exact_integers_and_dates_can_be_ids_and_labels(store):
    big = [2**60 + 1, 2**60 + 3]
    days = pa.array([0, 1], pa.date32())
    table = read_table(store({"id": big, "day": days, "n": [1, 2]}), id="id", label="day")
    assert table.ids == (str(big[0]), str(big[1]))
    assert table.labels == ("1970-01-01", "1970-01-02")


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([0, 1], pa.duration("s")), "Got times of day or durations"),
        (pa.array([0, 1], pa.time32("s")), "Got times of day or durations"),
        (pa.array([[1], [2, 3]]), "Got lists of 1 to 2 numbers"),
        (pa.array([[], []], pa.list_(pa.int8())), "Got lists of 0 numbers"),
        (pa.array([None, None], pa.list_(pa.int8())), "Got lists that are all missing"),
        (pa.array([["a"], ["b"]]), "Got values of type list"),
        (pa.array([[[1.0]], [[2.0]]]), "Got values of type list"),
        (pa.array([b"a", b"b"]), "Got values of type binary"),
        (pa.array([{"a": 1}, {"a": 2}]), "Got values of type struct"),
    ],
)
def test_values_of_other_types_are_refused(store, column, match):
    path = store({"x": column, "n": [1, 2]})
    with pytest.raises(ValueError, match=f"The column 'x' must hold numbers, flags or text. {match}"):
        read_table(path)
    assert read_table(path, drop=["x"]).names == ("n",)


def test_lists_are_no_labels(store):
    with pytest.raises(ValueError, match="The column 'x' must hold text or numbers. Got values of type list"):
        read_table(store({"x": [[1.0], [2.0]], "n": [1, 2]}), label="x")


def test_the_index_of_pandas_is_no_feature(tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 9], name="key")).to_parquet(path)
    table = read_table(path)
    assert table.names == ("a",)
    assert "1 column ('key') was left out: the index of a pandas table." in table.notes
    assert read_table(path, id="key").ids == ("7", "9")


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"index_columns": 3}', b'{"index_columns": [3, "q"]}'])
def test_damaged_words_of_pandas_are_ignored(tmp_path, metadata):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": [1, 2]}).replace_schema_metadata({b"pandas": metadata}), path)
    assert read_table(path).names == ("a",)


def test_parquet_without_rows_or_with_names_twice_is_refused(store, tmp_path):
    with pytest.raises(ValueError, match="at least one row of data"):
        read_table(store({"a": pa.array([], pa.int64())}))
    with pytest.raises(ValueError, match="at least one row of data"):
        read_table(store({}))
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(ValueError, match="different names. Got 'a' more than once"):
        read_table(path)


def cells_of(path):
    return read_parquet(path, Wanted()).cells


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.list_(pa.float64()), np.float64),
        (pa.list_(pa.float32()), np.float32),
        (pa.list_(pa.float16()), np.float32),
        (pa.list_(pa.int32()), np.float64),
        (pa.large_list(pa.uint8()), np.float64),
        (pa.list_(pa.float32(), 2), np.float32),
    ],
)
def test_lists_of_one_length_are_vectors(store, kind, dtype):
    half = [np.float16(3), np.float16(4)] if kind.value_type == pa.float16() else [3, 4]
    vectors = cells_of(store({"x": pa.array([half, None, half[::-1]], kind)}))["x"]
    assert vectors.dtype == dtype
    assert np.array_equal(vectors, [[3, 4], [np.nan, np.nan], [4, 3]], equal_nan=True)


def test_numbers_that_lists_lack_are_missing(store):
    assert np.array_equal(
        cells_of(store({"x": [[1.0, None], [3.0, 4.0]]}))["x"], [[1, np.nan], [3, 4]], equal_nan=True
    )


def test_dates_and_times_are_seconds_in_utc(store):
    hours = pa.array(["2020-01-01T05:00:01.9", None]).cast(pa.timestamp("us"))
    columns = {
        "day": pa.array([366, None], pa.date32()),
        "here": pa.array([1577836801_900, None], pa.timestamp("ms", tz="Asia/Karachi")),
        "there": hours,
    }
    cells = cells_of(store(columns))
    assert all(each.dtype == "datetime64[s]" for each in cells.values())
    assert [str(each[0]) for each in cells.values()] == [
        "1971-01-02T00:00:00",
        "2020-01-01T00:00:01",
        "2020-01-01T05:00:01",
    ]
    assert all(np.isnat(each[1]) for each in cells.values())


def test_too_many_columns_are_refused_before_they_are_read(store, monkeypatch):
    path = store({f"c{n}": [1, 2] for n in range(6)})
    monkeypatch.setattr("dahgnn.tables.sources.MOST_COLUMNS", 5)
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    with pytest.raises(ValueError, match="must have at most 5 columns. Got 6. Keep those that matter"):
        read_table(path)


def test_more_values_than_memory_holds_are_refused_before_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": np.zeros(100_000, dtype=np.int8)}), path)
    assert path.stat().st_size < 2000
    monkeypatch.setattr("dahgnn.tables.memory.available_memory", lambda: 2**20)
    with pytest.raises(ValueError, match="The content of .* must fit into memory 3 times"):
        read_table(path)
