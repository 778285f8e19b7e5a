"""Where a fit works: by which plan, with which room for large arrays, in which folder, with which processes.

A long fit keeps in its folder what it has done, so that the same fit goes on from there after a kill, or
after its results could not be written (`keeping_work`). The folder is named by the rows, who is near whom if
that is given, the labels and the settings, and removed when the fit has ended well. Processes that train
together share it: the first one makes and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dahgnn.classifier.plan import Plan
from dahgnn.distributed import do_first
from dahgnn.files.scratch import IN_MEMORY, Scratch, make_folder
from dahgnn.progress import Progress
from dahgnn.world import ALONE, World

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Workplace:
    """Where a fit works.

    Attributes
    ----------
    plan : Plan
        Which way it goes.
    scratch : Scratch
        Where large arrays are.
    folder : Path or None
        Where it keeps what it has done, if it is long.
    world : World
        The processes that train together.
    progress : Progress or None
        Told how far a long search for neighbours is.
    """

    plan: Plan
    scratch: Scratch = IN_MEMORY
    folder: Path | None = None
    world: World = ALONE
    progress: Progress | None = None


# The stack that removes the folders of fits, where somebody needs them for longer than the fits do.
_kept: ContextVar[contextlib.ExitStack | None] = ContextVar("kept", default=None)


@contextlib.contextmanager
def keeping_work() -> Iterator[None]:
    """Keep what the fits of a block have done until the block ends well; where it fails, it stays.

    So whoever fits and then writes loses nothing if the disk is full.
    """
    with contextlib.ExitStack() as folders:
        token = _kept.set(folders)
        try:
            yield
        finally:
            _kept.reset(token)


@contextlib.contextmanager
def work_folder(parent: Path, identity: str, world: World) -> Iterator[Path]:
    """Yield the folder of a fit, the same in all processes.

    Parameters
    ----------
    parent : Path
        Where the folder is made; all processes can reach it.
    identity : str
        Names all that must be the same for a fit that goes on. All processes have the same.
    world : World
        The processes.
    """
    name = f".dahgnn-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    with contextlib.ExitStack() as own:
        folders = _kept.get() or own
        path = Path(do_first(world, lambda: str(folders.enter_context(_owned(parent, name)))))
        yield path
        world.barrier()  # nobody reads there any more


@contextlib.contextmanager
def _owned(parent: Path, name: str) -> Iterator[Path]:
    """Make a folder, which stays if the block fails; where another fit has it, one that does not."""
    make_folder(parent)
    path = parent / name
    lock = _lock(path)
    if lock is None:
        with tempfile.TemporaryDirectory(prefix=".dahgnn-", dir=parent) as own:
            yield Path(own)
        return
    with lock:
        try:
            yield path
        except BaseException:
            logger.warning("What was done is kept in %s: the same fit goes on from there.", path)
            raise
        shutil.rmtree(path, ignore_errors=True)


def _lock(path: Path) -> IO[str] | None:
    """Make a folder and lock it; None if somebody else has it, or with a warning if nobody can lock it."""
    try:
        path.mkdir(exist_ok=True)
        lock = (path / "lock").open("w")
    except FileNotFoundError:  # another fit had it, and has just removed it
        return None
    except OSError as error:
        _warn_of_no_lock(path, error)
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who had it until now may have removed it in between.
        if os.path.samestat(os.fstat(lock.fileno()), (path / "lock").stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):  # another fit has it, or had it until now
        pass
    except OSError as error:  # file systems of some clusters have no locks
        _warn_of_no_lock(path, error)
    lock.close()
    return None


def _warn_of_no_lock(path: Path, error: OSError) -> None:
    logger.warning(
        "What this fit does is lost if it is ended, because files in %s cannot be locked (%s): name another "
        "folder with --work or ResourceConfig(folder=…).",
        path.parent,
        error.strerror,
    )
