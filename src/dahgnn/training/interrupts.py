"""Ctrl-C in the middle of a training."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def collect_interrupts() -> Iterator[list[KeyboardInterrupt]]:
    """Collect Ctrl-C within the block, where Python would raise it anywhere; a second one is raised."""
    interrupts: list[KeyboardInterrupt] = []

    def hear(number: int, frame: FrameType | None) -> None:
        if interrupts:
            signal.default_int_handler(number, frame)
        interrupts.append(KeyboardInterrupt())

    # A handler of somebody else stays, and only the main thread may change it.
    ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, hear)
    try:
        yield interrupts
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
