"""Gather a hypergraph by names, in any order and with repetitions, and number it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dahgnn.graph.interchange.pairs import Array, Numbering, Pairs, without_empty
from dahgnn.graph.names import Name, Names


class Collector:
    """Nodes, hyperedges and pairs by name; what comes several times counts once, as it is said last.

    Examples
    --------
    >>> collector = Collector()
    >>> collector.add_pair("ada", "club")
    >>> collector.add_pair("bob", "club", 0.5)
    >>> pairs = collector.pairs()
    >>> pairs.names.nodes, pairs.incidence_weights.tolist()
    (('ada', 'bob'), [1.0, 0.5])
    """

    def __init__(self) -> None:
        self._nodes, self._hyperedges = Numbering(), Numbering()
        self._pairs: dict[tuple[int, int], float] = {}
        self._node_weights: dict[int, float] = {}
        self._weights: dict[int, float] = {}
        self._labels: dict[int, object] = {}
        self._centres: dict[int, object] = {}

    @property
    def n_nodes(self) -> int:
        """How many nodes have been named."""
        return len(self._nodes)

    def add_node(self, name: Name, *, weight: float | None = None, label: object = None) -> None:
        """Name a node; what is None is not said."""
        number = self._nodes[plain(name)]
        if weight is not None:
            self._node_weights[number] = weight
        if label is not None:
            self._labels[number] = label

    def add_hyperedge(self, name: Name, *, weight: float | None = None, centre: object = None) -> None:
        """Name a hyperedge; what is None is not said."""
        number = self._hyperedges[plain(name)]
        if weight is not None:
            self._weights[number] = weight
        if centre is not None:
            self._centres[number] = centre

    def add_pair(self, node: Name, hyperedge: Name, weight: float | None = None) -> None:
        """Put a node into a hyperedge, naming both if they are new."""
        pair = self._hyperedges[plain(hyperedge)], self._nodes[plain(node)]
        if weight is not None:
            self._pairs[pair] = weight
        else:
            self._pairs.setdefault(pair, 1.0)

    def pairs(self) -> Pairs:
        """Return all that was named, in the order in which it first was."""
        n, m = len(self._nodes), len(self._hyperedges)
        both = np.array(list(self._pairs), dtype=np.int64).reshape(-1, 2)
        names = Names(
            self._nodes.names,
            self._hyperedges.names,
            labels=[self._labels.get(number) for number in range(n)] if self._labels else None,
            node_weights=_filled(self._node_weights, n),
        )
        pairs = Pairs(
            node=both[:, 1],
            hyperedge=both[:, 0],
            n_nodes=n,
            n_hyperedges=m,
            weights=_filled(self._weights, m),
            incidence_weights=np.array(list(self._pairs.values()), dtype=np.float64),
            centres=self._members_among_centres(names),
            names=names,
        )
        return without_empty(pairs)

    def _members_among_centres(self, names: Names) -> Array | None:
        """Return the centres, if each hyperedge that has a node names one of its own."""
        centres = np.full(len(self._hyperedges), -1, dtype=np.int64)
        for number, name in self._centres.items():
            node = names.node_numbers.get(name) if isinstance(name, str | int) else None
            if node is not None and (number, node) in self._pairs:
                centres[number] = node
        used = {hyperedge for hyperedge, _ in self._pairs}
        return centres if used and all(centres[each] >= 0 for each in used) else None


def plain(name: Name) -> Name:
    """Return a name as Python has it: numbers of NumPy are none that JSON could hold."""
    return name.item() if isinstance(name, np.generic) else name


def _filled(weights: Mapping[int, float], count: int) -> Any:
    return np.array([weights.get(number, 1.0) for number in range(count)]) if weights else None
