"""Faults at each change that a command makes in turn, and kills at any moment."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hostile.children import PATIENCE, Ended
from hostile.experiment_cases import tensor_bytes
from hostile.faults import FAULTS, Counter, Fault, have_faults
from hostile.prepared import N_RUNS, copied, use_small_images, write_experiment
from hostile.results import FIT, PAGE, demand_one_fit, demand_unmixed, demand_written, visible_files
from hostile.sheets import LABEL, NEW, OLD
from hostile.trial import OK, Trial, judge

Check = Callable[[Trial, Ended], None]


@dataclass(frozen=True)
class Plan:
    """A command with what it starts from, and what must hold however it ends."""

    set_up: Callable[[Trial], None]
    words: tuple[str, ...]
    check: Check
    before: Callable[[], object] | None = None


def _copy_fit(trial: Trial) -> None:
    copied(trial.ready, OLD, trial.folder)
    copied(trial.ready, f"{NEW}.csv", trial.folder)


def _check_fit(trial: Trial, ended: Ended) -> None:
    """Demand the old fit as it was, or the new one whole; what was acknowledged is the new one.

    A fit that was killed while it exchanged its files is completed by the next command that reads them.
    """
    folder = trial.folder / OLD
    demand_unmixed(folder)
    after = trial.command("suggest", OLD, "-n", "3")
    trial.demand(after.status == OK, "lost", f"the folder cannot be read any more: {after.err[-300:]}")
    mark = demand_one_fit(folder, visible_files(trial.ready / OLD), _needed(trial, ended))
    trial.demand(ended.status != OK or mark == NEW, "lost", "the new fit was acknowledged and is not there")
    trial.demand(mark in after.out, "mixed", f"the files are of the {mark} fit, and suggest tells of another")
    again = trial.command("fit", f"{NEW}.csv", "--label", LABEL, "--out", OLD, *FIT)
    trial.demand(again.status == OK, "lost", f"the next fit fails: {again.err[-300:]}")
    demand_one_fit(folder, {}, set(visible_files(trial.ready / NEW)))


def _needed(trial: Trial, ended: Ended) -> set[str]:
    """Return the files that a new fit must have; the page, which comes last, only if it ended well."""
    names = set(visible_files(trial.ready / NEW))
    return names if ended.status == OK else names - {PAGE}


def _copy_table(trial: Trial) -> None:
    copied(trial.ready, f"{NEW}.csv", trial.folder)


def _check_first_fit(trial: Trial, ended: Ended) -> None:
    """Demand a whole fit or none, in a folder that was not there."""
    demand_unmixed(trial.folder / "out")
    trial.command("suggest", "out")
    mark = demand_one_fit(trial.folder / "out", {}, _needed(trial, ended))
    trial.demand(ended.status != OK or mark == NEW, "lost", "the fit was acknowledged and is not there")
    again = trial.command("fit", f"{NEW}.csv", "--label", LABEL, "--out", "out", *FIT)
    trial.demand(again.status == OK, "lost", f"the next fit fails: {again.err[-300:]}")


def _copy_model(trial: Trial) -> None:
    copied(trial.ready, OLD, trial.folder)
    copied(trial.ready, f"{OLD}.csv", trial.folder)
    (trial.folder / "labels.csv").write_text("what was there before\n")


def _check_predictions(trial: Trial, ended: Ended) -> None:
    content = (trial.folder / "labels.csv").read_bytes()
    whole = content == (trial.ready / f"{OLD}-again.csv").read_bytes()
    trial.demand(
        whole or content == b"what was there before\n", "lost", f"{len(content)} bytes of neither file"
    )
    trial.demand(ended.status != OK or whole, "lost", "predictions were acknowledged and are not there")
    trial.demand(
        visible_files(trial.folder / OLD) == visible_files(trial.ready / OLD), "lost", "the fit was changed"
    )


def _copy_runs(trial: Trial) -> None:
    for path in copied(trial.ready, "runs", trial.folder).glob("report.*"):
        path.write_text("what was there before\n")


def _check_report(trial: Trial, ended: Ended) -> None:
    """Demand run lines as they were, and of each file of the report the old or the new one."""
    found, ready = visible_files(trial.folder / "runs"), visible_files(trial.ready / "runs")
    for name, content in ready.items():
        old = name.startswith("report.") and found.get(name) == b"what was there before\n"
        trial.demand(
            old or found.get(name) == content, "lost", f"{name} is neither the old one nor the new one"
        )
        trial.demand(ended.status != OK or not old, "lost", f"{name} was acknowledged and is the old one")


def _check_experiment(trial: Trial, ended: Ended) -> None:
    """Demand that going on keeps each whole line, runs the rest, and doubles none."""
    runs = trial.folder / "runs" / "runs.jsonl"
    before = runs.read_bytes() if runs.is_file() else b""
    whole = before[: before.rfind(b"\n") + 1]
    if ended.status == OK:
        demand_written(trial, ended)
        trial.demand(len(whole.splitlines()) == N_RUNS, "lost", "lines were acknowledged and are not there")
    again = trial.command(*PLANS["reproduce"].words)
    trial.demand(again.status == OK, "lost", f"the experiment cannot go on: {again.err[-300:]}")
    after = runs.read_bytes()
    trial.demand(after.startswith(whole), "lost", "lines that were there are not any more")
    keys = Tally(json.loads(line)["key"] for line in after.splitlines())
    lines = after.splitlines()
    trial.demand(len(keys) == len(lines), "doubled", f"{len(lines)} lines of {len(keys)} runs")
    trial.demand(len(lines) == N_RUNS, "lost", f"{len(lines)} lines instead of {N_RUNS}")


def _check_features(trial: Trial, ended: Ended) -> None:
    """Demand that the next start ends with the same values, and leaves no more files than it should."""
    if ended.status == OK:
        trial.demand(
            tensor_bytes(trial.folder / "data") == tensor_bytes(trial.ready / "data"),
            "lost",
            "other features",
        )
    again = trial.command(*PLANS["features"].words, before=use_small_images)
    trial.demand(again.status == OK, "lost", f"the features cannot be made any more: {again.err[-300:]}")
    same = tensor_bytes(trial.folder / "data") == tensor_bytes(trial.ready / "data")
    trial.demand(same, "wrong result", "features after a fault are others than without")
    names = [set(visible_files(folder / "data")) for folder in (trial.folder, trial.ready)]
    trial.demand(names[0] == names[1], "doubled", f"files {names[0] ^ names[1]} too many or too few")


def _nothing(_: Trial) -> None:
    pass


PLANS: dict[str, Plan] = {
    "fit": Plan(_copy_fit, ("fit", f"{NEW}.csv", "--label", LABEL, "--out", OLD, *FIT), _check_fit),
    "first fit": Plan(
        _copy_table, ("fit", f"{NEW}.csv", "--label", LABEL, "--out", "out", *FIT), _check_first_fit
    ),
    "predict": Plan(_copy_model, ("predict", OLD, f"{OLD}.csv", "--out", "labels.csv"), _check_predictions),
    "report": Plan(_copy_runs, ("report", "runs"), _check_report),
    "reproduce": Plan(
        lambda trial: write_experiment(trial.folder),
        ("reproduce", "spec.toml", "--out", "runs", "--jobs", "1", "--data", "data"),
        _check_experiment,
    ),
    "features": Plan(_nothing, ("features", "cifar10", "--data", "data"), _check_features, use_small_images),
}


def faulty_disk(trial: Trial) -> None:
    """Let one change of a command fail, be cut or be its last; all changes and faults have their turn."""
    name, fault, when = trial.in_turn(_all_faults(rehearsed(trial.ready)))
    trial.tell(f"{name}: {fault.name} at change {when}")
    plan = PLANS[name]
    plan.set_up(trial)
    before = _both(plan.before, Counter().arm(trial.folder, fault, when))
    ended = trial.command(*plan.words, before=before, expected_signal=fault.signal or None)
    _check(trial, plan, ended)


def killed(trial: Trial) -> None:
    """Kill ``fit``, ``reproduce`` or ``features`` at a random moment; nothing is lost, nothing doubled."""
    name = trial.in_turn(("fit", "reproduce", "features"))
    plan = PLANS[name]
    longest = rehearsed(trial.ready)[name]["seconds"]
    for _ in range(10):
        plan.set_up(trial)
        moment = float(trial.random.uniform(0, longest))
        trial.tell(f"{name}: kill after {moment:.3f} s")
        ended = trial.command(*plan.words, before=plan.before, kill_after=moment)
        if ended.signal is not None:
            break
        # It was quicker than before, as when less else runs. What it did is of no interest here.
        longest = ended.seconds
        empty_folder(trial.folder)
    _check(trial, plan, ended)


def empty_folder(folder: Path) -> None:
    """Remove all that is in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _check(trial: Trial, plan: Plan, ended: Ended) -> None:
    """Check what a command left; the outcome of the case is that command's, not that of the checks."""
    outcome = trial.outcome
    plan.check(trial, ended)
    trial.outcome = outcome


def _all_faults(plans: dict[str, dict[str, float]]) -> list[tuple[str, Fault, int]]:
    """Return each fault at each change of each plan."""
    return [
        (name, fault, when)
        for name, known in plans.items()
        for fault in FAULTS
        for when in range(1, int(known["changes"]) + 1)
    ]


def _both(first: Callable[[], object] | None, second: Callable[[], object]) -> Callable[[], object]:
    def both() -> None:
        if first is not None:
            first()
        second()

    return both


def rehearse(ready: Path) -> None:
    """Run each plan as it should be, and write down its seconds and how many changes it makes."""
    known = {}
    for name, plan in PLANS.items():
        folder = ready / "rehearsal"
        folder.mkdir()
        trial, counter = Trial(folder, ready, "rehearsal"), Counter()
        plan.set_up(trial)
        before = _both(plan.before, counter.arm(folder)) if have_faults() else plan.before
        ended = trial.command(*plan.words, before=before)
        if ended.status != OK or bool(counter.value) != have_faults():
            raise RuntimeError(f"{name} made {counter.value} changes: {ended.said}")
        known[name] = {"seconds": ended.seconds, "changes": counter.value}
        shutil.rmtree(folder)
    (ready / "rehearsed.json").write_text(json.dumps(known))


def rehearsed(ready: Path) -> dict[str, dict[str, float]]:
    """Return what `rehearse` wrote down, by the name of the plan."""
    return dict(json.loads((ready / "rehearsed.json").read_text()))


def signalled_start(trial: Trial) -> None:
    """Start a real process, and interrupt it at a random moment of its start or its work."""
    _copy_fit(trial)
    number = trial.in_turn((signal.SIGINT, signal.SIGTERM))
    moment = float(trial.random.uniform(0.05, 6))
    trial.tell(f"python -m dahgnn {' '.join(PLANS['fit'].words)}: {number.name} after {moment:.2f} s")
    ended = _interrupt(trial, number, moment)
    # Python ends itself by SIGINT if the signal met a library that was running Python code of its own.
    judge(ended, signal.SIGINT if ended.signal == signal.SIGINT else number)
    trial.outcome = "ok" if ended.status == OK else "interrupted"
    _check(trial, PLANS["fit"], ended)


def _interrupt(trial: Trial, number: signal.Signals, moment: float) -> Ended:
    """Run a fit as a program of its own, send it a signal, and wait for its end."""
    command = [sys.executable, "-m", "dahgnn", *PLANS["fit"].words]
    with subprocess.Popen(  # noqa: S603, the words are ours
        command, cwd=trial.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            out, err = process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            try:
                out, err = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                return Ended(None, None, "", "", PATIENCE)
    code = process.returncode
    return Ended(code if code >= 0 else None, -code if code < 0 else None, out, err, moment)
