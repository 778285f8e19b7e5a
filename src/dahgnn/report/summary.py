"""Summarise run lines: means and deviations beside the paper's, paired tests, and times."""

from __future__ import annotations

import logging
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dahgnn.checks import bad_value, did_you_mean
from dahgnn.environment import name_device
from dahgnn.files.jsonl import Line
from dahgnn.report.significance import PairedTest, compare_runs, holm

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A row of the tables; the charts hide some methods until a reader asks for them."""

    name: str
    title: str
    ours: bool
    hidden_at_first: bool


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What the runs of one method on one dataset with one number of labels gave, accuracies in percent.

    Parameters
    ----------
    dataset, method : str
        Names as in the run lines.
    n_labelled : int
        How many nodes are labelled, over all classes.
    runs : tuple of int
        The runs that are there, in order.
    values : tuple of float
        Test accuracy of each of them.
    mean : float
        The mean of the values.
    deviation : float or None
        Standard deviation of the values, with n − 1 in the denominator; none of a single run.
    seconds : float
        The mean time of a fit.
    epochs : float or None
        The mean number of epochs of a fit; none for methods without epochs.
    published : tuple of float or None
        Mean and deviation that the paper prints for this method.
    """

    dataset: str
    method: str
    n_labelled: int
    runs: tuple[int, ...]
    values: tuple[float, ...]
    mean: float
    deviation: float | None
    seconds: float
    epochs: float | None
    published: tuple[float, float] | None

    @property
    def n(self) -> int:
        """The number of runs."""
        return len(self.values)

    @property
    def difference(self) -> float | None:
        """Our mean less the printed one, in points."""
        return None if self.published is None else self.mean - self.published[0]

    @property
    def agrees(self) -> bool | None:
        """Whether the printed mean is within two joint standard deviations; none if that cannot be said."""
        return None if self.published is None else agrees(self, self.published)


def agrees(cell: Cell, printed: tuple[float, float]) -> bool | None:
    """Say whether |mean − printed| ≤ 2 √(s² + s_printed²), or None for a single run."""
    if cell.deviation is None:
        return None
    return abs(cell.mean - printed[0]) <= 2 * math.hypot(cell.deviation, printed[1])


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How many of the paper's cells a method of ours meets.

    ``against`` is the method whose printed row is compared with: its own, or the fullest and then most
    accurate that is printed for a method of ours. ``within`` counts cells within two joint standard
    deviations, ``above`` those whose mean is higher than the printed one, ``ahead`` those where it is higher
    than that of every baseline with run lines (None if there is no such baseline), ``measured`` those with
    run lines, ``cells`` all that are printed.
    """

    method: str
    against: str
    within: int
    above: int
    ahead: int | None
    measured: int
    cells: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two methods on the same splits: first less second in points, and whether that may be chance.

    ``wilcoxon`` and ``t_test`` are two-sided p-values, ``…_holm`` the same corrected over the label counts
    of this pair and dataset. None marks what cannot be computed; ``note`` says why.
    """

    dataset: str
    first: str
    second: str
    n_labelled: int
    n: int
    difference: float | None
    low: float | None
    high: float | None
    wilcoxon: float | None
    t_test: float | None
    wilcoxon_holm: float | None
    t_test_holm: float | None
    note: str


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All that the report says, from run lines and their specification.

    ``datasets`` maps the names of those with lines to their titles, and ``absent`` holds the titles of the
    rest. ``label_counts`` holds the columns of each dataset's table, which are numbers of labelled nodes.
    ``devices`` counts the lines of each device, and ``versions`` are those of packages. ``cnn`` holds the
    test accuracies of the CNNs whose features were used, by the dataset's title.
    """

    name: str
    title: str
    runs: int
    datasets: dict[str, str]
    absent: tuple[str, ...]
    methods: tuple[Method, ...]
    label_counts: dict[str, tuple[int, ...]]
    cells: dict[tuple[str, str, int], Cell]
    printed: dict[tuple[str, str, int], tuple[float, float]]
    agreements: tuple[Agreement, ...]
    comparisons: tuple[Comparison, ...]
    n_lines: int
    expected: int
    devices: dict[str, int]
    versions: dict[str, str]
    cnn: dict[str, float]
    first: str
    last: str

    @property
    def hardware(self) -> str:
        """The names of the devices, with the number of lines where there are several."""
        if len(self.devices) == 1:
            return next(iter(self.devices))
        return "; ".join(f"{device} ({count:,} lines)" for device, count in self.devices.items())

    def title_of(self, method: str) -> str:
        """Return the title of a method."""
        return next(known.title for known in self.methods if known.name == method)


def summarise(lines: Sequence[Line], spec: Mapping[str, Any]) -> Summary:
    """Aggregate run lines by dataset, method and number of labels, and compare.

    Parameters
    ----------
    lines : sequence of dict
        From `read_lines`. Those of a method or dataset that the specification has not are left out, with a
        warning.
    spec : mapping
        The resolved specification.

    Raises
    ------
    ValueError
        If there are no lines, two lines are the same run of a cell, a comparison names no method, or a line
        is of a run or label count that the specification has not.
    """
    methods = tuple(_method(entry) for entry in spec["methods"])
    titles = {entry["name"]: entry.get("title", entry["name"]) for entry in spec["datasets"]}
    known = _known(lines, titles, {method.name for method in methods})
    if not known:
        raise bad_value("lines", "summarise", "at least one run line", "none", "Run the experiment first.")
    datasets = {name: title for name, title in titles.items() if any(x["dataset"] == name for x in known)}
    per_class = {entry["name"]: entry.get("labels") or spec["labels"] for entry in spec["datasets"]}
    label_counts = {name: _columns(known, name, per_class[name]) for name in datasets}
    _check_places(known, per_class, spec["runs"])
    printed = _printed(spec, label_counts)
    groups = _group(known)
    cells = {place: _cell(place, group, printed.get(place)) for place, group in groups.items()}
    finished = sorted((line["finished"] for line in known), key=_moment)
    return Summary(
        name=spec["name"],
        title=spec["title"],
        runs=spec["runs"],
        datasets=datasets,
        absent=tuple(title for name, title in titles.items() if name not in datasets),
        methods=methods,
        label_counts=label_counts,
        cells=cells,
        printed=printed,
        agreements=_agreements(methods, cells, printed),
        comparisons=_comparisons(groups, datasets, label_counts, _pairs(spec, methods)),
        n_lines=len(known),
        expected=sum(map(len, per_class.values())) * len(methods) * spec["runs"],
        devices=dict(sorted(Counter(name_device(line["device"]) for line in known).items())),
        versions=_versions(known),
        cnn={
            titles[line["dataset"]]: float(line["cnn"]["test_accuracy"]) for line in known if line.get("cnn")
        },
        first=finished[0],
        last=finished[-1],
    )


def _method(entry: Mapping[str, Any]) -> Method:
    return Method(
        name=entry["name"],
        title=entry.get("title", entry["name"]),
        ours=bool(entry.get("ours", False)),
        # Earlier versions wrote "aside".
        hidden_at_first=bool(entry.get("hidden_at_first", entry.get("aside", False))),
    )


def _known(lines: Sequence[Line], datasets: Iterable[str], methods: set[str]) -> list[Line]:
    known = [line for line in lines if line["dataset"] in set(datasets) and line["method"] in methods]
    if len(known) < len(lines):
        logger.warning(
            "%d lines are of no method or dataset of spec.json and left out.", len(lines) - len(known)
        )
    return known


def _check_places(lines: Sequence[Line], per_class: Mapping[str, Sequence[int]], runs: int) -> None:
    """Refuse lines of a run or label count that the specification has not."""
    for line in lines:
        n_classes = len(line.get("confusion") or ())
        counts = [n_classes * count for count in per_class[line["dataset"]]]
        if line["run"] >= runs or (n_classes and line["labels"] not in counts):
            asked = f"{runs} runs" + (f" with {', '.join(map(str, counts))} labels" if n_classes else "")
            raise ValueError(
                f"Run {line['run']} of {line['method']} on {line['dataset']} with {line['labels']} labels is "
                f"not one of spec.json, which asks for {asked}. Runs are counted from 0. Remove its line, or "
                "start again in a new folder."
            )


def _columns(lines: Sequence[Line], dataset: str, per_class: Sequence[int]) -> tuple[int, ...]:
    """Return the label counts that lines have, and those that the specification still asks for."""
    mine = [line for line in lines if line["dataset"] == dataset]
    found = {line["labels"] for line in mine}
    # The specification counts a class; how many classes there are, only a confusion matrix tells.
    classes = next((len(line["confusion"]) for line in mine if line.get("confusion")), 0)
    return tuple(sorted(found | {count * classes for count in per_class if classes}))


def _printed(
    spec: Mapping[str, Any], label_counts: Mapping[str, tuple[int, ...]]
) -> dict[tuple[str, str, int], tuple[float, float]]:
    """Return the paper's mean and deviation, in the columns that the tables have."""
    return {
        (dataset, method, int(count)): (float(values[0]), float(values[1]))
        for dataset in (entry["name"] for entry in spec["datasets"])
        for method, row in spec.get("published", {}).get(dataset, {}).items()
        for count, values in row.items()
        # Of a dataset without lines nobody knows the columns: all that is printed is still to be measured.
        if dataset not in label_counts or int(count) in label_counts[dataset]
    }


def _group(lines: Sequence[Line]) -> dict[tuple[str, str, int], dict[int, Line]]:
    """Return the lines of each cell by run, in order."""
    groups: dict[tuple[str, str, int], dict[int, Line]] = {}
    for line in sorted(lines, key=lambda line: int(line["run"])):
        place = (line["dataset"], line["method"], line["labels"])
        group = groups.setdefault(place, {})
        if line["run"] in group:
            raise ValueError(
                f"Run {line['run']} of {place[1]} on {place[0]} with {place[2]} labels must have one line. "
                f"Got keys {group[line['run']]['key']} and {line['key']}: the settings changed between them. "
                "Remove the older lines, or start again in a new folder."
            )
        group[line["run"]] = line
    return groups


def _cell(
    place: tuple[str, str, int], group: Mapping[int, Line], printed: tuple[float, float] | None
) -> Cell:
    values = tuple(100 * line["metrics"]["test_accuracy"] for line in group.values())
    epochs = [line["epochs"] for line in group.values() if line.get("epochs") is not None]
    return Cell(
        dataset=place[0],
        method=place[1],
        n_labelled=place[2],
        runs=tuple(group),
        values=values,
        mean=statistics.fmean(values),
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        seconds=statistics.fmean(line["seconds"] for line in group.values()),
        epochs=statistics.fmean(epochs) if epochs else None,
        published=printed,
    )


def _moment(finished: str) -> float:
    return datetime.fromisoformat(finished).timestamp()


def _versions(lines: Sequence[Line]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for line in lines:
        for name, version in line["versions"].items():
            found.setdefault(name, set()).add(str(version))
    return {name: " and ".join(sorted(found[name])) for name in sorted(found)}


def _agreements(
    methods: Sequence[Method],
    cells: Mapping[tuple[str, str, int], Cell],
    printed: Mapping[tuple[str, str, int], tuple[float, float]],
) -> tuple[Agreement, ...]:
    rows: dict[str, list[float]] = {}
    for (_, method, _), (mean, _) in printed.items():
        rows.setdefault(method, []).append(mean)
    ours = [method.name for method in methods if method.ours]
    candidates = [name for name in ours if name in rows]
    if not candidates:
        return ()
    # The row with the most cells is the hardest to meet, and among equals the most accurate.
    reference = max(candidates, key=lambda name: (len(rows[name]), statistics.fmean(rows[name])))
    best: dict[tuple[str, int], float] = {}
    for (dataset, method, n_labelled), cell in cells.items():
        if method not in ours:
            best[dataset, n_labelled] = max(cell.mean, best.get((dataset, n_labelled), -math.inf))
    return tuple(_agreement(name, name if name in rows else reference, cells, printed, best) for name in ours)


def _agreement(
    method: str,
    against: str,
    cells: Mapping[tuple[str, str, int], Cell],
    printed: Mapping[tuple[str, str, int], tuple[float, float]],
    best: Mapping[tuple[str, int], float],
) -> Agreement:
    mine = {(place[0], place[2]): values for place, values in printed.items() if place[1] == against}
    pairs = [
        (cells[dataset, method, n_labelled], values)
        for (dataset, n_labelled), values in mine.items()
        if (dataset, method, n_labelled) in cells
    ]
    return Agreement(
        method=method,
        against=against,
        within=sum(agrees(cell, values) is True for cell, values in pairs),
        above=sum(cell.mean > values[0] for cell, values in pairs),
        ahead=sum(cell.mean > best.get((cell.dataset, cell.n_labelled), math.inf) for cell, _ in pairs)
        if best
        else None,
        measured=len(pairs),
        cells=len(mine),
    )


def _pairs(spec: Mapping[str, Any], methods: Sequence[Method]) -> list[tuple[str, str]]:
    known = [method.name for method in methods]
    for name in (name for pair in spec.get("comparisons", []) for name in pair):
        if name not in known:
            raise bad_value(
                "comparisons", "spec.json", "pairs of its methods", repr(name), did_you_mean(name, known)
            )
    return [(first, second) for first, second in spec.get("comparisons", [])]


def _comparisons(
    groups: Mapping[tuple[str, str, int], Mapping[int, Line]],
    datasets: Iterable[str],
    label_counts: Mapping[str, tuple[int, ...]],
    pairs: Sequence[tuple[str, str]],
) -> tuple[Comparison, ...]:
    found: list[Comparison] = []
    for dataset in datasets:
        for pair in pairs:
            drafts = {
                count: compare_runs(*(groups.get((dataset, name, count), {}) for name in pair))
                for count in label_counts[dataset]
            }
            found += _corrected(dataset, pair, drafts)
    return tuple(found)


def _corrected(dataset: str, pair: tuple[str, str], drafts: Mapping[int, PairedTest]) -> list[Comparison]:
    """Correct the p-values of a pair over its label counts, and leave out cells without runs."""
    wilcoxon = holm([draft.wilcoxon for draft in drafts.values()])
    t_test = holm([draft.t_test for draft in drafts.values()])
    return [
        Comparison(
            dataset=dataset,
            first=pair[0],
            second=pair[1],
            n_labelled=n_labelled,
            wilcoxon_holm=wilcoxon[place],
            t_test_holm=t_test[place],
            **vars(draft),
        )
        for place, (n_labelled, draft) in enumerate(drafts.items())
        if draft.n
    ]
