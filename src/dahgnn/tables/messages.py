"""Words that messages about users' files share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dahgnn.checks import did_you_mean


def no_column(path: Path, name: str, known: Iterable[str], purpose: str) -> ValueError:
    """Return the error of a column that is not there."""
    known = list(known)
    hint = did_you_mean(name, known) or f"It has {listed(known)}."
    return ValueError(f"The file {path} must have a column '{name}' {purpose}. Got none of that name. {hint}")


def at(row: int) -> str:
    """Say which row is meant."""
    return f"row {row} (counted from 0)"


def quoted(text: str) -> str:
    """Quote a cell; of a long one, only the beginning."""
    return f"'{text if len(text) <= 60 else text[:60] + '…'}'"


def counted(names: Sequence[str]) -> str:
    """Say how many columns there are, and which."""
    columns, were = ("columns", "were") if len(names) > 1 else ("column", "was")
    return f"{len(names)} {columns} ({listed(names)}) {were}"


def listed(names: Sequence[str]) -> str:
    """Quote the first few names."""
    return joined([quoted(name) for name in names])


def joined(parts: Sequence[str], most: int = 6) -> str:
    """Join the first few parts, and say how many are left."""
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")
