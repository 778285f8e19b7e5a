import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from file_backed import is_in

from dahgnn.files import scratch as scratch_module
from dahgnn.files.scratch import Scratch, check_folder, free_room, make_folder


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


# Holds shared room, says where it is, and waits to be killed.
HOLDING = """
import sys, time
from dahgnn.files.scratch import Scratch
with Scratch(sys.argv[1], large=1, shared=True) as scratch:
    rows = scratch.empty((2, 3))
    print(scratch.place(rows).path, flush=True)
    time.sleep(600)
"""


def test_a_folder_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        for use in (check_folder, make_folder, lambda path: Scratch(path, large=1).empty((2, 3))):
            with pytest.raises(OSError, match="must be one that files can be written to. Got: .+"):
                use(path)
    make_folder(tmp_path / "new" / "below")
    check_folder(tmp_path / "new" / "below" / "later")
    assert free_room(tmp_path / "nowhere" / "yet") > 0


def test_a_folder_that_nobody_may_write_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OSError, match="Got: Permission denied"):
        make_folder(tmp_path)


def test_rooms_of_a_machine_whose_name_begins_alike_stay(tmp_path):
    other = tmp_path / f"{scratch_module._LOCKED}1-{'0' * 32}"
    other.mkdir()
    (other / "lock").touch()
    with Scratch(tmp_path):
        assert other.exists()


def test_shared_room_of_a_killed_process_is_free_when_the_next_one_comes(tmp_path):
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        shared = Path(process.stdout.readline().strip())
        with Scratch(tmp_path, large=1, shared=True) as scratch:
            scratch.empty((2, 3))
            assert shared.exists()  # its process lives
        process.kill()
    assert shared.exists()
    kept = tmp_path / ".dahgnn-0123456789abcdef"  # what a fit has done, which nobody removes
    kept.mkdir()
    (kept / "lock").touch()
    with Scratch(tmp_path):
        assert list(tmp_path.iterdir()) == [kept]


def test_shared_room_without_locks_is_removed_by_its_owner_alone(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(scratch_module.fcntl, "flock", refuse)
    with Scratch(tmp_path, large=1, shared=True) as first:
        place = first.place(first.empty((2, 3)))
        with Scratch(tmp_path, large=1, shared=True) as second:
            second.empty((2, 3))
        assert Path(place.path).exists()
    assert list(tmp_path.iterdir()) == []
