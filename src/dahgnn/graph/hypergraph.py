"""The hypergraph: one frozen value, and the ways to build it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dahgnn.checks import (
    as_features,
    as_indices,
    as_tensor,
    bad_value,
    check_choice,
    check_count,
    check_flag,
    check_in_range,
    check_neighbours,
)
from dahgnn.config import NEIGHBOURHOODS
from dahgnn.graph.local_scale import METRICS
from dahgnn.graph.neighbours import Neighbors, build_search
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.ops.sparse import gather_sum

# Pairs of nodes that share a hyperedge, at the most: a list of half a gigabyte, and four times as much
# while it is made.
_MOST_PAIRS = 1 << 26
# Weights whose degrees and their roots stay in the range of float32.
_WEIGHTS = (1e-15, 1e15)


@dataclass(frozen=True, eq=False, repr=False)
class Hypergraph:
    """Nodes and hyperedges, incidence H in {0, 1}; made by one of the ``from_…`` builders.

    A node is in a hyperedge or not: pairs that come twice count once. Builders give a node that is in
    no hyperedge one of its own, behind the given ones; with ``cover_isolated=False`` it stays alone,
    and the layers give it zeros.

    Attributes
    ----------
    by_hyperedge : Segments
        The nodes of each hyperedge, in ascending order.
    by_node : Segments
        The hyperedges of each node, in ascending order.
    positions : Tensor of int64, (n_incidences,)
        Where each incidence of ``by_node`` stands in ``by_hyperedge``.
    centres : Tensor of int64, (n_hyperedges,), or None
        The node that each hyperedge was built around.
    weights : Tensor, (n_hyperedges,), or None
        Positive hyperedge weights; None is one for each.
    """

    by_hyperedge: Segments
    by_node: Segments
    positions: Tensor
    centres: Tensor | None = None
    weights: Tensor | None = None

    @classmethod
    def from_features(
        cls, features: object, k: int = 10, *, metric: str = "euclidean", weights: object = None
    ) -> Hypergraph:
        """Join every node with its k nearest others, section 3.1: n hyperedges of k + 1 nodes.

        Parameters
        ----------
        features : array, (n, d)
            One row a node; finite numbers.
        k : int
            Neighbours a node, the node itself not counted.
        metric : {"euclidean", "local-scale"}
            By what the nearest are chosen: by plain distance, as in the paper, or by one that counts how
            dense both places are, see `dahgnn.graph.local_scale`.
        weights : array, (n,), optional
            Positive hyperedge weights.

        Examples
        --------
        >>> Hypergraph.from_features([[0.0], [1.0], [3.0]], k=1)
        Hypergraph(n_nodes=3, n_hyperedges=3, n_incidences=6)
        """
        owner = "Hypergraph.from_features"
        points = as_features(features, owner)
        check_neighbours(k, len(points), owner)
        check_choice("metric", metric, tuple(METRICS), owner)
        return cls.from_neighbors(METRICS[metric](build_search(points)).among(k), weights=weights)

    @classmethod
    def from_neighbors(cls, neighbors: object, *, weights: object = None) -> Hypergraph:
        """Join every node with neighbours that are known already.

        Parameters
        ----------
        neighbors : Neighbors or array of int, (n, k)
            Row i lists the neighbours of node i; whether i itself is among them makes no difference.
        weights : array, (n,), optional
            Positive hyperedge weights.
        """
        owner = "Hypergraph.from_neighbors"
        rows = (
            neighbors.indices
            if isinstance(neighbors, Neighbors)
            else as_tensor(neighbors, "neighbors", owner)
        )
        if rows.dim() != 2 or rows.numel() == 0:
            expected = "two-dimensional and non-empty, (n, k)"
            raise bad_value("neighbors", owner, expected, f"shape {tuple(rows.shape)}")
        n = len(rows)
        check_in_range(rows, "neighbors", owner, below=n, what="n_nodes")
        centres = torch.arange(n, device=rows.device)
        members = torch.cat([centres.unsqueeze(1), rows.to(torch.int64)], 1)  # (n, 1 + k)
        hyperedge = centres.repeat_interleave(members.shape[1])
        return cls.from_incidence(
            members.reshape(-1), hyperedge, n_nodes=n, n_hyperedges=n, centres=centres, weights=weights
        )

    @classmethod
    def from_hyperedges(
        cls,
        hyperedges: Iterable[Collection[int]],
        *,
        n_nodes: int,
        centres: object = None,
        weights: object = None,
        cover_isolated: bool = True,
    ) -> Hypergraph:
        """List the nodes of each hyperedge; the other parameters are those of `from_incidence`.

        Examples
        --------
        >>> hypergraph = Hypergraph.from_hyperedges([[0, 1, 5], [1, 2]], n_nodes=7)
        >>> hypergraph  # nodes 3, 4 and 6 get hyperedges of their own
        Hypergraph(n_nodes=7, n_hyperedges=5, n_incidences=8)
        >>> hypergraph.members(0).tolist(), hypergraph.hyperedges_of(1).tolist()
        ([0, 1, 5], [0, 1])
        """
        owner = "Hypergraph.from_hyperedges"
        check_count("n_nodes", n_nodes, owner)
        lists = [
            as_indices(
                sorted(each) if isinstance(each, Set) else each, f"hyperedges[{j}]", owner, below=n_nodes
            )
            for j, each in enumerate(hyperedges)
        ]
        sizes = torch.tensor([len(each) for each in lists], dtype=torch.int64)
        return cls.from_incidence(
            torch.cat(lists) if lists else [],
            torch.arange(len(lists)).repeat_interleave(sizes),
            n_nodes=n_nodes,
            n_hyperedges=len(lists),
            centres=centres,
            weights=weights,
            cover_isolated=cover_isolated,
        )

    @classmethod
    def from_incidence(
        cls,
        node: object,
        hyperedge: object,
        *,
        n_nodes: int,
        n_hyperedges: int,
        centres: object = None,
        weights: object = None,
        cover_isolated: bool = True,
    ) -> Hypergraph:
        """List pairs: ``node[t]`` is in ``hyperedge[t]``.

        Parameters
        ----------
        node, hyperedge : array of int, (t,)
            The pairs, in any order.
        n_nodes, n_hyperedges : int
            How many there are; every hyperedge must have a node.
        centres : array of int, (n_hyperedges,), optional
            A member of each hyperedge that it was built around.
        weights : array, (n_hyperedges,), optional
            Positive hyperedge weights; they enter the convolution as in HGNN.
        cover_isolated : bool
            Whether a node that is in no hyperedge gets one of its own, of weight one.

        Examples
        --------
        >>> Hypergraph.from_incidence([0, 1, 1, 2], [0, 0, 1, 1], n_nodes=3, n_hyperedges=2)
        Hypergraph(n_nodes=3, n_hyperedges=2, n_incidences=4)
        """
        owner = "Hypergraph.from_incidence"
        check_count("n_nodes", n_nodes, owner)
        check_count("n_hyperedges", n_hyperedges, owner, low=0)
        check_flag("cover_isolated", cover_isolated, owner)
        nodes = as_indices(node, "node", owner, below=n_nodes)
        numbers = as_indices(hyperedge, "hyperedge", owner, below=n_hyperedges, what="n_hyperedges").to(
            nodes.device
        )
        if len(nodes) != len(numbers):
            raise bad_value("hyperedge", owner, f"as long as 'node', {len(nodes)}", f"length {len(numbers)}")
        _check_no_empty_hyperedge(numbers, n_hyperedges)
        hypergraph = cls(
            *_sort_both_ways(numbers, nodes, n_hyperedges, n_nodes),
            centres=None if centres is None else _as_centres(centres, nodes, numbers, n_nodes, n_hyperedges),
            weights=None if weights is None else _as_weights(weights, n_hyperedges).to(nodes.device),
        )
        if cover_isolated:
            return hypergraph._covered()
        if n_hyperedges == 0:
            raise ValueError("A Hypergraph needs a hyperedge. Got none, and cover_isolated=False adds none.")
        return hypergraph

    def _covered(self) -> Hypergraph:
        """Give each node that is in no hyperedge one of its own."""
        alone = (self.by_node.offsets.diff() == 0).nonzero().squeeze(1)
        if len(alone) == 0:
            return self
        m = self.n_hyperedges
        added = torch.arange(m, m + len(alone), device=self.device)
        hyperedges = torch.cat([self.by_hyperedge.owners(), added])
        nodes = torch.cat([self.by_hyperedge.indices, alone])
        return Hypergraph(
            *_sort_both_ways(hyperedges, nodes, m + len(alone), self.n_nodes),
            centres=None if self.centres is None else torch.cat([self.centres, alone]),
            weights=None
            if self.weights is None
            else torch.cat([self.weights, self.weights.new_ones(len(alone))]),
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.by_node)

    @property
    def n_hyperedges(self) -> int:
        """Number of hyperedges, m."""
        return len(self.by_hyperedge)

    @property
    def n_incidences(self) -> int:
        """Number of ones in H."""
        return len(self.by_node.indices)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.positions.device

    def __repr__(self) -> str:
        names = ("n_nodes", "n_hyperedges", "n_incidences")
        return f"Hypergraph({', '.join(f'{name}={getattr(self, name)}' for name in names)})"

    def members(self, hyperedge: int) -> Tensor:
        """Return the nodes of one hyperedge."""
        return _segment(self.by_hyperedge, hyperedge, "hyperedge", "Hypergraph.members")

    def hyperedges_of(self, node: int) -> Tensor:
        """Return the hyperedges of one node."""
        return _segment(self.by_node, node, "node", "Hypergraph.hyperedges_of")

    @cached_property
    def to_hyperedges(self) -> Incidence:
        """The incidences on the way from nodes to hyperedges: the product with Hᵀ."""
        return Incidence(self.by_hyperedge, self.by_node, self.by_hyperedge.owners(), self.positions)

    @cached_property
    def to_nodes(self) -> Incidence:
        """The incidences on the way from hyperedges to nodes: the product with H."""
        return Incidence(self.by_node, self.by_hyperedge, self.by_node.owners(), self.positions.argsort())

    @cached_property
    def node_degrees(self) -> Tensor:
        """Diagonal of D_v, (n,): the number of a node's hyperedges, or the sum of their weights."""
        if self.weights is None:
            return self.by_node.offsets.diff()
        return gather_sum(self.weights, self.to_nodes)

    @cached_property
    def hyperedge_degrees(self) -> Tensor:
        """Diagonal of D_e, (m,): the number of a hyperedge's nodes."""
        return self.by_hyperedge.offsets.diff()

    def degree_scales(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Return D_v^(-1/2), D_e^(-1/2) and W_e D_e^(-1/2) as vectors; a degree of zero gives zero."""
        if dtype not in self._degree_scales:
            node, hyperedge = (
                degrees.to(dtype).rsqrt().masked_fill(degrees == 0, 0)
                for degrees in (self.node_degrees, self.hyperedge_degrees)
            )
            weighted = hyperedge if self.weights is None else hyperedge * self.weights.to(dtype)
            self._degree_scales[dtype] = node, hyperedge, weighted
        return self._degree_scales[dtype]

    @cached_property
    def _degree_scales(self) -> dict[torch.dtype, tuple[Tensor, Tensor, Tensor]]:
        return {}

    def neighbourhood(self, kind: str) -> tuple[Segments, Segments]:
        """Return N(i), the nodes whose similarity makes the density of node i, and its converse.

        Parameters
        ----------
        kind : {"centre", "shared"}
            The other members of the hyperedges centred at i, or every other node that shares a
            hyperedge with i. Each counts once. Without centres, "centre" is "shared".

        Returns
        -------
        forward, backward : Segments
            N(i) of each node i, and the nodes i whose N(i) a node is in.
        """
        check_choice("kind", kind, NEIGHBOURHOODS, "Hypergraph.neighbourhood")
        return self._centred if kind == "centre" and self.centres is not None else self._shared

    @cached_property
    def _centred(self) -> tuple[Segments, Segments]:
        if self.centres is None:
            raise AttributeError("a hypergraph without centres has no centred neighbourhood")
        centre, node = self.centres[self.by_hyperedge.owners()], self.by_hyperedge.indices
        other = centre != node
        forward, backward, _ = _sort_both_ways(centre[other], node[other], self.n_nodes, self.n_nodes)
        return forward, backward

    @cached_property
    def _shared(self) -> tuple[Segments, Segments]:
        from scipy.sparse import csr_array

        sizes = self.hyperedge_degrees.double()
        pairs = min(float((sizes * (sizes - 1)).sum()), self.n_nodes * (self.n_nodes - 1))
        if pairs > _MOST_PAIRS:
            raise ValueError(
                "The pairs of nodes that share a hyperedge, whose similarity is the density of neighbourhood "
                f"'shared', must be at most {_MOST_PAIRS:,}. Got up to {pairs:,.0f}. Give the hyperedges "
                "centres, leave out the largest ones, or set density=False."
            )
        offsets, indices = (part.cpu().numpy() for part in (self.by_node.offsets, self.by_node.indices))
        incidence = csr_array((indices >= 0, indices, offsets), shape=(self.n_nodes, self.n_hyperedges))
        together = incidence @ incidence.T
        together.sort_indices()
        counts = np.diff(together.indptr)
        others = together.indices[together.indices != np.repeat(np.arange(self.n_nodes), counts)]
        # Every node shares its hyperedges with itself, unless it has none.
        counts = counts - (counts > 0)
        shared = Segments(
            torch.from_numpy(np.concatenate([[0], counts.cumsum()])).to(self.device, torch.int64),
            torch.from_numpy(others).to(self.device, torch.int64),
        )
        return shared, shared  # sharing is mutual

    def to(self, device: torch.device | str) -> Hypergraph:
        """Return the same hypergraph on another device."""
        device = torch.empty(0, device=device).device  # "cuda" is the current one, "cuda:0" perhaps
        if device == self.device:
            return self
        return Hypergraph(
            self.by_hyperedge.to(device),
            self.by_node.to(device),
            self.positions.to(device),
            None if self.centres is None else self.centres.to(device),
            None if self.weights is None else self.weights.to(device),
        )


def _sort_both_ways(
    row: Tensor, column: Tensor, n_rows: int, n_columns: int
) -> tuple[Segments, Segments, Tensor]:
    """Group pairs by row and by column, each pair once; also where the second order stands in the first."""
    keys = (row * n_columns + column).unique()
    row, column = keys // n_columns, keys % n_columns
    order = column.argsort(stable=True)
    by_row = Segments(_offsets(row, n_rows), column)
    by_column = Segments(_offsets(column, n_columns), row[order])
    return by_row, by_column, order


def _offsets(owners: Tensor, count: int) -> Tensor:
    sizes = owners.bincount(minlength=count)
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _segment(segments: Segments, index: int, name: str, owner: str) -> Tensor:
    check_count(name, index, owner, low=0)
    if index >= len(segments):
        raise bad_value(name, owner, f"between 0 and {len(segments) - 1}", index)
    start, stop = segments.offsets[index : index + 2].tolist()
    return segments.indices[start:stop]


def _check_no_empty_hyperedge(hyperedges: Tensor, n_hyperedges: int) -> None:
    empty = (hyperedges.bincount(minlength=n_hyperedges) == 0).nonzero()
    if len(empty):
        raise ValueError(
            f"Every hyperedge of a Hypergraph must have a node. Got none for hyperedge {int(empty[0])} "
            f"({len(empty)} such hyperedges in all). Leave these out and number the rest anew."
        )


def _as_centres(
    centres: object, nodes: Tensor, hyperedges: Tensor, n_nodes: int, n_hyperedges: int
) -> Tensor:
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


def _as_weights(weights: object, n_hyperedges: int) -> Tensor:
    """Return one positive weight for each hyperedge, in float64."""
    tensor = as_tensor(weights, "weights", "Hypergraph").double()
    if tensor.shape != (n_hyperedges,):
        expected = f"of length n_hyperedges = {n_hyperedges}"
        raise bad_value("weights", "Hypergraph", expected, f"shape {tuple(tensor.shape)}")
    low, high = _WEIGHTS
    wrong = (~((tensor >= low) & (tensor <= high))).nonzero().squeeze(1).tolist()
    if wrong:
        got = f"{tensor[wrong[0]].item()} for hyperedge {wrong[0]}"
        raise bad_value("weights", "Hypergraph", f"between {low:g} and {high:g}", got)
    return tensor.clone()
