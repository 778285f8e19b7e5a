"""How much memory there is, so that a file that promises more is refused before it is unpacked."""

from __future__ import annotations

import os
from pathlib import Path

# Arrays of cells, of features and of their scaled copies lie side by side while a fit begins.
_COPIES = 3
# Packed tables become a twentieth or so. What becomes less than this is rather made to fill a memory.
LARGEST_RATIO = 200
_ALWAYS_ALLOWED = 2**26


def available_memory() -> int:
    """Return the bytes of memory that this process may still use, as far as the system tells."""
    free = _proc_available() or _physical()
    limit, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    return min(free, max(limit - used, 0)) if limit is not None and used is not None else free


def check_memory(what: str, n_bytes: int) -> None:
    """Refuse content that does not fit into memory with the copies that a fit makes of it."""
    available = available_memory()
    if _COPIES * n_bytes > available:
        raise ValueError(
            f"{what} must fit into memory {_COPIES} times: there are {available / 2**30:.1f} GiB. "
            f"Got {n_bytes / 2**30:,.1f} GiB of numbers. Keep fewer rows or columns."
        )


def most_unpacked(n_bytes: int) -> int:
    """Return how many bytes a file of so many packed bytes may unpack to."""
    return max(_ALWAYS_ALLOWED, min(LARGEST_RATIO * n_bytes, available_memory()))


def _proc_available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kibibytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    return 1024 * int(kibibytes)


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):  # there is none, or it is "max"
        return None
