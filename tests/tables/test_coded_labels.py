import numpy as np
import pyarrow as pa
import pytest
from file_backed import is_in
from part_folders import write_animals

from dahgnn.files.scratch import Scratch
from dahgnn.tables import coded_labels, large_sources
from dahgnn.tables.coded_labels import read_coded_labels
from dahgnn.tables.large_sources import ArrayRows, PartRows
from dahgnn.tables.missing import Missing
from dahgnn.tables.parts import look_at_parts
from dahgnn.tables.table import read_table


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(large_sources, "BLOCK_ROWS", 3)
    monkeypatch.setattr(coded_labels, "_BLOCK", 4)


def read(path, missing=(), name="y"):
    return read_coded_labels(PartRows(look_at_parts(path)), name, Missing(missing), Scratch())


@pytest.mark.parametrize(
    "cells",
    [
        ["b", None, "a", "a ", "", "b", "None", "c"],
        [3.0, None, 4.0, 3.0, float("nan"), 5.0, 3.0, 4.0],
        [1.5, 2.0, 1.5, 2.0, 1.5, 2.0, 2.0, 1.5],
        [1, -1, 0, 2, -1, 0, 1, 2],
        [1, -1, 1, -1, 1, 1, 1, 1],
        [True, None, False, True, None, None, False, False],
        ["001", "1", "001", None, "1", "?", "?", "1"],
    ],
)
@pytest.mark.parametrize("missing", [(), ("?", "3")])
def test_labels_mean_what_they_do_in_a_small_table(store, cells, missing):
    path = store({"x": np.arange(8.0) ** 2, "y": pa.array(cells)})
    labels, notes = read(path, missing)
    small = read_table(path, label="y", missing=missing)
    assert tuple(labels[np.arange(8)]) == small.labels
    assert notes == list(small.notes[1 : 1 + len(notes)])
    assert labels.classes == tuple(sorted({label for label in small.labels if label is not None}))
    assert labels.labelled().tolist() == [row for row, label in enumerate(small.labels) if label is not None]
    assert labels.n_labelled == len(labels.labelled())
    assert {label: labels.counts[label] for label in small.labels} == {
        label: small.labels.count(label) for label in small.labels
    }


def test_labels_of_several_files_are_of_one_set_of_classes(tmp_path):
    labels, _ = read(write_animals(tmp_path / "animals"), name="kind")
    assert labels.classes == ("ant", "bee", "cat")
    assert labels[[0, 5, 10, 125, 130, 1]].tolist() == ["ant", "cat", "bee", "cat", "bee", None]
    assert len(labels) == 327


def test_labels_beside_an_array(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((7, 2)))
    np.save(tmp_path / "y.npy", np.array([1, -1, 0, -1, 1, 0, -1]))
    source = ArrayRows.look_at(tmp_path / "x.npy")
    labels, notes = read_coded_labels(source, str(tmp_path / "y.npy"), Missing(()), Scratch())
    assert labels.codes.tolist() == [1, -1, 0, -1, 1, 0, -1]
    assert "The label -1 was taken for unlabelled, in 3 rows." in notes


def test_what_is_no_class_is_refused(store, monkeypatch):
    with pytest.raises(ValueError, match="The column 'y' must hold text or numbers. Got values of type list"):
        read(store({"y": pa.array([[1], [2]])}))
    with pytest.raises(ValueError, match="must be classes. Got 40 different numbers in 40 rows"):
        read(store({"y": np.arange(40) + 0.5}))
    monkeypatch.setattr(coded_labels, "_MOST_CELLS", 5)
    with pytest.raises(ValueError, match="must be classes. Got more than 5 different cells"):
        read(store({"y": [f"word {row}" for row in range(8)]}))


def test_codes_may_be_in_a_file(tmp_path, store):
    path = store({"y": ["a", None, "b", "a"]})
    with Scratch(tmp_path / "work", large=1) as scratch:
        source = PartRows(look_at_parts(path))
        labels, _ = read_coded_labels(source, "y", Missing(()), scratch)
        assert is_in(labels.codes, tmp_path / "work")
        assert labels.codes.tolist() == [0, -1, 1, 0]
