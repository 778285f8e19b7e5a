"""The network of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from dahgnn.checks import check_count
from dahgnn.config import ModelConfig
from dahgnn.hypergraph import Hypergraph
from dahgnn.layers import AttentionWeights, DensityAwareAttention, HypergraphConvolution
from dahgnn.ops import Dropout, PropagatedFeatures, Weights, grouped_product

_WEIGHTS = (
    "convolution.weight",
    *(
        f"{layer}.{name}"
        for layer in ("attention1", "attention2")
        for name in ("weight", "attention_node", "attention_hyperedge")
    ),
)


class DAHGNN(nn.Module):
    """Density-aware hypergraph neural network: a convolution, then two attention layers.

    Parameters
    ----------
    in_features : int
        Length d₀ of a feature vector.
    n_classes : int
        Number of classes c, two or more.
    hidden, heads, units, delta, density, neighbourhood, density_gradient, convolution, final_activation
        As in `ModelConfig`, with the paper's values as defaults.
    generator : torch.Generator, optional
        Source of the initial weights.

    Examples
    --------
    >>> features = torch.rand(50, 7)
    >>> hypergraph = Hypergraph.from_features(features, k=5)
    >>> DAHGNN(in_features=7, n_classes=3)(features, hypergraph).shape
    torch.Size([50, 3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        hidden: int = ModelConfig.hidden,
        heads: int = ModelConfig.heads,
        units: int = ModelConfig.units,
        delta: float = ModelConfig.delta,
        density: bool = ModelConfig.density,
        neighbourhood: str = ModelConfig.neighbourhood,
        density_gradient: bool = ModelConfig.density_gradient,
        convolution: str = ModelConfig.convolution,
        final_activation: bool = ModelConfig.final_activation,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features, "DAHGNN")
        check_count("n_classes", n_classes, "DAHGNN", low=2)
        self.in_features, self.n_classes = in_features, n_classes
        self.config = ModelConfig(
            hidden=hidden,
            heads=heads,
            units=units,
            delta=delta,
            density=density,
            neighbourhood=neighbourhood,
            density_gradient=density_gradient,
            convolution=convolution,
            final_activation=final_activation,
        )
        attention = partial(
            DensityAwareAttention,
            delta=delta,
            density=density,
            neighbourhood=neighbourhood,
            density_gradient=density_gradient,
            generator=generator,
        )
        self.convolution = HypergraphConvolution(
            in_features, hidden, convolution=convolution, generator=generator
        )
        self.attention1 = attention(hidden, units, heads=heads)
        self.attention2 = attention(heads * units, n_classes, final_activation=final_activation)

    @classmethod
    def from_config(
        cls, in_features: int, n_classes: int, config: ModelConfig, generator: torch.Generator | None = None
    ) -> DAHGNN:
        """Make the network that a config describes."""
        return cls(in_features, n_classes, **asdict(config), generator=generator)

    @property
    def settings(self) -> dict[str, Any]:
        """What the constructor needs to make a network of the same shape."""
        return {"in_features": self.in_features, "n_classes": self.n_classes, **asdict(self.config)}

    def fold(
        self, features: Tensor, hypergraph: Hypergraph, precision: str = "float32"
    ) -> Callable[[Weights, Dropout], tuple[Tensor, Tensor]]:
        """Return a function that computes the logits of these features again and again, as weights change.

        Nothing stands between the convolution and the first attention layer, so that WE = (B X₀)(Θ W):
        B X₀ is propagated once, Θ W is multiplied first, and the large product has heads · units columns
        instead of ``hidden``. The result is that of `forward`, up to rounding.

        Parameters
        ----------
        features : Tensor, (n, in_features)
            One row a node.
        hypergraph : Hypergraph
            Of the same nodes.
        precision : {"float32", "bfloat16"}
            Of the large product, see `PropagatedFeatures`.

        Returns
        -------
        callable
            Takes the weights of r networks of this kind, stacked by name, and what drops units (nothing
            here). Returns the logits of evaluation and of training, which are the same: (n, r, n_classes).
        """
        propagated = PropagatedFeatures(
            features, lambda rows: self.convolution.to_hyperedges(rows, hypergraph), precision
        )

        def logits(weights: Weights, _: Dropout) -> tuple[Tensor, Tensor]:
            result = self._logits(weights, propagated.__matmul__, hypergraph)
            return result, result

        return logits

    def forward(self, features: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return the logits, (n, n_classes), for features (n, in_features)."""
        self.convolution.check(features, hypergraph)
        weights = {name: attrgetter(name)(self).unsqueeze(0) for name in _WEIGHTS}

        def propagate(weight: Tensor) -> Tensor:
            return self.convolution.to_hyperedges(features @ weight, hypergraph)

        return self._logits(weights, propagate, hypergraph).squeeze(1)

    def _logits(
        self,
        weights: Weights,
        propagate: Callable[[Tensor], Tensor],
        hypergraph: Hypergraph,
    ) -> Tensor:
        """Return the logits (n, r, n_classes); ``propagate`` multiplies B X₀ with a weight."""
        theta, w1, a1, b1, w2, a2, b2 = (weights[name] for name in _WEIGHTS)
        first, second = AttentionWeights.make(w1, a1, b1), AttentionWeights.make(w2, a2, b2)
        folded = theta @ w1.transpose(1, 2).flatten(2)  # (r, d₀, heads · units)
        before = propagate(folded.transpose(0, 1).flatten(1))
        after = self.convolution.to_nodes(before, hypergraph)
        wx, we = (before, after) if self.config.convolution == "printed" else (after, before)
        to_hyperedge = first.to_hyperedge.flatten(0, 1)  # (r · heads, units)
        shape = (-1, *to_hyperedge.shape)
        e_share = grouped_product(we.view(shape), to_hyperedge.unsqueeze(-1)).squeeze(-1)
        x, e = self.attention1.attend(first, wx.view(shape), e_share, hypergraph)
        return self.attention2.apply_to_runs(second, x, e, hypergraph)[0]
