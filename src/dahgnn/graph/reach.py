"""The part of a hypergraph that some nodes hear from in one layer, whole or sampled, with numbers of its own.

What is sampled for a node or a hyperedge follows from seed, step, layer and its own number. It is the same in
any company: a batch that is divided among processes takes the same parts as one that is not.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dahgnn.graph.density_neighbours import FewNeighbours, Neighbourhoods
from dahgnn.graph.drawing import draw_places, take
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.incidence import Incidence, Segments

# The most hyperedges that are taken of a node, and the most members of a hyperedge; None is all of them.
FanOut = tuple[int | None, int | None]

# Sites of the counter that choose, beyond those at which a network drops units; each choice has so many.
_FIRST_SITE, _SITES = 1 << 16, 1 << 12


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
        The neighbours of the nodes that send, whose similarity is their density; None without a density.
    neighbour_shares : Tensor, (senders,), or None
        The share of its neighbours that each of them has there; None if it is all of them.
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
    neighbour_shares: Tensor | None
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
            None if self.neighbour_shares is None else move(self.neighbour_shares),
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
    few : FewNeighbours, optional
        Of which neighbours the density of nodes is that have very many; by default it is that of all.
    """

    def __init__(
        self,
        hypergraph: Hypergraph,
        neighbourhood: str | None,
        seed: int,
        few: FewNeighbours | None = None,
    ) -> None:
        self.by_node, self.by_hyperedge = hypergraph.by_node, hypergraph.by_hyperedge
        self.seed = seed
        self._near = None if neighbourhood is None else Neighbourhoods(hypergraph, neighbourhood)
        self._few = few
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
            near, near_shares = self._find_neighbours(numbers.all())
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
            near_shares,
            None if fan[1] is None else self._shares(hyperedges, members),
        )

    def _find_neighbours(self, nodes: Tensor) -> tuple[Segments | None, Tensor | None]:
        """Return the neighbours that make the densities of nodes, and their shares of all neighbours."""
        if self._near is None:
            return None, None
        return (self._near.of(nodes), None) if self._few is None else self._few.of(nodes)

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
