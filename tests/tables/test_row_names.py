import errno

import numpy as np
import pyarrow as pa
import pytest
from part_folders import change_column, write_animals

from dahgnn.files.scratch import Scratch
from dahgnn.tables import large_sources, row_names
from dahgnn.tables.large_sources import PartRows
from dahgnn.tables.parts import look_at_parts
from dahgnn.tables.row_names import PlaceNames, read_row_names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(large_sources, "BLOCK_ROWS", 50)
    return write_animals(tmp_path / "animals")


def read(folder, scratch, name="name"):
    return read_row_names(PartRows(look_at_parts(folder)), name, "Do so.", scratch)


def test_ids_are_in_a_file_and_come_back_in_any_block(folder, tmp_path):
    with Scratch(tmp_path / "work", large=1) as scratch:
        names = read(folder, scratch)
        assert len(names) == 327
        assert names[326] == "x326"
        for begin, end in ((0, 327), (49, 51), (119, 128), (5, 5), (100, 300)):
            assert names.block(begin, end) == [f"x{row}" for row in range(begin, end)]
    assert not list((tmp_path / "work").iterdir())


def test_without_ids_the_place_of_a_row_is_its_name(folder):
    names = read(folder, Scratch(), None)
    assert names.block(119, 122) == ["part-0.parquet:119", "part-1.parquet:0", "part-1.parquet:1"]
    assert PlaceNames(3, str).block(0, 3) == ["0", "1", "2"]


def test_an_id_that_is_missing_or_twice_is_found_in_its_file(folder, tmp_path):
    ids = [f"x{row}" for row in range(127, 327)]
    change_column(folder / "part-3.parquet", "name", pa.array(["x5", *ids[1:]]))
    with Scratch(tmp_path) as scratch, pytest.raises(ValueError, match=(
        r"must differ. Got 'x5' in row 6 \(counted from 1\) of part-0.parquet and "
        r"row 1 \(counted from 1\) of part-3.parquet. Do so."
    )):  # fmt: skip
        read(folder, scratch)
    change_column(folder / "part-3.parquet", "name", pa.array([*ids[:60], None, *ids[61:]]))
    with Scratch(tmp_path) as scratch, pytest.raises(ValueError, match="Got none in row 61 .* of part-3"):
        read(folder, scratch)


def test_different_ids_of_one_digest_are_told_apart(folder, monkeypatch):
    monkeypatch.setattr(row_names, "_digests", lambda texts: np.zeros(len(texts), np.int64))
    with Scratch() as scratch:
        assert read(folder, scratch)[7] == "x7"


def test_a_full_disk_is_said(folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with Scratch(tmp_path / "work", large=1) as scratch, pytest.raises(OSError, match="must have room for"):
        read(folder, scratch)
    assert not list((tmp_path / "work").iterdir())
