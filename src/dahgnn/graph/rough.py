"""Lower bounds of distances from products of bfloat16, for a first look at who may be a neighbour.

Some processors multiply these numbers several times as fast as those of single precision. What rounding took
from a row is known, so that the bounds hold all the same; they are a little lower.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dahgnn.ops.lowest import lowest_products, pack_points

# The share t of the squared distance that a bound gives away for what rounding took, see `RoughBounds`.
_SHARE = 2.0**-8
# Numbers of the points that go through several steps at a time: few enough to stay in a cache.
_NUMBERS = 1 << 19
# Rows of which a centre is made.
_SAMPLE = 1000
# More than processors take for zero, and what products with it are at the most.
_TINY = 16 * torch.finfo(torch.float32).tiny


class RoughBounds:
    """Lower bounds of the squared distances between points and their lowest ones among the first points.

    Let x be a point, scaled by a power of two and around a centre, y its numbers in bfloat16 and e = ‖x − y‖
    what rounding took. For s = ‖y_i − y_j‖ the distance is at least s − e_i − e_j. As 2 s e ≤ t s² + e²/t for
    all t > 0, its square is at least

        (1 − t) (s² − (e_i + e_j)²/t) ≥ (1 − t) (p_i + p_j − 2 y_i·y_j),  p = ‖y‖² − 2e²/t.

    What follows 1 − t is one inner product, (1, p_i, −2y_i)·(p_j, 1, y_j), in which p is the sum of three
    numbers of bfloat16. Products of such numbers are exact in single precision. Their sum is off, in any
    order, by less than 2 (d + 9) u (‖y_i‖² + ‖y_j‖²), with u its unit roundoff. Three times as much as that
    is taken from p, which covers the error of ‖y‖² itself, and processors that round sums to zero.

    Parameters
    ----------
    points : Tensor, (n, d)
        All points, on the CPU.
    among : int
        How many of them, from the first on, are searched.
    scale : float
        A power of two that all points are multiplied with, see `dahgnn.graph.exact.exact_scale`.
    """

    def __init__(self, points: Tensor, among: int, scale: float) -> None:
        self.among = among
        columns, centre, reach = _spread(points)
        self._shrink = 2.0 ** -math.frexp(reach * scale)[1] if reach > 0 else 1.0
        self._rows = _in_pairs(points, columns, centre, scale * self._shrink)
        self._panels = pack_points(self._rows[:among])

    def lowest(self, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Return the lowest bounds of some rows, in float64, and whose they are: two times (b, length).

        No row is listed as its own neighbour. Whoever is not listed has no lower bound than the last.
        """
        right = self._rows[rows]
        left = -2 * right
        left[:, :3], left[:, 3:6] = right[:, 3:6], right[:, :3]
        values, points = lowest_products(left, self._panels, self.among, length, rows)
        return values.double() * ((1 - _SHARE) / self._shrink**2), points


def _spread(points: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return the columns that differ, a centre of each, and how far from it points are at the most."""
    low, high = points.amin(0), points.amax(0)
    # Columns that are the same everywhere, such as the margins of images, are part of no distance.
    columns = (high > low).nonzero().squeeze(1)
    # Distances see no centre, rounding does. So it need not be the mean, only near it.
    some = points[:: 1 + len(points) // _SAMPLE][:, columns]
    centre = some.double().mean(0).to(points.dtype)
    farthest = torch.maximum(high[columns].double() - centre, centre - low[columns].double())
    return columns, centre, float(farthest.max()) if len(columns) else 0.0


def _in_pairs(points: Tensor, columns: Tensor, centre: Tensor, factor: float) -> Tensor:
    """Return rows of (p, 1, y), see `RoughBounds`, p and 1 three times; their width is even."""
    d = len(columns)
    rows = torch.zeros((len(points), d + 6 + d % 2), dtype=torch.bfloat16)
    rows[:, 3:6] = 1
    step = max(1, _NUMBERS // max(1, d))
    for some, to in zip(points.split(step), rows.split(step), strict=True):
        exact = some.index_select(1, columns).mul_(factor).sub_(centre * factor)
        to[:, 6 : 6 + d] = exact
        rounded = to[:, 6 : 6 + d].to(exact.dtype)
        squares = _square_lengths(rounded)
        lost = _square_lengths(exact.sub_(rounded)).sqrt()
        # Both lengths are rounded, too, and so is the difference from the centre.
        lost = 1.001 * lost + torch.finfo(exact.dtype).eps * (squares.sqrt() + lost) + _TINY
        slack = 3 * (d + 16) * torch.finfo(torch.float32).eps
        rest = squares * (1 - slack) - (2 / _SHARE) * lost**2 - d * _TINY
        for part in range(3):
            to[:, part] = rest
            rest = rest - to[:, part].double()
    return rows


def _square_lengths(rows: Tensor) -> Tensor:
    """Return the squared length of each row, in float64."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return lengths.double() ** 2
