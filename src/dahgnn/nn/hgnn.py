"""HGNN, the hypergraph neural network whose convolution DA-HGNN begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from dahgnn.checks import check_count, check_number, check_units
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.nn.layers import HypergraphConvolution
from dahgnn.ops.propagated import DropUnits, Folded, PropagatedFeatures, Weights
from dahgnn.ops.sparse import grouped_product


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
        check_network(in_features, n_classes, hidden, dropout, "HGNN")
        self.in_features, self.n_classes = in_features, n_classes
        self.hidden, self.dropout = hidden, dropout
        self.convolution1 = HypergraphConvolution(in_features, hidden, generator=generator)
        self.convolution2 = HypergraphConvolution(hidden, n_classes, generator=generator)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> HGNN:
        """Make a network from its `settings`, such as those in the header of a file."""
        return cls(**settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, of which `from_settings` makes such a network."""
        names = ("in_features", "n_classes", "hidden", "dropout")
        return {name: getattr(self, name) for name in names}

    def fold(self, features: Tensor, hypergraph: Hypergraph, precision: str = "float32") -> Folded:
        """Return a function that computes the logits as weights change; the features are propagated once.

        See `DAHGNN.fold`; here training drops units and evaluation does not.
        """
        first = self.convolution1
        propagated = PropagatedFeatures(
            features,
            lambda rows: first.to_nodes(first.to_hyperedges(rows, hypergraph), hypergraph),
            precision,
        )

        def logits(weights: Weights, drop: DropUnits, *, evaluate: bool = True) -> tuple[Tensor, Tensor]:
            weight, second = weights["convolution1.weight"], weights["convolution2.weight"]
            projected = propagated @ weight.transpose(0, 1).flatten(1)
            hidden = relu(projected.view(len(projected), len(weight), -1))
            dropped = hidden if self.dropout == 0 else drop(hidden, self.dropout, 0)
            trained = self._classify(dropped, second, hypergraph)
            if self.dropout == 0 or not evaluate:
                return trained, trained
            with torch.no_grad():
                return self._classify(hidden, second, hypergraph), trained

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


def check_network(in_features: int, n_classes: int, hidden: int, dropout: float, owner: str) -> None:
    """Refuse wrong settings of a network of two layers."""
    check_count("in_features", in_features, owner)
    check_count("n_classes", n_classes, owner, low=2)
    check_units("hidden", hidden, owner)
    check_number("dropout", dropout, owner, low=0, high=1)
