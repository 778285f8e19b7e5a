"""Start what a CUDA device needs in the background, while rows are read and neighbours are searched.

The first operation of each kind loads a library; together they take longer than a fit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from threading import Thread

import torch

from dahgnn.kernels.gpu.density import start_compiler
from dahgnn.ops.backend import has_gpu_kernels


@contextlib.contextmanager
def starting_device(device: torch.device) -> Iterator[None]:
    """Let a thread start a device within the block, once in a process; nothing is to do for a CPU.

    The start ends with the block: it would break a graph that somebody captures afterwards.
    """
    if device.type == "cuda":
        _starting(device)
    try:
        yield
    finally:
        await_device(device)


def await_device(device: torch.device) -> None:
    """Wait until a device has started, as one must before a graph is captured on it."""
    if device.type == "cuda":
        _starting(device).join()


@cache
def _starting(device: torch.device) -> Thread:
    thread = Thread(target=_start, args=(device,), daemon=True)
    thread.start()
    return thread


def _start(device: torch.device) -> None:
    # What fails here fails again where it is needed, and can be told there.
    with contextlib.suppress(Exception), torch.cuda.device(device):
        matrix = torch.eye(2, dtype=torch.float64, device=device)
        if has_gpu_kernels(matrix):
            start_compiler(device)
        torch.linalg.eigh(matrix @ matrix)
        torch.linalg.cholesky(matrix)
        torch.cuda.synchronize()
