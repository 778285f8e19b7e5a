"""Errors and warnings in the words of the command line: one line, with the option that is meant."""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

# What a parameter of the library is called on the command line.
_OPTIONS = {
    "backend": "--backend",
    "batch": "--batch",
    "class_prior": "--class-prior",
    "class_weight": "--class-weight",
    "count": "-n",
    "decimal": "--decimal",
    "delimiter": "--delimiter",
    "device": "--device",
    "drop": "--drop",
    "encoding": "--encoding",
    "format": "--format",
    "hyperedges": "--hyperedges",
    "id": "--id",
    "jobs": "--jobs",
    "k": "-k",
    "keep": "--keep",
    "label": "--label",
    "map": "--map",
    "memory": "--memory",
    "missing": "--missing",
    "networks": "--networks",
    "picture": "--picture",
    "random_state": "--seed",
    "recall": "--recall",
    "row": "--row",
    "scale": "--scale",
    "search": "--search",
    "seed": "--seed",
    "sheet": "--sheet",
    "text": "--text",
    "text_model": "--text-model",
    "validation": "--validation",
}
_DATA = {"X": "The features of the table", "y": "The labels of the table"}
_PARAMETER = re.compile(r"The '(\w+)' parameter of \w+")
# Libraries that run out of memory say so in these words, where they raise no MemoryError.
_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|cannot allocate memory|out of memory|std::bad_alloc|can't start new thread"
    r"|failed to map segment",
    re.I,
)
_SIZE = re.compile(r"allocate ([0-9.]+) ?(bytes|[KMGTPE]i?B)", re.I)
_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}


class SaidElsewhereError(Exception):
    """A command has failed, and another process says why.

    Attributes
    ----------
    status : int
        The exit status of this one.
    """

    def __init__(self, status: int = 2) -> None:
        super().__init__()
        self.status = status


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was too little memory, of the computer or of a GPU."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | ImportError | OSError) and bool(_OUT_OF_MEMORY.search(str(error)))


def describe_shortage(error: BaseException) -> str:
    """Say how much memory was asked for, and what to do.

    Examples
    --------
    >>> describe_shortage(RuntimeError("you tried to allocate 40000000000 bytes.")).split(". ")[0]
    'There is too little memory: 37.3 GiB more were asked for'
    """
    where = "on the GPU" if "CUDA" in str(error) else ""
    found = _SIZE.search(str(error))
    asked = ""
    if found:
        gibibytes = float(found[1].rstrip(".")) * _UNITS[found[2][0].lower()] / 2**30
        asked = f": {gibibytes:.3g} GiB more were asked for"
    head = " ".join(part for part in ("There is too little memory", where) if part) + asked
    return (
        f"{head}. What was finished before is kept. Train in batches (--batch 128), or use fewer networks "
        "(--networks 1), columns or rows; 'dahgnn fit --dry-run' tells how large a table is."
    )


def describe_error(error: OSError | ValueError, *, of_fit: bool) -> str:
    """Say in words what the system says by a number, and name options where ``of_fit`` names parameters.

    What was being written is whole or absent.
    """
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "The disk is full. What was finished before is kept: make room, and start again."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return in_options(str(error)) if of_fit else str(error)


def in_options(message: str) -> str:
    """Name the option of the command line where a message names a parameter of the library.

    Examples
    --------
    >>> in_options("The 'k' parameter of DAHGNNClassifier must be at least 1. Got 0.")
    'The option -k must be at least 1. Got 0.'
    """

    def name(found: re.Match[str]) -> str:
        if found[1] in _OPTIONS:
            return f"The option {_OPTIONS[found[1]]}"
        return _DATA.get(found[1], found[0])

    return _PARAMETER.sub(name, message)


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Show warnings of libraries as one line each, and none that are for programmers."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,  # noqa: ARG001
        lineno: int,  # noqa: ARG001
        file: TextIO | None = None,
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
            text = str(message).strip().split("\n")[0]
            print(f"dahgnn: {text}", file=file or sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
