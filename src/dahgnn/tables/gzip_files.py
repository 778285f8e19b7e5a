"""Unpack files that gzip has packed, and stop at one that unpacks to more than a table does."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from dahgnn.tables.memory import available_memory

# Tables become a twentieth or so. What becomes less than a two-hundredth is rather made to fill a memory.
_LARGEST_RATIO = 200
_ALWAYS_ALLOWED = 2**26


@contextlib.contextmanager
def unpacked(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Open what is packed in a file."""
    most = max(_ALWAYS_ALLOWED, min(_LARGEST_RATIO * path.stat().st_size, available_memory()))
    try:
        with _BoundedGzip(file, path, most) as content:
            yield cast(BinaryIO, content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"The file {path} is cut, damaged or not packed by gzip ({error}). Pack it again."
        ) from error


class _BoundedGzip(gzip.GzipFile):
    """A packed file that refuses to go on behind so many bytes."""

    def __init__(self, file: BinaryIO, path: Path, most: int) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._path, self._most = path, most

    def read(self, size: int | None = -1) -> bytes:
        """Read up to so many bytes."""
        return self._checked(super().read(self._most + 1 if size is None or size < 0 else size))

    def read1(self, size: int = -1) -> bytes:
        """Read up to so many bytes, at once."""
        return self._checked(super().read1(size))

    def _checked(self, content: bytes) -> bytes:
        if self.tell() > self._most:
            raise ValueError(
                f"The file {self._path} must unpack to at most {self._most / 2**20:,.0f} MiB, "
                f"{_LARGEST_RATIO} times its size. Got more. If it is a table, unpack it with gunzip."
            )
        return content
