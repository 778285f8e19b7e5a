"""What an experiment is: datasets, methods, label counts, runs, and the published numbers beside them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from dahgnn.baselines.graph_networks import GAT, GCN
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
from dahgnn.config import PRESETS, SCALES, ModelConfig, TrainingConfig
from dahgnn.images.datasets import CLASSES, N_CLASSES, TITLES
from dahgnn.nn.hgnn import HGNN
from dahgnn.nn.model import DAHGNN

NETWORKS: Mapping[str, type[DAHGNN | HGNN | GCN | GAT]] = {
    kind.__name__: kind for kind in (DAHGNN, HGNN, GCN, GAT)
}
CLASSICAL = ("LabelSpreading", "LogisticRegression", "LaplaceLearning")
FEATURES = ("pixels", "cnn")

_Table = Mapping[str, Any]

# Of any count in a spec; a slip of the finger should not fill the memory with jobs.
_MOST = 100_000


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """Which nodes of which dataset.

    Parameters
    ----------
    name : {"mnist", "cifar10", "svhn"}
        The dataset.
    part : {"train", "test"}
        Of its images.
    per_class : int or None
        Images drawn of each class; None takes all.
    skip : int
        Images of each class that are left to others: those that a spec of so many a class would draw.
    features : {"pixels", "cnn"}
        Grey values, or those of the 13-layer CNN, which are of the test images.
    """

    name: str
    part: str = "train"
    per_class: int | None = None
    skip: int = 0
    features: str = "pixels"

    def __post_init__(self) -> None:
        owner = f"the dataset '{self.name}'"
        check_choice("name", self.name, tuple(TITLES), owner)
        check_choice("part", self.part, ("train", "test"), owner)
        check_choice("features", self.features, FEATURES, owner)
        if self.per_class is not None:
            check_count("per_class", self.per_class, owner)
        check_count("skip", self.skip, owner, low=0)
        if self.skip and self.per_class is None:
            raise bad_value("skip", owner, "0 where all images are taken", self.skip)
        if self.features == "cnn" and self.name == "mnist":
            raise bad_value("features", owner, "'pixels': the CNN is for pictures in colour", "'cnn'")
        if self.features == "cnn" and self.part != "test":
            raise bad_value("part", owner, "'test' where the features are those of the CNN", repr(self.part))

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return TITLES[self.name]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A method with all its settings: what a run line says of it.

    Parameters
    ----------
    kind : str
        A network or a classical method.
    model, training : mapping
        Of a network.
    networks : int
        How many are trained for a run, from different weights; their logits are averaged.
    scale : str
        What is done to the features of a network first, see `Preset`; neighbours are those of the features
        as they are.
    """

    kind: str
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    networks: int = 1
    scale: str = "none"

    @property
    def is_network(self) -> bool:
        """Whether it is trained by `fit`."""
        return self.kind in NETWORKS


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A row of the tables.

    Parameters
    ----------
    name, title : str
        In run lines, and in tables.
    kind : str
        A network or a classical method.
    ours : bool
        Whether it is this package's own.
    aside : bool
        Whether charts begin without it; its button brings it in.
    settings : mapping of str to Settings
        On each dataset.
    """

    name: str
    title: str
    kind: str
    ours: bool
    aside: bool
    settings: Mapping[str, Settings]


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search for settings, on validation nodes alone.

    Parameters
    ----------
    method : str
        Whose settings are varied.
    trials : int
        Settings to try.
    space : mapping
        By "model.…" or "training.…": a list to choose from, or a table with low and high, and log or step.
    seed : int
        Of the sampler.
    """

    method: str
    trials: int
    space: Mapping[str, Any]
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An experiment.

    Parameters
    ----------
    name, title : str
        In run lines, and over tables.
    runs : int
        Repetitions, each with a split of its own that all methods share.
    labels : tuple of int
        Labelled nodes of each class.
    validation : int
        Validation nodes of each class.
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
        For an experiment that is a search; its runs are those of every trial.
    """

    name: str
    title: str
    runs: int
    labels: tuple[int, ...]
    validation: int
    k: int
    datasets: tuple[DatasetSpec, ...]
    methods: tuple[MethodSpec, ...]
    published: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]]
    comparisons: tuple[tuple[str, str], ...] = ()
    figure: tuple[str, ...] = ()
    search: Search | None = None

    @property
    def label_counts(self) -> list[int]:
        """Labelled nodes in all, of each column."""
        return [N_CLASSES * count for count in self.labels]

    def as_json(self) -> dict[str, Any]:
        """Return what the report needs, see `summary.read_spec`."""
        whole = asdict(self)
        whole["datasets"] = [
            asdict(each) | {"title": each.title, "classes": CLASSES.get(each.name, ())}
            for each in self.datasets
        ]
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
        try:
            text = Path(source).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"The spec '{source}' must be a text in UTF-8. Got other bytes.") from error
    else:
        hint = did_you_mean(str(source), known) or f"There are: {', '.join(known)}."
        raise FileNotFoundError(f"There is no spec or TOML file '{source}'. {hint}")
    try:
        return parse_spec(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"The spec '{source}' is not TOML: {error}.") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"The spec '{source}' cannot be used. {error}") from error


def parse_spec(table: _Table) -> Spec:
    """Make a spec from a table such as that of a TOML file."""
    known = {each.name for each in fields(Spec)} - {"datasets", "methods"} | {"dataset", "method"}
    _check_keys(table, known, "A spec", required=("name", "runs", "labels", "dataset", "method"))
    _check_values(table)
    datasets = tuple(_dataset(name, entry) for name, entry in table["dataset"].items())
    methods = tuple(_method(name, entry, datasets) for name, entry in table["method"].items())
    names = [method.name for method in methods]
    if len({method.title for method in methods}) < len(methods):
        raise ValueError("Methods of a spec must have different titles.")
    return Spec(
        name=table["name"],
        title=table.get("title", table["name"]),
        runs=table["runs"],
        labels=tuple(table["labels"]),
        validation=table.get("validation", 100),
        k=table.get("k", 10),
        datasets=datasets,
        methods=methods,
        published=_published(table.get("published", {}), datasets, names),
        comparisons=tuple(_pair(pair, names) for pair in table.get("comparisons", [])),
        figure=_figure(table, datasets, methods),
        search=_search(table["search"], methods) if "search" in table else None,
    )


def _check_values(table: _Table) -> None:
    _check_name(table["name"], "a spec")
    _check_title(table.get("title", table["name"]), "a spec")
    for name in ("dataset", "method"):
        if not isinstance(table[name], Mapping) or not table[name]:
            raise bad_value(name, "a spec", f"tables such as [{name}.…]", repr(table[name]))
    labels = table["labels"]
    if not isinstance(labels, list) or not labels or len(set(map(str, labels))) < len(labels):
        raise bad_value("labels", "a spec", "a list of different counts", repr(labels))
    counts = [("labels", each) for each in labels]
    for name, value in (*counts, *((name, table.get(name, 1)) for name in ("runs", "validation", "k"))):
        check_count(name, value, "a spec")
        if value > _MOST:
            raise bad_value(name, "a spec", f"at most {_MOST}", value)
    for name in ("comparisons", "figure"):
        if not isinstance(table.get(name, []), list):
            raise bad_type(name, "a spec", "a list", repr(table[name]))


def _check_name(name: object, owner: str) -> None:
    """Refuse a name that is not fit for a folder and a column of a table."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise bad_value("name", owner, "letters, digits, '_', '-' and '.'", repr(name)[:120])


def _check_title(title: object, owner: str) -> None:
    if not isinstance(title, str) or not title.strip():
        raise bad_value("title", owner, "a text that is not empty", repr(title))


def _figure(table: _Table, datasets: Sequence[DatasetSpec], methods: Sequence[MethodSpec]) -> tuple[str, ...]:
    """Read the methods of a figure, which shows one run of networks on one dataset."""
    names = table.get("figure", [])
    for name in names:
        check_choice("figure", name, _networks(methods), "a spec")
    if names and (len(datasets), len(table["labels"]), table["runs"]) != (1, 1, 1):
        raise ValueError("A spec with a figure must have one dataset, one label count and one run.")
    return tuple(names)


def _networks(methods: Sequence[MethodSpec]) -> list[str]:
    return [method.name for method in methods if method.kind in NETWORKS]


def _check_keys(table: object, known: set[str], owner: str, required: Sequence[str] = ()) -> None:
    if not isinstance(table, Mapping):
        raise TypeError(f"{owner} must be a table. Got {table!r}.")
    for key in table:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"It has: {', '.join(sorted(known))}."
            raise ValueError(f"{owner} has no key '{key}'. {hint}")
    for key in required:
        if key not in table:
            raise ValueError(f"{owner} needs the key '{key}'.")


def _dataset(name: str, entry: object) -> DatasetSpec:
    known = {each.name for each in fields(DatasetSpec)} - {"name"}
    _check_keys(entry, known, f"The dataset '{name}'")
    return DatasetSpec(name=name, **entry)  # type: ignore[arg-type]


_TWO_NUMBERS = [[float, float], [float, int], [int, float], [int, int]]
_SETTINGS = {"preset", "model", "training", "networks", "scale"}


def _method(name: str, entry: Any, datasets: Sequence[DatasetSpec]) -> MethodSpec:
    owner = f"The method '{name}'"
    _check_keys(entry, _SETTINGS | {"kind", "title", "ours", "aside", "on"}, owner, required=("kind",))
    _check_name(name, owner)
    _check_title(entry.get("title", name), owner)
    for flag in ("ours", "aside"):
        check_flag(flag, entry.get(flag, False), owner)
    special = entry.get("on", {})
    _check_keys(special, {each.name for each in datasets}, f"{owner}, under 'on',")
    settings = {}
    for dataset in datasets:
        other = special.get(dataset.name, {})
        _check_keys(other, _SETTINGS, f"{owner} on {dataset.name}")
        settings[dataset.name] = _settings(entry, other, owner)
    return MethodSpec(
        name=name,
        title=entry.get("title", name),
        kind=entry["kind"],
        ours=entry.get("ours", False),
        aside=entry.get("aside", False),
        settings=settings,
    )


def _settings(entry: _Table, other: _Table, owner: str) -> Settings:
    """Resolve a method's settings on a dataset: the preset's, then its own, then those for the dataset."""
    kind = entry["kind"]
    check_choice("kind", kind, (*NETWORKS, *CLASSICAL), owner)
    if kind in CLASSICAL:
        if _SETTINGS & (entry.keys() | other.keys()):
            raise ValueError(
                f"{owner} is {kind}, which has none of {', '.join(sorted(_SETTINGS))}. Remove them."
            )
        return Settings(kind=kind)
    whole = _preset(other.get("preset", entry.get("preset")), kind, owner)
    for given in (entry, other):
        for part in ("model", "training"):
            if not isinstance(given.get(part, {}), Mapping):
                raise bad_type(part, owner, "a table", repr(given[part]))
            whole[part] |= given.get(part, {})
        whole |= {name: given[name] for name in ("networks", "scale") if name in given}
    check_count("networks", whole["networks"], owner)
    check_choice("scale", whole["scale"], SCALES, owner)
    _check_keys(whole["model"], _parameters(kind), f"'model' of {owner[0].lower()}{owner[1:]}")
    # Made once to try them; the line then has every setting, also those that nobody named.
    with torch.device("meta"):  # which takes no memory, however large it is
        settings = make_network(kind, 2, 2, whole["model"]).settings
    whole["model"] = {name: settings[name] for name in settings if name not in ("in_features", "n_classes")}
    whole["training"] = asdict(TrainingConfig.from_mapping(whole["training"]))
    return Settings(kind=kind, **whole)


def _preset(name: str | None, kind: str, owner: str) -> dict[str, Any]:
    """Return the settings of a preset; without one nothing is set."""
    if name is None:
        return {"model": {}, "training": {}, "networks": 1, "scale": "none"}
    check_choice("preset", name, tuple(PRESETS), owner)
    if kind != "DAHGNN":
        raise ValueError(f"{owner} cannot have a preset: presets are of DAHGNN.")
    return asdict(PRESETS[name])


def make_network(
    kind: str,
    in_features: int,
    n_classes: int,
    model: Mapping[str, Any],
    generator: torch.Generator | None = None,
) -> DAHGNN | HGNN | GCN | GAT:
    """Make a network of a kind with the flat settings that a spec and its lines have."""
    if kind == "DAHGNN":
        return DAHGNN(in_features, n_classes, ModelConfig.from_mapping(model), generator=generator)
    return NETWORKS[kind](in_features, n_classes, **model, generator=generator)


def _parameters(kind: str) -> set[str]:
    if kind == "DAHGNN":
        return {each.name for each in fields(ModelConfig)}
    return set(signature(NETWORKS[kind]).parameters) - {"in_features", "n_classes", "generator"}


def _search(entry: Any, methods: Sequence[MethodSpec]) -> Search:
    owner = "'search'"
    _check_keys(entry, {each.name for each in fields(Search)}, owner, required=("method", "trials", "space"))
    check_choice("method", entry["method"], _networks(methods), owner)
    check_count("trials", entry["trials"], owner)
    method = next(method for method in methods if method.name == entry["method"])
    known = {f"training.{each.name}" for each in fields(TrainingConfig)}
    known |= {f"model.{name}" for name in _parameters(method.kind)}
    _check_keys(entry["space"], known, "'search.space'")
    for name, values in entry["space"].items():
        _check_space(values, f"{owner} for '{name}'")
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
    _check_keys(values, {"low", "high", "log", "step"}, owner, required=("low", "high"))
    for name in ("low", "high", "step"):
        check_number(name, values.get(name, 1), owner)
    check_flag("log", values.get("log", False), owner)
    low = values["low"]
    if low > values["high"] or (values.get("log") and (low <= 0 or "step" in values)):
        raise ValueError(f"{owner} must have low ≤ high; with log, low > 0 and no step. Got {dict(values)}.")


def vary(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return settings with some of them changed, by "model.…" or "training.…"; a wrong one is an error."""
    parts = {"model": dict(settings.model), "training": dict(settings.training)}
    for name, value in values.items():
        part, key = name.split(".", 1)
        parts[part][key] = value
    entry = asdict(settings) | parts
    return _settings(entry, {}, f"A variant of {settings.kind}")


def _pair(pair: object, names: Sequence[str]) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise bad_value("comparisons", "a spec", "pairs of methods", repr(pair))
    for name in pair:
        check_choice("comparisons", name, names, "a spec")
    return pair[0], pair[1]


def _published(
    table: _Table, datasets: Sequence[DatasetSpec], names: Sequence[str]
) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Read the printed numbers: by dataset, method and labelled nodes, [mean, deviation] in percent."""
    _check_keys(table, {each.name for each in datasets}, "'published'")
    result: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for dataset, rows in table.items():
        _check_keys(rows, set(names), f"'published.{dataset}'")
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
