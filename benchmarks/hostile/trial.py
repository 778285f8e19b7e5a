"""One case of the campaign: a folder of its own, a source of randomness, commands to run, and demands."""

from __future__ import annotations

import os
import re
import signal
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np

from hostile.children import Ended, run_child

T = TypeVar("T")
# The exit statuses that a user may see: done, refused, interrupted by Ctrl-C, ended by SIGTERM.
OK, REFUSED, INTERRUPTED, TERMINATED = 0, 2, 130, 143
_OUTCOMES = {OK: "ok", REFUSED: "refused", INTERRUPTED: "interrupted", TERMINATED: "interrupted"}
_TRACEBACK = re.compile(
    r"^Traceback \(most recent call last\)|^\w*(?:Error|Exception|Interrupt)(?::|$)", re.M
)
_SOURCE = re.compile(r"(?:dahgnn|site-packages|python3\.\d+)/[\w./-]*\.py\b")
# Letters that steer a terminal, or let a text be read in another order than it has.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Longer than any refusal that a reader would read.
_MOST_LETTERS = 3000


class DemandError(Exception):
    """A demand that was not met: its sort, and what happened."""

    def __init__(self, sort: str, text: str) -> None:
        super().__init__(f"{sort}: {text}")
        self.sort, self.text = sort, text


class Trial:
    """What a case works with.

    Attributes
    ----------
    folder : Path
        Empty at the start, and the working folder of all commands.
    random : numpy.random.Generator
        The one source of randomness; it follows from the seed, the kind and the number alone.
    seed, number : int, int
        The seed of the campaign, and the place of the case within its kind.
    ready : Path
        What `hostile.prepared` made once for all cases; only to be copied from.
    story : list of str
        What was done, for whoever reads of a failure.
    last : Ended
        The last command that was run.
    outcome : str
        How it ended: "ok", "refused" or "interrupted".
    """

    def __init__(self, folder: Path, ready: Path, kind: str, seed: int = 0, number: int = 0) -> None:
        self.folder, self.ready, self.seed, self.number = folder, ready, seed, number
        self.random = np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
        self.story: list[str] = []
        self.last = Ended(0, None, "", "", 0.0)
        self.outcome = "ok"

    def tell(self, text: str) -> None:
        """Add to the story."""
        self.story.append(text)

    def demand(self, holds: object, sort: str, text: str) -> None:
        """End the case as failed unless something holds."""
        if not holds:
            self.fail(sort, text)

    def fail(self, sort: str, text: str) -> NoReturn:
        """End the case as failed."""
        raise DemandError(sort, text)

    def pick(self, values: Sequence[T]) -> T:
        """Return one of some values at random."""
        return values[int(self.random.integers(len(values)))]

    def in_turn(self, values: Sequence[T]) -> T:
        """Return one of some values by the number of the case, so that all have their turn.

        Which one comes first is up to the seed, so that few cases are no less varied.
        """
        order = np.random.default_rng(self.seed).permutation(len(values))
        return values[int(order[self.number % len(values)])]

    def command(
        self,
        *words: object,
        before: Callable[[], object] | None = None,
        stdin: bytes = b"",
        kill_after: float | None = None,
        expected_signal: int | None = None,
    ) -> Ended:
        """Run a command of ours in a child, and judge how it ended.

        ``before`` runs in the child first. With an expected signal its end by that is as good as any.
        """
        texts = [os.fspath(word) if isinstance(word, Path) else str(word) for word in words]
        self.tell("dahgnn " + " ".join(_quoted(text) for text in texts))

        def work() -> int:
            from dahgnn.cli.commands import main

            if before is not None:
                before()
            return main(texts)

        ended = self.last = run_child(work, self.folder, stdin=stdin, kill_after=kill_after)
        expected = signal.SIGKILL if kill_after is not None else expected_signal
        judge(ended, expected)
        self.outcome = _OUTCOMES.get(ended.status or 0, "ok") if ended.signal is None else "interrupted"
        return ended


def judge(ended: Ended, expected_signal: int | None = None) -> None:
    """Refuse what no command may do, whatever it was given."""
    if ended.hung:
        raise DemandError("hang", f"no end after {ended.seconds:.0f} s; last words: {_tail(ended.said)}")
    if ended.signal is None:
        _judge_words(ended)
    elif ended.signal != expected_signal:
        raise DemandError("crash", f"ended by signal {ended.signal}; last words: {_tail(ended.said)}")


def _judge_words(ended: Ended) -> None:
    """Refuse tracebacks, other exit statuses, paths of source files, and letters that steer a terminal."""
    if _TRACEBACK.search(ended.err):
        raise DemandError("traceback", _tail(ended.err))
    if ended.status not in _OUTCOMES:
        raise DemandError("status", f"exit status {ended.status}: {_tail(ended.said)}")
    if found := _SOURCE.search(ended.said):
        raise DemandError("source path", f"{found.group()} in: {_tail(ended.said)}")
    if found := _STEERING.search(ended.said):
        raise DemandError("steering letter", f"{found.group()!r} in: {_tail(ended.said)!r}")
    if ended.status == REFUSED:
        _judge_refusal(ended)


def _judge_refusal(ended: Ended) -> None:
    """Demand words that help: a sentence for a user, not too long, and nothing that looks like success."""
    found = list(re.finditer(r"^dahgnn.*?: ", ended.err, re.M))
    words = ended.err[found[-1].end() :].strip() if found else ""
    if len(words.split()) < 3:
        raise DemandError("no words", f"refused with {_tail(ended.err)!r}")
    if len(words) > _MOST_LETTERS:
        raise DemandError("too many words", f"{len(words)} letters: {words[:200]!r}")
    if "Written to" in ended.out:
        raise DemandError("status", f"refused, but said: {_tail(ended.out)}")


def _tail(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-4:])[-600:]


def _quoted(text: str) -> str:
    short = text if len(text) <= 120 else text[:80] + "…"
    return short if re.fullmatch(r"[\w./=+-]+", short) else repr(short)
