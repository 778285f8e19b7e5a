"""The network of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dahgnn.checks import check_count
from dahgnn.config import ModelConfig
from dahgnn.hypergraph import Hypergraph
from dahgnn.layers import DensityAwareAttention, HypergraphConvolution
from dahgnn.ops import FixedMatrix, head_products

# Columns of the features that are propagated at a time.
_COLUMNS_AT_ONCE = 64


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

    # Nothing is random in training: `training.fit` needs one pass an epoch.
    trains_as_it_evaluates: ClassVar[bool] = True

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

    def fold(self, features: Tensor, hypergraph: Hypergraph) -> Callable[[], Tensor]:
        """Return a function that computes the logits of these features again and again, as weights change.

        Nothing stands between the convolution and the first attention layer, so that WE = (B X₀)(Θ W):
        B X₀ is propagated once, Θ W is multiplied first, and the large product has heads · units columns
        instead of ``hidden``. The result is that of `forward`, up to rounding.
        """
        # Columns of zeros, such as the margins of images, reach nothing and get no gradient.
        used = features.any(0).nonzero().squeeze(1)
        # Some columns at a time, so that no second copy of the features is made on the way.
        rows = features.new_empty(hypergraph.n_hyperedges, len(used))
        for start in range(0, len(used), _COLUMNS_AT_ONCE):
            some = slice(start, start + _COLUMNS_AT_ONCE)
            rows[:, some] = self.convolution.to_hyperedges(features[:, used[some]], hypergraph)
        propagated = FixedMatrix(rows)

        def logits() -> Tensor:
            first = self.attention1
            folded = self.convolution.weight.index_select(0, used) @ first.weight.transpose(0, 1).flatten(1)
            before = propagated @ folded
            after = self.convolution.to_nodes(before, hypergraph)
            wx, we = (before, after) if self.config.convolution == "printed" else (after, before)
            shape = (-1, first.heads, first.out_features)
            from_e = first.attention_node[:, first.out_features :]
            (e_share,) = head_products(we.view(shape), from_e.unsqueeze(0))
            x, e = first.attend(wx.view(shape), e_share, hypergraph)
            result: Tensor = self.attention2(x.flatten(1), e.flatten(1), hypergraph)[0]
            return result

        return logits

    def forward(self, features: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return the logits, (n, n_classes), for features (n, in_features)."""
        x, e = self.convolution(features, hypergraph)
        x, e = self.attention1(x, e, hypergraph)
        logits: Tensor = self.attention2(x, e, hypergraph)[0]
        return logits
