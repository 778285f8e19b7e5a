"""A hypergraph of very many nodes, built in blocks, with tensors that may be in files.

`Hypergraph.from_neighbors` sorts all incidences at once, in several copies. Here the members of a hyperedge
are sorted by themselves, and the hyperedges of a node are found by a counting sort: how many each node has
says where its own begin, and then one range of nodes after the other gets its own. The result is the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dahgnn.checks import bad_value, check_in_range
from dahgnn.files.scratch import Scratch
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.nearest import Neighbors
from dahgnn.kernels.incidence import Segments

# Incidences that are held at a time: some copies of 64 MiB each.
_INCIDENCES = 1 << 23


def hypergraph_from_neighbors(
    neighbors: Neighbors | Tensor, scratch: Scratch, *, incidences: int = _INCIDENCES
) -> Hypergraph:
    """Join every node with its neighbours, as `Hypergraph.from_neighbors` does, bit for bit.

    Parameters
    ----------
    neighbors : Neighbors or Tensor of int64, (n, k)
        Row i lists the neighbours of node i; whether i itself is among them makes no difference.
    scratch : Scratch
        Gives room for the hypergraph.
    incidences : int
        How many incidences are held at a time. It bounds the memory and never changes the result.

    Returns
    -------
    Hypergraph
        On the CPU.
    """
    rows = neighbors.indices if isinstance(neighbors, Neighbors) else neighbors
    owner = "hypergraph_from_neighbors"
    if rows.dim() != 2 or rows.numel() == 0:
        raise bad_value(
            "neighbors", owner, "two-dimensional and non-empty, (n, k)", f"shape {tuple(rows.shape)}"
        )
    check_in_range(rows, "neighbors", owner, below=len(rows), what="n_nodes")
    by_hyperedge = _members(rows, scratch, max(1, incidences // (rows.shape[1] + 1)))
    by_node, positions = _transpose(by_hyperedge, len(rows), scratch, incidences)
    return Hypergraph(by_hyperedge, by_node, positions, centres=torch.arange(len(rows)))


def _members(rows: Tensor, scratch: Scratch, step: int) -> Segments:
    """Return the nodes of each row's hyperedge: the row itself and its neighbours, each once."""
    n = len(rows)
    offsets = scratch.zeros((n + 1,), torch.int64)
    for start in range(0, n, step):
        _, is_first = _sorted_members(rows, start, start + step)
        offsets[start + 1 : start + 1 + len(is_first)] = is_first.sum(1)
    torch.cumsum(offsets, 0, out=offsets)
    indices = scratch.empty((int(offsets[-1]),), torch.int64)
    for start in range(0, n, step):
        members, is_first = _sorted_members(rows, start, start + step)
        first, last = int(offsets[start]), int(offsets[start + len(members)])
        indices[first:last] = members[is_first]
    return Segments(offsets, indices)


def _sorted_members(rows: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Return rows with their own numbers, sorted, and where each number comes first: (b, 1 + k)."""
    some = rows[start:stop].cpu().to(torch.int64)
    own = torch.arange(start, start + len(some)).unsqueeze(1)
    members = torch.cat([own, some], 1).sort(1).values
    is_first = torch.ones_like(members, dtype=torch.bool)
    torch.ne(members[:, 1:], members[:, :-1], out=is_first[:, 1:])
    return members, is_first


def _transpose(by_row: Segments, n_columns: int, scratch: Scratch, step: int) -> tuple[Segments, Tensor]:
    """Return the rows of each column, and where each of these pairs stands in ``by_row``."""
    columns = by_row.indices
    offsets = scratch.zeros((n_columns + 1,), torch.int64)
    for block in columns.split(step):
        offsets[1:] += block.bincount(minlength=n_columns)
    torch.cumsum(offsets, 0, out=offsets)
    rows, positions = (scratch.empty((len(columns),), torch.int64) for _ in range(2))
    first = 0
    while first < n_columns:
        # As many columns as have so many pairs together, or one that alone has more.
        begin = int(offsets[first])
        last = max(int(torch.searchsorted(offsets, begin + step, right=True)) - 1, first + 1)
        found = _pairs_between(columns, first, last, step)
        positions[begin : begin + len(found)] = found
        rows[begin : begin + len(found)] = torch.searchsorted(by_row.offsets, found, right=True) - 1
        first = last
    return Segments(offsets, rows), positions


def _pairs_between(columns: Tensor, first: int, last: int, step: int) -> Tensor:
    """Return the positions of pairs whose column is from first to last, ordered by column and position."""
    positions, theirs = [], []
    for start, block in zip(range(0, len(columns), step), columns.split(step), strict=True):
        place = ((block >= first) & (block < last)).nonzero().squeeze(1)
        positions.append(place + start)
        theirs.append(block[place].to(torch.int32) if last < 2**31 else block[place])
    order = torch.cat(theirs).argsort(stable=True)
    return torch.cat(positions)[order]
