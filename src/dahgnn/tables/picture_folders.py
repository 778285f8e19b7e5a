"""Read a folder of pictures as a table, with the classes as folders in it.

In ``photos/cat/1.jpg`` the label is "cat". Pictures in a folder "unlabelled" or "unlabeled", and those in no
folder within, have no label. Ids are the paths within the folder. A link counts as what it leads to. Hidden
files and folders, and files whose names do not end as those of pictures do, are left out.
`dahgnn.tables.pictures` says how pictures are read; for a fitted model they get the shape of those that it
was fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dahgnn.tables.array_files import array_source
from dahgnn.tables.messages import joined, quoted
from dahgnn.tables.pictures import PICTURE_ENDINGS, read_pictures
from dahgnn.tables.sources import Source, Wanted, text_array

PICTURE_OPTIONS = ("shape",)
_UNLABELLED = ("unlabelled", "unlabeled")


def read_picture_folder(path: Path, wanted: Wanted) -> Source:
    """Read all pictures in a folder."""
    pictures, others = find_pictures(path)
    for name, role in ((wanted.label, "label"), (wanted.id, "id")):
        if name is not None:
            raise ValueError(
                f"The {role}s of a folder of pictures must be the names in it. Got --{role} '{name}'."
            )
    source = array_source(read_pictures([path / name for name in pictures], wanted.reading.shape))
    sides = " × ".join(map(str, source.shape))
    notes = [f"{len(pictures):,} pictures were read, each as {sides} numbers from 0 to 255."]
    if others:
        named = joined([quoted(str(name)) for name in others])
        notes.append(f"{len(others):,} files that are no pictures were ignored: {named}.")
    return Source(
        n_rows=len(pictures),
        cells=source.cells,
        labels=None if wanted.fitted else text_array(map(folder_label, pictures)),
        ids=text_array(name.as_posix() for name in pictures),
        is_array=True,
        shape=source.shape,
        notes=tuple(notes),
    )


def find_pictures(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the pictures, of which there must be some, and the other files, by their paths in a folder."""
    found = sorted(path.relative_to(folder) for path in _walk(folder))
    pictures = [path for path in found if path.suffix.lower() in PICTURE_ENDINGS]
    if not pictures:
        raise ValueError(
            f"The folder {folder} must have pictures in it, or in folders named by their classes. "
            f"Got none that end in one of {', '.join(PICTURE_ENDINGS)}. "
            "Parquet files, which are a table together, must be in the folder itself."
        )
    return pictures, [path for path in found if path.suffix.lower() not in PICTURE_ENDINGS]


def has_pictures(folder: Path) -> bool:
    """Whether a picture is in a folder, or in one in it."""
    return any(path.suffix.lower() in PICTURE_ENDINGS for path in _walk(folder))


def _walk(folder: Path, within: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Give the files in a folder and in those in it, but hidden ones; ``within`` are the folders around."""
    within = (*within, folder.resolve())
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if not path.is_dir():
            yield path
        elif path.resolve() in within:
            raise ValueError(f"The folder {path} must not be a link to one that it is in. Remove the link.")
        else:
            yield from _walk(path, within)


def folder_label(name: Path) -> str | None:
    """Return the name of the folder that a picture is in."""
    if len(name.parts) == 1 or name.parts[0].lower() in _UNLABELLED:
        return None
    return name.parts[0]
