"""New nodes for a trained network, without training it again.

A new node gets a hyperedge of its own with its nearest fitted nodes, and joins the hyperedges of those among
them whose farthest member is no nearer than it is. Messages flow to new nodes only. So the fitted nodes keep
what they have, and a new node gets the same in any company.
"""

from __future__ import annotations

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
from dahgnn.ops.sparse import attend, gather_sum, unit_rows


class Induction:
    """A trained network and what it computed for its nodes.

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

    @torch.no_grad()
    def __init__(
        self, model: DAHGNN, features: Tensor, hypergraph: Hypergraph, radius: Tensor | None = None
    ) -> None:
        self.model, self.hypergraph, self.radius = model.eval(), hypergraph, radius
        self.centred = None if radius is None else _centred_at(hypergraph)
        convolution = model.convolution
        self.projected = features @ convolution.weight
        self.before = convolution.to_hyperedges(self.projected, hypergraph)
        nodes = convolution.to_nodes(self.before, hypergraph)
        self.behind = self._behind_convolution(nodes, self.before)

    @cached_property
    @torch.no_grad()
    def first(self) -> Trace:
        """What passed in the first attention layer."""
        return self.model.attention1.trace(*self.behind, self.hypergraph)

    @cached_property
    @torch.no_grad()
    def second(self) -> Trace:
        """What passed in the second attention layer."""
        nodes, hyperedges = (each.sums.flatten(1) for each in (self.first.to_nodes, self.first.to_hyperedges))
        return self.model.attention2.trace(nodes, hyperedges, self.hypergraph)

    def _behind_convolution(self, nodes: Tensor, hyperedges: Tensor) -> tuple[Tensor, Tensor]:
        if self.model.config.convolution == "printed":
            nodes, hyperedges = hyperedges, nodes
        return (elu(nodes), elu(hyperedges)) if self.model.config.activation else (nodes, hyperedges)

    @torch.no_grad()
    def density(self) -> Tensor:
        """Return the density of fitted nodes in the first attention layer, (n,), the mean of its heads."""
        config = self.model.config
        values, _ = self.model.attention1.project(*self.behind)
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
        place = _Place(self, neighbors)
        nodes, hyperedges = self._convolve(features, place)
        x, e = self._behind_convolution(nodes, hyperedges)
        hidden = x
        x, e, density = _attend(self.model.attention1, x, e, self.first, place)
        x, _, _ = _attend(self.model.attention2, x, e, self.second, place)
        logits = x if self.model.shortcut is None else x + hidden @ self.model.shortcut
        return logits, density.mean(1)

    def _convolve(self, features: Tensor, place: _Place) -> tuple[Tensor, Tensor]:
        """Return new nodes and their own hyperedges behind the convolution, (1) and (2)."""
        node, _, weighted = self.hypergraph.degree_scales(features.dtype)
        degrees = features.new_ones(len(features))  # the weight of their own hyperedge
        if place.joined is not None:
            weights = self.hypergraph.weights
            each = features.new_ones(self.hypergraph.n_hyperedges) if weights is None else weights
            degrees.index_add_(0, place.joined_by, each.to(features.dtype)[place.joined])
        own = features.new_full((len(features),), place.size**-0.5)
        rows = torch.cat([self.projected, features @ self.model.convolution.weight])
        scale = torch.cat([node, degrees.rsqrt()])
        hyperedges = gather_sum(rows, place.to_hyperedges, scale, own)
        rows = torch.cat([self.before, hyperedges])
        nodes = gather_sum(rows, place.to_nodes, torch.cat([weighted, own]), degrees.rsqrt())
        return nodes, hyperedges


class _Place:
    """Where new nodes stand: who sends to their hyperedges, and which hyperedges send to them.

    Fitted nodes and hyperedges keep their numbers, those of new ones follow.
    """

    def __init__(self, induction: Induction, neighbors: Neighbors) -> None:
        hypergraph, indices = induction.hypergraph, neighbors.indices
        count, k = indices.shape
        new = torch.arange(count, device=indices.device)
        self.size, self.hypergraph = k + 1, hypergraph
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

    def neighbourhood(self, kind: str) -> tuple[Tensor, Tensor]:
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
    offsets = torch.zeros(count + 1, dtype=torch.int64, device=owners.device)
    torch.cumsum(owners.bincount(minlength=count), 0, out=offsets[1:])
    return Incidence.forward_only(Segments(offsets, sources), owners)


def _centred_at(hypergraph: Hypergraph) -> Tensor | None:
    """Return the hyperedge that is centred at each node, −1 where none is; None without centres."""
    if hypergraph.centres is None:
        return None
    centred = torch.full((hypergraph.n_nodes,), -1, dtype=torch.int64, device=hypergraph.device)
    centred[hypergraph.centres] = torch.arange(hypergraph.n_hyperedges, device=hypergraph.device)
    return centred


def _attend(
    layer: DensityAwareAttention, x: Tensor, e: Tensor, fitted: Trace, place: _Place
) -> tuple[Tensor, Tensor, Tensor]:
    """Pass messages to new nodes and their hyperedges, given what passed among the fitted ones.

    Returns nodes, hyperedges, and the density of the nodes, (b, heads), also where it does not count.
    """
    vectors = layer.vectors()
    wx, e_term = layer.project(x, e)
    from_node, to_node = ((wx * vector).sum(-1) for vector in (vectors.from_node, vectors.to_node))
    to_hyperedges = fitted.to_hyperedges
    density = _density(layer, wx, to_hyperedges.values, place)
    hyperedges = _step(to_hyperedges, wx, from_node, e_term, density, place.to_hyperedges, True)
    from_hyperedge = (hyperedges * vectors.from_hyperedge).sum(-1)
    of_hyperedges = density
    if to_hyperedges.density is not None:
        of_hyperedges = gather_sum(torch.cat([to_hyperedges.density, density]), place.to_hyperedges)
    nodes = _step(
        fitted.to_nodes,
        hyperedges,
        from_hyperedge,
        to_node,
        of_hyperedges,
        place.to_nodes,
        layer.config.final_activation,
    )
    return nodes.flatten(1), hyperedges.flatten(1), density


def _step(
    fitted: Step,
    values: Tensor,
    source: Tensor,
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
    return attend(
        torch.cat([fitted.values, values]),
        torch.cat([fitted.source, source]),
        target,
        bias,
        incidence,
        activation=activation,
    )


def _density(layer: DensityAwareAttention, wx: Tensor, fitted: Tensor, place: _Place) -> Tensor:
    """Sum the similarities of new nodes to their neighbours, (3)."""
    new, near = place.neighbourhood(layer.config.neighbourhood)
    similar = (unit_rows(wx)[new] * unit_rows(fitted[near])).sum(-1).clamp_max(1)  # (pairs, heads)
    return wx.new_zeros(wx.shape[:2]).index_add_(0, new, similar * (similar > layer.config.delta))
