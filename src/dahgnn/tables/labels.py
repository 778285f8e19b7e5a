"""What the cells of the labels mean: classes, or that a row has none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from dahgnn.tables.messages import joined, quoted
from dahgnn.tables.missing import NUMBER, Missing, suspects

_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
# So many different numbers may be grades.
_FEW_CLASSES = 20
# Of so many classes, the most common first, a note says how many labels they have.
_LISTED_CLASSES = 12


def understand_labels(
    cells: Mapping[str | None, int], name: str | None, missing: Missing, *, is_array: bool
) -> tuple[dict[str | None, str | None], list[str]]:
    """Return the label that each different cell means, None for unlabelled, and what there is to say.

    Parameters
    ----------
    cells : mapping of (str or None) to int
        How many rows have each cell.
    name : str or None
        The column of the labels; None where these are the names of folders.
    missing : Missing
        The words that mean unlabelled.
    is_array : bool
        Whether −1 means unlabelled among whole numbers, whatever else is there.

    Raises
    ------
    ValueError
        If the labels are measured numbers.
    """
    where = f"in '{name}'" if name is not None else "by their folders"
    labels = dict(zip(cells, missing.in_labels(cells), strict=True))
    whole = {cell: _WHOLE.fullmatch(label) for cell, label in labels.items() if label is not None}
    notes = []
    if all(whole.values()):
        labels |= {cell: match[1] for cell, match in whole.items() if match}
        if "-1" in labels.values() and (is_array or _has_minus_one_for_none(labels.values())):
            count = sum(cells[cell] for cell, label in labels.items() if label == "-1")
            notes.append(f"The label -1 was taken for unlabelled, in {count} rows.")
            labels = {cell: None if label == "-1" else label for cell, label in labels.items()}
    counts: Counter[str] = Counter()
    for cell, label in labels.items():
        if label is not None:
            counts[label] += cells[cell]
    _check_classes(counts, name or "folders")
    if "-1" in counts:
        notes.append("The label -1 was taken for a class.")
    classes = [f"{quoted(label)} ({count})" for label, count in counts.most_common()]
    n_rows = sum(cells.values())
    known = f"{counts.total():,} of {n_rows:,} rows are labelled {where}, with {len(counts)} classes"
    sizes = joined(classes, most=_LISTED_CLASSES) or "none"
    return labels, [f"{known}: {sizes}.", *notes, *suspects(counts)]


def check_labels(labels: Iterable[str | None], name: str) -> None:
    """Refuse labels that no classifier can learn from."""
    classes = {label for label in labels if label is not None}
    if len(classes) < 2:
        got = f"one class alone, {quoted(classes.pop())}" if classes else "no label at all"
        raise ValueError(
            f"The labels in '{name}' must be of at least two classes. Got {got}. "
            "Label some rows; an empty cell means unlabelled."
        )


def _check_classes(counts: Counter[str], name: str) -> None:
    """Refuse measured numbers: few of them are equal, and some are not whole."""
    measured = all(NUMBER.fullmatch(text) for text in counts) and any("." in text for text in counts)
    if measured and len(counts) > max(_FEW_CLASSES, counts.total() / 2):
        raise ValueError(
            f"The labels in '{name}' must be classes. Got {len(counts)} different numbers in "
            f"{counts.total()} rows."
        )


def _has_minus_one_for_none(labels: Iterable[str | None]) -> bool:
    others = {label for label in labels if label != "-1"}
    return len(others) > 1 and all(label is not None and not label.startswith("-") for label in others)
