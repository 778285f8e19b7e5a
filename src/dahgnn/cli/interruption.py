"""What ends a command from outside: Ctrl-C, and SIGTERM, which is heard as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# The statuses by which shells say that a signal ended a process.
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


@contextmanager
def hearing_sigterm() -> Iterator[list[int]]:
    """Let SIGTERM do what Ctrl-C would within the block; yield a list that has an item once it came."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        ctrl_c = signal.getsignal(signal.SIGINT)
        if callable(ctrl_c):
            ctrl_c(signal.SIGINT, frame)
        else:  # a shell starts what runs in the background with Ctrl-C ignored
            raise KeyboardInterrupt

    # Only the main thread may set a handler. One of somebody else stays.
    ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if ours:
        signal.signal(signal.SIGTERM, hear)
    try:
        yield heard
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error; modules that it meets while they load may raise one of their own.

    Examples
    --------
    >>> try:
    ...     try:
    ...         raise KeyboardInterrupt
    ...     except KeyboardInterrupt as error:
    ...         raise ImportError("no torch") from error
    ... except ImportError as error:
    ...     print(is_interruption(error), is_interruption(ImportError("no torch")))
    True False
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = (
            (error.__cause__ or error.__context__) if isinstance(error, ImportError | SystemError) else None
        )
    return False
