"""Keep what people did in one SQLite file, to which events are only added.

An event is on the disk when `Journal.write` returns: the file is in SQLite's WAL mode, and each transaction
ends with an fsync. After a kill or a power cut the file holds all events that were acknowledged, each once,
and perhaps one more that was on its way. Whoever sends that one again, with its key, gets the stored one.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dahgnn.explorer.events import Event, JournalState, NewEvent
from dahgnn.explorer.journal_file import (
    JournalError,
    check_content,
    check_header,
    connect,
    create,
    damaged,
    loaded_text,
    lock_journal,
    refusing,
    stored_text,
    text_of,
    unwritten,
    use_wal,
)

if TYPE_CHECKING:
    from filelock import BaseFileLock


class ConflictError(Exception):
    """Another window has changed some of the rows since this one looked; nothing was written.

    Attributes
    ----------
    rows : tuple of str
        Their ids.
    """

    def __init__(self, rows: Sequence[str]) -> None:
        which = f"{len(rows)} of these rows were" if len(rows) > 1 else "This row was"
        super().__init__(f"{which} changed in another window meanwhile. Look again before you label.")
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
        JournalFullError
            If the disk is full or broken.
        """
        if path.exists() and not path.is_file():
            raise ValueError(f"The journal {path} must be a file. Got a folder or device. Move it away.")
        lock = lock_journal(path)
        try:
            if not path.exists():
                create(path, about)
            check_header(path)
            with refusing(path), contextlib.closing(connect(path, "ro")) as connection:
                check_content(path, connection, about)
            with refusing(path), contextlib.ExitStack() as stack:
                connection = stack.enter_context(contextlib.closing(connect(path, "rw")))
                use_wal(connection)
                journal = cls(path, connection, _fold(path, connection), lock)
                stack.pop_all()
                return journal
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
                self._check_version()
                stored = self._find(new.key)
                if stored is not None:
                    return stored
                event = self._prepare(new)
                self._insert(event)
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
            found = self._connection.execute(sql, [stored_text(kind), stored_text(digest)]).fetchone()
        return None if found is None else bytes(found[0])

    def keep_layout(self, kind: str, digest: str, places: bytes) -> None:
        """Keep the layout of a map in place of all others of its kind."""
        with self._lock, self._transaction():
            self._connection.execute("DELETE FROM layouts WHERE kind = ?", [stored_text(kind)])
            values = [stored_text(kind), stored_text(digest), places]
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
                raise unwritten(self.path, error) from error
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise unwritten(self.path, error) from error

    def _check_version(self) -> None:
        (last,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        if last != self._state.version:
            message = f"Another program has written into {self.path}."
            raise JournalError(f"{message} Start again to go on from there.")

    def _find(self, key: str) -> Event | None:
        sql = 'SELECT id FROM events WHERE "key" = ?'
        found = self._connection.execute(sql, [stored_text(key)]).fetchone()
        return None if found is None else self._state.event(found[0])

    def _prepare(self, new: NewEvent) -> Event:
        """Return the event that is to be written, or say what is against it."""
        rows, undoes = tuple(new.rows), new.undoes
        if new.kind == "undo":
            undoes = self._state.last_action(new.window).number if undoes is None else undoes
            self._state.check_standing(undoes)
            rows = self._state.event(undoes).rows
        elif new.seen is not None and (others := self._state.conflicts(rows, new.seen, new.window)):
            raise ConflictError(others)
        return Event(
            number=self._state.version + 1,
            time=time.time(),
            key=new.key,
            window=new.window,
            kind=new.kind,
            rows=rows,
            label=new.label,
            way=new.way,
            undoes=undoes,
            predicted=_opinions(new.predicted),
            probability=_opinions(None if value is None else float(value) for value in new.probability),
            model=new.model,
        )

    def _insert(self, event: Event) -> None:
        texts = (event.window, event.key, event.kind, event.label, event.way)
        values = [event.number, event.time, *map(stored_text, texts), event.undoes, event.model]
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        if event.undoes is None:
            sql = "INSERT INTO event_rows VALUES (?, ?, ?, ?, ?)"
            self._connection.executemany(sql, _stored_rows(event))


def _opinions(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return nothing where no row has an opinion."""
    values = tuple(values)
    return () if all(value is None for value in values) else values


def _stored_rows(event: Event) -> Iterator[tuple[Any, ...]]:
    predicted = event.predicted or repeat(None)
    probability = event.probability or repeat(None)
    rows, names = map(stored_text, event.rows), map(stored_text, predicted)
    return zip(repeat(event.number), count(), rows, names, probability, strict=False)


def _read_events(connection: sqlite3.Connection, after: int = 0) -> Iterator[Event]:
    columns = 'id, time, "key", "window", kind, label, way, undoes, model'
    sql = f"SELECT {columns} FROM events WHERE id > ? ORDER BY id"  # noqa: S608, no text of anybody's
    rows_of: dict[int, tuple[str, ...]] = {}
    for number, when, key, window, kind, label, way, undoes, model in connection.execute(sql, [after]):
        acted = number if undoes is None else undoes
        predicted: tuple[str | None, ...] = ()
        probability: tuple[float | None, ...] = ()
        if acted not in rows_of:
            rows_of[acted], predicted, probability = _read_rows(connection, acted)
        yield Event(
            number=number,
            time=when,
            key=text_of(key),
            window=text_of(window),
            kind=kind,
            rows=rows_of[acted],
            label=loaded_text(label),
            way=text_of(way),
            undoes=undoes,
            predicted=predicted if undoes is None else (),
            probability=probability if undoes is None else (),
            model=model,
        )


def _read_rows(connection: sqlite3.Connection, number: int) -> tuple[Any, Any, Any]:
    """Return the ids of an action's rows, and what was predicted of them."""
    sql = 'SELECT "row", predicted, probability FROM event_rows WHERE event = ? ORDER BY place'
    rows, predicted, probability = [], [], []
    names: dict[str | bytes, str | None] = {}  # a million rows share the names of a few classes
    for row, name, value in connection.execute(sql, [number]):
        rows.append(text_of(row))
        predicted.append(None if name is None else names.setdefault(name, loaded_text(name)))
        probability.append(value)
    return tuple(rows), _opinions(predicted), _opinions(probability)


def _fold(path: Path, connection: sqlite3.Connection) -> JournalState:
    state = JournalState()
    try:
        for event in _read_events(connection):
            state.apply(event)
    except (ValueError, LookupError) as error:
        raise damaged(path, str(error)) from error
    return state
