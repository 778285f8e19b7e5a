"""The network of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, elu

from dahgnn.checks import bad_type, check_count
from dahgnn.config import ModelConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.reach import Reach
from dahgnn.kernels.protocol import ALL, Reached
from dahgnn.nn.layers import AttentionWeights, DensityAwareAttention, HypergraphConvolution, xavier_uniform
from dahgnn.nn.sampled import Extremes
from dahgnn.ops.convolved import Convolved
from dahgnn.ops.dropout import CounterDropout
from dahgnn.ops.fused import Factor, activated_products
from dahgnn.ops.propagated import DropUnits, PropagatedFeatures, SelectiveFolded, Weights
from dahgnn.ops.sparse import grouped_product

# Rows behind the convolution, (n, r, hidden).
Rows = Tensor | Convolved

_ATTENTION = ("weight", "attention_node", "attention_hyperedge")
# Hyperedges so many that no cache holds their products, and columns so few that one more product of them
# costs less than to gather those from memory, forward and backward.
_MANY_HYPEREDGES, _FEW_COLUMNS = 1 << 18, 96


def _is_worth_a_second_product(hyperedges: Tensor) -> bool:
    """Tell whether features are better propagated to the nodes, too, once for all updates."""
    return (
        not hyperedges.is_cuda and len(hyperedges) >= _MANY_HYPEREDGES and hyperedges.shape[1] <= _FEW_COLUMNS
    )


class DAHGNN(nn.Module):
    """Density-aware hypergraph neural network: a convolution, then two attention layers.

    Parameters
    ----------
    in_features : int
        Length d₀ of a feature vector.
    n_classes : int
        Number of classes c, two or more.
    config : ModelConfig, optional
        The switches; by default the paper's.
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
        config: ModelConfig | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        config = ModelConfig() if config is None else config
        check_count("in_features", in_features, "DAHGNN")
        check_count("n_classes", n_classes, "DAHGNN", low=2)
        if not isinstance(config, ModelConfig):
            raise bad_type("config", "DAHGNN", "a ModelConfig", type(config).__name__)
        self.in_features, self.n_classes, self.config = in_features, n_classes, config
        self.convolution = HypergraphConvolution(
            in_features, config.hidden, convolution=config.convolution, generator=generator
        )
        make = partial(DensityAwareAttention.from_config, generator=generator)
        # The ELU that may be left out is that of the last layer.
        inner = replace(config, final_activation=True)
        self.attention1 = make(config.hidden, config.units, inner, heads=config.heads)
        self.attention2 = make(config.heads * config.units, n_classes, config)
        self.shortcut = nn.Parameter(torch.empty(config.hidden, n_classes)) if config.shortcut else None
        if self.shortcut is not None:
            xavier_uniform(self.shortcut, generator)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> DAHGNN:
        """Make a network from its `settings`, such as those in the header of a file."""
        switches = dict(settings)
        in_features, n_classes = switches.pop("in_features"), switches.pop("n_classes")
        return cls(in_features, n_classes, ModelConfig.from_mapping(switches))

    @property
    def settings(self) -> dict[str, Any]:
        """The sizes and switches in one flat mapping, of which `from_settings` makes such a network."""
        return {"in_features": self.in_features, "n_classes": self.n_classes, **asdict(self.config)}

    def fold(
        self,
        features: Tensor,
        hypergraph: Hypergraph,
        precision: str = "float32",
        leave_out: float = 0.0,
    ) -> SelectiveFolded:
        """Return a function that computes the logits of these features again and again, as weights change.

        The features are propagated once. In the paper's network nothing stands between the convolution and
        the first attention layer, so that WE = (B X₀)(Θ W): Θ W is multiplied first, and the large product
        has heads · units columns instead of ``hidden``. The result is that of `forward`, up to rounding.

        Parameters
        ----------
        features : Tensor, (n, in_features)
            Each row is a node's.
        hypergraph : Hypergraph
            The hypergraph of the same nodes.
        precision : {"float32", "bfloat16"}
            The precision of the large product, see `PropagatedFeatures`.
        leave_out : float
            How much of the propagated features it may leave out, see there.

        Returns
        -------
        callable
            Takes the weights of r networks of this kind, stacked by name, and what drops units. Returns the
            logits of evaluation and of training, (n, r, n_classes), or those of chosen nodes alone; without
            dropout both are the same.
        """
        once = PropagatedFeatures(
            features, lambda rows: self.convolution.to_hyperedges(rows, hypergraph), precision, leave_out
        )
        to_nodes = partial(self.convolution.to_nodes, hypergraph=hypergraph)
        twice = once.then(to_nodes) if _is_worth_a_second_product(once.matrix) else None

        def embed(weight: Tensor) -> tuple[Tensor, Tensor]:
            hyperedges = once @ weight
            return to_nodes(hyperedges) if twice is None else twice @ weight, hyperedges

        def logits(
            weights: Weights,
            drop: DropUnits,
            *,
            evaluate: bool = True,
            nodes: Tensor | None = None,
            reached: tuple[Reached, Reached] = (ALL, ALL),
        ) -> tuple[Tensor, Tensor]:
            embeddings: tuple[Rows, Rows]
            if twice is None or self._folded or (evaluate and self.config.dropout > 0):
                embeddings = self._convolve(weights, embed)
            else:  # nothing else is made of them, so that the products with what comes next are made at once
                embeddings = self._postpone(weights["convolution.weight"], twice, once)
            trained = self._attend(weights, embeddings, hypergraph, drop, nodes, reached)
            if self.config.dropout == 0 or not evaluate:
                return trained, trained
            with torch.no_grad():
                return self._attend(weights, embeddings, hypergraph, chosen=nodes), trained

        return logits

    def forward(self, features: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Return the logits, (n, n_classes), for features (n, in_features)."""
        self.convolution.check(features, hypergraph)
        weights = {name: weight.unsqueeze(0) for name, weight in self.named_parameters()}

        def embed(weight: Tensor) -> tuple[Tensor, Tensor]:
            hyperedges = self.convolution.to_hyperedges(features @ weight, hypergraph)
            return self.convolution.to_nodes(hyperedges, hypergraph), hyperedges

        def drop(values: Tensor, rate: float, _: int) -> Tensor:
            return dropout(values, rate)

        embeddings = self._convolve(weights, embed)
        return self._attend(weights, embeddings, hypergraph, drop if self.training else None).squeeze(1)

    @property
    def _folded(self) -> bool:
        """Whether the first attention layer's projection can be part of the convolution."""
        return not (self.config.activation or self.config.dropout or self.config.shortcut)

    def _convolve(
        self, weights: Weights, embed: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return nodes and hyperedges behind the convolution, (n, r, units) and (m, r, units).

        If nothing comes in between, they are projected by the first attention layer; ``embed`` gives what
        the two products of the convolution make of X₀ and a weight.
        """
        weight = weights["convolution.weight"]  # (r, d₀, hidden)
        if self._folded:
            weight = weight @ weights["attention1.weight"].transpose(1, 2).flatten(2)
        nodes, hyperedges = embed(weight.transpose(0, 1).flatten(1))
        if self.config.convolution == "printed":
            nodes, hyperedges = hyperedges, nodes
        shape = (-1, *weight.shape[::2])
        return nodes.view(shape), hyperedges.view(shape)

    def _postpone(
        self, weight: Tensor, nodes: PropagatedFeatures, hyperedges: PropagatedFeatures
    ) -> tuple[Convolved, Convolved]:
        """Return what `_convolve` does, to be computed together with its projections."""
        both = Convolved(nodes, weight), Convolved(hyperedges, weight)
        return both if self.config.convolution == "typed" else both[::-1]

    def _attend(
        self,
        weights: Weights,
        embeddings: tuple[Rows, Rows],
        hypergraph: Hypergraph,
        drop: DropUnits | None = None,
        chosen: Tensor | None = None,
        reached: tuple[Reached, Reached] = (ALL, ALL),
    ) -> Tensor:
        """Return the logits (n, r, n_classes), or (s, …) of s chosen nodes, for what the convolution gave."""
        first, second = self.attention_weights(weights)
        x, e = embeddings
        if isinstance(x, Tensor) and isinstance(e, Tensor) and self._folded:
            to_hyperedge = first.to_hyperedge.flatten(0, 1)  # (r · heads, units)
            shape = (-1, *to_hyperedge.shape)
            e_term = grouped_product(e.view(shape), to_hyperedge.unsqueeze(-1))
            e_term = e_term.view(*e.shape[:2], -1)
            x, e = self.attention1.attend(first, x, e_term, hypergraph, reached=reached[0])
            wx, e_term = map(grouped_product, (x, e), second.projections())
            return self.attention2.attend(second, wx, e_term, hypergraph, chosen, reached[1])[0]
        of_nodes, of_hyperedges = (Factor(each) for each in first.projections())
        shortcut = () if self.shortcut is None else (Factor(weights["shortcut"], chosen),)
        wx, *straight = self.project(x, (of_nodes, *shortcut), drop, 0)
        (e_term,) = self.project(e, (of_hyperedges,), drop, 1)
        x, e = self.attention1.attend(first, wx, e_term, hypergraph, reached=reached[0])
        of_nodes, of_hyperedges = (Factor(each) for each in second.projections())
        (wx,), (e_term,) = self.project(x, (of_nodes,), drop, 2), self.project(e, (of_hyperedges,), drop, 3)
        logits = self.attention2.attend(second, wx, e_term, hypergraph, chosen, reached[1])[0]
        return sum(straight, start=logits)

    def attend_sampled(
        self,
        embeddings: tuple[Tensor, Tensor],
        reaches: Sequence[Reach],
        drop: CounterDropout | None,
        extremes: Sequence[Extremes],
    ) -> Tensor:
        """Return the logits of some nodes, whose messages come from a part of a hypergraph.

        Parameters
        ----------
        embeddings : (Tensor, Tensor), (v, hidden), (h, hidden)
            The nodes and the hyperedges of the first reach behind the convolution.
        reaches : sequence of Reach
            Who sends to whom in both attention layers, see `dahgnn.graph.reach.Sampler.around`.
        drop : CounterDropout, optional
            What drops units, which knows the numbers of the rows.
        extremes : sequence of callable
            What says in each layer between which densities is scaled, see `pass_sampled_messages`.

        Returns
        -------
        Tensor, (targets, n_classes)
        """
        first, second = self.attention_weights()
        below, above = reaches
        x, e = (rows.unsqueeze(1) for rows in embeddings)
        of_nodes, of_hyperedges = (Factor(each) for each in first.projections())
        shortcut: tuple[Factor, ...] = ()
        if self.shortcut is not None:
            shortcut = (Factor(self.shortcut.unsqueeze(0), below.receivers[above.receivers]),)
        wx, *straight = self.project(x, (of_nodes, *shortcut), drop, 0)
        (e_term,) = self.project(e, (of_hyperedges,), drop, 1)
        x, e = self.attention1.attend_sampled(first, wx, e_term, below, extremes[0])
        of_nodes, of_hyperedges = (Factor(each) for each in second.projections())
        (wx,) = self.project(x, (of_nodes,), drop, 2)
        (e_term,) = self.project(e[: len(above.hyperedges)], (of_hyperedges,), drop, 3)
        logits = self.attention2.attend_sampled(second, wx, e_term, above, extremes[1])[0]
        return sum(straight, start=logits).squeeze(1)

    def attention_weights(self, weights: Weights | None = None) -> tuple[AttentionWeights, AttentionWeights]:
        """Return the weights of both attention layers, of r networks or of this one."""
        if weights is None:
            weights = {name: weight.unsqueeze(0) for name, weight in self.named_parameters()}
        first, second = (
            AttentionWeights.make(*(weights[f"{layer}.{name}"] for name in _ATTENTION))
            for layer in ("attention1", "attention2")
        )
        return first, second

    def project(
        self, rows: Rows, factors: Sequence[Factor], drop: DropUnits | None, site: int
    ) -> tuple[Tensor, ...]:
        """Return products of rows behind what stands at one of the four sites of dropout.

        At the first two, behind the convolution, there may also be an ELU; the attention has its own.
        """
        rate, activation, mask = self.config.dropout, self.config.activation and site < 2, None
        if drop is not None and rate > 0:
            if isinstance(drop, CounterDropout):
                mask = drop.mask(rate, site)
            else:
                rows = rows.rows() if isinstance(rows, Convolved) else rows
                rows, activation = drop(elu(rows) if activation else rows, rate, site), False
        if isinstance(rows, Convolved):
            return rows.products(factors, activation=activation, mask=mask)
        return activated_products(rows, factors, activation=activation, mask=mask)
