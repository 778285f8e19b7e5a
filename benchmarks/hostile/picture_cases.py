"""Folders of pictures by class, of which something is wrong."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hostile.damage import DAMAGES
from hostile.results import FIT, demand_agreement, demand_written
from hostile.table_cases import HOSTILE_NAMES
from hostile.trial import OK, Trial

ENDINGS = (".png", ".jpg", ".gif", ".bmp", ".tif", ".webp", ".ppm")


def odd_pictures(trial: Trial) -> None:
    """Fit a folder of pictures after one of the tricks below."""
    folder = trial.folder / "photos"
    _write_pictures(folder, trial)
    trick = trial.in_turn(TRICKS)
    trial.tell(trick.__name__.strip("_").replace("_", " "))
    trick(folder, trial)
    ended = trial.command("fit", folder, "--out", "out", *FIT)
    if ended.status == OK:
        demand_written(trial, ended)
        demand_agreement(trial, trial.folder / "out")
    if trick is _nothing:
        trial.demand(ended.status == OK, "wrong result", f"sound pictures were refused: {ended.err[-300:]}")


def _write_pictures(folder: Path, trial: Trial) -> None:
    """Write pictures of two classes, and some without one, in the formats that are read."""
    from PIL import Image

    for name, level in (("dark", 40), ("bright", 200), ("unlabelled", 120)):
        (folder / name).mkdir(parents=True)
        for number in range(7):
            pixels = np.clip(trial.random.normal(level, 20, size=(8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}{ENDINGS[number]}")


def _any_picture(folder: Path, trial: Trial) -> Path:
    return trial.pick(sorted(path for path in folder.rglob("*") if path.is_file()))


def _nothing(_: Path, __: Trial) -> None:
    pass


def _a_damaged_picture(folder: Path, trial: Trial) -> None:
    path, name = _any_picture(folder, trial), trial.pick(list(DAMAGES))
    trial.tell(f"{path.name}: {name}")
    path.write_bytes(DAMAGES[name](path.read_bytes(), trial.random))


def _a_picture_of_another_kind(folder: Path, trial: Trial) -> None:
    path = _any_picture(folder, trial)
    path.rename(path.with_suffix(trial.pick(ENDINGS)))


def _a_huge_picture(folder: Path, _: Trial) -> None:
    """Write a PNG of a few bytes that claims to have 60,000 by 60,000 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    (folder / "dark" / "huge.png").write_bytes(content + chunk(b"IEND", b""))


def _other_files(folder: Path, trial: Trial) -> None:
    (folder / "dark" / "notes.txt").write_text("no picture")
    (folder / ".DS_Store").write_bytes(trial.random.bytes(40))
    (folder / "Thumbs.db").write_bytes(b"")


def _an_empty_class(folder: Path, _: Trial) -> None:
    (folder / "empty").mkdir()


def _hostile_class(folder: Path, trial: Trial) -> None:
    names = [name for name in HOSTILE_NAMES if "/" not in name and len(name) < 200]
    (folder / "dark").rename(folder / trial.pick(names))


def _no_class(folder: Path, _: Trial) -> None:
    for name in ("dark", "bright"):
        (folder / name).rename(folder / "unlabelled" / name)


def _a_link_in_a_circle(folder: Path, _: Trial) -> None:
    (folder / "dark" / "again").symlink_to(folder)
    (folder / "bright" / "self.png").symlink_to(folder / "bright" / "self.png")


def _a_pipe(folder: Path, _: Trial) -> None:
    os.mkfifo(folder / "dark" / "pipe.png")


def _a_name_that_is_no_text(folder: Path, trial: Trial) -> None:
    path = _any_picture(folder, trial)
    path.rename(path.with_name(os.fsdecode(b"caf\xe9") + path.suffix))


TRICKS: list[Callable[[Path, Trial], None]] = [
    _nothing, _a_damaged_picture, _a_picture_of_another_kind, _a_damaged_picture, _a_huge_picture,
    _other_files, _an_empty_class, _hostile_class, _no_class, _a_link_in_a_circle, _a_pipe,
    _a_name_that_is_no_text,
]  # fmt: skip
