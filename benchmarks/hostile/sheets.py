"""Small sound tables as text cells, and how to write them in every format that the package reads."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

LABEL = "colour"
# What marks the two fits whose files must never be mixed.
OLD, NEW = "oldest", "newest"


@dataclass(frozen=True)
class Sheet:
    """A table of text cells with its column names; the last column holds the labels, "" is unlabelled."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def labels(self) -> list[str]:
        """The label cells."""
        return [row[-1] for row in self.rows]

    @property
    def numbers(self) -> np.ndarray:
        """The features (n, d); all cells but the labels must be numbers."""
        return np.array([[float(cell) for cell in row[:-1]] for row in self.rows])

    def with_labels(self, labels: Sequence[str]) -> Sheet:
        """Return the table with other labels."""
        rows = [(*row[:-1], label) for row, label in zip(self.rows, labels, strict=True)]
        return replace(self, rows=tuple(rows))

    def with_column(self, name: str, cells: Sequence[str]) -> Sheet:
        """Return the table with one more column in front."""
        rows = [(cell, *row) for cell, row in zip(cells, self.rows, strict=True)]
        return Sheet((name, *self.names), tuple(rows))

    def first(self, count: int) -> Sheet:
        """Return the first rows."""
        return replace(self, rows=self.rows[:count])


def sound_sheet(
    random: np.random.Generator,
    *,
    rows: int = 40,
    columns: int = 3,
    classes: Sequence[str] = ("red", "green", "blue"),
    labelled: int = 24,
) -> Sheet:
    """Return clusters of numbers with three digits after the point, and labels for the first rows."""
    truth = np.arange(rows) % len(classes)
    centres = 4 * random.normal(size=(len(classes), columns))
    features = centres[truth] + random.normal(size=(rows, columns))
    cells = [
        (*(f"{value:.3f}" for value in features[row]), classes[truth[row]] if row < labelled else "")
        for row in range(rows)
    ]
    return Sheet((*(f"x{place}" for place in range(columns)), LABEL), tuple(cells))


def marked_sheet(mark: str) -> Sheet:
    """Return the table of one of the two fits that must not be mixed: its classes carry the mark."""
    classes = [f"{mark}-{name}" for name in ("red", "green", "blue")]
    rows, columns = (42, 3) if mark == OLD else (36, 4)
    return sound_sheet(np.random.default_rng(rows), rows=rows, columns=columns, classes=classes)


def csv_text(sheet: Sheet, *, delimiter: str = ",", end: str = "\n", quote: int = csv.QUOTE_MINIMAL) -> str:
    """Write a table as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quote)
    writer.writerow(sheet.names)
    writer.writerows(sheet.rows)
    return text.getvalue()


def _write_csv(sheet: Sheet, path: Path) -> None:
    path.write_bytes(csv_text(sheet).encode())


def _write_tsv(sheet: Sheet, path: Path) -> None:
    path.write_bytes(csv_text(sheet, delimiter="\t").encode())


def _write_gzip(sheet: Sheet, path: Path) -> None:
    text = csv_text(sheet, delimiter="\t" if ".tsv" in path.name else ",")
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _records(sheet: Sheet) -> list[dict[str, float | str | None]]:
    return [
        dict(zip(sheet.names, [*(float(cell) for cell in row[:-1]), row[-1] or None], strict=True))
        for row in sheet.rows
    ]


def _write_json(sheet: Sheet, path: Path) -> None:
    path.write_text(json.dumps(_records(sheet)), encoding="utf-8")


def _write_lines(sheet: Sheet, path: Path) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in _records(sheet)), encoding="utf-8")


def _write_parquet(sheet: Sheet, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: sheet.numbers[:, place] for place, name in enumerate(sheet.names[:-1])}
    labels = pa.array([label or None for label in sheet.labels], pa.string())
    pq.write_table(pa.table({**columns, sheet.names[-1]: labels}), path)


def _write_arrow(sheet: Sheet, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.feather

    columns = {name: sheet.numbers[:, place] for place, name in enumerate(sheet.names[:-1])}
    labels = pa.array([label or None for label in sheet.labels], pa.string())
    pyarrow.feather.write_feather(pa.table({**columns, sheet.names[-1]: labels}), path)


def _write_npz(sheet: Sheet, path: Path) -> None:
    np.savez(path, X=sheet.numbers, **{sheet.names[-1]: np.array(sheet.labels)})


def _write_npy(sheet: Sheet, path: Path) -> None:
    np.save(path, sheet.numbers)
    np.save(label_file(path), np.array(sheet.labels))


def label_file(path: Path) -> Path:
    """Return where the labels of an NPY file lie: beside it."""
    return path.with_name("labels.npy")


def _write_xlsx(sheet: Sheet, path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    page = book.active
    page.append(list(sheet.names))
    for row in sheet.rows:
        page.append([*(float(cell) for cell in row[:-1]), row[-1] or None])
    book.save(path)


WRITERS: dict[str, Callable[[Sheet, Path], None]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".csv.gz": _write_gzip,
    ".tsv.gz": _write_gzip,
    ".json": _write_json,
    ".jsonl": _write_lines,
    ".ndjson": _write_lines,
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".xlsx": _write_xlsx,
}


Pair = tuple[str, str, float]


def sound_pairs(random: np.random.Generator, rows: int = 40, count: int = 12) -> list[Pair]:
    """Return pairs of a row, by its number, and a hyperedge, with weights of two digits after the point."""
    return [
        (str(row), f"group {number}", round(float(random.uniform(0.5, 2)), 2))
        for number in range(count)
        for row in random.choice(rows, size=5, replace=False).tolist()
    ]


def write_pairs(pairs: Sequence[Pair], path: Path, ending: str) -> None:
    """Write a table of pairs in the format of an ending; ".hif.json" is no table, but HIF."""
    if ending == ".hif.json":
        entries = [{"node": row, "edge": name, "weight": weight} for row, name, weight in pairs]
        path.write_text(json.dumps({"network-type": "undirected", "incidences": entries}), encoding="utf-8")
    elif ending == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = zip(*pairs, strict=True)
        pq.write_table(pa.table(dict(zip(_PAIR_COLUMNS, columns, strict=True))), path)
    else:
        # Weights come last where labels do, which every writer writes as text.
        cells = [(row, name, str(weight)) for row, name, weight in pairs]
        sheet = Sheet(_PAIR_COLUMNS, tuple(cells))
        _TEXT_WRITERS.get(ending, _write_csv)(sheet, path)


def _write_pair_records(sheet: Sheet, path: Path) -> None:
    records = [dict(zip(sheet.names, (*row[:2], float(row[2])), strict=True)) for row in sheet.rows]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text(json.dumps(records) if path.suffix == ".json" else lines, encoding="utf-8")


def _write_pair_book(sheet: Sheet, path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(list(sheet.names))
    for row, name, weight in sheet.rows:
        book.active.append([row, name, float(weight)])
    book.save(path)


_PAIR_COLUMNS = ("row", "hyperedge", "weight")
_TEXT_WRITERS: dict[str, Callable[[Sheet, Path], None]] = {
    ".tsv": _write_tsv,
    ".csv.gz": _write_gzip,
    ".tsv.gz": _write_gzip,
    ".json": _write_pair_records,
    ".jsonl": _write_pair_records,
    ".ndjson": _write_pair_records,
    ".xlsx": _write_pair_book,
}


def endings() -> list[str]:
    """Return the endings of all formats that the package reads."""
    from dahgnn.tables.formats import FORMATS

    return sorted(FORMATS)


def write_sheet(sheet: Sheet, path: Path, ending: str) -> None:
    """Write a table in the format of an ending; a format that is not known here gets CSV."""
    WRITERS.get(ending, _write_csv)(sheet, path)


def label_option(path: Path, ending: str) -> str:
    """Return what ``--label`` is for a table that `write_sheet` wrote."""
    return str(label_file(path)) if ending == ".npy" else LABEL
