"""What a user sees of long work: one line for each phase, on the standard error stream."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dahgnn.progress import Progress

if TYPE_CHECKING:
    from rich.progress import TaskID

# The time between two lines on a phase, where lines are kept.
_SECONDS_A_LINE = 30


class Display:
    """An observer that shows what a phase does, how far it is and how long it still takes.

    Where nobody sees a line change, as in a file, there is a line at the start, one every so often, and one
    at the end.
    """

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        # The bar needs room that a terminal of 80 columns has not.
        bar = [progress.BarColumn(bar_width=20)] if console.width >= 110 else []
        self._lines = progress.Progress(
            progress.SpinnerColumn(finished_text="✓"),
            progress.TextColumn("{task.description}", markup=False),
            *bar,
            progress.TextColumn("{task.fields[state]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Display:
        self._lines.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.stop()

    def note(self, text: str) -> None:
        """Show a sentence above the phases; it may quote a file, so nothing in it steers the terminal."""
        self._lines.console.print(
            printable(text), markup=False, highlight=False, soft_wrap=self._lines.disable
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[Progress]:
        """Show a phase until the block ends, with what the block tells of its progress."""
        phase = _Phase(self, name, self._lines.add_task(name, total=None, state=""))
        yield phase
        phase.finish()

    def update(self, task: TaskID, done: float, total: float, state: str) -> None:
        """Change the line of a phase."""
        self._lines.update(task, completed=done, total=total, state=state)

    @property
    def keeps_lines(self) -> bool:
        """Whether lines are kept and not changed, as in a file."""
        return bool(self._lines.disable)


class _Phase:
    """The line of one phase."""

    def __init__(self, display: Display, name: str, task: TaskID) -> None:
        self._display, self._name, self._task = display, name, task
        self._start = time.perf_counter()
        self._first: float | None = None
        self._text = ""
        self._shown = -math.inf

    def __call__(
        self, done: float, total: float, text: str = "", *, seconds_left: float | None = None
    ) -> None:
        """Show how far the phase is; see `Progress`."""
        self._text = text
        if self._first is None:
            self._first = done
        if seconds_left is None and done > self._first:
            seconds_left = (total - done) * (time.perf_counter() - self._start) / (done - self._first)
        left = "" if seconds_left is None else f"{duration(seconds_left)} left"
        self._show(done, total, left)

    def finish(self) -> None:
        """Show how long the phase took."""
        self._shown = -math.inf
        seconds = time.perf_counter() - self._start
        self._show(1, 1, f"{seconds:.1f} s" if seconds < 10 else duration(seconds))

    def _show(self, done: float, total: float, time_text: str) -> None:
        state = "  ".join(part for part in (self._text, time_text) if part)
        self._display.update(self._task, done, total, state)
        now = time.monotonic()
        if self._display.keeps_lines and now - self._shown >= _SECONDS_A_LINE:
            self._shown = now
            self._display.note(f"{self._name}: {state}" if state else self._name)


def duration(seconds: float) -> str:
    """Write a span as a reader says it.

    Examples
    --------
    >>> [duration(seconds) for seconds in (9.4, 200, 9000)]
    ['9 s', '3 min', '2.5 h']
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def printable(text: object) -> str:
    r"""Return text for a terminal: each character that would steer it or break the line becomes a mark.

    Examples
    --------
    >>> printable("one\x1b[2Jtwo")
    'one�[2Jtwo'
    """
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(text))
