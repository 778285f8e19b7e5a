"""Replace files whole: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place when the block ends well.

    On an error (a full disk, say) the temporary file is removed and the old file stays. After a kill
    the old file stays too, with a hidden temporary file beside it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "note.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "note.txt").read_text()
    'whole'
    """
    target = Path(path).resolve()  # what a link points to is replaced, not the link
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} must be a file to be replaced. Got a folder or device.")
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last, because writers of pictures choose the format by it.
    temporary = target.with_name(f".{uuid.uuid4().hex}{target.suffix}")
    temporary.touch(exist_ok=False)
    try:
        mode = (target if target.exists() else temporary).stat().st_mode & 0o7777
        temporary.chmod(mode)
        yield temporary
        temporary.chmod(mode)  # a writer may have replaced the file by one for its owner alone
        # Without this, a power cut after the rename may leave an empty file under the final name.
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
