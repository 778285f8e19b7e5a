"""Record what a CUDA device does, to have it done again without the host."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch

# Captures exclude each other: each waits for the whole device first, which nobody may while one is made.
_one_at_a_time = threading.Lock()
# Of a device's memory, what may be kept for later before a capture, which can use none of it.
_KEPT = 0.25


@cache
def side_stream(device: int) -> torch.cuda.Stream:
    """Return the stream of a device for captures: for each new one libraries take memory."""
    return torch.cuda.Stream(device)


def capture(
    work: Callable[[], None], passes: int = 0, *, collect_first: bool = False
) -> torch.cuda.CUDAGraph:
    """Record what some work does on the present device.

    Unlike `torch.cuda.graph` it gives memory back before only where much is kept.

    Parameters
    ----------
    work : callable
        What is recorded. It must have been done once, so that libraries have made their plans.
    passes : int
        How often it is done first, on the stream of the capture, for what libraries keep for each stream. One
        pass does also where the work has not been done before.
    collect_first : bool
        Whether garbage is looked for before, and all memory that is kept given back. A thousand fits in a row
        must, as captures of former ones are garbage; but it takes a tenth of a small fit.
    """
    with _one_at_a_time:
        return _capture(work, passes, collect_first=collect_first)


def _capture(work: Callable[[], None], passes: int, *, collect_first: bool) -> torch.cuda.CUDAGraph:
    device = torch.cuda.current_device()
    graph, stream = torch.cuda.CUDAGraph(), side_stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(passes):
            work()
    torch.cuda.synchronize()
    if collect_first:
        gc.collect()
    if collect_first or torch.cuda.memory_reserved() > _KEPT * _memory_of(device):
        torch.cuda.empty_cache()
    with torch.cuda.stream(stream), _without_garbage():
        graph.capture_begin(capture_error_mode="thread_local")  # other threads may ask for memory meanwhile
        try:
            work()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


def _memory_of(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Let nobody else's memory be given back within the block: that would end a capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
