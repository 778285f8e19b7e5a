"""The least time of an epoch: what must be computed and moved, by what the machine was seen to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dahgnn.bench.peers import N_CLASSES
from dahgnn.config import ModelConfig
from dahgnn.graph.hypergraph import Hypergraph

PAPER = ModelConfig()
_WORD = 4  # bytes of a float32, and of an index that counts to two billion


@dataclass(frozen=True)
class Machine:
    """What a machine was seen to do.

    Attributes
    ----------
    bandwidth : float
        Bytes a second that a large copy reads and writes.
    rate : float
        Operations a second of a large square product in float32.
    """

    bandwidth: float
    rate: float

    @classmethod
    def measure(cls, device: torch.device) -> Machine:
        """Copy and multiply for some tenths of a second; the fastest of the repetitions counts."""
        cuda = device.type == "cuda"
        # 1 GiB or 256 MiB: more than caches hold.
        source = torch.ones(2**28 if cuda else 2**26, device=device)
        target = torch.zeros_like(source)
        bandwidth = 2 * _WORD * len(source) / _least_seconds(lambda: target.copy_(source), device)
        size = 8192 if cuda else 2048
        # Random numbers, since a GPU that multiplies equal ones draws less power and runs faster.
        left, right = (torch.rand(size, size, device=device) for _ in range(2))
        rate = 2 * size**3 / _least_seconds(lambda: left @ right, device)
        return cls(bandwidth=bandwidth, rate=rate)

    def seconds(self, operations: int, words: int) -> float:
        """Return the time of so many operations or that of moving so many words, the longer of both."""
        return max(operations / self.rate, words * _WORD / self.bandwidth)


def _least_seconds(work: Callable[[], object], device: torch.device) -> float:
    """Repeat some work for a fifth of a second, six times at least, and return the shortest time."""
    seconds: list[float] = []
    while len(seconds) < 6 or sum(seconds) < 0.2:
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@dataclass(frozen=True)
class Size:
    """How large a task is; columns of zeros do not count, since nothing must be computed of them."""

    nodes: int
    hyperedges: int
    incidences: int
    columns: int

    @classmethod
    def of(cls, features: Tensor, hypergraph: Hypergraph) -> Size:
        """Return the sizes of an input."""
        columns = int(features.any(0).sum())
        return cls(hypergraph.n_nodes, hypergraph.n_hyperedges, hypergraph.n_incidences, columns)


@dataclass(frozen=True)
class Floor:
    """The least seconds of an epoch.

    Attributes
    ----------
    products : float
        The seconds of the two large products.
    incidences : float
        The seconds of the passes over the incidences.
    projections : float
        The seconds of the products behind the convolution, if they cannot be folded into the large ones.
    """

    products: float
    incidences: float
    projections: float = 0.0

    @property
    def seconds(self) -> float:
        """The time of all parts together."""
        return self.products + self.incidences + self.projections


def floor(size: Size, machine: Machine, model: ModelConfig = PAPER, *, runs: int = 1) -> Floor:
    """Compute the least time of an epoch from its operations, its bytes and the machine's speeds.

    With n nodes, m hyperedges, t incidences, d columns, c classes, R networks, and words of four bytes:

    - *Products.* The propagated features (m, d) times weights (d, w R), forward, and their transpose times a
      gradient, backward: 2 · 2 m d · w R operations, and 2 m d words to read. The longer of both counts. In
      the paper's network the first attention layer of h heads with u units is folded into the weights, so
      that w = h u = 32. Where an ELU, dropout or a shortcut stands in between, w is ``hidden``.
    - *Projections.* If they are not folded, the rows of nodes (n, w) times weights (w, h u), those of
      hyperedges (m, w) times (w, h), and for a shortcut those of nodes times (w, c); backward twice as much,
      for rows and weights: 6 w (n h u + m h + n c) R operations. The rows of hyperedges, of which those of
      nodes can be made on the way, are read forward and backward, and their gradient is written: 3 m w R
      words. Again the longer of both counts.
    - *Passes.* In an attention layer of h heads with u units, r = h u, each of the two directions passes once
      over the incidences forward and once backward. Forward reads the rows and terms of sources and targets,
      the indices, and writes the sums and the coefficients: (n + m)(r + h) + t (h + 1) words. Backward reads
      the gradient, the sums, the rows, the terms, the coefficients and the indices, and writes the gradients
      of rows and terms: 2 (n + m)(r + h) + t (h + 1). The layer moves 6 (n + m)(r + h) + 4 t (h + 1) words;
      of R networks R times as many, but for the indices, 4 t.

    A row counts once a pass, however many incidences gather it, as if a cache held it in between. Not counted
    are the second half of the convolution, the density, layer 2's small products, ELU, dropout, loss,
    evaluation and Adam. Where the whole task fits into a cache, or few nodes have a gradient in the last
    layer and in the shortcut, an epoch needs a little less than this.

    Parameters
    ----------
    size : Size
        The size of the workload.
    machine : Machine
        Its measured speeds.
    model : ModelConfig
        The network; the paper's by default.
    runs : int
        Networks that are trained side by side, on the same features.

    Returns
    -------
    Floor

    Examples
    --------
    >>> size = Size(nodes=1000, hyperedges=1000, incidences=11000, columns=784)
    >>> round(floor(size, Machine(bandwidth=1e9, rate=1e9)).seconds, 5)
    0.10384
    """
    # As in `DAHGNN`: nothing may stand between the convolution and the first attention layer.
    folded = not (model.activation or model.dropout or model.shortcut)
    width = model.heads * model.units if folded else model.hidden
    entries, rows = size.hyperedges * size.columns, size.nodes + size.hyperedges
    words = sum(
        6 * rows * (heads * units + heads) * runs + 4 * size.incidences * (heads * runs + 1)
        for heads, units in ((model.heads, model.units), (1, N_CLASSES))
    )
    least = Floor(machine.seconds(4 * entries * width * runs, 2 * entries), machine.seconds(0, words))
    if folded:
        return least
    columns = model.heads * model.units + (N_CLASSES if model.shortcut else 0)
    operations = 6 * width * (size.nodes * columns + size.hyperedges * model.heads) * runs
    return replace(least, projections=machine.seconds(operations, 3 * size.hyperedges * width * runs))


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
