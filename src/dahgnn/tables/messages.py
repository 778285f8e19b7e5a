"""Words that messages about users' files share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dahgnn.checks import did_you_mean

# One message names so many problems of a table.
_MOST_PROBLEMS = 20


class Problems:
    """Everything that is wrong with a table, gathered so that a user reads of all of it at once."""

    def __init__(self) -> None:
        self._sentences: dict[
            str, None
        ] = {}  # in order; a list would be searched for each of 100,000 columns

    @property
    def sentences(self) -> list[str]:
        """What is wrong, each problem once."""
        return list(self._sentences)

    def add(self, error: ValueError) -> None:
        """Keep what an error says, once."""
        self._sentences[str(error)] = None

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep an error that the block raises, and go on behind the block."""
        try:
            yield
        except ValueError as error:
            self.add(error)


def combined_error(path: Path, problems: Sequence[str], most: int = _MOST_PROBLEMS) -> ValueError:
    """Return one error that lists the problems of a table, each with its remedy."""
    if len(problems) == 1:
        return ValueError(problems[0])
    lines = [f"\n- {problem}" for problem in problems[:most]]
    if len(problems) > most:
        lines.append(f"\n- and {len(problems) - most} more like these")
    return ValueError(f"The file {path} has {len(problems)} problems.{''.join(lines)}")


def no_column(path: Path, name: str, known: Iterable[str], purpose: str) -> ValueError:
    """Return the error of a column that is not there."""
    known = list(known)
    hint = did_you_mean(name, known) or f"It has {listed(known)}."
    return ValueError(f"The file {path} must have a column '{name}' {purpose}. Got none of that name. {hint}")


def quoted(text: str) -> str:
    """Quote a cell; of a long one, only the beginning."""
    return f"'{shortened(text, 60)}'"


def shortened(text: str, most: int) -> str:
    """Return the beginning of a text that has more letters than that."""
    return text if len(text) <= most else f"{text[:most]}…"


def counted(names: Sequence[str]) -> str:
    """Say how many columns there are, and which."""
    columns, were = ("columns", "were") if len(names) > 1 else ("column", "was")
    return f"{len(names)} {columns} ({listed(names)}) {were}"


def listed(names: Sequence[str]) -> str:
    """Quote the first few names."""
    return joined([quoted(name) for name in names])


def joined(parts: Sequence[str], most: int = 6) -> str:
    """Join the first few parts, and say how many are left; one that would be left alone is named, too."""
    if len(parts) <= most + 1:
        return ", ".join(parts)
    return f"{', '.join(parts[:most])} and {len(parts) - most} more"
