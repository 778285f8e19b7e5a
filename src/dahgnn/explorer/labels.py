"""The labels of all rows as they stand: those that came with the rows, and what people said since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.checks import bad_value
from dahgnn.explorer.events import JournalState
from dahgnn.explorer.rows import Rows
from dahgnn.report.html import clean_text

Array = NDArray[Any]

# Who gave a label.
NOBODY, FILE, PERSON = 0, 1, 2
WHO = (None, "file", "person")
# Classes have places in arrays of int16.
MOST_CLASSES = 2**15 - 1


class Labels:
    """Arrays that follow the journal.

    Attributes
    ----------
    classes : list of str
        All names so far: those that came with the rows in order, then others as they came. A class keeps its
        place, also when nobody has it any more.
    places : array of int16, (n,)
        The place of each row's label, −1 where there is none.
    who : array of uint8, (n,)
        Who gave it: `NOBODY`, `FILE` or `PERSON`.
    """

    def __init__(self, rows: Rows, state: JournalState) -> None:
        self._rows, self._state = rows, state
        self.classes = sorted({label for label in rows.given if label is not None})
        if len(self.classes) > MOST_CLASSES:
            expected, got = f"a column of at most {MOST_CLASSES:,} classes", f"{len(self.classes):,}"
            raise bad_value("label", "label", expected, got, "Name another column.")
        self._places = {name: place for place, name in enumerate(self.classes)}
        self._given = np.array([self._places.get(label, -1) for label in rows.given], dtype=np.int16)  # type: ignore[arg-type]
        self.places = self._given.copy()
        self.who = np.where(self.places >= 0, FILE, NOBODY).astype(np.uint8)
        for name in state.classes:
            self.place(name)
        self.update(name for name, _ in state.label_events())

    def place(self, name: str) -> int:
        """Return the place of a class, a new one if it was not known."""
        if name not in self._places:
            self._places[name] = len(self.classes)
            self.classes.append(name)
        return self._places[name]

    def named(self, shown: str) -> str:
        """Return the class that a page shows by this name: pages show no character that acts unseen.

        A name that no class has is that of a new one.
        """
        if shown in self._places:
            return shown
        return next((name for name in self.classes if clean_text(name) == shown), shown)

    def update(self, ids: Iterable[str]) -> None:
        """Look again at some rows, after an event of the journal; ids of other rows are passed over."""
        for name in ids:
            row = self._rows.numbers.get(name)
            if row is None:
                continue
            event = self._state.label_event(name)
            if event is None:
                self.places[row] = self._given[row]
                self.who[row] = FILE if self._given[row] >= 0 else NOBODY
            else:
                self.places[row] = -1 if event.label is None else self.place(event.label)
                self.who[row] = NOBODY if event.label is None else PERSON

    def of(self, row: int) -> str | None:
        """Return the label of a row."""
        place = self.places[row]
        return None if place < 0 else self.classes[place]

    @property
    def n_labelled(self) -> int:
        """How many rows have a label."""
        return int((self.places >= 0).sum())

    def texts(self) -> Array:
        """Return the labels of all rows as a classifier takes them, None where there is none."""
        names = np.array([*self.classes, None], dtype=object)
        return np.asarray(names[self.places])

    def before(self, row: int, number: int) -> str | None:
        """Return the label that a row had before an event."""
        event = self._state.label_event(self._rows.ids[row], before=number)
        if event is not None:
            return event.label
        return None if self._given[row] < 0 else self.classes[self._given[row]]
