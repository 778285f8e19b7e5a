"""The lowest products of rows with many points, which is what a search needs of a product of matrices.

Numbers are of bfloat16, which some processors multiply several times as fast as those of single precision.
The products are added up in single precision.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dahgnn.ops.backend import lowest_kernel_for

# Points that the kernel goes through side by side.
_PANEL = 32


def pack_points(points: Tensor) -> Tensor:
    """Arrange points for `lowest_products`: two numbers a word, and words of 32 points side by side.

    Parameters
    ----------
    points : Tensor of bfloat16, (n, width)
        The width is even.

    Returns
    -------
    Tensor of int32, (⌈n / 32⌉, width / 2, 32)
    """
    words = points.contiguous().view(torch.int32)
    missing = -len(words) % _PANEL
    if missing:
        words = torch.cat([words, words.new_zeros(missing, words.shape[1])])
    return words.view(-1, _PANEL, words.shape[1]).transpose(1, 2).contiguous()


def lowest_products(
    rows: Tensor, panels: Tensor, n_points: int, length: int, left_out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """List the points with which each row has the lowest scalar products, the lowest first.

    Parameters
    ----------
    rows : Tensor of bfloat16, (q, width)
        The width is even.
    panels : Tensor of int32
        What `pack_points` gave for the points.
    n_points : int
        How many of them there are, fewer than 2³².
    length : int
        How many to list, at most as many as there are to choose from.
    left_out : Tensor of int64, (q,), optional
        A point that the row does not list; a number of no point leaves out none.

    Returns
    -------
    products, points : Tensor of float32, Tensor of int64, (q, length)
    """
    kernel = lowest_kernel_for(rows)
    if kernel is not None:
        return kernel(rows, panels, n_points, length, left_out)
    words = panels.transpose(1, 2).contiguous().view(-1, rows.shape[1] // 2)
    points = words[:n_points].view(torch.bfloat16)
    products = rows.float() @ points.float().T
    if left_out is not None:
        which = ((left_out >= 0) & (left_out < n_points)).nonzero().squeeze(1)
        products[which, left_out[which]] = torch.inf
    values, order = products.sort(dim=1, stable=True)
    return values[:, :length].contiguous(), order[:, :length].contiguous()
