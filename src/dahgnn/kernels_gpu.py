"""The GPU kernels that `ops` and `attention` know, in Triton: the twins of `kernels_cpu` and of the reference."""

from __future__ import annotations

from dahgnn.kernels_backward import messages_backward
from dahgnn.kernels_forward import messages_forward
from dahgnn.kernels_rows import gather_sum, grouped_product, grouped_product_backward
from dahgnn.kernels_triton import jit, power_of_two, supports, triton

__all__ = [
    "gather_sum",
    "grouped_product",
    "grouped_product_backward",
    "jit",
    "messages_backward",
    "messages_forward",
    "power_of_two",
    "supports",
    "triton",
]
