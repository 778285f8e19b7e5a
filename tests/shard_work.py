"""Work for the tests of shards, in a module that workers of any kind can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from dahgnn.files.atomic import replacing


class Squares:
    """Write the square of a number to a file, and the process that did it to another, once for each try."""

    def __init__(self, folder: Path, *, seconds: float = 0.0, deadly: dict[int, int] | None = None) -> None:
        self.folder, self.seconds, self.deadly = folder, seconds, deadly or {}

    def __call__(self, number: int) -> None:
        tries = len(list(self.folder.glob(f"try-{number}-*")))
        (self.folder / f"try-{number}-{tries}-{os.getpid()}").touch()
        if tries < self.deadly.get(number, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        with replacing(self.folder / f"{number}.txt") as temporary:
            temporary.write_text(str(number**2))

    def is_done(self, number: int) -> bool:
        return (self.folder / f"{number}.txt").exists()

    def results(self) -> dict[int, int]:
        return {int(path.stem): int(path.read_text()) for path in self.folder.glob("[0-9]*.txt")}

    def tries(self) -> dict[int, int]:
        """How often each was begun."""
        found: dict[int, int] = {}
        for path in self.folder.glob("try-*"):
            number = int(path.name.split("-")[1])
            found[number] = found.get(number, 0) + 1
        return found

    def workers(self) -> set[int]:
        return {int(path.name.split("-")[3]) for path in self.folder.glob("try-*")}


def refuse(number: int) -> None:
    raise ValueError(f"no {number}")
