"""Methods to compare with, on the same features, hypergraph and split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from dahgnn.checks import as_features, as_labels, check_count, check_neighbours, check_number
from dahgnn.hypergraph import Hypergraph
from dahgnn.layers import HypergraphConvolution
from dahgnn.ops import Dropout, PropagatedFeatures, Weights, grouped_product
from dahgnn.splits import Split, check_split


class HGNN(nn.Module):
    """Hypergraph neural network of two convolutions (Feng et al., AAAI 2019).

    Parameters
    ----------
    in_features, n_classes : int
        Length of a feature vector, and number of classes.
    hidden : int
        Units of the first convolution.
    dropout : float
        Share of hidden units dropped while training; HGNN's own paper has 0.5.
    generator : torch.Generator, optional
        Source of the initial weights.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        hidden: int = 128,
        dropout: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features, "HGNN")
        check_count("n_classes", n_classes, "HGNN", low=2)
        check_count("hidden", hidden, "HGNN")
        check_number("dropout", dropout, "HGNN", low=0, high=1)
        self.in_features, self.n_classes = in_features, n_classes
        self.hidden, self.dropout = hidden, dropout
        self.convolution1 = HypergraphConvolution(in_features, hidden, generator=generator)
        self.convolution2 = HypergraphConvolution(hidden, n_classes, generator=generator)

    @property
    def settings(self) -> dict[str, Any]:
        """What the constructor needs to make a network of the same shape."""
        names = ("in_features", "n_classes", "hidden", "dropout")
        return {name: getattr(self, name) for name in names}

    def fold(
        self, features: Tensor, hypergraph: Hypergraph, precision: str = "float32"
    ) -> Callable[[Weights, Dropout], tuple[Tensor, Tensor]]:
        """Return a function that computes the logits as weights change; the features are propagated once.

        See `DAHGNN.fold`; here training drops units and evaluation does not.
        """
        first = self.convolution1
        propagated = PropagatedFeatures(
            features,
            lambda rows: first.to_nodes(first.to_hyperedges(rows, hypergraph), hypergraph),
            precision,
        )

        def logits(weights: Weights, drop: Dropout) -> tuple[Tensor, Tensor]:
            weight, second = weights["convolution1.weight"], weights["convolution2.weight"]
            projected = propagated @ weight.transpose(0, 1).flatten(1)
            hidden = relu(projected.view(len(projected), len(weight), -1))
            if self.dropout == 0:
                result = self._classify(hidden, second, hypergraph)
                return result, result
            with torch.no_grad():
                evaluated = self._classify(hidden, second, hypergraph)
            return evaluated, self._classify(drop(hidden, self.dropout, 0), second, hypergraph)

        return logits

    def _classify(self, hidden: Tensor, weight: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return the second convolution of r networks: (n, r, hidden) → (n, r, n_classes)."""
        rows = grouped_product(hidden, weight)
        return self.convolution2.to_nodes(self.convolution2.to_hyperedges(rows, hypergraph), hypergraph)

    def forward(self, features: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return the logits, (n, n_classes), for features (n, in_features)."""
        nodes, _ = self.convolution1(features, hypergraph)
        hidden = dropout(relu(nodes), self.dropout, training=self.training)
        logits: Tensor = self.convolution2(hidden, hypergraph)[0]
        return logits


# Clamping factors to choose from on the validation nodes; 0.2 is scikit-learn's default.
_ALPHAS = (0.2, 0.5, 0.8, 0.95, 0.99)


def label_spreading(features: object, labels: object, split: Split, *, k: int = 10) -> tuple[Tensor, float]:
    """Spread labels over the graph of k nearest neighbours (Zhou et al., 2004; scikit-learn's).

    Parameters
    ----------
    features : array, (n, d)
        One row a node.
    labels : array of int, (n,)
        Read at the training and validation nodes alone, but that the largest tells the number of classes.
    split : Split
        Its training nodes are the labelled ones; its validation nodes choose alpha.
    k : int
        Neighbours a node.

    Returns
    -------
    probabilities : Tensor, (n, c)
        Of each class.
    alpha : float
        The clamping factor with the best validation accuracy.
    """
    from sklearn.neighbors import kneighbors_graph
    from sklearn.semi_supervised import LabelSpreading

    rows = as_features(features, "label_spreading").numpy()
    check_neighbours(k, len(rows), "label_spreading")
    known = as_labels(labels, "label_spreading", n_nodes=len(rows))
    n_classes = max(2, int(known.max()) + 1)
    check_split(split, known, n_classes, "label_spreading")
    given = torch.full_like(known, -1)
    given[split.train] = known[split.train]
    # The graph of kernel="knn", built once for all: the node itself and its k − 1 nearest others.
    graph = kneighbors_graph(rows, k, include_self=True)
    best, best_accuracy, best_alpha = None, -1.0, 0.0
    for alpha in _ALPHAS:
        spreading = LabelSpreading(kernel=lambda *_: graph, alpha=alpha, max_iter=1000)
        fitted = spreading.fit(rows, given.numpy())
        accuracy = float((fitted.transduction_ == known.numpy())[split.validation].mean())
        if accuracy > best_accuracy:
            best, best_accuracy, best_alpha = fitted.label_distributions_, accuracy, alpha
    return torch.from_numpy(best).float(), best_alpha
