"""Predictions as a table: a row for each row of the user's, in CSV or Parquet.

The columns are

- ``id``: the name of the row;
- ``class``: the given label, where there is one, else the predicted class;
- ``predicted``: the class that the classifier holds for the likeliest, whatever label was given;
- ``probability``, ``margin``: of ``predicted``, and by how much it exceeds the second;
- ``density``: how similar the row is to its neighbours;
- ``given``: the given label, empty where there is none (of a fit alone);
- ``p:NAME``: the probability of the class NAME, for each class; of more than 100 classes in Parquet alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.classifier.explanation import margins
from dahgnn.files.atomic import replacing
from dahgnn.report.fit_files import as_utf8, write_text

# A table of text with a column for each of more classes would be larger than all else.
_MOST_CLASSES = 100
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What is said of some rows.

    Parameters
    ----------
    ids : sequence of n str
        The names of the rows.
    classes : sequence of c str
        The names of the classes.
    probabilities : array, (n, c)
        Of each class.
    density : array, (n,)
        Of each row.
    given : sequence of n (str or None), optional
        The given labels, for rows that were fitted.
    """

    ids: Sequence[str]
    classes: Sequence[str]
    probabilities: Array
    density: Array
    given: Sequence[str | None] | None = None

    @property
    def predicted(self) -> list[str]:
        """The likeliest class of each row."""
        return [self.classes[place] for place in self.probabilities.argmax(1)]

    def columns(self, most_classes: int | None = None) -> dict[str, Sequence[Any] | Array]:
        """Return the columns by name; those of the classes only if there are no more than so many."""
        predicted, given = self.predicted, self.given or [None] * len(self.ids)
        columns: dict[str, Sequence[Any] | Array] = {
            "id": list(self.ids),
            "class": [own if own is not None else other for own, other in zip(given, predicted, strict=True)],
            "predicted": predicted,
            "probability": self.probabilities.max(1),
            "margin": margins(self.probabilities),
            "density": self.density,
        }
        if self.given is not None:
            columns["given"] = list(self.given)
        if most_classes is None or len(self.classes) <= most_classes:
            columns |= {
                f"p:{name}": values for name, values in zip(self.classes, self.probabilities.T, strict=True)
            }
        return columns


def as_csv(predictions: Predictions) -> str:
    """Return the text of a CSV file; numbers have six digits."""
    text = io.StringIO()
    columns = predictions.columns(_MOST_CLASSES)
    words = (*predictions.ids, *predictions.classes, *(predictions.given or ()))
    # A bare carriage return ends a line for many readers, but is not quoted by itself.
    bare = any("\r" in word for word in words if word)
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL)
    writer.writerow(columns)
    writer.writerows(zip(*map(_as_texts, columns.values()), strict=True))
    return text.getvalue()


def _as_texts(cells: Sequence[Any] | Array) -> list[str]:
    if isinstance(cells, np.ndarray):
        return [f"{number:.6g}" for number in cells.tolist()]
    return [cell or "" for cell in cells]


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write a file whole: Parquet if the name ends in .parquet, else CSV."""
    with replacing(path) as temporary:
        if path.suffix.lower() == ".parquet":
            write_parquet(temporary, predictions)
        else:
            write_text(temporary, as_csv(predictions))


def write_parquet(path: Path, predictions: Predictions) -> None:
    """Write a Parquet file."""
    from pyarrow import parquet

    parquet.write_table(as_arrow(predictions), path)


def as_arrow(predictions: Predictions) -> Any:
    """Return predictions as a table of Arrow."""
    import pyarrow

    columns = {
        as_utf8(name): pyarrow.array(cells)
        if isinstance(cells, np.ndarray)
        else pyarrow.array([cell and as_utf8(cell) for cell in cells], pyarrow.string())
        for name, cells in predictions.columns().items()
    }
    return pyarrow.table(columns)
