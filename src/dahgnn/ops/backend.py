"""The one place that picks what computes: a compiled kernel, or plain PyTorch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from torch import Tensor, float32

from dahgnn.checks import check_choice
from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.kernels.gpu import launch as gpu_kernels
from dahgnn.kernels.protocol import Forest, Kernels

logger = logging.getLogger(__name__)

BACKENDS = ("auto", "reference", "kernel")

# In the order in which they are asked whether they support a tensor.
_KERNELS: tuple[Kernels, ...] = (cpu_kernels, gpu_kernels)

_backend: ContextVar[str] = ContextVar("backend", default="auto")


@contextmanager
def using(backend: str) -> Iterator[None]:
    """Choose what computes within the block.

    Parameters
    ----------
    backend : {"auto", "reference", "kernel"}
        "auto" takes a compiled kernel where there is one and plain PyTorch elsewhere. "reference" always
        takes plain PyTorch. "kernel" fails where there is no kernel.

    Examples
    --------
    >>> import torch
    >>> with using("reference"):
    ...     kernels_for(torch.ones(1)) is None
    True
    """
    check_choice("backend", backend, BACKENDS, "using")
    token = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(token)


def kernels_for(tensor: Tensor, backend: str | None = None) -> Kernels | None:
    """Return the kernels for such tensors, or None where the reference computes; see `using`."""
    chosen = _backend.get() if backend is None else backend
    check_choice("backend", chosen, BACKENDS, "ops")
    if chosen == "reference":
        return None
    for kernels in _KERNELS:
        if kernels.supports(tensor):
            return kernels
    if chosen == "kernel":
        raise ValueError(f"There must be a kernel for {tensor.dtype} on {tensor.device}. Got none.")
    if tensor.device.type == "cpu" and cpu_kernels.library() is None:
        _say_slow()
    return None


def product_kernel_for(matrix: Tensor, columns: int) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the kernel for products of this matrix with so many columns, or None where torch is faster."""
    if kernels_for(matrix) is cpu_kernels and cpu_kernels.supports_product(matrix, columns):
        return cpu_kernels.product
    return None


def wide_product_kernel_for(rows: Tensor) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the kernel for products of these rows with multiples of 32 columns, however many.

    It is None where torch's own are taken for faster: where vectors are short.
    """
    kernel = product_kernel_for(rows, 32)
    return kernel if kernel is not None and cpu_kernels.has_long_vectors() else None


def distances_kernel_for(points: Tensor) -> Callable[[Tensor, Tensor, Tensor, float], Tensor] | None:
    """Return the kernel for distances of pairs of these points, or None where plain PyTorch measures them."""
    return cpu_kernels.squared_distances if kernels_for(points) is cpu_kernels else None


def hashes_kernel_for(rows: Tensor) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the kernel that gives these rows their numbers, or None where NumPy does."""
    return cpu_kernels.row_hashes if kernels_for(rows) is cpu_kernels else None


def trees_kernel_for(rows: Tensor) -> Callable[[Tensor, Forest], Tensor] | None:
    """Return the kernel that takes these rows through trees, or None where plain PyTorch does."""
    return cpu_kernels.tree_means if rows.dtype == float32 and kernels_for(rows) is cpu_kernels else None


def lowest_kernel_for(
    rows: Tensor,
) -> Callable[[Tensor, Tensor, int, int, Tensor | None], tuple[Tensor, Tensor]] | None:
    """Return the kernel for the lowest products of rows of bfloat16, or None where plain PyTorch does it."""
    return cpu_kernels.lowest_products if kernels_for(rows.new_empty(0).float()) is cpu_kernels else None


def multiplies_pairs(tensor: Tensor) -> bool:
    """Tell whether a kernel where a tensor is has an instruction for products of bfloat16."""
    return kernels_for(tensor) is cpu_kernels and cpu_kernels.multiplies_pairs()


def compiled_for_cpu(tensor: Tensor, backend: str | None = None) -> bool:
    """Tell whether the compiled kernels of the CPU compute with such tensors; see `using`."""
    return kernels_for(tensor, backend) is cpu_kernels


def has_gpu_kernels(tensor: Tensor) -> bool:
    """Tell whether a CUDA device computes with such tensors by kernels, which a CUDA graph can hold."""
    return tensor.is_cuda and gpu_kernels.supports(tensor)


@cache
def _say_slow() -> None:
    logger.warning(
        "The compiled kernels are not there, so plain PyTorch computes, slower. Is there a C++ compiler?"
    )
