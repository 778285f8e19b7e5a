"""Replace files whole: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place when the block ends well.

    On an error (a full disk, say) the temporary file is removed and the old file stays; after a kill
    the old file stays too.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "note.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "note.txt").read_text()
    'whole'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last, because writers of pictures choose the format by it.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=target.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(_permissions(target))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _flush(path: Path) -> None:
    # Without this, a power cut after the rename may leave an empty file under the final name.
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _permissions(target: Path) -> int:
    """Return the mode of the file to be replaced, or what a newly opened file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
