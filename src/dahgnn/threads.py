"""How many threads a piece of work has."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")
Given = TypeVar("Given")
Made = TypeVar("Made")

# Below so many rows torch has one thread. Two would be a fifth faster at the most, and thirty times slower
# where other programs keep the cores busy: they wait for each other.
FEW_ROWS = 2048
# Pieces of work that do not wait for each other have threads of their own from so many rows on. On fewer,
# Python is most of what they do, which it does one at a time.
FEW_ROWS_A_PIECE = 1024

# More threads than this prepare hardly faster: some of the work is Python, which is one thread's at a time.
_MOST_BESIDE = 8

# How many threads the outermost `threads_for` would give to many rows.
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


_blas = threading.RLock()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give NumPy and SciPy one thread for many tiny products: several would wait for each other."""
    # Two at a time would not restore the number that was there before the first.
    with _blas, _blas_libraries().limit(limits=1, user_api="blas"):
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
        while True:
            try:
                while len(futures) < count:
                    # A thread of a pool has none of the caller's context variables by itself.
                    futures.append(pool.submit(copy_context().run, do, len(futures)))
                wait(futures)
                break
            except KeyboardInterrupt:
                on_interrupt()
    return [future.result() for future in futures]


def threads_beside(device: torch.device) -> int:
    """Return how many threads prepare what a device computes, see `make_ahead`.

    Where the CPU computes it is one. A GPU is faster than a core prepares.
    """
    if device.type == "cpu":
        return 1
    from joblib import cpu_count

    share: int = cpu_count() // processes_here()
    return max(1, min(share, _MOST_BESIDE))


def processes_here() -> int:
    """Return how many processes that torchrun or Ray Train has started share this machine, with this one."""
    return max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


def make_ahead(
    make: Callable[[Given], Made], given: Iterable[Given], depth: int, workers: int = 1
) -> Generator[Made]:
    """Yield what is made of each thing, in order, while threads make the next ones.

    Parameters
    ----------
    make : callable
        It runs in the threads, one call at a time in each.
    given : iterable
        What it is called with.
    depth : int
        How many are made ahead; 0 makes each when it is asked for, without a thread.
    workers : int
        How many threads there are.

    Examples
    --------
    >>> list(make_ahead(lambda number: number**2, range(4), depth=2))
    [0, 1, 4, 9]
    """
    if depth == 0:
        yield from map(make, given)
        return
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="dahgnn-ahead") as threads:
        try:
            for each in given:
                waiting.append(threads.submit(make, each))
                if len(waiting) > depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@contextlib.contextmanager
def beside(device: torch.device, work: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Do some work of a GPU while the block runs, in a thread and on a stream of its own.

    Small fits leave most of a GPU idle: it waits for the host, and the host for it. Two threads then take
    little longer than one of them. What is yielded returns the result of the work.

    If the block fails, or is ended by Ctrl-C, it still waits for the work. On a CPU, whose cores have enough
    to do, the work is done when its result is asked for.
    """
    if device.type != "cuda":
        yield work
        return
    number = torch.cuda.current_device() if device.index is None else device.index
    stream, threads = _stream(number), torch.get_num_threads()
    stream.wait_stream(torch.cuda.current_stream(number))

    def do() -> Result:
        # A thread has its own number of torch's threads, which would stay what it was at first.
        with threads_for(0, threads), torch.cuda.device(number), torch.cuda.stream(stream):
            result = work()
            stream.synchronize()  # so that other streams may use the result
        return result

    future = _thread(number).submit(copy_context().run, do)
    try:
        yield future.result
    finally:
        future.exception()


@cache
def _stream(number: int) -> torch.cuda.Stream:
    """Return the stream of a device for such work: for each new one libraries take memory."""
    return torch.cuda.Stream(number)


@cache
def _thread(number: int) -> ThreadPoolExecutor:
    """Return the thread of a device, which stays: libraries have handles for each."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"dahgnn-beside-{number}")
