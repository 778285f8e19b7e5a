"""Use the density-aware attention in a PyTorch module of your own, beside a layer of PyG.

Nodes pass through the attention over hyperedges and through a graph convolution over edges, and a linear
layer decides by both. `dahgnn.fit` trains any module that has ``in_features`` and ``n_classes`` and is called
with features and a hypergraph. Needs torch-geometric.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import elu
from torch_geometric.nn import GCNConv

from dahgnn import (
    DensityAwareAttention,
    Hypergraph,
    HypergraphConvolution,
    TrainingConfig,
    fit,
    split_per_class,
)
from dahgnn.graph.neighbours import knn


class TwoViews(nn.Module):
    """Hypergraph attention and graph convolution, side by side."""

    def __init__(self, in_features: int, n_classes: int, edges: Tensor) -> None:
        super().__init__()
        self.in_features, self.n_classes = in_features, n_classes
        self.register_buffer("edges", edges, persistent=False)
        self.convolution = HypergraphConvolution(in_features, 32)
        self.attention = DensityAwareAttention(32, 8, heads=4)
        self.graph_convolution = GCNConv(in_features, 32)
        self.decide = nn.Linear(32 + 32, n_classes)

    def forward(self, features: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return logits, (n, n_classes)."""
        nodes, hyperedges = self.convolution(features, hypergraph)
        nodes, _ = self.attention(nodes, hyperedges, hypergraph)  # its last step is an ELU
        neighbours = elu(self.graph_convolution(features, self.edges))
        return self.decide(torch.cat([nodes, neighbours], 1))


X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X[:1000] / 16, dtype=torch.float32), torch.tensor(y[:1000])
neighbors = knn(X, 10)
hypergraph = Hypergraph.from_neighbors(neighbors)
edges = torch.stack([neighbors.indices.flatten(), torch.arange(len(X)).repeat_interleave(10)])

torch.manual_seed(0)
model = TwoViews(X.shape[1], 10, edges)
split = split_per_class(y, train=10, validation=10, seed=0)
result = fit(model, X, hypergraph, y, split, TrainingConfig(learning_rate=0.01, max_epochs=300, patience=30))

print(f"Stopped by {result.stopped}; the best epoch was {result.best_epoch}")
print(f"Accuracy of {len(split.test)} unlabelled digits: {result.accuracy(y, split.test):.1%}")
