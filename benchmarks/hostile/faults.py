"""Let the n-th change that a process makes below a folder fail, be cut, or be its last; see ``faults.c``."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("faults.c")
_LOADED = "DAHGNN_HOSTILE_FAULTS"


@dataclass(frozen=True)
class Fault:
    """What happens at a change: the number of the action in ``faults.c``, and the signal that it sends."""

    name: str
    action: int
    signal: int = 0


COUNT = Fault("count", 0)
FAULTS = (
    Fault("full disk", 1),
    Fault("broken disk", 2),
    Fault("full disk within a write", 3),
    Fault("kill", 4, signal.SIGKILL),
    Fault("kill within a write", 5, signal.SIGKILL),
    Fault("SIGTERM", 4, signal.SIGTERM),
    Fault("Ctrl-C", 4, signal.SIGINT),
)


def start_with_faults() -> None:
    """Start this program again with the library in front; without a C compiler go on without it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if _LOADED in os.environ or compiler is None:
        return
    library = str(Path(tempfile.mkdtemp(prefix="hostile-faults-")) / "faults.so")
    command = [compiler, "-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-o", library, str(_SOURCE), "-ldl"]
    if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603, the words are ours
        return
    os.environ[_LOADED] = library
    before = os.environ.get("LD_PRELOAD", "")
    os.environ["LD_PRELOAD"] = f"{library} {before}".strip()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606, the same program once more


def have_faults() -> bool:
    """Tell whether the library is there."""
    return _LOADED in os.environ


def drop_library() -> None:
    """Remove the library's file; who has it loaded keeps it."""
    if have_faults():
        shutil.rmtree(Path(os.environ[_LOADED]).parent, ignore_errors=True)


class Counter:
    """How many changes a process has made, in memory that outlives it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._number = ctypes.c_long.from_buffer(self._memory)

    @property
    def value(self) -> int:
        """The number of changes so far."""
        return self._number.value

    def arm(self, folder: Path, fault: Fault = COUNT, when: int = 0) -> Callable[[], None]:
        """Return what a child calls to have the fault at the n-th change below the folder, from 1 on."""

        def arm() -> None:
            library = ctypes.CDLL(os.environ[_LOADED])
            library.hostile_arm.argtypes = (
                ctypes.c_char_p, ctypes.POINTER(ctypes.c_long), ctypes.c_long, ctypes.c_int, ctypes.c_int,
            )  # fmt: skip
            below = os.fsencode(folder.resolve())
            library.hostile_arm(below, ctypes.pointer(self._number), when, fault.action, int(fault.signal))

        return arm
