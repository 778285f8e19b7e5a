"""How many threads a piece of work has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

# Two threads do fewer rows up to a fifth faster; where other programs keep the cores busy, they wait for each
# other, and take thirty times as long.
FEW_ROWS = 2048
# Pieces of work that do not wait for each other have threads of their own from so many rows on. On fewer,
# Python is most of what they do, which it does one at a time.
FEW_ROWS_A_PIECE = 1024

# The threads of the outermost `threads_for`, were there many rows.
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


@contextlib.contextmanager
def threads_for(rows: int, wanted: int | None = None) -> Iterator[None]:
    """Give torch so many threads for the block; by default one for few rows, and else what it has."""
    before = torch.get_num_threads()
    token = _allowed.set(_allowed.get() or wanted or before)
    torch.set_num_threads(wanted or (1 if rows < FEW_ROWS else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _allowed.reset(token)


def workers_for(rows: int, pieces: int) -> int:
    """Return how many pieces of work on so many rows are done at a time, see `side_by_side`."""
    threads = torch.get_num_threads()
    if rows >= FEW_ROWS_A_PIECE:
        threads = _allowed.get() or threads
    return min(threads, pieces)


def one_thread() -> contextlib._GeneratorContextManager[None]:
    """Give torch one thread for many small steps: several would wait for each other."""
    return threads_for(0)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give NumPy and SciPy one thread for many tiny products: several would wait for each other."""
    with _blas_libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas_libraries() -> ThreadpoolController:
    # SciPy brings a library of its own, which is found if it is loaded.
    import scipy.linalg.blas  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def side_by_side(
    work: Callable[[int], Result], count: int, workers: int, on_interrupt: Callable[[], None]
) -> list[Result]:
    """Return what some pieces of work give, each done in a thread with its share of torch's threads.

    They do not wait for each other, as threads within an operation do: other programs on the same cores slow
    them down by no more than they take.

    Parameters
    ----------
    work : callable
        Called with the number of the piece.
    count, workers : int
        How many pieces there are, and how many are done at a time; one is done in the thread of the caller.
    on_interrupt : callable
        Called when Ctrl-C is pressed meanwhile; it is to make the work end.
    """
    if workers == 1:
        return [work(number) for number in range(count)]
    threads = max(1, torch.get_num_threads() // workers)

    def do(number: int) -> Result:
        with threads_for(0, threads):
            return work(number)

    futures: list[Future[Result]] = []
    with threads_for(0, torch.get_num_threads()), ThreadPoolExecutor(workers) as pool:
        while not (len(futures) == count and all(future.done() for future in futures)):
            try:
                while len(futures) < count:
                    futures.append(pool.submit(do, len(futures)))
                wait(futures)
            except KeyboardInterrupt:
                on_interrupt()
    return [future.result() for future in futures]
