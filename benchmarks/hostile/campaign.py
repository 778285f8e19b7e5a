"""The campaign: which cases run, each in a process of its own, and what is said of them at the end."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hostile.children import run_child
from hostile.fault_cases import rehearse
from hostile.faults import drop_library, have_faults, start_with_faults
from hostile.kinds import KINDS, Kind
from hostile.prepared import prepare
from hostile.trial import DemandError, Trial

# A case may run several commands, each with a watch of its own; this only guards the harness.
_PATIENCE = 300.0


@dataclass(frozen=True)
class Verdict:
    """What came of a case: an outcome, and if it failed the sort of failure and what happened."""

    case: str
    kind: str
    outcome: str
    seconds: float
    story: list[str]
    sort: str = ""
    text: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; the exit status is 1 if any case failed."""
    options = _parser().parse_args(arguments)
    start_with_faults()
    cases = [_parse(options.only)] if options.only else list(plan(options.cases, options.seed, options.kind))
    start = time.monotonic()
    try:
        verdicts = list(_told(run_cases(cases), options))
    finally:
        drop_library()
    print(table(verdicts))
    print(f"\n{len(verdicts)} cases in {time.monotonic() - start:.0f} s.", end=" ")
    print("" if have_faults() else "No C compiler was found: the kinds that inject faults were left out.")
    return int(any(verdict.sort for verdict in verdicts))


def _told(verdicts: Iterable[Verdict], options: argparse.Namespace) -> Iterator[Verdict]:
    """Pass verdicts on, and tell of each what was asked for, and of every failure."""
    for verdict in verdicts:
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
        if options.only or options.verbose:
            print(f"{verdict.case}  {verdict.outcome}  {verdict.seconds:.1f} s  {' | '.join(verdict.story)}")
        if verdict.sort:
            print(failure_text(verdict), flush=True)
        yield verdict


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hostile.py", description="Try to break dahgnn, by seeded cases.")
    parser.add_argument("--cases", type=int, default=300, metavar="N", help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of all cases (%(default)s)")
    parser.add_argument("--kind", nargs="+", choices=sorted(KINDS), metavar="NAME", help="only these kinds")
    parser.add_argument("--only", metavar="CASE", help="run one case again, by its name KIND-SEED-NUMBER")
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="append what came of each case")
    parser.add_argument("--verbose", action="store_true", help="tell of every case")
    return parser


def _parse(name: str) -> tuple[str, int, int]:
    kind, seed, number = name.rsplit("-", 2)
    if kind not in KINDS:
        raise SystemExit(f"The kind of a case must be one of {', '.join(sorted(KINDS))}. Got '{kind}'.")
    return kind, int(seed), int(number)


def plan(cases: int, seed: int, names: Sequence[str] | None = None) -> Iterator[tuple[str, int, int]]:
    """Yield kind, seed and number of so many cases, divided by the weights of the kinds."""
    chosen = {name: KINDS[name] for name in names or KINDS if have_faults() or not KINDS[name].needs_faults}
    for name, count in _shares(cases, chosen).items():
        yield from ((name, seed, number) for number in range(count))


def _shares(cases: int, kinds: dict[str, Kind]) -> dict[str, int]:
    """Divide cases by weight; what rounding leaves goes to the first kinds."""
    total = sum(kind.weight for kind in kinds.values())
    counts = {name: cases * kind.weight // total for name, kind in kinds.items()}
    for name in list(kinds)[: cases - sum(counts.values())]:
        counts[name] += 1
    return counts


def run_cases(cases: Iterable[tuple[str, int, int]]) -> Iterator[Verdict]:
    """Run cases one after the other, and yield what came of each."""
    _warm_up()
    root = Path(tempfile.mkdtemp(prefix="hostile-"))
    root.chmod(0o755)  # some cases give up the rights of the superuser, and still read
    try:
        ready = root / "ready"
        ready.mkdir()
        prepare(ready)
        rehearse(ready)
        for kind, seed, number in cases:
            yield run_case(kind, seed, number, root, ready)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _warm_up() -> None:
    """Import what commands import, with one thread each, so that forks are quick and safe."""
    import torch

    torch.set_num_threads(1)
    for name in (
        "jinja2", "pandas", "plotly.graph_objects", "pyarrow.parquet", "rich.progress", "sklearn.ensemble",
        "dahgnn.cli.commands", "dahgnn.cli.display", "dahgnn.report.fit_folder", "dahgnn.report.reproduce",
        "dahgnn.images.preparation", "dahgnn.explorer.run",
    ):  # fmt: skip
        __import__(name)


def run_case(kind: str, seed: int, number: int, root: Path, ready: Path) -> Verdict:
    """Run one case in a child, and return what came of it."""
    name = f"{kind}-{seed}-{number}"
    folder = root / "case"
    folder.mkdir()
    report = root / "verdict.json"
    report.unlink(missing_ok=True)

    def work() -> None:
        trial = Trial(folder, ready, kind, seed, number)
        report.write_text(json.dumps(_attempt(KINDS[kind], trial)), encoding="utf-8")

    ended = run_child(work, folder, patience=_PATIENCE)
    _remove(folder)
    if not report.is_file():
        text = f"the case itself ended with {ended.status}: {ended.err[-500:]}"
        return Verdict(name, kind, "failed", ended.seconds, [], "case", text)
    said = json.loads(report.read_text(encoding="utf-8"))
    return Verdict(case=name, kind=kind, seconds=round(ended.seconds, 2), **said)


def _attempt(kind: Kind, trial: Trial) -> dict[str, object]:
    """Run a case and say what came of it; one that breaks by itself is a failure of its own sort."""
    try:
        kind.run(trial)
    except DemandError as failure:
        return {"outcome": "failed", "story": trial.story, "sort": failure.sort, "text": failure.text}
    except Exception:  # noqa: BLE001, whatever it is must be told
        text = traceback.format_exc()[-1500:]
        return {"outcome": "failed", "story": trial.story, "sort": "case", "text": text}
    return {"outcome": trial.outcome, "story": trial.story}


def _remove(folder: Path) -> None:
    """Remove the folder of a case, whatever rights it has left."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


def failure_text(verdict: Verdict) -> str:
    """Say what failed, and how to see it again."""
    return (
        f"FAILED {verdict.sort}: {verdict.text}\n  after: {' | '.join(verdict.story)}\n"
        f"  again: python benchmarks/hostile.py --only {verdict.case}"
    )


def table(verdicts: Sequence[Verdict]) -> str:
    """Write the outcomes by kind as a Markdown table."""
    head = ("kind", "cases", "ok", "refused", "interrupted", "failed", "failures by sort", "seconds")
    rows = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * 5 + " --- | ---: |"]
    for kind in [*dict.fromkeys(verdict.kind for verdict in verdicts), "all"]:
        own = [verdict for verdict in verdicts if kind in (verdict.kind, "all")]
        counts = Counter(verdict.outcome for verdict in own)
        sorts = Counter(verdict.sort for verdict in own if verdict.sort)
        shown = ", ".join(f"{sort} {count}" for sort, count in sorted(sorts.items()))
        cells = [kind, len(own), *(counts[word] for word in ("ok", "refused", "interrupted", "failed"))]
        rows.append("| " + " | ".join(map(str, [*cells, shown, f"{sum(v.seconds for v in own):.0f}"])) + " |")
    return "\n".join(rows)
