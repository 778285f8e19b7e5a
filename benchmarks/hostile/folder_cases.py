"""Folders that are not what they seem: closed, linked, taken, or the input itself."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from hostile.prepared import copied
from hostile.results import (
    FIT,
    MODEL,
    demand_one_fit,
    demand_unmixed,
    demand_written,
    marks_of,
    visible_files,
)
from hostile.sheets import LABEL, NEW, OLD
from hostile.trial import OK, REFUSED, Trial


def odd_folder(trial: Trial) -> None:
    """Try one of the tricks below."""
    trick = trial.in_turn(TRICKS)
    trial.tell(trick.__name__.strip("_").replace("_", " "))
    trick(trial)


def _as_plain_user() -> None:
    """Give up the superuser's right to pass every closed door; for a child.

    The user stays the same, as an installation below the superuser's home is closed to others.
    """
    if os.geteuid() == 0:
        version_3 = (ctypes.c_uint32 * 2)(0x20080522, 0)
        nothing = (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None, use_errno=True).capset(version_3, nothing):
            raise OSError(ctypes.get_errno(), "capset")


def _fit(
    trial: Trial, out: str | Path, table: str = NEW, *words: str, before: Callable[[], object] | None = None
) -> int:
    """Fit the new table into a folder; what was acknowledged must be there."""
    if not (trial.folder / f"{table}.csv").exists():
        copied(trial.ready, f"{table}.csv", trial.folder)
    ended = trial.command("fit", f"{table}.csv", "--label", LABEL, "--out", out, *FIT, *words, before=before)
    if ended.status == OK:
        demand_written(trial, ended)
    return int(ended.status or 0)


def _names(trial: Trial) -> set[str]:
    return set(visible_files(trial.ready / NEW))


def _over_another_fit(trial: Trial) -> None:
    folder = copied(trial.ready, OLD, trial.folder)
    trial.demand(_fit(trial, folder) == OK, "wrong result", "a second fit into a folder was refused")
    mark = demand_one_fit(folder, visible_files(trial.ready / OLD), _names(trial))
    trial.demand(mark == NEW, "lost", "the new fit was acknowledged, and the old one is there")


def _closed_folder(trial: Trial) -> None:
    folder = copied(trial.ready, OLD, trial.folder)
    folder.chmod(0o555)
    trial.folder.chmod(0o777)
    status = _fit(trial, folder, before=_as_plain_user)
    trial.demand(status == REFUSED, "wrong result", "a closed folder was written to")
    demand_one_fit(folder, visible_files(trial.ready / OLD), _names(trial))


def _closed_files(trial: Trial) -> None:
    """Let others own the files in a folder that is open."""
    folder = copied(trial.ready, OLD, trial.folder)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o777)
    _fit(trial, folder, before=_as_plain_user)
    demand_one_fit(folder, visible_files(trial.ready / OLD), _names(trial))


def _unreadable_model(trial: Trial) -> None:
    folder = copied(trial.ready, OLD, trial.folder)
    (folder / MODEL).chmod(0)
    trial.folder.chmod(0o777)
    ended = trial.command("suggest", folder, before=_as_plain_user)
    trial.demand(ended.status == REFUSED, "wrong result", "an unreadable model was read")
    trial.demand("o such file" not in ended.err, "wrong result", "an unreadable model is said to be missing")


def _unreadable_table(trial: Trial) -> None:
    copied(trial.ready, f"{NEW}.csv", trial.folder).chmod(0)
    trial.folder.chmod(0o777)
    trial.demand(
        _fit(trial, "out", before=_as_plain_user) == REFUSED, "wrong result", "a closed file was read"
    )


def _a_folder_in_place_of_a_file(trial: Trial) -> None:
    """Put a folder where a file of the fit is to be: the old fit stays whole, or nothing is mixed."""
    folder = copied(trial.ready, OLD, trial.folder)
    name = trial.pick(sorted(_names(trial)))
    whole = visible_files(folder)
    (folder / name).unlink()
    del whole[name]
    (folder / name / "inner").mkdir(parents=True)
    status = _fit(trial, folder)
    found = visible_files(folder)
    marks = set().union(*(marks_of(content) for content in found.values()))
    trial.demand(len(marks) == 1, "mixed", f"after exit status {status} there are files of {marks}")
    trial.demand(status == OK or found == whole, "lost", "a refused fit changed the folder")


def _a_file_in_place_of_the_folder(trial: Trial) -> None:
    (trial.folder / "out").write_text("mine")
    trial.demand(_fit(trial, "out") == REFUSED, "wrong result", "a file was taken for a folder")
    trial.demand((trial.folder / "out").read_text() == "mine", "lost", "the file was replaced")


def _a_missing_file(trial: Trial) -> None:
    """Remove one file of a fit; what needs it says so, and the rest works."""
    folder = copied(trial.ready, OLD, trial.folder)
    (folder / trial.pick(sorted(visible_files(folder)))).unlink()
    trial.command("suggest", folder)
    trial.command("explain", folder, "--row", "0")


def _the_folder_is_a_link(trial: Trial) -> None:
    folder = copied(trial.ready, OLD, trial.folder)
    (trial.folder / "link").symlink_to(folder)
    _fit(trial, "link")
    demand_one_fit(folder, visible_files(trial.ready / OLD), _names(trial))


def _a_file_is_a_link(trial: Trial) -> None:
    """Link a result to somewhere else: what it points to is replaced or kept, never cut."""
    folder = copied(trial.ready, OLD, trial.folder)
    name = trial.pick(sorted(_names(trial)))
    target = trial.folder / "elsewhere"
    shutil.move(folder / name, target)
    (folder / name).symlink_to(target)
    _fit(trial, folder)
    demand_one_fit(folder, visible_files(trial.ready / OLD), _names(trial))


def _a_link_in_a_circle(trial: Trial) -> None:
    (trial.folder / "out").symlink_to(trial.folder / "out")
    trial.demand(_fit(trial, "out") == REFUSED, "wrong result", "a link to itself was taken for a folder")


def _a_link_to_nowhere(trial: Trial) -> None:
    (trial.folder / "out").symlink_to(trial.folder / "nowhere")
    _fit(trial, "out")


def _the_output_is_the_input(trial: Trial) -> None:
    """Fit a table that lies where a result is to be, by its name or by a link."""
    out = trial.folder / "out"
    out.mkdir()
    table = copied(trial.ready, f"{NEW}.csv", trial.folder)
    inside = out / "predictions.csv"
    if trial.random.random() < 0.5:
        shutil.move(table, inside)
        words: tuple[object, ...] = (inside,)
    else:
        inside.symlink_to(table)
        words = (table,)
    ended = trial.command("fit", *words, "--label", LABEL, "--out", out, *FIT)
    content = (trial.ready / f"{NEW}.csv").read_bytes()
    source = Path(str(words[0]))
    trial.demand(
        source.is_file() and source.read_bytes() == content, "lost", "the table was replaced by results"
    )
    trial.demand(ended.status == REFUSED, "wrong result", "results over the table were taken")


def _predictions_over_the_fit(trial: Trial) -> None:
    """Ask `predict` to write over a file of the fit, or over its own table."""
    folder = copied(trial.ready, OLD, trial.folder)
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    name = trial.pick(sorted(visible_files(folder)))
    target = trial.pick([folder / name, folder / "." / name, table])
    if trial.random.random() < 0.3:
        (trial.folder / "link.csv").symlink_to(target)
        target = trial.folder / "link.csv"
    ended = trial.command("predict", folder, table, "--out", target)
    trial.demand(visible_files(folder) == visible_files(trial.ready / OLD), "lost", "predict changed the fit")
    kept = table.read_bytes() == (trial.ready / f"{OLD}.csv").read_bytes()
    trial.demand(kept, "lost", "predict changed its table")
    trial.demand(ended.status == REFUSED, "wrong result", "predictions over the fit were taken")


def _two_tables_of_one_name(trial: Trial) -> None:
    """Fit ``a.csv`` and ``a.tsv`` without a folder: the second must not replace the first."""
    text = (trial.ready / f"{OLD}.csv").read_text(encoding="utf-8")
    (trial.folder / "a.csv").write_text(text, encoding="utf-8")
    text = (trial.ready / f"{NEW}.csv").read_text(encoding="utf-8")
    (trial.folder / "a.tsv").write_text(text.replace(",", "\t"), encoding="utf-8")
    for name in ("a.csv", "a.tsv"):
        ended = trial.command("fit", name, "--label", LABEL, *FIT)
        if ended.status == OK:
            demand_written(trial, ended)
    found = [marks_of(path.read_bytes()) for path in (trial.folder / "runs").rglob("predictions.csv")]
    trial.demand({OLD} in found, "lost", "the second fit replaced the first, of another file")


def _output_dash(trial: Trial) -> None:
    """Write predictions to ``-``: standard output, or a refusal, but no file of that name."""
    folder = copied(trial.ready, OLD, trial.folder)
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    trial.command("predict", folder, table, "--out", "-")
    trial.demand(not (trial.folder / "-").exists(), "wrong result", "a file called '-' was made")


def _input_dash(trial: Trial) -> None:
    content = (trial.ready / f"{OLD}.csv").read_bytes()
    trial.command(
        "fit", "-", "--label", LABEL, "--out", "out", *FIT, stdin=trial.pick([content, b"", content[:99]])
    )


def _names_that_are_not_utf8(trial: Trial) -> None:
    """Call the table by bytes that are no UTF-8, and fit into the folder of another fit."""
    folder = copied(trial.ready, OLD, trial.folder)
    name = os.fsdecode(b"caf\xe9.csv")
    shutil.copy(trial.ready / f"{NEW}.csv", trial.folder / name)
    trial.command("fit", name, "--label", LABEL, "--out", folder, *FIT)
    demand_one_fit(folder, visible_files(trial.ready / OLD), _names(trial))


def _a_pipe_or_socket(trial: Trial) -> None:
    name = trial.folder / "data.csv"
    if trial.random.random() < 0.5:
        os.mkfifo(name)
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.fspath(name))
    trial.command("fit", name, "--label", LABEL, "--out", "out", *FIT)
    folder = copied(trial.ready, OLD, trial.folder)
    (folder / MODEL).unlink()
    os.mkfifo(folder / MODEL)
    trial.command("suggest", folder)


def _drop_swallows_nothing(trial: Trial) -> None:
    """Give the file after ``--drop A B``, as users do; it must be understood or refused with the way out."""
    copied(trial.ready, f"{OLD}.csv", trial.folder)
    trial.command("fit", "--label", LABEL, "--out", "out", *FIT, "--drop", "x0", f"{OLD}.csv")


def _two_fits_at_once(trial: Trial) -> None:
    """Start a second fit into the same folder meanwhile: one waits, or is refused, and nothing is mixed."""
    copied(trial.ready, f"{OLD}.csv", trial.folder)

    def also_fit() -> None:
        if not os.fork():
            from dahgnn.cli.commands import main

            os._exit(main(["fit", f"{OLD}.csv", "--label", LABEL, "--out", "out", *FIT]))

    _fit(trial, "out", before=also_fit)
    demand_unmixed(trial.folder / "out")
    again = trial.command("fit", f"{NEW}.csv", "--label", LABEL, "--out", "out", *FIT)
    trial.demand(again.status == OK, "lost", f"after two fits at once: {again.err[-300:]}")
    demand_one_fit(trial.folder / "out", {}, _names(trial))


TRICKS: list[Callable[[Trial], None]] = [
    _over_another_fit, _closed_folder, _closed_files, _unreadable_model, _unreadable_table,
    _a_folder_in_place_of_a_file, _a_file_in_place_of_the_folder, _a_missing_file, _the_folder_is_a_link,
    _a_file_is_a_link, _a_link_in_a_circle, _a_link_to_nowhere, _the_output_is_the_input,
    _predictions_over_the_fit, _two_tables_of_one_name, _output_dash, _input_dash,
    _names_that_are_not_utf8, _a_pipe_or_socket, _drop_swallows_nothing,
    _two_fits_at_once,
]  # fmt: skip
