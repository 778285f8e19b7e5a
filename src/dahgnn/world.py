"""The processes that train one network together, as a training loop sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class World(Protocol):
    """The processes that train together. Each calls the same functions in the same order.

    Attributes
    ----------
    rank, size : int
        The number of this process, from 0, and how many there are.
    """

    @property
    def rank(self) -> int:
        """The number of this process."""

    @property
    def size(self) -> int:
        """How many processes there are."""

    def average_(self, tensors: Sequence[Tensor], weight: float) -> None:
        """Replace tensors by their mean over all processes, each of which counts by its weight.

        A process may weigh nothing; one at least weighs more.
        """

    def combine_(self, minimum: Tensor, maximum: Tensor) -> None:
        """Replace one tensor by the least, and the other by the greatest, that any process has."""

    def barrier(self) -> None:
        """Wait for all processes."""


class Alone:
    """A world of one process."""

    rank = 0
    size = 1

    def average_(self, tensors: Sequence[Tensor], weight: float) -> None:
        """Leave the tensors as they are."""

    def combine_(self, minimum: Tensor, maximum: Tensor) -> None:
        """Leave both as they are."""

    def barrier(self) -> None:
        """Wait for nobody."""


ALONE: World = Alone()
