import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rights import plain_user
from table_files import CHECKED, TABLES, is_read_or_refused, make_file, pack_frame

from dahgnn.tables.formats import FORMATS, reading_as_fitted, stem
from dahgnn.tables.sources import Format, Reading, Source
from dahgnn.tables.table import read_table

# One table in every format


@pytest.mark.parametrize("ending", FORMATS)
def test_numbers_read_alike_in_every_format(write, ending):
    frame = pd.DataFrame({"x0": [1.5, np.nan, 4, 0.25], "x1": [3, 1, 2, 7], "x2": [1, 1, 1, 1]})
    table = read_table(write(pack_frame(frame, ending), f"data{ending}"))
    assert table.features.tolist() == [[1.5, 3], [1.5, 1], [4, 2], [0.25, 7]]
    assert table.names == ("x0", "x1")


@pytest.mark.parametrize("ending", TABLES)
def test_all_kinds_of_columns_read_alike_in_every_format(write, ending):
    frame = pd.DataFrame(
        {
            "number": [1.5, None, -2e10, 4],
            "whole": [3, 1, 2, 7],
            "flag": [True, False, None, True],
            "digits": ["10", "7", None, "08"],
            "word": ["größe", 'a,"b"\tc', None, "größe"],
            "mixed": ["1", "low", "low", "high"],
            "id": [10**14 + 1, 10**14 + 3, 5, 6],
            "y": [1.0, None, 2.0, 1.0],
        }
    )
    path, plain = (
        write(pack_frame(frame, ending), f"data{ending}"),
        write(pack_frame(frame, ".csv"), "plain.csv"),
    )
    table, same = (read_table(each, label="y", id="id") for each in (path, plain))
    assert np.array_equal(table.features, same.features)
    assert (table.names, table.columns, table.labels) == (same.names, same.columns, same.labels)
    assert table.labels == ("1", None, "2", "1")
    assert table.ids == same.ids == ("100000000000001", "100000000000003", "5", "6")
    again = read_table(path, id="id", columns=same.columns)
    assert np.array_equal(again.features, same.features)


@pytest.mark.parametrize("ending", TABLES)
def test_a_class_of_whole_numbers_has_no_point(write, ending):
    frame = pd.DataFrame({"x": [1, 2, 3], "y": [0, 1, 0], "z": ["001", "1", "None"]})
    path = write(pack_frame(frame, ending), f"data{ending}")
    assert read_table(path, label="y").labels == ("0", "1", "0")
    assert read_table(path, label="z").labels == ("001", "1", "None")


# Damaged files


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("ending", CHECKED)
def test_cut_files_are_refused(write, ending, share):
    content = make_file(ending)
    with pytest.raises(ValueError, match="is cut, damaged"):
        read_table(write(content[: max(1, int(share * len(content)))], f"data{ending}"))


@pytest.mark.parametrize("ending", FORMATS)
def test_damaged_files_are_read_or_refused(write, ending):
    content = make_file(ending)
    for place in np.linspace(0, len(content) - 1, 40).astype(int):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        assert is_read_or_refused(write(bytes(damaged), f"data{ending}"))


@pytest.mark.parametrize("ending", CHECKED)
def test_files_of_another_kind_are_refused(write, ending):
    png = b"\x89PNG\r\n\x1a\n" + bytes(100)
    same = (".arrow", ".feather") if ending in (".arrow", ".feather") else (ending[-3:],)
    others = [make_file(other) for other in FORMATS if not other.endswith(same)]
    for content in (png, b"a,b\n1,2\n", b"PK\x03\x04", *others):
        with pytest.raises(ValueError, match="is cut, damaged|must have an array 'X'"):
            read_table(write(content, f"data{ending}"))


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".ndjson"])
def test_files_that_are_no_json_are_refused(write, ending):
    for content in (b"\x89PNG\r\n\x1a\n", b"a,b\n1,2\n", b"{", b"[", b"1", make_file(".npy")):
        with pytest.raises(ValueError, match="must be|must hold"):
            read_table(write(content, f"data{ending}"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60), ending=st.sampled_from(list(FORMATS)))
def test_any_bytes_are_read_or_refused(tmp_path, content, ending):
    path = tmp_path / f"data{ending}"
    path.write_bytes(content)
    assert is_read_or_refused(path)


# The registry


def test_a_format_is_an_entry_of_the_registry(write, monkeypatch):
    def read(path, wanted):
        numbers = np.array([float(word) for word in path.read_text().split()])
        return Source(n_rows=len(numbers), cells={"number": numbers})

    monkeypatch.setattr("dahgnn.tables.formats.FORMATS", {".txt": Format(read)})
    assert read_table(write("1 2 5", "data.TXT")).features.tolist() == [[1], [2], [5]]
    with pytest.raises(ValueError, match="must end in one of .txt. Got '.csv'"):
        read_table(write("a\n1\n"))


@pytest.mark.parametrize("name", ["data.xls", "data", "data.csv.zip", "csv", ".csv", "data.json.gz"])
def test_an_unknown_ending_is_refused(write, name):
    endings = (
        ".csv, .tsv, .csv.gz, .tsv.gz, .json, .jsonl, .ndjson, .parquet, .arrow, .feather, .xlsx, .npz, .npy"
    )
    with pytest.raises(ValueError, match=f"must end in one of {endings}. Got .* with --format"):
        read_table(write("a,b\n1,2\n", name))


@pytest.mark.parametrize("ending", FORMATS)
def test_the_format_can_be_named_whatever_the_ending(write, ending):
    for name, word in (("data.txt", ending), ("data.csv", ending[1:]), ("data.parquet", ending[1:].upper())):
        table = read_table(write(make_file(ending), name), reading=Reading(format=word))
        assert table.features[:3, 0].tolist() == [0, 1, 4]


def test_an_unknown_format_is_refused_with_a_suggestion(write):
    with pytest.raises(ValueError, match="must be one of csv, tsv, .* Got 'jsnl'. Did you mean 'jsonl'?"):
        read_table(write("a\n1\n"), reading=Reading(format="jsnl"))


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("a.csv", "a"),
        ("a.b.CSV.gz", "a.b"),
        ("a.gz", "a"),
        ("a", "a"),
        ("a.csv.bak", "a.csv"),
        (".csv", ".csv"),
    ],
)
def test_the_stem_is_the_name_without_the_ending(name, want):
    assert stem(Path("folder") / name) == want


def test_a_file_for_a_fitted_model_is_read_as_the_fitted_one():
    fitted = Reading(encoding="cp1252", delimiter=";", decimal=",")
    assert reading_as_fitted(Path("a.csv"), Reading(), fitted) == fitted
    own = Reading(encoding="utf-8")
    assert reading_as_fitted(Path("a.csv"), own, fitted) == Reading(
        encoding="utf-8", delimiter=";", decimal=","
    )
    assert reading_as_fitted(Path("a.jsonl"), Reading(), fitted) == Reading(encoding="cp1252")
    assert reading_as_fitted(Path("a.parquet"), Reading(), fitted) == Reading()
    once = Reading(format="csv")
    assert reading_as_fitted(Path("a.parquet"), Reading(), once) == Reading()
    assert reading_as_fitted(Path("a.txt"), once, fitted).given == {**fitted.given, "format": "csv"}


@pytest.mark.parametrize("ending", FORMATS)
def test_what_is_no_readable_file_is_refused(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    with pytest.raises(FileNotFoundError, match="There is no file .*data"):
        read_table(path)
    os.mkfifo(path)
    with pytest.raises(OSError, match="must be a regular file"):
        read_table(path)
    path.unlink()
    path.touch()
    with pytest.raises(ValueError, match="must have content. Got an empty file"):
        read_table(path)
    path.chmod(0)
    with plain_user(), pytest.raises(PermissionError, match="cannot be read: permission denied"):
        read_table(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError, match="must be a file. Got a folder"):
        read_table(path)


def test_options_that_a_format_has_not_are_refused(pack):
    with pytest.raises(
        ValueError, match="'encoding' parameter of read_table must be left out for .npz files"
    ):
        read_table(pack(X=np.eye(2)), reading=Reading(encoding="utf-8"))
