"""Whether labels tell how common the classes are among all rows, and what a user knows of that."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Container, Iterable, Mapping

from dahgnn.checks import did_you_mean
from dahgnn.tables.messages import joined, quoted

# Fewer labels of a class are often equally many by chance.
_FEWEST_LABELS = 5


def complete_shares(
    shares: Mapping[str, float] | None, labels: Iterable[str | None]
) -> dict[str, float] | None:
    """Return a share for each class; the only class without one gets what the others leave of 1.

    Parameters
    ----------
    shares : mapping of str to float, or None
        What the user knows, all above 0. Shares of all classes need not sum to 1.
    labels : iterable of str or None
        The labels, None where there is none, or each different one once.

    Raises
    ------
    ValueError
        If a class is not known, or several are without a share, or nothing is left for one.
    """
    if shares is None:
        return None
    known = sorted({label for label in labels if label is not None})
    for name in shares:
        if name not in known:
            hint = did_you_mean(name, known) or f"Classes are {joined(known)}."
            raise ValueError(f"The option --class-prior must name a class. Got '{name}'. {hint}")
    rest = [name for name in known if name not in shares]
    left = 1 - sum(shares.values())
    if len(rest) > 1:
        raise ValueError(
            f"The option --class-prior must be given for each class but one. Got none for {joined(rest)}."
        )
    if rest and left <= 0:
        raise ValueError(
            f"The shares of --class-prior must leave something of 1 for the class '{rest[0]}'. "
            f"Got {1 - left:g} for the others."
        )
    return {name: shares.get(name, left) for name in known}


def note_shares(shares: Mapping[str, float]) -> str:
    """Say how common the classes are taken to be."""
    total = sum(shares.values())
    each = joined([f"{quoted(name)} {100 * share / total:.3g} %" for name, share in shares.items()])
    return (
        f"Among all rows the classes are taken to have these shares, as said: {each}. "
        "Held-out labels need not."
    )


def note_equal_counts(labels: Iterable[str | None] | Mapping[str | None, int]) -> list[str]:
    """Say so where labels seem to be chosen class by class: then they do not tell how common a class is.

    That is where at least half of the classes have the same number of labels, the largest, and rows are left
    to label. Labels are those of all rows, or how many rows have each.
    """
    counts = Counter(labels)
    unlabelled = counts.pop(None, 0)
    most = max(counts.values(), default=0)
    same = [name for name, count in counts.items() if count == most]
    if not unlabelled or most < _FEWEST_LABELS or len(same) < max(2, len(counts) / 2):
        return []
    classes = "All classes" if len(same) == len(counts) else f"{len(same)} of {len(counts)} classes"
    example = shlex.quote(f"{same[0]}=0.7")
    return [
        f"{classes} have {most} labels each, as if chosen class by class. Labels and accuracy suffer where "
        "classes are not equally common among all rows. If you know how common they are, even roughly, say "
        f"it for each, such as --class-prior {example}."
    ]


def note_all_labelled(labels: Container[str | None]) -> list[str]:
    """Say so where no row is left to label: a word may stand for "unlabelled"."""
    if None in labels:
        return []
    return [
        "No row is unlabelled, so nothing is left to label in this file. An empty cell means unlabelled, and "
        "so does what --missing names."
    ]
