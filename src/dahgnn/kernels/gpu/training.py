"""Launch the GPU kernels of the training loop, in Triton: the loss, the record of the epochs, Adam, dropout.

Several runs train side by side. All state is on the device and nothing waits for the host, so that a CUDA
graph can hold an epoch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from dahgnn.kernels.gpu.programs import jit, jit_for_any, launch, power_of_two
from dahgnn.kernels.gpu.tiles import (
    begin,
)

with contextlib.suppress(ImportError):
    import triton.language as tl

# Labelled nodes of a program, and weights of one.
_LABELLED = 64
_WEIGHTS = 1024


@jit
def _score_kernel(
    logits: tl.tensor,
    nodes: tl.tensor,
    labels: tl.tensor,
    block_runs: tl.tensor,
    block_weights: tl.tensor,
    partial: tl.tensor,
    gradient: tl.tensor,
    runs: tl.constexpr,
    classes: tl.constexpr,
    block_rows: tl.constexpr,
    block_classes: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Sum loss and correct predictions of a block of one run's nodes; store the gradient where it trains."""
    begin(overlap)
    block = tl.program_id(0)
    row = block * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block_classes)
    node, label = tl.load(nodes + row), tl.load(labels + row)
    present = node >= 0
    cells = (node * runs + tl.load(block_runs + block))[:, None] * classes + column[None, :]
    inside = present[:, None] & (column < classes)[None, :]
    # Rows of no node hold zeros, so that no difference of infinities arises.
    missing = tl.where(present, float("-inf"), 0.0)
    tile = tl.where(inside, tl.load(logits + cells, mask=inside, other=0.0), missing[:, None])
    own = label[:, None] == column[None, :]
    top = tl.max(tile, 1)
    weight = tl.exp(tile - top[:, None])
    total = tl.sum(weight, 1)
    loss = tl.log(total) + top - tl.sum(tl.where(own, tile, 0.0), 1)
    correct = (tl.argmax(tile, 1) == label) & present
    tl.store(partial + 2 * block, tl.sum(tl.where(present, loss, 0.0), 0))
    tl.store(partial + 2 * block + 1, tl.sum(correct.to(tl.int32), 0).to(partial.dtype.element_ty))
    if gradient is not None:
        block_weight = tl.load(block_weights + block)  # zero for the nodes of the validation
        if block_weight > 0:
            slope = (weight / total[:, None] - tl.where(own, 1.0, 0.0)) * block_weight
            tl.store(gradient + cells, slope, mask=inside)


class Labels:
    """The labelled nodes of several runs, in blocks that each belong to one run and one part.

    Parameters
    ----------
    parts : sequence of sequence of (Tensor, Tensor)
        For each run: nodes and their labels, of training and of validation, on the device.
    shape : tuple of int
        The shape of the logits, (n, runs, classes).
    dtype : torch.dtype
        The precision of the logits.

    Attributes
    ----------
    partial : Tensor, (blocks, 2)
        Loss and correct predictions, summed over each block.
    gradient : Tensor, (n, runs, classes)
        The gradient of the mean training loss of each run; zero wherever nothing trains.
    ranges : Tensor of int64, (runs, 4)
        First and last block of training and of validation.
    counts : Tensor of int64, (runs, 2)
        Nodes of training and of validation.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[tuple[Tensor, Tensor]]],
        shape: tuple[int, int, int],
        dtype: torch.dtype,
    ) -> None:
        device = parts[0][0][0].device
        nodes, labels, weights, ranges = [], [], [], []
        runs: list[int] = []
        for run, of_run in enumerate(parts):
            for part, (some, theirs) in enumerate(of_run):
                padding = (0, -len(some) % _LABELLED)
                nodes.append(torch.nn.functional.pad(some, padding, value=-1))
                labels.append(torch.nn.functional.pad(theirs, padding))
                blocks = len(nodes[-1]) // _LABELLED
                ranges.append((len(runs), len(runs) + blocks))
                runs += [run] * blocks
                weights += [0.0 if part else 1 / len(some)] * blocks
        self.nodes, self.labels = torch.cat(nodes), torch.cat(labels)
        self.block_runs = torch.tensor(runs, device=device)
        self.block_weights = torch.tensor(weights, device=device, dtype=dtype)
        self.ranges = torch.tensor(ranges, device=device).view(len(parts), 4)
        self.counts = torch.tensor([[len(some) for some, _ in of_run] for of_run in parts], device=device)
        self.gradient = torch.zeros(shape, device=device, dtype=dtype)
        self.partial, self._unused = (self.gradient.new_empty(len(runs), 2) for _ in range(2))

    @property
    def state(self) -> list[Tensor]:
        """What tells labelled nodes from others in as many blocks."""
        return [self.nodes, self.labels, self.block_runs, self.block_weights, self.ranges, self.counts]

    def score(self, evaluated: Tensor, trained: Tensor) -> None:
        """Score the logits of evaluation, and take the gradient of those of training."""
        if evaluated is trained:
            self._launch(evaluated, self.partial, self.gradient)
        else:
            self._launch(evaluated, self.partial, None)
            self._launch(trained, self._unused, self.gradient)

    def _launch(self, logits: Tensor, partial: Tensor, gradient: Tensor | None) -> None:
        logits = logits.detach().contiguous()
        _, runs, classes = logits.shape
        launch(
            _score_kernel, (len(partial),), logits, self.nodes, self.labels, self.block_runs,
            self.block_weights, partial, gradient, warps=4, runs=runs, classes=classes,
            block_rows=_LABELLED, block_classes=power_of_two(classes),
        )  # fmt: skip


@jit
def _mean(
    partial: tl.tensor, first: tl.tensor, last: tl.tensor, count: tl.tensor, block: tl.constexpr
) -> tl.tensor:
    """Return the loss and the share of correct predictions of some blocks."""
    loss = tl.zeros([block], partial.dtype.element_ty)
    right = tl.zeros([block], partial.dtype.element_ty)
    for start in range(first, last, block):
        part = start + tl.arange(0, block)
        loss += tl.load(partial + 2 * part, mask=part < last, other=0.0)
        right += tl.load(partial + 2 * part + 1, mask=part < last, other=0.0)
    return tl.sum(loss, 0) / count, tl.sum(right, 0) / count


@jit
def _record_kernel(
    partial: tl.tensor,
    ranges: tl.tensor,
    counts: tl.tensor,
    history: tl.tensor,
    best_loss: tl.tensor,
    best_epoch: tl.tensor,
    last_epoch: tl.tensor,
    running: tl.tensor,
    better: tl.tensor,
    epoch: tl.tensor,
    patience: int,
    max_epochs: int,
    block: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    begin(overlap)
    run, runs = tl.program_id(0), tl.num_programs(0)
    first, last = tl.load(ranges + 4 * run), tl.load(ranges + 4 * run + 1)
    train_loss, train_right = _mean(partial, first, last, tl.load(counts + 2 * run), block)
    first, last = tl.load(ranges + 4 * run + 2), tl.load(ranges + 4 * run + 3)
    loss, right = _mean(partial, first, last, tl.load(counts + 2 * run + 1), block)
    now = tl.load(epoch + run) + 1
    row = history + 4 * (now * runs + run)
    tl.store(row, train_loss)
    tl.store(row + 1, loss)
    tl.store(row + 2, train_right)
    tl.store(row + 3, right)
    on = tl.load(running + run) != 0
    finite = tl.abs(train_loss + loss) < float("inf")  # false for NaN too
    least = tl.load(best_loss + run)
    improved = on & finite & (loss < least)
    best = tl.where(improved, now, tl.load(best_epoch + run))
    tl.store(better + run, improved.to(tl.int32))
    tl.store(best_loss + run, tl.where(improved, loss, least))
    tl.store(best_epoch + run, best)
    tl.store(last_epoch + run, tl.where(on, now, tl.load(last_epoch + run)))
    tl.store(running + run, (on & finite & (now - best < patience) & (now < max_epochs)).to(tl.int32))
    tl.store(epoch + run, now)


class Record:
    """What happened so far to each run, on the device: losses, the best epoch, and whether it goes on.

    Parameters
    ----------
    labels : Labels
        The labelled nodes, with the sums of the last epoch.
    patience, max_epochs : int
        When to stop.
    rows : int
        Room for so many epochs.

    Attributes
    ----------
    history : Tensor, (rows, runs, 4)
        Losses and accuracies of training and validation.
    running, better : Tensor of int32, (runs,)
        1 until the last epoch, and where the last epoch was the best so far.
    epoch, best_epoch, last_epoch : Tensor of int64, (runs,)
        The last epoch recorded, the one of the lowest validation loss, and the last one that counts.
    """

    def __init__(self, labels: Labels, *, patience: int, max_epochs: int, rows: int) -> None:
        self.labels, self.limits = labels, (patience, max_epochs)
        runs = len(labels.counts)
        self.history = labels.partial.new_zeros(rows, runs, 4)
        self.best_loss = labels.partial.new_empty(runs)
        self.epoch, self.best_epoch, self.last_epoch = (labels.counts.new_empty(runs) for _ in range(3))
        self.running, self.better = (self.epoch.int() for _ in range(2))
        self.reset()

    def reset(self) -> None:
        """Return to the state before the first epoch."""
        self.best_loss.fill_(torch.inf)
        self.running.fill_(1)
        self.epoch.fill_(-1)
        for each in (self.best_epoch, self.last_epoch, self.better):
            each.zero_()

    @property
    def state(self) -> list[Tensor]:
        """Where the runs are; their history is not needed to go on."""
        return [
            self.epoch, self.best_epoch, self.last_epoch, self.best_loss, self.running, self.better,
        ]  # fmt: skip

    def add(self) -> None:
        """Note an epoch."""
        labels = self.labels
        launch(
            _record_kernel, (len(self.epoch),), labels.partial, labels.ranges, labels.counts, self.history,
            self.best_loss, self.best_epoch, self.last_epoch, self.running, self.better, self.epoch,
            *self.limits, warps=1, block=32,
        )  # fmt: skip


@jit
def _adam_kernel(
    weight: tl.tensor,
    gradients: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    best: tl.tensor,
    starts: tl.tensor,
    stops: tl.tensor,
    block_runs: tl.tensor,
    block_tensors: tl.tensor,
    shifts: tl.tensor,
    better: tl.tensor,
    epoch: tl.tensor,
    settings: tl.tensor,
    decay_every: int,
    block: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    begin(overlap)
    first: tl.constexpr = 0.9
    second: tl.constexpr = 0.999
    program = tl.program_id(0)
    run = tl.load(block_runs + program)
    place = tl.load(starts + program) + tl.arange(0, block)
    stop = tl.load(stops + program)
    inside = place < stop
    w = tl.load(weight + place, mask=inside)
    tl.store(best + place, w, mask=place < stop * tl.load(better + run))
    g = tl.load(settings + 2).to(w.dtype) * w
    tensor, within = tl.load(block_tensors + program), place - tl.load(shifts + program)
    for number in tl.static_range(len(gradients)):
        mine = place < tl.where(tensor == number, stop, 0)
        g += tl.load(gradients[number] + within, mask=mine, other=0.0)
    m = tl.load(mean + place, mask=inside) * first + (1 - first) * g
    v = tl.load(square + place, mask=inside) * second + (1 - second) * g * g
    tl.store(mean + place, m, mask=inside)
    tl.store(square + place, v, mask=inside)
    # In double precision: 1 − 0.999 would lose half its digits in single.
    past = tl.load(epoch + run)
    step = (past + 1).to(tl.float64)
    lowered = tl.load(settings) * tl.exp2((past // decay_every).to(tl.float64) * tl.load(settings + 1))
    factor = lowered / (1 - tl.exp2(step * tl.load(settings + 3)))
    root = tl.sqrt(1 - tl.exp2(step * tl.load(settings + 4)))
    update = factor.to(w.dtype) * m / (tl.sqrt(v) / root.to(w.dtype) + 1e-8)
    tl.store(weight + place, w - update, mask=inside)


class Adam:
    """Adam (Kingma and Ba, 2015) with a rate that falls in steps, and a copy of the weights kept on demand.

    Parameters
    ----------
    weights : mapping of Tensor, (runs, …)
        First weights by name, of all runs.
    rate, decay, decay_every : float, float, int
        The rate is multiplied by ``decay`` after every ``decay_every`` steps.
    weight_decay : float
        L2 penalty.

    Attributes
    ----------
    weights, best : dict of Tensor, (runs, …)
        The weights, leaves that want a gradient, and the copies that were kept of them.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        *,
        rate: float,
        decay: float,
        decay_every: int,
        weight_decay: float,
    ) -> None:
        self.decay_every = decay_every
        self._shapes = {name: weight.shape for name, weight in weights.items()}
        self._first = torch.cat([weight.detach().flatten() for weight in weights.values()])
        device = self._first.device
        # On the device, and not compiled in: a search over settings must not compile a kernel for each.
        numbers = [rate, math.log2(decay), weight_decay, math.log2(0.9), math.log2(0.999)]
        self._settings = torch.tensor(numbers, dtype=torch.float64, device=device)
        # All weights in one piece, so that one launch serves them; each block is of one run.
        self._flat, self._best = self._first.clone(), self._first.clone()
        self._mean, self._square = (torch.zeros_like(self._first) for _ in range(2))
        self.weights = {name: each.requires_grad_() for name, each in self._views(self._flat).items()}
        self.best = self._views(self._best)
        self._table = torch.tensor(list(self._blocks()), device=device).T.contiguous()

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = flat.detach().split(sizes)
        shaped = zip(self._shapes.items(), parts, strict=True)
        return {name: part.view(shape) for (name, shape), part in shaped}

    def _blocks(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the first place, the end and the run of each block, its tensor, and where that begins."""
        shift = 0
        for tensor, (runs, *shape) in enumerate(self._shapes.values()):
            size = math.prod(shape)
            for run in range(runs):
                offset = shift + run * size
                for start in range(offset, offset + size, _WEIGHTS):
                    yield start, offset + size, run, tensor, shift
            shift += runs * size

    def step(self, gradients: Sequence[Tensor], record: Record) -> None:
        """Update all weights; first keep a copy of those of the runs that are better than ever."""
        launch(
            _adam_kernel, (self._table.shape[1],), self._flat, tuple(each.contiguous() for each in gradients),
            self._mean, self._square, self._best, *self._table, record.better, record.epoch, self._settings,
            self.decay_every, warps=4, block=_WEIGHTS,
        )  # fmt: skip

    @property
    def state(self) -> list[Tensor]:
        """The weights, those that were kept, and what the next step needs."""
        return [self._flat, self._best, self._mean, self._square]

    @torch.no_grad()
    def reset(self) -> None:
        """Return to the first weights and to the state before the first step."""
        self._flat.copy_(self._first)
        self._best.copy_(self._first)
        self._mean.zero_()
        self._square.zero_()


@jit_for_any("site")
def _dropout_kernel(
    values: tl.tensor,
    result: tl.tensor,
    seeds: tl.tensor,
    epoch: tl.tensor,
    numbers: tl.tensor,
    size: int,
    rate: float,
    site: int,
    runs: tl.constexpr,
    units: tl.constexpr,
    block: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Drop a share of the units of a run; seed, epoch, site and place alone decide what falls."""
    begin(overlap)
    run = tl.program_id(1)
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    row, unit = place // units, place % units
    cells = (row * runs + run) * units + unit
    inside = place < size
    cells_of_all = place
    if numbers is not None:
        cells_of_all = tl.load(numbers + row, mask=inside, other=0) * units + unit
    # Philox (Salmon et al., 2011), as in `dahgnn.ops.dropout`: eight units share 128 bits.
    draw = cells_of_all >> 3
    low, high = (draw & 0xFFFFFFFF).to(tl.uint32), (draw >> 32).to(tl.uint32)
    now = (tl.load(epoch + run) + 1).to(tl.uint32)  # updates so far
    first, second, third, fourth = tl.philox(tl.load(seeds + run), low, high, now, now * 0 + site)
    pair = (cells_of_all >> 1) & 3
    word = tl.where(pair < 2, tl.where(pair == 0, first, second), tl.where(pair == 2, third, fourth))
    bits = tl.where((cells_of_all & 1) == 0, word & 0xFFFF, word >> 16)
    keep = bits.to(tl.float32) >= rate * 65536.0
    number = tl.load(values + cells, mask=inside, other=0.0)
    tl.store(result + cells, tl.where(keep, number / (1 - rate), 0.0).to(number.dtype), mask=inside)


def dropout(
    values: Tensor, seeds: Tensor, epochs: Tensor, site: int, rate: float, numbers: Tensor | None = None
) -> Tensor:
    """Drop units of values (n, runs, units); see `Kernels.dropout`."""
    values = values.contiguous()
    rows, runs, units = values.shape
    result = torch.empty_like(values)
    launch(
        _dropout_kernel, (-(-rows * units // 1024), runs), values, result, seeds, epochs, numbers,
        rows * units, rate, site, warps=4, runs=runs, units=units, block=1024,
    )  # fmt: skip
    return result
