"""Several processes that train one network together, on one machine or on many.

torchrun starts them and Ray Train does; `join_world` finds out which, and gives the `World` that a training
loop needs. Outside of both there is one process, which is `ALONE`, so that the same program runs anywhere:

    with join_world(device) as world:
        table = do_first(world, read_table)      # by one process, for all
        check_same(world, digest, "rows")        # an error for all, if it is one for any
        BatchRoom(features, hypergraph, config, device, sampling=sampling, world=world)
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from dahgnn.checks import check_number
from dahgnn.files.scratch import Place, Scratch
from dahgnn.progress import Observer, SilentObserver
from dahgnn.world import ALONE, World

Value = TypeVar("Value")

# What torchrun says to each process that it starts.
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# How long the others wait for the first process, which may search for the neighbours of many rows meanwhile.
_PATIENCE = timedelta(days=30)
# How often a process looks whether the first one has come.
_SECONDS_BETWEEN_LOOKS = 0.1


class EndedElsewhereError(Exception):
    """Another process has failed, which says why; this one has nothing to add.

    Attributes
    ----------
    status : int
        The exit status with which the other one is expected to end.
    """

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


class LostProcessError(OSError):
    """Another process gives no answer."""


class DisagreementError(ValueError):
    """Processes were given different things. All of them say so in the same words."""


class ProcessWorld:
    """The processes of torch.distributed's default group, as a `World`.

    Parameters
    ----------
    seconds : float
        How long a process waits for the others in a step of the training; messages name it.
    """

    def __init__(self, seconds: float) -> None:
        self.rank, self.size, self.seconds = dist.get_rank(), dist.get_world_size(), seconds
        # Values pass through the CPU, by a group that waits for as long as it takes.
        with self._together():
            self._patient = dist.new_group(backend="gloo", timeout=_PATIENCE)

    def average_(self, tensors: Sequence[Tensor], weight: float) -> None:
        """Replace tensors by their mean over all processes, each of which counts by its weight."""
        # One message for all of them: each costs a round trip, and networks have many small weights.
        parts = [tensor.detach().reshape(-1) for tensor in tensors]
        kind = torch.float64 if any(part.dtype == torch.float64 for part in parts) else torch.float32
        flat = torch.cat([part.to(kind) for part in parts] + [parts[0].new_ones(1, dtype=kind)])
        flat = flat * weight if weight else torch.zeros_like(flat)  # what does not count may be anything
        with self._together():
            dist.all_reduce(flat)
        mean = flat[:-1] / flat[-1]
        for tensor, part in zip(tensors, mean.split([part.numel() for part in parts]), strict=True):
            tensor.detach().copy_(part.view(tensor.shape))

    def combine_(self, minimum: Tensor, maximum: Tensor) -> None:
        """Replace one tensor by the least, and the other by the greatest, that any process has."""
        both = torch.cat([-minimum.detach().reshape(-1), maximum.detach().reshape(-1)])
        with self._together():
            dist.all_reduce(both, dist.ReduceOp.MAX)
        minimum.detach().copy_(-both[: minimum.numel()].view(minimum.shape))
        maximum.detach().copy_(both[minimum.numel() :].view(maximum.shape))

    def barrier(self) -> None:
        """Wait for all processes, for as long as it takes."""
        with self._together():
            dist.barrier(self._patient)

    def gather(self, value: Value) -> list[Value]:
        """Return the values that all processes give, by rank; they are small."""
        values: list[Any] = [None] * self.size
        with self._together():
            dist.all_gather_object(values, value, self._patient)
        return values

    def share(self, value: Value) -> Value:
        """Return the value that the first process gives; it is small."""
        values = [value]
        with self._together():
            dist.broadcast_object_list(values, 0, self._patient)
        return values[0]

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        """Say what it means when the others do not answer."""
        try:
            yield
        except RuntimeError as error:  # gloo's and NCCL's, of which some have no type of their own
            reason = (str(error).strip().splitlines() or ["no reason"])[0]
            raise LostProcessError(
                f"All {self.size} processes must take part in every step, each within {self.seconds:g} s. "
                f"Process {self.rank} got no answer ({reason[:200]}): another one has ended, or is too slow. "
                "'torchrun --max-restarts 3' starts them again from the last checkpoint."
            ) from error


@contextlib.contextmanager
def join_world(device: torch.device | str = "cpu", *, seconds: float = 600) -> Iterator[World]:
    """Join the other processes until the block ends.

    Parameters
    ----------
    device : torch.device or str
        Where this process trains. The processes of one machine have a GPU each, see `own_device`.
    seconds : float
        How long to wait for another process before it is given up.

    Yields
    ------
    World
        The processes that torchrun or Ray Train has started; `ALONE` if there is one.

    Raises
    ------
    OSError
        If the others do not come in time, or one ends while others wait for it.
    ValueError
        If what torchrun says is not whole.
    """
    check_number("seconds", seconds, "join_world", low=0, open_low=True)
    if dist.is_available() and dist.is_initialized():  # Ray Train's, which ends it, too
        yield ProcessWorld(seconds) if dist.get_world_size() > 1 else ALONE
        return
    if processes_of_torchrun() == 1:
        yield ALONE
        return
    _start(torch.device(device), seconds)
    try:
        yield ProcessWorld(seconds)
    finally:
        dist.destroy_process_group()


def processes_of_torchrun() -> int:
    """Return how many processes torchrun has started: one if none.

    Raises
    ------
    ValueError
        If what torchrun says is not whole.
    """
    if "RANK" not in os.environ and "WORLD_SIZE" not in os.environ:
        return 1
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if missing:
        raise ValueError(
            f"The environment of join_world must have {', '.join(_NEEDED)}. Got no {', '.join(missing)}. "
            "Start the processes with torchrun."
        )
    return int(os.environ["WORLD_SIZE"])


def _start(device: torch.device, seconds: float) -> None:
    """Make the group of all processes."""
    backend = "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(own_device(device))
        backend = "cpu:gloo,cuda:nccl"
    wait = timedelta(seconds=seconds)
    try:
        store, rank, size = next(rendezvous("env://", timeout=wait))
        dist.init_process_group(
            backend, timeout=wait, store=_own_names(store, rank, size, wait), rank=rank, world_size=size
        )
    except (RuntimeError, ValueError) as error:
        number, of = os.environ["RANK"], os.environ["WORLD_SIZE"]
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = (str(error).strip().splitlines() or ["no reason"])[0]
        raise OSError(
            f"All {of} processes must meet at {where} within {seconds:g} s. Process {number} met not all of "
            f"them ({reason[:200]}). Have all been started, and can they reach each other?"
        ) from error


def _own_names(store: Store, rank: int, size: int, wait: timedelta) -> Store:
    """Return a part of a store that the processes of this start alone know.

    torchrun keeps its store when it starts the processes again, and a group that found the addresses of the
    ended ones there would wait for them. Its number of restarts does not tell starts apart, because each
    machine counts its own. So the first process names the start. Another one takes the name if the first
    process has read what that one wrote under it: else the name is from an earlier start.
    """
    own = uuid.uuid4().hex
    if rank == 0:
        store.set("start", own)
        others = [f"{own}/{other}" for other in range(1, size)]
        store.wait(others, wait)
        store.set(f"{own}/met", json.dumps([store.get(key).decode() for key in others]))
        return PrefixStore(own, store)
    until = time.monotonic() + wait.total_seconds()
    while time.monotonic() < until:
        name = store.get("start").decode()
        store.set(f"{name}/{rank}", own)
        if store.check([f"{name}/met"]) and own in json.loads(store.get(f"{name}/met")):
            return PrefixStore(name, store)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    raise RuntimeError("the first process has not come")


def own_device(device: torch.device | str) -> torch.device:
    """Return the device of this process: of several GPUs the one that has its number on the machine."""
    where = torch.device(device)
    if where.type != "cuda" or where.index is not None or "LOCAL_RANK" not in os.environ:
        return where
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]) % max(torch.cuda.device_count(), 1))


def gather(world: World, value: Value) -> list[Value]:
    """Return the small values that all processes give, by rank."""
    return world.gather(value) if isinstance(world, ProcessWorld) else [value]


def share(world: World, value: Value) -> Value:
    """Return the small value that the first process gives, in all of them."""
    return world.share(value) if isinstance(world, ProcessWorld) else value


def check_same(world: World, digest: str, what: str) -> None:
    """Refuse, in all processes, that they were given different things.

    Parameters
    ----------
    world : World
        The processes.
    digest : str
        Names what this process has, such as the digest of its rows and their shape.
    what : str
        What it is, in words for the message.

    Raises
    ------
    DisagreementError
        In each process, with the same message.
    """
    digests = gather(world, digest)
    others = [rank for rank, each in enumerate(digests) if each != digests[0]]
    if others:
        raise DisagreementError(
            f"All processes must have the same {what}. Got {digests[0]} in process 0 and "
            f"{digests[others[0]]} in process {others[0]}. Give all of them the same files and options."
        )


def do_first(world: World, work: Callable[[], Value]) -> Value:
    """Let the first process do some work, and give all of them the small value that comes of it.

    The others wait for as long as it takes.

    Raises
    ------
    EndedElsewhereError
        In the others, if the work fails; in the first process the error goes up as it is.
    """
    if not isinstance(world, ProcessWorld):
        return work()
    if world.rank > 0:
        return _hear_first(world)  # type: ignore[no-any-return]  # it gives what its work returns
    try:
        found = work()
    except BaseException as error:
        with contextlib.suppress(OSError):  # the others may be gone, too
            world.share((f"{type(error).__name__}: {error}", None))
        raise
    world.share((None, found))
    return found


def _hear_first(world: ProcessWorld) -> Any:
    """Return what came of the work of the first process."""
    ended, value = world.share((None, None))
    if ended is not None:
        raise EndedElsewhereError(ended)
    return value


@contextlib.contextmanager
def failing_together(world: World) -> Iterator[None]:
    """Let an error within the block, in which processes do not meet, end all of them where it ends.

    Raises
    ------
    ValueError
        In the first process, if the block fails in another one only.
    EndedElsewhereError
        In the others, whose errors the first process says.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        if not isinstance(world, ProcessWorld):
            raise
        failure = error
    said = gather(world, None if failure is None else str(failure) or type(failure).__name__)
    if world.rank == 0 and failure is not None:
        raise failure
    for rank, text in enumerate(said):
        if text is None:
            continue
        if world.rank == 0:
            raise ValueError(f"Process {rank} must have what process 0 has. It says: {text}")
        raise EndedElsewhereError(text) from failure


def make_for_all(world: World, scratch: Scratch, make: Callable[[Scratch], Tensor]) -> Tensor:
    """Let the first process make a large tensor in a file, and map that file in the others.

    Parameters
    ----------
    world : World
        The processes.
    scratch : Scratch
        Where large arrays are; all processes reach its folder. In memory each process makes its own.
    make : callable
        Returns the tensor, to which the scratch that it gets has given room.
    """
    if world.size == 1 or not scratch.is_on_disk:
        return make(scratch)
    if world.rank > 0:
        return take_from_first(world)
    made: list[Tensor] = []

    def work() -> Place | Tensor:
        made.append(make(room))
        return room.place(made[0]) or made[0]  # a small one is sent itself

    with Scratch(scratch.folder, large=scratch.large, shared=True) as room:
        do_first(world, work)
        world.barrier()  # the file loses its name
    return made[0]


def take_from_first(world: World) -> Tensor:
    """Return the tensor that the first process makes for all, in another one."""
    assert isinstance(world, ProcessWorld)  # noqa: S101, else there is no other one
    given: Place | Tensor = _hear_first(world)
    tensor = given.open() if isinstance(given, Place) else given
    world.barrier()
    return tensor


def speaking(world: World, observer: Observer) -> Observer:
    """Return the observer in the first process, and one that shows nothing in the others."""
    return observer if world.rank == 0 else SilentObserver()
