"""Predict the rows of a folder of Parquet or Arrow files: a file of predictions for each file of rows.

The files are divided among processes or the workers of a cluster (`dahgnn.shards`), and each is read block by
block. Each file of predictions is written whole, and says in its metadata which file it was made from and by
which fit. One that is there, whole and still right is not made again, so that work that was ended goes on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dahgnn.files.atomic import replacing
from dahgnn.progress import Observer
from dahgnn.report.fit_files import SHARDS, is_same_file
from dahgnn.report.fitted_folder import FittedFolder
from dahgnn.report.predictions import Predictions, as_arrow
from dahgnn.shards import run_shards
from dahgnn.tables.cells import as_texts
from dahgnn.tables.columns import TEXT_KINDS, match_columns
from dahgnn.tables.encoding_notes import EncodingNotes
from dahgnn.tables.large_sources import block_rows, file_blocks
from dahgnn.tables.large_tables import encode_source_block
from dahgnn.tables.messages import no_column
from dahgnn.tables.parts import Parts, look_at_parts, row_name
from dahgnn.tables.row_files import RowFile
from dahgnn.tables.sources import Source

# Under this key the metadata of a file of predictions says what it was made from.
_KEY = "dahgnn"


@dataclass(frozen=True, kw_only=True)
class PredictedFolder:
    """What came of predicting a folder: the rows, how often each class is predicted, and the files."""

    rows: int
    classes: dict[str, int]
    files: tuple[str, ...]


@dataclass(frozen=True)
class _Work:
    """Predicts one of several files, by its number; it can be sent to another process."""

    folder: Path
    parts: Parts
    target: Path
    id: str | None
    fit: str = field(repr=False)

    def __call__(self, number: int) -> None:
        """Write the predictions of a file, whole."""
        import pyarrow.parquet as pq

        file = self.parts.files[number]
        fitted, notes = _open(self.folder, self.fit), EncodingNotes()
        with replacing(self.path(number)) as temporary:
            writer = None
            try:
                for predictions in _predict(fitted, self.parts, file, self.id, notes):
                    table = as_arrow(predictions)
                    writer = writer or pq.ParquetWriter(temporary, table.schema)
                    writer.write_table(table)
                if writer is None:
                    table = as_arrow(_nothing(fitted))
                    writer = pq.ParquetWriter(temporary, table.schema)
                said = {**self.origin(file), "notes": _pack(notes)}
                writer.add_key_value_metadata({_KEY: json.dumps(said)})
            finally:
                if writer is not None:
                    writer.close()

    def path(self, number: int) -> Path:
        """Return the file of predictions for a file of rows."""
        name = self.parts.files[number].path.name
        return self.target / (name if name.lower().endswith(".parquet") else f"{name}.parquet")

    def origin(self, file: RowFile) -> dict[str, Any]:
        """Return what the predictions of a file are made from."""
        return {"fit": self.fit, "file": file.path.name, "identity": list(file.identity), "id": self.id}

    def is_done(self, number: int) -> bool:
        """Whether the predictions of a file are there, whole, and made from it as it is now."""
        file, said = self.parts.files[number], self.said(number)
        return said is not None and {name: said.get(name) for name in self.origin(file)} == self.origin(file)

    def said(self, number: int) -> dict[str, Any] | None:
        """Return what a file of predictions says of itself; None if there is none, or it is none of ours."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path(number)
        if not path.is_file():
            return None
        try:
            metadata = pq.read_metadata(path)
            said = json.loads((metadata.metadata or {})[_KEY.encode()])
        except (pa.ArrowException, OSError, KeyError, ValueError):
            return None
        whole = metadata.num_rows == self.parts.files[number].n_rows
        return said if whole and isinstance(said, dict) else None


def predict_folder(
    folder: Path,
    path: Path,
    target: Path,
    name: str | None,
    observer: Observer,
    *,
    jobs: int | None = None,
    backend: str = "processes",
) -> PredictedFolder:
    """Predict the rows of all files of a folder, or of one file.

    Parameters
    ----------
    folder : Path
        What a fit has left.
    path, target : Path
        The files of rows, and the folder for those of predictions, which may hold some already.
    name : str or None
        The column of the ids; None is that of the fit, if there is one.
    observer : Observer
        Sees the phases.
    jobs, backend
        As in `dahgnn.shards.run_shards`.

    Raises
    ------
    OSError, ValueError
        If a file changes meanwhile, is cut, or has other columns. What was done before stays.
    """
    with observer.phase(f"Read {folder}"):
        fitted = FittedFolder.open(folder)
    parts = look_at_parts(path)
    _check_target(folder, parts, target)
    for note in [*_check_columns(fitted, parts, name), *parts.notes()]:
        observer.note(note)
    ids = name if name is not None else fitted.id
    work = _Work(
        folder.resolve(), parts, target.resolve(), ids if ids in parts.names else None, fitted.digest
    )
    target.mkdir(parents=True, exist_ok=True)
    numbers = range(len(parts.files))
    if done := sum(map(work.is_done, numbers)):
        observer.note(f"{done:,} files are done already, and are not done again.")
    with observer.phase(f"Predict {parts.n_rows:,} rows in {len(parts.files):,} files") as progress:
        run_shards(work, numbers, jobs=jobs, backend=backend, is_done=work.is_done, progress=progress)
    notes = EncodingNotes()
    for number in numbers:
        _unpack((work.said(number) or {}).get("notes", {}), notes)
    for sentence in notes.sentences(fitted.columns):
        observer.note(sentence)
    files = [work.path(number) for number in numbers]
    return PredictedFolder(
        rows=parts.n_rows,
        classes=_count_classes(files, [str(label) for label in fitted.classifier.classes_]),
        files=tuple(each.name for each in files),
    )


@lru_cache(maxsize=1)
def _open(folder: Path, fit: str) -> FittedFolder:  # noqa: ARG001, which tells fits in one folder apart
    """Open the fit once in a process."""
    return FittedFolder.open(folder)


def _check_target(folder: Path, parts: Parts, target: Path) -> None:
    """Refuse a folder in which predictions would replace, or lie among, what they are made from."""
    source = parts.path if parts.is_folder else parts.path.parent
    taken = {
        source: "the files that they are made from",
        folder: "the files of the fit",
        folder / SHARDS: "those of the fit",
    }
    for other, what in taken.items():
        if is_same_file(target, other):
            raise ValueError(f"Predictions would be among {what}. Choose another folder than {target}.")
    if target.exists() and not target.is_dir():
        raise FileExistsError(f"{target} must be a folder, or not be there. Got a file.")


def _check_columns(fitted: FittedFolder, parts: Parts, name: str | None) -> list[str]:
    """Refuse files without the columns of the fit, and return what there is to say of others."""
    if name is not None and name not in parts.names:
        raise no_column(parts.path, name, parts.names, "for --id")
    cells = {each: np.empty(0) for each in parts.names if each not in (name, fitted.id)}
    notes = match_columns(parts.path, Source(n_rows=0, cells=dict(cells)), fitted.columns)
    if name is None and fitted.id is not None and fitted.id not in parts.names:
        notes.append(f"There is no column '{fitted.id}' for the ids, so that rows are named by their number.")
    return notes


def _predict(
    fitted: FittedFolder, parts: Parts, file: RowFile, id_: str | None, notes: EncodingNotes
) -> Iterator[Predictions]:
    """Give the predictions of a file block by block."""
    columns = [column for column in fitted.columns if column.kind != "unused"]
    names = [column.name for column in columns]
    texts = [column.name for column in columns if column.kind in TEXT_KINDS]
    wanted = names if id_ is None or id_ in names else [*names, id_]
    texts += [] if id_ is None else [id_]
    begin = 0
    for block in file_blocks(file, wanted, texts, block_rows(parts.n_rows, parts.n_values)):
        features = encode_source_block(block, columns, notes, file.path.parent)
        found = fitted.classifier.evaluate(features)
        yield Predictions(
            ids=_ids(block, file, id_, begin),
            classes=[str(label) for label in fitted.classifier.classes_],
            probabilities=found.distributions,
            density=found.density,
        )
        begin += block.n_rows


def _ids(block: Source, file: RowFile, id_: str | None, begin: int) -> Sequence[str]:
    if id_ is None:
        return [row_name(file.path, row) for row in range(begin, begin + block.n_rows)]
    texts = as_texts(block.cells[id_], id_)
    for row, text in enumerate(texts):
        if not text:
            raise ValueError(f"The ids in '{id_}' must all be there. Got none in {block.at(row)}.")
    return [str(text) for text in texts]


def _nothing(fitted: FittedFolder) -> Predictions:
    """Return the predictions of a file without rows."""
    classes = [str(label) for label in fitted.classifier.classes_]
    return Predictions(
        ids=[], classes=classes, probabilities=np.empty((0, len(classes))), density=np.empty(0)
    )


def _pack(notes: EncodingNotes) -> dict[str, Any]:
    """Return what was counted in a file, as JSON can hold it."""
    return {
        "encoded": sorted(notes.encoded),
        "missing": dict(notes.missing),
        "empty": dict(notes.empty),
        "unknown": dict(notes.unknown),
        "unknown_values": {name: list(values) for name, values in notes.unknown_values.items()},
    }


def _unpack(packed: dict[str, Any], notes: EncodingNotes) -> None:
    """Add what was counted in a file."""
    notes.encoded.update(packed.get("encoded", ()))
    for name in ("missing", "empty", "unknown"):
        getattr(notes, name).update(packed.get(name, {}))
    for column, values in packed.get("unknown_values", {}).items():
        notes.unknown_values.setdefault(column, {}).update(dict.fromkeys(values))


def _count_classes(files: Sequence[Path], classes: Sequence[str]) -> dict[str, int]:
    """Return how often each class is predicted."""
    import pyarrow.parquet as pq

    counts: Counter[str] = Counter()
    for path in files:
        for entry in pq.read_table(path, columns=["predicted"]).column("predicted").value_counts():
            counts[entry["values"].as_py()] += entry["counts"].as_py()
    return {name: counts[name] for name in classes}
