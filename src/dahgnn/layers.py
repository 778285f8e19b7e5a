"""The two layers of the paper: hypergraph convolution and density-aware hypergraph attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dahgnn.checks import bad_type, bad_value, check_choice, check_count, check_flag
from dahgnn.config import CONVOLUTIONS, ModelConfig, check_density
from dahgnn.density import hyperedge_density, node_density, scale_density
from dahgnn.hypergraph import Hypergraph
from dahgnn.ops import Incidence, attend, gather_sum, head_products, highest_score


class HypergraphConvolution(nn.Module):
    """Hypergraph convolution, (1) and (2), without bias or activation.

    With hyperedge weights W_e, and D_v the weighted node degrees as in HGNN (Feng et al., 2019)::

        E = D_e^(-1/2) Hᵀ D_v^(-1/2) X₀ Θ
        X = D_v^(-1/2) H W_e D_e^(-1/2) E

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
        _xavier_uniform(self.weight, generator)

    def forward(self, x: Tensor, hypergraph: Hypergraph) -> tuple[Tensor, Tensor]:
        """Return nodes (n, out_features) and hyperedges (m, out_features) for x (n, in_features)."""
        _check_rows("x", x, hypergraph.n_nodes, self)
        if self.convolution == "printed" and hypergraph.n_nodes != hypergraph.n_hyperedges:
            raise ValueError(
                "The 'convolution' parameter of HypergraphConvolution must be 'typed' unless there are as "
                f"many hyperedges as nodes. Got 'printed' with {hypergraph!r}."
            )
        hyperedges = self.to_hyperedges(x @ self.weight, hypergraph)
        nodes = self.to_nodes(hyperedges, hypergraph)
        return (hyperedges, nodes) if self.convolution == "printed" else (nodes, hyperedges)

    def to_hyperedges(self, x: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Propagate rows by D_e^(-1/2) Hᵀ D_v^(-1/2), the first product: (n, …) → (m, …)."""
        scaled = _inverse_root(hypergraph.node_degrees, x) * x
        return _inverse_root(hypergraph.hyperedge_degrees, x) * gather_sum(scaled, hypergraph.to_hyperedges)

    def to_nodes(self, e: Tensor, hypergraph: Hypergraph) -> Tensor:
        """Propagate rows by D_v^(-1/2) H W_e D_e^(-1/2), the second product: (m, …) → (n, …)."""
        scale = _inverse_root(hypergraph.hyperedge_degrees, e)
        if hypergraph.weights is not None:
            scale = scale * hypergraph.weights.to(e.dtype).unsqueeze(1)
        return _inverse_root(hypergraph.node_degrees, e) * gather_sum(scale * e, hypergraph.to_nodes)

    def extra_repr(self) -> str:
        """Describe the layer for print."""
        return f"{self.in_features}, {self.out_features}, convolution={self.convolution!r}"


class DensityAwareAttention(nn.Module):
    """Density-aware hypergraph attention, (3) to (12) and Algorithm 1.

    Nodes send to their hyperedges, then hyperedges to their nodes, with attention coefficients that
    grow with the density of the sender.

    Parameters
    ----------
    in_features, out_features : int
        Sizes d and d'; the latter of each head.
    heads : int
        Heads; their outputs are concatenated.
    delta, density, neighbourhood, density_gradient
        As in `ModelConfig`.
    final_activation : bool
        Whether the ELU of (11) is applied to the nodes.
    generator : torch.Generator, optional
        Source of the Xavier uniform initialisation.

    Attributes
    ----------
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
        delta: float = ModelConfig.delta,
        density: bool = ModelConfig.density,
        neighbourhood: str = ModelConfig.neighbourhood,
        density_gradient: bool = ModelConfig.density_gradient,
        final_activation: bool = ModelConfig.final_activation,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        owner = "DensityAwareAttention"
        check_count("in_features", in_features, owner)
        check_count("out_features", out_features, owner)
        check_count("heads", heads, owner)
        check_density(delta, density, neighbourhood, density_gradient, owner)
        check_flag("final_activation", final_activation, owner)
        self.in_features, self.out_features, self.heads = in_features, out_features, heads
        self.delta, self.density, self.neighbourhood = delta, density, neighbourhood
        self.density_gradient, self.final_activation = density_gradient, final_activation
        self.weight = nn.Parameter(torch.empty(heads, in_features, out_features))
        self.attention_node = nn.Parameter(torch.empty(heads, 2 * out_features))
        self.attention_hyperedge = nn.Parameter(torch.empty(heads, 2 * out_features))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew, each head as a layer of its own."""
        _xavier_uniform(self.weight, generator)
        _xavier_uniform(self.attention_node.unsqueeze(-1), generator)
        _xavier_uniform(self.attention_hyperedge.unsqueeze(-1), generator)

    def forward(self, x: Tensor, e: Tensor, hypergraph: Hypergraph) -> tuple[Tensor, Tensor]:
        """Pass messages there and back.

        Parameters
        ----------
        x : Tensor, (n, in_features)
            Node embeddings X.
        e : Tensor, (m, in_features)
            Hyperedge embeddings E; they enter the attention only, not the sums.
        hypergraph : Hypergraph
            Of n nodes and m hyperedges.

        Returns
        -------
        nodes : Tensor, (n, heads · out_features)
            X̃, (11).
        hyperedges : Tensor, (m, heads · out_features)
            Ẽ, (8).
        """
        _check_rows("x", x, hypergraph.n_nodes, self)
        _check_rows("e", e, hypergraph.n_hyperedges, self)
        wx = (x @ self.weight.transpose(0, 1).flatten(1)).view(-1, self.heads, self.out_features)
        # We is needed for its product with α_X alone, so W α_X comes first: one column a head.
        e_share = e @ torch.einsum("hio,ho->ih", self.weight, self.attention_node[:, self.out_features :])
        nodes, hyperedges = self.attend(wx, e_share, hypergraph)
        return nodes.flatten(1), hyperedges.flatten(1)

    def attend(self, wx: Tensor, e_share: Tensor, hypergraph: Hypergraph) -> tuple[Tensor, Tensor]:
        """Pass messages there and back, the projections being done.

        Parameters
        ----------
        wx : Tensor, (n, heads, out_features)
            WX.
        e_share : Tensor, (m, heads)
            Products of We with the second half of α_X.
        hypergraph : Hypergraph
            Of n nodes and m hyperedges.

        Returns
        -------
        nodes, hyperedges : Tensor, (n, heads, out_features), (m, heads, out_features)
            X̃ and Ẽ.
        """
        from_hyperedge, to_node = self.attention_hyperedge.split(self.out_features, 1)
        from_node = self.attention_node[:, : self.out_features]
        density = self._node_density(wx, hypergraph)
        x_share, node_share = head_products(wx, torch.stack([from_node, to_node]))
        hyperedges = self._aggregate(wx, x_share, e_share, density, hypergraph.to_hyperedges, activation=True)
        (hyperedge_share,) = head_products(hyperedges, from_hyperedge.unsqueeze(0))
        density = None if density is None else hyperedge_density(density, hypergraph)
        nodes = self._aggregate(
            hyperedges,
            hyperedge_share,
            node_share,
            density,
            hypergraph.to_nodes,
            activation=self.final_activation,
        )
        return nodes, hyperedges

    def _node_density(self, wx: Tensor, hypergraph: Hypergraph) -> Tensor | None:
        if not self.density:
            return None
        return node_density(self._constant(wx), hypergraph, self.delta, self.neighbourhood)

    def _aggregate(
        self,
        values: Tensor,
        source: Tensor,
        target: Tensor,
        density: Tensor | None,
        incidence: Incidence,
        *,
        activation: bool,
    ) -> Tensor:
        """Sum the sources of each target by density-aware attention, (4) to (8): (targets, heads, units)."""
        bias = None
        if density is not None:
            highest = highest_score(self._constant(source), self._constant(target), incidence)
            bias = scale_density(density, highest)
        return attend(values, source, target, bias, incidence, activation=activation)

    def _constant(self, tensor: Tensor) -> Tensor:
        """Cut the density off from the gradient, unless it is wanted."""
        return tensor if self.density_gradient else tensor.detach()

    def extra_repr(self) -> str:
        """Describe the layer for print."""
        return (
            f"{self.in_features}, {self.out_features}, heads={self.heads}, delta={self.delta}, "
            f"density={self.density}, neighbourhood={self.neighbourhood!r}"
        )


def _xavier_uniform(weight: Tensor, generator: torch.Generator | None) -> None:
    """Fill with U(−b, b), b = √(6 / (rows + columns)) of each matrix (Glorot and Bengio, 2010)."""
    bound = math.sqrt(6 / (weight.shape[-2] + weight.shape[-1]))
    with torch.no_grad():
        weight.uniform_(-bound, bound, generator=generator)


def _inverse_root(degrees: Tensor, like: Tensor) -> Tensor:
    """Return D^(-1/2) as a column, (·, 1); a degree of zero gives zero."""
    root = degrees.to(like.dtype).rsqrt()
    return root.masked_fill(degrees == 0, 0).unsqueeze(1)


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
