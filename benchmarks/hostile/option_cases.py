"""Options that nobody should give, to every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hostile.prepared import copied, serve_nobody, use_small_images, write_experiment
from hostile.results import FIT, demand_written
from hostile.sheets import LABEL, OLD
from hostile.trial import OK, Trial

NUMBERS = (
    "0", "-1", "1", "2", "41", "1000000", "99999999999999999999", "1.5", "nan", "inf", "1e3", "", " ",
    "٣", "0x10", "-0",
)  # fmt: skip
WORDS = (
    "", " ", "auto", "none", "None", "../x", "-", "--", "\u202e", "a\nb", "x" * 1000, "😀", "cuda:99",
    "tsn", "=1", "\udcff",
)  # fmt: skip
# None of them may lead out of the folder of the case.
PATHS = (
    "", ".", "/dev/null", "/dev/full", "/proc/1/mem", "/proc/none/x", "missing/deep/er", "x" * 300,
    "a\nb", "data.csv", "old", "-", "~",
)  # fmt: skip


def odd_options(trial: Trial) -> None:
    """Give a command one or two odd options."""
    command = trial.in_turn(list(COMMANDS))
    COMMANDS[command](trial)


def _with_odd(trial: Trial, command: str) -> list[str]:
    """Return one or two options of a command with odd values; a new option is among them by itself."""
    options = _options_of(command)
    chosen = trial.random.choice(len(options), size=int(trial.random.integers(1, 3)), replace=False)
    words = []
    for place in chosen:
        name, kind, takes_value = options[place]
        values = {int: NUMBERS, float: NUMBERS, Path: PATHS}.get(kind, WORDS + NUMBERS)
        words += [name, trial.pick(values)] if takes_value else [name]
    return words


def _options_of(command: str) -> list[tuple[str, object, bool]]:
    """Return the name of each option of a command, the type of its value, and whether it takes one."""
    from dahgnn.cli.parser import make_parser

    parsers = make_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    actions = parsers[command]._actions  # type: ignore[call-overload, index]
    return [
        (each.option_strings[-1], each.type, each.nargs != 0)
        for each in actions
        if each.option_strings and each.dest != "help"
    ]


def _fit(trial: Trial) -> None:
    copied(trial.ready, f"{OLD}.csv", trial.folder).rename(trial.folder / "data.csv")
    odd = _with_odd(trial, "fit")
    ended = trial.command("fit", "data.csv", "--label", LABEL, "--out", "out", *FIT, *odd)
    if ended.status == OK and not {"-", "/dev/null", "--dry-run", "--json"} & set(odd):
        demand_written(trial, ended)


def _fit_odd_file(trial: Trial) -> None:
    trial.command("fit", trial.pick(PATHS), "--label", trial.pick(WORDS), "--out", "out", *FIT)


def _predict(trial: Trial) -> None:
    model = copied(trial.ready, OLD, trial.folder)
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    before = (model / "model.safetensors").read_bytes()
    odd = _with_odd(trial, "predict")
    trial.command("predict", model, table, *odd)
    after = (model / "model.safetensors").read_bytes()
    trial.demand(before == after, "lost", "predict changed the model")


def _predict_typo(trial: Trial) -> None:
    """Name an id column that is not there: it must be refused."""
    model = copied(trial.ready, OLD, trial.folder)
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    ended = trial.command("predict", model, table, "--id", "x9", "--out", "labels.csv")
    trial.demand(ended.status != OK, "wrong result", "predict --id with a column that is not there was taken")


def _perhaps_json(trial: Trial, command: str) -> list[str]:
    """Return --json for some cases, if the command has it."""
    known = any(name == "--json" for name, _, _ in _options_of(command))
    return ["--json"] if known and trial.random.random() < 0.5 else []


def _answer_in_json(trial: Trial) -> None:
    """Ask for JSON: standard output is JSON and nothing else."""
    model = copied(trial.ready, OLD, trial.folder)
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    commands: dict[str, tuple[object, ...]] = {
        "fit": ("fit", table, "--label", LABEL, "--out", "out", *FIT),
        "predict": ("predict", model, table, "--out", "labels.csv"),
        "explain": ("explain", model, "--row", "1"),
        "suggest": ("suggest", model),
    }
    name = trial.pick(list(commands))
    ended = trial.command(*commands[name], "--json")
    trial.demand(ended.status == OK, "wrong result", f"{name} --json was refused: {ended.err[-300:]}")
    try:
        json.loads(ended.out)
    except ValueError:
        trial.fail("wrong result", f"{name} --json printed {ended.out[:200]!r}")


def _explain(trial: Trial) -> None:
    model = copied(trial.ready, OLD, trial.folder)
    trial.command("explain", model, "--row", trial.pick(NUMBERS + WORDS), *_perhaps_json(trial, "explain"))


def _suggest(trial: Trial) -> None:
    model = copied(trial.ready, OLD, trial.folder)
    trial.command("suggest", model, "-n", trial.pick(NUMBERS), *_perhaps_json(trial, "suggest"))


def _label(trial: Trial) -> None:
    """Open a table to label it, with odd options; whoever could begin ends at once."""
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    before = table.read_bytes()
    words = ("label", table, "--label", LABEL, "--no-browser", "--map", "pca")
    trial.command(*words, *_with_odd(trial, "label"), before=serve_nobody)
    trial.demand(table.read_bytes() == before, "lost", "label changed the table")


def _reproduce(trial: Trial) -> None:
    write_experiment(trial.folder)
    odd = _with_odd(trial, "reproduce")
    odd = ["1" if word in ("41", "1000000", "2", "1e3") else word for word in odd]  # no swarm of processes
    trial.command("reproduce", "spec.toml", "--out", "runs", "--jobs", "1", *odd)


def _reproduce_unknown(trial: Trial) -> None:
    trial.command("reproduce", trial.pick(WORDS + PATHS), "--out", "runs", "--offline", "--data", "data")


def _report(trial: Trial) -> None:
    trial.command("report", trial.pick(PATHS + WORDS))


def _features(trial: Trial) -> None:
    odd = [word for word in _with_odd(trial, "features") if word not in ("41", "1000000", "1e3")]
    name, epochs = trial.pick(["cifar10", *WORDS]), trial.pick(["1", "0", "-1", "nan"])
    trial.command("features", name, "--data", "data", "--epochs", epochs, *odd, before=use_small_images)


def _bench(trial: Trial) -> None:
    """Measure next to nothing, with a name or number that is wrong."""
    nodes, repeats = trial.pick(["0", "-1", "1", "3", "nan", ""]), trial.pick(NUMBERS[:3])
    wrong = ("--methods", trial.pick(WORDS), "--out", trial.pick(PATHS))
    trial.command("bench", "--nodes", nodes, "--repeats", repeats, *wrong)


def _demo(trial: Trial) -> None:
    trial.command("demo", "--runs", trial.pick(["0", "-1", "nan", "", "1.5"]), "--out", trial.pick(PATHS))


def _words_alone(trial: Trial) -> None:
    """Give a few words in any order, as a hand that slips does."""
    pool = ("fit", "predict", "version", "--version", "--help", "-h", "--", "-k", "--out", "suggest", *WORDS)
    words = [trial.pick(pool) for _ in range(int(trial.random.integers(0, 5)))]
    trial.command(*words)


def _help(trial: Trial) -> None:
    names = (
        "fit",
        "predict",
        "explain",
        "suggest",
        "label",
        "report",
        "reproduce",
        "features",
        "bench",
        "demo",
        "version",
    )
    ended = trial.command(trial.pick(names), "--help")
    trial.demand("usage" in ended.out, "no words", "--help printed nothing")


COMMANDS: dict[str, Callable[[Trial], None]] = {
    "fit": _fit,
    "fit an odd file": _fit_odd_file,
    "predict": _predict,
    "predict with a typo": _predict_typo,
    "explain": _explain,
    "suggest": _suggest,
    "label": _label,
    "reproduce": _reproduce,
    "fit again": _fit,
    "reproduce an unknown spec": _reproduce_unknown,
    "report": _report,
    "features": _features,
    "bench": _bench,
    "demo": _demo,
    "words alone": _words_alone,
    "help": _help,
    "JSON": _answer_in_json,
}
