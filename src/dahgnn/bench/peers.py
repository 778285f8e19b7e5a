"""Networks of other libraries, of the same sizes as ours, to time beside it, and the plain loop for them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, elu

from dahgnn.config import ModelConfig, TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph

IN_FEATURES = 784
N_CLASSES = 10


def make_pyg(
    hypergraph: Hypergraph, in_features: int = IN_FEATURES, *, hidden: int = ModelConfig.hidden
) -> nn.Module:
    """Make a network of PyG's HypergraphConv, with attention in the two layers that have it here."""
    from torch_geometric.nn import HypergraphConv

    members = hypergraph.by_hyperedge
    incidence = torch.stack([members.indices, members.owners()])

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = HypergraphConv(in_features, hidden, bias=False)
            self.second = HypergraphConv(hidden, 8, use_attention=True, heads=4)
            self.third = HypergraphConv(32, N_CLASSES, use_attention=True, heads=1)

        def forward(self, features: Tensor) -> Tensor:
            x = self.first(features, incidence)
            x = elu(self.second(x, incidence, hyperedge_attr=x))
            return elu(self.third(x, incidence, hyperedge_attr=x))

    return Network()


def make_gat(hypergraph: Hypergraph, in_features: int = IN_FEATURES) -> nn.Module:
    """Make PyG's GAT, four heads of eight and one of ten, on the symmetrised graph of nearest neighbours."""
    from torch_geometric.nn import GATConv
    from torch_geometric.utils import to_undirected

    neighbours, _ = hypergraph.neighbourhood("centre")
    edges = to_undirected(torch.stack([neighbours.indices, neighbours.owners()]))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GATConv(in_features, 8, heads=4)
            self.second = GATConv(32, N_CLASSES)

        def forward(self, features: Tensor) -> Tensor:
            logits: Tensor = self.second(elu(self.first(features, edges)), edges)
            return logits

    return Network()


def make_dhg(hypergraph: Hypergraph, in_features: int = IN_FEATURES) -> nn.Module:
    """Make a network of DHG's HGNN convolution and two UniGAT layers, without dropout as ours."""
    import dhg
    from dhg.nn import HGNNConv, MultiHeadWrapper, UniGATConv

    members = hypergraph.by_hyperedge
    nodes, offsets = members.indices.tolist(), members.offsets.tolist()
    hyperedges = [nodes[start:stop] for start, stop in itertools.pairwise(offsets)]
    theirs = dhg.Hypergraph(hypergraph.n_nodes, hyperedges, device=hypergraph.device)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = HGNNConv(in_features, 256, bias=False, is_last=True)
            self.second = MultiHeadWrapper(
                4, "concat", UniGATConv, in_channels=256, out_channels=8, drop_rate=0
            )
            self.third = UniGATConv(32, N_CLASSES, drop_rate=0)

        def forward(self, features: Tensor) -> Tensor:
            x = self.second(X=self.first(features, theirs), hg=theirs)
            logits: Tensor = self.third(x, theirs)
            return logits

    return Network()


def train_plainly(model: nn.Module, features: Tensor, nodes: Tensor, targets: Tensor) -> Iterator[None]:
    """Update a network once for each item that is taken, by the loss at some nodes and without an end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=TrainingConfig.learning_rate)
    while True:
        optimizer.zero_grad()
        cross_entropy(model(features)[nodes], targets).backward()
        optimizer.step()
        yield
