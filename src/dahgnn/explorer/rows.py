"""The rows that a person labels: what a classifier learns from, and what a card shows of each.

They come from a table, from a folder of pictures, or from what `dahgnn fit` left behind. Features may come
from a file of their own, such as embeddings; the cards then show the table, and the classifier never sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dahgnn.checks import bad_value
from dahgnn.explorer.pictures import FilePictures, ImagePictures, Pictures
from dahgnn.report.fit_files import MODEL
from dahgnn.report.fitted_folder import FittedFolder
from dahgnn.report.row_images import row_images
from dahgnn.tables.cells import as_texts
from dahgnn.tables.formats import find_format
from dahgnn.tables.messages import combined_error
from dahgnn.tables.picture_encoder import picture_paths
from dahgnn.tables.picture_folders import find_pictures, folder_label
from dahgnn.tables.planning import Choices
from dahgnn.tables.sources import Reading, Source, text_array
from dahgnn.tables.table import Table, read_table, survey_table

Array = NDArray[Any]

# A card shows so many cells of a row, and so many letters of each.
MOST_CELLS, _LONGEST_CELL = 60, 2_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """What is to be labelled.

    Parameters
    ----------
    path : Path
        The file or folder that the user named.
    table : Table
        Features, ids and given labels, as a fit takes them.
    shown : Source
        The cells that cards show.
    texts : tuple of str
        Those of them that are free text.
    pictures : Pictures or None
        The pictures of the rows.
    named : bool
        Whether ids are names that the user gave, and not the numbers of the rows.
    columns : tuple of two (str or None)
        The columns of labels and of ids.
    fitted : FittedFolder or None
        The fit that the rows come from.
    """

    path: Path
    table: Table
    shown: Source
    texts: tuple[str, ...] = ()
    pictures: Pictures | None = None
    named: bool = False
    columns: tuple[str | None, str | None] = (None, None)
    fitted: FittedFolder | None = None

    def __len__(self) -> int:
        return len(self.table.ids)

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the rows."""
        return self.table.ids

    @property
    def given(self) -> tuple[str | None, ...]:
        """The labels that the rows came with."""
        return self.table.labels or (None,) * len(self)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each row by its id."""
        return {name: row for row, name in enumerate(self.ids)}

    @cached_property
    def identity(self) -> dict[str, str]:
        """What a journal must agree on to be of these rows.

        Rows with names are told apart by them, so that the table may grow. Rows without names are told apart
        by their numbers, so that nothing may change. Labels of another column are another project.
        """
        told = {"labels": self.columns[0] or "none", "ids": self.columns[1] or "none"}
        if self.named:
            return {"rows": "named"} | told
        content = np.ascontiguousarray(self.table.features)
        digest = hashlib.sha256(repr(content.shape).encode() + content.tobytes()).hexdigest()
        return {"rows": "numbered", "features": digest} | told

    def cells(self, row: int, most: int = MOST_CELLS) -> list[tuple[str, str]]:
        """Return the first cells of a row as text, but for free text."""
        if isinstance(self.pictures, ImagePictures):
            return []
        names = [name for name in self._plain_columns if name not in self.texts]
        return [(name, self._text(name, row)) for name in names[:most]]

    def long_texts(self, row: int) -> list[tuple[str, str]]:
        """Return the cells of free text of a row, whole but for what nobody reads."""
        return [(name, self._text(name, row, longest=20_000)) for name in self.texts]

    @cached_property
    def _plain_columns(self) -> list[str]:
        cells = self.shown.cells.items()
        return [name for name, each in cells if isinstance(each, np.ndarray) and each.ndim == 1]

    def _text(self, name: str, row: int, longest: int = _LONGEST_CELL) -> str:
        cells = self.shown.cells[name]
        assert isinstance(cells, np.ndarray)  # noqa: S101, of plain columns alone
        (text,) = as_texts(cells[row : row + 1], name)
        if text is None:
            return "–"
        return text if len(text) <= longest else text[:longest] + "…"


def read_rows_to_label(
    path: Path,
    *,
    label: str | None = None,
    id: str | None = None,  # noqa: A002, the word of the command line
    choices: Choices | None = None,
    reading: Reading | None = None,
    features: Path | None = None,
    image_shape: tuple[int, ...] = (),
) -> Rows:
    """Read what is to be labelled.

    Parameters
    ----------
    path : Path
        A table, a folder of pictures, or the folder of a fit.
    label, id, choices, reading
        As in `dahgnn.tables.table.survey_table`; a table need not have labels.
    features : Path, optional
        An NPY file of features (n, d), in place of those that the cells or pixels would become.
    image_shape : tuple of int
        How high and wide the images are that the columns of the table hold.
    """
    choices, reading = choices or Choices(), reading or Reading()
    if path.is_dir() and (path / MODEL).exists():
        return _of_fit(path, [label, id, features])
    if features is not None:
        rows = _with_features(path, label, id, choices, reading, features)
    else:
        survey = survey_table(path, label=label, id=id, choices=choices, reading=reading)
        if survey.table is None:
            raise combined_error(path, survey.problems)
        rows = _of_table(path, survey.table)
    return replace(_with_images(rows, image_shape), columns=(label, id))


def _of_table(path: Path, table: Table) -> Rows:
    source = table.source
    texts = tuple(column.name for column in table.columns if column.kind == "text")
    pictures: Pictures | None = None
    if path.is_dir():
        pictures = FilePictures([path / name for name in table.ids])
    for column in table.columns:
        if pictures is None and column.kind == "picture":
            pictures = _pictures_of(path, as_texts(source.cells[column.name], column.name))
    named = source.ids is not None
    return Rows(path=path, table=table, shown=source, texts=texts, pictures=pictures, named=named)


def _pictures_of(path: Path, texts: Sequence[str | None]) -> FilePictures:
    paths: list[Path | None] = [None] * len(texts)
    for row, each in zip(*picture_paths(list(texts), path.parent), strict=True):
        paths[row] = each
    return FilePictures(paths)


def _with_images(rows: Rows, shape: tuple[int, ...]) -> Rows:
    """Add the images that the cells are, if they are such and there are no files of pictures."""
    images = row_images(rows.shown, shape) if rows.pictures is None else None
    if images is None and shape:
        sides, columns = " × ".join(map(str, shape)), len(rows.shown.cells)
        expected = "the height and width of images of whole numbers from 0 to 255, or numbers from 0 to 1"
        raise bad_value("image-shape", "label", expected, f"{sides} for {columns:,} columns")
    return rows if images is None else replace(rows, pictures=ImagePictures(images))


def _with_features(
    path: Path, label: str | None, id_: str | None, choices: Choices, reading: Reading, features: Path
) -> Rows:
    """Return rows whose features are in a file of their own; the table, or the folder, is only shown."""
    table = read_table(features)
    if find_format(path, reading).roles == "folders":
        found, _ = find_pictures(path)
        ids = text_array(name.as_posix() for name in found)
        shown = Source(n_rows=len(found), cells={}, ids=ids, labels=text_array(map(folder_label, found)))
        labels = tuple(None if text is None else str(text) for text in shown.labels)  # type: ignore[union-attr]
        rows = Rows(
            path=path,
            table=replace(table, ids=tuple(ids), labels=labels),
            shown=shown,
            pictures=FilePictures([path / name for name in found]),
            named=True,
        )
    else:
        survey = survey_table(path, label=label, id=id_, choices=choices, reading=reading)
        if survey.table is None:
            raise combined_error(path, survey.problems)
        rows = _of_table(path, survey.table)
        rows = replace(rows, table=replace(table, ids=rows.ids, labels=survey.table.labels))
    if len(table.features) != rows.shown.n_rows:
        got = f"{len(table.features):,}"
        raise bad_value("features", "label", f"of {rows.shown.n_rows:,} rows, as {path.name} has", got)
    return rows


def _of_fit(folder: Path, others: Sequence[object]) -> Rows:
    """Return the rows of a fit: their features are what is left of them."""
    if any(other is not None for other in others):
        raise ValueError(
            f"{folder} is what 'dahgnn fit' left behind, which knows its labels, ids and features. "
            "Leave --label, --id and --features out, or name the table itself."
        )
    fitted = FittedFolder.open(folder)
    ids = fitted.needed_names("A fit to go on from")
    ensemble = fitted.classifier.ensemble_
    features = ensemble.scaling.undo(ensemble.features)
    names = tuple(name for column in fitted.columns for name in column.feature_names)
    if len(names) != features.shape[1]:
        raise ValueError(f"{folder / MODEL} is damaged: it has columns of other features. Fit anew.")
    cells: dict[str, Any] = dict(zip(names, _rounded(features).T, strict=True))
    shown = Source(n_rows=len(features), cells=cells, shape=fitted.reading.shape or ())
    notes = ["The cells are the features that the fit kept. Name the table itself to see it as it is."]
    if fitted.classifier.hypergraph_.centres is None:
        notes.append("The fit had hyperedges of its own. Further models have those of nearest neighbours.")
    table = Table(
        features=features,
        names=names,
        columns=fitted.columns,
        labels=tuple(fitted.labels),
        ids=tuple(ids),
        source=shown,
        notes=tuple(notes),
    )
    images = row_images(shown, shown.shape)
    numbered = table.ids == tuple(str(row) for row in range(len(features)))
    return Rows(
        path=folder,
        table=table,
        shown=shown,
        pictures=None if images is None else ImagePictures(images),
        named=not numbered,
        fitted=fitted,
    )


def _rounded(features: Array) -> Array:
    """Return numbers that were whole before they were scaled and scaled back as such."""
    whole = np.rint(features)
    return np.where(np.abs(features - whole) <= 1e-4 * np.maximum(1, np.abs(whole)), whole, features)
