"""Which words of a table mean that there is no value.

In a column of features these are an empty cell and the words of `MISSING_WORDS`. In the column of the labels
it is an empty or blank cell alone, as "None" may be a class; `suspects` names the classes that do not look
like one. In both, the words that a user names with ``--missing`` are missing, too. A word that is a number
stands for all cells of that value: -999 for -999.0.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dahgnn.tables.sources import MISSING_WORDS, Texts

NUMBER = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)\s*", re.I)
# Labels that often mean "unlabelled", without regard to case.
_SUSPECT = frozenset(
    (
        "na",
        "n/a",
        "n.a.",
        "#n/a",
        "nan",
        "nil",
        "null",
        "none",
        "missing",
        "unlabelled",
        "unlabeled",
        "unknown",
        "?",
        "-",
        "--",
        ".",
    )
)


class Missing:
    """The words that mean missing in the cells of a table.

    Parameters
    ----------
    words : sequence of str
        Those that a user names, without regard to blanks around them.
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._words = frozenset(word.strip() for word in words)
        self._numbers = np.array(sorted({float(word) for word in self._words if NUMBER.fullmatch(word)}))

    def in_features(self, texts: Iterable[str | None]) -> Texts:
        """Return texts with None for those that mean missing in a column of features."""
        return [None if text in MISSING_WORDS or self._named(text) else text for text in texts]

    def in_labels(self, texts: Iterable[str | None]) -> Texts:
        """Return texts without blanks around them, and None for those that mean unlabelled."""
        stripped = (text.strip() if text is not None else None for text in texts)
        return [None if not text or self._named(text) else text for text in stripped]

    def in_numbers(self, values: np.ndarray) -> np.ndarray:
        """Return float64 values with NaN for those that mean missing."""
        if not self._numbers.size:
            return values
        return np.where(np.isin(values, self._numbers), math.nan, values)

    def _named(self, text: str | None) -> bool:
        """Whether a user named the word, or its value."""
        if text is None or not self._words:
            return text is None
        if text.strip() in self._words:
            return True
        return bool(self._numbers.size and NUMBER.fullmatch(text) and float(text) in self._numbers)


def suspects(counts: Mapping[str, int]) -> list[str]:
    """Say which classes look like words for "unlabelled", with their numbers of rows and what to do."""
    return [
        f"The label '{word}' ({count} {'row' if count == 1 else 'rows'}) is a class. "
        f"If it means unlabelled, say --missing {shlex.quote(word)}."
        for word, count in counts.items()
        if word.lower() in _SUSPECT
    ]
