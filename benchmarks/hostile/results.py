"""What must hold of the results of a fit, read without the package's own readers."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

from hostile.children import Ended
from hostile.sheets import NEW, OLD
from hostile.trial import DemandError, Trial

# A fit that is cheap: one network, and the quick map.
FIT = ("--networks", "1", "--map", "pca", "--device", "cpu")
MODEL, PREDICTIONS, METRICS, PAGE = "model.safetensors", "predictions.csv", "metrics.json", "report.html"


def named_files(ended: Ended) -> list[str]:
    """Return the paths that a command says it wrote."""
    found = []
    for line in re.findall(r"Written to (.+)$", ended.said, re.M):
        place, _, names = line.partition(": ")
        found += [f"{place}/{name.strip()}" for name in names.split(",")] if names else [place.rstrip(".")]
    return found


def demand_written(trial: Trial, ended: Ended) -> None:
    """Demand that every file that was acknowledged is there, and not empty."""
    names = named_files(ended)
    trial.demand(names, "no words", f"nothing was acknowledged: {ended.out!r}")
    for name in names:
        path = trial.folder / name
        trial.demand(
            path.is_file() and path.stat().st_size, "lost", f"{name} was acknowledged and is not there"
        )


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return the metrics of a fit."""
    return dict(json.loads((folder / METRICS).read_text(encoding="utf-8")))


def read_predictions(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file of predictions."""
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


def demand_agreement(trial: Trial, folder: Path) -> None:
    """Demand that metrics and predictions speak of the same fit, and probabilities are such."""
    metrics, rows = read_metrics(folder), read_predictions(folder / PREDICTIONS)
    trial.demand(
        metrics["rows"] == len(rows), "wrong result", f"{metrics['rows']} rows, {len(rows)} predictions"
    )
    classes = set(metrics["classes"])
    for row in rows:
        trial.demand(row["class"] in classes, "wrong result", f"{row['class']!r} is none of {classes}")
        likely = 0 < float(row["probability"]) <= 1
        trial.demand(likely, "wrong result", f"a probability of {row['probability']}")


def visible_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name, without hidden ones, which a kill may leave."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def marks_of(content: bytes) -> set[str]:
    """Tell by its classes which of the two fits a file is of; the bare marks are names of folders, too."""
    return {mark for mark in (OLD, NEW) if f"{mark}-".encode() in content}


def demand_unmixed(folder: Path) -> None:
    """Demand that no two files of a folder come from different fits."""
    found = visible_files(folder) if folder.exists() else {}
    marks = {name: sorted(marks_of(content)) for name, content in found.items()}
    if len({mark for each in marks.values() for mark in each}) > 1:
        raise DemandError("mixed", str(marks))


def demand_one_fit(folder: Path, whole_old: dict[str, bytes], names_new: set[str]) -> str:
    """Demand the old fit as it was, or the new one whole; return its mark, or "" for an empty folder.

    Parameters
    ----------
    folder : Path
        What a fit with a fault has left.
    whole_old : dict
        The files of the old fit; none if the folder was empty before.
    names_new : set of str
        The names of the files that the new fit must have.
    """
    demand_unmixed(folder)
    found = visible_files(folder) if folder.exists() else {}
    present = set().union(*(marks_of(content) for content in found.values()))
    if present == {NEW}:
        if missing := names_new - found.keys():
            raise DemandError("lost", f"the new fit lacks {sorted(missing)}")
        return NEW
    if found != whole_old:
        raise DemandError("lost", f"of the old fit {sorted(whole_old)} there is {sorted(found)}, changed")
    return OLD if found else ""
