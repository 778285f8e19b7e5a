"""Keep what people did in one SQLite file, to which events are only added.

An event is on the disk when `Journal.write` returns: the file is in SQLite's WAL mode, and each transaction ends
with an fsync. After a kill or a power cut the file holds all events that were acknowledged, each once, and
perhaps one more that was on its way. Whoever sends that one again, with its key, gets the stored one.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dahgnn.explorer.events import Event, JournalState, NewEvent
from dahgnn.files.atomic import replacing

if TYPE_CHECKING:
    from filelock import BaseFileLock

FORMAT_VERSION = 1

# "DAHG" in SQLite's header says that a file is a journal.
_APPLICATION = 0x44414847
_MAGIC = b"SQLite format 3\x00"
_HEADER = 100  # bytes that every SQLite file has

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
    """The disk is full, broken or closed to writing; nothing of the event was kept, and it may be sent again."""


class ConflictError(Exception):
    """Another window has changed some of the rows since this one looked; nothing was written.

    Attributes
    ----------
    rows : tuple of str
        Their ids.
    """

    def __init__(self, rows: Sequence[str]) -> None:
        count = f"{len(rows)} of these rows were" if len(rows) > 1 else "This row was"
        super().__init__(f"{count} changed in another window meanwhile. Look again before you label.")
        self.rows = tuple(rows)


class Journal:
    """The events of one labelling project, in one file that one process writes.

    Threads may share it: one call at a time has the file. `Journal.open` makes one.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, state: JournalState, lock: BaseFileLock
    ) -> None:
        self.path = path
        self._connection = connection
        self._state = state
        self._process_lock = lock
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: Path, about: Mapping[str, str]) -> Journal:
        """Open a journal, or make one where there is no file.

        Parameters
        ----------
        path : Path
            The file. Beside it stand a hidden lock file, and ``-wal`` and ``-shm`` files while it is open.
        about : mapping of str to str
            What the journal belongs to, such as a digest of the rows' ids. A journal that was made with
            another one is refused.

        Raises
        ------
        ValueError
            If the file is no journal, damaged, of other data, of a newer format, cannot be read or written,
            or if another process has it open. The file is left as it is.
        """
        if path.exists() and not path.is_file():
            raise ValueError(f"The journal {path} must be a file. Got a folder or device. Move it away.")
        lock = _lock(path)
        try:
            if not path.exists():
                _create(path, about)
            _check_header(path)
            with _refusing(path), contextlib.closing(_connect(path, "ro")) as connection:
                _check_content(path, connection, about)
            with _refusing(path):
                connection = _connect(path, "rw")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
                return cls(path, connection, _fold(path, connection), lock)
        except BaseException:
            lock.release()
            raise

    def write(self, new: NewEvent) -> Event:
        """Write an event, and return it when it is on the disk.

        An event whose key is there already is not written again; the one that is there is returned.

        Raises
        ------
        ConflictError
            If another window has changed one of the rows after ``new.seen``.
        NothingToUndoError
            If there is no action to undo, or it was undone before.
        JournalFullError, JournalError
            If the file cannot be written. Nothing of the event is kept then, and it may be written again.
        """
        with self._lock:
            with self._transaction():
                found = self._connection.execute('SELECT id FROM events WHERE "key" = ?', [_stored(new.key)])
                for (number,) in found.fetchall():
                    return self._state.event(number)
                self._check_version()
                if new.seen is not None:
                    self._check_conflicts(new, new.seen)
                event = self._insert(new)
            self._state.apply(event)
            return event

    def undo(self, *, key: str, window: str, event: int | None = None) -> Event:
        """Take back an action: that of the given number, or the last of the window that still stands."""
        return self.write(NewEvent(key=key, window=window, kind="undo", undoes=event))

    def events(self, after: int = 0) -> list[Event]:
        """Return the events of numbers above ``after``, in order, as the file has them."""
        with self._lock, self._reading():
            return list(_read_events(self._connection, after))

    def state(self) -> JournalState:
        """Return what all events amount to.

        It is the journal's own, and every `write` changes it: a thread that reads it while others write
        holds whatever lock keeps those from writing.
        """
        return self._state

    def layout(self, kind: str, digest: str) -> bytes | None:
        """Return the kept layout of a map, or None if there is none of this kind and digest."""
        with self._lock, self._reading():
            sql = "SELECT places FROM layouts WHERE kind = ? AND digest = ?"
            found = self._connection.execute(sql, [_stored(kind), _stored(digest)]).fetchone()
        return None if found is None else bytes(found[0])

    def keep_layout(self, kind: str, digest: str, places: bytes) -> None:
        """Keep the layout of a map in place of all others of its kind."""
        with self._lock, self._transaction():
            self._connection.execute("DELETE FROM layouts WHERE kind = ?", [_stored(kind)])
            values = [_stored(kind), _stored(digest), places]
            self._connection.execute("INSERT INTO layouts VALUES (?, ?, ?)", values)

    def close(self) -> None:
        """Close the file, and let other processes have it. To close it twice does no harm."""
        with self._lock:
            self._connection.close()
            self._process_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Do all of the block or nothing of it, and say in a sentence why it could not be done."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            # SQLite has rolled back by itself after some errors.
            with contextlib.suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise _unwritten(self.path, error) from error
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _unwritten(self.path, error) from error

    def _check_version(self) -> None:
        (last,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        if last != self._state.version:
            raise JournalError(
                f"Another program has written into {self.path}. Start again to go on from there."
            )

    def _check_conflicts(self, new: NewEvent, seen: int) -> None:
        rows = new.rows
        if new.kind == "undo":
            return
        if conflicts := self._state.conflicts(rows, seen, new.window):
            raise ConflictError(conflicts)

    def _insert(self, new: NewEvent) -> Event:
        """Add an event and its rows to the file, and return it as it stands there."""
        rows, undoes = tuple(new.rows), new.undoes
        if new.kind == "undo":
            undoes = self._state.last_action(new.window).number if undoes is None else undoes
            self._state.check_standing(undoes)
            rows = self._state.event(undoes).rows
        now = time.time()
        texts = [_stored(text) for text in (new.window, new.key, new.kind, new.label, new.way)]
        sql = (
            'INSERT INTO events (time, "window", "key", kind, label, way, undoes, model)'
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        number = self._connection.execute(sql, [now, *texts, undoes, new.model]).lastrowid
        if number is None:
            raise AssertionError("an event that was added has a number")
        if new.kind != "undo":
            sql = "INSERT INTO event_rows VALUES (?, ?, ?, ?, ?)"
            self._connection.executemany(sql, _stored_rows(number, new))
        return Event(
            number=number,
            time=now,
            key=new.key,
            window=new.window,
            kind=new.kind,
            rows=rows,
            label=new.label,
            way=new.way,
            undoes=undoes,
            predicted=tuple(new.predicted),
            probability=tuple(new.probability),
            model=new.model,
        )


def _stored(text: str | None) -> str | bytes | None:
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


def _loaded(stored: str | bytes | None) -> str | None:
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored


def _stored_rows(number: int, new: NewEvent) -> Iterator[tuple[Any, ...]]:
    nothing = [None] * len(new.rows)
    predicted, probability = new.predicted or nothing, new.probability or nothing
    for place, values in enumerate(zip(new.rows, predicted, probability, strict=True)):
        row, name, value = values
        yield number, place, _stored(row), _stored(name), None if value is None else float(value)


def _read_events(connection: sqlite3.Connection, after: int = 0) -> Iterator[Event]:
    columns = 'id, time, "key", "window", kind, label, way, undoes, model'
    heads = connection.execute(f"SELECT {columns} FROM events WHERE id > ? ORDER BY id", [after])  # noqa: S608
    sql = (
        'SELECT e.id, r."row", r.predicted, r.probability FROM events e'
        " JOIN event_rows r ON r.event = coalesce(e.undoes, e.id) WHERE e.id > ? ORDER BY e.id, r.place"
    )
    parts = groupby(connection.execute(sql, [after]), key=lambda part: part[0])
    for head in heads:
        number, when, key, window, kind, label, way, undoes, model = head
        of, found = next(parts, (None, iter(())))
        if of != number:
            raise sqlite3.DatabaseError(f"event {number} has no rows")
        rows, predicted, probability = zip(*(part[1:] for part in found), strict=True)
        yield Event(
            number=number,
            time=when,
            key=_text(key),
            window=_text(window),
            kind=kind,
            rows=tuple(_text(row) for row in rows),
            label=_loaded(label),
            way=_text(way),
            undoes=undoes,
            predicted=_opinions(kind, tuple(_loaded(name) for name in predicted)),
            probability=_opinions(kind, probability),
            model=model,
        )


def _text(stored: str | bytes) -> str:
    return _loaded(stored) or ""


def _opinions(kind: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return nothing where no row has an opinion, and of an undo, whose rows are those of another event."""
    return () if kind == "undo" or all(value is None for value in values) else values


def _fold(path: Path, connection: sqlite3.Connection) -> JournalState:
    state = JournalState()
    try:
        for event in _read_events(connection):
            state.apply(event)
    except (ValueError, LookupError) as error:
        raise _damaged(path, str(error)) from error
    return state


def _lock(path: Path) -> BaseFileLock:
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


def _create(path: Path, about: Mapping[str, str]) -> None:
    """Make a journal without events; a file is there whole or not at all."""
    for ending in ("-wal", "-journal"):
        rest = path.with_name(path.name + ending)
        if rest.exists():  # SQLite would take it for a part of the new file
            message = f"There is {rest} without the journal {path}, whose labels it holds in part."
            raise ValueError(f"{message} Move that back, or this away.")
    try:
        with replacing(path) as temporary, contextlib.closing(_connect(temporary, "rw")) as connection:
            triggers = [
                _APPEND_ONLY.format(table=table, change=change)
                for table in ("about", "events", "event_rows")
                for change in ("UPDATE", "DELETE")
            ]
            connection.executescript(f"BEGIN; {_SCHEMA} {''.join(triggers)}")
            values = [(_stored(name), _stored(value)) for name, value in about.items()]
            connection.executemany("INSERT INTO about VALUES (?, ?)", values)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise _unwritten(path, error) from error
    except OSError as error:
        raise _closed(path, error) from error


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,  # transactions begin and end where we say so
        check_same_thread=False,
    )


def _check_header(path: Path) -> None:
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


def _check_content(path: Path, connection: sqlite3.Connection, about: Mapping[str, str]) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise _damaged(path, str(found).splitlines()[-1])
    stored = {
        _loaded(name): _loaded(value) for name, value in connection.execute("SELECT name, value FROM about")
    }
    for name in sorted(stored.keys() | about.keys(), key=str):
        was, now = (values.get(name, "nothing") for values in (stored, about))
        if was != now:
            raise ValueError(
                f"The journal {path} belongs to other data: its {_brief(str(name))} is {_brief(was)}, and that "
                f"of these data is {_brief(now)}. Take the data that it was made with, or move it away to "
                "begin a new one."
            )


def _brief(text: str | None) -> str:
    return ascii(str(text)[:60])


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Say in a sentence why a file that is there cannot be opened."""
    try:
        yield
    except sqlite3.Error as error:
        if _primary_code(error) in _UNWRITABLE:
            raise _unwritten(path, error) from error
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, reason: str) -> ValueError:
    message = f"The journal {path} is cut or damaged ({reason})."
    return ValueError(f"{message} Take a copy of it that is whole, or move it away to begin a new one.")


def _closed(path: Path, error: OSError) -> ValueError:
    reason = error.strerror or str(error)
    return ValueError(
        f"The journal {path} cannot be opened for writing ({reason}). Give rights to it, or make room."
    )


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


def _unwritten(path: Path, error: sqlite3.Error) -> JournalError:
    """Say why something was not written, in words for whoever labels."""
    code = _primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        return JournalFullError(
            f"The disk is full: nothing was kept of this in {path}. Make room, and try again."
        )
    if code in _UNWRITABLE:
        message = f"The journal {path} cannot be written ({error}): nothing was kept of this."
        return JournalFullError(f"{message} Make room or give rights to it, and try again.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return JournalError(f"Another program holds the journal {path}: nothing was kept of this. Try again.")
    return JournalError(f"The journal {path} cannot be used ({error}): nothing was kept of this.")
