"""How large the batches of a training are, and how much of the hypergraph around them is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dahgnn.checks import bad_type, check_count
from dahgnn.graph.reach import FanOut
from dahgnn.threads import threads_beside

# What an update looks at by default: of a node some hyperedges, and of these all members.
FAN_OUT: tuple[FanOut, FanOut] = ((4, None), (4, None))
# Updates of an epoch at the most, by default: a usual training of 28 epochs then has 896 at the most, while
# one of all rows at once does with 28.
MOST_UPDATES = 32
# The most neighbours that make a density. Similarities between 0 and 1 have a deviation of at most a half, so
# that the mean of so many is right to a 32nd.
NEIGHBOURS = 256


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a network is trained by batches.

    Parameters
    ----------
    batch : int
        Labelled rows of an update. Processes that train together share them.
    fan_out : sequence of (int or None, int or None)
        For the first and for the second attention layer: the most hyperedges of a node, and the most members
        of a hyperedge, that are looked at; None is all of them.
    updates : int
        Updates of an epoch at the most. Where the labelled rows make more batches than that, an epoch goes on
        where the last one ended, and comes back to a row when all have had their turn.
    neighbours : int or None
        The most neighbours of a node that its density is made of while training; None is all of them. Of
        nodes that have more, so many are drawn once, and stand for all.
    prefetch : int
        Batches that are prepared in the background while the network trains; 0 prepares none.
    workers : int, optional
        Threads that prepare them, each at least one ahead. By default one where the CPU trains. A GPU trains
        faster than a core prepares: for it one for each core of the process, and eight at the most.

    Examples
    --------
    >>> Sampling(batch=64, fan_out=((4, None), (None, 16))).fan_out
    ((4, None), (None, 16))
    """

    batch: int = 128
    fan_out: Sequence[FanOut] = FAN_OUT
    updates: int = MOST_UPDATES
    neighbours: int | None = NEIGHBOURS
    prefetch: int = 2
    workers: int | None = None

    def __post_init__(self) -> None:
        check_count("batch", self.batch, "Sampling")
        check_count("updates", self.updates, "Sampling")
        check_count("prefetch", self.prefetch, "Sampling", low=0)
        for name in ("neighbours", "workers"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), "Sampling")
        try:
            pairs = tuple((hyperedges, members) for hyperedges, members in self.fan_out)
        except (TypeError, ValueError):
            pairs = ()
        if len(pairs) != 2:
            expected = "a pair of numbers, or None, for each of the two attention layers"
            raise bad_type("fan_out", "Sampling", expected, repr(self.fan_out))
        for each in (number for pair in pairs for number in pair if number is not None):
            check_count("fan_out", each, "Sampling")
        object.__setattr__(self, "fan_out", pairs)

    def count_updates(self, labelled: int) -> int:
        """Return how many updates an epoch has where so many labelled rows train.

        Examples
        --------
        >>> Sampling(batch=128).count_updates(1000), Sampling(batch=128).count_updates(1_000_000)
        (8, 32)
        """
        return min(self.updates, self.count_batches(labelled))

    def count_batches(self, labelled: int) -> int:
        """Return how many batches it takes until each of so many labelled rows has had its turn."""
        return max(-(-labelled // self.batch), 1)

    def count_workers(self, device: torch.device) -> int:
        """Return how many threads prepare batches for a device."""
        return threads_beside(device) if self.workers is None else self.workers
