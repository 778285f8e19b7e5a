"""The formats of users' files, by the endings of their names.

A new format is a function that reads it, in a module of its own, and an entry of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from dahgnn.checks import bad_value, did_you_mean
from dahgnn.tables.array_files import read_npy, read_npz
from dahgnn.tables.json_files import JSON_OPTIONS, read_json, read_json_lines
from dahgnn.tables.parquet_files import read_arrow, read_parquet
from dahgnn.tables.parts import holds_row_files, read_parts
from dahgnn.tables.picture_folders import PICTURE_OPTIONS, read_picture_folder
from dahgnn.tables.row_files import ROW_FILES
from dahgnn.tables.sources import Format, Reading
from dahgnn.tables.text_files import TEXT_OPTIONS, read_text_file
from dahgnn.tables.workbooks import WORKBOOK_OPTIONS, read_workbook

FORMATS: Mapping[str, Format] = {
    ".csv": Format(read_text_file, TEXT_OPTIONS),
    ".tsv": Format(partial(read_text_file, delimiter="\t"), TEXT_OPTIONS),
    ".csv.gz": Format(partial(read_text_file, packed=True), TEXT_OPTIONS),
    ".tsv.gz": Format(partial(read_text_file, delimiter="\t", packed=True), TEXT_OPTIONS),
    ".json": Format(read_json, JSON_OPTIONS),
    ".jsonl": Format(read_json_lines, JSON_OPTIONS),
    ".ndjson": Format(read_json_lines, JSON_OPTIONS),
    ".parquet": Format(read_parquet),
    ".arrow": Format(read_arrow),
    ".feather": Format(read_arrow),
    ".xlsx": Format(read_workbook, WORKBOOK_OPTIONS),
    ".npz": Format(read_npz),
    ".npy": Format(read_npy, roles="files"),
}
_FOLDER = Format(read_picture_folder, PICTURE_OPTIONS, roles="folders")
_PARTS = Format(read_parts)
_AS_NAMED = Reading()


def find_format(path: Path, reading: Reading = _AS_NAMED) -> Format:
    """Return the format of a file, or of a folder of pictures or files, if it can be read as wanted."""
    ending = find_ending(path, reading)
    if is_parts(path, reading):
        return _checked(_PARTS, reading, "folders of Parquet files")
    if not ending and path.is_dir():
        return _checked(_FOLDER, reading, "folders of pictures")
    if ending not in FORMATS and reading.format is not None:
        known = [name.removeprefix(".") for name in FORMATS]
        hint = did_you_mean(reading.format, known)
        raise bad_value("format", "read_table", f"one of {', '.join(known)}", repr(reading.format), hint)
    if ending not in FORMATS:
        raise ValueError(
            f"The name of the file {path} must end in one of {', '.join(FORMATS)}. Got '{path.suffix}'. "
            "Name the format with --format."
        )
    return _checked(FORMATS[ending], reading, f"{ending} files")


def find_ending(path: Path, reading: Reading = _AS_NAMED) -> str:
    """Return the ending that says the format of a file: that of its name, or what the user says instead."""
    return _ending(path) if reading.format is None else f".{reading.format.removeprefix('.').lower()}"


def is_parts(path: Path, reading: Reading = _AS_NAMED) -> bool:
    """Whether a path is a folder of files of rows; Spark calls such a folder by the ending of its files."""
    return find_ending(path, reading) in ("", *ROW_FILES) and holds_row_files(path)


def _checked(chosen: Format, reading: Reading, what: str) -> Format:
    for name, value in reading.given.items():
        if name not in (*chosen.options, "format"):
            raise bad_value(name, "read_table", f"left out for {what}", repr(value))
    return chosen


def stem(path: Path) -> str:
    """Return the name of a file without the ending that says its format, and that of a folder as it is."""
    if path.is_dir():
        return path.resolve().name
    return path.name[: len(path.name) - len(_ending(path))] if _ending(path) else path.stem


def reading_as_fitted(path: Path, reading: Reading, fitted: Reading) -> Reading:
    """Return how to read a file for a fitted model: as is said, else as at the fit, if its format allows."""
    options = find_format(path, reading).options
    known = {name: value for name, value in fitted.given.items() if name in options}
    return Reading(**{**known, **reading.given})


def _ending(path: Path) -> str:
    """Return the longest known ending of a name, or nothing."""
    name = path.name.lower()
    fitting = [ending for ending in FORMATS if name.endswith(ending) and name != ending]
    return max(fitting, key=len, default="")
