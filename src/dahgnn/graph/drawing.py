"""Take what some segments name: all of it, or places of long segments that are drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from dahgnn.kernels.incidence import Segments
from dahgnn.ops.dropout import philox


def take(
    segments: Segments,
    numbers: Tensor,
    most: int | None = None,
    long: Tensor | None = None,
    places: Tensor | None = None,
) -> Segments:
    """Return what some segments name.

    Parameters
    ----------
    segments : Segments
        All of them.
    numbers : Tensor of int64, (s,)
        Which ones.
    most : int, optional
        How many each names at the most; others are ``long``.
    long, places : Tensor, (s,), (l, most), optional
        Which of them are longer, and which places of these are taken.
    """
    first = segments.offsets[numbers]
    counts = segments.offsets[numbers + 1] - first
    taken = counts if most is None else counts.clamp_max(most)
    offsets = torch.cat([taken.new_zeros(1), taken.cumsum(0)])
    owners = torch.arange(len(numbers)).repeat_interleave(taken, output_size=int(offsets[-1]))
    within = torch.arange(len(owners)) - offsets[owners]
    if long is not None and places is not None:
        within[long[owners]] = places.flatten()
    return Segments(offsets, segments.indices[first[owners] + within])


def draw_places(numbers: Tensor, counts: Tensor, most: int, step: int, site: int, seed: int) -> Tensor:
    """Return different places below each count, as many as asked for, each with the same chance.

    The places stand on a circle that is cut into ``most`` arcs at a point that is drawn; one place is drawn
    of each arc. So the work does not grow with the counts.

    Parameters
    ----------
    numbers : Tensor of int64, (s,)
        Whose places they are: the counter of the generator, which is Philox.
    counts : Tensor of int64, (s,)
        At least ``most``, and below 2³¹.
    most : int
        How many are drawn.
    step, site, seed : int
        What else decides.

    Returns
    -------
    Tensor of int64, (s, most), in ascending order
    """
    words = torch.cat([philox(numbers, step, site + j, seed) for j in range(most // 4 + 1)], 1)
    arcs = torch.arange(most + 1) * counts.unsqueeze(1) // most
    within = arcs[:, :-1] + (words[:, 1 : most + 1] * arcs.diff() >> 32)
    begin = words[:, :1] * counts.unsqueeze(1) >> 32
    return ((begin + within) % counts.unsqueeze(1)).sort(1).values
