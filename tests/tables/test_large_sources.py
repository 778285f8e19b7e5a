import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from part_folders import write_animals

from dahgnn.tables import large_sources
from dahgnn.tables.large_sources import ArrayRows, PartRows, block_rows
from dahgnn.tables.parts import look_at_parts
from dahgnn.tables.sources import UnsupportedCells


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(large_sources, "BLOCK_ROWS", 50)


@pytest.fixture
def parts(tmp_path):
    return PartRows(look_at_parts(write_animals(tmp_path / "animals", group=(11, 1, 1, 500))))


def test_a_block_has_few_cells(monkeypatch):
    assert block_rows(1000, 3000) == 50
    monkeypatch.setattr(large_sources, "BLOCK_ROWS", 1 << 16)
    assert block_rows(10**6, 10**6 * 128) == large_sources.BLOCK_CELLS // 128
    assert block_rows(10**6, 10**12) == 256  # however wide a row is
    assert block_rows(0, 0) == 1 << 16


def test_blocks_are_the_rows_of_all_files_in_order(parts, tmp_path):
    whole = pq.read_table(tmp_path / "animals", columns=["m0", "name"])
    blocks = list(parts.blocks(["name", "m0"], ["name"]))
    assert [block.n_rows for block in blocks] == [50, 50, 20, 7, 50, 50, 50, 50]
    assert [name for block in blocks for name in block.cells["name"]] == whole["name"].to_pylist()
    found = np.concatenate([block.cells["m0"] for block in blocks])
    assert np.array_equal(found, whole["m0"].to_numpy(), equal_nan=True)
    assert blocks[2].at(3) == "row 104 (counted from 1) of part-0.parquet"
    assert parts.place(128) == blocks[4].at(1) == "row 2 (counted from 1) of part-3.parquet"
    assert (parts.row_name(128), parts.n_rows) == ("part-3.parquet:1", 327)


def test_codes_are_the_different_cells(parts, tmp_path):
    found = [np.append(cells, None)[codes].tolist() for cells, codes in parts.coded("kind")]
    assert [label for labels in found for label in labels] == pq.read_table(tmp_path / "animals")[
        "kind"
    ].to_pylist()
    assert isinstance(next(parts.coded("point"))[0], UnsupportedCells)


@pytest.mark.parametrize(
    "column", [pa.nulls(3), pa.array(["b", "a", None]).dictionary_encode(), pa.array([2, 1, None])]
)
def test_columns_of_any_type_have_codes(tmp_path, column):
    pq.write_table(pa.table({"y": column}), tmp_path / "a.parquet")
    rows = PartRows(look_at_parts(tmp_path / "a.parquet"))
    (cells, codes), *_ = rows.coded("y")
    assert [None if code < 0 else str(cells[code]) for code in codes] == [
        None if cell is None else str(cell) for cell in column.to_pylist()
    ]
    assert rows.row_name(2) == "2"


def test_an_array_is_given_block_by_block(tmp_path):
    array = np.arange(120 * 6, dtype=np.float32).reshape(120, 2, 3)
    np.save(tmp_path / "x.npy", array)
    np.save(tmp_path / "y.npy", np.arange(120) % 3)
    rows = ArrayRows.look_at(tmp_path / "x.npy")
    assert rows.notes() == ["Each row of 2 × 3 numbers was flattened; the values are not scaled."]
    blocks = list(rows.blocks(["x1", "x5"], []))
    assert [block.n_rows for block in blocks] == [50, 50, 20]
    assert np.array_equal(np.concatenate([block.cells["x5"] for block in blocks]), array[:, 1, 2])
    assert blocks[1].at(0) == rows.place(50) == "row 51 (counted from 1) of x.npy"
    labels = [np.asarray(cells)[codes] for cells, codes in rows.coded(str(tmp_path / "y.npy"))]
    assert np.array_equal(np.concatenate(labels), np.arange(120) % 3)


def test_arrays_that_cannot_be_given_so_are_refused(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.asfortranarray(np.ones((5, 4))))
    with pytest.raises(ValueError, match="rows one after the other. Got columns"):
        ArrayRows.look_at(path)
    np.save(path, np.ones(5))
    with pytest.raises(ValueError, match="must have the shape"):
        ArrayRows.look_at(path)
    np.save(path, np.ones((5, 4)))
    np.save(tmp_path / "y.npy", np.ones(4))
    rows = ArrayRows.look_at(path)
    with pytest.raises(ValueError, match="one value for each of the 5 rows"):
        next(rows.coded(str(tmp_path / "y.npy")))
    with pytest.raises(ValueError, match="must be in NPY files. Got 'y'"):
        next(rows.texts("y"))


def test_an_array_that_is_cut_meanwhile_is_an_error_and_no_end_of_the_process(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((200, 4)))
    rows = ArrayRows.look_at(path)
    blocks = rows.blocks(["x0"], [])
    next(blocks)
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(OSError, match="changed while it was read"):
        list(blocks)
    with pytest.raises(OSError, match="changed while it was read"):
        next(rows.blocks(["x0"], []))
