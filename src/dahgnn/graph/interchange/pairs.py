"""The plain form that every format is read into and written from: pairs of a node and a hyperedge."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.checks import bad_value
from dahgnn.graph.names import Name, Names

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """A hypergraph as arrays, in the words of `Hypergraph.from_incidence`.

    Attributes
    ----------
    node, hyperedge : array of int64, (t,)
        Node ``node[t]`` is in hyperedge ``hyperedge[t]``.
    n_nodes, n_hyperedges : int
        How many there are; each hyperedge has a node.
    centres : array of int64, (n_hyperedges,), or None
        The node that each hyperedge was built around.
    weights, incidence_weights : array, (n_hyperedges,), (t,), or None
        None is one for each.
    names : Names or None
        What nodes and hyperedges are called, and the hyperedges that have no node.
    """

    node: Array
    hyperedge: Array
    n_nodes: int
    n_hyperedges: int
    centres: Array | None = None
    weights: Array | None = None
    incidence_weights: Array | None = None
    names: Names | None = None

    @classmethod
    def of(
        cls,
        node: Tensor,
        hyperedge: Tensor,
        n_nodes: int,
        n_hyperedges: int,
        *,
        centres: Tensor | None,
        weights: Tensor | None,
        incidence_weights: Tensor | None,
        names: Names | None,
    ) -> Pairs:
        """Return pairs from tensors of any device, of which those of hyperedges and pairs may be longer."""

        def array(values: Tensor | None, length: int) -> Array | None:
            return None if values is None else values[:length].cpu().numpy()

        return cls(
            node=node.cpu().numpy(),
            hyperedge=hyperedge.cpu().numpy(),
            n_nodes=n_nodes,
            n_hyperedges=n_hyperedges,
            centres=array(centres, n_hyperedges),
            weights=array(weights, n_hyperedges),
            incidence_weights=array(incidence_weights, len(node)),
            names=names,
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Hypergraph.from_incidence`; weights that are all one are none."""
        return {
            "node": self.node,
            "hyperedge": self.hyperedge,
            "n_nodes": self.n_nodes,
            "n_hyperedges": self.n_hyperedges,
            "centres": self.centres,
            "weights": _unless_one(self.weights),
            "incidence_weights": _unless_one(self.incidence_weights),
            "names": self.names,
        }

    @property
    def node_names(self) -> tuple[Name, ...]:
        """The name of each node; its number if it has none."""
        return tuple(range(self.n_nodes)) if self.names is None else tuple(self.names.nodes)

    @property
    def hyperedge_names(self) -> tuple[Name, ...]:
        """The name of each hyperedge; its number if it has none."""
        return tuple(range(self.n_hyperedges)) if self.names is None else tuple(self.names.hyperedges)

    def members(self) -> list[list[int]]:
        """Return the nodes of each hyperedge."""
        found: list[list[int]] = [[] for _ in range(self.n_hyperedges)]
        for node, hyperedge in zip(self.node.tolist(), self.hyperedge.tolist(), strict=True):
            found[hyperedge].append(node)
        return found

    def with_nodes(self, order: Iterable[Name], owner: str) -> Pairs:
        """Return the same hyperedges on nodes in another order, with further ones that are in none.

        Parameters
        ----------
        order : iterable
            The names of all nodes, each once.
        owner : str
            Who asks, for messages.
        """
        names = Names(tuple(order), self.hyperedge_names)
        numbers = names.node_numbers
        unknown = [name for name in self.node_names if name not in numbers]
        if unknown:
            got = f"no {unknown[0]!r}, which is a node ({len(unknown)} such nodes in all)"
            raise bad_value("nodes", owner, "the names of all nodes", got)
        moved = np.array([numbers[name] for name in self.node_names], dtype=np.int64)
        given = self.names or names
        return replace(
            self,
            node=moved[self.node],
            n_nodes=len(names.nodes),
            centres=None if self.centres is None else moved[self.centres],
            names=replace(
                given,
                nodes=names.nodes,
                labels=_moved(given.labels, moved, len(names.nodes), None),
                node_weights=_moved(given.node_weights, moved, len(names.nodes), 1.0),
            ),
        )


class Numbering:
    """Numbers for names, in the order in which they come.

    Examples
    --------
    >>> numbering = Numbering()
    >>> [numbering[name] for name in ("b", "a", "b")], numbering.names
    ([0, 1, 0], ('b', 'a'))
    """

    def __init__(self) -> None:
        self._numbers: dict[Name, int] = {}

    def __getitem__(self, name: Hashable) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def names(self) -> tuple[Name, ...]:
        """All names so far, in the order of their numbers."""
        return tuple(self._numbers)


def without_empty(pairs: Pairs) -> Pairs:
    """Return hyperedges that have a node alone, numbered anew; the names of the others are kept as empty."""
    sizes = np.bincount(pairs.hyperedge, minlength=pairs.n_hyperedges)
    if sizes.all():
        return pairs
    kept = np.flatnonzero(sizes)
    numbers = np.cumsum(sizes > 0) - 1
    names = pairs.hyperedge_names
    given = pairs.names or Names(pairs.node_names, names)
    return replace(
        pairs,
        hyperedge=numbers[pairs.hyperedge],
        n_hyperedges=len(kept),
        centres=None if pairs.centres is None else pairs.centres[kept],
        weights=None if pairs.weights is None else pairs.weights[kept],
        names=replace(
            given,
            hyperedges=[names[number] for number in kept],
            empty=(*given.empty, *(name for name, size in zip(names, sizes, strict=True) if size == 0)),
        ),
    )


def _unless_one(weights: Array | None) -> Array | None:
    return None if weights is None or bool((weights == 1).all()) else weights


def _moved(values: Any, moved: Array, count: int, otherwise: object) -> list[Any] | None:
    if values is None:
        return None
    found = [otherwise] * count
    for number, value in zip(moved.tolist(), values, strict=True):
        found[number] = value
    return found
