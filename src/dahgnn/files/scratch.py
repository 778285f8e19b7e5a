"""Room for large arrays: in memory while they are small, in files of one folder where they are not.

A file-backed tensor is one like any other. The system reads the parts that are needed, and takes their memory
back when somebody else needs it, so that a fit of many rows is bounded by the disk and not by memory.

Files without a name are gone with their process, however that ends. Those that need a name, because others
open them, are in a folder with a lock. If their process is killed, the next room in
the same folder that this machine asks for removes them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import platform
import shutil
import tempfile
import uuid
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from dahgnn.checks import check_count

# What folders are called whose owner has a lock in them. Locks of some network disks hold on one machine
# alone, so that no machine touches the folders of another.
_LOCKED = f".dahgnn-room-{platform.node()}-"
# Bytes from which on an array is worth a file.
_LARGE = 1 << 24

_NUMPY = {
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.uint8: np.uint8,
    torch.bool: np.bool_,
}


class Place(NamedTuple):
    """Where the values of a tensor are, for other processes.

    Attributes
    ----------
    path : str
        The file.
    shape, dtype : tuple of int, torch.dtype
        Of the tensor.
    """

    path: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    def open(self) -> Tensor:
        """Return a tensor of these values; what is written to it others see.

        Raises
        ------
        OSError
            If the file cannot be reached from here.
        """
        try:
            return torch.from_numpy(np.memmap(self.path, _NUMPY[self.dtype], "r+", shape=self.shape))
        except (OSError, ValueError) as error:
            raise OSError(
                f"The folder for large arrays must be one that all processes reach. Got none with "
                f"{self.path} here ({error}). Name another one, with --work or ResourceConfig(folder=…)."
            ) from error


class Scratch:
    """Gives tensors room. That of a tensor in a file is free again when the tensor is.

    Parameters
    ----------
    folder : path, optional
        Where files go, in a new folder of their own. Without it all tensors are in memory.
    large : int
        Bytes from which on a tensor is in a file.
    shared : bool
        Whether files have names until it is closed, so that other processes can open them by their `place`.

    Examples
    --------
    >>> with Scratch(tempfile.gettempdir(), large=1) as scratch:
    ...     rows = scratch.empty((2, 3)).fill_(1)
    ...     rows.sum().item(), scratch.is_on_disk
    (6.0, True)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        large: int = _LARGE,
        shared: bool = False,
    ) -> None:
        check_count("large", large, "Scratch", low=0)
        self.folder, self.large, self.shared = None if folder is None else Path(folder), large, shared
        self._own: Path | None = None
        self._lock: int | None = None
        self._places: dict[int, Place] = {}

    @property
    def is_on_disk(self) -> bool:
        """Whether large tensors are in files."""
        return self.folder is not None

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """Return a tensor of any content.

        Raises
        ------
        OSError
            If the disk has not so much room. The whole room is taken at once: a disk that fills later would
            end the process.
        """
        if self.folder is None or torch.Size(shape).numel() * dtype.itemsize < max(self.large, 1):
            return torch.empty(shape, dtype=dtype)
        if self.shared:
            return self._named(shape, dtype)
        make_folder(self.folder)
        # It has no name: the system keeps it for the tensor alone, and nothing stays behind a kill.
        with tempfile.TemporaryFile(dir=self.folder) as file:
            self._reserve(file.fileno(), torch.Size(shape).numel() * dtype.itemsize)
            return torch.from_numpy(np.memmap(file, _NUMPY[dtype], "r+", shape=shape))

    def _named(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        place = Place(str(self._made() / uuid.uuid4().hex), shape, dtype)
        with Path(place.path).open("xb") as file:
            self._reserve(file.fileno(), torch.Size(shape).numel() * dtype.itemsize)
        tensor = place.open()
        self._places[tensor.data_ptr()] = place
        return tensor

    def place(self, tensor: Tensor) -> Place | None:
        """Return where a tensor that this scratch has given room is; None if in memory.

        Its values are on the disk then, for machines that share no memory.
        """
        place = self._places.get(tensor.data_ptr())
        if place is not None:
            with Path(place.path).open("r+b") as file:
                os.fsync(file.fileno())
        return place

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """Return a tensor of zeros."""
        return self.empty(shape, dtype).zero_()

    def store(self, tensor: Tensor) -> Tensor:
        """Return a copy that is in a file if it is large; a small one is returned as it is."""
        if self.folder is None or tensor.nbytes < self.large:
            return tensor
        return self.empty(tuple(tensor.shape), tensor.dtype).copy_(tensor)

    def subfolder(self, name: str) -> Path:
        """Return a new folder for files that others write, which is removed with all the rest."""
        path = self._made() / name
        path.mkdir()
        return path

    def _reserve(self, file: int, size: int) -> None:
        """Take so many bytes of the disk for an open file."""
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            free = shutil.disk_usage(self.folder or tempfile.gettempdir()).free
            raise OSError(
                f"The folder {self.folder} must have room for {say_bytes(size)}. Got {say_bytes(free)}. "
                "Remove something, or name another folder."
            ) from error

    def _made(self) -> Path:
        """Return the folder of its own, which is made when it is first needed."""
        if self._own is None:
            parent = Path(tempfile.gettempdir()) if self.folder is None else self.folder
            make_folder(parent)
            self._own, self._lock = _make_locked(parent)
        return self._own

    def close(self) -> None:
        """Remove the folder. Tensors that are still held keep their room."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            self._own = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        if self.folder is not None:
            _remove_abandoned(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_folder(path: Path) -> None:
    """Make a folder for large arrays, if it is not there yet.

    Raises
    ------
    OSError
        If there can be none, or nothing can be written to it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error.strerror) from error
    check_folder(path)


def check_folder(path: Path) -> None:
    """Refuse a folder that could not be made or written to, without making it."""
    there = _existing(path)
    if not there.is_dir():
        raise _cannot_write(path, os.strerror(errno.ENOTDIR))
    if not os.access(there, os.W_OK | os.X_OK):
        raise _cannot_write(path, os.strerror(errno.EACCES))


def free_room(path: Path) -> int:
    """Return how many bytes are free for a folder, which need not be there yet."""
    return shutil.disk_usage(_existing(path)).free


def _existing(path: Path) -> Path:
    """Return a path, or the nearest one above that is there."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def _cannot_write(path: Path, reason: str | None) -> OSError:
    return OSError(f"The folder {path} must be one that files can be written to. Got: {reason}.")


def say_bytes(size: int) -> str:
    """Return a size in words.

    Examples
    --------
    >>> say_bytes(3 << 30), say_bytes(12 << 20)
    ('3.0 GiB', '12 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"


def _make_locked(parent: Path) -> tuple[Path, int | None]:
    """Make a folder and lock it; where there are no locks it has a name that nobody else removes."""
    path = Path(tempfile.mkdtemp(prefix=".dahgnn-", dir=parent))
    # A bare descriptor: one that nobody closes holds the lock as long as its process lives.
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return path, None
    # It is locked before it has a name by which others look for abandoned ones.
    return path.rename(parent / f"{_LOCKED}{uuid.uuid4().hex}"), lock


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes of this machine that were killed."""
    # Exactly the digits of a UUID: the name of machine "node" begins that of "node-1".
    for path in parent.glob(f"{glob.escape(_LOCKED)}{'[0-9a-f]' * 32}"):
        # Nobody gets the lock of a process that lives, and each user has folders that others cannot open.
        with contextlib.suppress(OSError), (path / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)


# Where nobody says otherwise.
IN_MEMORY = Scratch()
