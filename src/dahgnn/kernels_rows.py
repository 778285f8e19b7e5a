"""Launch the GPU kernels that work row by row, in Triton: sums, products, scalings, and the update of Adam.

Each replaces a handful of small launches by one or two; at ten thousand nodes an epoch is made of launches.
Nothing waits for the host and every number is written once, so that a CUDA graph can hold them and results
repeat bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Rows of a block in which extremes and sums over all rows are taken first.
_ROWS = 256
# At the most so many blocks, so that what they found is one tile of the second step.
_BLOCKS = 1024


def _jit(function: Callable[..., Any]) -> Any:
    """Make a Triton kernel; without Triton the function stays as it is and nobody calls it."""
    return function if triton is None else triton.jit(function)


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def _rows_of_a_block(rows: int) -> int:
    return max(_ROWS, _power_of_two(-(-rows // _BLOCKS)))


@_jit
def _gather_sum_kernel(
    values: tl.tensor,
    indices: tl.tensor,
    offsets: tl.tensor,
    sums: tl.tensor,
    width: tl.constexpr,
    block_width: tl.constexpr,
    block_members: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block_width + tl.arange(0, block_width)
    inside = columns < width
    stop = tl.load(offsets + row + 1)
    total = tl.zeros([block_width], dtype=sums.dtype.element_ty)
    for start in range(tl.load(offsets + row), stop, block_members):
        places = start + tl.arange(0, block_members)
        member = tl.load(indices + places, mask=places < stop, other=0)
        cells = member[:, None] * width + columns[None, :]
        tile = tl.load(values + cells, mask=(places < stop)[:, None] & inside[None, :], other=0.0)
        total += tl.sum(tile, 0)
    tl.store(sums + row * width + columns, total, mask=inside)


def gather_sum(values: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
    """Sum the rows that each segment names: (sources, width) → (segments, width)."""
    values, width = values.contiguous(), values.shape[1]
    sums = values.new_empty(len(offsets) - 1, width)
    block = min(_power_of_two(width), 64)
    with torch.cuda.device_of(values):
        _gather_sum_kernel[(len(sums), -(-width // block))](
            values, indices, offsets, sums, width, block, 16, num_warps=1
        )
    return sums


@_jit
def _unit_kernel(
    values: tl.tensor,
    result: tl.tensor,
    rows: int,
    units: tl.constexpr,
    block_rows: tl.constexpr,
    block_units: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    unit = tl.arange(0, block_units)
    cells = row[:, None] * units + unit[None, :]
    inside = (row < rows)[:, None] & (unit < units)[None, :]
    tile = tl.load(values + cells, mask=inside, other=0.0)
    largest = tl.max(tl.abs(tile), 1)
    tile = tile / tl.where(largest == 0, 1.0, largest)[:, None]
    length = tl.sqrt(tl.sum(tile * tile, 1))
    tl.store(result + cells, tile / tl.where(length == 0, 1.0, length)[:, None], mask=inside)


def unit_rows(values: Tensor) -> Tensor:
    """Scale each head's row to length one; zero rows stay zero: (n, heads, units) → same."""
    values = values.contiguous()
    result = torch.empty_like(values)
    rows, units = values.shape[0] * values.shape[1], values.shape[2]
    with torch.cuda.device_of(values):
        _unit_kernel[(-(-rows // 64),)](values, result, rows, units, 64, _power_of_two(units), num_warps=2)
    return result


@_jit
def _products_kernel(
    values: tl.tensor,
    vectors: tl.tensor,
    products: tl.tensor,
    rows: int,
    count: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    block_rows: tl.constexpr,
    block_units: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)  # of (n, heads), flat
    unit = tl.arange(0, block_units)
    inside = (row < rows)[:, None] & (unit < units)[None, :]
    tile = tl.load(values + row[:, None] * units + unit[None, :], mask=inside, other=0.0)
    for which in tl.static_range(count):
        places = (which * heads + row % heads)[:, None] * units + unit[None, :]
        vector = tl.load(vectors + places, mask=inside, other=0.0)
        tl.store(products + which * rows + row, tl.sum(tile * vector, 1), mask=row < rows)


@_jit
def _products_backward_kernel(
    gradient: tl.tensor,
    values: tl.tensor,
    vectors: tl.tensor,
    value_gradient: tl.tensor,
    partial: tl.tensor,
    nodes: int,
    count: tl.constexpr,
    heads: tl.constexpr,
    units: tl.constexpr,
    program_rows: tl.constexpr,
    block_rows: tl.constexpr,
    block_units: tl.constexpr,
) -> None:
    block, head = tl.program_id(0), tl.program_id(1)
    unit = tl.arange(0, block_units)
    for which in tl.static_range(count):
        sums = tl.zeros([block_units], dtype=partial.dtype.element_ty)
        for start in range(0, program_rows, block_rows):
            node = block.to(tl.int64) * program_rows + start + tl.arange(0, block_rows)
            present = node < nodes
            inside = present[:, None] & (unit < units)[None, :]
            cells = (node * heads + head)[:, None] * units + unit[None, :]
            tile = tl.load(values + cells, mask=inside, other=0.0)
            g = tl.load(gradient + (which * nodes + node) * heads + head, mask=present, other=0.0)
            sums += tl.sum(g[:, None] * tile, 0)
            if which == 0:
                back = tl.zeros([block_rows, block_units], dtype=partial.dtype.element_ty)
                for other in tl.static_range(count):
                    places = (other * heads + head) * units + unit
                    vector = tl.load(vectors + places, mask=unit < units, other=0.0)
                    h = tl.load(gradient + (other * nodes + node) * heads + head, mask=present, other=0.0)
                    back += h[:, None] * vector[None, :]
                tl.store(value_gradient + cells, back, mask=inside)
        places = ((block * count + which) * heads + head) * units + unit
        tl.store(partial + places, sums, mask=unit < units)


def head_products(values: Tensor, vectors: Tensor) -> Tensor:
    """Multiply rows (n, heads, units) with vectors (v, heads, units) of their heads: (v, n, heads)."""
    values, vectors = values.contiguous(), vectors.contiguous()
    nodes, heads, units = values.shape
    products = values.new_empty(len(vectors), nodes, heads)
    with torch.cuda.device_of(values):
        _products_kernel[(-(-nodes * heads // 64),)](
            values,
            vectors,
            products,
            nodes * heads,
            len(vectors),
            heads,
            units,
            64,
            _power_of_two(units),
            num_warps=2,
        )
    return products


def head_products_backward(gradient: Tensor, values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of values and of vectors."""
    gradient, values, vectors = gradient.contiguous(), values.contiguous(), vectors.contiguous()
    nodes, heads, units = values.shape
    count, program_rows = len(vectors), _rows_of_a_block(nodes)
    blocks = -(-nodes // program_rows)
    value_gradient = torch.empty_like(values)
    partial = values.new_empty(blocks, count, heads, units)
    with torch.cuda.device_of(values):
        _products_backward_kernel[(blocks, heads)](
            gradient, values, vectors, value_gradient, partial, nodes, count, heads, units,
            program_rows, 64, _power_of_two(units), num_warps=2,
        )  # fmt: skip
    return value_gradient, partial.sum(0)


@_jit
def _extremes_kernel(
    density: tl.tensor,
    lows: tl.tensor,
    highs: tl.tensor,
    rows: int,
    heads: tl.constexpr,
    block_rows: tl.constexpr,
    block_heads: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    head = tl.arange(0, block_heads)
    inside = (row < rows)[:, None] & (head < heads)[None, :]
    cells = row[:, None] * heads + head[None, :]
    tl.store(
        lows + tl.program_id(0) * heads + head,
        tl.min(tl.load(density + cells, mask=inside, other=float("inf")), 0),
        mask=head < heads,
    )
    tl.store(
        highs + tl.program_id(0) * heads + head,
        tl.max(tl.load(density + cells, mask=inside, other=float("-inf")), 0),
        mask=head < heads,
    )


@_jit
def _scale_kernel(
    density: tl.tensor,
    lows: tl.tensor,
    highs: tl.tensor,
    peak: tl.tensor,
    scaled: tl.tensor,
    rows: int,
    blocks: int,
    tolerance: tl.constexpr,
    heads: tl.constexpr,
    block_rows: tl.constexpr,
    block_heads: tl.constexpr,
    block_blocks: tl.constexpr,
) -> None:
    head = tl.arange(0, block_heads)
    block = tl.arange(0, block_blocks)
    found = (block < blocks)[:, None] & (head < heads)[None, :]
    places = block[:, None] * heads + head[None, :]
    low = tl.min(tl.load(lows + places, mask=found, other=float("inf")), 0)
    high = tl.max(tl.load(highs + places, mask=found, other=float("-inf")), 0)
    span = high - low
    equal = span <= tolerance * tl.maximum(tl.abs(high), 1.0)
    most = tl.maximum(tl.load(peak + head, mask=head < heads, other=0.0), 0.0)
    row = tl.program_id(0).to(tl.int64) * block_rows + tl.arange(0, block_rows)
    inside = (row < rows)[:, None] & (head < heads)[None, :]
    cells = row[:, None] * heads + head[None, :]
    tile = tl.load(density + cells, mask=inside, other=0.0)
    result = (tile - low[None, :]) / tl.where(equal, 1.0, span)[None, :] * most[None, :]
    tl.store(scaled + cells, tl.where(equal[None, :], 0.0, result), mask=inside)


def scale_density(density: Tensor, peak: Tensor, tolerance: float) -> Tensor:
    """Scale densities (s, heads) to [0, peak] for each head; zero where they are equal."""
    density, peak = density.contiguous(), peak.contiguous()
    rows, heads = density.shape
    block_rows, block_heads = _rows_of_a_block(rows), _power_of_two(heads)
    blocks = -(-rows // block_rows)
    lows, highs = density.new_empty(blocks, heads), density.new_empty(blocks, heads)
    scaled = torch.empty_like(density)
    with torch.cuda.device_of(density):
        _extremes_kernel[(blocks,)](density, lows, highs, rows, heads, block_rows, block_heads)
        _scale_kernel[(-(-rows // _ROWS),)](
            density, lows, highs, peak, scaled, rows, blocks, tolerance, heads, _ROWS, block_heads,
            _power_of_two(blocks),
        )  # fmt: skip
    return scaled


@_jit
def _labelled_tile(
    logits: tl.tensor,
    nodes: tl.tensor,
    labels: tl.tensor,
    count: int,
    classes: tl.constexpr,
    block_rows: tl.constexpr,
    block_classes: tl.constexpr,
) -> tl.tensor:
    """Return where some labelled nodes' logits stand, which of them there are, and the logits and labels."""
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block_classes)
    node = tl.load(nodes + row, mask=row < count, other=0)
    label = tl.load(labels + row, mask=row < count, other=0)
    cells = node[:, None] * classes + column[None, :]
    inside = (row < count)[:, None] & (column < classes)[None, :]
    # Rows beyond the last hold zeros, so that no difference of infinities arises.
    missing = tl.where(row < count, float("-inf"), 0.0)
    tile = tl.where(inside, tl.load(logits + cells, mask=inside, other=0.0), missing[:, None])
    return cells, inside, tile, label


@_jit
def _score_kernel(
    logits: tl.tensor,
    nodes: tl.tensor,
    labels: tl.tensor,
    partial: tl.tensor,
    count: int,
    classes: tl.constexpr,
    block_rows: tl.constexpr,
    block_classes: tl.constexpr,
) -> None:
    _, inside, tile, label = _labelled_tile(logits, nodes, labels, count, classes, block_rows, block_classes)
    own = label[:, None] == tl.arange(0, block_classes)[None, :]
    top = tl.max(tile, 1)
    loss = tl.log(tl.sum(tl.exp(tile - top[:, None]), 1)) + top - tl.sum(tl.where(own, tile, 0.0), 1)
    present = tl.max(inside.to(tl.int32), 1)
    correct = (tl.argmax(tile, 1) == label).to(tl.int32) * present
    tl.store(partial + 2 * tl.program_id(0), tl.sum(tl.where(present != 0, loss, 0.0), 0))
    tl.store(partial + 2 * tl.program_id(0) + 1, tl.sum(correct, 0).to(partial.dtype.element_ty))


@_jit
def _score_gradient_kernel(
    logits: tl.tensor,
    nodes: tl.tensor,
    labels: tl.tensor,
    gradient: tl.tensor,
    count: int,
    classes: tl.constexpr,
    block_rows: tl.constexpr,
    block_classes: tl.constexpr,
) -> None:
    cells, inside, tile, label = _labelled_tile(
        logits, nodes, labels, count, classes, block_rows, block_classes
    )
    own = label[:, None] == tl.arange(0, block_classes)[None, :]
    weight = tl.exp(tile - tl.max(tile, 1)[:, None])
    weight = weight / tl.sum(weight, 1)[:, None] - tl.where(own, 1.0, 0.0)
    tl.store(gradient + cells, weight / count, mask=inside)


# Labelled nodes of a program.
_LABELLED = 64


def score(logits: Tensor, nodes: Tensor, labels: Tensor) -> Tensor:
    """Sum the cross-entropy and the correct predictions of blocks of labelled nodes, (blocks, 2)."""
    logits, classes = logits.contiguous(), logits.shape[1]
    partial = logits.new_empty(-(-len(nodes) // _LABELLED), 2)
    with torch.cuda.device_of(logits):
        _score_kernel[(len(partial),)](
            logits, nodes, labels, partial, len(nodes), classes, _LABELLED, _power_of_two(classes)
        )
    return partial


def score_gradient(logits: Tensor, nodes: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the mean cross-entropy at labelled nodes, the shape of the logits."""
    logits, classes = logits.contiguous(), logits.shape[1]
    gradient = torch.zeros_like(logits)
    with torch.cuda.device_of(logits):
        _score_gradient_kernel[(-(-len(nodes) // _LABELLED),)](
            logits, nodes, labels, gradient, len(nodes), classes, _LABELLED, _power_of_two(classes)
        )
    return gradient


@_jit
def _record_kernel(
    train: tl.tensor,
    validation: tl.tensor,
    history: tl.tensor,
    best_loss: tl.tensor,
    best_epoch: tl.tensor,
    last_epoch: tl.tensor,
    running: tl.tensor,
    better: tl.tensor,
    epoch: tl.tensor,
    train_blocks: int,
    validation_blocks: int,
    train_count: int,
    validation_count: int,
    patience: int,
    max_epochs: int,
    block: tl.constexpr,
) -> None:
    part = tl.arange(0, block)
    train_loss = tl.sum(tl.load(train + 2 * part, mask=part < train_blocks, other=0.0), 0) / train_count
    train_right = tl.sum(tl.load(train + 2 * part + 1, mask=part < train_blocks, other=0.0), 0) / train_count
    seen = part < validation_blocks
    loss = tl.sum(tl.load(validation + 2 * part, mask=seen, other=0.0), 0) / validation_count
    right = tl.sum(tl.load(validation + 2 * part + 1, mask=seen, other=0.0), 0) / validation_count
    now = tl.load(epoch)
    tl.store(history + 4 * now, train_loss)
    tl.store(history + 4 * now + 1, loss)
    tl.store(history + 4 * now + 2, train_right)
    tl.store(history + 4 * now + 3, right)
    on = tl.load(running) != 0
    finite = tl.abs(train_loss + loss) < float("inf")  # false for NaN too
    least = tl.load(best_loss)
    improved = on & finite & (loss < least)
    best = tl.where(improved, now, tl.load(best_epoch))
    tl.store(better, improved.to(tl.int32))
    tl.store(best_loss, tl.where(improved, loss, least))
    tl.store(best_epoch, best)
    tl.store(last_epoch, tl.where(on, now, tl.load(last_epoch)))
    tl.store(running, (on & finite & (now - best < patience) & (now < max_epochs)).to(tl.int32))


class Record:
    """What happened so far, on the device: losses, the best epoch, and whether the training goes on.

    Parameters
    ----------
    epoch, better : Tensor, ()
        Of `Adam`: read, and set.
    patience, max_epochs : int
        When to stop.
    rows : int
        Room for so many epochs.
    like : Tensor
        Of the precision of the losses.

    Attributes
    ----------
    history : Tensor, (rows, 4)
        Losses and accuracies of training and validation.
    running : Tensor of int32, ()
        1 until the last epoch.
    best_epoch, last_epoch : Tensor of int64, ()
        The epoch of the lowest validation loss, and the last one that counts.
    """

    def __init__(
        self, epoch: Tensor, better: Tensor, *, patience: int, max_epochs: int, rows: int, like: Tensor
    ):
        self.epoch, self.better, self.limits = epoch, better, (patience, max_epochs)
        self.history = like.new_zeros(rows, 4)
        self.best_loss = like.new_empty(())
        self.best_epoch, self.last_epoch = torch.zeros_like(epoch), torch.zeros_like(epoch)
        self.running = torch.ones_like(better)
        self.reset()

    def reset(self) -> None:
        """Return to the state before the first epoch."""
        self.best_loss.fill_(torch.inf)
        self.running.fill_(1)
        self.best_epoch.zero_()
        self.last_epoch.zero_()

    def add(self, train: Tensor, validation: Tensor, counts: tuple[int, int]) -> None:
        """Note an epoch from the partial sums that `score` gives for so many nodes."""
        block = _power_of_two(max(len(train), len(validation)))
        with torch.cuda.device_of(train):
            _record_kernel[(1,)](
                train, validation, self.history, self.best_loss, self.best_epoch, self.last_epoch,
                self.running, self.better, self.epoch, len(train), len(validation), *counts,
                *self.limits, block,
            )  # fmt: skip


@_jit
def _adam_kernel(
    weight: tl.tensor,
    gradient: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    best: tl.tensor,
    better: tl.tensor,
    epoch: tl.tensor,
    settings: tl.tensor,
    size: int,
    decay_every: int,
    block: tl.constexpr,
) -> None:
    first: tl.constexpr = 0.9
    second: tl.constexpr = 0.999
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < size
    w = tl.load(weight + place, mask=inside)
    tl.store(best + place, w, mask=place < size * tl.load(better))
    g = tl.load(gradient + place, mask=inside) + tl.load(settings + 2).to(w.dtype) * w
    m = tl.load(mean + place, mask=inside) * first + (1 - first) * g
    v = tl.load(square + place, mask=inside) * second + (1 - second) * g * g
    tl.store(mean + place, m, mask=inside)
    tl.store(square + place, v, mask=inside)
    # In double precision: 1 − 0.999 would lose half its digits in single.
    past = tl.load(epoch)
    step = (past + 1).to(tl.float64)
    lowered = tl.load(settings) * tl.exp2((past // decay_every).to(tl.float64) * tl.load(settings + 1))
    factor = lowered / (1 - tl.exp2(step * tl.load(settings + 3)))
    root = tl.sqrt(1 - tl.exp2(step * tl.load(settings + 4)))
    update = factor.to(w.dtype) * m / (tl.sqrt(v) / root.to(w.dtype) + 1e-8)
    tl.store(weight + place, w - update, mask=inside)


class Adam:
    """Adam (Kingma and Ba, 2015) with a rate that falls in steps, and a copy of the weights kept on demand.

    All of its state is on the device, the number of updates too, so that a CUDA graph can hold a step.

    Parameters
    ----------
    weights : list of Tensor
        With gradients when a step is taken.
    rate, decay, decay_every : float, float, int
        The rate is multiplied by ``decay`` after every ``decay_every`` steps.
    weight_decay : float
        L2 penalty.

    Attributes
    ----------
    epoch : Tensor of int64, ()
        Steps taken.
    better : Tensor of int32, ()
        Whether (1) or not (0) the next step copies the weights to ``best`` before it changes them.
    best : list of Tensor
        The copies.
    """

    def __init__(
        self, weights: list[Tensor], *, rate: float, decay: float, decay_every: int, weight_decay: float
    ):
        self.weights = weights
        self.decay_every = decay_every
        # On the device, and not compiled in: a search over settings must not compile a kernel for each.
        numbers = [rate, math.log2(decay), weight_decay, math.log2(0.9), math.log2(0.999)]
        self.settings = torch.tensor(numbers, dtype=torch.float64, device=weights[0].device)
        self.means, self.squares, self.best = ([torch.zeros_like(each) for each in weights] for _ in range(3))
        self.epoch = torch.zeros((), dtype=torch.int64, device=weights[0].device)
        self.better = torch.zeros((), dtype=torch.int32, device=weights[0].device)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for weight in self.weights:
            weight.grad = None

    def step(self) -> None:
        """Update all weights."""
        for weight, mean, square, best in zip(self.weights, self.means, self.squares, self.best, strict=True):
            if weight.grad is None:
                continue
            size = weight.numel()
            with torch.cuda.device_of(weight):
                _adam_kernel[(-(-size // 1024),)](
                    weight, weight.grad.contiguous(), mean, square, best, self.better, self.epoch,
                    self.settings, size, self.decay_every, 1024,
                )  # fmt: skip
        self.epoch += 1

    def reset(self) -> None:
        """Return to the state before the first step; the weights stay."""
        for state in (*self.means, *self.squares, self.epoch, self.better):
            state.zero_()
