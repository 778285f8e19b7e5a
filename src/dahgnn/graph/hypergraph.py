"""The hypergraph: one frozen value, and the ways to build it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property

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
from dahgnn.graph.assembly import (
    as_centres,
    as_incidence_weights,
    as_weights,
    check_names,
    check_no_empty_hyperedge,
    flat_weights,
    segment,
    sort_both_ways,
    with_ones,
)
from dahgnn.graph.interchange.hif import read_hif, write_hif
from dahgnn.graph.interchange.pairs import Pairs
from dahgnn.graph.local_scale import METRICS
from dahgnn.graph.names import Name, Names
from dahgnn.graph.neighbourhoods import centred_neighbours, shared_neighbours
from dahgnn.graph.neighbours import Neighbors, build_search
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.ops.sparse import gather_sum


@dataclass(frozen=True, eq=False, repr=False)
class Hypergraph:
    """Nodes and hyperedges, incidence H in {0, 1} or weighted; made by one of the ``from_…`` builders.

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
    incidence_weights : Tensor, (n_incidences,), or None
        Positive weights of the incidences, as they stand in ``by_hyperedge``; None is one for each. Both
        kinds of weights enter the convolution. The attention, which finds weights of its own, ignores them.
    names : Names or None
        What nodes and hyperedges are called where they came from. No layer uses it.
    """

    by_hyperedge: Segments
    by_node: Segments
    positions: Tensor
    centres: Tensor | None = None
    weights: Tensor | None = None
    incidence_weights: Tensor | None = None
    names: Names | None = None

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
        incidence_weights: Iterable[Iterable[float]] | None = None,
        cover_isolated: bool = True,
    ) -> Hypergraph:
        """List the nodes of each hyperedge; the other parameters are those of `from_incidence`.

        ``incidence_weights`` has a list for each hyperedge, as long as that of its nodes.

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
        sizes = [len(each) for each in lists]
        given = None if incidence_weights is None else flat_weights(incidence_weights, sizes, owner)
        return cls.from_incidence(
            torch.cat(lists) if lists else [],
            torch.arange(len(lists)).repeat_interleave(torch.tensor(sizes, dtype=torch.int64)),
            n_nodes=n_nodes,
            n_hyperedges=len(lists),
            centres=centres,
            weights=weights,
            incidence_weights=given,
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
        incidence_weights: object = None,
        names: Names | None = None,
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
        incidence_weights : array, (t,), optional
            Positive weights of the pairs. Of a pair that comes twice, the last one counts.
        names : Names, optional
            What the nodes and hyperedges are called.
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
        check_no_empty_hyperedge(numbers, n_hyperedges)
        if names is not None:
            check_names(names, n_nodes, n_hyperedges)
        hypergraph = cls(
            *sort_both_ways(numbers, nodes, n_hyperedges, n_nodes),
            centres=None if centres is None else as_centres(centres, nodes, numbers, n_nodes, n_hyperedges),
            weights=None if weights is None else as_weights(weights, n_hyperedges).to(nodes.device),
            incidence_weights=as_incidence_weights(incidence_weights, numbers, nodes, n_nodes),
            names=names,
        )
        if cover_isolated:
            return hypergraph._covered()
        if n_hyperedges:
            return hypergraph
        raise ValueError("A Hypergraph needs a hyperedge. Got none, and cover_isolated=False adds none.")

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
            # They come last, so that all others stay where they are.
            *sort_both_ways(hyperedges, nodes, m + len(alone), self.n_nodes),
            centres=None if self.centres is None else torch.cat([self.centres, alone]),
            weights=with_ones(self.weights, len(alone)),
            incidence_weights=with_ones(self.incidence_weights, len(alone)),
            names=self.names,
        )

    @classmethod
    def from_hif(
        cls,
        source: str | os.PathLike[str] | Mapping[str, object],
        *,
        nodes: Iterable[Name] | None = None,
        undirect: bool = False,
        cover_isolated: bool = True,
    ) -> Hypergraph:
        """Read the Hypergraph Interchange Format; what becomes of a file, `graph.interchange.hif` says.

        Parameters
        ----------
        source : path or mapping
            A JSON file, or its content.
        nodes : iterable of str or int, optional
            The names of all nodes in the order in which they are to be numbered, such as that of the rows
            of a table. Those that the file does not name are in no hyperedge.
        undirect : bool
            Whether heads and tails of a directed hypergraph count alike. Else it is refused, as no layer
            here knows a direction.
        cover_isolated : bool
            As in `from_incidence`.

        Raises
        ------
        OSError, ValueError
            If there is no such file; if it is cut, no JSON, or against the schema.

        Examples
        --------
        >>> pairs = [{"edge": "club", "node": "ada"}, {"edge": "club", "node": "bob", "weight": 0.5}]
        >>> hypergraph = Hypergraph.from_hif({"incidences": pairs})
        >>> hypergraph.names.nodes, hypergraph.incidence_weights.tolist()
        (('ada', 'bob'), [1.0, 0.5])
        """
        check_flag("undirect", undirect, "Hypergraph.from_hif")
        pairs = read_hif(source, undirect=undirect)
        if nodes is not None:
            pairs = pairs.with_nodes(nodes, "Hypergraph.from_hif")
        return cls.from_incidence(**pairs.arguments(), cover_isolated=cover_isolated)

    def to_hif(self, path: str | os.PathLike[str] | None = None) -> dict[str, object]:
        """Return the content of a file that `from_hif` reads, and write the file if a path is given."""
        return write_hif(self.to_pairs(), path)

    def to_pairs(self) -> Pairs:
        """Return everything as arrays; hyperedges without a name, where others have one, are left out."""
        count = self.n_hyperedges if self.names is None else len(self.names.hyperedges)
        end = int(self.by_hyperedge.offsets[count])
        return Pairs.of(
            self.by_hyperedge.indices[:end],
            self.by_hyperedge.owners()[:end],
            self.n_nodes,
            count,
            centres=self.centres,
            weights=self.weights,
            incidence_weights=self.incidence_weights,
            names=self.names,
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
        """Number of pairs in H."""
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
        return segment(self.by_hyperedge, hyperedge, "hyperedge", "Hypergraph.members")

    def hyperedges_of(self, node: int) -> Tensor:
        """Return the hyperedges of one node."""
        return segment(self.by_node, node, "node", "Hypergraph.hyperedges_of")

    @cached_property
    def to_hyperedges(self) -> Incidence:
        """The incidences on the way from nodes to hyperedges: the product with Hᵀ."""
        return Incidence(self.by_hyperedge, self.by_node, self.by_hyperedge.owners(), self.positions)

    @cached_property
    def to_nodes(self) -> Incidence:
        """The incidences on the way from hyperedges to nodes: the product with H."""
        back = torch.empty_like(self.positions)
        back[self.positions] = torch.arange(len(back), device=self.device)  # sorts without comparing
        return Incidence(self.by_node, self.by_hyperedge, self.by_node.owners(), back)

    @cached_property
    def node_degrees(self) -> Tensor:
        """Diagonal of D_v, (n,): Σ_k b_ik w_k, the number of a node's hyperedges if they have no weights."""
        if self.weights is None and self.incidence_weights is None:
            return self.by_node.offsets.diff()
        weights = self.weights
        if weights is None:
            weights = torch.ones(self.n_hyperedges, dtype=torch.float64, device=self.device)
        return gather_sum(weights, self.to_nodes, weights=self.weights_to_nodes)

    @cached_property
    def hyperedge_degrees(self) -> Tensor:
        """Diagonal of D_e, (m,): Σ_i b_ik, the number of a hyperedge's nodes if these have no weights."""
        if self.incidence_weights is None:
            return self.by_hyperedge.offsets.diff()
        ones = torch.ones(self.n_nodes, dtype=torch.float64, device=self.device)
        return gather_sum(ones, self.to_hyperedges, weights=self.incidence_weights)

    @cached_property
    def weights_to_nodes(self) -> Tensor | None:
        """The weights of the incidences as they stand in ``by_node``, (n_incidences,), or None."""
        return None if self.incidence_weights is None else self.incidence_weights[self.positions]

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
        return centred_neighbours(self.by_hyperedge, self.centres, self.n_nodes)

    @cached_property
    def _shared(self) -> tuple[Segments, Segments]:
        return shared_neighbours(self.by_hyperedge, self.by_node)

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
            None if self.incidence_weights is None else self.incidence_weights.to(device),
            self.names,
        )
