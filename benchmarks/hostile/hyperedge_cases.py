"""Hyperedges of a user's own beside a sound table, of which something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hostile.damage import DAMAGES
from hostile.results import FIT, demand_agreement, demand_written
from hostile.sheets import LABEL, Pair, csv_text, sound_pairs, sound_sheet, write_pairs
from hostile.table_cases import HOSTILE_NAMES
from hostile.trial import OK, REFUSED, Trial

ENDINGS = (".csv", ".hif.json", ".json", ".jsonl", ".parquet", ".xlsx", ".tsv.gz")
_ROWS = 40


def odd_hyperedges(trial: Trial) -> None:
    """Fit a sound table with hyperedges after one of the tricks below, and go on with the folder."""
    (trial.folder / "data.csv").write_text(csv_text(sound_sheet(trial.random, rows=_ROWS)), encoding="utf-8")
    trick = trial.in_turn(list(TRICKS))
    ending = trial.pick(ENDINGS)
    path = trial.folder / f"pairs{ending}"
    trial.tell(f"{path.name}: {trick}")
    write_pairs(TRICKS[trick](sound_pairs(trial.random, _ROWS), trial), path, ending)
    _change_file(trick, path, trial)
    ended = trial.command(
        "fit", "data.csv", "--label", LABEL, "--hyperedges", path.name, "--out", "out", *FIT
    )
    if trick in _MUST:
        trial.demand(ended.status == _MUST[trick], "wrong result", f"{trick}: {ended.err[-300:]}")
    if ended.status == OK:
        demand_written(trial, ended)
        demand_agreement(trial, trial.folder / "out")
        for words in (("predict", "out", "data.csv"), ("explain", "out", "--row", "1"), ("suggest", "out")):
            after = trial.command(*words)
            trial.demand(after.status == OK, "wrong result", f"{words[0]}: {after.err[-300:]}")
    else:
        trial.demand(not (trial.folder / "out").exists(), "mixed", "refused, and yet a result is there")


def _change_file(trick: str, path: Path, trial: Trial) -> None:
    """Damage the file itself, for tricks that are no other pairs."""
    if trick == "damage":
        name = trial.pick(list(DAMAGES))
        trial.tell(name)
        path.write_bytes(DAMAGES[name](path.read_bytes(), trial.random))
    elif trick == "HIF with an odd value" and path.name.endswith(".hif.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        entry = content["incidences"][int(trial.random.integers(len(content["incidences"])))]
        entry[trial.pick(["node", "edge", "weight", "attrs", "direction", "more"])] = trial.pick(ODD)
        path.write_text(json.dumps(content), encoding="utf-8")


def _renamed(pairs: list[Pair], trial: Trial) -> list[Pair]:
    """Give some hyperedges names that steer terminals, break pages or mean missing."""
    names = {f"group {number}": trial.pick(list(HOSTILE_NAMES)) + str(number) for number in range(6)}
    return [(row, names.get(name, name), weight) for row, name, weight in pairs]


# NaN and infinities are such that Python writes and JSON does not have.
ODD = (None, True, [], {}, "", "\u202e", -1, 0, 1e300, 10**30, float("nan"), float("inf"), "head", "left")
TRICKS: dict[str, Callable[[list[Pair], Trial], list[Pair]]] = {
    "nothing": lambda pairs, _: pairs,
    "damage": lambda pairs, _: pairs,
    "HIF with an odd value": lambda pairs, _: pairs,
    "an unknown row": lambda pairs, trial: [
        *pairs,
        (trial.pick(["40", "-1", "x", "1.0", "\u202e"]), "a", 1.0),
    ],
    "pairs twice": lambda pairs, _: [*pairs, *pairs],
    "one row in each": lambda pairs, _: [(row, row, weight) for row, _, weight in pairs],
    "all rows in one": lambda _, __: [(str(row), "all", 1.0) for row in range(_ROWS)],
    "two rows in one": lambda _, __: [("0", "only", 1.0), ("1", "only", 1e-15)],
    "an empty name": lambda pairs, _: [*pairs, ("3", " ", 1.0)],
    "a weight that is none": lambda pairs, trial: [*pairs, ("3", "a", trial.pick([0.0, -1.0, 1e300]))],
    "hostile names": _renamed,
    "ids and hyperedges exchanged": lambda pairs, _: [(name, row, weight) for row, name, weight in pairs],
}
# How some of them must end.
_MUST = {
    "nothing": OK,
    "pairs twice": OK,
    "all rows in one": OK,
    "two rows in one": OK,
    "hostile names": OK,
    "an unknown row": REFUSED,
    "one row in each": REFUSED,
    "a weight that is none": REFUSED,
    "ids and hyperedges exchanged": REFUSED,
}
