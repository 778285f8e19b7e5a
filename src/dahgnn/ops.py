"""Sparse operations on incidences: plain PyTorch, differentiable, nothing of size n × m.

An incidence joins a source to a target. A target's incidences are one segment of the forward order;
a source's are one segment of the backward order. With both at hand every sum, also in a gradient,
runs over segments: nothing is scattered, so results repeat bit for bit.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import elu, embedding_bag, leaky_relu

from dahgnn import kernels_cpu, kernels_gpu, kernels_rows
from dahgnn.checks import check_choice

logger = logging.getLogger(__name__)

# Slope of the LeakyReLU of the attention; the paper names none, this is that of GAT.
NEGATIVE_SLOPE = 0.2

# Numbers that one gathered block of neighbours may hold: 64 MiB in float32.
_BLOCK = 1 << 24


BACKENDS = ("auto", "reference", "kernel")

_backend: ContextVar[str] = ContextVar("backend", default="auto")


@contextmanager
def using(backend: str) -> Iterator[None]:
    """Choose what computes within the block.

    Parameters
    ----------
    backend : {"auto", "reference", "kernel"}
        "auto" takes a compiled kernel where there is one and the plain PyTorch of this module elsewhere;
        "reference" always the latter; "kernel" fails where there is none.

    Examples
    --------
    >>> with using("reference"):
    ...     _backend.get()
    'reference'
    """
    check_choice("backend", backend, BACKENDS, "using")
    token = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(token)


def _kernels(tensor: Tensor, backend: str | None) -> ModuleType | None:
    """Return the module with kernels for such tensors, or None for the reference."""
    chosen = _backend.get() if backend is None else backend
    check_choice("backend", chosen, BACKENDS, "ops")
    if chosen == "reference":
        return None
    for kernels in (kernels_cpu, kernels_gpu):
        if kernels.supports(tensor):
            return kernels
    if chosen == "kernel":
        raise ValueError(f"There must be a kernel for {tensor.dtype} on {tensor.device}. Got none.")
    if tensor.device.type == "cpu" and kernels_cpu.library() is None:
        _say_slow()
    return None


@cache
def _say_slow() -> None:
    logger.warning(
        "The compiled kernels are not there, so plain PyTorch computes, slower. Is there a C++ compiler?"
    )


@dataclass(frozen=True, eq=False)
class Segments:
    """Incidences grouped by what they belong to (compressed sparse rows).

    Attributes
    ----------
    offsets : Tensor, (s + 1,)
        Segment j holds the incidences ``offsets[j]`` up to ``offsets[j + 1]``.
    indices : Tensor, (t,)
        What each incidence joins its segment to.
    """

    offsets: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def owners(self) -> Tensor:
        """Return the segment of each incidence, shape (t,)."""
        segments = torch.arange(len(self), device=self.offsets.device)
        return segments.repeat_interleave(self.offsets.diff(), output_size=len(self.indices))

    def to(self, device: torch.device | str) -> Segments:
        """Return the same segments on another device."""
        return Segments(self.offsets.to(device), self.indices.to(device))


class Incidence(NamedTuple):
    """Who sends to whom, in both orders.

    Attributes
    ----------
    forward : Segments
        The sources of each target.
    backward : Segments
        The targets of each source.
    owners : Tensor, (t,)
        The target of each incidence, in forward order.
    positions : Tensor, (t,)
        Where each incidence of the backward order stands in the forward order.
    """

    forward: Segments
    backward: Segments
    owners: Tensor
    positions: Tensor


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, incidence: Incidence) -> Tensor:
        ctx.incidence = incidence
        return values.index_select(0, incidence.forward.indices)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        incidence = ctx.incidence
        return _segment_sum(gradient, incidence.positions, incidence.backward.offsets), None


class _Spread(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, incidence: Incidence) -> Tensor:
        ctx.incidence = incidence
        return values.index_select(0, incidence.owners)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return segment_sum(gradient, ctx.incidence), None


class _SegmentSum(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, incidence: Incidence) -> Tensor:
        ctx.incidence = incidence
        everything = torch.arange(len(values), device=values.device)
        return _segment_sum(values, everything, incidence.forward.offsets)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return spread(gradient, ctx.incidence), None


class _GatherSum(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, forward: Segments, backward: Segments) -> Tensor:
        ctx.segments = forward, backward
        return _segment_sum(values, forward.indices, forward.offsets)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        forward, backward = ctx.segments
        return cast(Tensor, _GatherSum.apply(gradient, backward, forward)), None, None


def _segment_sum(values: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
    """Sum ``values[indices]`` over the segments; an empty segment gives zeros."""
    flat = values.reshape(len(values), math.prod(values.shape[1:]))
    if _kernels(values, None) is kernels_gpu:
        total = kernels_rows.gather_sum(flat, indices, offsets)
    else:
        # An embedding bag gathers and sums in one pass, without the gathered array in between.
        total = embedding_bag(indices, flat, offsets, mode="sum", include_last_offset=True)
    return total.reshape(len(offsets) - 1, *values.shape[1:])


def gather(values: Tensor, incidence: Incidence) -> Tensor:
    """Give each incidence the value of its source: (sources, …) → (t, …)."""
    return cast(Tensor, _Gather.apply(values, incidence))


def spread(values: Tensor, incidence: Incidence) -> Tensor:
    """Give each incidence the value of its target: (targets, …) → (t, …)."""
    return cast(Tensor, _Spread.apply(values, incidence))


def segment_sum(values: Tensor, incidence: Incidence) -> Tensor:
    """Sum the incidences of each target: (t, …) → (targets, …)."""
    return cast(Tensor, _SegmentSum.apply(values, incidence))


def gather_sum(values: Tensor, incidence: Incidence) -> Tensor:
    """Sum over the sources of each target: (sources, …) → (targets, …); the product with Hᵀ or H."""
    return cast(Tensor, _GatherSum.apply(values, incidence.forward, incidence.backward))


def attention_scores(source: Tensor, target: Tensor, incidence: Incidence) -> Tensor:
    """Score each incidence, (4): LeakyReLU of its source's share plus its target's.

    Parameters
    ----------
    source : Tensor, (sources, heads)
        Product of the source's row with its half of the attention vector.
    target : Tensor, (targets, heads)
        Product of the target's row with the other half.
    incidence : Incidence
        Who sends to whom.

    Returns
    -------
    Tensor, (t, heads)
    """
    return leaky_relu(gather(source, incidence) + spread(target, incidence), NEGATIVE_SLOPE)


def segment_softmax(scores: Tensor, incidence: Incidence) -> Tensor:
    """Turn scores into coefficients that sum to one over each target's incidences: (t, heads) → same."""
    with torch.no_grad():
        highest = torch.segment_reduce(scores.detach(), "max", offsets=incidence.forward.offsets, axis=0)
    weights = (scores - spread(highest, incidence)).exp()
    return weights / spread(segment_sum(weights, incidence), incidence)


def weighted_sum(values: Tensor, coefficients: Tensor, incidence: Incidence) -> Tensor:
    """Sum by coefficients (t, heads): (sources, heads, units) → (targets, heads, units)."""
    return segment_sum(gather(values, incidence) * coefficients.unsqueeze(-1), incidence)


class _HeadProducts(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, vectors: Tensor, kernels: ModuleType) -> Tensor:
        ctx.save_for_backward(rows, vectors)
        ctx.kernels = kernels
        return cast(Tensor, kernels.head_products(rows, vectors))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return (*ctx.kernels.head_products_backward(gradient, *ctx.saved_tensors), None)


def head_products(rows: Tensor, vectors: Tensor, *, backend: str | None = None) -> Tensor:
    """Multiply each head's part of a row with vectors of the head.

    Parameters
    ----------
    rows : Tensor, (n, heads, units)
        Rows of all heads.
    vectors : Tensor, (v, heads, units)
        Vectors of all heads.
    backend : {"auto", "reference", "kernel"}, optional
        See `using`.

    Returns
    -------
    Tensor, (v, n, heads)
    """
    kernels = _kernels(rows, backend)
    if kernels is not None:
        by_row = kernels_rows if kernels is kernels_gpu else kernels
        return cast(Tensor, _HeadProducts.apply(rows, vectors, by_row))
    count, heads, _ = vectors.shape
    # One product with block-diagonal matrices, several times faster than one a head.
    eye = torch.eye(heads, dtype=vectors.dtype, device=vectors.device)
    blocks = vectors.permute(1, 2, 0).unsqueeze(-1) * eye[:, None, None, :]  # (heads, units, v, heads)
    return (rows.flatten(1) @ blocks.flatten(2).flatten(0, 1)).view(-1, count, heads).permute(1, 0, 2)


def unit_rows(values: Tensor) -> Tensor:
    """Scale each head's row to length one; zero rows stay zero: (n, heads, units) → same."""
    if _kernels(values, None) is kernels_gpu and not values.requires_grad:
        return kernels_rows.unit_rows(values)
    # A direction has no scale: dividing by the largest entry keeps squares in range and, being a
    # constant, leaves the gradient alone.
    largest = values.detach().abs().amax(-1, keepdim=True)
    scaled = values / largest.masked_fill(largest == 0, 1)
    lengths = scaled.square().sum(-1, keepdim=True)
    return scaled / lengths.masked_fill(largest == 0, 1).sqrt()


def scale_between(values: Tensor, peak: Tensor, tolerance: float) -> Tensor:
    """Scale each column from its range to [0, peak], or to [0, 0] if the peak is negative.

    Parameters
    ----------
    values : Tensor, (s, heads)
        The greatest becomes the peak, the least zero.
    peak : Tensor, (heads,)
        Upper ends.
    tolerance : float
        A range of at most this share of the greatest value, or of one, counts as none, and gives zeros.

    Returns
    -------
    Tensor, (s, heads)
    """
    if _kernels(values, None) is kernels_gpu and not (values.requires_grad or peak.requires_grad):
        return kernels_rows.scale_density(values, peak, tolerance)
    low, high = values.amin(0), values.amax(0)
    span = high - low
    equal = span <= tolerance * high.abs().clamp_min(1)
    scaled = (values - low) / span.masked_fill(equal, 1) * peak.clamp_min(0)
    return scaled.masked_fill(equal, 0)


class FixedMatrix:
    """A matrix that does not change and is multiplied with weights that do.

    Parameters
    ----------
    matrix : Tensor, (n, d)
        Gets no gradient.
    """

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix.detach().contiguous()

    @cached_property
    def transposed(self) -> Tensor:
        """The matrix once more, in the order in which the gradient needs it: (d, n)."""
        return self.matrix.T.contiguous()

    def __matmul__(self, weight: Tensor) -> Tensor:
        kernels = _kernels(self.matrix, None)
        if kernels is kernels_cpu and kernels_cpu.supports_product(self.matrix, weight.shape[1]):
            return cast(Tensor, _FixedProduct.apply(self, weight))
        return self.matrix @ weight


class _FixedProduct(Function):
    @staticmethod
    def forward(ctx: Any, fixed: FixedMatrix, weight: Tensor) -> Tensor:
        ctx.fixed = fixed
        return kernels_cpu.product(fixed.matrix, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, kernels_cpu.product(ctx.fixed.transposed, gradient)


class _Attend(Function):
    """The fused attention; the density is a constant for its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        source: Tensor,
        target: Tensor,
        bias: Tensor | None,
        incidence: Incidence,
        activation: bool,
        kernels: ModuleType,
    ) -> Tensor:
        forward = incidence.forward
        output, coefficients = kernels.attention_forward(
            values, source, target, bias, forward.offsets, forward.indices,
            slope=NEGATIVE_SLOPE, activation=activation,
        )  # fmt: skip
        ctx.save_for_backward(values, source, target, coefficients, output)
        ctx.incidence, ctx.activation, ctx.kernels = incidence, activation, kernels
        return cast(Tensor, output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        incidence = ctx.incidence
        gradients = ctx.kernels.attention_backward(
            gradient,
            *ctx.saved_tensors,
            (incidence.forward.offsets, incidence.forward.indices),
            (incidence.backward.offsets, incidence.backward.indices),
            incidence.positions,
            slope=NEGATIVE_SLOPE,
            activation=ctx.activation,
        )
        return (*gradients, None, None, None, None)


def attend(
    values: Tensor,
    source: Tensor,
    target: Tensor,
    bias: Tensor | None,
    incidence: Incidence,
    *,
    activation: bool = True,
    backend: str | None = None,
) -> Tensor:
    """Sum the sources of each target by attention, (4) to (8).

    Parameters
    ----------
    values : Tensor, (sources, heads, units)
        What is summed.
    source, target : Tensor, (sources, heads), (targets, heads)
        Shares of the attention scores, see `attention_scores`.
    bias : Tensor, (sources, heads), or None
        The scaled density, added to the scores.
    incidence : Incidence
        Who sends to whom.
    activation : bool
        Whether the sums pass an ELU.
    backend : {"auto", "reference", "kernel"}, optional
        See `using`.

    Returns
    -------
    Tensor, (targets, heads, units)
    """
    kernels = _kernels(values, backend)
    # No kernel has a gradient for the density.
    if kernels is not None and not (bias is not None and bias.requires_grad):
        return cast(Tensor, _Attend.apply(values, source, target, bias, incidence, activation, kernels))
    scores = attention_scores(source, target, incidence)
    if bias is not None:
        scores = scores + gather(bias, incidence)
    sums = weighted_sum(values, segment_softmax(scores, incidence), incidence)
    return elu(sums) if activation else sums


def highest_score(
    source: Tensor, target: Tensor, incidence: Incidence, *, backend: str | None = None
) -> Tensor:
    """Return the greatest attention score of all incidences, (1, heads)."""
    kernels = _kernels(source, backend)
    if kernels is None or source.requires_grad or target.requires_grad:
        return attention_scores(source, target, incidence).amax(0, keepdim=True)
    forward = incidence.forward
    peak: Tensor = kernels.attention_peak(source, target, forward.offsets, forward.indices, NEGATIVE_SLOPE)
    return peak.unsqueeze(0)


class _SimilaritySum(Function):
    @staticmethod
    def forward(ctx: Any, directions: Tensor, delta: float, forward: Segments, backward: Segments) -> Tensor:
        ctx.save_for_backward(directions)
        ctx.delta, ctx.segments = delta, (forward, backward)
        return (directions * _sum_similar(directions, directions, delta, forward)).sum(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (directions,) = ctx.saved_tensors
        forward, backward = ctx.segments
        weight = gradient.unsqueeze(-1)
        as_target = weight * _sum_similar(directions, directions, ctx.delta, forward)
        as_source = _sum_similar(directions, weight * directions, ctx.delta, backward)
        return as_target + as_source, None, None, None


def _sum_similar(directions: Tensor, values: Tensor, delta: float, segments: Segments) -> Tensor:
    """Sum, for each node, the values of those neighbours whose direction is similar: (n, heads, units)."""
    sums = []
    for start, stop in _blocks(segments, most=_BLOCK // directions[0].numel()):
        offsets = segments.offsets[start : stop + 1]
        # The whole is one block unless it is large; only then is the host asked where a block ends.
        pairs = slice(None) if stop - start == len(segments) else slice(int(offsets[0]), int(offsets[-1]))
        block = Segments(offsets - offsets[0], segments.indices[pairs])
        here = directions[start:stop].index_select(0, block.owners())
        there = directions.index_select(0, block.indices)
        # No cosine is greater than one, but its rounding may be.
        similar = (here * there).sum(-1, keepdim=True).clamp_max(1) > delta  # (pairs, heads, 1)
        chosen = values.index_select(0, block.indices) * similar
        sums.append(_segment_sum(chosen, torch.arange(len(chosen), device=chosen.device), block.offsets))
    return torch.cat(sums)


def _blocks(segments: Segments, most: int) -> Iterator[tuple[int, int]]:
    """Cut the segments into runs of at most ``most`` incidences, or of a single longer segment."""
    if len(segments.indices) <= most:
        yield 0, len(segments)
        return
    offsets = segments.offsets.cpu()
    start = 0
    while start < len(segments):
        stop = int(torch.searchsorted(offsets, int(offsets[start]) + most, right=True)) - 1
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def similarity_sum(
    directions: Tensor, delta: float, forward: Segments, backward: Segments, *, backend: str | None = None
) -> Tensor:
    """Sum each node's cosine similarities to its neighbours, those over ``delta`` alone, (3).

    Both directions recompute the similarities block by block, so that memory does not grow with the
    number of pairs.

    Parameters
    ----------
    directions : Tensor, (n, heads, units)
        Rows of length one, or zero.
    delta : float
        Threshold; a similarity must be greater to count.
    forward, backward : Segments
        The neighbours of each node, and the nodes that it is a neighbour of.
    backend : {"auto", "reference", "kernel"}, optional
        See `using`.

    Returns
    -------
    Tensor, (n, heads)
    """
    kernels = _kernels(directions, backend)
    if kernels is None or directions.requires_grad:
        return cast(Tensor, _SimilaritySum.apply(directions, delta, forward, backward))
    return cast(Tensor, kernels.similarity_sum(directions, delta, forward.offsets, forward.indices))
