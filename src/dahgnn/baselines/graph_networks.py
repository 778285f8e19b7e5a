"""Networks to compare with, which take the same features and hypergraph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, elu, relu

from dahgnn.baselines.registry import register_network
from dahgnn.checks import check_count
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.nn.hgnn import check_network


class TwoLayers(nn.Module):
    """What networks of two layers are made of; each says how features pass through them.

    Parameters
    ----------
    layers : tuple of modules
        The layers, which take features and a graph or hypergraph.
    settings : dict
        What the constructor of the network was given: all that makes another one of the same shape.
    generator : torch.Generator, optional
        Source of the initial weights.
    """

    def __init__(
        self,
        layers: tuple[nn.Module, nn.Module],
        settings: dict[str, Any],
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.layer1, self.layer2 = layers
        self.settings = settings
        self.in_features, self.n_classes = settings["in_features"], settings["n_classes"]
        self.dropout = settings["dropout"]
        draw_weights(self, generator)


class _OnGraph(TwoLayers):
    """Two layers on the graph of neighbours, with dropout before each."""

    weighted: ClassVar[bool]
    activation: ClassVar[Callable[[Tensor], Tensor]]

    def forward(self, features: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return the logits, (n, n_classes), for features (n, in_features)."""
        edges, weights = _normalised_graph(hypergraph, features.dtype)
        graph = (edges, weights) if self.weighted else (edges,)
        x = dropout(features, self.dropout, self.training)
        x = dropout(type(self).activation(self.layer1(x, *graph)), self.dropout, self.training)
        logits: Tensor = self.layer2(x, *graph)
        return logits


class GCN(_OnGraph):
    """Graph convolutional network of two layers (Kipf and Welling, ICLR 2017), PyG's.

    Its graph joins each node to its neighbours, see `neighbour_graph`.

    Parameters
    ----------
    in_features, n_classes : int
        Length of a feature vector, and number of classes.
    hidden : int
        Units of the first layer.
    dropout : float
        Share of features and of hidden units dropped while training; GCN's own paper has 0.5.
    generator : torch.Generator, optional
        Source of the initial weights.
    """

    capturable = True
    weighted, activation = True, relu

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        hidden: int = 64,
        dropout: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        from torch_geometric.nn import GCNConv

        check_network(in_features, n_classes, hidden, dropout, "GCN")
        # The graph is normalised once, not in every pass.
        layer1 = GCNConv(in_features, hidden, normalize=False)
        layer2 = GCNConv(hidden, n_classes, normalize=False)
        settings = {"in_features": in_features, "n_classes": n_classes, "hidden": hidden, "dropout": dropout}
        super().__init__((layer1, layer2), settings, generator)


class GAT(_OnGraph):
    """Graph attention network of two layers (Veličković et al., ICLR 2018), PyG's.

    Its graph joins each node to its neighbours, see `neighbour_graph`.

    Parameters
    ----------
    in_features, n_classes : int
        Length of a feature vector, and number of classes.
    hidden, heads : int
        Units of each head of the first layer, and heads.
    dropout : float
        Share of features, hidden units and coefficients dropped while training; GAT's own paper has 0.6.
    generator : torch.Generator, optional
        Source of the initial weights.
    """

    capturable = True
    weighted, activation = False, elu

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        hidden: int = 8,
        heads: int = 8,
        dropout: float = 0.6,
        generator: torch.Generator | None = None,
    ) -> None:
        from torch_geometric.nn import GATConv

        check_network(in_features, n_classes, hidden, dropout, "GAT")
        check_count("heads", heads, "GAT")
        # The graph gets its loops once, not in every pass.
        layer1 = GATConv(in_features, hidden, heads=heads, dropout=dropout, add_self_loops=False)
        layer2 = GATConv(heads * hidden, n_classes, dropout=dropout, add_self_loops=False)
        settings = {"in_features": in_features, "n_classes": n_classes, "hidden": hidden, "heads": heads}
        super().__init__((layer1, layer2), settings | {"dropout": dropout}, generator)


register_network(GCN)
register_network(GAT)


def draw_weights(network: nn.Module, generator: torch.Generator | None) -> None:
    """Draw the weights as PyG does, Xavier uniform and biases of zero, but from a generator of ours."""
    if generator is None:
        return
    for name, weight in network.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(weight)
        else:
            # The last two axes are those of the matrix; torch's own would count heads as such.
            bound = math.sqrt(6 / (weight.shape[-2] + weight.shape[-1]))
            nn.init.uniform_(weight, -bound, bound, generator=generator)


# Graphs of the hypergraphs that are in use.
_graphs: WeakKeyDictionary[Hypergraph, Tensor] = WeakKeyDictionary()
_normalised: WeakKeyDictionary[Hypergraph, tuple[Tensor, Tensor]] = WeakKeyDictionary()


def neighbour_graph(hypergraph: Hypergraph) -> Tensor:
    """Return the undirected graph of each node and the others of its neighbourhood, as PyG's edges (2, e).

    For a hypergraph of nearest neighbours it is their symmetrised graph.
    """
    if hypergraph not in _graphs:
        from torch_geometric.utils import to_undirected

        neighbours, _ = hypergraph.neighbourhood("centre")
        edges = torch.stack([neighbours.indices, neighbours.owners()])
        _graphs[hypergraph] = to_undirected(edges, num_nodes=hypergraph.n_nodes)
    return _graphs[hypergraph]


def _normalised_graph(hypergraph: Hypergraph, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the edges with loops, and their weights D^(-1/2) (A + I) D^(-1/2)."""
    if hypergraph not in _normalised or _normalised[hypergraph][1].dtype != dtype:
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        edges = neighbour_graph(hypergraph)
        _normalised[hypergraph] = gcn_norm(edges, num_nodes=hypergraph.n_nodes, dtype=dtype)
    return _normalised[hypergraph]
