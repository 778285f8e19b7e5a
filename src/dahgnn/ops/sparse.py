"""Sparse operations on incidences: plain PyTorch, differentiable, nothing of size n × m.

An incidence joins a source to a target. A target's incidences are one segment of the forward order;
a source's are one segment of the backward order. With both at hand every sum, also in a gradient,
runs over segments: nothing is scattered, so results repeat bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import elu, embedding_bag, leaky_relu

from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import Kernels
from dahgnn.ops.backend import kernels_for

# Slope of the LeakyReLU of the attention; the paper names none, this is that of GAT.
NEGATIVE_SLOPE = 0.2

# Numbers that one gathered block of neighbours may hold: 64 MiB in float32.
_BLOCK = 1 << 24

# Inner dimension up to which a product is not worth a library's preparations, on a CPU and on a GPU.
_SMALL, _SMALL_ON_GPU = 64, 32


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, incidence: Incidence) -> Tensor:
        ctx.incidence = incidence
        return values.index_select(0, incidence.forward.indices)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        backward, positions = ctx.incidence.backward_order()
        return _segment_sum(gradient, positions, backward.offsets), None


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


def _segment_sum(values: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Sum ``values[indices]``, each times its weight, over the segments; an empty segment gives zeros."""
    flat = values.reshape(len(values), math.prod(values.shape[1:]))
    # An embedding bag gathers and sums in one pass, without the gathered array in between.
    total = embedding_bag(
        indices, flat, offsets, mode="sum", include_last_offset=True, per_sample_weights=weights
    )
    return total.reshape(len(offsets) - 1, *values.shape[1:])


def _check_gradient(values: Tensor, incidence: Incidence) -> None:
    """Refuse incidences without a backward order where sources get a gradient."""
    if values.requires_grad and torch.is_grad_enabled():
        incidence.backward_order()


def gather(values: Tensor, incidence: Incidence) -> Tensor:
    """Give each incidence the value of its source: (sources, …) → (t, …)."""
    _check_gradient(values, incidence)
    return cast(Tensor, _Gather.apply(values, incidence))


def spread(values: Tensor, incidence: Incidence) -> Tensor:
    """Give each incidence the value of its target: (targets, …) → (t, …)."""
    return cast(Tensor, _Spread.apply(values, incidence))


def segment_sum(values: Tensor, incidence: Incidence) -> Tensor:
    """Sum the incidences of each target: (t, …) → (targets, …)."""
    return cast(Tensor, _SegmentSum.apply(values, incidence))


class _Weights(NamedTuple):
    """A weight for each incidence, in the order of the targets and in that of the sources."""

    forward: Tensor
    backward: Tensor | None

    def swapped(self) -> _Weights | None:
        """Return them for the way back; None if there is no such order."""
        return None if self.backward is None else _Weights(self.backward, self.forward)


class _GatherSum(Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        forward: Segments,
        backward: Segments | None,
        source_scale: Tensor | None,
        target_scale: Tensor | None,
        weights: _Weights | None,
        kernels: Kernels | None,
    ) -> Tensor:
        swapped = None if weights is None else weights.swapped()
        ctx.swapped = backward, forward, target_scale, source_scale, swapped, kernels
        if kernels is not None:
            flat = values.reshape(len(values), math.prod(values.shape[1:]))
            sums = kernels.gather_sum(flat, forward, source_scale, target_scale)
            return sums.view(len(forward), *values.shape[1:])
        column = (-1,) + (1,) * (values.dim() - 1)
        scaled = values if source_scale is None else values * source_scale.view(column)
        each = None if weights is None else weights.forward
        total = _segment_sum(scaled, forward.indices, forward.offsets, each)
        return total if target_scale is None else total * target_scale.view(column)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return cast(Tensor, _GatherSum.apply(gradient, *ctx.swapped)), None, None, None, None, None, None


def gather_sum(
    values: Tensor,
    incidence: Incidence,
    source_scale: Tensor | None = None,
    target_scale: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    """Sum over the sources of each target: the product with Hᵀ or H, between diagonal matrices.

    Parameters
    ----------
    values : Tensor, (sources, …)
        What is summed.
    incidence : Incidence
        The sources of each target.
    source_scale, target_scale : Tensor, (sources,), (targets,), optional
        Factors before and after the sum, of the values' precision; they get no gradient.
    weights : Tensor, (t,), optional
        Factor of each incidence, in forward order and of any precision; it gets no gradient. No kernel takes
        them, so that plain PyTorch sums.
    backend : {"auto", "reference", "kernel"}, optional
        See `ops.backend.using`.

    Returns
    -------
    Tensor, (targets, …)
    """
    _check_gradient(values, incidence)
    both = None
    if weights is not None:
        each, positions = weights.to(values.dtype), incidence.positions
        both = _Weights(each, None if positions is None else each.index_select(0, positions))
    kernels = kernels_for(values, backend) if weights is None else None
    return cast(
        Tensor,
        _GatherSum.apply(
            values, incidence.forward, incidence.backward, source_scale, target_scale, both, kernels
        ),
    )


class _GroupedProduct(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor, kernels: Kernels) -> Tensor:
        ctx.save_for_backward(rows, weights)
        ctx.kernels = kernels
        return kernels.grouped_product(rows, weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return (*ctx.kernels.grouped_product_backward(gradient, *ctx.saved_tensors), None)


def grouped_product(rows: Tensor, weights: Tensor, *, backend: str | None = None) -> Tensor:
    """Multiply each group's part of a row with the group's own matrix.

    Parameters
    ----------
    rows : Tensor, (n, groups, inner)
        Each row has a part for each group.
    weights : Tensor, (groups, inner, outer)
        The matrix of each group.
    backend : {"auto", "reference", "kernel"}, optional
        See `ops.backend.using`.

    Returns
    -------
    Tensor, (n, groups, outer)
    """
    if len(weights) == 1 and weights.shape[1] > (_SMALL_ON_GPU if rows.is_cuda else _SMALL):
        return (rows.squeeze(1) @ weights.squeeze(0)).unsqueeze(1)
    kernels = kernels_for(rows, backend)
    if kernels is not None:
        return cast(Tensor, _GroupedProduct.apply(rows, weights, kernels))
    return torch.einsum("ngi,gio->ngo", rows, weights)


def attention_scores(source: Tensor, target: Tensor, incidence: Incidence) -> Tensor:
    """Score each incidence, (4): LeakyReLU of its source's term plus its target's.

    Parameters
    ----------
    source : Tensor, (sources, heads)
        Product of the source's row with its half of the attention vector.
    target : Tensor, (targets, heads)
        Product of the target's row with the other half.
    incidence : Incidence
        The sources of each target.

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


def unit_rows(values: Tensor) -> Tensor:
    """Scale each head's row to length one; zero rows stay zero: (n, heads, units) → same."""
    # A direction has no scale: dividing by the largest entry keeps squares in range and, being a
    # constant, leaves the gradient alone.
    largest = values.detach().abs().amax(-1, keepdim=True)
    scaled = values / largest.masked_fill(largest == 0, 1)
    lengths = scaled.square().sum(-1, keepdim=True)
    return scaled / lengths.masked_fill(largest == 0, 1).sqrt()


def scale_between(values: Tensor, peak: Tensor, tolerance: float, among: Tensor | None = None) -> Tensor:
    """Scale each column from its range to [0, peak], or to [0, 0] if the peak is negative.

    Parameters
    ----------
    values : Tensor, (s, heads)
        The greatest becomes the peak, the least zero.
    peak : Tensor, (heads,)
        Upper ends.
    tolerance : float
        A range of at most this share of the greatest value, or of one, counts as none, and gives zeros.
    among : Tensor, (t, heads), optional
        Values whose range is taken instead of the values' own; what lies outside becomes its ends.

    Returns
    -------
    Tensor, (s, heads)
    """
    range_of = values if among is None else among
    low, high = range_of.amin(0), range_of.amax(0)  # aminmax has no derivative in PyTorch 2.11
    span = high - low
    values = values if among is None else values.clamp(low, high)
    equal = span <= tolerance * high.abs().clamp_min(1)
    scaled = (values - low) / span.masked_fill(equal, 1) * peak.clamp_min(0)
    return scaled.masked_fill(equal, 0)


def attend(
    values: Tensor,
    source: Tensor,
    target: Tensor,
    bias: Tensor | None,
    incidence: Incidence,
    *,
    activation: bool = True,
) -> Tensor:
    """Sum the sources of each target by attention, (4) to (8).

    Parameters
    ----------
    values : Tensor, (sources, heads, units)
        What is summed.
    source, target : Tensor, (sources, heads), (targets, heads)
        Terms of the attention scores, see `attention_scores`.
    bias : Tensor, (sources, heads), or None
        The scaled density, added to the scores.
    incidence : Incidence
        The sources of each target.
    activation : bool
        Whether the sums pass an ELU.

    Returns
    -------
    Tensor, (targets, heads, units)
    """
    sums = weighted_sum(values, coefficients(source, target, bias, incidence), incidence)
    return elu(sums) if activation else sums


def coefficients(source: Tensor, target: Tensor, bias: Tensor | None, incidence: Incidence) -> Tensor:
    """Return the attention coefficient of each incidence, (6): (t, heads); see `attend`."""
    scores = attention_scores(source, target, incidence)
    if bias is not None:
        scores = scores + gather(bias, incidence)
    return segment_softmax(scores, incidence)


def highest_score(source: Tensor, target: Tensor, incidence: Incidence) -> Tensor:
    """Return the greatest attention score of all incidences, (1, heads)."""
    return attention_scores(source, target, incidence).amax(0, keepdim=True)


class _SimilaritySum(Function):
    @staticmethod
    def forward(ctx: Any, directions: Tensor, delta: float, forward: Segments, backward: Segments) -> Tensor:
        ctx.save_for_backward(directions)
        ctx.delta, ctx.segments = delta, (forward, backward)
        return (directions * sum_similar(directions, directions, delta, forward)).sum(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (directions,) = ctx.saved_tensors
        forward, backward = ctx.segments
        weight = gradient.unsqueeze(-1)
        as_target = weight * sum_similar(directions, directions, ctx.delta, forward)
        as_source = sum_similar(directions, weight * directions, ctx.delta, backward)
        return as_target + as_source, None, None, None


def sum_similar(directions: Tensor, values: Tensor, delta: float, segments: Segments) -> Tensor:
    """Sum, for each node, the values of those neighbours whose direction is similar: (n, heads, units)."""
    sums = []
    for start, stop, pairs in _blocks(segments, most=_BLOCK // directions[0].numel()):
        offsets = segments.offsets[start : stop + 1]
        block = Segments(offsets - offsets[0], segments.indices[pairs])
        here = directions[start:stop].index_select(0, block.owners())
        there = directions.index_select(0, block.indices)
        # No cosine is greater than one, but its rounding may be.
        similar = (here * there).sum(-1, keepdim=True).clamp_max(1) > delta  # (pairs, heads, 1)
        chosen = values.index_select(0, block.indices) * similar
        sums.append(_segment_sum(chosen, torch.arange(len(chosen), device=chosen.device), block.offsets))
    return torch.cat(sums)


def _blocks(segments: Segments, most: int) -> Iterator[tuple[int, int, slice]]:
    """Cut the segments into runs of at most ``most`` incidences, or of a single longer segment."""
    if len(segments.indices) <= most:
        yield 0, len(segments), slice(None)
        return
    offsets = segments.host_offsets
    start = 0
    while start < len(segments):
        stop = int(torch.searchsorted(offsets, int(offsets[start]) + most, right=True)) - 1
        stop = max(stop, start + 1)
        yield start, stop, slice(int(offsets[start]), int(offsets[stop]))
        start = stop


def similarity_sum(directions: Tensor, delta: float, forward: Segments, backward: Segments) -> Tensor:
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

    Returns
    -------
    Tensor, (n, heads)
    """
    return cast(Tensor, _SimilaritySum.apply(directions, delta, forward, backward))
