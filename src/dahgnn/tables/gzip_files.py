"""Unpack files that gzip has packed, and stop at one that unpacks to more than a table does."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from dahgnn.tables.memory import LARGEST_RATIO, most_unpacked

_CHUNK = 2**20


@contextlib.contextmanager
def unpacked(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """Open what is packed in a file, once it is seen that all of it can be unpacked."""
    try:
        with _BoundedGzip(file, path, most_unpacked(path.stat().st_size)) as content:
            while content.read1(_CHUNK):  # takes little time beside the reading of a table
                pass
            content.seek(0)
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
                f"{LARGEST_RATIO} times its size. Got more. If it is a table, unpack it with gunzip."
            )
        return content
