"""Whoever does work that divides: processes of this machine, or the workers of a Ray or Dask cluster.

They are joblib's, on clusters by the backends that Ray and joblib bring for it. This module adds what these
leave open: where the cluster is, how a dead worker shows, and that nothing stays behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dahgnn.checks import ANY

if TYPE_CHECKING:
    from joblib import Parallel
    from joblib.parallel import ParallelBackendBase

# Seconds in which a node of a cluster has to answer, and a scheduler of one to be found.
_SECONDS_TO_ANSWER = 30


@dataclass(frozen=True)
class Crew:
    """The workers of a backend.

    Attributes
    ----------
    hire : callable
        Returns joblib's means to let as many as can be used do so many pieces of work.
    losses : tuple of exception types
        Say that a worker died, and that others can do its work.
    """

    hire: Callable[[int], Parallel]
    losses: tuple[type[BaseException], ...]


def _generating(n_jobs: int, **settings: Any) -> Parallel:
    from joblib import Parallel

    # joblib would put quick pieces together, and all of them would be lost with their worker.
    return Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, max_nbytes="1M", **settings)


def count_workers(jobs: int | None, pieces: int) -> int:
    """Return how many processes on this machine some pieces of work have; by default all cores."""
    from joblib import cpu_count

    return max(1, min(cpu_count() if jobs is None else jobs, pieces))


@contextlib.contextmanager
def _local_processes(jobs: int | None) -> Iterator[Crew]:
    """Have processes of this machine."""

    def hire(pieces: int) -> Parallel:
        # joblib lets a single worker be this process, which must outlive work that kills.
        workers = max(2, count_workers(jobs, pieces))
        # At the start of a process, for one that waits for its first work must not stay behind, either.
        return _generating(workers, initializer=_belong_to, initargs=(os.getpid(),))

    yield Crew(hire, (BrokenProcessPool,))


@contextlib.contextmanager
def _ray_cluster(jobs: int | None) -> Iterator[Crew]:
    """Have workers of a Ray cluster, each with a processor of its own."""
    with joined_ray(jobs) as ray:
        backend, errors = _ray_backend(), ray.exceptions

        def hire(pieces: int) -> Parallel:
            workers = min(_answering_processors(ray), jobs or ANY, max(2, pieces))
            # The cluster counts the processors that are taken, and lets others wait.
            return _generating(workers, backend=backend(ray_remote_args={"num_cpus": 1}))

        yield Crew(hire, (errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError))


def _ray_backend() -> type[ParallelBackendBase]:
    """Return Ray's backend for joblib, which can give each result when it comes, and says that it cannot.

    It is made of joblib's for pools of processes, which cannot; but its results come by callbacks.
    """
    ray_backend: type[ParallelBackendBase] = import_for_clusters("ray.util.joblib.ray_backend").RayBackend
    return type("_RayBackend", (ray_backend,), {"supports_return_generator": True})


@contextlib.contextmanager
def joined_ray(jobs: int | None = None) -> Iterator[ModuleType]:
    """Be in a Ray cluster until the block ends, and yield Ray.

    It is the cluster that this process has joined, or else the one that RAY_ADDRESS names or that runs on
    this machine, or else a new one of ``jobs`` processors. Ray tells its makers how it is used; one that is
    started here does not.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_for_clusters("ray")
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        try:
            ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), **quiet)
        except ConnectionError:
            if "RAY_ADDRESS" in os.environ:
                raise
            # Little data passes through Ray's store, which would else take a third of the memory.
            small = {"include_dashboard": False, "object_store_memory": 1 << 27}
            ray.init(address="local", num_cpus=jobs, **small, **quiet)
        yield ray
    finally:
        ray.shutdown()


def _answering_processors(ray: ModuleType) -> int:
    """Return how many processors the nodes have that answer.

    A cluster notices late that a node is gone. Workers that were to begin there would be waited for.
    """
    strategy = import_for_clusters("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    answer = ray.remote(num_cpus=0, max_retries=0)(_answer)
    asked = {
        answer.options(scheduling_strategy=strategy(node["NodeID"], soft=False)).remote(): node
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    }
    answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_SECONDS_TO_ANSWER)
    processors = 0
    for each in answered:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(each)
            processors += int(asked[each]["Resources"]["CPU"])
    if processors == 0:
        raise OSError(f"A node of the Ray cluster must answer within {_SECONDS_TO_ANSWER} s. Got no answer.")
    return processors


def _answer() -> None:
    """Do nothing, but on another node."""


@contextlib.contextmanager
def _dask_cluster(jobs: int | None) -> Iterator[Crew]:
    """Have the workers of a Dask cluster, which itself does again what a worker could not finish."""
    distributed = import_for_clusters("distributed")
    backend = _dask_backend()
    with _dask_client(distributed, jobs) as client:
        try:
            yield Crew(lambda _: _generating(-1, backend=backend(client=client)), ())
        except distributed.KilledWorker as error:  # it was tried so often
            allowed = import_for_clusters("dask").config.get("distributed.scheduler.allowed-failures")
            raise lost(1 + allowed) from error


def _dask_backend() -> type[ParallelBackendBase]:
    """Return joblib's backend for Dask, which also tells when a piece of work is given up."""
    dask_backend: type[ParallelBackendBase] = import_for_clusters("joblib._dask").DaskDistributedBackend

    def submit(self: Any, func: object, callback: Callable[[object], None]) -> Future[object]:
        future: Future[object] = dask_backend.submit(self, func, callback)

        def tell(done: Future[object]) -> None:
            if done.exception() is not None:  # joblib's calls back for results alone, and would wait forever
                callback(done.exception())

        future.add_done_callback(tell)
        return future

    return type("_DaskBackend", (dask_backend,), {"submit": submit})


@contextlib.contextmanager
def _dask_client(distributed: ModuleType, jobs: int | None) -> Iterator[Any]:
    """Yield the client of this process, or one of the cluster that Dask's settings name, or of a new one."""
    with contextlib.ExitStack() as stack:
        client = None
        with contextlib.suppress(ValueError):  # there is none
            client = distributed.get_client()
        if client is None:
            place = import_for_clusters("dask").config.get("scheduler-address", None)
            place = stack.enter_context(_local_dask(distributed, jobs)) if place is None else place
            opened = distributed.Client(place, timeout=_SECONDS_TO_ANSWER, set_as_default=False)
            client = stack.enter_context(opened)
        yield client


def _local_dask(distributed: ModuleType, jobs: int | None) -> Any:
    """Start a Dask cluster on this machine."""
    return distributed.LocalCluster(
        n_workers=count_workers(jobs, ANY),
        threads_per_worker=1,
        memory_limit=0,  # files that are mapped would count, and end a worker at its share of the memory
        dashboard_address=None,
        silence_logs=logging.ERROR,
    )


CREWS: dict[str, Callable[[int | None], AbstractContextManager[Crew]]] = {
    "processes": _local_processes,
    "ray": _ray_cluster,
    "dask": _dask_cluster,
}


def import_for_clusters(module: str) -> ModuleType:
    """Import a module of a package for clusters, or say where it comes from."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        lacks = error.name or package
        # Ray says in a sentence which package a part of it lacks.
        what = (
            f"{lacks} is not installed" if isinstance(error, ModuleNotFoundError) else str(error).strip(". ")
        )
        raise ModuleNotFoundError(f"{what}. It comes with dahgnn's extra 'cluster'.", name=lacks) from error


def _belong_to(parent: int) -> None:
    """Begin as a process that ends with its parent, or at once if the parent is already gone."""
    # The process 1 takes the children of those that are gone. In a container it may be the parent itself.
    if os.getppid() == 1 != parent or not _is_alive(parent):
        os._exit(1)
    # These reach all processes of a terminal or a service. Only the parent acts, and ends this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with(parent)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@lru_cache(maxsize=1)
def end_with(parent: int) -> None:
    """End this process soon after its parent: one that was killed could not tell it.

    A process with another parent, as on a cluster, is left alone.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == parent:
        Thread(target=watch, daemon=True).start()


def lost(deaths: int) -> OSError:
    """Compose the error for work whose workers die again and again."""
    return OSError(
        f"Workers must live until their work is done. Got {deaths} that were ended from outside, or could "
        "not start, one after the other: is there enough memory? What was finished is kept. Start again, "
        "perhaps with fewer workers ('--jobs 1')."
    )
