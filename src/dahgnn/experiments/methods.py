"""A method of an experiment: its kind, and its settings on each dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dahgnn.baselines.registry import DirectKind, NetworkKind, check_parameters, find_kind
from dahgnn.checks import MOST_NETWORKS, bad_type, check_choice, check_count, check_flag
from dahgnn.config import PRESETS, SCALES, TrainingConfig
from dahgnn.experiments.datasets import DatasetSpec
from dahgnn.experiments.keys import Table, check_keys, check_name, check_title
from dahgnn.graph.local_scale import METRICS

_FOR_NETWORKS = {"preset", "model", "training", "networks"}
_SETTINGS = _FOR_NETWORKS | {"scale", "metric", "smoothing", "parameters"}
# What may follow a network: nothing, or Correct & Smooth on the graph of its neighbours.
SMOOTHINGS = ("none", "correct-and-smooth")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A method with all its settings: what a run line says of it.

    Parameters
    ----------
    kind : str
        A name of the registry of methods.
    model, training : mapping
        The settings of a network and of its training.
    networks : int
        How many are trained for a run, from different weights; their logits are averaged.
    scale : str
        What is done to the features first, see `Preset`. The neighbours that a network gets, and those that
        smooth its probabilities, are those of the features as they are; so all networks of an experiment
        have the same hypergraph. Any other method gets the neighbours of the scaled features.
    metric : {"euclidean", "local-scale"}
        By what the neighbours are chosen that a network or a function gets, see `dahgnn.graph.local_scale`.
    smoothing : {"none", "correct-and-smooth"}
        What is done to the probabilities of a network, see `dahgnn.baselines.correct_and_smooth`.
    parameters : mapping
        The settings of a method that is no network.
    """

    kind: str
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    networks: int = 1
    scale: str = "none"
    metric: str = "euclidean"
    smoothing: str = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_network(self) -> bool:
        """Whether it is trained by `fit`."""
        return isinstance(find_kind(self.kind), NetworkKind)

    def as_json(self) -> dict[str, Any]:
        """Return what run lines say: the parameters, or what a network has.

        Methods with neither say what a network has, as in lines of earlier versions. These had neither
        metric nor smoothing, so that the usual ones are left out.
        """
        other = {"model", "training", "networks"} if self.parameters else {"parameters"}
        other |= {name for name in ("metric", "smoothing") if getattr(self, name) == getattr(Settings, name)}
        return {name: value for name, value in asdict(self).items() if name not in other}


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A row of the tables.

    Parameters
    ----------
    name, title : str
        What run lines call it, and what tables call it.
    kind : str
        A name of the registry of methods.
    ours : bool
        Whether it is this package's own.
    hidden_at_first : bool
        Whether charts begin without it; its button brings it in. Earlier specs call this "aside".
    settings : mapping of str to Settings
        Its settings on each dataset.
    """

    name: str
    title: str
    kind: str
    ours: bool
    hidden_at_first: bool
    settings: Mapping[str, Settings]


def parse_method(name: str, entry: Any, datasets: Sequence[DatasetSpec]) -> MethodSpec:
    """Make a method of its table in a spec."""
    owner = f"The method '{name}'"
    known = _SETTINGS | {"kind", "title", "ours", "hidden_at_first", "aside", "on"}
    check_keys(entry, known, owner, required=("kind",))
    check_name(name, owner)
    check_title(entry.get("title", name), owner)
    for flag in ("ours", "hidden_at_first", "aside"):
        check_flag(flag, entry.get(flag, False), owner)
    special = entry.get("on", {})
    check_keys(special, {each.name for each in datasets}, f"{owner}, under 'on',")
    settings = {}
    for dataset in datasets:
        other = special.get(dataset.name, {})
        check_keys(other, _SETTINGS, f"{owner} on {dataset.name}")
        settings[dataset.name] = resolve_settings(entry, other, owner)
    return MethodSpec(
        name=name,
        title=entry.get("title", name),
        kind=entry["kind"],
        ours=entry.get("ours", False),
        hidden_at_first=entry.get("hidden_at_first", entry.get("aside", False)),
        settings=settings,
    )


def resolve_settings(entry: Table, other: Table, owner: str) -> Settings:
    """Resolve a method's settings on a dataset: the preset's, then its own, then those for the dataset."""
    kind = find_kind(entry["kind"], owner)
    if isinstance(kind, DirectKind):
        return _resolve_direct(kind, entry, other, owner)
    if any(given.get("parameters") for given in (entry, other)):
        raise ValueError(f"{owner} is a network, which has no 'parameters'. Use 'model' and 'training'.")
    whole = _preset(other.get("preset", entry.get("preset")), kind, owner)
    for given in (entry, other):
        for part in ("model", "training"):
            whole[part] |= _table_of(given, part, owner)
        whole |= {name: given[name] for name in ("networks", "scale", "metric", "smoothing") if name in given}
    check_count("networks", whole["networks"], owner, high=MOST_NETWORKS)
    check_choice("scale", whole["scale"], SCALES, owner)
    check_choice("metric", whole.get("metric", "euclidean"), tuple(METRICS), owner)
    check_choice("smoothing", whole.get("smoothing", "none"), SMOOTHINGS, owner)
    check_keys(whole["model"], kind.settings, f"'model' of {owner[0].lower()}{owner[1:]}")
    # The line then has every setting, also those that nobody named.
    whole["model"] = kind.complete(whole["model"])
    whole["training"] = asdict(TrainingConfig.from_mapping(whole["training"]))
    return Settings(kind=entry["kind"], **whole)


def _resolve_direct(kind: DirectKind, entry: Table, other: Table, owner: str) -> Settings:
    refused = _FOR_NETWORKS | {"smoothing"} | ({"scale"} if kind.scales_itself else set())
    refused |= set() if kind.uses_neighbors else {"metric"}
    if refused & (entry.keys() | other.keys()):
        raise ValueError(
            f"{owner} is {entry['kind']}, which has none of {', '.join(sorted(refused))}. Remove them."
        )
    scale = other.get("scale", entry.get("scale", "none"))
    check_choice("scale", scale, SCALES, owner)
    metric = other.get("metric", entry.get("metric", "euclidean"))
    check_choice("metric", metric, tuple(METRICS), owner)
    parameters = {**_table_of(entry, "parameters", owner), **_table_of(other, "parameters", owner)}
    check_parameters(kind, parameters, owner)
    return Settings(kind=entry["kind"], scale=scale, metric=metric, parameters=kind.complete(parameters))


def _table_of(entry: Table, name: str, owner: str) -> Table:
    table = entry.get(name, {})
    if not isinstance(table, Mapping):
        raise bad_type(name, owner, "a table", repr(table))
    return table


def _preset(name: str | None, kind: NetworkKind, owner: str) -> dict[str, Any]:
    """Return the settings of a preset; without one nothing is set."""
    if name is None:
        return {"model": {}, "training": {}, "networks": 1, "scale": "none"}
    check_choice("preset", name, tuple(PRESETS), owner)
    if not kind.takes_config:
        raise ValueError(f"{owner} cannot have a preset: presets are of DAHGNN.")
    return asdict(PRESETS[name])


def vary(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return settings with some of them changed, by "model.…" or "training.…"; a wrong one is an error."""
    parts = {"model": dict(settings.model), "training": dict(settings.training)}
    for name, value in values.items():
        part, key = name.split(".", 1)
        parts[part][key] = value
    return resolve_settings(settings.as_json() | parts, {}, f"A variant of {settings.kind}")
