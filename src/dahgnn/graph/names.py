"""What the nodes and hyperedges are called where a hypergraph came from: a table beside the integers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dahgnn.checks import bad_value

Name = Hashable


@dataclass(frozen=True, eq=False)
class Names:
    """The names of nodes and hyperedges, and what else is known of them that no layer uses.

    Parameters
    ----------
    nodes : sequence, n
        The name of each node, all different.
    hyperedges : sequence, m
        The name of each hyperedge, all different. Hyperedges behind these have no name: each covers a node
        that is in no other.
    labels : sequence, n, optional
        What is said of the class of each node; None where nothing is.
    node_weights : sequence of float, n, optional
        A weight for each node.
    empty : sequence
        Names of hyperedges without a node. A `Hypergraph` has none, but what it is written to may.

    Examples
    --------
    >>> names = Names(["ada", "bob"], ["club"])
    >>> names.node_numbers["bob"]
    1
    """

    nodes: Sequence[Name]
    hyperedges: Sequence[Name]
    labels: Sequence[object] | None = None
    node_weights: Sequence[float] | None = None
    empty: Sequence[Name] = ()

    def __post_init__(self) -> None:
        for field in ("nodes", "hyperedges", "labels", "node_weights", "empty"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, tuple(getattr(self, field)))
        _check_different("nodes", self.nodes)
        _check_different("hyperedges", (*self.hyperedges, *self.empty))
        for field in ("labels", "node_weights"):
            values = getattr(self, field)
            if values is not None and len(values) != len(self.nodes):
                raise bad_value(field, "Names", f"as many as nodes, {len(self.nodes)}", len(values))

    @cached_property
    def node_numbers(self) -> dict[Name, int]:
        """The number of each node by its name."""
        return {name: number for number, name in enumerate(self.nodes)}


def _check_different(field: str, names: Sequence[Name]) -> None:
    seen: set[Name] = set()
    for name in names:
        if name in seen:
            raise bad_value(field, "Names", "all different", f"{name!r} more than once")
        seen.add(name)
