"""The rows that a classifier is given."""

import os

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from dahgnn.classifier.rows import MappedFile, read_rows
from dahgnn.files.mapped import tensor_of_mapped
from dahgnn.graph.scaling import choose_scaling


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_become_dense_in_their_precision(dtype):
    rows = np.array([[0, 1, 0], [2, 0, 3]], dtype=dtype)
    read = read_rows(BaseEstimator(), csr_array(rows), reset=True)
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, rows)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (np.float16, np.float32),
        (">f2", np.float32),
        (np.uint8, np.float32),
        (np.int16, np.float32),
        (np.uint16, np.float32),
        (bool, np.float32),
        (np.float32, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.float64, np.float64),
    ],
)
def test_numbers_of_a_mapped_file_keep_their_value_in_the_least_room(tmp_path, given, read):
    whole = np.random.default_rng(0).integers(0, 2**15 - 1, (50, 4))
    np.save(tmp_path / "rows.npy", whole.astype(given))
    rows = read_rows(BaseEstimator(), np.load(tmp_path / "rows.npy", mmap_mode="r"), reset=True)
    assert rows.dtype == read
    np.testing.assert_array_equal(rows, whole.astype(given).astype(np.float64))


def test_rows_of_two_kinds_are_scaled_to_the_same_bits():
    half = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float16)
    scaled = [
        choose_scaling(rows, "columns").apply(rows)
        for rows in (read_rows(BaseEstimator(), each, reset=True) for each in (half, half.astype(np.float64)))
    ]
    assert torch.equal(*scaled)


def test_the_columns_of_a_fit_are_remembered():
    owner = BaseEstimator()
    read_rows(owner, np.zeros((2, 3)), reset=True)
    with pytest.raises(ValueError, match="X has 2 features, but BaseEstimator is expecting 3"):
        read_rows(owner, np.zeros((1, 2)), reset=False)


def test_numbers_beyond_single_precision_are_refused():
    with pytest.raises(ValueError, match=r"must be in the range of float32\. Got 1e\+38\.$"):
        read_rows(BaseEstimator(), [[1e38], [0.0]], reset=True)
    with pytest.raises(ValueError, match="of at most 1,073,741,824 numbers, zeros included"):
        read_rows(BaseEstimator(), csr_array((10, 2**31), dtype=np.float32), reset=True)


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((100, 4)))
    return np.load(tmp_path / "rows.npy", mmap_mode="c")


def test_a_mapped_file_that_was_cut_is_refused_before_it_is_read(mapped):
    os.truncate(mapped.filename, 1000)
    for rows in (mapped, mapped[50:], np.asarray(mapped), tensor_of_mapped(mapped)[:, 1:]):
        with pytest.raises(ValueError, match=r"rows.npy must have 3,328 bytes, .* Got 1,000. Write it anew"):
            MappedFile(rows)


def test_a_mapped_file_that_changes_meanwhile_is_refused(mapped, tmp_path):
    file = MappedFile(np.asarray(mapped)[:50])
    file.check_unchanged()
    written = np.load(tmp_path / "rows.npy", mmap_mode="r+")
    written[0, 0] = 7
    written.flush()
    os.utime(mapped.filename, ns=(1, 1))
    with pytest.raises(ValueError, match=r"rows.npy must stay the same while it is read. .* fit anew"):
        file.check_unchanged()


def test_a_file_with_another_in_its_place_and_rows_of_no_file_are_left_alone(mapped, tmp_path):
    file = MappedFile(mapped)
    np.save(tmp_path / "new.npy", np.zeros((2, 4)))
    (tmp_path / "new.npy").replace(tmp_path / "rows.npy")
    file.check_unchanged()
    (tmp_path / "rows.npy").unlink()
    file.check_unchanged()
    assert mapped[0, 0] == 1
    MappedFile([[1.0]]).check_unchanged()
    MappedFile(np.ones((2, 2))).check_unchanged()
