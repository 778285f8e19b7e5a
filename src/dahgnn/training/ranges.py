"""Between which densities a training by batches scales: running statistics of what the batches see.

The scaling (5) takes the density of each node from the range of all densities to [0, the greatest score]. A
batch sees some nodes alone. So the least and the greatest density and the greatest score run along: what lies
outside moves them at once, and what does not lets them shrink towards the batch, by the share of an epoch
that the batch is. After an epoch they have forgotten about as much as an average over one epoch would. If an
epoch is one batch, they are that batch's own.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from dahgnn.nn.sampled import Extremes, no_extremes
from dahgnn.world import ALONE, World


class Ranges:
    """Least and greatest density and greatest score of each attention layer, as they run along.

    Parameters
    ----------
    heads : tuple of int
        How many heads each layer has.
    device, dtype
        Of the network.
    world : World
        The processes whose batches count together.
    """

    def __init__(
        self,
        heads: tuple[int, ...],
        device: torch.device,
        dtype: torch.dtype,
        world: World = ALONE,
    ) -> None:
        self.world = world
        # (2, 3, heads) for each layer: to hyperedges and to nodes; nobody's before the first batch
        self.layers = [
            no_extremes(torch.empty(count, device=device, dtype=dtype)).repeat(2, 1, 1) for count in heads
        ]

    def of_batch(self, share: float) -> list[Extremes]:
        """Return what says which extremes count in a batch, for each layer.

        Parameters
        ----------
        share : float
            How much of an epoch the batch is, of all processes together.
        """
        return [partial(self._see, layer, share) for layer in range(len(self.layers))]

    def miss_batch(self, share: float) -> None:
        """Take part in a batch in which this process sees nothing."""
        for see, layer in zip(self.of_batch(share), self.layers, strict=True):
            for step in range(2):
                see(step, no_extremes(layer[0, 0]))

    def _see(self, layer: int, share: float, step: int, own: Tensor) -> Tensor:
        low, high = own[:1].clone(), own[1:].clone()
        self.world.combine_(low, high)
        self.layers[layer][step] = move(self.layers[layer][step], torch.cat([low, high]), share)
        return self.layers[layer][step]


def move(running: Tensor, seen: Tensor, share: float) -> Tensor:
    """Return the running extremes (3, heads) after a batch of which some are seen.

    Examples
    --------
    >>> running, seen = torch.tensor([[0.0], [8.0], [4.0]]), torch.tensor([[-1.0], [6.0], [5.0]])
    >>> move(running, seen, 0.5).flatten().tolist()
    [-1.0, 7.0, 5.0]
    """
    shrunk = torch.where(running.isfinite(), running + share * (seen - running), seen)
    moved = torch.cat([torch.minimum(shrunk[:1], seen[:1]), torch.maximum(shrunk[1:], seen[1:])])
    return torch.where(seen.isinf(), running, moved)
