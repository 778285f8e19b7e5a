import os
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from dahgnn.tables import sources
from dahgnn.tables.row_files import look_at, read_blocks, read_whole

TABLE = pa.table({"a": list(range(100)), "a.b": [str(row) for row in range(100)], "c": [1.5] * 100})


@pytest.fixture(params=[".parquet", ".arrow", ".feather"])
def file(tmp_path, request):
    """The same rows in groups of very different size."""
    path = tmp_path / f"rows{request.param}"
    if request.param == ".parquet":
        with pq.ParquetWriter(path, TABLE.schema) as writer:
            for begin, count in ((0, 1), (1, 70), (71, 3), (74, 26)):
                writer.write_table(TABLE.slice(begin, count))
    else:
        pyarrow.feather.write_feather(TABLE, path, chunksize=33)
    return path


def test_a_file_tells_its_rows_and_columns(file):
    found = look_at(file)
    assert (found.n_rows, found.names) == (100, ["a", "a.b", "c"])
    assert found.n_values >= 300
    assert read_whole(found, lambda _, column: column.to_pylist()) == TABLE.to_pydict()


@pytest.mark.parametrize("most", [1, 7, 50, 100, 1000])
def test_blocks_have_one_size_whatever_the_groups(file, most):
    blocks = list(read_blocks(look_at(file), ["c", "a"], most))
    assert [block.num_rows for block in blocks[:-1]] == [most] * (len(blocks) - 1)
    assert pa.concat_tables(blocks).to_pydict() == TABLE.select(["c", "a"]).to_pydict()


def test_a_file_that_changed_since_it_was_looked_at_is_refused(file):
    found = look_at(file)
    os.utime(file, ns=(1, 1))
    with pytest.raises(OSError, match="changed while it was read"):
        next(read_blocks(found, ["a"], 10))
    with pytest.raises(OSError, match="changed while it was read"):
        read_whole(found, lambda _, column: column)


def test_a_file_on_a_network_disk_is_the_same_on_another_machine(file, monkeypatch):
    """Of what tells files apart, the number of the device alone differs from machine to machine."""
    found = look_at(file)
    monkeypatch.setattr(sources, "os", OtherMachine())
    assert look_at(file) == found
    assert sum(block.num_rows for block in read_blocks(found, ["a"], 10)) == found.n_rows


class OtherMachine:
    """The module `os` of a machine that calls the same disk by another number."""

    def __getattr__(self, name):
        return getattr(os, name)

    def fstat(self, number):
        status = os.fstat(number)
        names = ("st_ino", "st_size", "st_mtime_ns")
        return SimpleNamespace(st_dev=status.st_dev + 1, **{name: getattr(status, name) for name in names})


def test_a_file_that_changes_while_blocks_are_read_is_refused(file):
    blocks = read_blocks(look_at(file), ["a"], 10)
    next(blocks)
    with file.open("ab") as stream:
        stream.write(b"more")
    with pytest.raises((OSError, ValueError), match="changed while it was read|is cut, damaged"):
        list(blocks)


def test_a_cut_file_is_refused(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="is cut, damaged or not"):
        look_at(file)


def test_damaged_texts_of_an_arrow_file_lead_nowhere(tmp_path):
    path = tmp_path / "rows.arrow"
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, TABLE.schema) as writer:
        writer.write_table(TABLE)
    content = bytearray(path.read_bytes())
    place = content.index((12).to_bytes(4, "little") + (14).to_bytes(4, "little"))  # places of texts
    content[place : place + 4] = (2**30).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is cut, damaged or not Arrow"):
        list(read_blocks(look_at(path), ["a.b"], 10))
