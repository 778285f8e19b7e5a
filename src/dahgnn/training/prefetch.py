"""Prepare what comes next in the background."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")


def make_ahead(
    make: Callable[[int], Made], numbers: Iterable[int], depth: int, workers: int = 1
) -> Generator[Made]:
    """Yield what is made of each number, in order, while threads make the next ones.

    Parameters
    ----------
    make : callable
        It runs in the threads, one call at a time in each.
    numbers : iterable of int
        What it is called with.
    depth : int
        How many are made ahead; 0 makes each when it is asked for.
    workers : int
        How many threads there are.

    Examples
    --------
    >>> list(make_ahead(lambda number: number**2, range(4), depth=2))
    [0, 1, 4, 9]
    """
    if depth == 0:
        yield from map(make, numbers)
        return
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="dahgnn-batches") as threads:
        try:
            for number in numbers:
                waiting.append(threads.submit(make, number))
                if len(waiting) > depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
