"""Arrays and tensors tell the file that they are mapped from."""

import gc
import weakref

import numpy as np
import pytest
import torch

from dahgnn.files.mapped import find_mapped, tensor_of_mapped


@pytest.fixture
def array(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(24.0).reshape(6, 2, 2))
    return np.load(tmp_path / "rows.npy", mmap_mode="c")


def test_views_of_an_array_tell_its_file(array, tmp_path):
    for view in (array, array[3:], array[1:][2:].T, np.asarray(array), np.asarray(array)[2:, 0]):
        assert find_mapped(view) is array
    assert array.filename == tmp_path / "rows.npy"


def test_a_tensor_its_views_and_arrays_of_them_tell_the_file(array):
    tensor = tensor_of_mapped(array)
    assert torch.equal(tensor, torch.arange(24.0, dtype=torch.float64).view(6, 2, 2))
    part = tensor.flatten(1)[2:, ::2]
    del tensor
    gc.collect()
    for view in (part, part.t(), part.numpy(), np.asarray(part)[1:]):
        assert find_mapped(view) is array


def test_what_is_in_memory_has_no_file(array):
    tensor = tensor_of_mapped(array)
    others = (np.array(array), tensor.clone(), 2 * tensor, tensor.numpy().copy(), torch.ones(2).to_sparse())
    for rows in (*others, torch.from_numpy(np.ones(3)), [[1.0]], None):
        assert find_mapped(rows) is None


def test_the_file_is_let_go_with_the_last_tensor(tmp_path):
    tensor = tensor_of_mapped(np.memmap(tmp_path / "rows", np.float32, "w+", shape=(4,)))[1:]
    array = weakref.ref(find_mapped(tensor))
    gc.collect()
    assert array() is not None
    del tensor
    gc.collect()
    assert array() is None
