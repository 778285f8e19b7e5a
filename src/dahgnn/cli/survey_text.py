"""What was understood of a table, as text for a terminal."""

from __future__ import annotations

from dahgnn.cli.display import printable
from dahgnn.tables.columns import Column
from dahgnn.tables.large_tables import LargeSurvey
from dahgnn.tables.table import Survey

# More columns than these are not listed one by one, and names are cut at this length.
_MOST_COLUMNS, _LONGEST_NAME = 200, 40


def describe_survey(survey: Survey | LargeSurvey) -> str:
    """Return the notes on a table, and a line for each column that was understood."""
    lines = [printable(note) for note in survey.notes]
    if survey.columns:
        lines += ["", *_columns(survey.columns)]
    return "\n".join(lines)


def _columns(columns: tuple[Column, ...]) -> list[str]:
    shown = columns[:_MOST_COLUMNS]
    names = [_cut(printable(column.name)) for column in shown]
    width = max(len("column"), *map(len, names))
    lines = [f"{'column':{width}}  kind      features"]
    lines += [
        f"{name:{width}}  {column.kind:8}  {len(column.feature_names):8,}"
        for name, column in zip(names, shown, strict=True)
    ]
    if len(columns) > len(shown):
        lines.append(f"and {len(columns) - len(shown):,} more")
    return lines


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
