"""Exchange several files of a folder as one: they are all old or all new, whatever happens meanwhile.

New files are written to a hidden folder inside. When all of them are on the disk, the hidden folder gets
another name, and this one step makes them count. Before it they are thrown away by whoever comes next; after
it whoever comes next moves what has not been moved yet. So a full disk, an error or a kill at any moment
leaves the old files or the new ones.

Files of the old and of the new lot never stand beside each other, either: all old files but the first are
removed before the first new one arrives. Other files of the folder are left alone.

A name that ends in "/" is that of a folder within, which is exchanged whole. It has files alone.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# The new files before the step that makes them count, and after it.
_STAGED, _READY = ".staged", ".ready"
# Beside them stands which files are to arrive, and which are to go.
_PLAN = "plan.json"
# What a folder that leaves is called until its files are removed.
_GONE = ".gone-"


@contextmanager
def exchanging(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield an empty folder whose files take the place of those called ``names`` when the block ends well.

    A file of that name which the block does not write is removed. The first name is that of the file, and no
    folder, which readers depend on: it is there at any moment. Only one process at a time may do this in a
    folder, and `settle` must have been called before.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "old.txt").write_text("old")
    >>> with exchanging(folder, ["new.txt", "old.txt"]) as stage:
    ...     _ = (stage / "new.txt").write_text("new")
    >>> [path.name for path in folder.iterdir()]
    ['new.txt']
    """
    check_replaceable(folder, names)
    stage = folder / _STAGED
    stage.mkdir()
    try:
        yield stage
        _write_plan(folder, stage, names)
        stage.rename(folder / _READY)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    _sync(folder)
    _finish(folder, names)


def settle(folder: Path, names: Sequence[str]) -> None:
    """Finish an exchange that was cut off after its files counted, and forget one that was cut off before.

    Nobody else may exchange files in the folder meanwhile.

    Parameters
    ----------
    folder : Path
        Where the exchange was.
    names : sequence of str
        All files that any exchange in this folder may concern.
    """
    if is_unsettled(folder):
        _finish(folder, names)
    if os.path.lexists(folder / _STAGED):
        _check_real(folder / _STAGED)
        shutil.rmtree(folder / _STAGED)


def is_unsettled(folder: Path) -> bool:
    """Whether an exchange was cut off, or is just being done, after its files counted."""
    return os.path.lexists(folder / _READY)


def check_replaceable(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder where something else than a file has one of the names: it could not be replaced.

    A folder of files is replaced if the name is that of one, and it has nothing else in it.
    """
    for name in names:
        path = folder / name
        if not os.path.lexists(path):
            continue
        if name.endswith("/"):
            if path.is_symlink() or not path.is_dir() or not all(each.is_file() for each in path.iterdir()):
                raise FileExistsError(f"{path} must be a folder of files to be replaced. Got something else.")
        elif not path.is_file() and not path.is_symlink():
            raise FileExistsError(f"{path} must be a file to be replaced. Got a folder or device.")


def _write_plan(folder: Path, stage: Path, names: Sequence[str]) -> None:
    """Write down what is to be done, and see that all of it is on the disk."""
    arriving = [name for name in names if (stage / name).exists()]
    for name in arriving:
        if (folder / name).is_file() or (folder / name).is_dir():
            (stage / name).chmod((folder / name).stat().st_mode & 0o7777)
        for path in (stage / name).iterdir() if name.endswith("/") else ():
            _sync(path)
        _sync(stage / name)
    plan = {"arriving": arriving, "leaving": [name for name in names if name not in arriving]}
    (stage / _PLAN).write_text(json.dumps(plan), encoding="utf-8")
    _sync(stage / _PLAN)
    _sync(stage)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk, where the system offers it."""
    try:
        file = os.open(path, os.O_RDONLY)
    except PermissionError:  # of a folder, on Windows
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _finish(folder: Path, names: Sequence[str]) -> None:
    """Move the files that count. It may be cut off and done again at any point."""
    ready = folder / _READY
    _check_real(ready)
    if (ready / _PLAN).exists():
        arriving, leaving = _read_plan(ready, names)
        waiting = [name for name in arriving if (ready / name).exists()]
        # As long as the first one waits, all that has these names is old. Afterwards none of it is left.
        for name in (*leaving, *waiting[1:]):
            _remove(folder / name, ready)
        for name in waiting:
            (ready / name).replace(folder / name)
        _sync(folder)
        (ready / _PLAN).unlink()
    for path in ready.glob(f"{_GONE}*"):
        shutil.rmtree(path)
    ready.rmdir()  # it fails, and loses nothing, if there is something in it


def _remove(path: Path, ready: Path) -> None:
    """Remove a file, or a folder in one step: its files are removed when all else is done."""
    if path.is_dir() and not path.is_symlink():
        gone = ready / f"{_GONE}{path.name}"
        if gone.exists():  # which a cut-off exchange has left
            shutil.rmtree(gone)
        path.rename(gone)
    else:
        path.unlink(missing_ok=True)


def _read_plan(ready: Path, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which files arrive and which leave; a folder of others may not touch anything else."""
    try:
        plan = json.loads((ready / _PLAN).read_text(encoding="utf-8"))
        arriving, leaving = list(plan["arriving"]), list(plan["leaving"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(
            f"{ready / _PLAN} is damaged. Remove the folder {ready}, and start again."
        ) from error
    for name in (*arriving, *leaving):
        if name not in names:
            raise ValueError(f"{ready / _PLAN} must name files of a fit. Got {name!r}. Remove {ready}.")
    return arriving, leaving


def _check_real(path: Path) -> None:
    """Refuse a link, which may lead to files of others, and anything else that no exchange makes."""
    if path.is_symlink() or not path.is_dir():
        raise ValueError(f"{path} must be a folder of its own. Got a link or a file. Remove it.")
