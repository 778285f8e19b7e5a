"""Work of a GPU beside other work of it, in a thread and on a stream of its own.

Small fits leave most of a GPU idle: it waits for the host, and the host for it. Two threads then take little
longer than one of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import TypeVar

import torch

Result = TypeVar("Result")


@contextlib.contextmanager
def beside(device: torch.device, work: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Do some work while the block runs, and yield what returns its result; also a block that fails waits.

    On a CPU, whose cores have enough to do, the work is done when its result is asked for.
    """
    if device.type != "cuda":
        yield work
        return
    stream = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))

    def do() -> Result:
        with torch.cuda.device(device), torch.cuda.stream(stream), torch.inference_mode(False):
            result = work()
            stream.synchronize()  # so that other streams may use the result
        return result

    future = _thread().submit(copy_context().run, do)
    try:
        yield future.result
    finally:
        future.exception()


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the second stream of a device: for each new one libraries take memory."""
    return torch.cuda.Stream(device)


@cache
def _thread() -> ThreadPoolExecutor:
    """Return the thread, which stays: libraries have handles for each."""
    return ThreadPoolExecutor(1, thread_name_prefix="dahgnn-beside")
