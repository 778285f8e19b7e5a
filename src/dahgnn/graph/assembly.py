"""What a `Hypergraph` is put together from: pairs in both orders, centres and weights, all checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from dahgnn.checks import as_indices, as_tensor, bad_type, bad_value, check_count
from dahgnn.graph.names import Names
from dahgnn.kernels.incidence import Segments

# Weights whose degrees and their roots stay in the range of float32, also where two are multiplied.
WEIGHTS = (1e-15, 1e15)


class BothWays(NamedTuple):
    """Pairs in both orders.

    Attributes
    ----------
    by_row, by_column : Segments
        The columns of each row, and the rows of each column, in ascending order.
    positions : Tensor of int64, (t,)
        Where each pair of ``by_column`` stands in ``by_row``.
    """

    by_row: Segments
    by_column: Segments
    positions: Tensor


def sort_both_ways(row: Tensor, column: Tensor, n_rows: int, n_columns: int) -> BothWays:
    """Group pairs by row and by column, each pair once."""
    keys = (row * n_columns + column).unique()
    row, column = keys // n_columns, keys % n_columns
    order = column.argsort(stable=True)
    by_row = Segments(_offsets(row, n_rows), column)
    by_column = Segments(_offsets(column, n_columns), row[order])
    return BothWays(by_row, by_column, order)


def _offsets(owners: Tensor, count: int) -> Tensor:
    sizes = owners.bincount(minlength=count)
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def check_no_empty_hyperedge(hyperedges: Tensor, n_hyperedges: int) -> None:
    """Refuse hyperedges that no pair names."""
    empty = (hyperedges.bincount(minlength=n_hyperedges) == 0).nonzero()
    if len(empty):
        raise ValueError(
            f"Every hyperedge of a Hypergraph must have a node. Got none for hyperedge {int(empty[0])} "
            f"({len(empty)} such hyperedges in all). Leave these out and number the rest anew."
        )


def as_centres(centres: object, nodes: Tensor, hyperedges: Tensor, n_nodes: int, n_hyperedges: int) -> Tensor:
    """Return one centre for each hyperedge, checked to be a member of it."""
    tensor = as_indices(centres, "centres", "Hypergraph", below=n_nodes).to(nodes.device)
    if len(tensor) != n_hyperedges:
        raise bad_value("centres", "Hypergraph", f"of length n_hyperedges = {n_hyperedges}", len(tensor))
    has_centre = hyperedges[tensor[hyperedges] == nodes].bincount(minlength=n_hyperedges) > 0
    if not bool(has_centre.all()):
        first = int((~has_centre).nonzero()[0])
        got = f"node {int(tensor[first])}, which is not in hyperedge {first}"
        raise bad_value("centres", "Hypergraph", "members of their hyperedges", got)
    return tensor.clone()


def as_weights(weights: object, count: int, name: str = "weights", of: str = "hyperedge") -> Tensor:
    """Return one positive weight for each hyperedge or incidence, in float64."""
    tensor = as_tensor(weights, name, "Hypergraph").double()
    if tensor.shape != (count,):
        length = "n_hyperedges" if of == "hyperedge" else "'node'"
        got = f"shape {tuple(tensor.shape)}"
        raise bad_value(name, "Hypergraph", f"of length {length} = {count}", got)
    low, high = WEIGHTS
    wrong = (~((tensor >= low) & (tensor <= high))).nonzero().squeeze(1).tolist()
    if wrong:
        got = f"{tensor[wrong[0]].item()} for {of} {wrong[0]}"
        raise bad_value(name, "Hypergraph", f"between {low:g} and {high:g}", got)
    return tensor.clone()


def as_incidence_weights(weights: object, hyperedges: Tensor, nodes: Tensor, n_nodes: int) -> Tensor | None:
    """Return the weights of pairs in the order of `sort_both_ways`; of a pair that comes twice, the last."""
    if weights is None:
        return None
    each = as_weights(weights, len(nodes), "incidence_weights", "pair").to(nodes.device)
    keys, numbers = (hyperedges * n_nodes + nodes).unique(return_inverse=True)
    places = torch.arange(len(numbers), device=numbers.device)
    return each[torch.zeros_like(keys).scatter_reduce(0, numbers, places, "amax")]


def check_names(names: object, n_nodes: int, n_hyperedges: int) -> None:
    """Refuse names of other nodes or hyperedges."""
    if not isinstance(names, Names):
        raise bad_type("names", "Hypergraph", "a Names", type(names).__name__)
    for what, given, count in (
        ("nodes", names.nodes, n_nodes),
        ("hyperedges", names.hyperedges, n_hyperedges),
    ):
        if len(given) != count:
            raise bad_value("names", "Hypergraph", f"of {count} {what}", len(given))


def flat_weights(lists: Iterable[Iterable[float]], sizes: list[int], owner: str) -> list[float]:
    """Join the weights that each hyperedge lists for its nodes."""
    given = [list(each) for each in lists]
    if [len(each) for each in given] != sizes:
        expected = "a list for each hyperedge, as long as that of its nodes"
        raise bad_value("incidence_weights", owner, expected, "other lengths")
    return [weight for each in given for weight in each]


def with_ones(weights: Tensor | None, count: int) -> Tensor | None:
    """Append weights of one."""
    return None if weights is None else torch.cat([weights, weights.new_ones(count)])


def segment(segments: Segments, index: int, name: str, owner: str) -> Tensor:
    """Return what is in one segment."""
    check_count(name, index, owner, low=0)
    if index >= len(segments):
        raise bad_value(name, owner, f"between 0 and {len(segments) - 1}", index)
    start, stop = segments.offsets[index : index + 2].tolist()
    return segments.indices[start:stop]
