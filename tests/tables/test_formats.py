import os

import numpy as np
import pytest
from rights import plain_user
from table_files import is_read_or_refused, make_npy, make_npz, make_parquet

from dahgnn.tables.sources import Format, Reading, Source
from dahgnn.tables.table import read_table


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(
    ("suffix", "make"), [("parquet", make_parquet), ("npz", make_npz), ("npy", make_npy)]
)
def test_cut_files_are_refused(write, suffix, make, share):
    content = make()
    with pytest.raises(ValueError, match="is cut, damaged"):
        read_table(write(content[: max(1, int(share * len(content)))], f"data.{suffix}"))


@pytest.mark.parametrize(
    ("suffix", "make"), [("parquet", make_parquet), ("npz", make_npz), ("npy", make_npy)]
)
def test_damaged_files_are_read_or_refused(write, suffix, make):
    content = make()
    for place in np.linspace(0, len(content) - 1, 60).astype(int):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        assert is_read_or_refused(write(bytes(damaged), f"data.{suffix}"))


def test_files_of_another_kind_are_refused(write):
    for suffix in ("parquet", "npz", "npy"):
        for content in (
            b"\x89PNG\r\n\x1a\n" + bytes(100),
            b"a,b\n1,2\n",
            make_parquet(),
            make_npz(),
            make_npy(),
        ):
            if content == {"parquet": make_parquet, "npz": make_npz, "npy": make_npy}[suffix]():
                continue
            with pytest.raises(ValueError, match="is cut, damaged"):
                read_table(write(content, f"data.{suffix}"))


def test_a_format_is_an_entry_of_the_registry(write, monkeypatch):
    def read(path, wanted):
        numbers = np.array([float(word) for word in path.read_text().split()])
        return Source(n_rows=len(numbers), cells={"number": numbers})

    monkeypatch.setattr("dahgnn.tables.formats.FORMATS", {".txt": Format(read)})
    assert read_table(write("1 2 5", "data.TXT")).features.tolist() == [[1], [2], [5]]
    with pytest.raises(ValueError, match="must end in one of .txt. Got '.csv'"):
        read_table(write("a\n1\n"))


@pytest.mark.parametrize("name", ["data.xlsx", "data", "data.csv.gz"])
def test_an_unknown_suffix_is_refused(write, name):
    with pytest.raises(ValueError, match="must end in one of .csv, .tsv, .parquet, .npz, .npy. Got"):
        read_table(write("a,b\n1,2\n", name))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npz", "npy"])
def test_what_is_no_readable_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
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
