"""Whether the files of a dataset are those that were published; each is hashed once, unless it changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dahgnn.files.atomic import replacing
from dahgnn.images.downloads import REGISTRY

# SHA-256 of the files of each dataset, by their path in the dataset's folder.
PUBLISHED: dict[str, dict[str, str]] = {
    name: {target: digest for remote in remotes for target, digest in remote.digests.items()}
    for name, remotes in REGISTRY.items()
}

# Lies beside the files, and keeps their digests.
MEMORY = ".digests.json"

# What a memory that somebody damaged raises.
_DAMAGED = (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError)

_WAY_OUT = (
    "Replace it by the official file of that name. Data of your own need a name of their own, as in "
    '[dataset.mine] with file = "mine.npz" and label = "y" in a spec.'
)


def check_published(
    name: str, title: str, folder: Path, files: Sequence[str], digests: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Refuse files that are not those that were published under the name of a dataset.

    Parameters
    ----------
    name, title : str
        The dataset, and what messages call it.
    folder : Path
        The folder of the dataset.
    files : sequence of str
        Paths in it.
    digests : mapping of str to str, optional
        The SHA-256 that the files must have, by path; by default those in `PUBLISHED`.

    Returns
    -------
    dict of str to str
        The SHA-256 of each file.

    Raises
    ------
    ValueError
        If a file is another one.
    """
    expected = PUBLISHED[name] if digests is None else digests
    found = file_digests(folder, files)
    for file, digest in found.items():
        if digest != expected.get(file):
            wanted = expected.get(file, "that of a file which the dataset has")
            raise ValueError(
                f"The {title} file {folder / file} is not the published one: its SHA-256 must be {wanted}. "
                f"Got {digest}. {_WAY_OUT}"
            )
    return found


def file_digests(folder: Path, files: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of files; that of a file whose size and times did not change is remembered."""
    known = _recall(folder)
    fresh: dict[str, dict[str, Any]] = {}
    for file in files:
        stamp = _stamp(folder / file)  # before the file is read, so that a change meanwhile shows
        if known.get(file, {}).get("stamp") != stamp:
            fresh[file] = {"stamp": stamp, "sha256": _sha256(folder / file)}
    if fresh:
        _remember(folder, known | fresh)
    return {file: (known | fresh)[file]["sha256"] for file in files}


def _stamp(path: Path) -> list[int]:
    """Return what changes with a file: its size, and when content and entry were changed."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _memories(folder: Path) -> list[Path]:
    """Return where digests are kept: beside the files, or in the user's cache if nobody may write there."""
    places = [folder / MEMORY]
    with contextlib.suppress(ModuleNotFoundError):  # pooch comes with an extra
        import pooch

        name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
        places.append(Path(pooch.os_cache("dahgnn")) / "digests" / f"{name}.json")
    return places


def _recall(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is remembered of the files in a folder; a damaged memory is an empty one."""
    known: dict[str, dict[str, Any]] = {}
    for place in _memories(folder):
        with contextlib.suppress(*_DAMAGED):
            content = json.loads(place.read_text(encoding="utf-8"))
            known |= {file: entry for file, entry in content["files"].items() if _is_entry(entry)}
    return known


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and "stamp" in entry


def _remember(folder: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep digests in the first place that can be written to; without any, the next call hashes again."""
    for place in _memories(folder):
        with contextlib.suppress(OSError), replacing(place) as temporary:
            temporary.write_text(json.dumps({"files": known}, indent=1) + "\n", encoding="utf-8")
            return
