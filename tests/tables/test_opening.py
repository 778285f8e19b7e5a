import os

import numpy as np
import pyarrow as pa
import pytest
import torch
from part_folders import change_column, write_animals

from dahgnn import DAHGNNClassifier, open_rows
from dahgnn.classifier import estimator
from dahgnn.files.mapped import find_mapped
from dahgnn.tables.table import read_table


def test_an_array_is_mapped_and_its_file_is_never_written_to(tmp_path):
    array = np.random.default_rng(0).normal(size=(20, 3, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", array)
    before = (tmp_path / "x.npy").read_bytes()
    rows = open_rows(tmp_path / "x.npy")
    assert torch.equal(rows, torch.from_numpy(array).flatten(1))
    rows[0] = 5
    assert (tmp_path / "x.npy").read_bytes() == before


def test_a_fit_refuses_an_opened_array_that_was_cut_or_changes(tmp_path, monkeypatch):
    path, labels = tmp_path / "x.npy", np.arange(4000) % 2
    np.save(path, np.random.default_rng(0).normal(size=(4000, 8)).astype(np.float32))
    rows = open_rows(path)
    really = estimator.begin

    def change(*arguments):
        with path.open("r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(bytes(8))
        return really(*arguments)

    monkeypatch.setattr(estimator, "begin", change)  # which scales the rows
    with pytest.raises(ValueError, match=r"x.npy must stay the same while it is read"):
        DAHGNNClassifier(networks=1).fit(rows, labels)
    assert find_mapped(rows).filename == path  # else the next fit ends the process
    os.truncate(path, 5000)
    with pytest.raises(ValueError, match=r"x.npy must have 128,128 bytes, .* Got 5,000. Write it anew"):
        DAHGNNClassifier(networks=1).fit(rows[:3000], labels[:3000])


def test_other_types_of_an_array_become_features(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(20).reshape(10, 2) ** 2)
    rows = open_rows(str(tmp_path / "x.npy"))
    assert rows.dtype == torch.float32
    assert rows.tolist() == (np.arange(20).reshape(10, 2) ** 2).tolist()


def test_a_folder_becomes_the_features_that_a_fit_would_have(tmp_path):
    folder = write_animals(tmp_path / "animals")
    rows = open_rows(folder, drop=["kind", "name"], folder=tmp_path / "work")
    expected = read_table(folder, drop=["kind", "name"]).features
    assert np.allclose(rows, expected, rtol=1e-6)
    one = open_rows(folder / "part-0.parquet", drop=["kind", "name"])
    assert np.allclose(one, read_table(folder / "part-0.parquet", drop=["kind", "name"]).features, rtol=1e-6)


def test_what_cannot_be_opened_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        open_rows(tmp_path / "none.npy")
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="must be a file that ends in one of .parquet"):
        open_rows(tmp_path / "a.csv")
    folder = write_animals(tmp_path / "animals")
    change_column(folder / "part-3.parquet", "m0", pa.array(["word"] * 200))
    with pytest.raises(ValueError, match="'m0' of the file .*part-3.parquet must hold numbers"):
        open_rows(folder, drop=["kind"])
