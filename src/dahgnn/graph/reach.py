"""The part of a hypergraph that some nodes hear from in one layer, whole or sampled, with numbers of its own.

What is sampled for a node or a hyperedge follows from seed, step, layer and its own number. It is the same in
any company: a batch that is divided among processes takes the same parts as one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.ops.blocks import blocks_of
from dahgnn.ops.dropout import philox

# The most hyperedges that are taken of a node, and the most members of a hyperedge; None is all of them.
FanOut = tuple[int | None, int | None]

# Sites of the counter that choose, beyond those at which a network drops units; each choice has so many.
_FIRST_SITE, _SITES = 1 << 16, 1 << 12

# How many times as many neighbours as hyperedges a block of nodes may have.
_MANY = 16


@dataclass(frozen=True, eq=False)
class Reach:
    """Who sends to whom in one layer, in numbers that count from zero.

    Attributes
    ----------
    nodes : Tensor of int64, (v,)
        The numbers that the nodes have in the whole hypergraph. Those that send come first.
    hyperedges : Tensor of int64, (h,)
        The numbers of the hyperedges there.
    senders : int
        How many nodes send.
    receivers : Tensor of int64, (r,)
        The nodes that receive, as places among ``nodes``.
    to_hyperedges : Incidence
        The nodes that send to each hyperedge.
    to_nodes : Incidence
        The hyperedges that send to each receiver.
    neighbours : Segments or None
        All neighbours of the nodes that send, whose similarity is their density; None without a density.
    shares : Tensor, (h,), or None
        The share of its members that each hyperedge hears from; None if it is all of them.
    """

    nodes: Tensor
    hyperedges: Tensor
    senders: int
    receivers: Tensor
    to_hyperedges: Incidence
    to_nodes: Incidence
    neighbours: Segments | None
    shares: Tensor | None

    def map(self, move: Callable[[Tensor], Tensor]) -> Reach:
        """Return the same in tensors that a function gives for these, such as copies on another device."""
        return Reach(
            move(self.nodes),
            move(self.hyperedges),
            self.senders,
            move(self.receivers),
            self.to_hyperedges.map(move),
            self.to_nodes.map(move),
            None if self.neighbours is None else self.neighbours.map(move),
            None if self.shares is None else move(self.shares),
        )

    def measure(self) -> None:
        """Find out the longest of all segments on the CPU: kernels ask for it, and would wait for the GPU."""
        paths = self.to_hyperedges, self.to_nodes
        each = [*(path.forward for path in paths), *(path.backward for path in paths), self.neighbours]
        for segments in each:
            if segments is not None:
                _ = segments.longest


class Sampler:
    """Finds what nodes hear from, layer by layer.

    It keeps a number for each node and hyperedge to count with, so that a thread needs one of its own.

    Parameters
    ----------
    hypergraph : Hypergraph
        The whole hypergraph, on the CPU; its tensors may be file-backed.
    neighbourhood : {"centre", "shared"} or None
        Whose similarity makes a node's density, see `Hypergraph.neighbourhood`; None without a density.
    seed : int
        What the choice depends on besides step, layer and number.
    """

    def __init__(self, hypergraph: Hypergraph, neighbourhood: str | None, seed: int) -> None:
        self.by_node, self.by_hyperedge = hypergraph.by_node, hypergraph.by_hyperedge
        self.seed = seed
        self._near = None if neighbourhood is None else Neighbourhoods(hypergraph, neighbourhood)
        self._nodes, self._hyperedges = Numbers(hypergraph.n_nodes), Numbers(hypergraph.n_hyperedges)

    def another(self) -> Sampler:
        """Return one that finds the same, for another thread."""
        other = copy(self)
        other._nodes, other._hyperedges = (Numbers(each.most) for each in (self._nodes, self._hyperedges))
        return other

    def around(self, targets: Tensor, fan_out: tuple[FanOut, ...], step: int) -> list[Reach]:
        """Return what reaches the targets through as many layers as there are fan-outs, the first one first.

        The receivers of a layer are all nodes of the next one, in their order, and its hyperedges begin with
        those of the next one.

        Parameters
        ----------
        targets : Tensor of int64, (t,)
            Different nodes.
        fan_out : tuple of (int or None, int or None)
            The most hyperedges of a node and members of a hyperedge, of each layer.
        step : int
            Others are chosen at each step.
        """
        reaches: list[Reach] = []
        receivers, hyperedges = targets, targets.new_empty(0)
        for layer in reversed(range(len(fan_out))):
            reaches.append(self._reach(receivers, hyperedges, fan_out[layer], step, layer))
            receivers, hyperedges = reaches[-1].nodes, reaches[-1].hyperedges
        return reaches[::-1]

    def _reach(self, receivers: Tensor, hyperedges: Tensor, fan: FanOut, step: int, layer: int) -> Reach:
        of_receivers = self._choose(self.by_node, receivers, fan[0], step, 2 * layer)
        with self._hyperedges as numbers:
            numbers.add(hyperedges)
            hyperedges, sources = numbers.all(of_receivers.indices), numbers.of(of_receivers.indices)
        members = self._choose(self.by_hyperedge, hyperedges, fan[1], step, 2 * layer + 1)
        with self._nodes as numbers:
            numbers.add(members.indices)
            senders = numbers.count
            near = None if self._near is None else self._near.of(numbers.all())
            numbers.add(receivers)
            if near is not None:
                numbers.add(near.indices)
                near = Segments(near.offsets, numbers.of(near.indices))
            nodes, places = numbers.all(), numbers.of(receivers)
            sending = numbers.of(members.indices)
        return Reach(
            nodes,
            hyperedges,
            senders,
            places,
            both_orders(Segments(members.offsets, sending), senders),
            both_orders(Segments(of_receivers.offsets, sources), len(hyperedges)),
            near,
            None if fan[1] is None else self._shares(hyperedges, members),
        )

    def _shares(self, hyperedges: Tensor, members: Segments) -> Tensor:
        sizes = self.by_hyperedge.offsets[hyperedges + 1] - self.by_hyperedge.offsets[hyperedges]
        return members.offsets.diff().double() / sizes

    def _choose(
        self, segments: Segments, numbers: Tensor, most: int | None, step: int, choice: int
    ) -> Segments:
        """Return what some segments name, or as many of each as may be taken."""
        if most is None:
            return take(segments, numbers)
        counts = segments.offsets[numbers + 1] - segments.offsets[numbers]
        long = counts > most
        site = _FIRST_SITE + choice * _SITES
        places = draw_places(numbers[long], counts[long], most, step, site, self.seed)
        return take(segments, numbers, most, long, places)


def take(
    segments: Segments,
    numbers: Tensor,
    most: int | None = None,
    long: Tensor | None = None,
    places: Tensor | None = None,
) -> Segments:
    """Return what some segments name.

    Parameters
    ----------
    segments : Segments
        All of them.
    numbers : Tensor of int64, (s,)
        Which ones.
    most : int, optional
        How many each names at the most; others are ``long``.
    long, places : Tensor, (s,), (l, most), optional
        Which of them are longer, and which places of these are taken.
    """
    first = segments.offsets[numbers]
    counts = segments.offsets[numbers + 1] - first
    taken = counts if most is None else counts.clamp_max(most)
    offsets = torch.cat([taken.new_zeros(1), taken.cumsum(0)])
    owners = torch.arange(len(numbers)).repeat_interleave(taken, output_size=int(offsets[-1]))
    within = torch.arange(len(owners)) - offsets[owners]
    if long is not None and places is not None:
        within[long[owners]] = places.flatten()
    return Segments(offsets, segments.indices[first[owners] + within])


class Neighbourhoods:
    """The nodes whose similarity makes the density of a node, found for some nodes at a time.

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
        segments = self.by_hyperedge if self.hyperedges is None else self.hyperedges
        for block in blocks_of(segments, most):
            yield from self._halve(torch.arange(block.rows.start, block.rows.stop), most)

    def _halve(self, nodes: Tensor, most: int) -> Iterator[Tensor]:
        """Cut nodes until their hyperedges have not many times as many members in all."""
        members = 0
        if self.hyperedges is not None:
            hyperedges, offsets = take(self.hyperedges, nodes).indices, self.by_hyperedge.offsets
            members = int((offsets[hyperedges + 1] - offsets[hyperedges]).sum())
        if len(nodes) == 1 or members <= _MANY * most:
            yield nodes
            return
        for half in nodes.tensor_split(2):
            yield from self._halve(half, most)

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


def draw_places(numbers: Tensor, counts: Tensor, most: int, step: int, site: int, seed: int) -> Tensor:
    """Return different places below each count, as many as asked for, each with the same chance.

    The places stand on a circle that is cut into ``most`` arcs at a point that is drawn; one place is drawn
    of each arc. So the work does not grow with the counts.

    Parameters
    ----------
    numbers : Tensor of int64, (s,)
        Whose places they are: the counter of the generator, which is Philox.
    counts : Tensor of int64, (s,)
        At least ``most``, and below 2³¹.
    most : int
        How many are drawn.
    step, site, seed : int
        What else decides.

    Returns
    -------
    Tensor of int64, (s, most), in ascending order
    """
    words = torch.cat([philox(numbers, step, site + j, seed) for j in range(most // 4 + 1)], 1)
    arcs = torch.arange(most + 1) * counts.unsqueeze(1) // most
    within = arcs[:, :-1] + (words[:, 1 : most + 1] * arcs.diff() >> 32)
    begin = words[:, :1] * counts.unsqueeze(1) >> 32
    return ((begin + within) % counts.unsqueeze(1)).sort(1).values


def both_orders(forward: Segments, n_sources: int) -> Incidence:
    """Return incidences in the order of their targets and in that of their sources."""
    from scipy.sparse import csr_array

    places, shape = np.arange(len(forward.indices)), (len(forward), n_sources)
    rows = csr_array((places, forward.indices.numpy(), forward.offsets.numpy()), shape=shape).tocsc()
    offsets, owners, positions = (
        torch.from_numpy(each).to(torch.int64) for each in (rows.indptr, rows.indices, rows.data)
    )
    return Incidence(forward, Segments(offsets, owners), forward.owners(), positions)


class Numbers:
    """Gives things that have numbers in a whole new ones, 0, 1, …, in the order in which they are added.

    The end of its block forgets what was added.

    Parameters
    ----------
    count : int
        How many things the whole has.

    Examples
    --------
    >>> with Numbers(100) as numbers:
    ...     numbers.add(torch.tensor([70, 7, 70, 30]))
    ...     numbers.all(), numbers.of(torch.tensor([30, 70]))
    (tensor([70,  7, 30]), tensor([2, 0]))
    """

    def __init__(self, count: int) -> None:
        self.most = count
        self._places: NDArray[Any] = np.full(count, -1, dtype=np.int32)
        self._added: list[NDArray[Any]] = []
        self.count = 0

    def __enter__(self) -> Numbers:
        return self

    def __exit__(self, *_: object) -> None:
        for some in self._added:
            self._places[some] = -1
        self._added, self.count = [], 0

    def add(self, numbers: Tensor) -> None:
        """Add those that are not there yet."""
        given = numbers.numpy()
        fresh = given[self._places[given] < 0]
        order = np.arange(len(fresh), dtype=np.int32)
        self._places[fresh[::-1]] = order[::-1]  # of those that come twice the first one stays
        fresh = fresh[self._places[fresh] == order]
        self._places[fresh] = np.arange(self.count, self.count + len(fresh), dtype=np.int32)
        self._added.append(fresh)
        self.count += len(fresh)

    def all(self, numbers: Tensor | None = None) -> Tensor:
        """Return all that were added, in order, after adding these."""
        if numbers is not None:
            self.add(numbers)
        return torch.from_numpy(np.concatenate(self._added).astype(np.int64, copy=False))

    def of(self, numbers: Tensor) -> Tensor:
        """Return the new numbers of what was added."""
        return torch.from_numpy(self._places[numbers.numpy()].astype(np.int64))


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
