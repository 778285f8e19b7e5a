"""Tables that are larger than memory: features in a file, labels as numbers, ids in a file.

A table is large if it has many rows, many cells, or more of them than memory holds. Its labels are read
first, all of them. What becomes of its columns is decided as `dahgnn.tables.planning` does, by a sample: one
row in so many, from all files. Medians, categories and the words of free text are those of the sample. Then
every row is encoded as rows of a new file are for a fitted model, block by block, so that memory holds one
block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dahgnn.files.scratch import Scratch
from dahgnn.progress import Progress
from dahgnn.tables.coded_labels import CodedLabels, read_coded_labels
from dahgnn.tables.columns import TEXT_KINDS, Column
from dahgnn.tables.encoding import encode_block, encode_columns
from dahgnn.tables.encoding_notes import EncodingNotes
from dahgnn.tables.formats import find_ending, is_parts
from dahgnn.tables.large_sources import ArrayRows, LargeSource, PartRows
from dahgnn.tables.leaks import find_leaks
from dahgnn.tables.memory import available_memory
from dahgnn.tables.messages import Problems, combined_error, no_column
from dahgnn.tables.missing import Missing
from dahgnn.tables.parts import look_at_parts
from dahgnn.tables.planning import Choices, beside, plan_columns
from dahgnn.tables.row_files import ROW_FILES
from dahgnn.tables.row_names import RowNames, read_row_names
from dahgnn.tables.sources import Cells, Reading, Source, UnsupportedCells, text_array
from dahgnn.tables.table import NO_ID, check_roles, say_size

# From so many rows or cells on a table is large: Python's objects for each row, and a page that shows all of
# them, would take more memory than the fit.
LARGE_ROWS, LARGE_CELLS = 500_000, 1 << 26
# Columns are decided about by so many rows, and so many cells, and leaks are sought in as many labelled rows.
SAMPLE_ROWS, SAMPLE_CELLS = 50_000, 1 << 24
_FEWEST_SAMPLED = 1_000
# What a table that is read whole needs for a cell, with the copies of it that a fit makes.
_BYTES_A_CELL = 24
_ORIGIN = "in the other rows"
_AS_NAMED = Reading()


@dataclass(frozen=True, kw_only=True, eq=False)
class LargeTable:
    """The features, labels and ids of a table that is larger than memory.

    Parameters
    ----------
    features : Tensor of float32, (n, d)
        The features, all finite. They are in a file, unless they are few.
    names : tuple of d str
        The names of the features.
    columns : tuple of Column
        All columns but those of the labels and ids, in the order of the table.
    labels : CodedLabels or None
        None for a table that was read without a label column.
    ids : RowNames
        The names of the rows; without ids ``FILE:ROW`` in a folder, and else the number of the row.
    notes : tuple of str
        Sentences that say what was understood.
    """

    features: Tensor
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    labels: CodedLabels | None
    ids: RowNames
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class LargeSurvey:
    """What was understood of a large table by its labels and a sample, and all that is wrong with it.

    Parameters
    ----------
    source : LargeSource
        The table.
    columns : tuple of Column
        The columns that were understood.
    labels : CodedLabels or None
        The labels, if they were understood.
    notes, problems : tuple of str
        Sentences on what was understood, and one for each problem.
    """

    source: LargeSource
    columns: tuple[Column, ...]
    labels: CodedLabels | None
    notes: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many features there are."""
        return sum(len(column.feature_names) for column in self.columns)


def open_large(path: Path, reading: Reading = _AS_NAMED) -> LargeSource | None:
    """Return a table block by block, if it is large and its format can be read so; else None."""
    source = open_source(path, reading)
    return source if source is not None and _is_large(source) else None


def open_source(path: Path, reading: Reading = _AS_NAMED) -> LargeSource | None:
    """Return a table block by block, whatever its size; None if its format cannot be read so."""
    ending = find_ending(path, reading)
    if is_parts(path, reading):
        return PartRows(look_at_parts(path))
    if not path.is_file() or not path.stat().st_size:
        return None  # whoever reads it says what is wrong
    if ending in ROW_FILES:
        return PartRows(look_at_parts(path, ROW_FILES[ending]))
    return ArrayRows.look_at(path) if ending == ".npy" else None


def _is_large(source: LargeSource) -> bool:
    many = source.n_rows > LARGE_ROWS or source.n_values > LARGE_CELLS
    return many or source.n_values * _BYTES_A_CELL > available_memory()


def survey_large(
    source: LargeSource,
    scratch: Scratch,
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002, the word of the command line
    choices: Choices | None = None,
) -> LargeSurvey:
    """Read the labels of a large table, decide by a sample about its columns, and say what is wrong.

    Parameters
    ----------
    source : LargeSource
        The table, as `open_large` returns it.
    scratch : Scratch
        Gives room to the labels.
    label, id, choices
        As in `dahgnn.tables.table.survey_table`.
    """
    choices, problems = choices or Choices(), Problems()
    check_roles(label, id, choices, None)
    labels: CodedLabels | None = None
    columns: Sequence[Column] = ()
    notes: list[str] = []
    with problems.gathered():
        _check_named(source, label, id)
        if label is not None:
            labels, notes = read_coded_labels(source, label, Missing(choices.missing), scratch)
        notes += source.notes()
        rows, step = _sampled_rows(source, labels)
        sample = _take(source, _features_of(source, label, id), (*choices.text, *choices.picture), rows)
        regular = _subset(sample, np.flatnonzero(rows % step == 0))
        columns, said = plan_columns(source.path, regular, choices, problems)
        notes += [_say_sample(regular.n_rows, step), *said]
        if not problems.sentences:
            features, _, _ = encode_columns(sample, columns, problems, beside(source.path))
            known = None if labels is None else labels[rows].tolist()
            notes = [say_size(source.path, columns, (source.n_rows, features.shape[1])), *notes]
            notes += find_leaks(sample, columns, features, known, choices.keep)
    return LargeSurvey(
        source=source,
        columns=tuple(columns),
        labels=labels,
        notes=tuple(notes),
        problems=tuple(problems.sentences),
    )


def read_large_table(
    survey: LargeSurvey,
    scratch: Scratch,
    *,
    id: str | None = None,  # noqa: A002, the word of the command line
    room: Scratch | None = None,
    progress: Progress | None = None,
) -> LargeTable:
    """Encode all rows of a table that was surveyed.

    Parameters
    ----------
    survey : LargeSurvey
        What was understood of the table; nothing is wrong with it.
    scratch : Scratch
        Gives room to features and names, which stay as long as it is open.
    id : str, optional
        The column of the ids.
    room : Scratch, optional
        Gives room to the features in its place.
    progress : Progress, optional
        Hears after each block how many rows are done.

    Raises
    ------
    OSError
        If the disk has not enough room, or a file changes meanwhile.
    ValueError
        If a cell is no value of its column, or an id is missing or not unique. The message names the file.
    """
    if survey.problems:
        raise combined_error(survey.source.path, survey.problems)
    source, notes = survey.source, EncodingNotes(_ORIGIN)
    ids = read_row_names(source, id, NO_ID, scratch)
    features = (room or scratch).empty((source.n_rows, survey.width), torch.float32)
    encode_rows(source, survey.columns, notes, features, progress)
    return LargeTable(
        features=features,
        names=tuple(name for column in survey.columns for name in column.feature_names),
        columns=survey.columns,
        labels=survey.labels,
        ids=ids,
        notes=(*survey.notes, *notes.sentences(survey.columns)),
    )


def encode_rows(
    source: LargeSource,
    columns: Sequence[Column],
    notes: EncodingNotes,
    into: Tensor,
    progress: Progress | None = None,
) -> None:
    """Write the features of all rows of a table, (n, d) of float32, block by block."""
    used = [column for column in columns if column.kind != "unused"]
    texts = [column.name for column in used if column.kind in TEXT_KINDS]
    row, target = 0, into.numpy()
    for block in source.blocks([column.name for column in used], texts):
        features = encode_source_block(block, used, notes, beside(source.path))
        target[row : row + len(features)] = features
        row += len(features)
        if progress is not None:
            progress(row, source.n_rows, f"{row:,} of {source.n_rows:,} rows")


def encode_source_block(
    block: Source, columns: Sequence[Column], notes: EncodingNotes, folder: Path
) -> np.ndarray:
    """Return the features of a block, (m, d); an error names the file that the block is of.

    Parameters
    ----------
    block : Source
        The cells of the columns that are used.
    columns : sequence of Column
        How they become features; none is unused.
    notes : EncodingNotes
        Counts what is missing or unknown.
    folder : Path
        Paths of pictures are relative to it.
    """
    problems = Problems()
    features = encode_block(_with_empty_vectors(block, columns), columns, problems, folder, notes)
    if problems.sentences:
        name = block.files[0][0]
        raise combined_error(folder / name, [_in_file(block, each) for each in problems.sentences])
    return features


def _with_empty_vectors(block: Source, columns: Sequence[Column]) -> Source:
    """Return a block in which vectors that are all missing are vectors, as nothing in them says so."""
    cells = dict(block.cells)
    for column in columns:
        found = cells[column.name]
        if column.kind == "vector" and _is_all_missing(found):
            cells[column.name] = np.full((block.n_rows, len(column.mean)), np.nan)
    return replace(block, cells=cells)


def _is_all_missing(cells: Cells) -> bool:
    if isinstance(cells, np.ndarray):
        return cells.ndim == 1 and cells.dtype.kind == "f" and bool(np.isnan(cells).all())
    return cells.type == "lists that are all missing"


def _in_file(block: Source, problem: str) -> str:
    """Return what is wrong with a block, and in which file, if that is not said already."""
    name = block.files[0][0]
    return problem if name in problem else f"{problem} It is in the file {name}."


def _check_named(source: LargeSource, label: str | None, id_: str | None) -> None:
    """Refuse columns of labels and ids that are not there; of an array these are other files."""
    for name, role in ((label, "label"), (id_, "id")):
        if name is not None and not source.is_array and name not in source.names:
            raise no_column(source.path, name, source.names, f"for --{role}")


def _features_of(source: LargeSource, label: str | None, id_: str | None) -> list[str]:
    return [name for name in source.names if source.is_array or name not in (label, id_)]


def _sampled_rows(source: LargeSource, labels: CodedLabels | None) -> tuple[np.ndarray, int]:
    """Return the rows of the sample in order, and the step from one to the next that is not labelled.

    Columns are decided about by one row in so many, so that one which counts the rows is known by its equal
    steps. Labelled rows beside them tell whether a column tells the labels.
    """
    a_row = max(1, source.n_values // max(source.n_rows, 1))
    most = max(_FEWEST_SAMPLED, min(SAMPLE_ROWS, SAMPLE_CELLS // a_row))
    step = -(-source.n_rows // most)
    rows = np.arange(0, source.n_rows, step)
    if labels is None:
        return rows, step
    known = labels.labelled()
    if len(known) > most:
        known = known[np.linspace(0, len(known) - 1, most).astype(np.int64)]
    return np.union1d(rows, known), step


def _say_sample(count: int, step: int) -> str:
    return (
        f"The table is large: {count:,} rows, one in {step:,}, decided what becomes of columns, with their "
        "medians and categories."
    )


def _take(source: LargeSource, names: Sequence[str], texts: Sequence[str], rows: np.ndarray) -> Source:
    """Return the cells of some rows, which are in order."""
    found: list[Source] = []
    begin = 0
    for block in source.blocks(names, texts):
        low, high = np.searchsorted(rows, (begin, begin + block.n_rows))
        if high > low:
            found.append(_subset(block, rows[low:high] - begin))
        begin += block.n_rows
    index = tuple(name for name in source.index if name in names)
    return Source(
        n_rows=len(rows),
        cells={name: _joined([(block.cells[name], block.n_rows) for block in found]) for name in names},
        index=index,
        is_array=source.is_array,
        lines=text_array(source.place(row) for row in rows.tolist()),
        place="{}",
    )


def _subset(source: Source, rows: np.ndarray) -> Source:
    """Return some rows of a source."""
    cells: dict[str, Cells] = {
        name: found[rows] if isinstance(found, np.ndarray) else found for name, found in source.cells.items()
    }
    lines = None if source.lines is None else source.lines[rows]
    return replace(source, n_rows=len(rows), cells=cells, lines=lines)


def _joined(blocks: Sequence[tuple[Cells, int]]) -> Cells:
    """Return cells of blocks, each with its number of rows, as those of one column.

    A block without any value takes the type of the others.
    """
    there = [cells for cells, _ in blocks if not _is_all_missing(cells)]
    for cells in there:
        if not isinstance(cells, np.ndarray):
            return cells
    like = np.asarray(there[0]) if there else np.empty(0)
    widths = {cells.shape[1:] for cells in there if isinstance(cells, np.ndarray)}
    if len(widths) > 1:
        lengths = sorted(shape[0] if shape else 1 for shape in widths)
        return UnsupportedCells(f"lists of {lengths[0]:,} to {lengths[-1]:,} numbers")
    return np.concatenate(
        [
            _missing_like(like, count) if _is_all_missing(cells) else np.asarray(cells)
            for cells, count in blocks
        ]
    )


def _missing_like(like: np.ndarray, count: int) -> np.ndarray:
    """Return so many missing cells of the same type."""
    shape = (count, *like.shape[1:])
    if like.dtype == object:
        return np.full(shape, None, dtype=object)
    return np.full(shape, "NaT", dtype=like.dtype) if like.dtype.kind == "M" else np.full(shape, np.nan)
