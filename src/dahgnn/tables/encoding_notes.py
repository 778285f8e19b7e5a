"""What there is to say of columns that became features, counted block by block.

A table that is read whole is one block, and a large one is many. Both are told of in the same sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dahgnn.tables.cells import as_texts
from dahgnn.tables.columns import Column
from dahgnn.tables.dates import from_days, part_names
from dahgnn.tables.messages import joined, listed, quoted

# Of so many different categories that nobody knew, at most, the first few are named.
_MOST_UNKNOWN = 1_000


@dataclass
class EncodingNotes:
    """How many cells of each column were missing, empty or unknown, over all blocks so far.

    Parameters
    ----------
    origin : str
        Where columns were decided about, as messages say it: "at the fit" of an earlier table, or in a sample
        of this one.
    """

    origin: str = "at the fit"
    encoded: set[str] = field(default_factory=set)
    missing: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    unknown_values: dict[str, dict[str, None]] = field(default_factory=dict)

    def add_unknown(self, name: str, values: Iterable[str]) -> None:
        """Count cells of a category that has no feature for them."""
        known = self.unknown_values.setdefault(name, {})
        for value in values:
            self.unknown[name] += 1
            if len(known) < _MOST_UNKNOWN:
                known[value] = None

    def sentences(self, columns: Sequence[Column]) -> list[str]:
        """Return sentences on columns; those on several of them come first."""
        done = [column for column in columns if column.name in self.encoded]
        categories = [column for column in done if column.kind == "category"]
        gaps = [column for column in categories if self.missing[column.name]]
        filled = [c for c in done if c.kind in ("number", "flag") and self.missing[c.name]]
        together = (
            (
                [f"{quoted(each.name)} ({listed(each.categories)})" for each in categories],
                ("is", "are"),
                "text, with one feature for each value",
            ),
            (
                [f"{quoted(each.name)} ({self.missing[each.name]})" for each in gaps],
                ("has", "have"),
                "missing text, which is 0 in all its features",
            ),
            (
                [f"{quoted(each.name)} ({self.missing[each.name]}, with {each.fill:g})" for each in filled],
                ("has", "have"),
                "missing values, which became the median",
            ),
        )
        alone = [sentence for column in done for sentence in self._say_alone(column)]
        return [*(_say(*each) for each in together if each[0]), *alone]

    def _say_alone(self, column: Column) -> list[str]:
        """Return what there is to say of one column by itself."""
        say = _ALONE.get(column.kind)
        return [] if say is None else say(column, self)


def _say(parts: Sequence[str], verbs: tuple[str, str], words: str) -> str:
    columns = f"1 column {verbs[0]}" if len(parts) == 1 else f"{len(parts)} columns {verbs[1]}"
    return f"{columns} {words}: {joined(parts)}."


def _say_unknown(column: Column, notes: EncodingNotes) -> list[str]:
    count = notes.unknown[column.name]
    if not count:
        return []
    cells = f"{count} {'value' if count == 1 else 'values'} of {quoted(column.name)}"
    values = listed(list(notes.unknown_values[column.name]))
    return [f"{cells}, unknown {notes.origin}, became 0 in all its features: {values}."]


def _say_dates(column: Column, notes: EncodingNotes) -> list[str]:
    first = "" if column.order == "year" else f", the {column.order} first"
    features = ", ".join(part_names(column.parts))
    said = [f"The column '{column.name}' holds dates{first}; its features are {features}."]
    if count := notes.missing[column.name]:
        dates = "1 missing date" if count == 1 else f"{count:,} missing dates"
        shown = as_texts(np.array([from_days(float(column.fill or 0))]), column.name)[0]
        said.append(f"{dates} of '{column.name}' became the median, {shown}.")
    return said


def _say_vectors(column: Column, notes: EncodingNotes) -> list[str]:
    count = notes.missing[column.name]
    return [f"What is missing of {count} vectors of '{column.name}' became the mean."] if count else []


def _say_pictures(column: Column, notes: EncodingNotes) -> list[str]:
    count, width = notes.missing[column.name], len(column.feature_names)
    said = [f"The column '{column.name}' has paths of pictures; their {width} pixels are features."]
    return said + [f"{count} missing pictures of '{column.name}' became the mean."] * bool(count)


def _say_texts(column: Column, notes: EncodingNotes) -> list[str]:
    width, told = len(column.feature_names), column.encoder.kind if column.encoder is not None else ""
    said = [f"The column '{column.name}' is free text; {width} features tell of its {told}."]
    if count := notes.empty[column.name]:
        said.append(f"{count} texts of '{column.name}' are missing or have no known word: they are 0.")
    return said


_ALONE: Mapping[str, Callable[[Column, EncodingNotes], list[str]]] = {
    "category": _say_unknown,
    "date": _say_dates,
    "vector": _say_vectors,
    "picture": _say_pictures,
    "text": _say_texts,
}
