"""Launch the GPU kernels of the training loop, in Triton: the loss, the record of the epochs, and Adam.

All state is on the device and nothing waits for the host, so that a CUDA graph can hold an epoch.
"""

from __future__ import annotations

import contextlib
import math

import torch
from torch import Tensor

from dahgnn.kernels_gpu import jit, power_of_two

with contextlib.suppress(ImportError):
    import triton.language as tl

# Labelled nodes of a program.
_LABELLED = 64


@jit
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


@jit
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


@jit
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


def score(logits: Tensor, nodes: Tensor, labels: Tensor) -> Tensor:
    """Sum the cross-entropy and the correct predictions of blocks of labelled nodes, (blocks, 2)."""
    logits, classes = logits.contiguous(), logits.shape[1]
    partial = logits.new_empty(-(-len(nodes) // _LABELLED), 2)
    with torch.cuda.device_of(logits):
        _score_kernel[(len(partial),)](
            logits, nodes, labels, partial, len(nodes), classes, _LABELLED, power_of_two(classes)
        )
    return partial


def score_gradient(logits: Tensor, nodes: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the mean cross-entropy at labelled nodes, the shape of the logits."""
    logits, classes = logits.contiguous(), logits.shape[1]
    gradient = torch.zeros_like(logits)
    with torch.cuda.device_of(logits):
        _score_gradient_kernel[(-(-len(nodes) // _LABELLED),)](
            logits, nodes, labels, gradient, len(nodes), classes, _LABELLED, power_of_two(classes)
        )
    return gradient


@jit
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
        block = power_of_two(max(len(train), len(validation)))
        with torch.cuda.device_of(train):
            _record_kernel[(1,)](
                train, validation, self.history, self.best_loss, self.best_epoch, self.last_epoch,
                self.running, self.better, self.epoch, len(train), len(validation), *counts,
                *self.limits, block,
            )  # fmt: skip


@jit
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
