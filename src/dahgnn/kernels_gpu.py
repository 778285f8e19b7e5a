"""The GPU kernels as `ops` and `attention` see them: the twins of `kernels_cpu` and of the reference."""

from __future__ import annotations

from dahgnn.kernels_backward import messages_backward
from dahgnn.kernels_forward import messages_forward
from dahgnn.kernels_rows import gather_sum, grouped_product, grouped_product_backward
from dahgnn.kernels_triton import supports

__all__ = [
    "gather_sum",
    "grouped_product",
    "grouped_product_backward",
    "messages_backward",
    "messages_forward",
    "supports",
]
