"""Seconds and memory of the phases of some work, by looking at its processes while they run."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

# Seconds between two looks at the memory, and for new processes: to go through all of the machine's takes
# milliseconds, in which the work that is measured may have to wait.
_INTERVAL, _INTERVAL_OF_FAMILY = 0.02, 0.5
_PROC = Path("/proc")


class Memory(NamedTuple):
    """Memory of some processes, in bytes.

    Attributes
    ----------
    anonymous : int
        What they have for themselves: the system cannot take it back.
    resident : int
        All that is in memory now, with parts of files, which the system takes back when others need room.
        What several processes share counts for each.
    """

    anonymous: int
    resident: int

    def most(self, other: Memory) -> Memory:
        """Return the greater of both figures."""
        return Memory(*map(max, self, other))


NOTHING = Memory(0, 0)


def read_memory(pid: int) -> Memory:
    """Return the memory of a process; nothing if it has ended."""
    try:
        status = (_PROC / str(pid) / "status").read_text(encoding="utf-8")
    except OSError:
        return NOTHING
    found = dict(re.findall(r"^(RssAnon|VmRSS):\s+(\d+) kB$", status, re.MULTILINE))
    return Memory(*(1024 * int(found.get(name, 0)) for name in ("RssAnon", "VmRSS")))


def find_family(pid: int) -> list[int]:
    """Return a process, the processes that it started, and those that these did."""
    children: dict[int, list[int]] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(int(after_name.split()[1]), []).append(int(stat.parent.name))
    family = [pid]
    for member in family:  # it grows meanwhile
        family += children.get(member, [])
    return family


@dataclass
class Phase:
    """What a phase took.

    Attributes
    ----------
    name : str
        What was done.
    seconds : float
        How long; phases of the same name add up.
    anonymous, resident : int
        Bytes at the most, see `Memory`.
    """

    name: str
    seconds: float = 0.0
    anonymous: int = 0
    resident: int = 0


class Watch:
    """Watches this process and those that it starts. It is an `Observer`, so that commands tell it phases.

    Attributes
    ----------
    phases : dict of str to Phase
        What was measured, by name.
    notes : list of str
        What was told meanwhile.
    at_start : Memory
        What the process had before the work.
    most : Memory
        The greatest figures of all the time.
    """

    def __init__(self) -> None:
        self.phases: dict[str, Phase] = {}
        self.notes: list[str] = []
        self.at_start = self.most = read_memory(os.getpid())
        self._now = NOTHING
        self._looked, self._family = -_INTERVAL_OF_FAMILY, [os.getpid()]
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look_again(self) -> None:
        while not self._ended.wait(_INTERVAL):
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if now >= self._looked + _INTERVAL_OF_FAMILY:
            self._looked, self._family = now, find_family(os.getpid())
        each = [read_memory(pid) for pid in self._family]
        total = Memory(*map(sum, zip(*each, strict=True)))
        with self._lock:
            self.most, self._now = self.most.most(total), self._now.most(total)

    @contextmanager
    def phase(self, name: str) -> Iterator[_Ignored]:
        """Measure what is done in the block."""
        phase = self.phases.setdefault(plain_name(name), Phase(plain_name(name)))
        self._look()
        with self._lock:
            self._now = NOTHING
        start = time.perf_counter()
        try:
            yield _Ignored()
        finally:
            phase.seconds += time.perf_counter() - start
            self._look()
            most = self._now.most(Memory(phase.anonymous, phase.resident))
            phase.anonymous, phase.resident = most

    def note(self, text: str) -> None:
        """Keep a sentence."""
        self.notes.append(text)

    def as_fields(self) -> dict[str, Any]:
        """Return what a line of a measurement holds of it."""
        return {
            "phases": [asdict(phase) for phase in self.phases.values()],
            "at_start": self.at_start.anonymous,
            "anonymous": self.most.anonymous,
            "resident": self.most.resident,
        }


class _Ignored:
    """Hears how far a phase is, and does nothing with it."""

    def __call__(
        self, done: float, total: float, text: str = "", *, seconds_left: float | None = None
    ) -> None:
        """Ignore it."""


def plain_name(name: str) -> str:
    """Return the name of a phase without numbers and files, the same for all tables.

    Examples
    --------
    >>> plain_name("Fit 5,000,000 rows"), plain_name("Look through rows-64"), plain_name("Write")
    ('fit', 'look through', 'write')
    """
    return "look through" if name.startswith("Look through") else name.split()[0].lower()
