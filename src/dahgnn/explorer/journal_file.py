"""The SQLite file of a journal: how it is made, opened, checked and refused."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dahgnn.files.atomic import replacing

if TYPE_CHECKING:
    from filelock import BaseFileLock

FORMAT_VERSION = 1

# "DAHG" in SQLite's header says that a file is a journal.
_APPLICATION = 0x44414847
_MAGIC = b"SQLite format 3\x00"
_HEADER = 100  # bytes that every SQLite file has

# Files of SQLite's beside its own.
_ENDINGS = ("-wal", "-journal", "-shm")

# How long to wait while another program, such as SQLite's shell, holds the file.
_PATIENCE = 5.0
# A loop around many rows may let the WAL grow; behind it the file is cut to this size again.
_LARGEST_WAL = 2**24

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    "window" TEXT NOT NULL,
    "key" TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('label', 'skip', 'keep', 'undo')),
    label TEXT,
    way TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES events (id),
    model INTEGER,
    CHECK ((kind = 'undo') = (undoes IS NOT NULL))
);
CREATE TABLE event_rows (
    event INTEGER NOT NULL REFERENCES events (id),
    place INTEGER NOT NULL,
    "row" TEXT NOT NULL,
    predicted TEXT,
    probability REAL,
    PRIMARY KEY (event, place)
) WITHOUT ROWID;
CREATE TABLE layouts (
    kind TEXT NOT NULL, digest TEXT NOT NULL, places BLOB NOT NULL, PRIMARY KEY (kind, digest)
);
"""
# Undo is an event of its own, so nothing ever has a reason to change or to go.
_APPEND_ONLY = """
CREATE TRIGGER {table}_{change} BEFORE {change} ON {table}
BEGIN SELECT RAISE(ABORT, 'events are only added'); END;
"""


class JournalError(OSError):
    """A journal cannot be read or written; nothing of the event was kept."""


class JournalFullError(JournalError):
    """The disk is full, broken or closed to writing; the event may be sent again when that is over."""


def lock_journal(path: Path) -> BaseFileLock:
    """Keep a second process out; the lock of a process that was killed is free."""
    from filelock import FileLock, Timeout

    # Whichever thread closes the journal sets it free.
    lock = FileLock(path.with_name(f".{path.name}.lock"), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        message = f"Another process has the journal {path} open. Close that one first, or go on there."
        raise ValueError(message) from error
    except OSError as error:
        raise _closed(path, error) from error
    return lock


def create(path: Path, about: Mapping[str, str]) -> None:
    """Make a journal without events; a file is there whole or not at all."""
    for ending in _ENDINGS[:2]:
        rest = path.with_name(path.name + ending)
        if rest.exists():  # SQLite would take it for a part of the new file
            message = f"There is {rest} without the journal {path}, whose labels it holds in part."
            raise ValueError(f"{message} Move that back, or this away.")
    try:
        with replacing(path) as temporary:
            try:
                with contextlib.closing(connect(temporary, "rw")) as connection:
                    _write_schema(connection, about)
            finally:
                for ending in _ENDINGS:
                    temporary.with_name(temporary.name + ending).unlink(missing_ok=True)
    except sqlite3.Error as error:
        raise unwritten(path, error) from error
    except OSError as error:
        raise _closed(path, error) from error


def _write_schema(connection: sqlite3.Connection, about: Mapping[str, str]) -> None:
    triggers = [
        _APPEND_ONLY.format(table=table, change=change)
        for table in ("about", "events", "event_rows")
        for change in ("UPDATE", "DELETE")
    ]
    connection.executescript(f"BEGIN; {_SCHEMA} {''.join(triggers)}")
    values = [(stored_text(name), stored_text(value)) for name, value in about.items()]
    connection.executemany("INSERT INTO about VALUES (?, ?)", values)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    connection.execute("COMMIT")
    # Not before: what is in the WAL when a connection closes may stay there on a broken disk, without a word.
    use_wal(connection)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file for reading alone ("ro"), or for reading and writing ("rw")."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,  # transactions begin and end where we say so
        check_same_thread=False,
    )


def use_wal(connection: sqlite3.Connection) -> None:
    """Let transactions go to the WAL, each with an fsync."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_WAL}")


def check_header(path: Path) -> None:
    """Refuse what is no journal before SQLite opens it, which might change it."""
    try:
        with path.open("rb+") as file:
            header = file.read(_HEADER)
    except OSError as error:
        raise _closed(path, error) from error
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise ValueError(f"The file {path} is cut, or no journal. Move it away to begin a new one.")
    if int.from_bytes(header[68:72], "big") != _APPLICATION:
        message = f"The file {path} is an SQLite file, but no journal of dahgnn."
        raise ValueError(f"{message} Move it away to begin a new one.")
    version = int.from_bytes(header[60:64], "big")
    if version != FORMAT_VERSION:
        message = f"The journal {path} must be of format {FORMAT_VERSION}. Got {version}."
        raise ValueError(f"{message} Open it with the version of dahgnn that wrote it, or a newer one.")
    _check_size(path, header)


def _check_size(path: Path, header: bytes) -> None:
    """Refuse a file whose last page is cut, which SQLite would fill with zeros."""
    rest = path.with_name(f"{path.name}-wal")
    if rest.exists() and rest.stat().st_size:  # a kill while pages were moved from there: SQLite goes on
        return
    expected = int.from_bytes(header[16:18], "big") * int.from_bytes(header[28:32], "big")
    size = path.stat().st_size
    if size < expected:
        raise damaged(path, f"it has {size:,} bytes of {expected:,}")


def check_content(path: Path, connection: sqlite3.Connection, about: Mapping[str, str]) -> None:
    """Refuse a file whose pages do not fit together, and a journal of other data."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, str(found).splitlines()[-1])
    found = connection.execute("SELECT name, value FROM about").fetchall()
    stored = {text_of(name): text_of(value) for name, value in found}
    for name in sorted(stored.keys() | about.keys()):
        was, now = (values.get(name, "nothing") for values in (stored, about))
        if was != now:
            message = f"The journal {path} belongs to other data: there {_brief(name)} is {_brief(was)}"
            remedy = "Take the data that it was made with, or move it away to begin a new one."
            raise ValueError(f"{message}, and here {_brief(now)}. {remedy}")


def _brief(text: str) -> str:
    return ascii(text[:60])


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Say in a sentence why a file that is there cannot be opened."""
    try:
        yield
    except sqlite3.Error as error:
        if _primary_code(error) in _UNWRITABLE:
            raise unwritten(path, error) from error
        raise damaged(path, str(error)) from error


def damaged(path: Path, reason: str) -> ValueError:
    """Return the error of a file that cannot be trusted."""
    message = f"The journal {path} is cut or damaged ({reason})."
    return ValueError(f"{message} Take a copy of it that is whole, or move it away to begin a new one.")


def _closed(path: Path, error: OSError) -> ValueError:
    reason = error.strerror or str(error)
    message = f"The journal {path} cannot be opened for writing ({reason})."
    return ValueError(f"{message} Make room there, or give yourself the right to write.")


# Codes of SQLite that say that the disk, and not the content of the file, is the reason.
_UNWRITABLE = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unwritten(path: Path, error: sqlite3.Error) -> JournalError:
    """Say why something was not written, in words for whoever labels."""
    code = _primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        message = f"The disk is full: nothing was kept of this in {path}."
        return JournalFullError(f"{message} Make room, and try again.")
    if code in _UNWRITABLE:
        message = f"The journal {path} cannot be written ({error}): nothing was kept of this."
        return JournalFullError(f"{message} Make room or give rights to it, and try again.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return JournalError(f"Another program holds the journal {path}: nothing was kept of this. Try again.")
    return JournalError(f"The journal {path} cannot be used ({error}): nothing was kept of this.")


def stored_text(text: str | None) -> str | bytes | None:
    """Return text as SQLite takes it: half a surrogate pair is no UTF-8, and text with such becomes bytes.

    No two texts are stored alike, since text without such never becomes bytes.
    """
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def loaded_text(stored: str | bytes | None) -> str | None:
    """Return what `stored_text` had."""
    return None if stored is None else text_of(stored)


def text_of(stored: str | bytes) -> str:
    """Return text that is never missing."""
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored
