"""Read users' tables: features, labels and ids from CSV, TSV, JSON, Parquet, Arrow, Excel, NPZ and NPY files.

What each kind of file may hold is said in the module that `dahgnn.tables.formats` has for it, and how its
columns become features in `dahgnn.tables.planning` and `dahgnn.tables.columns`.

**Labels** are text, without blanks around it; whole numbers lose a trailing ".0". An empty or blank cell
means unlabelled, and so does null or NaN in a file that has types, and what the user names as missing. Words
such as "None" and "NA" are classes, and a note names them. −1 means unlabelled in an NPZ or NPY file of whole
numbers; and in the other files, if all labels are whole numbers, none is missing, and the rest are at least
two classes of 0 and above. Hence −1 and 1 alone are two classes there.

**Ids** are text as it stands, all different, none empty. Without them, the numbers of the rows from 0 on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dahgnn.checks import bad_value
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.tables.cells import as_texts
from dahgnn.tables.columns import TEXT_KINDS, Column, match_columns
from dahgnn.tables.encoding import encode_columns
from dahgnn.tables.formats import find_format
from dahgnn.tables.labels import understand_labels
from dahgnn.tables.leaks import find_leaks
from dahgnn.tables.messages import Problems, combined_error, quoted
from dahgnn.tables.missing import Missing
from dahgnn.tables.planning import Choices, beside, plan_columns
from dahgnn.tables.sources import Reading, Source, Wanted

# What to do where an id is missing, or two rows have it.
NO_ID = (
    "Correct it, or leave --id out: rows are then named by their numbers, and --drop leaves the column out."
)


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
    hypergraph : Hypergraph or None
        The rows in hyperedges that the user has of them, see `dahgnn.tables.hyperedges`.
    """

    features: np.ndarray
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    labels: tuple[str | None, ...] | None
    ids: tuple[str, ...]
    source: Source
    notes: tuple[str, ...]
    hypergraph: Hypergraph | None = None


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What was understood of a file, and all that is wrong with it.

    Parameters
    ----------
    table : Table or None
        The table, if nothing is wrong with it.
    columns : tuple of Column
        The columns that were understood.
    labels : tuple of n (str or None), or None
        The labels, if they were understood.
    notes, problems : tuple of str
        Sentences on what was understood, and one for each problem.
    """

    table: Table | None
    columns: tuple[Column, ...]
    labels: tuple[str | None, ...] | None
    notes: tuple[str, ...]
    problems: tuple[str, ...]


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002, the word of the command line
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    missing: Sequence[str] = (),
    text: Sequence[str] = (),
    picture: Sequence[str] = (),
    text_model: str | None = None,
    columns: Sequence[Column] | None = None,
    reading: Reading | None = None,
) -> Table:
    r"""Read a table, for a new model or for one that has been fitted.

    Parameters
    ----------
    path : path
        A file whose name ends in one of `dahgnn.tables.formats.FORMATS`, such as .csv, or a folder of
        pictures.
    label, id : str, optional
        The column of the labels, and that of the ids. In an NPZ file the name of an array of n values; beside
        an NPY file the path of another.
    drop, keep, missing : sequence of str
        Columns to leave out, columns that become features although they count the rows, and words that mean
        missing, in the labels as in the features.
    text, picture : sequence of str
        Columns that are free text, and columns of paths of pictures, whatever they look like.
    text_model : str, optional
        A local model of ``sentence-transformers`` that turns free text into features, in place of its words.
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
        id is missing or not unique. The message names all that is wrong with labels, ids and columns.

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
    choices = Choices(
        drop=drop, keep=keep, missing=missing, text=text, picture=picture, text_model=text_model
    )
    survey = survey_table(path, label=label, id=id, choices=choices, columns=columns, reading=reading)
    if survey.table is None:
        raise combined_error(Path(path), survey.problems)
    return survey.table


def survey_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002, the word of the command line
    choices: Choices | None = None,
    columns: Sequence[Column] | None = None,
    reading: Reading | None = None,
) -> Survey:
    """Read a table as `read_table` does, and return what is wrong with its labels, ids and columns."""
    choices = choices or Choices()
    check_roles(label, id, choices, columns)
    path, problems = Path(path), Problems()
    texts = tuple(column.name for column in columns or () if column.kind in TEXT_KINDS)
    texts = (*texts, *choices.text, *choices.picture)
    reading = reading or Reading()
    fitted = columns is not None
    wanted = Wanted(label=label, id=id, texts=texts, fitted=fitted, reading=reading)
    source = find_format(path, reading).read(path, wanted)
    labels: tuple[str | None, ...] | None = None
    ids: tuple[str, ...] = ()
    notes: list[str] = []
    with problems.gathered():
        labels, notes = _read_labels(source, label, Missing(choices.missing))
    with problems.gathered():
        ids = _read_ids(source, id)
    notes += source.notes
    with problems.gathered():
        columns, column_notes = _choose_columns(path, source, choices, columns, problems)
        notes += column_notes
        features, names, encoding_notes = encode_columns(source, columns, problems, beside(path))
        notes = [say_size(path, columns, features.shape), *notes, *encoding_notes]
        if not fitted:
            notes += find_leaks(source, columns, features, labels, choices.keep)
    columns = tuple(columns or ())
    table = None
    if not problems.sentences:
        table = Table(
            features=features,
            names=names,
            columns=columns,
            labels=labels,
            ids=ids,
            source=source,
            notes=tuple(notes),
        )
    return Survey(
        table=table, columns=columns, labels=labels, notes=tuple(notes), problems=tuple(problems.sentences)
    )


def _choose_columns(
    path: Path, source: Source, choices: Choices, columns: Sequence[Column] | None, problems: Problems
) -> tuple[Sequence[Column], list[str]]:
    """Return the fitted columns if there are any, else those that the file suggests, and what to say."""
    if columns is None:
        return plan_columns(path, source, choices, problems)
    return columns, match_columns(path, source, columns)


def say_size(path: Path, columns: Sequence[Column], shape: tuple[int, ...]) -> str:
    """Say how many rows, columns and features there are; ``shape`` is that of the features, (n, d)."""
    n_used = sum(column.kind != "unused" for column in columns)
    n_rows, n_features = shape
    used = "1 column becomes" if n_used == 1 else f"{n_used:,} columns become"
    return (
        f"{path.name} has {n_rows:,} rows, and {used} {n_features:,} feature{'s' if n_features > 1 else ''}."
    )


def check_roles(
    label: str | None, id_: str | None, choices: Choices, columns: Sequence[Column] | None
) -> None:
    """Refuse columns of labels and ids that are something else as well."""
    for name in ("drop", "keep", "missing", "text", "picture", "text_model"):
        if columns is not None and getattr(choices, name):
            remedy = "The fitted columns say what is used."
            got = repr(getattr(choices, name))
            raise bad_value(name, "read_table", "empty where columns are given", got, remedy)
    if label is not None and label == id_:
        raise bad_value("id", "read_table", "another column than the label's", repr(id_))
    for option in ("drop", "keep", "text", "picture"):
        for name in getattr(choices, option):
            if name in (label, id_):
                role = "label" if name == label else "id"
                raise bad_value(option, "read_table", f"without the column of the {role}s", repr(name))


def _read_labels(
    source: Source, name: str | None, missing: Missing
) -> tuple[tuple[str | None, ...] | None, list[str]]:
    """Return the labels, if there is a column of them, and what there is to say of them."""
    if source.labels is None:
        return None, []
    texts = as_texts(source.labels, name or "folders")
    meanings, notes = understand_labels(Counter(texts), name, missing, is_array=source.is_array)
    return tuple(meanings[text] for text in texts), notes


def _read_ids(source: Source, name: str | None) -> tuple[str, ...]:
    if source.ids is None:
        return tuple(str(row) for row in range(source.n_rows))
    first: dict[str, int] = {}
    for row, text in enumerate(as_texts(source.ids, str(name))):
        if not text:
            raise ValueError(f"The ids in '{name}' must all be there. Got none in {source.at(row)}. {NO_ID}")
        if text in first:
            places = f"{source.at(first[text])} and {source.at(row)}"
            raise ValueError(f"The ids in '{name}' must differ. Got {quoted(text)} in {places}. {NO_ID}")
        first[text] = row
    return tuple(first)
