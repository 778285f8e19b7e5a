"""Files of tables that are broken, in every format that the package reads, and sound ones in odd clothes."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hostile.damage import DAMAGES
from hostile.prepared import copied
from hostile.results import FIT, PREDICTIONS, demand_agreement, demand_written, read_predictions
from hostile.sheets import (
    LABEL,
    OLD,
    Sheet,
    csv_text,
    endings,
    label_option,
    marked_sheet,
    sound_sheet,
    write_sheet,
)
from hostile.trial import OK, REFUSED, Trial

# Formats with a checksum of their content: damage is noticed, or has done nothing.
CHECKED = (".npz", ".csv.gz", ".tsv.gz", ".xlsx")


def broken_file(trial: Trial) -> None:
    """Damage a table's file, and fit it or predict its rows."""
    ending, name = trial.in_turn([(ending, name) for name in DAMAGES for ending in endings()])
    sheet = marked_sheet(OLD)
    path = trial.folder / f"data{ending}"
    write_sheet(sheet, path, ending)
    option = label_option(path, ending)
    sound = _fit(trial, path, option, "sound") if ending in CHECKED else None
    path.write_bytes(DAMAGES[name](path.read_bytes(), trial.random))
    trial.tell(f"{path.name}: {name}")
    if trial.random.random() < 0.3:
        model = copied(trial.ready, OLD, trial.folder)
        ended = trial.command("predict", model, path, "--out", "labels.csv")
        if ended.status == OK:
            demand_written(trial, ended)
        return
    found = _fit(trial, path, option, "out")
    if found is not None and sound is not None:
        trial.demand(found == sound, "wrong result", "a damaged file with a checksum gave other predictions")


def _fit(trial: Trial, path: Path, label: str, out: str) -> list[dict[str, str]] | None:
    """Fit a file, and return the predictions unless it was refused."""
    ended = trial.command("fit", path, "--label", label, "--out", out, *FIT)
    if ended.status != OK:
        trial.demand(
            not (trial.folder / out / PREDICTIONS).exists(), "mixed", "refused, and yet a result is there"
        )
        return None
    demand_written(trial, ended)
    demand_agreement(trial, trial.folder / out)
    return read_predictions(trial.folder / out / PREDICTIONS)


def _utf16(sheet: Sheet) -> bytes:
    return csv_text(sheet).encode("utf-16")


def _mixed_line_ends(sheet: Sheet) -> bytes:
    lines = csv_text(sheet).splitlines()
    return "".join(line + ("\n", "\r\n")[place % 2] for place, line in enumerate(lines)).encode()


# The same table in other clothes: the predictions are the same, or it is refused.
CLOTHES: dict[str, Callable[[Sheet], bytes]] = {
    "UTF-8 with a byte order mark": lambda sheet: csv_text(sheet).encode("utf-8-sig"),
    "UTF-16": _utf16,
    "UTF-16 without a mark": lambda sheet: csv_text(sheet).encode("utf-16-le"),
    "UTF-32": lambda sheet: csv_text(sheet).encode("utf-32"),
    "Windows line ends": lambda sheet: csv_text(sheet, end="\r\n").encode(),
    "line ends of an old Mac": lambda sheet: csv_text(sheet, end="\r").encode(),
    "mixed line ends": _mixed_line_ends,
    "semicolons": lambda sheet: csv_text(sheet, delimiter=";").encode(),
    "tabs": lambda sheet: csv_text(sheet, delimiter="\t").encode(),
    "bars": lambda sheet: csv_text(sheet, delimiter="|").encode(),
    "quotes around all": lambda sheet: csv_text(sheet, quote=csv.QUOTE_ALL).encode(),
    "no last line end": lambda sheet: csv_text(sheet).rstrip("\n").encode(),
    "blank lines at the end": lambda sheet: csv_text(sheet).encode() + b"\n\n\n",
    "a NUL at the end": lambda sheet: csv_text(sheet).encode() + b"\0",
    "Ctrl-Z at the end": lambda sheet: csv_text(sheet).encode() + b"\x1a",
}


def other_clothes(trial: Trial) -> None:
    """Write one table in two ways that mean the same, and demand the same predictions."""
    sheet = sound_sheet(trial.random)
    (trial.folder / "plain.csv").write_text(csv_text(sheet), encoding="utf-8")
    expected = _fit(trial, trial.folder / "plain.csv", LABEL, "plain")
    trial.demand(expected is not None, "wrong result", "a sound table was refused")
    name = trial.in_turn([*CLOTHES, *endings()])
    ending = ".csv" if name in CLOTHES else name
    path = trial.folder / f"other{ending}"
    if name in CLOTHES:
        path.write_bytes(CLOTHES[name](sheet))
    else:
        write_sheet(sheet, path, ending)
    trial.tell(f"{path.name}: {name}")
    found = _fit(trial, path, label_option(path, ending), "other")
    same = found is None or _alike(found, expected or [])
    trial.demand(same, "wrong result", f"{name}: other predictions than as plain CSV")


def _alike(found: list[dict[str, str]], expected: list[dict[str, str]]) -> bool:
    """Tell whether predictions are the same but for rounding: arrays may be of 32 bits."""
    return len(found) == len(expected) and all(
        one.keys() == other.keys() and all(_close(one[name], other[name]) for name in one)
        for one, other in zip(found, expected, strict=True)
    )


def _close(one: str, other: str) -> bool:
    try:
        return abs(float(one) - float(other)) <= 1e-3 * max(1, abs(float(other)))
    except ValueError:
        return one == other


def _wide_csv(columns: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "wide.csv"
        with path.open("w", encoding="utf-8") as file:
            file.write(",".join(f"c{place}" for place in range(columns)) + f",{LABEL}\n")
            for row in range(12):
                file.write(f"{row % 3}.5," * columns + f"{'ab'[row % 2]}\n")
        return path

    return write


def _wide_npz(folder: Path) -> Path:
    """Write an array of 10⁷ columns that is packed into a few kilobytes."""
    path = folder / "wide.npz"
    np.savez_compressed(path, X=np.zeros((3, 10_000_000), np.float32), colour=np.array(["a", "b", "a"]))
    return path


def _lying_npz(folder: Path) -> Path:
    """Write an array whose header promises far more than there is."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**4)}
    )
    with zipfile.ZipFile(folder / "lying.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(80))
        labels = io.BytesIO()
        np.save(labels, np.array(["a", "b"]))
        archive.writestr("colour.npy", labels.getvalue())
    return folder / "lying.npz"


def _pickled_npz(folder: Path) -> Path:
    """Write objects, which could run a program when they are read."""
    np.savez(folder / "pickled.npz", X=np.eye(6), colour=np.array(["a", None, 1, "b", "a", "b"], object))
    return folder / "pickled.npz"


def _packed_bomb(folder: Path) -> Path:
    """Write a packed CSV that unpacks to 300 MB of one line."""
    path = folder / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b"1," * 500_000)
    return path


def _long_cell(folder: Path) -> Path:
    path = folder / "long.csv"
    path.write_text(f"a,{LABEL}\n1,x\n2,y\n" + '"' + "z" * 3_000_000 + '",x\n')
    return path


def _open_quote(folder: Path) -> Path:
    path = folder / "quote.csv"
    path.write_text(f'a,{LABEL}\n1,x\n"2,y\n' + "3,x\n" * 50_000)
    return path


def _many_names_alike(folder: Path) -> Path:
    path = folder / "alike.csv"
    path.write_text(",".join(["a"] * 3000) + f",{LABEL}\n" + ("1," * 3000 + "x\n") * 4)
    return path


SHAPES: dict[str, Callable[[Path], Path]] = {
    "768 columns": _wide_csv(768),
    "5,000 columns": _wide_csv(5000),
    "a million columns": _wide_csv(1_000_000),
    "ten million packed columns": _wide_npz,
    "a header that lies": _lying_npz,
    "pickled labels": _pickled_npz,
    "a packed bomb": _packed_bomb,
    "a cell of three million letters": _long_cell,
    "an open quote": _open_quote,
    "3,000 columns of one name": _many_names_alike,
}
# Nobody means these: they are refused, and soon.
_ABSURD = ("a million columns", "ten million packed columns", "a header that lies", "pickled labels")


def absurd_shape(trial: Trial) -> None:
    """Give a file of a shape that takes long or fills the memory if nobody looks."""
    name = trial.in_turn(list(SHAPES))
    trial.tell(name)
    path = SHAPES[name](trial.folder)
    ended = trial.command("fit", path, "--label", LABEL, "--out", "out", *FIT)
    if name in _ABSURD:
        trial.demand(ended.status == REFUSED, "wrong result", f"{name} was taken")
