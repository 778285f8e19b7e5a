import gzip

import numpy as np
import pytest

from dahgnn.tables import memory
from dahgnn.tables.sources import Reading
from dahgnn.tables.table import read_table


def test_packed_files_read_as_plain_ones_do(write):
    text = "größe;b;y\n1,5;x;p\n2,5;y;\n"
    for ending, sign in ((".csv.gz", ";"), (".tsv.gz", "\t")):
        content = gzip.compress(text.replace(";", sign).encode("cp1252"))
        table = read_table(write(content, f"data{ending}"), label="y", reading=Reading(encoding="cp1252"))
        assert table.names == ("größe", "b=x", "b=y")
        assert table.features[:, 0].tolist() == [1.5, 2.5]
        assert table.labels == ("p", None)


def test_several_parts_are_one_file(write):
    content = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    assert read_table(write(content, "data.csv.gz")).features.tolist() == [[1, 2], [3, 4]]


def test_packed_text_of_nothing_is_refused(write):
    with pytest.raises(ValueError, match="must begin with a line of column names"):
        read_table(write(gzip.compress(b""), "data.csv.gz"))


def test_what_unpacks_to_more_than_a_table_does_is_refused(write, monkeypatch):
    monkeypatch.setattr(memory, "_ALWAYS_ALLOWED", 2**20)
    line = gzip.compress(bytes(2**23))
    with pytest.raises(ValueError, match="must unpack to at most 2 MiB, 200 times its size. Got more."):
        read_table(write(line, "bomb.csv.gz"))
    rows = gzip.compress(b"a,b\n" + b"1,2\n" * 2**20)
    with pytest.raises(ValueError, match="must unpack to at most"):
        read_table(write(rows, "rows.csv.gz"))


def test_small_files_may_be_packed_as_well_as_they_can(write):
    content = gzip.compress(b"a,b\n" + b"1,2\n3,2.5\n" * 20_000)
    assert len(content) < 1000
    assert np.array_equal(read_table(write(content, "data.csv.gz")).features[:2], [[1, 2], [3, 2.5]])
