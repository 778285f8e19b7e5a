import csv
import json
import os

import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest
from table_files import make_file

from dahgnn.tables.sources import Reading
from dahgnn.tables.table import read_table


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (
            {"encoding": "latin1x"},
            ValueError,
            "an encoding of text that Python knows, .* Did you mean 'latin1'?",
        ),
        ({"encoding": "klingon"}, ValueError, "Got 'klingon'. Files of Windows programs are often in cp1252"),
        ({"encoding": "rot13"}, ValueError, "an encoding of text .* Got 'rot13'. Files of Windows"),
        ({"encoding": "a\0b"}, ValueError, "an encoding of text that Python knows"),
        ({"encoding": 8}, TypeError, "'encoding' parameter of Reading must be text. Got 8"),
        ({"delimiter": ",,"}, ValueError, "'tab', or one ASCII character that is no letter, .* Got ',,'"),
        ({"delimiter": ""}, ValueError, "'tab', or one ASCII character"),
        ({"delimiter": "e"}, ValueError, "'tab', or one ASCII character"),
        ({"delimiter": '"'}, ValueError, "'tab', or one ASCII character"),
        ({"delimiter": "\n"}, ValueError, "'tab', or one ASCII character"),
        ({"delimiter": "§"}, ValueError, "'tab', or one ASCII character"),
        ({"delimiter": 3}, TypeError, "'delimiter' parameter of Reading must be text. Got 3"),
        ({"decimal": ";"}, ValueError, "'decimal' parameter of Reading must be one of '.', ','. Got ';'"),
    ],
)
def test_wrong_ways_of_reading_are_refused(options, error, match):
    with pytest.raises(error, match=match):
        Reading(**options)


def test_a_way_of_reading_says_what_is_given():
    assert Reading().given == {}
    assert Reading(encoding="cp1252", delimiter="tab").given == {"encoding": "cp1252", "delimiter": "\t"}


def append(path):
    with path.open("a") as file:
        file.write("5,6\n")


def touch(path):
    os.utime(path, ns=(1, 1))


def swap(path):
    status = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("change", [append, touch, swap, os.unlink])
def test_a_file_that_changes_while_it_is_read_is_refused(write, monkeypatch, change):
    path = write("a,b\n1,2\n3,4\n")
    read = pd.read_csv

    def read_and_change(*arguments, **settings):
        frame = read(*arguments, **settings)
        change(path)
        return frame

    monkeypatch.setattr(pd, "read_csv", read_and_change)
    with pytest.raises(OSError, match="data.csv changed while it was read"):
        read_table(path)


@pytest.mark.parametrize(
    ("ending", "module", "name"),
    [
        (".npy", np.lib.format, "read_array"),
        (".parquet", pq, "ParquetFile"),
        (".json", json, "loads"),
        (".xlsx", openpyxl, "load_workbook"),
        (".csv.gz", csv, "reader"),
    ],
)
def test_other_files_that_change_are_refused(write, monkeypatch, ending, module, name):
    path = write(make_file(ending), f"data{ending}")
    read = getattr(module, name)

    def read_and_change(*arguments, **settings):
        touch(path)
        return read(*arguments, **settings)

    monkeypatch.setattr(module, name, read_and_change)
    with pytest.raises(OSError, match=f"data{ending} changed while it was read"):
        read_table(path)
