"""What the kernels of every device offer, as one typed protocol that their launchers fulfil."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dahgnn.kernels.incidence import Incidence, Segments


class Vectors(NamedTuple):
    """The attention vectors that multiply rows of units, each (heads, units).

    Attributes
    ----------
    from_node : Tensor
        First half of α_X, for the row of the sending node.
    to_node : Tensor
        Second half of α_E, for the row of the receiving node.
    from_hyperedge : Tensor
        First half of α_E, for the row of the sending hyperedge.
    """

    from_node: Tensor
    to_node: Tensor
    from_hyperedge: Tensor


class Mask(NamedTuple):
    """What decides which units fall, see `dahgnn.ops.dropout`.

    Attributes
    ----------
    seeds, epochs : Tensor of int64, (r,)
        The seed of each run, and the last epoch that it has behind it, −1 before the first. They are on the
        device of the values.
    site : int
        Other units fall at each of the places where a network drops some.
    rate : float
        How many of the units fall, from 0 to 1.
    numbers : Tensor of int64, (n,), or None
        The numbers of the rows, where they are some of many: a row then loses the units that it would lose
        among all. None means that they are all, 0, 1, and so on.
    """

    seeds: Tensor
    epochs: Tensor
    site: int
    rate: float
    numbers: Tensor | None = None


class Forest(NamedTuple):
    """Decision trees in several parts, the nodes of all trees one after the other.

    Attributes
    ----------
    columns : Tensor of int64, (nodes,)
        The column that each node asks for, negative at a leaf.
    thresholds : Tensor of float64, (nodes,)
        A row goes to the right if it is above.
    children : Tensor of int64, (nodes, 2)
        The nodes to the left and to the right.
    distributions : Tensor of float64, (nodes, c)
        What each node says.
    roots : Tensor of int64, (parts, trees)
        The first node of each tree.
    """

    columns: Tensor
    thresholds: Tensor
    children: Tensor
    distributions: Tensor
    roots: Tensor


class Places(NamedTuple):
    """Some of many rows, numbered 0, 1, and so on in their order.

    Attributes
    ----------
    total : int
        How many they are.
    numbers : Tensor of int32, (n,)
        The number that each of the many has among them, −1 for the others.
    """

    total: int
    numbers: Tensor

    @classmethod
    def of(cls, flags: Tensor) -> Places:
        """Return the numbers of the rows that are flagged, (n,) of bool."""
        numbers = flags.cumsum(0)
        total = int(numbers[-1]) if len(flags) else 0
        return cls(total, torch.where(flags, numbers - 1, -1).to(torch.int32))


class Reached(NamedTuple):
    """The rows that a layer gives and that can get a gradient.

    Attributes
    ----------
    nodes : Places or None
        Those of its nodes; None means all that it gives.
    hyperedges : Places or None
        Those of its hyperedges.
    """

    nodes: Places | None = None
    hyperedges: Places | None = None


# All of them can.
ALL = Reached()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSettings:
    """How messages are passed.

    Attributes
    ----------
    slope : float
        Slope of the LeakyReLU of the attention scores.
    delta : float or None
        Threshold of the density; None leaves the density out.
    tolerance : float
        Difference up to which densities are equal, as a share of the greatest or of one.
    activation : bool
        Whether the nodes pass an ELU; the hyperedges always do.
    chosen : Tensor of int64, (s,), or None
        The nodes whose new rows are computed, all of them different. None means all n. The kernels of the
        CPU alone read it.
    kept_nodes, kept_hyperedges : Places or None
        The receiving nodes and the hyperedges whose new rows can get a gradient; a gradient that others are
        given all the same is not passed on. None means all. The kernels of the CPU alone read it, and keep
        less.
    """

    slope: float
    delta: float | None
    tolerance: float
    activation: bool
    chosen: Tensor | None = None
    kept_nodes: Places | None = None
    kept_hyperedges: Places | None = None


class Kernels(Protocol):
    """Kernels for the tensors of one kind of device, the twins of the reference in `ops` and `nn`."""

    def supports(self, tensor: Tensor) -> bool:
        """Tell whether there is a kernel for tensors of this device and precision."""

    def gather_sum(
        self, values: Tensor, forward: Segments, source_scale: Tensor | None, target_scale: Tensor | None
    ) -> Tensor:
        """Sum the rows that each segment names, with factors before and after.

        Parameters
        ----------
        values : Tensor, (sources, width)
            What is summed.
        forward : Segments
            The sources of each target.
        source_scale, target_scale : Tensor, (sources,), (targets,), or None
            The factors.

        Returns
        -------
        Tensor, (targets, width)
        """

    def grouped_product(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Multiply each group's part of a row with the group's matrix: (n, g, i), (g, i, o) → (n, g, o)."""

    def grouped_product_backward(
        self, gradient: Tensor, rows: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of the rows and of the weights of `grouped_product`."""

    def dropout(
        self,
        values: Tensor,
        seeds: Tensor,
        epochs: Tensor,
        site: int,
        rate: float,
        numbers: Tensor | None = None,
    ) -> Tensor:
        """Drop units of some runs, as `dahgnn.ops.dropout` describes it.

        Parameters
        ----------
        values : Tensor, (n, r, units)
            What is dropped from.
        seeds, epochs : Tensor of int64, (r,)
            The seed of each run, and the last epoch that it has behind it, both on the device.
        site : int
            The place in the network.
        rate : float
            How many of the units fall, below one.
        numbers : Tensor of int64, (n,), or None
            See `Mask`. The kernel of the GPU alone reads it; that of the CPU has it in `activated_product`.
        """

    def messages_forward(
        self,
        wx: Tensor,
        e_term: Tensor,
        vectors: Vectors,
        to_hyperedges: Incidence,
        to_nodes: Incidence,
        neighbours: Segments | None,
        settings: MessageSettings,
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Sum nodes into hyperedges and hyperedges into nodes by density-aware attention, (3) to (12).

        Parameters
        ----------
        wx : Tensor, (n, heads, units)
            Rows of WX.
        e_term : Tensor, (m, heads)
            Products of We with the second half of α_X.
        vectors : Vectors
            The other attention vectors.
        to_hyperedges, to_nodes : Incidence
            The two directions of one hypergraph.
        neighbours : Segments or None
            The neighbours of each node; None leaves the density out.
        settings : MessageSettings
            How messages are passed.

        Returns
        -------
        nodes, hyperedges : Tensor, (n, heads, units), (m, heads, units)
            The new rows.
        kept : tuple of Tensor
            What `messages_backward` needs besides.
        """

    def messages_backward(
        self,
        nodes_gradient: Tensor,
        hyperedges_gradient: Tensor | None,
        wx: Tensor,
        e_term: Tensor,
        vectors: Vectors,
        nodes: Tensor,
        hyperedges: Tensor,
        kept: tuple[Tensor, ...],
        to_hyperedges: Incidence,
        to_nodes: Incidence,
        settings: MessageSettings,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of `messages_forward`, for which the density is a constant.

        Parameters
        ----------
        nodes_gradient, hyperedges_gradient : Tensor, (n, heads, units), (m, heads, units)
            The gradients of the results; the latter is None where there is none.
        wx, e_term, vectors, to_hyperedges, to_nodes, settings
            What `messages_forward` was given.
        nodes, hyperedges, kept
            What it returned.

        Returns
        -------
        wx_gradient, e_term_gradient : Tensor, (n, heads, units), (m, heads)
        vector_gradients : Tensor, (3, heads, units)
            The three gradients stand in the order of the vectors.
        """

    def attend(
        self,
        values: Tensor,
        vector: Tensor,
        target: Tensor,
        bias: Tensor | None,
        incidence: Incidence,
        slope: float,
        *,
        activation: bool = True,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Sum the sources of each target by attention, (4) to (8): one direction alone.

        Parameters
        ----------
        values : Tensor, (sources, heads, units)
            What is summed.
        vector, target : Tensor, (heads, units), (targets, heads)
            What the rows are multiplied with for their term of the scores, and the terms of the targets.
        bias : Tensor, (sources, heads), or None
            What is added to the scores.
        incidence : Incidence
            The sources of each target, of which there is one at least; for the gradient in both orders.
        slope : float
            Slope of the LeakyReLU.
        activation : bool
            Whether the sums pass an ELU. The kernel of the CPU knows no other way.

        Returns
        -------
        sums : Tensor, (targets, heads, units)
            What the targets get.
        kept : tuple of Tensor
            What `attend_backward` needs besides.
        """

    def attend_backward(
        self,
        gradient: Tensor,
        values: Tensor,
        vector: Tensor,
        target: Tensor,
        kept: Sequence[Tensor],
        incidence: Incidence,
        slope: float,
        *,
        activation: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of the values, the vector and the terms of the targets of `attend`."""

    def similarity_sum(self, directions: Tensor, delta: float, neighbours: Segments) -> Tensor:
        """Sum the cosines over ``delta`` of rows with those that segments name.

        Parameters
        ----------
        directions : Tensor, (n, heads, units)
            Rows of length one, or zero.
        delta : float
            A cosine must be greater to count.
        neighbours : Segments
            Those of the first s rows; s is at least one, and at most n.

        Returns
        -------
        Tensor, (s, heads)
        """
