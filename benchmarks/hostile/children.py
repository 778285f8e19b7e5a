"""Run one piece of work in a forked process, watch it, and keep all that it said.

The parent has imported everything once, so that a child costs milliseconds. Whatever a child does to itself
(a crash, a kill, a full memory, a hang) stays with it.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# The longest that any command on a small table may take, in seconds.
PATIENCE = 30.0
# No case may take the machine's memory with it.
_MEMORY = 8 << 30

Work = Callable[[], object]


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit status, or the signal, or None for both if it hung and was killed."""

    status: int | None
    signal: int | None
    out: str
    err: str
    seconds: float

    @property
    def hung(self) -> bool:
        """Whether it had to be ended."""
        return self.status is None and self.signal is None

    @property
    def said(self) -> str:
        """All that it printed."""
        return self.out + self.err


def run_child(
    work: Work,
    folder: Path,
    *,
    stdin: bytes = b"",
    patience: float = PATIENCE,
    kill_after: float | None = None,
) -> Ended:
    """Run work in a child with this folder as its own, and wait for it.

    What the work returns is the exit status (None counts as 0). It is ended after ``patience`` seconds; after
    ``kill_after`` seconds it is killed as by ``kill -9``.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        sys.stdout.flush()
        sys.stderr.flush()
        start = time.monotonic()
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            # Python 3.12 warns of threads beside a fork. Those of the libraries have nothing to do.
            child = os.fork()
        if not child:
            _become(work, folder, given.fileno(), out.fileno(), err.fileno())
        code = _wait(child, patience, kill_after)
        seconds = time.monotonic() - start
        texts = [_content(file) for file in (out, err)]
    if code is None:
        return Ended(None, None, *texts, seconds)
    if os.WIFSIGNALED(code):
        return Ended(None, os.WTERMSIG(code), *texts, seconds)
    return Ended(os.WEXITSTATUS(code), None, *texts, seconds)


def _content(file: io.BufferedRandom) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _become(work: Work, folder: Path, given: int, out: int, err: int) -> None:
    """Be the child: its own group, folder and streams; never returns."""
    status = 70
    try:
        os.setsid()
        os.chdir(folder)
        for target, source in enumerate((given, out, err)):
            os.dup2(source, target)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115, a number has no path
        for name, number in (("stdout", 1), ("stderr", 2)):
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        status = _status(work)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _status(work: Work) -> int:
    """Return what Python would exit with, and print what it would print."""
    try:
        return int(work() or 0)  # type: ignore[call-overload, no-any-return]
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001, as the interpreter does at the end of a program
        traceback.print_exc()
        return 1


def _wait(child: int, patience: float, kill_after: float | None) -> int | None:
    """Return how the child ended as `os.waitpid` says it, or None if it was ended for being slow."""
    handle = os.pidfd_open(child)
    try:
        if kill_after is not None and not _ends_within(handle, kill_after):
            os.kill(child, signal.SIGKILL)
        in_time = _ends_within(handle, patience)
        # The whole group: no worker of a killed command outlives its case.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        code = os.waitpid(child, 0)[1]
        return code if in_time else None
    finally:
        os.close(handle)


def _ends_within(handle: int, seconds: float) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])
