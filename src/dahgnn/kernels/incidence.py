"""Incidences grouped by what they belong to: the form in which every sum runs."""

from __future__ import annotations

from collections.abc import Callable
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
        if self.offsets.device.type == "cpu" and torch.device(device).type != "cpu":
            _ = self.longest  # which costs little here, and would have the host wait there
        return self.map(lambda tensor: tensor.to(device))

    def map(self, move: Callable[[Tensor], Tensor]) -> Segments:
        """Return the same segments in tensors that a function gives for these; a known length stays known."""
        moved = Segments(move(self.offsets), move(self.indices))
        if "longest" in vars(self):
            vars(moved)["longest"] = self.longest
        return moved


class Incidence(NamedTuple):
    """The incidences from sources to targets, in the order of the targets and in that of the sources.

    What belongs to each incidence stands in forward order; ``positions`` leads there from the backward order.

    Attributes
    ----------
    forward : Segments
        The sources of each target.
    backward : Segments or None
        The targets of each source; None where no gradient flows to the sources.
    owners : Tensor, (t,)
        The target of each incidence, in forward order.
    positions : Tensor, (t,), or None
        Where each incidence of the backward order stands in the forward order; None without that order.
    """

    forward: Segments
    backward: Segments | None
    owners: Tensor
    positions: Tensor | None

    @classmethod
    def forward_only(cls, forward: Segments, owners: Tensor) -> Incidence:
        """Return incidences for sums without a gradient, which need no backward order."""
        return cls(forward, None, owners, None)

    def map(self, move: Callable[[Tensor], Tensor]) -> Incidence:
        """Return the same incidences in tensors that a function gives for these."""
        return Incidence(
            self.forward.map(move),
            None if self.backward is None else self.backward.map(move),
            move(self.owners),
            None if self.positions is None else move(self.positions),
        )

    def backward_order(self) -> tuple[Segments, Tensor]:
        """Return ``backward`` and ``positions``.

        Raises
        ------
        ValueError
            If these incidences have no backward order.
        """
        if self.backward is None or self.positions is None:
            raise ValueError(
                "The sources of these incidences cannot get a gradient: there is no backward order. Compute "
                "under torch.no_grad(), or give the incidences both orders."
            )
        return self.backward, self.positions
