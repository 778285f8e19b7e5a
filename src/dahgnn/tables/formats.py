"""The formats of users' files, by the endings of their names.

A new format is a function that reads it, in a module of its own, and an entry of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from dahgnn.checks import bad_value
from dahgnn.tables.array_files import read_npy, read_npz
from dahgnn.tables.parquet_files import read_parquet
from dahgnn.tables.sources import Format, Reading
from dahgnn.tables.text_files import TEXT_OPTIONS, read_text_file

_ANY = Reading()
FORMATS: Mapping[str, Format] = {
    ".csv": Format(read_text_file, TEXT_OPTIONS),
    ".tsv": Format(partial(read_text_file, delimiter="\t"), TEXT_OPTIONS),
    ".parquet": Format(read_parquet),
    ".npz": Format(read_npz),
    ".npy": Format(read_npy, labels_in_other_files=True),
}


def find_format(path: Path, reading: Reading = _ANY) -> Format:
    """Return the format of a file by its ending, if it can be read as wanted."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(
            f"The name of the file {path} must end in one of {', '.join(FORMATS)}. Got '{path.suffix}'."
        )
    chosen = FORMATS[suffix]
    for name, value in reading.given.items():
        if name not in chosen.options:
            raise bad_value(name, "read_table", f"left out for {suffix} files", repr(value))
    return chosen
