"""Dropout whose mask follows from seed, epoch, site and place: equal on every device, and never stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dahgnn.kernels.protocol import Mask
from dahgnn.ops.backend import has_gpu_kernels, kernels_for

__all__ = ["CounterDropout", "Mask", "drop_units", "keeps", "philox"]

# Units that share a draw of 128 bits; each gets 16 of them.
_UNITS_A_DRAW = 8
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class CounterDropout:
    """Drops units of some runs, as their seeds and epochs decide.

    Attributes
    ----------
    seeds, epochs : Tensor of int64, (r,)
        See `Mask`.
    numbers : tuple of Tensor of int64, or None
        The numbers of the rows at each site, see there; None if they are all.
    """

    seeds: Tensor
    epochs: Tensor
    numbers: tuple[Tensor, ...] | None = None

    def __call__(self, values: Tensor, rate: float, site: int) -> Tensor:
        """Return values (n, r, units) without the units that fall at this site."""
        return drop_units(values, self.mask(rate, site))

    def mask(self, rate: float, site: int) -> Mask:
        """Return what decides at a site."""
        numbers = None if self.numbers is None else self.numbers[site]
        return Mask(self.seeds, self.epochs, site, rate, numbers)


def drop_units(values: Tensor, mask: Mask) -> Tensor:
    """Return values (n, r, units) without the units that fall; the others grow to make up."""
    return cast(Tensor, _Dropout.apply(values, mask))


class _Dropout(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Mask) -> Tensor:
        ctx.mask = mask
        return _apply(values, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _apply(gradient, ctx.mask), None


def _apply(values: Tensor, mask: Mask) -> Tensor:
    if mask.rate == 1:
        return torch.zeros_like(values)
    kernels = kernels_for(values)
    if kernels is not None and (mask.numbers is None or has_gpu_kernels(values)):
        return kernels.dropout(values, *mask)
    return torch.where(keeps(mask, values.shape[0], values.shape[2]), values / (1 - mask.rate), 0.0)


def keeps(mask: Mask, rows: int, units: int) -> Tensor:
    """Return which units stay, (rows, r, units): the plain twin of the kernels.

    The generator is Philox (Salmon et al., 2011). Its counter is the place of eight units, the number of
    epochs so far and the site; its key is the seed.
    """
    numbers = torch.arange(rows, device=mask.seeds.device) if mask.numbers is None else mask.numbers
    places = numbers * units
    # A row begins within a draw unless its units come in eights.
    draws = -(-units // _UNITS_A_DRAW) + (units % _UNITS_A_DRAW > 0)
    counter = (places // _UNITS_A_DRAW).unsqueeze(1) + torch.arange(draws, device=places.device)
    within = (places % _UNITS_A_DRAW).unsqueeze(1) + torch.arange(units, device=places.device)
    bits = []
    for seed, epoch in zip(mask.seeds.tolist(), mask.epochs.tolist(), strict=True):
        words = philox(counter.flatten(), epoch + 1, mask.site, seed)  # (rows · draws, 4)
        halves = torch.stack((words & 0xFFFF, words >> 16), 2).view(rows, draws * _UNITS_A_DRAW)
        bits.append(halves.gather(1, within))
    return torch.stack(bits, 1) >= mask.rate * 65536


def philox(counter: Tensor, epoch: int, site: int, seed: int) -> Tensor:
    """Return four words of 32 bits for each counter, (draws, 4), by ten rounds of Philox."""
    words = [counter & _WORD, counter >> 32, torch.full_like(counter, epoch), torch.full_like(counter, site)]
    keys = [seed & _WORD, seed >> 32 & _WORD]
    for _ in range(10):
        (high0, low0), (high2, low2) = _multiply(words[0], 0xD2511F53), _multiply(words[2], 0xCD9E8D57)
        words = [high2 ^ words[1] ^ keys[0], low2, high0 ^ words[3] ^ keys[1], low0]
        keys = [(keys[0] + 0x9E3779B9) & _WORD, (keys[1] + 0xBB67AE85) & _WORD]
    return torch.stack(words, 1)


def _multiply(word: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Return the upper and the lower 32 bits of a product, without a number beyond 63 bits on the way."""
    low = (word & 0xFFFF) * factor
    middle = (word >> 16) * factor + (low >> 16)
    return middle >> 16, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)
