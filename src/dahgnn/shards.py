"""Work that divides into shards: done here, in other processes, or on a Ray or Dask cluster.

joblib hands the shards out to the workers of `dahgnn.workers`. This module sees to it that the shards of a
worker that dies are done by another. A shard may be done twice, so its work must do no harm the second time.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, TypeVar

from dahgnn.checks import check_choice, check_count
from dahgnn.config import BACKENDS
from dahgnn.progress import Progress
from dahgnn.workers import CREWS, Crew, lost

if TYPE_CHECKING:
    from joblib import Parallel

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# How often in a row a worker may die before any other piece of work is done.
_MOST_DEATHS = 3


def run_shards(
    work: Callable[[int], None],
    numbers: Sequence[int],
    *,
    jobs: int | None = None,
    backend: str = "processes",
    is_done: Callable[[int], bool] | None = None,
    progress: Progress | None = None,
) -> None:
    """Do the work of each shard, and again where a worker dies meanwhile.

    Parameters
    ----------
    work : callable
        Called with the number of a shard, in any order. It can be pickled and is best kept small: what is
        large is in files, which all workers can read. It writes its result whole, see `replacing`, and may be
        called twice for a shard.
    numbers : sequence of int
        The shards.
    jobs : int, optional
        Workers. One does the work in this process, whatever the backend, as does a Ray cluster of which one
        processor is left. None is this process, or one worker for each processor of a cluster. A Dask cluster
        takes part with all its workers.
    backend : {"processes", "ray", "dask"}
        Where the workers are. A cluster is the one that this process has joined, or that RAY_ADDRESS or
        DASK_SCHEDULER_ADDRESS names, or a Ray that runs on this machine; without any, one of ``jobs`` workers
        is started here for the time of the work.
    is_done : callable, optional
        Says of a shard whether its result is there. It is asked before the first try and before each other,
        so that a second start goes on where the first one stopped.
    progress : Progress, optional
        Hears how many shards are done.

    Raises
    ------
    OSError
        If workers die again and again.
    ModuleNotFoundError
        If the package of the backend is missing.

    Examples
    --------
    >>> done = []
    >>> run_shards(done.append, [0, 1, 2], is_done=lambda number: number == 1)
    >>> done
    [0, 2]
    """
    left = _undone(list(numbers), is_done)
    done, total = len(numbers) - len(left), len(numbers)
    tell = progress or (lambda *_: None)
    tell(done, total, f"{done:,} of {total:,}")
    check = None if is_done is None else lambda place: is_done(left[place])
    calls = [(number,) for number in left]
    with contextlib.closing(spread(work, calls, jobs=jobs, backend=backend, is_done=check)) as started:
        for _ in started:
            done += 1
            tell(done, total, f"{done:,} of {total:,}")
    if done < total:  # some were found done after a worker had died
        tell(total, total, f"{total:,} of {total:,}")


def is_done_here(jobs: int | None, backend: str) -> bool:
    """Tell whether this process does the work itself, so that nothing has to be written for other workers.

    Examples
    --------
    >>> is_done_here(None, "processes"), is_done_here(None, "ray"), is_done_here(1, "ray")
    (True, False, True)
    """
    return jobs == 1 or (jobs is None and backend == "processes")


def _undone(numbers: list[int], is_done: Callable[[int], bool] | None) -> list[int]:
    return numbers if is_done is None else [number for number in numbers if not is_done(number)]


def spread(
    work: Callable[..., Result],
    calls: Sequence[tuple[Any, ...]],
    *,
    jobs: int | None = None,
    backend: str = "processes",
    is_done: Callable[[int], bool] | None = None,
) -> Generator[tuple[int, Result], None, None]:
    """Begin to do work for each of some arguments, and return an iterator of what comes, in any order.

    Workers begin at once; in this process the work is done when the iterator is asked. What has been yielded
    is never done again. Closing the iterator ends what still runs. An argument that several calls share is
    sent once where the backend can do that.

    Parameters
    ----------
    work : callable
        What is done.
    calls : sequence of tuple
        The arguments of each call.
    jobs, backend
        See `run_shards`.
    is_done : callable, optional
        Says of the place of a call whether it need not be done again after a worker has died.

    Yields
    ------
    int, object
        The place of a call, and what it gave.
    """
    if jobs is not None:
        check_count("jobs", jobs, "run_shards")
    check_choice("backend", backend, BACKENDS, "run_shards")
    started = _spread(work, calls, jobs, backend, is_done)
    next(started)
    return started  # type: ignore[return-value]  # the None came first


def _spread(
    work: Callable[..., Result],
    calls: Sequence[tuple[Any, ...]],
    jobs: int | None,
    backend: str,
    is_done: Callable[[int], bool] | None,
) -> Generator[tuple[int, Result] | None, None, None]:
    """Yield None when the workers have begun, and then what they give."""
    if is_done_here(jobs, backend) or len(calls) <= 1:
        yield None
        yield from ((place, work(*call)) for place, call in enumerate(calls))
        return
    with _sharing_data(), CREWS[backend](jobs) as crew:
        yield from _until_done(work, calls, crew, is_done)


def _until_done(
    work: Callable[..., Result],
    calls: Sequence[tuple[Any, ...]],
    crew: Crew,
    is_done: Callable[[int], bool] | None,
) -> Generator[tuple[int, Result] | None, None, None]:
    """Let a crew work until every call is done, and start anew with the rest if a worker dies."""
    left = dict(enumerate(calls))
    deaths, begun = 0, False
    while left:
        # After a death one alone, for a piece that kills would take those beside it with it.
        some = left if deaths == 0 else dict([next(iter(left.items()))])
        parallel = crew.hire(len(some))
        try:
            with _closing(_start(parallel, work, some)) as results:
                if not begun:
                    yield None
                    begun = True
                for place, result in results:
                    del left[place]
                    deaths = 0
                    yield place, result
        except crew.losses as error:
            deaths += 1
            if deaths >= _MOST_DEATHS:
                raise lost(deaths) from error
            left = _begun_last(left, min(2 * parallel.n_jobs, len(some)), is_done)
            logger.warning("A worker died; %s pieces of work are left, and begun anew.", f"{len(left):,}")


def _start(
    parallel: Parallel, work: Callable[..., Result], left: dict[int, tuple[Any, ...]]
) -> Generator[tuple[int, Result], None, None]:
    from joblib import delayed

    named, asked = delayed(_with_place), list(left.items())
    started: Generator[tuple[int, Result], None, None]
    started = parallel(named(work, place, *call) for place, call in asked)
    return started


def _with_place(work: Callable[..., Result], place: int, *arguments: Any) -> tuple[int, Result]:
    return place, work(*arguments)


def _begun_last(
    left: dict[int, tuple[Any, ...]], begun: int, is_done: Callable[[int], bool] | None
) -> dict[int, tuple[Any, ...]]:
    """Return what is left, the first ``begun`` of it last: one of them may be what kills its worker."""
    places = list(left)
    turned = places[begun:] + places[:begun]
    return {place: left[place] for place in turned if is_done is None or not is_done(place)}


@contextlib.contextmanager
def _closing(started: Generator[Result, None, None]) -> Iterator[Generator[Result, None, None]]:
    """End what still runs with the block; that some of it was for nothing goes without saying."""
    try:
        yield started
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            started.close()


@contextlib.contextmanager
def _sharing_data() -> Iterator[None]:
    """Say what to do when data cannot be shared with other processes."""
    try:
        yield
    except PicklingError as error:
        raise OSError(
            "The data could not be shared with other processes: is there room for temporary files? Set "
            "JOBLIB_TEMP_FOLDER to another folder, or use one process ('--jobs 1')."
        ) from error
