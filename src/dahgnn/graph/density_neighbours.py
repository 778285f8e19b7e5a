"""The nodes whose similarity makes the density of a node, found for some nodes at a time.

While all rows are in memory at once, `Hypergraph.neighbourhood` lists them. Batches and evaluation ask here.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from dahgnn.files.scratch import IN_MEMORY, Scratch
from dahgnn.graph.drawing import draw_places, take
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.incidence import Segments
from dahgnn.ops.blocks import BLOCK, blocks_of

# How many times as many neighbours as hyperedges a block of nodes may have.
_MANY = 16
# The site of the counter that draws neighbours, which needs no other: they are drawn once.
_SITE = 0


class Neighbourhoods:
    """Finds the neighbours that make densities, for any nodes that are asked for.

    `Hypergraph.neighbourhood` lists those of all nodes at once, which takes more memory than all else.

    Parameters
    ----------
    hypergraph : Hypergraph
        On the CPU; its tensors may be file-backed.
    kind : {"centre", "shared"}
        See `Hypergraph.neighbourhood`.
    """

    def __init__(self, hypergraph: Hypergraph, kind: str) -> None:
        self.by_hyperedge, self.n_nodes = hypergraph.by_hyperedge, hypergraph.n_nodes
        # The hyperedges whose members are a node's neighbours; None where each node has its own.
        self.hyperedges = _hyperedges_around(hypergraph, kind)

    def blocks(self, most: int) -> Iterator[Tensor]:
        """Cut all nodes, (n,), into blocks of about so many neighbours, or of a node that has more."""
        for nodes in self._rows(most):
            yield from self.halve(nodes, most)

    def halve(self, nodes: Tensor, most: int) -> Iterator[Tensor]:
        """Halve nodes until the hyperedges of each part have at most 16 (`_MANY`) times ``most`` members."""
        if len(nodes) == 1 or int(self._count_members(nodes).sum()) <= _MANY * most:
            yield nodes
            return
        for half in nodes.tensor_split(2):
            yield from self.halve(half, most)

    def crowded(self, most: int) -> Tensor:
        """Return the nodes whose hyperedges have more than so many members, which may be the same again."""
        found = [nodes[self._count_members(nodes) > most] for nodes in self._rows(BLOCK)]
        return torch.cat([torch.empty(0, dtype=torch.int64), *found])

    def _rows(self, most: int) -> Iterator[Tensor]:
        """Cut all nodes into blocks of so many hyperedges, or of members where each node has its own."""
        segments = self.by_hyperedge if self.hyperedges is None else self.hyperedges
        for block in blocks_of(segments, most):
            yield torch.arange(block.rows.start, block.rows.stop)

    def _count_members(self, nodes: Tensor) -> Tensor:
        """Return how many members the hyperedges have whose members are the neighbours of some nodes."""
        offsets = self.by_hyperedge.offsets
        if self.hyperedges is None:
            return offsets[nodes + 1] - offsets[nodes]
        around = take(self.hyperedges, nodes)
        sizes = offsets[around.indices + 1] - offsets[around.indices]
        return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])[around.offsets].diff()

    def of(self, nodes: Tensor) -> Segments:
        """Return the neighbours of some nodes, each once."""
        around = None if self.hyperedges is None else take(self.hyperedges, nodes)
        members = take(self.by_hyperedge, nodes if around is None else around.indices)
        owners = members.owners()
        if around is not None:
            owners = around.owners()[owners]
        other = members.indices != nodes[owners]
        owners, others = owners[other], members.indices[other]
        if around is not None:  # two hyperedges may have a member in common
            keys = (owners * self.n_nodes + others).unique()
            owners, others = keys // self.n_nodes, keys % self.n_nodes
        offsets = torch.cat([owners.new_zeros(1), owners.bincount(minlength=len(nodes)).cumsum(0)])
        return Segments(offsets, others)


class FewNeighbours:
    """All neighbours of each node, but only some of a node that has very many.

    A batch need not read the rows of more. The sum of their similarities, divided by their share of all
    neighbours, is right in the mean. Who is taken follows from the number of the node, once and for all: it
    is the same in every batch, in every process and for every network.

    Parameters
    ----------
    near : Neighbourhoods
        Finds all neighbours.
    most : int
        How many a node has at the most.
    scratch : Scratch, optional
        Gives room for those that are taken; by default in memory.
    """

    def __init__(self, near: Neighbourhoods, most: int, scratch: Scratch = IN_MEMORY) -> None:
        self.near, self.most = near, most
        self.hubs = near.crowded(most)  # in ascending order
        # Of each hub how many neighbours it has, and which are taken; the rest of its row has no meaning.
        self.counts = torch.zeros(len(self.hubs), dtype=torch.int64)
        self.taken = scratch.empty((len(self.hubs), most), torch.int32)
        start = 0
        for hubs in near.halve(self.hubs, BLOCK // _MANY) if len(self.hubs) else ():
            self._keep(slice(start, start + len(hubs)), hubs)
            start += len(hubs)

    def _keep(self, rows: slice, hubs: Tensor) -> None:
        """Find the neighbours of some hubs, and keep those that are taken in these rows."""
        found = self.near.of(hubs)
        counts = found.offsets.diff()
        long = counts > self.most
        places = draw_places(hubs[long], counts[long], self.most, 0, _SITE, 0)
        taken = take(found, torch.arange(len(hubs)), self.most, long, places)
        within = torch.arange(len(taken.indices)) - taken.offsets[taken.owners()]
        self.counts[rows] = counts
        self.taken[rows][taken.owners(), within] = taken.indices.to(torch.int32)

    def of(self, nodes: Tensor) -> tuple[Segments, Tensor | None]:
        """Return neighbours of some nodes, and which share of all neighbours of each they are.

        Returns
        -------
        neighbours : Segments
            The neighbours, in ascending order.
        shares : Tensor of float64, (s,), or None
            None if they are all neighbours of all these nodes.
        """
        is_hub = torch.isin(nodes, self.hubs)
        if not is_hub.any():
            return self.near.of(nodes), None
        whole, rows = self.near.of(nodes[~is_hub]), torch.searchsorted(self.hubs, nodes[is_hub])
        kept = self.counts[rows].clamp_max(self.most)
        used = torch.arange(self.most) < kept.unsqueeze(1)
        owners = torch.cat(
            [(~is_hub).nonzero()[whole.owners(), 0], is_hub.nonzero()[:, 0].repeat_interleave(kept)]
        )
        others = torch.cat([whole.indices, self.taken[rows][used].to(torch.int64)])
        sizes = owners.bincount(minlength=len(nodes))
        offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        shares = torch.ones(len(nodes), dtype=torch.float64)
        # One may be alone in all of its hyperedges.
        shares[is_hub] = kept.clamp_min(1) / self.counts[rows].clamp_min(1).double()
        return Segments(offsets, others[owners.argsort(stable=True)]), shares


def _hyperedges_around(hypergraph: Hypergraph, kind: str) -> Segments | None:
    """Return the hyperedges whose members are the neighbours of each node; None if node i has the i-th."""
    centres = hypergraph.centres
    if kind == "shared" or centres is None:
        return hypergraph.by_node
    n = hypergraph.n_nodes
    if len(centres) == n and bool((centres == torch.arange(n)).all()):
        return None
    counts = centres.bincount(minlength=n)
    return Segments(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), centres.argsort(stable=True))
