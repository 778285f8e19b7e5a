import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
        (pa.array([0, 1], pa.timestamp("ns")), "Got dates or times"),
        (pa.array([0, 1], pa.date32()), "Got dates or times"),
        (pa.array([0, 1], pa.duration("s")), "Got dates or times"),
        (pa.array([[1.0], [2.0]]), "Got values of type list"),
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
