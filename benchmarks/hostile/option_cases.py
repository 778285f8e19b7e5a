"""Options that nobody should give, to every command."""

from __future__ import annotations

from collections.abc import Callable

from hostile.prepared import copied, use_small_images, write_experiment
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


def _with_odd(
    trial: Trial, numbers: tuple[str, ...], words: tuple[str, ...], paths: tuple[str, ...]
) -> list[str]:
    """Return one or two odd options of those that there are."""
    options = [
        (option, values)
        for group, values in ((numbers, NUMBERS), (words, WORDS), (paths, PATHS))
        for option in group
    ]
    chosen = trial.random.choice(len(options), size=int(trial.random.integers(1, 3)), replace=False)
    return [word for place in chosen for word in (options[place][0], trial.pick(options[place][1]))]


def _fit(trial: Trial) -> None:
    copied(trial.ready, f"{OLD}.csv", trial.folder).rename(trial.folder / "data.csv")
    words = ("--label", "--id", "--drop", "--scale", "--map", "--device", "--networks", "--keep", "--missing",
             "--encoding", "--delimiter", "--class-weight")  # fmt: skip
    odd = _with_odd(trial, ("-k", "--seed", "--networks", "--validation"), words, ("--out",))
    ended = trial.command("fit", "data.csv", "--label", LABEL, "--out", "out", *FIT, *odd)
    if ended.status == OK and not {"-", "/dev/null"} & set(odd):
        demand_written(trial, ended)


def _fit_odd_file(trial: Trial) -> None:
    trial.command("fit", trial.pick(PATHS), "--label", trial.pick(WORDS), "--out", "out", *FIT)


def _predict(trial: Trial) -> None:
    model = copied(trial.ready, OLD, trial.folder)
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    before = (model / "model.safetensors").read_bytes()
    odd = _with_odd(trial, (), ("--id", "--json"), ("--out",))
    trial.command("predict", model, table, *odd)
    after = (model / "model.safetensors").read_bytes()
    trial.demand(before == after, "lost", "predict changed the model")


def _predict_typo(trial: Trial) -> None:
    """Name an id column that is not there: it must be refused."""
    model = copied(trial.ready, OLD, trial.folder)
    table = copied(trial.ready, f"{OLD}.csv", trial.folder)
    ended = trial.command("predict", model, table, "--id", "x9", "--out", "labels.csv")
    trial.demand(ended.status != OK, "wrong result", "predict --id with a column that is not there was taken")


def _explain(trial: Trial) -> None:
    model = copied(trial.ready, OLD, trial.folder)
    trial.command("explain", model, "--row", trial.pick(NUMBERS + WORDS), *trial.pick([(), ("--json",)]))


def _suggest(trial: Trial) -> None:
    model = copied(trial.ready, OLD, trial.folder)
    trial.command("suggest", model, "-n", trial.pick(NUMBERS), *trial.pick([(), ("--json",)]))


def _reproduce(trial: Trial) -> None:
    write_experiment(trial.folder)
    numbers, words = ("--jobs",), ("--dataset", "--method", "--device")
    odd = _with_odd(trial, numbers, words, ("--out", "--data"))
    odd = ["1" if word in ("41", "1000000", "2", "1e3") else word for word in odd]  # no swarm of processes
    trial.command("reproduce", "spec.toml", "--out", "runs", "--jobs", "1", *odd)


def _reproduce_unknown(trial: Trial) -> None:
    trial.command("reproduce", trial.pick(WORDS + PATHS), "--out", "runs", "--offline", "--data", "data")


def _report(trial: Trial) -> None:
    trial.command("report", trial.pick(PATHS + WORDS))


def _features(trial: Trial) -> None:
    odd = _with_odd(trial, ("--seed",), ("--device",), ("--data",))
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
    "reproduce": _reproduce,
    "fit again": _fit,
    "reproduce an unknown spec": _reproduce_unknown,
    "report": _report,
    "features": _features,
    "bench": _bench,
    "demo": _demo,
    "words alone": _words_alone,
    "help": _help,
}
