"""New nodes for a trained network, without training it again.

A new node gets a hyperedge of its own with its nearest fitted nodes, and joins the hyperedges of those among
them whose farthest member is no nearer than it is. Messages flow to new nodes only. So the fitted nodes keep
what they have, and a new node gets the same in any company.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import elu

from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.neighbours import Neighbors
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.nn.density import node_density, scale_density
from dahgnn.nn.layers import DensityAwareAttention
from dahgnn.nn.messages import Step, Trace
from dahgnn.nn.model import DAHGNN
from dahgnn.ops.fused import attend_rows, similarity_sums
from dahgnn.ops.matrices import tall_product
from dahgnn.ops.sparse import gather_sum, unit_rows


class Induction:
    """A trained network and what it computes for its nodes, each part of it when it is first needed.

    Parameters
    ----------
    model : DAHGNN
        The trained network, which is not changed.
    features : Tensor, (n, in_features)
        The features of the fitted nodes.
    hypergraph : Hypergraph
        The hypergraph of the same nodes.
    radius : Tensor, (n,), optional
        How far a new node may be from fitted node j to join the hyperedge that is centred there; the
        distance of its k-th neighbour, say. Without it new nodes have no hyperedge but their own.
    """

    def __init__(
        self, model: DAHGNN, features: Tensor, hypergraph: Hypergraph, radius: Tensor | None = None
    ) -> None:
        self.model, self.features, self.hypergraph, self.radius = model.eval(), features, hypergraph, radius
        self.centred = None if radius is None else _centred_at(hypergraph)

    @cached_property
    @torch.no_grad()
    def projected(self) -> Tensor:
        """The features of the fitted nodes times the weight of the convolution."""
        return tall_product(self.features, self.model.convolution.weight)

    @cached_property
    @torch.no_grad()
    def before(self) -> Tensor:
        """The fitted hyperedges between the two products of the convolution, (1)."""
        return self.model.convolution.to_hyperedges(self.projected, self.hypergraph)

    @cached_property
    @torch.no_grad()
    def hidden(self) -> tuple[Tensor, Tensor]:
        """Fitted nodes and hyperedges behind the convolution."""
        nodes = self.model.convolution.to_nodes(self.before, self.hypergraph)
        return self._behind_convolution(nodes, self.before)

    @cached_property
    @torch.no_grad()
    def first(self) -> Trace:
        """What passed among the fitted in the first attention layer."""
        return self.model.attention1.trace(*self.hidden, self.hypergraph)

    @cached_property
    @torch.no_grad()
    def second(self) -> Trace:
        """What passed among the fitted in the second attention layer."""
        nodes, hyperedges = (step.sums.flatten(1) for step in (self.first.to_nodes, self.first.to_hyperedges))
        return self.model.attention2.trace(nodes, hyperedges, self.hypergraph)

    def _behind_convolution(self, nodes: Tensor, hyperedges: Tensor) -> tuple[Tensor, Tensor]:
        if self.model.config.convolution == "printed":
            nodes, hyperedges = hyperedges, nodes
        return (elu(nodes), elu(hyperedges)) if self.model.config.activation else (nodes, hyperedges)

    @torch.no_grad()
    def density(self) -> Tensor:
        """Return the density of fitted nodes in the first attention layer, (n,), the mean of its heads."""
        config = self.model.config
        values, _ = self.model.attention1.project(*self.hidden)
        return node_density(values, self.hypergraph, config.delta, config.neighbourhood).mean(1)

    @torch.no_grad()
    def evaluate(self, features: Tensor, neighbors: Neighbors) -> tuple[Tensor, Tensor]:
        """Return the logits of new nodes, (b, n_classes), and their density in the first layer, (b,).

        Parameters
        ----------
        features : Tensor, (b, in_features)
            The features of the new nodes.
        neighbors : Neighbors, (b, k)
            Their nearest fitted nodes, and how far each is.
        """
        return evaluate_all([self], features, neighbors)[0]

    def _evaluate(self, projected: Tensor, place: _Place) -> tuple[Tensor, Tensor]:
        """Return logits and density of new nodes, of which the first product is done."""
        nodes, hyperedges = self._convolve(projected, place)
        x, e = self._behind_convolution(nodes, hyperedges)
        hidden = x
        first, second = self._directions
        x, e, density = _attend(self.model.attention1, x, e, self.first, first, place)
        x, _, _ = _attend(self.model.attention2, x, e, self.second, second, place)
        logits = x if self.model.shortcut is None else x + hidden @ self.model.shortcut
        return logits, density.mean(1)

    @cached_property
    def _directions(self) -> tuple[Tensor, Tensor]:
        """The rows of the fitted nodes in both attention layers, each of length one."""
        return unit_rows(self.first.to_hyperedges.values), unit_rows(self.second.to_hyperedges.values)

    def _convolve(self, projected: Tensor, place: _Place) -> tuple[Tensor, Tensor]:
        """Return new nodes and their own hyperedges behind the convolution, (1) and (2)."""
        node, _, weighted = self.hypergraph.degree_scales(projected.dtype)
        degrees = projected.new_ones(len(projected))  # the weight of their own hyperedge
        if place.joined is not None:
            weights = self.hypergraph.weights
            each = projected.new_ones(self.hypergraph.n_hyperedges) if weights is None else weights
            degrees.index_add_(0, place.joined_by, each.to(projected.dtype)[place.joined])
        own = projected.new_full((len(projected),), place.size**-0.5)
        rows = torch.cat([self.projected, projected])
        scale = torch.cat([node, degrees.rsqrt()])
        hyperedges = gather_sum(rows, place.to_hyperedges, scale, own)
        rows = torch.cat([self.before, hyperedges])
        nodes = gather_sum(rows, place.to_nodes, torch.cat([weighted, own]), degrees.rsqrt())
        return nodes, hyperedges


@torch.no_grad()
def evaluate_all(
    inductions: Sequence[Induction], features: Tensor, neighbors: Neighbors
) -> list[tuple[Tensor, Tensor]]:
    """Return what `Induction.evaluate` gives for several networks on the same fitted nodes."""
    place = _Place(inductions[0], neighbors)
    weights: list[Tensor] = [each.model.convolution.weight for each in inductions]
    projected = tall_product(features, torch.cat(weights, 1)).split([each.shape[1] for each in weights], 1)
    return [each._evaluate(rows, place) for each, rows in zip(inductions, projected, strict=True)]


class _Place:
    """Where new nodes stand: who sends to their hyperedges, and which hyperedges send to them.

    Fitted nodes and hyperedges keep their numbers, those of new ones follow.
    """

    def __init__(self, induction: Induction, neighbors: Neighbors) -> None:
        hypergraph, indices = induction.hypergraph, neighbors.indices
        count, k = indices.shape
        new = torch.arange(count, device=indices.device)
        self.size, self.count, self.hypergraph = k + 1, count, hypergraph
        self._neighbours: dict[str, Segments] = {}
        self.own = new.repeat_interleave(k), indices.reshape(-1)
        members = torch.cat([indices, (hypergraph.n_nodes + new).unsqueeze(1)], 1)
        self.to_hyperedges = _incidence(new.repeat_interleave(k + 1), members.reshape(-1), count)
        owners, sources = new, hypergraph.n_hyperedges + new
        self.joined: Tensor | None = None
        if induction.radius is not None and induction.centred is not None:
            near = neighbors.distances <= induction.radius[indices]
            hyperedges = induction.centred[indices]
            near &= hyperedges >= 0
            self.joined_by, self.joined = near.nonzero()[:, 0], hyperedges[near]
            owners, sources = torch.cat([owners, self.joined_by]), torch.cat([sources, self.joined])
        order = owners.argsort(stable=True)
        self.to_nodes = _incidence(owners[order], sources[order], count)

    def neighbours(self, kind: str) -> Segments:
        """Return the fitted nodes whose similarity counts for each new one; they come behind the new."""
        if kind not in self._neighbours:
            new, near = self._neighbourhood(kind)
            self._neighbours[kind] = _segments(new, self.count + near, self.count)
        return self._neighbours[kind]

    def _neighbourhood(self, kind: str) -> tuple[Tensor, Tensor]:
        """Return pairs of a new node and a fitted one whose similarity counts, as `Hypergraph` does."""
        if self.joined is None or (kind == "centre" and self.hypergraph.centres is not None):
            return self.own
        members = self.hypergraph.by_hyperedge
        sizes = members.offsets.diff()[self.joined]
        first = (members.offsets[self.joined] - (sizes.cumsum(0) - sizes)).repeat_interleave(sizes)
        theirs = members.indices[first + torch.arange(len(first), device=first.device)]
        owners = torch.cat([self.own[0], self.joined_by.repeat_interleave(sizes)])
        pairs = (owners * self.hypergraph.n_nodes + torch.cat([self.own[1], theirs])).unique()
        return pairs // self.hypergraph.n_nodes, pairs % self.hypergraph.n_nodes


def _incidence(owners: Tensor, sources: Tensor, count: int) -> Incidence:
    """Return who sends to whom, for sums without a gradient."""
    return Incidence.forward_only(_segments(owners, sources, count), owners)


def _segments(owners: Tensor, sources: Tensor, count: int) -> Segments:
    """Return the sources of each of so many owners, which are in ascending order."""
    offsets = torch.zeros(count + 1, dtype=torch.int64, device=owners.device)
    torch.cumsum(owners.bincount(minlength=count), 0, out=offsets[1:])
    return Segments(offsets, sources)


def _centred_at(hypergraph: Hypergraph) -> Tensor | None:
    """Return the hyperedge that is centred at each node, −1 where none is; None without centres."""
    if hypergraph.centres is None:
        return None
    centred = torch.full((hypergraph.n_nodes,), -1, dtype=torch.int64, device=hypergraph.device)
    centred[hypergraph.centres] = torch.arange(hypergraph.n_hyperedges, device=hypergraph.device)
    return centred


def _attend(
    layer: DensityAwareAttention, x: Tensor, e: Tensor, fitted: Trace, directions: Tensor, place: _Place
) -> tuple[Tensor, Tensor, Tensor]:
    """Pass messages to new nodes and their hyperedges, given what passed among the fitted ones.

    The directions are those of the fitted nodes' rows, (n, heads, units).
    Returns nodes, hyperedges, and the density of the nodes, (b, heads), also where it does not count.
    """
    vectors = layer.vectors()
    wx, e_term = layer.project(x, e)
    to_node = (wx * vectors.to_node).sum(-1)
    to_hyperedges = fitted.to_hyperedges
    density = _density(layer, wx, directions, place)
    hyperedges = _step(to_hyperedges, wx, vectors.from_node, e_term, density, place.to_hyperedges, True)
    of_hyperedges = density
    if to_hyperedges.density is not None:
        of_hyperedges = gather_sum(torch.cat([to_hyperedges.density, density]), place.to_hyperedges)
    nodes = _step(
        fitted.to_nodes,
        hyperedges,
        vectors.from_hyperedge,
        to_node,
        of_hyperedges,
        place.to_nodes,
        layer.config.final_activation,
    )
    return nodes.flatten(1), hyperedges.flatten(1), density


def _step(
    fitted: Step,
    values: Tensor,
    vector: Tensor,
    target: Tensor,
    density: Tensor,
    incidence: Incidence,
    activation: bool,
) -> Tensor:
    """Sum fitted and new senders into new receivers; the density counts where it did for the fitted."""
    bias = None
    if fitted.density is not None and fitted.bias is not None:
        new = scale_density(density, fitted.peak.unsqueeze(0), among=fitted.density)
        bias = torch.cat([fitted.bias, new])
    both = torch.cat([fitted.values, values])
    return attend_rows(both, vector, target, bias, incidence, activation=activation)


def _density(layer: DensityAwareAttention, wx: Tensor, fitted: Tensor, place: _Place) -> Tensor:
    """Sum the similarities of new nodes to their neighbours, (3), of which the directions are given."""
    rows = torch.cat([unit_rows(wx), fitted])
    return similarity_sums(rows, layer.config.delta, place.neighbours(layer.config.neighbourhood))
