"""Read a JSON file whole, or say in one sentence what is wrong with it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

# Parsed, such a file takes some ten times as much memory.
MOST_BYTES = 1 << 30
# Python takes long to read more digits, and then refuses.
_MOST_DIGITS = 400


def read_json(path: str | os.PathLike[str], most_bytes: int | None = None) -> Any:
    """Return the content of a JSON file in UTF-8, UTF-16 or UTF-32.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be read.
    ValueError
        If it is empty, cut, larger than ``most_bytes`` (by default `MOST_BYTES`), or no JSON: NaN and
        infinities are none, and objects have no key twice.
    """
    path, most = Path(path), MOST_BYTES if most_bytes is None else most_bytes
    content = _content(path, most)
    try:
        return json.loads(content, object_pairs_hook=_unique, parse_int=_parse_int, parse_constant=_refuse)
    except RecursionError as error:
        raise _no_json(path, "lists or objects within each other, too deep to be read") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _no_json(path, f"an error in {where}: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise _no_json(path, f"bytes that are no text at place {error.start}") from error
    except _BadContentError as error:
        raise _no_json(path, str(error)) from error


class _BadContentError(ValueError):
    """What JSON does not have although Python reads it; the message says what."""


def _content(path: Path, most: int) -> bytes:
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file. Got a folder.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise OSError(f"{path} must be a regular file. Got a device or pipe. Save its content to a file.")
    size = path.stat().st_size
    if size > most:
        raise ValueError(f"The file {path} must have at most {most:,} bytes. Got {size:,}.")
    content = path.read_bytes()
    if not content.strip():
        raise ValueError(f"The file {path} must have content. Got an empty file.")
    return content


def _no_json(path: Path, got: str) -> ValueError:
    return ValueError(f"The file {path} must be JSON. Got {got}.")


def _parse_int(digits: str) -> float:
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)


def _refuse(word: str) -> NoReturn:
    raise _BadContentError(f"{word}, which is no number of JSON")


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise _BadContentError(f"the key {twice[:60]!r} twice in one object")
    return found
