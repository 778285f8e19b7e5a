"""Specs, run lines and features of images that were damaged or edited."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.damage import DAMAGES
from hostile.prepared import N_RUNS, SPEC, copied, use_small_images, write_experiment
from hostile.results import demand_written
from hostile.trial import OK, REFUSED, Trial

# Values that no key of a spec or a line expects.
ODD_VALUES = (
    None, -1, 0, 1.5, 10**11, float("nan"), float("inf"), "x", "", [], {}, [None], [[]], True, "\u202e",
    {"a": 1}, 1e308,
)  # fmt: skip
ODD_TOML = (
    "-1", "0", "1.5", "99999999999", "nan", "inf", '"x"', '""', "[]", "{}", "true", "[[]]", '"\\u202e"',
    "1e308", "2024-01-01", "[1, -1]", '["a"]', "[3, 3]", "'''x'''",
)  # fmt: skip


def edited_spec(trial: Trial) -> None:
    """Damage a spec in TOML, or set one key to an odd value, and run it."""
    write_experiment(trial.folder)
    path = trial.folder / "spec.toml"
    way = trial.in_turn(("damaged", "edited", "hostile"))
    if way == "damaged":
        name = trial.pick(list(DAMAGES))
        path.write_bytes(DAMAGES[name](path.read_bytes(), trial.random))
        trial.tell(f"spec.toml: {name}")
    elif way == "edited":
        path.write_text(_edited_toml(trial), encoding="utf-8")
    else:
        path.write_text(_hostile_toml(trial), encoding="utf-8")
    ended = trial.command(
        "reproduce", "spec.toml", "--out", "runs", "--jobs", "1", "--data", "data", "--offline"
    )
    if ended.status == OK:
        demand_written(trial, ended)
        _demand_lines(trial, trial.folder / "runs")


def _edited_toml(trial: Trial) -> str:
    """Set one of the values to another."""
    places = [match.span(1) for match in re.finditer(r"= (.+?)(?= \}|,|$)", SPEC, re.M)]
    start, end = trial.pick(places)
    value = trial.pick(ODD_TOML)
    trial.tell(f"{SPEC[:start].splitlines()[-1].strip()} {value}")
    return SPEC[:start] + value + SPEC[end:]


def _hostile_toml(trial: Trial) -> str:
    """Add what a parser may stumble over."""
    extras = {
        "5,000 brackets": "x = " + "[" * 5000,
        "5,000 closed brackets": "x = " + "[" * 5000 + "]" * 5000,
        "a long dotted key": ".".join(["a"] * 5000) + " = 1",
        "an unknown key": "rums = 3",
        "a key twice": "runs = 3",
        "a huge number": "k = " + "9" * 5000,
        "a huge network": "",
        "a file that is no table": "",
        "a file outside": "",
        "a title that steers": "",
    }
    name = trial.pick(list(extras))
    trial.tell(name)
    text = {
        "a huge network": SPEC.replace("hidden = 8", "hidden = 99999999999"),
        "a file that is no table": SPEC.replace("table.csv", "spec.toml"),
        "a file outside": SPEC.replace("table.csv", "/proc/self/mem"),
        "a title that steers": SPEC.replace("A small experiment", "\\u001b[2J\\u202eevil"),
    }.get(name, SPEC)
    return f"{extras[name]}\n{text}"


def _demand_lines(trial: Trial, folder: Path, count: int | None = None, before: int = 0) -> None:
    """Demand whole run lines, none twice but for those that were there twice before the command."""
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text("utf-8").splitlines()]
    runs = Counter(_identity(line) for line in lines)
    twice = [each for each, times in runs.items() if times > 1]
    trial.demand(not twice or len(lines) <= before, "doubled", f"{twice} are there twice")
    trial.demand(count is None or len(runs) == count, "lost", f"{len(runs)} runs instead of {count}")


def _identity(line: dict[str, Any]) -> tuple[object, ...]:
    return line["dataset"], line["method"], line["labels"], line["run"]


def edited_runs(trial: Trial) -> None:
    """Change ``runs.jsonl`` or ``spec.json``, and write the report, or go on with the experiment."""
    folder = copied(trial.ready, "runs", trial.folder)
    write_experiment(trial.folder)
    name = trial.pick(("runs.jsonl", "spec.json"))
    for each in folder.glob("report.*"):
        each.unlink()
    way = trial.in_turn((_damaged, _edited, _edited, _edited_accuracy))
    must_refuse = way(trial, folder / name)
    ended = trial.command("report", folder)
    if ended.status == OK:
        demand_written(trial, ended)
        trial.demand(not must_refuse, "wrong result", "a report of edited numbers was written")
    if trial.random.random() < 0.3:
        before = (folder / "runs.jsonl").read_bytes().count(b"\n")
        again = trial.command("reproduce", "spec.toml", "--out", folder, "--jobs", "1", "--data", "data")
        if again.status == OK:
            _demand_lines(trial, folder, N_RUNS, before)


def _damaged(trial: Trial, path: Path) -> bool:
    name = trial.pick(list(DAMAGES))
    trial.tell(f"{path.name}: {name}")
    path.write_bytes(DAMAGES[name](path.read_bytes(), trial.random))
    return False


def _edited(trial: Trial, path: Path) -> bool:
    """Set one value, anywhere in the tree of one object, to an odd one, or remove it."""
    texts = path.read_text("utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text("utf-8")]
    chosen = int(trial.random.integers(len(texts)))
    content = json.loads(texts[chosen])
    holder, key = trial.pick(_places(content))
    value = trial.pick(ODD_VALUES)
    if trial.random.random() < 0.3:
        trial.tell(f"{path.name} without {key!r}")
        del holder[key]
    else:
        trial.tell(f"{path.name}: {key!r} = {value!r}")
        holder[key] = value
    texts[chosen] = json.dumps(content)
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return False


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Return every place of a tree of JSON that can be set: its holder, and its key."""
    if isinstance(content, dict):
        keys: list[Any] = list(content)
    elif isinstance(content, list):
        keys = list(range(len(content)))
    else:
        return []
    below = [place for key in keys for place in _places(content[key])]
    return [(content, key) for key in keys] + below


def _edited_accuracy(trial: Trial, path: Path) -> bool:
    """Raise the accuracy of a run: the confusion matrix of the same line says otherwise."""
    path = path.with_name("runs.jsonl")
    texts = path.read_text("utf-8").splitlines()
    chosen = int(trial.random.integers(len(texts)))
    line = json.loads(texts[chosen])
    accuracy = line["metrics"]["test_accuracy"]
    line["metrics"]["test_accuracy"] = 0.999 if accuracy < 0.9 else 0.5
    trial.tell(f"an accuracy of {accuracy:.3f} became {line['metrics']['test_accuracy']}")
    texts[chosen] = json.dumps(line)
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return True


def broken_features(trial: Trial) -> None:
    """Damage what ``features`` wrote, and run it again: it is made anew, with the same values, or refused."""
    data = copied(trial.ready, "data", trial.folder)
    paths = sorted(path for path in data.rglob("*.safetensors"))
    path = trial.in_turn(paths)
    name = trial.pick(list(DAMAGES))
    trial.tell(f"{path.name}: {name}")
    path.write_bytes(DAMAGES[name](path.read_bytes(), trial.random))
    ended = trial.command("features", "cifar10", "--data", data, before=use_small_images)
    if ended.status != OK:
        return
    same = tensor_bytes(data) == tensor_bytes(trial.ready / "data")
    trial.demand(same, "wrong result", "features made after a damage are others")


def tensor_bytes(data: Path) -> bytes:
    """Return the values in the file of features, without the header, which holds times."""
    content = (data / "features" / "cifar10.safetensors").read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


def broken_images(trial: Trial) -> None:
    """Give files in the data folder that are not the published images."""
    trick = trial.in_turn(list(IMAGE_TRICKS))
    trial.tell(trick)
    data = trial.folder / "data"
    IMAGE_TRICKS[trick](data, trial)
    name = "cifar10" if (data / "cifar10").exists() else "svhn"
    words = ("features", name, "--epochs", "1")
    ended = trial.command(*words, "--data", data, "--offline")
    trial.demand(ended.status == REFUSED, "wrong result", "files that are not the published ones were taken")


def _false_cifar(data: Path, trial: Trial) -> None:
    folder = data / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / f"{name}.bin").write_bytes(bytes([3]) + trial.random.bytes(3072))


def _empty_cifar(data: Path, _: Trial) -> None:
    folder = data / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    (folder / "data_batch_1.bin").touch()


def _no_images(data: Path, _: Trial) -> None:
    data.mkdir()


def _noisy_svhn(data: Path, trial: Trial) -> None:
    (data / "svhn").mkdir(parents=True)
    for name in ("train_32x32.mat", "test_32x32.mat"):
        (data / "svhn" / name).write_bytes(
            b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + trial.random.bytes(500)
        )


IMAGE_TRICKS: dict[str, Callable[[Path, Trial], None]] = {
    "images of somebody else": _false_cifar,
    "an empty file": _empty_cifar,
    "no images": _no_images,
    "noise in place of a .mat file": _noisy_svhn,
}
