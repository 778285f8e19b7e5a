"""The files of a fit: their names, who may write them, and what they must not replace.

A fit exchanges its files as one (`dahgnn.files.exchange`). Those that belong together carry the same id.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dahgnn.files.exchange import check_replaceable, exchanging, is_unsettled, settle
from dahgnn.files.jsonl import lock_folder

MODEL, PREDICTIONS, METRICS, PAGE = "model.safetensors", "predictions.csv", "metrics.json", "report.html"
PARQUET = "predictions.parquet"
# The folder of predictions for a table that is larger than memory, and what its files are called.
SHARDS = "predictions/"
_SHARD = re.compile(r"part-[0-9]{5,}\.parquet")
# All files of a fit. The model comes first, as the other commands depend on it.
FILES = (MODEL, METRICS, PREDICTIONS, PARQUET, SHARDS, PAGE)
# The longest time that readers wait for a fit that is just exchanging its files.
_PATIENCE = 30


@contextmanager
def owning(folder: Path) -> Iterator[None]:
    """Make the folder, see whether a fit can write there, and keep other fits out until the block ends."""
    if str(folder) != as_utf8(str(folder)):  # safetensors could not open the model
        raise ValueError(f"The folder {as_utf8(str(folder))} must have a name in UTF-8. Choose another.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"The folder {folder} cannot be written to ({reason}). Choose another.") from error
    with lock_folder(folder):
        settle(folder, FILES)
        check_replaceable(folder, FILES)
        _check_shards(folder / SHARDS)
        yield


def shard_name(number: int) -> str:
    """Return what a file of predictions is called.

    Examples
    --------
    >>> shard_name(7)
    'part-00007.parquet'
    """
    return f"part-{number:05d}.parquet"


def _check_shards(folder: Path) -> None:
    """Refuse to replace a folder in which somebody has other files than those of a fit."""
    others = [path for path in folder.iterdir() if not _SHARD.fullmatch(path.name)] if folder.is_dir() else []
    if others:
        raise FileExistsError(f"{others[0]} is no file of a fit, and would be removed. Move it elsewhere.")


def settle_for_reading(folder: Path) -> None:
    """Finish what a fit that was killed left half exchanged; one that is just exchanging is awaited."""
    if is_unsettled(folder):
        with lock_folder(folder, patience=_PATIENCE):
            settle(folder, FILES)


def check_inputs_stay(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse a folder in which the files of a fit would replace an input, or a link to it."""
    for path in inputs:
        if path.is_dir() and is_same_file(folder, path):
            raise ValueError(f"The results would be among the files of {path}. Choose another folder.")
        for name in FILES:
            if is_same_file(folder / name, path):
                raise ValueError(f"The results in {folder} would replace {path.name}. Choose another folder.")


def check_target(target: Path, folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write predictions over a file that belongs to the fit, or that they are made from."""
    for path in inputs:
        if is_same_file(target, path):
            raise ValueError(
                f"Predictions would replace {target}, which they are made from. Choose another file."
            )
    for name in FILES:
        if is_same_file(target, folder / name):
            raise ValueError(
                f"Predictions would replace {target}, which belongs to the fit. Choose another file."
            )


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths are one file, by name or by a link; neither has to be there."""
    # Path.resolve would raise for a link to itself, up to Python 3.12.
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return one.exists() and other.exists() and one.samefile(other)


def file_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; what is no file has none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_utf8(text: str) -> str:
    r"""Return text that UTF-8 can hold; what it cannot, as in names of files that are no text, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_text(path: Path, text: str) -> None:
    """Write a text as `as_utf8` returns it."""
    path.write_text(text, encoding="utf-8", newline="", errors="backslashreplace")


def write_json(path: Path, content: Any) -> None:
    """Write a value as JSON that people can read."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def replace_metrics(folder: Path, metrics: Any) -> None:
    """Write the metrics of a fit anew, in a folder that the caller owns."""
    with exchanging(folder, (METRICS,)) as stage:
        write_json(stage / METRICS, metrics)


def fit_id(folder: Path) -> str | None:
    """Return the id of the fit that wrote metrics.json; None if there is none, or nobody can read it."""
    try:
        metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    found = metrics.get("fit") if isinstance(metrics, dict) else None
    return found if isinstance(found, str) else None


def readable(path: Path) -> None:
    """Raise the system's error for a file that is there and may not be read."""
    os.close(os.open(path, os.O_RDONLY))
