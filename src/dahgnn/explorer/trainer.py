"""Train in the background: one fit at a time, and another as soon as labels have come meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from dahgnn.progress import Progress

logger = logging.getLogger(__name__)

# The least time between two words on how far a training is, in seconds.
_PAUSE = 0.2


class StoppedError(Exception):
    """The program ends, and with it the training."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How far the training is.

    Attributes
    ----------
    running : bool
        Whether a fit is under way.
    share : float
        How much of it is done, from 0 to 1.
    phase : str
        What it does just now.
    error : str or None
        Why the last one failed.
    """

    running: bool = False
    share: float = 0.0
    phase: str = ""
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what a page is told."""
        return asdict(self)


class Trainer:
    """A thread that trains whenever it is asked to, but never twice at a time.

    Parameters
    ----------
    train : callable
        Does one fit and publishes it; it is given a `Progress`, which ends it when the program ends.
    tell : callable
        Hears the state of the training whenever it changes.
    """

    def __init__(self, train: Callable[[Progress], None], tell: Callable[[Training], None]) -> None:
        self._train, self._tell = train, tell
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._state = Training()
        self._told = 0.0
        self._thread = threading.Thread(target=self._work, name="trainer", daemon=True)

    @property
    def state(self) -> Training:
        """How far the training is."""
        return self._state

    def start(self) -> None:
        """Begin to wait for work."""
        self._thread.start()

    def ask(self) -> None:
        """Ask for a fit: now, or as soon as the one that is under way has ended."""
        self._wanted.set()

    def stop(self, patience: float = 10.0) -> None:
        """End the thread; a fit that is under way is given up."""
        self._stopping.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def _work(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._stopping.is_set():
                return
            self._set(Training(running=True, phase="start"))
            error = None
            try:
                self._train(self._hear)
            except StoppedError:
                return
            except Exception as caught:
                logger.exception("A fit failed.")
                error = f"The training failed: {caught}"
            self._set(Training(error=error))

    def _hear(self, done: float, total: float, text: str = "", *, seconds_left: float | None = None) -> None:  # noqa: ARG002
        """Hear of progress from within a fit; this is where it is told to end."""
        if self._stopping.is_set():
            raise StoppedError
        now = time.monotonic()
        if now - self._told >= _PAUSE:
            self._told = now
            self._set(replace(self._state, share=done / total if total else 0.0, phase=text))

    def _set(self, state: Training) -> None:
        self._state = state
        try:
            self._tell(state)
        except Exception:  # whoever listens must not end the training
            logger.exception("The state of the training could not be told.")
