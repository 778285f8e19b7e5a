"""Memory for what kernels write: in large pages, and used again while something is repeated.

The system hands out memory in pages that it fills with zeros first. For tensors of many megabytes that takes
longer than some kernels do, and without care each epoch would have it done again.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# Bytes from which on a tensor gets memory of its own; smaller ones the C library keeps for the next.
_LARGE = 1 << 23


class _Shelf(threading.local):
    """The blocks of memory that a thread keeps, and how many `kept_memory` are open in it."""

    def __init__(self) -> None:
        self.depth = 0
        self.blocks: list[mmap.mmap] = []

    def take(self, size: int) -> mmap.mmap:
        """Return the smallest block that fits without much waste, or a new one."""
        fitting = [block for block in self.blocks if size <= len(block) <= 2 * size]
        if fitting:
            block = min(fitting, key=len)
            self.blocks.remove(block)
            return block
        # The new block will serve for one that is somewhat too small. Without this exchange, sizes that
        # change from batch to batch would leave ever more blocks behind.
        small = [block for block in self.blocks if size <= 2 * len(block) < 2 * size]
        if small:
            self.blocks.remove(max(small, key=len))
        if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
            return mmap.mmap(-1, size)
        # By default it would be shared with other processes, and shared memory has no large pages.
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
        return block

    def give_back(self, block: mmap.mmap) -> None:
        """Keep a block for the next one who asks; without a repetition it is the system's again."""
        if self.depth:
            self.blocks.append(block)


_shelf = _Shelf()


@contextmanager
def kept_memory() -> Iterator[None]:
    """Use memory again within the block, instead of getting new memory from the system each time.

    Examples
    --------
    >>> with kept_memory():
    ...     first = new_tensor(torch.empty(0), 1 << 22).data_ptr()
    ...     first == new_tensor(torch.empty(0), 1 << 22).data_ptr()
    True
    """
    _shelf.depth += 1
    try:
        yield
    finally:
        _shelf.depth -= 1
        if _shelf.depth == 0:
            _shelf.blocks.clear()


def release_memory() -> None:
    """Give the system what the C library keeps of the memory that was freed, where it can be asked to.

    What FAISS and others free in small pieces stays with the process else, and counts as its memory.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def new_tensor(like: Tensor, *shape: int) -> Tensor:
    """Return a tensor of this shape, for a kernel to write, of the precision of another on the CPU."""
    count = torch.Size(shape).numel()
    size = count * like.element_size()
    if size < _LARGE:
        return like.new_empty(shape)
    block = _shelf.take(size)
    # The tensor holds the view, and the view's end is the tensor's.
    view = memoryview(block)
    weakref.finalize(view, _shelf.give_back, block).atexit = False
    return torch.frombuffer(view, dtype=like.dtype, count=count).view(shape)
