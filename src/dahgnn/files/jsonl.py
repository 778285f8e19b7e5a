"""Read and write files of JSON lines that only grow: a line is whole or absent, and one process writes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

Line = dict[str, Any]


def append_lines(file: Path, lines: Iterable[Line]) -> None:
    """Append lines; each is there whole or not at all, also after a kill or on a full disk."""
    # Without a buffer, which would be written once more when the file is closed after an error.
    with file.open("ab", buffering=0) as stream:
        for line in lines:
            start = stream.seek(0, os.SEEK_END)
            left = memoryview(json.dumps(line).encode() + b"\n")
            try:
                while left:
                    left = left[stream.write(left) :]
                os.fsync(stream.fileno())
            except BaseException as error:
                # Ctrl-C while a whole line is on its way to the disk does not take it back.
                if left or isinstance(error, OSError):
                    stream.truncate(start)
                raise


def read_objects(file: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number of each line, from 1 on, and its content; a last line that a kill cut is left out.

    Raises
    ------
    ValueError
        If another line is not JSON.
    """
    chunks = file.read_bytes().split(b"\n")
    for number, chunk in enumerate(chunks, 1):
        last = number == len(chunks)
        if last and not chunk:
            return
        try:
            content = json.loads(chunk.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            # Whole lines end in a newline, so only the rest after the last newline can be a cut one.
            if not last:
                raise ValueError(f"Line {number} of {file} must be a JSON object. Got {error}.") from error
            logger.warning("%s: line %d is cut short and left out.", file, number)
        else:
            yield number, content


def repair_last_line(file: Path) -> None:
    """Complete a last line without its end, or cut it off if a kill left it unfinished."""
    content = file.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole == len(content):
        return
    try:
        json.loads(content[whole:])
    except (ValueError, RecursionError):
        logger.warning("The last line of %s was cut, and is run again.", file)
        with file.open("r+b") as again:
            again.truncate(whole)
    else:
        with file.open("ab") as again:
            again.write(b"\n")


@contextmanager
def lock_folder(folder: Path, *, patience: float = 0) -> Iterator[None]:
    """Keep a second process out of a folder; a lock of a process that was killed is free.

    Parameters
    ----------
    folder : Path
        It is made if it is not there.
    patience : float
        How many seconds to wait for another process.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=patience)
    except Timeout as error:
        message = f"Another process works in {folder}. Wait until it has ended, or choose another folder."
        raise ValueError(message) from error
    try:
        yield
    finally:
        lock.release()
