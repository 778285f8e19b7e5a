import errno

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from part_folders import change_column, write_animals, write_whole

from dahgnn.files.scratch import Scratch
from dahgnn.tables import large_sources, large_tables
from dahgnn.tables.large_tables import open_large, open_source, read_large_table, survey_large
from dahgnn.tables.planning import Choices
from dahgnn.tables.table import read_table


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch):
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 100)
    monkeypatch.setattr(large_sources, "BLOCK_ROWS", 50)


@pytest.fixture
def folder(tmp_path):
    return write_animals(tmp_path / "animals", group=(11, 1, 1, 500))


def read(path, scratch, id="name", label="kind", **choices):  # noqa: A002
    source = open_large(path)
    survey = survey_large(source, scratch, label=label, id=id, choices=Choices(**choices))
    return read_large_table(survey, scratch, id=id)


def test_a_large_table_is_what_a_small_one_would_be(folder, tmp_path):
    small = read_table(folder, label="kind", id="name")
    with Scratch(tmp_path / "work", large=1) as scratch:
        table = read(folder, scratch)
        assert table.features.dtype.itemsize == 4
        assert np.allclose(table.features, small.features, rtol=1e-6)
        assert (table.names, table.columns) == (small.names, small.columns)
        assert tuple(table.labels[np.arange(327)]) == small.labels
        assert tuple(table.ids.block(0, 327)) == small.ids
        assert set(small.notes) <= set(table.notes)
        assert any(note.startswith("The table is large: 327 rows, one in 1,") for note in table.notes)
    assert not list((tmp_path / "work").iterdir())


def test_one_file_may_be_large(tmp_path):
    path = write_whole(tmp_path / "whole.parquet")
    table = read(path, Scratch(), id=None, drop=["name"])
    assert np.allclose(table.features, read_table(path, label="kind", drop=["name"]).features, rtol=1e-6)
    assert table.ids[5] == "5"


def test_an_array_may_be_large(tmp_path):
    array = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    array[3, 2], array[:, 4] = np.nan, 7
    np.save(tmp_path / "x.npy", array)
    np.save(tmp_path / "y.npy", np.arange(200) % 3 - 1)
    label = str(tmp_path / "y.npy")
    table = read(tmp_path / "x.npy", Scratch(), id=None, label=label)
    small = read_table(tmp_path / "x.npy", label=label)
    assert np.array_equal(table.features, small.features)
    assert tuple(table.labels[np.arange(200)]) == small.labels


def test_what_is_large_is_a_matter_of_rows_cells_and_memory(folder, monkeypatch):
    assert open_large(folder) is not None
    monkeypatch.setattr(large_tables, "LARGE_ROWS", 1000)
    assert open_large(folder) is None
    monkeypatch.setattr(large_tables, "LARGE_CELLS", 2000)
    assert open_large(folder) is not None
    monkeypatch.setattr(large_tables, "LARGE_CELLS", 10**9)
    monkeypatch.setattr(large_tables, "available_memory", lambda: 50_000)
    assert open_large(folder) is not None
    assert open_source(folder.parent / "other.csv") is None


def test_a_sample_decides_about_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(large_tables, "_FEWEST_SAMPLED", 10)
    monkeypatch.setattr(large_tables, "SAMPLE_ROWS", 100)
    folder, rows = tmp_path / "numbers", 1000
    folder.mkdir()
    numbers = np.arange(rows)
    columns = {
        "count": numbers,
        "x": (numbers % 7) ** 2.0,
        "rare": pa.array(["seldom" if row == 501 else "ab"[int(row % 3 == 0)] for row in numbers]),
        "late": pa.array([None if row < 950 else "u" for row in numbers]),
        "y": pa.array([("p", "q")[row % 2] if row % 250 == 1 else None for row in numbers]),
    }
    for place in range(4):
        part = pa.table(columns).slice(place * 250, 250)
        pq.write_table(part, folder / f"{place}.parquet")
    table = read(folder, Scratch(), id=None, label="y")
    assert table.names == ("x", "rare=a", "rare=b", "late=u")
    assert any("1 column ('count') was left out: it counts the rows" in note for note in table.notes)
    assert any("The table is large: 100 rows, one in 10," in note for note in table.notes)
    seldom = "1 value of 'rare', unknown in the other rows, became 0 in all its features: 'seldom'."
    assert seldom in table.notes
    assert table.features[501, 1:3].tolist() == [0, 0]
    assert table.features[949:951, 3].tolist() == [0, 1]
    fill = next(column.fill for column in table.columns if column.name == "x")
    assert fill == np.median((numbers[::10] % 7) ** 2.0)


def test_labelled_rows_tell_whether_a_column_tells_the_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(large_tables, "_FEWEST_SAMPLED", 10)
    monkeypatch.setattr(large_tables, "SAMPLE_ROWS", 100)
    numbers = np.arange(2000)
    labels = [("p", "q")[row // 7 % 2] if row % 7 == 3 else None for row in numbers]
    noise = np.random.default_rng(0).normal(size=2000)
    columns = {"x": noise, "told": numbers // 7 % 2 + 0.25, "y": pa.array(labels)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    survey = survey_large(open_large(tmp_path / "a.parquet"), Scratch(), label="y")
    assert any("The column 'told' tells nearly all labels by itself" in note for note in survey.notes)


def test_vectors_and_other_columns_may_be_missing_in_whole_files(folder):
    for name, kind in (("point", pa.list_(pa.float32())), ("m0", pa.null()), ("colour", pa.null())):
        change_column(folder / "part-3.parquet", name, pa.nulls(200, kind))
    change_column(folder / "part-1.parquet", "point", pa.nulls(7))
    table, small = read(folder, Scratch()), read_table(folder, label="kind", id="name")
    assert np.allclose(table.features, small.features, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "values", "match"),
    [
        ("m2", [np.inf, *np.ones(199)], r"Got inf in row 1 \(counted from 1\) of part-3.parquet"),
        ("m2", [*np.ones(199), 1e39], r"Got 1e\+39 in row 200 \(counted from 1\) of part-3.parquet"),
        ("point", [[1.0]] * 200, "must hold numbers, flags or text. Got lists of 1 to 2 numbers"),
    ],
)
def test_a_bad_cell_is_found_in_its_file(folder, name, values, match):
    change_column(folder / "part-3.parquet", name, pa.array(values))
    with pytest.raises(ValueError, match=match):
        read(folder, Scratch())


def test_a_bad_cell_outside_of_the_sample_is_found_too(folder, monkeypatch):
    monkeypatch.setattr(large_tables, "_FEWEST_SAMPLED", 4)
    monkeypatch.setattr(large_tables, "SAMPLE_ROWS", 10)
    points = [[1.0, 2.0]] * 200
    points[1] = [3.0]
    change_column(folder / "part-3.parquet", "point", pa.array(points))
    with pytest.raises(ValueError, match="Got lists of 1 to 2 numbers"):
        read(folder, Scratch())
    change_column(folder / "part-3.parquet", "point", pa.array([[1.0, 2.0]] * 200))
    change_column(folder / "part-3.parquet", "m1", pa.array([1.0, -np.inf, *np.ones(198)]))
    with pytest.raises(ValueError, match="Got -inf in row 2 .* of part-3.parquet"):
        read(folder, Scratch())


def test_all_that_is_wrong_is_said_and_named(folder):
    with pytest.raises(ValueError, match="must have a column 'knd' for --label. .* Did you mean 'kind'"):
        read(folder, Scratch(), label="knd")
    survey = survey_large(open_large(folder), Scratch(), label="kind", choices=Choices(drop=["nothing"]))
    assert "must have a column 'nothing' for --drop" in survey.problems[0]
    with pytest.raises(ValueError, match="must have a column 'nothing'"):
        read_large_table(survey, Scratch())


def test_a_file_that_changes_between_the_passes_is_refused(folder):
    survey = survey_large(open_large(folder), Scratch(), label="kind", id="name")
    change_column(folder / "part-1.parquet", "m0", pa.array(np.zeros(7)))
    with pytest.raises(OSError, match="part-1.parquet changed while it was read"):
        read_large_table(survey, Scratch())


def test_a_full_disk_is_said_before_anything_is_lost(folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with Scratch(tmp_path / "work", large=1) as scratch, pytest.raises(OSError, match="must have room for"):
        read(folder, scratch)
    assert not list((tmp_path / "work").iterdir())


def test_progress_hears_how_many_rows_are_done(folder):
    heard = []
    survey = survey_large(open_large(folder), Scratch(), label="kind", id="name")
    read_large_table(survey, Scratch(), progress=lambda done, total, text: heard.append((done, total, text)))
    assert heard[-1] == (327, 327, "327 of 327 rows")
    assert [done for done, _, _ in heard] == sorted(done for done, _, _ in heard)
