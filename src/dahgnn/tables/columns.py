"""How the columns of a table become features, in a way that is kept for the next file.

`dahgnn.tables.planning` decides it for a new table. Numbers stay as they are; True and False become 1 and 0;
text of few values becomes one feature a value, named ``column=value``. Missing numbers and flags get the
column's median; missing text is 0 in all its features. Dates become numbers as `dahgnn.tables.dates` says,
free text as `dahgnn.tables.texts` does, and a vector one feature a place, named ``column[0]``, ``column[1]``,
…; a missing date is the median, and missing places of a vector are the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dahgnn.checks import bad_type, bad_value, check_choice, check_number
from dahgnn.tables.cells import FLOAT32_MAX
from dahgnn.tables.dates import ORDERS, PARTS, part_names
from dahgnn.tables.messages import combined_error, counted, no_column
from dahgnn.tables.sources import Source
from dahgnn.tables.texts import Encoder

_KINDS = ("number", "flag", "category", "date", "vector", "text", "picture", "unused")
# Kinds whose cells must be read as text.
TEXT_KINDS = ("category", "text", "picture")


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one column of a file becomes features; a fitted model keeps it.

    Parameters
    ----------
    name : str
        The name of the column in the file.
    kind : str
        "number" or "flag" (one feature), "category" (one feature a value), "date" (some of its parts),
        "vector" (one feature a place), "text" or "picture" (what its encoder gives) or "unused" (none).
    fill : float or None
        What a missing number or flag becomes: the median at the time of the fit. That of dates is in days.
    categories : sequence of str
        The values that have a feature, in the order of the features.
    missing : sequence of str
        Words that mean missing, besides those that always do.
    parts : sequence of str
        Those of `dahgnn.tables.dates.PARTS` that are features.
    order : str
        Which of `dahgnn.tables.dates.ORDERS` dates in text have.
    mean : sequence of float
        What the missing places of a vector become, one number for each place.
    encoder : Encoder or None
        What turns free text, or paths of pictures, into features.
    """

    name: str
    kind: str
    fill: float | None = None
    categories: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    order: str = "year"
    mean: tuple[float, ...] = ()
    encoder: Encoder | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise bad_type("name", "Column", "text", repr(self.name))
        check_choice("kind", self.kind, _KINDS, "Column")
        if self.kind in ("number", "flag", "date"):
            check_number("fill", self.fill, "Column", low=-FLOAT32_MAX, high=FLOAT32_MAX)
        for name in ("categories", "missing", "parts", "mean"):
            # A column that comes back from JSON has lists here.
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_values()
        if (self.kind in ("text", "picture")) != (self.encoder is not None):
            raise bad_value("encoder", "Column", "there for text and pictures alone", repr(self.encoder))

    def _check_values(self) -> None:
        for name in ("categories", "missing"):
            texts = getattr(self, name)
            if not all(isinstance(text, str) for text in texts):
                raise bad_type(name, "Column", "a sequence of texts", repr(texts))
        for part in self.parts:
            check_choice("parts", part, PARTS, "Column")
        check_choice("order", self.order, ORDERS, "Column")
        for number in self.mean:
            check_number("mean", number, "Column", low=-FLOAT32_MAX, high=FLOAT32_MAX)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that the column becomes."""
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.categories)
        if self.kind == "date":
            return tuple(f"{self.name} ({part})" for part in part_names(self.parts))
        if self.kind in ("vector", "text", "picture"):
            width = len(self.mean) if self.encoder is None else self.encoder.width
            return tuple(f"{self.name}[{place}]" for place in range(width))
        return () if self.kind == "unused" else (self.name,)


def match_columns(path: Path, source: Source, columns: Sequence[Column]) -> list[str]:
    """Check that a file has the columns of a fitted model, and say what else it has."""
    if all(column.kind == "unused" for column in columns):
        raise bad_value("columns", "read_table", "such that one gives a feature", f"{len(columns)} without")
    if source.is_array and all(column.name == f"x{place}" for place, column in enumerate(columns)):
        if len(source.cells) != len(columns):
            raise ValueError(
                f"The features in the file {path} must have {len(columns)} columns, as at the fit. "
                f"Got {len(source.cells)}."
            )
        return []
    absent = [
        column.name for column in columns if column.kind != "unused" and column.name not in source.cells
    ]
    if absent:
        purpose = "which the model was fitted with"
        raise combined_error(path, [str(no_column(path, name, source.cells, purpose)) for name in absent])
    known = {column.name for column in columns}
    further = [name for name in source.cells if name not in known]
    return [f"{counted(further)} ignored: the model was fitted without."] if further else []
