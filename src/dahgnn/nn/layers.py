"""The two layers of the paper: hypergraph convolution and density-aware hypergraph attention."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dahgnn.checks import bad_type, bad_value, check_choice, check_count
from dahgnn.config import CONVOLUTIONS, AttentionConfig, ModelConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.reach import Reach
from dahgnn.kernels.protocol import ALL, Reached, Vectors
from dahgnn.nn.messages import Trace, pass_messages, trace
from dahgnn.nn.sampled import Extremes, pass_sampled_messages
from dahgnn.ops.sparse import gather_sum, grouped_product


class HypergraphConvolution(nn.Module):
    """Hypergraph convolution, (1) and (2), without bias or activation.

    With hyperedge weights W_e, and D_v the weighted node degrees as in HGNN (Feng et al., 2019)::

        E = D_e^(-1/2) Hᵀ D_v^(-1/2) X₀ Θ
        X = D_v^(-1/2) H W_e D_e^(-1/2) E

    Weights b of incidences stand in H in place of its ones, and count in both degrees: D_v has
    Σ_k b_ik w_k, and D_e has Σ_i b_ik. No kernel takes them, so that plain PyTorch computes, slower.

    Parameters
    ----------
    in_features, out_features : int
        Sizes d₀ and d.
    convolution : {"typed", "printed"}
        "typed" names the two by the rows they have. The paper prints them with the names exchanged;
        "printed" does so too, which needs as many hyperedges as nodes.
    generator : torch.Generator, optional
        Source of the Xavier uniform initialisation.

    Attributes
    ----------
    weight : Parameter, (in_features, out_features)
        Θ.

    Examples
    --------
    >>> hypergraph = Hypergraph.from_hyperedges([[0, 1], [1, 2]], n_nodes=3)
    >>> nodes, hyperedges = HypergraphConvolution(4, 2)(torch.ones(3, 4), hypergraph)
    >>> nodes.shape, hyperedges.shape
    (torch.Size([3, 2]), torch.Size([2, 2]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        convolution: str = ModelConfig.convolution,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features, "HypergraphConvolution")
        check_count("out_features", out_features, "HypergraphConvolution")
        check_choice("convolution", convolution, CONVOLUTIONS, "HypergraphConvolution")
        self.in_features, self.out_features = in_features, out_features
        self.convolution = convolution
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew."""
        xavier_uniform(self.weight, generator)

    def forward(self, x: Tensor, hypergraph: Hypergraph) -> tuple[Tensor, Tensor]:
        """Return nodes (n, out_features) and hyperedges (m, out_features) for x (n, in_features)."""
        self.check(x, hypergraph)
        hyperedges = self.to_hyperedges(x @ self.weight, hypergraph)
        nodes = self.to_nodes(hyperedges, hypergraph)
        return (hyperedges, nodes) if self.convolution == "printed" else (nodes, hyperedges)

    def check(self, x: Tensor, hypergraph: Hypergraph) -> None:
        """Refuse what `forward` cannot take."""
        _check_rows("x", x, hypergraph.n_nodes, self)
        if self.convolution == "printed" and hypergraph.n_nodes != hypergraph.n_hyperedges:
            raise ValueError(
                "The 'convolution' parameter of HypergraphConvolution must be 'typed' unless there are as "
                f"many hyperedges as nodes. Got 'printed' with {hypergraph!r}."
            )

    def to_hyperedges(self, x: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Propagate rows by D_e^(-1/2) Hᵀ D_v^(-1/2), the first product: (n, …) → (m, …)."""
        node, hyperedge, _ = hypergraph.degree_scales(x.dtype)
        weights = hypergraph.incidence_weights
        return gather_sum(x, hypergraph.to_hyperedges, node, hyperedge, weights=weights)

    def to_nodes(self, e: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Propagate rows by D_v^(-1/2) H W_e D_e^(-1/2), the second product: (m, …) → (n, …)."""
        node, _, hyperedge = hypergraph.degree_scales(e.dtype)
        return gather_sum(e, hypergraph.to_nodes, hyperedge, node, weights=hypergraph.weights_to_nodes)

    def extra_repr(self) -> str:
        """Describe the layer for print."""
        return f"{self.in_features}, {self.out_features}, convolution={self.convolution!r}"


class AttentionWeights(NamedTuple):
    """Weights of r attention layers of one kind.

    Attributes
    ----------
    weight : Tensor, (r, heads, in_features, out_features)
        W.
    from_node, to_hyperedge : Tensor, (r, heads, out_features)
        The halves of α_X, for Wx and We.
    from_hyperedge, to_node : Tensor, (r, heads, out_features)
        The halves of α_E, for Ẽ and Wx.
    """

    weight: Tensor
    from_node: Tensor
    to_hyperedge: Tensor
    from_hyperedge: Tensor
    to_node: Tensor

    @classmethod
    def make(cls, weight: Tensor, node: Tensor, hyperedge: Tensor) -> AttentionWeights:
        """Divide α_X and α_E, (r, heads, 2 · out_features) each, into their halves."""
        # Once for all uses and not by slices: so the gradient is one copy.
        of_node, of_hyperedge = (both.unflatten(2, (2, -1)).unbind(2) for both in (node, hyperedge))
        return cls(weight, *of_node, *of_hyperedge)

    def vectors(self) -> Vectors:
        """Return the vectors that multiply rows of units, those of all layers as heads."""
        return Vectors(
            from_node=self.from_node.flatten(0, 1),
            to_node=self.to_node.flatten(0, 1),
            from_hyperedge=self.from_hyperedge.flatten(0, 1),
        )

    def projections(self) -> tuple[Tensor, Tensor]:
        """Return what rows of nodes and rows of hyperedges are multiplied with.

        Returns
        -------
        of_nodes : Tensor, (r, in_features, heads · out_features)
            W of all heads.
        of_hyperedges : Tensor, (r, in_features, heads)
            W α_X. We is needed for its product with α_X alone, so that comes first: one column a head.
        """
        of_hyperedges = (self.weight @ self.to_hyperedge.unsqueeze(-1)).squeeze(-1)
        return self.weight.transpose(1, 2).flatten(2), of_hyperedges.transpose(1, 2)


class DensityAwareAttention(nn.Module):
    """Density-aware hypergraph attention, (3) to (12) and Algorithm 1.

    Nodes send to their hyperedges, then hyperedges to their nodes, with attention coefficients that
    grow with the density of the sender. Weights of hyperedges and incidences are ignored: the attention
    finds weights of its own.

    Parameters
    ----------
    in_features, out_features : int
        Sizes d and d'; the latter of each head.
    heads : int
        Heads; their outputs are concatenated.
    delta : float
        See `AttentionConfig`.
    density, density_gradient, final_activation : bool
        See there.
    neighbourhood : {"centre", "shared"}
        See there.
    generator : torch.Generator, optional
        Source of the Xavier uniform initialisation.

    Attributes
    ----------
    config : AttentionConfig
        The switches.
    weight : Parameter, (heads, in_features, out_features)
        W.
    attention_node : Parameter, (heads, 2 · out_features)
        α_X; the first half multiplies Wx, the second We.
    attention_hyperedge : Parameter, (heads, 2 · out_features)
        α_E; the first half multiplies Ẽ, the second Wx.

    Examples
    --------
    >>> hypergraph = Hypergraph.from_hyperedges([[0, 1], [1, 2]], n_nodes=3)
    >>> layer = DensityAwareAttention(4, 8, heads=2)
    >>> nodes, hyperedges = layer(torch.ones(3, 4), torch.ones(2, 4), hypergraph)
    >>> nodes.shape, hyperedges.shape
    (torch.Size([3, 16]), torch.Size([2, 16]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        heads: int = 1,
        delta: float = AttentionConfig.delta,
        density: bool = AttentionConfig.density,
        neighbourhood: str = AttentionConfig.neighbourhood,
        density_gradient: bool = AttentionConfig.density_gradient,
        final_activation: bool = AttentionConfig.final_activation,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        owner = "DensityAwareAttention"
        check_count("in_features", in_features, owner)
        check_count("out_features", out_features, owner)
        check_count("heads", heads, owner)
        self.in_features, self.out_features, self.heads = in_features, out_features, heads
        self.config = AttentionConfig(
            delta=delta,
            density=density,
            neighbourhood=neighbourhood,
            density_gradient=density_gradient,
            final_activation=final_activation,
        )
        self.weight = nn.Parameter(torch.empty(heads, in_features, out_features))
        self.attention_node = nn.Parameter(torch.empty(heads, 2 * out_features))
        self.attention_hyperedge = nn.Parameter(torch.empty(heads, 2 * out_features))
        self.reset_parameters(generator)

    @classmethod
    def from_config(
        cls,
        in_features: int,
        out_features: int,
        config: AttentionConfig,
        *,
        heads: int = 1,
        generator: torch.Generator | None = None,
    ) -> DensityAwareAttention:
        """Make a layer with all switches of a config, also that of a whole network."""
        layer = cls(in_features, out_features, heads=heads, generator=generator)
        layer.config = config
        return layer

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew, each head as a layer of its own."""
        xavier_uniform(self.weight, generator)
        xavier_uniform(self.attention_node.unsqueeze(-1), generator)
        xavier_uniform(self.attention_hyperedge.unsqueeze(-1), generator)

    def forward(self, x: Tensor, e: Tensor, hypergraph: Hypergraph) -> tuple[Tensor, Tensor]:
        """Pass messages from nodes to hyperedges, and from hyperedges to nodes.

        Parameters
        ----------
        x : Tensor, (n, in_features)
            Node embeddings X.
        e : Tensor, (m, in_features)
            Hyperedge embeddings E; they enter the attention only, not the sums.
        hypergraph : Hypergraph
            It has n nodes and m hyperedges.

        Returns
        -------
        nodes : Tensor, (n, heads · out_features)
            X̃, (11).
        hyperedges : Tensor, (m, heads · out_features)
            Ẽ, (8).
        """
        _check_rows("x", x, hypergraph.n_nodes, self)
        _check_rows("e", e, hypergraph.n_hyperedges, self)
        weights = AttentionWeights.make(
            *(each.unsqueeze(0) for each in (self.weight, self.attention_node, self.attention_hyperedge))
        )
        nodes, hyperedges = self.apply_to_runs(weights, x.unsqueeze(1), e.unsqueeze(1), hypergraph)
        return nodes.squeeze(1), hyperedges.squeeze(1)

    def trace(self, x: Tensor, e: Tensor, hypergraph: Hypergraph) -> Trace:
        """Compute what `forward` gives, and keep densities and attention; slower, and to look inside."""
        _check_rows("x", x, hypergraph.n_nodes, self)
        _check_rows("e", e, hypergraph.n_hyperedges, self)
        wx, e_term = self.project(x, e)
        return trace(wx, e_term, self.vectors(), hypergraph, self.config, fused=True)

    def project(self, x: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Return WX, (n, heads, out_features), and the products of We with its half of α_X, (m, heads)."""
        wx = torch.einsum("ni,hio->nho", x, self.weight)
        second = self.attention_node.unflatten(1, (2, -1))[:, 1]
        return wx, e @ torch.einsum("hio,ho->ih", self.weight, second)

    def vectors(self) -> Vectors:
        """Return the attention vectors of nodes that send, nodes that receive, and hyperedges that send."""
        node, hyperedge = (
            both.unflatten(1, (2, -1)) for both in (self.attention_node, self.attention_hyperedge)
        )
        return Vectors(from_node=node[:, 0], to_node=hyperedge[:, 1], from_hyperedge=hyperedge[:, 0])

    def apply_to_runs(
        self,
        weights: AttentionWeights,
        x: Tensor,
        e: Tensor,
        hypergraph: Hypergraph,
        chosen: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute what layers of this kind with other weights give, side by side.

        Parameters
        ----------
        weights : AttentionWeights
            The weights of r layers.
        x, e : Tensor, (n, r, in_features), (m, r, in_features)
            What `forward` takes, for each layer.
        hypergraph : Hypergraph
            It has n nodes and m hyperedges.
        chosen : Tensor of int64, (s,), optional
            The nodes whose rows are needed, all of them different.

        Returns
        -------
        nodes, hyperedges : Tensor, (n, r, heads · out_features), (m, r, heads · out_features)
        """
        wx, e_term = map(grouped_product, (x, e), weights.projections())
        return self.attend(weights, wx, e_term, hypergraph, chosen)

    def attend(
        self,
        weights: AttentionWeights,
        wx: Tensor,
        e_term: Tensor,
        hypergraph: Hypergraph,
        chosen: Tensor | None = None,
        reached: Reached = ALL,
    ) -> tuple[Tensor, Tensor]:
        """Pass the messages of r layers to hyperedges and on to nodes, the projections being done.

        Parameters
        ----------
        weights : AttentionWeights
            The weights of r layers.
        wx : Tensor, (n, r, heads · out_features)
            WX.
        e_term : Tensor, (m, r, heads)
            Products of We with the second half of α_X.
        hypergraph : Hypergraph
            It has n nodes and m hyperedges.
        chosen : Tensor of int64, (s,), optional
            The nodes whose rows are needed, all of them different.
        reached : Reached, optional
            See `pass_messages`.

        Returns
        -------
        nodes, hyperedges : Tensor, (n or s, r, heads · out_features), (m, r, heads · out_features)
            X̃, or the rows of it that are needed, and Ẽ.
        """
        rows = wx.view(len(wx), -1, self.out_features)
        terms, vectors = e_term.flatten(1), weights.vectors()
        both = pass_messages(rows, terms, vectors, hypergraph, self.config, nodes=chosen, reached=reached)
        nodes, hyperedges = (each.view(len(each), len(weights.weight), -1) for each in both)
        return nodes, hyperedges

    def attend_sampled(
        self, weights: AttentionWeights, wx: Tensor, e_term: Tensor, reach: Reach, extremes: Extremes
    ) -> tuple[Tensor, Tensor]:
        """Pass the messages of one layer through a part of a hypergraph, the projections being done.

        Parameters
        ----------
        weights : AttentionWeights
            The weights of one layer.
        wx, e_term : Tensor, (v, 1, heads · out_features), (h, 1, heads)
            See `attend`.
        reach, extremes
            See `pass_sampled_messages`.

        Returns
        -------
        nodes, hyperedges : Tensor, (r, 1, heads · out_features), (h, 1, heads · out_features)
            X̃ of the receivers, and Ẽ.
        """
        rows = wx.view(len(wx), self.heads, self.out_features)
        terms, vectors = e_term.flatten(1), weights.vectors()
        both = pass_sampled_messages(rows, terms, vectors, reach, self.config, extremes)
        nodes, hyperedges = (each.flatten(1).unsqueeze(1) for each in both)
        return nodes, hyperedges

    def extra_repr(self) -> str:
        """Describe the layer for print."""
        config = self.config
        return (
            f"{self.in_features}, {self.out_features}, heads={self.heads}, delta={config.delta}, "
            f"density={config.density}, neighbourhood={config.neighbourhood!r}"
        )


def xavier_uniform(weight: Tensor, generator: torch.Generator | None) -> None:
    """Fill with U(−b, b), b = √(6 / (rows + columns)) of each matrix (Glorot and Bengio, 2010)."""
    bound = math.sqrt(6 / (weight.shape[-2] + weight.shape[-1]))
    with torch.no_grad():
        weight.uniform_(-bound, bound, generator=generator)


def _check_rows(
    name: str, rows: Tensor, count: int, layer: HypergraphConvolution | DensityAwareAttention
) -> None:
    """Refuse rows of another shape or precision. NaN passes, as in all layers of torch; `fit` refuses it."""
    owner, dtype = type(layer).__name__, layer.weight.dtype
    if not isinstance(rows, Tensor):
        remedy = f"Use torch.as_tensor({name}, dtype={dtype})."
        raise bad_type(name, owner, "a tensor", type(rows).__name__, remedy)
    if rows.dtype != dtype and not torch.is_autocast_enabled(rows.device.type):
        raise bad_type(name, owner, f"of {dtype}, as its weights", rows.dtype, f"Use {name}.to({dtype}).")
    if rows.shape != (count, layer.in_features):
        expected = f"of shape ({count}, {layer.in_features})"
        raise bad_value(name, owner, expected, f"shape {tuple(rows.shape)}")
