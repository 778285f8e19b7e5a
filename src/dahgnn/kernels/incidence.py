"""Incidences grouped by what they belong to: the form in which every sum runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


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

    @cached_property
    def longest(self) -> int:
        """How many members the longest segment has; asked for the first time, it waits for the device."""
        return int(self.offsets.diff().amax()) if len(self) else 0

    @cached_property
    def host_offsets(self) -> Tensor:
        """The offsets on the host; asked for the first time, it waits for the device."""
        return self.offsets.cpu()

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
