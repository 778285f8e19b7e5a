import errno
import os

import pytest
import torch
from file_backed import is_in

from dahgnn.files.scratch import Scratch


def test_without_a_folder_everything_is_in_memory(tmp_path):
    scratch = Scratch()
    rows = torch.arange(6.0)
    assert not scratch.is_on_disk
    assert scratch.store(rows) is rows
    assert scratch.zeros((2, 3), torch.int64).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.bool])
def test_large_tensors_are_in_files_that_nobody_has_to_remove(tmp_path, dtype):
    given = torch.arange(12).reshape(3, 4).to(dtype)
    with Scratch(tmp_path, large=given.nbytes) as scratch:
        kept, small = scratch.store(given), scratch.store(given[:1])
        assert is_in(kept, tmp_path)
        assert not is_in(small, tmp_path)
        assert list(tmp_path.iterdir()) == []  # so that a kill leaves no large file
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(kept, given)


def test_a_block_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="on the way"), Scratch(tmp_path, large=1) as scratch:
        scratch.empty((3,))
        (scratch.subfolder("index") / "part").write_text("x")
        raise RuntimeError("on the way")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_before_anything_is_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with Scratch(tmp_path, large=1) as scratch, pytest.raises(OSError, match=r"room for 4\.0 GiB\. Got"):
        scratch.empty((1 << 30,))


def test_an_empty_tensor_needs_no_file(tmp_path):
    with Scratch(tmp_path, large=0) as scratch:
        assert scratch.empty((0, 3)).shape == (0, 3)
    assert list(tmp_path.iterdir()) == []
