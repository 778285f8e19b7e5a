"""Costs as powers of the number of rows, from measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# The number of rows in which constants are given.
MILLION = 1_000_000


@dataclass(frozen=True)
class PowerLaw:
    """A cost of so many seconds for a million rows, which grows as a power of their number.

    Attributes
    ----------
    at_a_million : float
        Seconds for a million rows.
    exponent : float
        1 is linear.
    measured : tuple of int
        The sizes behind it.
    """

    at_a_million: float
    exponent: float
    measured: tuple[int, ...]

    def at(self, n: float) -> float:
        """Return the seconds for n rows.

        Examples
        --------
        >>> PowerLaw(2.0, 1.5, (1000, 2000)).at(4_000_000)
        16.0
        """
        return float(self.at_a_million * (n / MILLION) ** self.exponent)


def fit_power(
    sizes: Sequence[int], seconds: Sequence[float], exponent: float = 1.0, least: float | None = None
) -> PowerLaw:
    """Fit a straight line through logarithms, by least squares.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of rows; several measurements may have the same.
    seconds : sequence of float
        What they took.
    exponent : float
        What is assumed where all sizes are the same.
    least : float, optional
        The least exponent. What a small table costs in any case makes costs seem to grow slower than they
        do. Where the fit has a lower one, this takes its place, from the largest size on.

    Raises
    ------
    ValueError
        If there is nothing to fit to.

    Examples
    --------
    >>> law = fit_power([1000, 10_000, 100_000], [0.1, 1.0, 10.0])
    >>> round(law.exponent, 6), round(law.at(1_000_000), 6)
    (1.0, 100.0)
    """
    if not sizes or len(sizes) != len(seconds) or min(*sizes, *seconds) <= 0:
        raise ValueError(
            f"There must be seconds for each of some sizes, all positive. Got {sizes}, {seconds}."
        )
    across = np.log(np.asarray(sizes, dtype=float) / MILLION)
    up = np.log(np.asarray(seconds, dtype=float))
    if np.ptp(across) > 0:
        exponent = float(
            ((across - across.mean()) * (up - up.mean())).sum() / np.square(across - across.mean()).sum()
        )
    if least is not None and exponent < least:
        exponent, largest = least, across == across.max()
        across, up = across[largest], up[largest]
    constant = math.exp(up.mean() - exponent * across.mean())
    return PowerLaw(constant, exponent, tuple(sorted(set(sizes))))
