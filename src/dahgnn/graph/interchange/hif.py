"""The Hypergraph Interchange Format (HIF), schema 0.1.0: a JSON object of incidences, nodes and edges.

Each rule of the schema is checked, and a message names the place that is against it, such as
``incidences[17].weight``. What becomes of a file:

- **Numbers.** Nodes and hyperedges are numbered in the order in which the file names them, its lists of nodes
  and edges before its incidences. `Names` keeps what they are called; 1 and "1" are two names.
- **Twice.** A node, an edge or an incidence that comes several times counts once, with the weight and the
  label that it says last.
- **Weights** of edges and incidences are those of the `Hypergraph`. The schema allows any number, a
  `Hypergraph` positive ones alone. Weights of nodes are kept beside it, in `Names`.
- **Labels** are what ``attrs.label`` of the nodes says, as in HyperTorch's files.
- **Empty.** An edge without a node is named in `Names.empty`, and written again, without its weight.
- **Directed** hypergraphs are refused unless heads and tails are to count alike. Of a simplicial complex
  ("asc") the edges that it lists are read, and no faces are added. What is written is undirected.
- **Centres** of our own are in ``attrs.centre`` of the edges. They are read where each edge names a node of
  its own there. Other attributes, and the metadata, are not kept.
"""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Mapping, Sequence
from typing import Any

from dahgnn.checks import bad_type, did_you_mean
from dahgnn.files.atomic import replacing
from dahgnn.files.json_files import read_json
from dahgnn.graph.assembly import WEIGHTS
from dahgnn.graph.interchange.collecting import Collector
from dahgnn.graph.interchange.pairs import Pairs
from dahgnn.graph.names import Name, Names

_TYPES = ("undirected", "directed", "asc")
_DIRECTIONS = ("head", "tail")
# What each object of a file may have, what it must have first.
_KEYS = {
    "": ("incidences", "network-type", "metadata", "nodes", "edges"),
    "incidences": ("edge", "node", "weight", "direction", "attrs"),
    "nodes": ("node", "weight", "attrs"),
    "edges": ("edge", "weight", "attrs"),
}
_REQUIRED = {"": 1, "incidences": 2, "nodes": 1, "edges": 1}


def read_hif(
    source: str | os.PathLike[str] | Mapping[str, object],
    *,
    undirect: bool = False,
    what: str = "The hypergraph",
) -> Pairs:
    """Read a file, or its content, as `Hypergraph.from_hif` does; messages call a content ``what``."""
    if isinstance(source, Mapping):
        return _Reader(what, undirect).read(source)
    if isinstance(source, str | os.PathLike):
        return _Reader(f"The file {os.fspath(source)}", undirect).read(read_json(source))
    expected = "the path of a file, or its content as a mapping"
    raise bad_type("source", "Hypergraph.from_hif", expected, type(source).__name__)


class _Reader:
    """Reads a content, and refuses what is against the schema; ``what`` is how messages call it."""

    def __init__(self, what: str, undirect: bool) -> None:
        self.what, self.undirect = what, undirect

    def read(self, content: object) -> Pairs:
        content = self._object(content, "", "")
        kind = content.get("network-type", "undirected")
        self._choice(kind, "network-type", _TYPES)
        if not isinstance(content.get("metadata", {}), Mapping):
            raise self._wrong("metadata", "an object", content["metadata"])
        if kind == "directed":
            self._check_undirected("network-type 'directed'")
        found = Collector()
        for place, entry in self._entries(content, "nodes"):
            self._read_node(entry, place, found)
        for place, entry in self._entries(content, "edges"):
            self._read_edge(entry, place, found)
        for place, entry in self._entries(content, "incidences"):
            self._read_incidence(entry, place, found)
        if not found.n_nodes:
            raise ValueError(f"{self.what} must name a node. Got none.")
        return found.pairs()

    def _read_node(self, entry: Mapping[str, Any], place: str, found: Collector) -> None:
        weight = self._number(entry["weight"], f"{place}.weight") if "weight" in entry else None
        label = entry.get("attrs", {}).get("label")
        found.add_node(self._name(entry["node"], f"{place}.node"), weight=weight, label=label)

    def _read_edge(self, entry: Mapping[str, Any], place: str, found: Collector) -> None:
        name, centre = self._name(entry["edge"], f"{place}.edge"), entry.get("attrs", {}).get("centre")
        found.add_hyperedge(name, weight=self._weight(entry, place), centre=centre)

    def _read_incidence(self, entry: Mapping[str, Any], place: str, found: Collector) -> None:
        edge = self._name(entry["edge"], f"{place}.edge")
        node = self._name(entry["node"], f"{place}.node")
        if "direction" in entry:
            self._choice(entry["direction"], f"{place}.direction", _DIRECTIONS)
            self._check_undirected(f"{place}.direction")
        found.add_pair(node, edge, self._weight(entry, place))

    def _check_undirected(self, place: str) -> None:
        if not self.undirect:
            raise ValueError(
                f"{self.what} must be undirected. Got {place}. To let heads and tails count alike, read it "
                "with undirect=True."
            )

    def _entries(self, content: Mapping[str, Any], key: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        entries = content.get(key, [])
        if not isinstance(entries, list | tuple):
            raise self._wrong(key, "an array", entries)
        places = [f"{key}[{number}]" for number in range(len(entries))]
        return [
            (place, self._object(entry, place, key)) for place, entry in zip(places, entries, strict=True)
        ]

    def _object(self, value: object, place: str, kind: str) -> Mapping[str, Any]:
        """Return an object that has the keys of its kind and no others, and attributes in an object."""
        if not isinstance(value, Mapping):
            raise self._wrong(place, "an object", value)
        known = _KEYS[kind]
        for key in known[: _REQUIRED[kind]]:
            if key not in value:
                raise self._bad(place, f"an object with '{key}'", "one without")
        for key in value:
            if key not in known:
                expected = f"an object of {', '.join(map(repr, known))} alone"
                raise self._wrong(place, expected, key, did_you_mean(str(key), known))
        if kind and not isinstance(value.get("attrs", {}), Mapping):
            raise self._wrong(f"{place}.attrs", "an object", value["attrs"])
        return value

    def _name(self, value: object, place: str) -> Name:
        if isinstance(value, str):
            return value
        if isinstance(value, numbers.Integral) and not isinstance(value, bool):
            return int(value)
        if isinstance(value, float) and value.is_integer():  # 1.0 is an integer for a schema
            return int(value)
        raise self._wrong(place, "text or an integer", value)

    def _number(self, value: object, place: str) -> float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise self._wrong(place, "a number", value)
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            number = math.inf
        if not math.isfinite(number):
            raise self._wrong(place, "a number in the range of 64 bits", value)
        return number

    def _weight(self, entry: Mapping[str, Any], place: str) -> float | None:
        if "weight" not in entry:
            return None
        number, (low, high) = self._number(entry["weight"], f"{place}.weight"), WEIGHTS
        if not low <= number <= high:
            expected = f"between {low:g} and {high:g}, as all weights of a Hypergraph"
            raise self._wrong(f"{place}.weight", expected, entry["weight"])
        return number

    def _choice(self, value: object, place: str, choices: Sequence[str]) -> None:
        if value not in choices:
            hint = did_you_mean(str(value), choices)
            raise self._wrong(place, f"one of {', '.join(map(repr, choices))}", value, hint)

    def _wrong(self, place: str, expected: str, value: object, hint: str = "") -> ValueError:
        return self._bad(place, expected, _shown(value), hint)

    def _bad(self, place: str, expected: str, got: str, hint: str = "") -> ValueError:
        where = place or "the whole"
        sentence = f"{self.what} must be HIF of schema 0.1.0, where {where} is {expected}. Got {got}."
        return ValueError(f"{sentence} {hint}".rstrip())


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, Mapping):
        return "an object"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def write_hif(pairs: Pairs, path: str | os.PathLike[str] | None = None) -> dict[str, object]:
    """Return a hypergraph as the content of a file, and write the file if one is named."""
    nodes = [_written_name(name) for name in pairs.node_names]
    edges = [_written_name(name) for name in pairs.hyperedge_names]
    names = pairs.names or Names(nodes, edges)
    incidences: list[dict[str, object]] = [
        {"edge": edges[edge], "node": nodes[node]}
        for edge, node in zip(pairs.hyperedge.tolist(), pairs.node.tolist(), strict=True)
    ]
    _add(incidences, "weight", pairs.incidence_weights)
    written_nodes: list[dict[str, object]] = [{"node": name} for name in nodes]
    _add(written_nodes, "weight", names.node_weights)
    for entry, label in zip(written_nodes, names.labels or (), strict=names.labels is not None):
        if label is not None:
            entry["attrs"] = {"label": label}
    written_edges: list[dict[str, object]] = [{"edge": name} for name in edges]
    _add(written_edges, "weight", pairs.weights)
    if pairs.centres is not None:
        for entry, centre in zip(written_edges, pairs.centres.tolist(), strict=True):
            entry["attrs"] = {"centre": nodes[centre]}
    written_edges += [{"edge": _written_name(name)} for name in names.empty]
    content: dict[str, object] = {
        "network-type": "undirected",
        "incidences": incidences,
        "nodes": written_nodes,
        "edges": written_edges,
    }
    if path is not None:
        text = json.dumps(content, allow_nan=False)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return content


def _add(entries: list[dict[str, object]], key: str, values: Any) -> None:
    for entry, value in zip(entries, () if values is None else values, strict=values is not None):
        entry[key] = float(value)


def _written_name(name: Name) -> str | int:
    if isinstance(name, str):
        return str(name)
    if isinstance(name, numbers.Integral) and not isinstance(name, bool):
        return int(name)
    raise TypeError(
        f"Names must be text or integers to be written as HIF. Got {name!r}. Rename the nodes and hyperedges."
    )
