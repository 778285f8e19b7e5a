import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from part_folders import change_column, write_animals, write_whole
from PIL import Image

from dahgnn.tables.formats import find_format, is_parts
from dahgnn.tables.parts import holds_row_files, look_at_parts
from dahgnn.tables.sources import Reading
from dahgnn.tables.table import read_table


@pytest.fixture
def folder(tmp_path):
    return write_animals(tmp_path / "animals")


def test_a_folder_reads_as_one_file_of_the_same_rows_does(folder, tmp_path):
    table = read_table(folder, label="kind", id="name")
    whole = read_table(write_whole(tmp_path / "whole.parquet"), label="kind", id="name")
    assert np.array_equal(table.features, whole.features)
    assert (table.names, table.columns, table.labels, table.ids) == (
        whole.names,
        whole.columns,
        whole.labels,
        whole.ids,
    )
    assert "The rows are those of 4 files, in order of name." in table.notes
    assert "1 file has no rows: 'part-2.parquet'." in table.notes


def test_rows_without_an_id_are_called_by_file_and_number(folder):
    ids = read_table(folder, label="kind", drop=["name"]).ids
    assert ids[:2] == ("part-0.parquet:0", "part-0.parquet:1")
    assert ids[120] == "part-1.parquet:0"
    assert ids[127] == "part-3.parquet:0"


def test_a_folder_may_be_called_as_spark_calls_it(folder):
    spark = folder.rename(folder.with_name("animals.parquet"))
    (spark / "_SUCCESS").touch()
    (spark / ".part-0.parquet.crc").touch()
    (spark / "readme.txt").write_text("mine")
    table = read_table(spark, label="kind", id="name")
    assert len(table.ids) == 327
    assert "1 other file was ignored: 'readme.txt'." in table.notes
    assert is_parts(spark, Reading(format="parquet"))
    assert not is_parts(spark, Reading(format="csv"))


def test_parquet_and_arrow_files_may_stand_together(folder):
    path = folder / "part-1.parquet"
    pyarrow.feather.write_feather(pq.read_table(path), folder / "part-1.feather")
    path.unlink()
    assert len(read_table(folder, label="kind", id="name").ids) == 327


def test_whole_and_decimal_numbers_are_numbers_and_nothing_fits_all(folder):
    change_column(folder / "part-1.parquet", "m0", pa.array([1, 2, 3, 4, 5, 6, 7]))
    change_column(folder / "part-3.parquet", "m1", pa.nulls(200))
    change_column(folder / "part-1.parquet", "colour", pa.array(["red"] * 7).dictionary_encode())
    table = read_table(folder, label="kind", id="name")
    assert table.features[120:127, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert len(set(table.features[127:, 1])) == 1


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.drop_columns(["m1", "kind"]), "part-3.parquet must have the columns of part-0.parquet. Got none called 'm1', 'kind'. Write"),
        (lambda t: t.append_column("new", pa.nulls(200)), "part-3.parquet must have .* Got also 'new'"),
        (lambda t: t.rename_columns({"m1": "M1"}), "Got none called 'm1', and also 'M1'"),
    ],
)  # fmt: skip
def test_a_file_with_other_columns_is_named(folder, change, match):
    path = folder / "part-3.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(ValueError, match=match):
        read_table(folder, label="kind", id="name")


def test_labels_that_are_numbers_in_one_file_and_text_in_another_are_refused(folder):
    change_column(folder / "part-3.parquet", "kind", pa.array([1] * 200))
    with pytest.raises(
        ValueError,
        match="The column 'kind' of the file .*part-3.parquet must hold text, as in part-0.parquet. Got numbers",
    ):
        read_table(folder, label="kind", id="name")


def test_a_cut_file_and_an_empty_one_are_named(folder):
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="part-1.parquet is cut, damaged or not Parquet"):
        look_at_parts(folder)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="part-1.parquet must have content"):
        look_at_parts(folder)


def test_a_bad_cell_is_found_in_its_file(folder):
    values = np.ones(7)
    values[4] = np.inf
    change_column(folder / "part-1.parquet", "m2", pa.array(values))
    with pytest.raises(ValueError, match=r"Got inf in row 5 \(counted from 1\) of part-1.parquet"):
        read_table(folder, label="kind", id="name")


def test_folders_of_nothing_of_pictures_and_of_both(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="must have pictures in it.* Parquet files"):
        read_table(tmp_path / "empty")
    with pytest.raises(ValueError, match="must have files in it that end in one of .parquet"):
        look_at_parts(tmp_path / "empty")
    write_animals(tmp_path / "none", sizes=(0, 0))
    with pytest.raises(ValueError, match="must have at least one row of data"):
        read_table(tmp_path / "none", label="kind")
    both = write_animals(tmp_path / "both")
    (both / "cat").mkdir()
    Image.new("L", (4, 4)).save(both / "cat" / "a.png")
    with pytest.raises(ValueError, match="either pictures in it, or files of rows. Got 'part-0.parquet'"):
        read_table(both, label="kind")
    for path in both.glob("*.parquet"):
        path.unlink()
    assert not holds_row_files(both)
    assert find_format(both).roles == "folders"
