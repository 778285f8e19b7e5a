"""What an experiment is: datasets, methods, label counts, runs, and the published numbers beside them.

Counts of labels have two names in code: ``labels_per_class`` counts those of one class, ``n_labelled`` those
of all. Files keep the word ``labels``, so that all versions read one another's. In a spec file, which may
also say ``labels_per_class``, and in ``spec.json`` it is the former, in run lines the latter.
"""

from __future__ import annotations

import re
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from dahgnn.baselines.registry import NetworkKind, find_kind
from dahgnn.checks import (
    bad_type,
    bad_value,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_seed,
    did_you_mean,
)
from dahgnn.config import TrainingConfig
from dahgnn.experiments.datasets import DATASETS, DatasetSpec, allowed_settings
from dahgnn.experiments.keys import Table, check_keys, check_name, check_title
from dahgnn.experiments.methods import MethodSpec, parse_method, vary

# Of any count in a spec; a slip of the finger should not fill the memory with jobs.
MOST = 100_000
# Of the counts in a list, and of the fits of an experiment.
MOST_COUNTS = 1000
MOST_FITS = 1_000_000
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search for settings, on validation nodes alone.

    Parameters
    ----------
    method : str
        The method whose settings are varied.
    trials : int
        Settings to try.
    space : mapping
        By "model.…" or "training.…": a list to choose from, or a table with low and high, and log or step.
    seed : int
        The source of the sampler's randomness.
    """

    method: str
    trials: int
    space: Mapping[str, Any]
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An experiment: which methods run on which datasets, how often, and what the paper printed.

    Parameters
    ----------
    name, title : str
        What run lines call it, and the title over its tables.
    runs : int
        Repetitions, each with a split of its own that all methods share.
    labels_per_class : tuple of int
        Labelled nodes of each class; a dataset may have others.
    validation : int
        Validation nodes of each class; a dataset may have others. Without any, methods hold out labelled
        nodes by themselves, or take their defaults, and networks are stopped by their training loss.
    k : int
        Neighbours of a node.
    datasets, methods : tuple
        See there.
    published : mapping
        Printed percentages, mean and deviation, by dataset, method and number of labelled nodes.
    comparisons : tuple of pairs
        Methods to test against each other.
    figure : tuple of str
        Methods whose embeddings are drawn, for an experiment that ends in a figure.
    search : Search, optional
        What makes the experiment a search; its runs are those of every trial.
    """

    name: str
    title: str
    runs: int
    labels_per_class: tuple[int, ...]
    validation: int
    k: int
    datasets: tuple[DatasetSpec, ...]
    methods: tuple[MethodSpec, ...]
    published: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]]
    comparisons: tuple[tuple[str, str], ...] = ()
    figure: tuple[str, ...] = ()
    search: Search | None = None

    def dataset(self, name: str) -> DatasetSpec:
        """Return one of the datasets."""
        return next(each for each in self.datasets if each.name == name)

    def labels_on(self, name: str) -> tuple[int, ...]:
        """Return the labelled nodes of each class of a dataset."""
        return self.dataset(name).labels_per_class or self.labels_per_class

    def validation_on(self, name: str) -> int:
        """Return the validation nodes of each class of a dataset."""
        own = self.dataset(name).validation
        return self.validation if own is None else own

    def as_json(self) -> dict[str, Any]:
        """Return what the report needs, see `read_spec`."""
        whole = asdict(self) | {
            "datasets": [each.as_json() for each in self.datasets],
            "methods": [
                asdict(method)
                | {"settings": {name: each.as_json() for name, each in method.settings.items()}}
                for method in self.methods
            ],
        }
        for entry in (whole, *whole["datasets"]):
            entry["labels"] = entry.pop("labels_per_class")
        return whole


def builtin_specs() -> list[str]:
    """Return the names of the specs that come with the package."""
    folder = resources.files("dahgnn.experiments") / "specs"
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir() if path.name.endswith(".toml"))


def load_spec(source: str | Path) -> Spec:
    """Load a spec by its name, or from a TOML file.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is none, or a key or a value is wrong; the message suggests the nearest name.
    """
    known = builtin_specs()
    if str(source) in known:
        text = (resources.files("dahgnn.experiments") / "specs" / f"{source}.toml").read_text(
            encoding="utf-8"
        )
    elif Path(source).is_file():
        text = _read_text(Path(source))
    else:
        hint = did_you_mean(str(source), known) or f"There are: {', '.join(known)}."
        raise FileNotFoundError(f"There is no spec or TOML file '{source}'. {hint}")
    folder = None if str(source) in known else Path(source).absolute().parent
    try:
        return parse_spec(tomllib.loads(text), folder)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"The spec '{source}' is not TOML: {error}.") from error
    except RecursionError as error:
        raise ValueError(f"The spec '{source}' must be TOML. Got too many brackets in brackets.") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"The spec '{source}' cannot be used. {error}") from error


def _read_text(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        size = f"{path.stat().st_size:,} bytes"
        raise ValueError(f"The spec '{path}' must be a file of at most {_MOST_BYTES:,} bytes. Got {size}.")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"The spec '{path}' must be a text in UTF-8. Got other bytes.") from error


def parse_spec(table: Table, folder: Path | None = None) -> Spec:
    """Make a spec from a table such as that of a TOML file.

    Parameters
    ----------
    table : mapping
        The content of the file.
    folder : Path, optional
        The folder that relative paths of datasets start from; the data folder by default.
    """
    if isinstance(table, Mapping):
        table = _with_new_keys(table)
    known = {each.name for each in fields(Spec)} - {"datasets", "methods"} | {"dataset", "method", "labels"}
    check_keys(table, known, "A spec", required=("name", "runs", "labels", "dataset", "method"))
    _check_values(table)
    datasets = tuple(_dataset(name, entry, folder) for name, entry in table["dataset"].items())
    methods = tuple(parse_method(name, entry, datasets) for name, entry in table["method"].items())
    names = [method.name for method in methods]
    if len({method.title for method in methods}) < len(methods):
        raise ValueError("Methods of a spec must have different titles.")
    _check_fits(table, datasets, methods)
    return Spec(
        name=table["name"],
        title=table.get("title", table["name"]),
        runs=table["runs"],
        labels_per_class=tuple(table["labels"]),
        validation=table.get("validation", 100),
        k=table.get("k", 10),
        datasets=datasets,
        methods=methods,
        published=_published(table.get("published", {}), datasets, names),
        comparisons=tuple(_pair(pair, names) for pair in table.get("comparisons", [])),
        figure=_figure(table, datasets, methods),
        search=_search(table["search"], methods) if "search" in table else None,
    )


def _with_new_keys(table: Table) -> dict[str, Any]:
    """Return a table that says "labels", whichever of its two names the key has."""
    if "labels" in table and "labels_per_class" in table:
        raise ValueError("'labels' and 'labels_per_class' are two names of one key. Remove one of them.")
    return {"labels" if key == "labels_per_class" else key: value for key, value in table.items()}


def _check_values(table: Table) -> None:
    check_name(table["name"], "a spec")
    check_title(table.get("title", table["name"]), "a spec")
    for name in ("dataset", "method"):
        if not isinstance(table[name], Mapping) or not table[name]:
            raise bad_value(name, "a spec", f"tables such as [{name}.…]", repr(table[name]))
    _check_counts(table, "a spec")
    for name in ("comparisons", "figure"):
        if not isinstance(table.get(name, []), list):
            raise bad_type(name, "a spec", "a list", repr(table[name]))


def _check_counts(table: Table, owner: str) -> None:
    """Refuse counts that are none, and too many to be meant."""
    labels = table.get("labels", [1])
    if not isinstance(labels, list) or not labels or len(set(map(str, labels))) < len(labels):
        raise bad_value("labels", owner, "a list of different counts", reprlib.repr(labels))
    if len(labels) > MOST_COUNTS:
        raise bad_value("labels", owner, f"at most {MOST_COUNTS} counts", f"{len(labels)} of them")
    counts = [("labels", each) for each in labels]
    for name, value in (*counts, *((name, table.get(name, 1)) for name in ("runs", "validation", "k"))):
        check_count(name, value, owner, low=0 if name == "validation" else 1)
        if value > MOST:
            raise bad_value(name, owner, f"at most {MOST}", value)


def _check_fits(table: Table, datasets: Sequence[DatasetSpec], methods: Sequence[MethodSpec]) -> None:
    """Refuse a spec of more fits than anybody waits for."""
    columns = sum(len(each.labels_per_class or table["labels"]) for each in datasets)
    fits = table["runs"] * columns * len(methods)
    if fits > MOST_FITS:
        raise ValueError(
            f"A spec must have at most {MOST_FITS:,} fits (runs · label counts · methods). Got {fits:,}."
        )


def _figure(table: Table, datasets: Sequence[DatasetSpec], methods: Sequence[MethodSpec]) -> tuple[str, ...]:
    """Read the methods of a figure, which shows one run of networks on one dataset."""
    names = table.get("figure", [])
    for name in names:
        check_choice("figure", name, _networks(methods), "a spec")
    if names and (len(datasets), len(table["labels"]), table["runs"]) != (1, 1, 1):
        raise ValueError("A spec with a figure must have one dataset, one label count and one run.")
    if names and not datasets[0].has_images:
        raise ValueError(f"A spec with a figure must have a dataset of images. Got '{datasets[0].name}'.")
    return tuple(names)


def _networks(methods: Sequence[MethodSpec]) -> list[str]:
    return [method.name for method in methods if isinstance(find_kind(method.kind), NetworkKind)]


def _dataset(name: str, entry: object, folder: Path | None) -> DatasetSpec:
    owner = f"The dataset '{name}'"
    if not isinstance(entry, Mapping):
        raise TypeError(f"{owner} must be a table. Got {entry!r}.")
    table = _with_new_keys(entry)
    if "file" not in table:
        check_choice("name", name, tuple(DATASETS), owner[0].lower() + owner[1:])
    check_keys(table, allowed_settings(name, table) - {"labels_per_class"} | {"labels"}, owner)
    check_name(name, owner)
    _check_counts(table, owner[0].lower() + owner[1:])
    if "title" in table:
        check_title(table["title"], owner)
    labels = table.pop("labels", None)
    return DatasetSpec(
        name=name, folder=folder, labels_per_class=None if labels is None else tuple(labels), **table
    )


_TWO_NUMBERS = [[float, float], [float, int], [int, float], [int, int]]


def _search(entry: Any, methods: Sequence[MethodSpec]) -> Search:
    owner = "'search'"
    check_keys(entry, {each.name for each in fields(Search)}, owner, required=("method", "trials", "space"))
    check_choice("method", entry["method"], _networks(methods), owner)
    check_count("trials", entry["trials"], owner)
    if entry["trials"] > MOST:
        raise bad_value("trials", owner, f"at most {MOST}", entry["trials"])
    method = next(method for method in methods if method.name == entry["method"])
    known = {f"training.{each.name}" for each in fields(TrainingConfig)}
    kind = find_kind(method.kind)
    known |= {f"model.{name}" for name in kind.settings} if isinstance(kind, NetworkKind) else set()
    check_keys(entry["space"], known, "'search.space'")
    for name, values in entry["space"].items():
        _check_space(values, f"{owner} for '{name}'")
        _check_reach(name, values, method)
    check_seed(entry.get("seed", 0), owner)
    return Search(**entry)


def _check_space(values: object, owner: str) -> None:
    """Refuse what is neither a list of plain values nor a range."""
    if (
        isinstance(values, list)
        and values
        and all(isinstance(each, (bool, int, float, str)) for each in values)
    ):
        return
    if not isinstance(values, Mapping):
        raise ValueError(f"{owner} must be a list of values or a table. Got {values!r}.")
    check_keys(values, {"low", "high", "log", "step"}, owner, required=("low", "high"))
    for name in ("low", "high", "step"):
        check_number(name, values.get(name, 1), owner)
    check_flag("log", values.get("log", False), owner)
    low, whole = values["low"], all(isinstance(values[name], int) for name in ("low", "high"))
    if values.get("step", 1) <= 0 or (whole and not isinstance(values.get("step", 1), int)):
        raise ValueError(
            f"{owner} must have a step above 0, a whole one between whole numbers. Got {dict(values)}."
        )
    if low > values["high"] or (values.get("log") and (low <= 0 or "step" in values)):
        raise ValueError(f"{owner} must have low ≤ high; with log, low > 0 and no step. Got {dict(values)}.")


def _check_reach(name: str, values: Any, method: MethodSpec) -> None:
    """Refuse a value that the network would refuse, before the first trial and not in the middle of them."""
    for value in values if isinstance(values, list) else (values["low"], values["high"]):
        for settings in method.settings.values():
            try:
                vary(settings, {name: value})
            except (TypeError, ValueError) as error:
                raise ValueError(f"'search' for '{name}' cannot try {value!r}. {error}") from error


def _pair(pair: object, names: Sequence[str]) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise bad_value("comparisons", "a spec", "pairs of methods", repr(pair))
    for name in pair:
        check_choice("comparisons", name, names, "a spec")
    return pair[0], pair[1]


def _published(
    table: Table, datasets: Sequence[DatasetSpec], names: Sequence[str]
) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Read the printed numbers: by dataset, method and labelled nodes, [mean, deviation] in percent."""
    check_keys(table, {each.name for each in datasets}, "'published'")
    result: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for dataset, rows in table.items():
        check_keys(rows, set(names), f"'published.{dataset}'")
        for method, row in rows.items():
            if not isinstance(row, Mapping) or not all(re.fullmatch(r"[1-9]\d{0,8}", key) for key in row):
                owner = f"'published.{dataset}.{method}'"
                raise ValueError(f"{owner} must have label counts as keys. Got {row!r}.")
        result[dataset] = {
            method: {count: _numbers(pair, f"published.{dataset}.{method}") for count, pair in row.items()}
            for method, row in rows.items()
        }
    return result


def _numbers(pair: object, owner: str) -> tuple[float, float]:
    if isinstance(pair, list) and [type(number) for number in pair] in _TWO_NUMBERS:
        mean, deviation = pair
        if 0 <= mean <= 100 and 0 <= deviation <= 100:
            return float(mean), float(deviation)
    raise ValueError(f"'{owner}' must hold [mean, deviation] in percent for each count. Got {pair!r}.")
