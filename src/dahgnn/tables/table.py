"""Read users' tables: features, labels and ids from CSV, TSV, Parquet, NPZ and NPY files.

What each kind of file may hold is said in the module that `dahgnn.tables.formats` has for it, and how its
columns become features in `dahgnn.tables.columns`.

**Labels** are text, without blanks around it; whole numbers lose a trailing ".0". A missing label means
unlabelled. So does −1 in an NPZ or NPY file of whole numbers; and in the other files, if all labels are whole
numbers, none is missing, and the rest are at least two classes of 0 and above. Hence −1 and 1 alone are two
classes there.

**Ids** are text as it stands, all different, none empty. Without them, the numbers of the rows from 0 on.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dahgnn.checks import bad_type, bad_value
from dahgnn.tables.columns import (
    NUMBER,
    Column,
    as_texts,
    encode_columns,
    match_columns,
    plan_columns,
    without_missing,
)
from dahgnn.tables.formats import find_format
from dahgnn.tables.messages import at, joined, quoted
from dahgnn.tables.sources import Reading, Source, Texts, Wanted

_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
# So many different numbers may be grades.
_FEW_CLASSES = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The features, labels and ids of a file.

    Parameters
    ----------
    features : ndarray of shape (n, d), float64 or, from an array, float32
        The features, all finite.
    names : tuple of d str
        The names of the features.
    columns : tuple of Column
        All columns but those of the labels and ids, in the order of the file at the time of the fit.
    labels : tuple of n (str or None), or None
        None marks a row without a label; None as a whole, a file read without a label column.
    ids : tuple of n str
        The names of the rows.
    source : Source
        The cells as they were read, without those of labels and ids.
    notes : tuple of str
        Sentences that say what was understood.
    """

    features: np.ndarray
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    labels: tuple[str | None, ...] | None
    ids: tuple[str, ...]
    source: Source
    notes: tuple[str, ...]


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002, the word of the command line
    drop: Sequence[str] = (),
    columns: Sequence[Column] | None = None,
    reading: Reading | None = None,
) -> Table:
    r"""Read a table, for a new model or for one that has been fitted.

    Parameters
    ----------
    path : path
        A file whose name ends in one of `dahgnn.tables.formats.FORMATS`, such as .csv.
    label, id : str, optional
        The column of the labels, and that of the ids. In an NPZ file the name of an array of n values; beside
        an NPY file the path of another.
    drop : sequence of str
        Columns to leave out.
    columns : sequence of Column, optional
        Those of the table that a model was fitted to. They are looked up by name and encoded as they were
        then. Further columns are ignored; a category that was unknown becomes zeros; without the column of
        the ids, rows are numbered.
    reading : Reading, optional
        How the file is to be read, such as its encoding.

    Raises
    ------
    OSError
        If there is no such file, it cannot be read, or it changes meanwhile.
    ValueError
        If the file is empty, cut, or of another kind; if a column is missing or cannot become features; if an
        id is missing or not unique.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "fruit.csv"
    >>> _ = path.write_text("size,colour,fruit\n1.5,red,apple\n,green,\n2.5,green,pear\n")
    >>> table = read_table(path, label="fruit")
    >>> table.names, table.labels
    (('size', 'colour=green', 'colour=red'), ('apple', None, 'pear'))
    >>> table.features.tolist()
    [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0], [2.5, 1.0, 0.0]]
    """
    _check_roles(label, id, drop, columns)
    path = Path(path)
    texts = tuple(column.name for column in columns or () if column.kind == "category")
    reading = reading or Reading()
    wanted = Wanted(label=label, id=id, texts=texts, fitted=columns is not None, reading=reading)
    source = find_format(path, reading).read(path, wanted)
    labels, label_notes = _read_labels(source, label)
    columns, column_notes = _choose_columns(path, source, drop, columns)
    features, names, encoding_notes = encode_columns(source, columns)
    return Table(
        features=features,
        names=names,
        columns=tuple(columns),
        labels=labels,
        ids=_read_ids(source, id, len(features)),
        source=source,
        notes=(_size(path, columns, features), *label_notes, *source.notes, *column_notes, *encoding_notes),
    )


def _choose_columns(
    path: Path, source: Source, drop: Sequence[str], columns: Sequence[Column] | None
) -> tuple[Sequence[Column], list[str]]:
    """Return the fitted columns if there are any, else those that the file suggests, and what to say."""
    if columns is None:
        return plan_columns(path, source, drop)
    return columns, match_columns(path, source, columns)


def _size(path: Path, columns: Sequence[Column], features: np.ndarray) -> str:
    """Say how many rows, columns and features there are."""
    n_used = sum(column.kind != "unused" for column in columns)
    return f"{path.name} has {len(features)} rows, and {n_used} columns become {features.shape[1]} features."


def _check_roles(
    label: str | None, id_: str | None, drop: Sequence[str], columns: Sequence[Column] | None
) -> None:
    if isinstance(drop, str):
        raise bad_type("drop", "read_table", "a sequence of column names", repr(drop), f"Use ['{drop}'].")
    if columns is not None and drop:
        remedy = "The fitted columns say what is used."
        raise bad_value("drop", "read_table", "empty where columns are given", list(drop), remedy)
    if label is not None and label == id_:
        raise bad_value("id", "read_table", "another column than the label's", repr(id_))
    for name in drop:
        if name in (label, id_):
            role = "label" if name == label else "id"
            raise bad_value("drop", "read_table", f"without the column of the {role}s", repr(name))


def _read_labels(source: Source, name: str | None) -> tuple[tuple[str | None, ...] | None, list[str]]:
    """Return the labels, if there is a column of them, and what there is to say of them."""
    if source.labels is None or name is None:
        return None, []
    stripped = (text and text.strip() for text in as_texts(source.labels, name))
    texts = without_missing(stripped)
    whole = [_WHOLE.fullmatch(text) if text is not None else None for text in texts]
    notes = []
    if all(match is not None for match, text in zip(whole, texts, strict=True) if text is not None):
        texts = [match and match[1] for match in whole]
        if "-1" in texts and (source.is_array or _has_minus_one_for_none(texts)):
            notes.append(f"The label -1 was taken for unlabelled, in {texts.count('-1')} rows.")
            texts = [None if text == "-1" else text for text in texts]
    counts = Counter(text for text in texts if text is not None)
    _check_classes(counts, name)
    if "-1" in counts:
        notes.append("The label -1 was taken for a class.")
    classes = joined([f"{quoted(label)} ({count})" for label, count in counts.most_common()]) or "none"
    known = f"{counts.total()} of {len(texts)} rows are labelled in '{name}', with {len(counts)} classes"
    return tuple(texts), [f"{known}: {classes}.", *notes]


def _check_classes(counts: Counter[str], name: str) -> None:
    """Refuse measured numbers: few of them are equal, and some are not whole."""
    measured = all(NUMBER.fullmatch(text) for text in counts) and any("." in text for text in counts)
    if measured and len(counts) > max(_FEW_CLASSES, counts.total() / 2):
        raise ValueError(
            f"The labels in '{name}' must be classes. Got {len(counts)} different numbers in "
            f"{counts.total()} rows."
        )


def _has_minus_one_for_none(texts: Texts) -> bool:
    others = {text for text in texts if text != "-1"}
    return len(others) > 1 and all(text is not None and not text.startswith("-") for text in others)


def _read_ids(source: Source, name: str | None, n_rows: int) -> tuple[str, ...]:
    if source.ids is None:
        return tuple(str(row) for row in range(n_rows))
    first: dict[str, int] = {}
    for row, text in enumerate(as_texts(source.ids, str(name))):
        if not text:
            raise ValueError(f"The ids in '{name}' must all be there. Got none in {at(row)}.")
        if text in first:
            rows = f"rows {first[text]} and {row} (counted from 0)"
            raise ValueError(f"The ids in '{name}' must differ. Got {quoted(text)} in {rows}.")
        first[text] = row
    return tuple(first)
