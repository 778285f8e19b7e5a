"""What people did, as events that only follow each other, and what all of them amount to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

# What an event may be. An action is what a person did to rows; an undo takes one action back.
ACTIONS = ("label", "skip", "keep")
KINDS = (*ACTIONS, "undo")

# Longer keys, names of windows and ways come from nobody who means well.
_LONGEST_NAME = 200
# What SQLite holds in an integer.
_GREATEST = 2**63 - 1


class NothingToUndoError(LookupError):
    """There is no action to take back."""


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """An event before it is written.

    Attributes
    ----------
    key : str
        A name that no other event has. An event that is sent twice, as after a lost answer, has one key.
    window : str
        The page that it comes from.
    kind : {"label", "skip", "keep", "undo"}
        What was done. "keep" says that a label is right although it looks doubtful.
    rows : sequence of str
        The ids of the rows, each once. An undo has those of the action that it takes back, and names none.
    label : str, optional
        What the rows are labelled with; None takes labels away. Of "keep", the label that was kept.
    way : str
        How the rows came to be seen, such as "uncertain" or "audit".
    undoes : int, optional
        Which event an undo takes back; None is the last action of its window that still stands.
    seen : int, optional
        The last event that the window knows of. Where another window has changed one of the rows since
        then, the event is refused. None asks nothing.
    predicted, probability : sequence, of the length of rows, optional
        The class that a model gave to each row before the event, and its probability; None for no opinion.
    model : int, optional
        The number of that model.
    """

    key: str
    window: str
    kind: str
    rows: Sequence[str] = ()
    label: str | None = None
    way: str = ""
    undoes: int | None = None
    seen: int | None = None
    predicted: Sequence[str | None] = ()
    probability: Sequence[float | None] = ()
    model: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise _bad("kind", f"one of {', '.join(KINDS)}", repr(self.kind))
        for name in ("key", "window"):
            if not 1 <= len(getattr(self, name)) <= _LONGEST_NAME:
                raise _bad(name, f"of 1 to {_LONGEST_NAME} letters", f"{len(getattr(self, name))}")
        if len(self.way) > _LONGEST_NAME:
            raise _bad("way", f"of at most {_LONGEST_NAME} letters", f"{len(self.way)}")
        for name in ("undoes", "seen", "model"):
            number = getattr(self, name)
            if number is not None and not 0 <= number <= _GREATEST:
                raise _bad(name, f"between 0 and {_GREATEST}", str(number)[:40])
        self._check_rows()

    def _check_rows(self) -> None:
        undo = self.kind == "undo"
        if undo != (not self.rows):
            raise _bad("rows", "none for an undo, and at least one for any other", f"{len(self.rows)}")
        if self.undoes is not None and not undo:
            raise _bad("undoes", "None unless the event is an undo", f"{self.undoes}")
        if len(set(self.rows)) < len(self.rows):
            raise _bad("rows", "named once each", f"{len(self.rows) - len(set(self.rows))} of them again")
        for name in ("predicted", "probability"):
            if len(getattr(self, name)) not in (0, len(self.rows)):
                raise _bad(name, f"of length {len(self.rows)}, or none", f"length {len(getattr(self, name))}")
        for value in self.probability:
            if value is not None and not (math.isfinite(value) and 0 <= value <= 1):
                raise _bad("probability", "between 0 and 1", f"{value}")


def _bad(name: str, expected: str, got: str) -> ValueError:
    return ValueError(f"The '{name}' of an event must be {expected}. Got {got}.")


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event that stands in a journal. `NewEvent` says what the attributes mean.

    Attributes
    ----------
    number : int
        Events are numbered from 1 on, in the order in which they were written.
    time : float
        When, in seconds since 1970.
    rows : tuple of str
        Of an undo, those of the action that it takes back.
    undoes : int or None
        Which event an undo takes back; never None there.
    predicted, probability : tuple
        As long as rows, or empty where no row has such.
    """

    number: int
    time: float
    key: str
    window: str
    kind: str
    rows: tuple[str, ...]
    label: str | None
    way: str
    undoes: int | None
    predicted: tuple[str | None, ...]
    probability: tuple[float | None, ...]
    model: int | None


@dataclass
class JournalState:
    """What the events up to one amount to. To apply one more takes time by its rows alone.

    Examples
    --------
    >>> said = dict(time=0.0, key="", window="w", way="", predicted=(), probability=(), model=None)
    >>> state = JournalState()
    >>> state.apply(Event(number=1, kind="label", rows=("a", "b"), label="cat", undoes=None, **said))
    >>> state.apply(Event(number=2, kind="label", rows=("a",), label="dog", undoes=None, **said))
    >>> state.label("a"), state.label("b")
    ('dog', 'cat')
    >>> state.apply(Event(number=3, kind="undo", rows=("a",), label=None, undoes=2, **said))
    >>> state.label("a"), state.last_event("a"), state.label_event("a").number
    ('cat', 3, 1)

    Attributes
    ----------
    version : int
        The number of the last event; 0 before the first.
    skipped : set of str
        Ids of rows that were skipped and not labelled afterwards.
    kept : dict
        By id the label that was last said to be right; the row may have another one by now.
    classes : dict of str to None
        All labels that were ever given, in the order in which they came; also where all were undone.
    audits : dict of str to Event
        By id of an audit row the first event that gave it a label. Later ones know what the model guessed.
    """

    version: int = 0
    skipped: set[str] = field(default_factory=set)
    kept: dict[str, str | None] = field(default_factory=dict)
    classes: dict[str, None] = field(default_factory=dict)
    audits: dict[str, Event] = field(default_factory=dict)
    _events: dict[int, Event] = field(default_factory=dict)
    # The actions that still stand, in order: a dict for its order, and because it forgets one at once.
    _standing: dict[int, None] = field(default_factory=dict)
    # By id: its last event of any kind, and its actions that still stand, the latest last.
    _last: dict[str, int] = field(default_factory=dict)
    _history: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Take one more event into account, which must be later than all others."""
        if event.number <= self.version:
            raise ValueError(f"Event {event.number} must come after event {self.version}, the last one.")
        if event.undoes is not None:
            self._take_back(event, event.undoes)
        else:
            self._add(event)
        self._events[event.number] = event
        self._last.update(dict.fromkeys(event.rows, event.number))
        self.version = event.number

    def _add(self, action: Event) -> None:
        alone = (action.number,)  # shared by all rows that have no other action: there may be a million
        histories: dict[str, tuple[int, ...]] = dict.fromkeys(action.rows, alone)
        for row in histories.keys() & self._history.keys():
            histories[row] = self._history[row] + alone
        self._history.update(histories)
        self._standing[action.number] = None
        if action.kind == "label":
            self.skipped.difference_update(action.rows)
            self._learn(action)
        elif action.kind == "skip":
            self.skipped.update(action.rows)
        else:
            self.kept.update(dict.fromkeys(action.rows, action.label))

    def _learn(self, action: Event) -> None:
        if action.label is None:
            return
        self.classes.setdefault(action.label)
        if action.way == "audit":
            for row in action.rows:
                self.audits.setdefault(row, action)

    def _take_back(self, undo: Event, undone: int) -> None:
        self.check_standing(undone)
        del self._standing[undone]
        for row in undo.rows:
            self._history[row] = tuple(number for number in self._history[row] if number != undone)
            self.skipped.discard(row)
            self.kept.pop(row, None)
            last, keep = self._last_of(row, ("label", "skip")), self._last_of(row, ("keep",))
            if last is not None and last.kind == "skip":
                self.skipped.add(row)
            if keep is not None:
                self.kept[row] = keep.label

    def _last_of(self, row: str, kinds: tuple[str, ...], before: int = _GREATEST) -> Event | None:
        for number in reversed(self._history.get(row, ())):
            event = self._events[number]
            if number < before and event.kind in kinds:
                return event
        return None

    def check_standing(self, number: int) -> None:
        """Refuse to undo what is no action, or was undone before."""
        event = self._events.get(number)
        if event is None:
            raise NothingToUndoError(f"There is no event {number} to undo.")
        if event.kind == "undo":
            raise NothingToUndoError(
                f"Event {number} is an undo, which cannot be undone. Label again instead."
            )
        if number not in self._standing:
            raise NothingToUndoError(f"Event {number} was undone before.")

    def last_action(self, window: str) -> Event:
        """Return the last action of a window that still stands."""
        for event in self.recent():
            if event.window == window:
                return event
        raise NothingToUndoError("There is nothing left to undo in this window.")

    def recent(self) -> Iterator[Event]:
        """Yield the actions that still stand, the newest first."""
        for number in reversed(self._standing):
            yield self._events[number]

    def event(self, number: int) -> Event:
        """Return an event by its number."""
        return self._events[number]

    def label_event(self, row: str, before: int = _GREATEST) -> Event | None:
        """Return the last event that gave a row a label or took it away, and still stands.

        Parameters
        ----------
        row : str
            Its id.
        before : int
            Only events of lower numbers count.
        """
        return self._last_of(row, ("label",), before)

    def label(self, row: str) -> str | None:
        """Return the label that a person gave to a row; None if none did, or if it was taken away."""
        event = self.label_event(row)
        return None if event is None else event.label

    def label_events(self) -> Iterator[tuple[str, Event]]:
        """Yield each id with such an event, and the event; see `label_event`."""
        for row in self._history:
            event = self.label_event(row)
            if event is not None:
                yield row, event

    def last_event(self, row: str) -> int:
        """Return the number of the last event of a row, an undo included; 0 if there is none."""
        return self._last.get(row, 0)

    def conflicts(self, rows: Sequence[str], seen: int, window: str) -> tuple[str, ...]:
        """Return the rows whose last event is later than ``seen``, and of another window."""
        return tuple(
            row
            for row in rows
            if (last := self._last.get(row, 0)) > seen and self._events[last].window != window
        )
