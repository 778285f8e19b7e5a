"""Launch the compiled CPU kernels: fused attention and density, the twins of the reference in `ops`."""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_SUFFIXES = {torch.float32: "float32", torch.float64: "float64"}


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled library, or None if it was not built or does not load."""
    for ending in importlib.machinery.EXTENSION_SUFFIXES:
        path = Path(__file__).with_name("_kernels_cpu" + ending)
        if path.exists():
            try:
                # At once, so that a missing OpenMP shows here and not in the middle of a fit.
                return ctypes.CDLL(str(path), mode=os.RTLD_NOW)
            except OSError:
                return None
    return None


def supports(tensor: Tensor) -> bool:
    """Tell whether there is a kernel for tensors of this device and precision."""
    return tensor.device.type == "cpu" and tensor.dtype in _SUFFIXES and library() is not None


def _call(name: str, dtype: torch.dtype, *arguments: Tensor | int | float | None) -> None:
    """Call a kernel; tensors go as their addresses, which are of contiguous memory."""
    function = getattr(library(), f"dahgnn_{name}_{_SUFFIXES[dtype]}")
    words: list[object] = [ctypes.c_int(torch.get_num_threads())]
    for argument in arguments:
        if isinstance(argument, Tensor):
            words.append(ctypes.c_void_p(argument.data_ptr()))
        elif argument is None:
            words.append(ctypes.c_void_p(None))
        elif isinstance(argument, bool):
            words.append(ctypes.c_int(argument))
        elif isinstance(argument, int):
            words.append(ctypes.c_int64(argument))
        else:
            words.append(ctypes.c_double(argument))
    function(*words)


def attention_forward(
    values: Tensor,
    source: Tensor,
    target: Tensor,
    bias: Tensor | None,
    offsets: Tensor,
    indices: Tensor,
    *,
    slope: float,
    activation: bool,
) -> tuple[Tensor, Tensor]:
    """Return the weighted sums (targets, heads, units) and their coefficients (t, heads)."""
    values, source, target = values.contiguous(), source.contiguous(), target.contiguous()
    bias = None if bias is None else bias.contiguous()
    targets, heads, units = len(offsets) - 1, *values.shape[1:]
    coefficients = values.new_empty(len(indices), heads)
    output = values.new_empty(targets, heads, units)
    _call(
        "attention_forward", values.dtype, targets, heads, units, activation, slope,
        offsets, indices, source, target, bias, values, coefficients, output,
    )  # fmt: skip
    return output, coefficients


def attention_backward(
    gradient: Tensor,
    values: Tensor,
    source: Tensor,
    target: Tensor,
    coefficients: Tensor,
    output: Tensor,
    forward: tuple[Tensor, Tensor],
    backward: tuple[Tensor, Tensor],
    positions: Tensor,
    *,
    slope: float,
    activation: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of values, source and target."""
    gradient, values = gradient.contiguous(), values.contiguous()
    source, target = source.contiguous(), target.contiguous()
    targets, sources, heads, units = len(target), *values.shape
    rows, scores = torch.empty_like(output), torch.empty_like(coefficients)
    source_gradient, target_gradient = torch.empty_like(source), torch.empty_like(target)
    value_gradient = torch.empty_like(values)
    _call(
        "attention_backward", values.dtype, targets, sources, heads, units, activation, slope,
        *forward, *backward, positions, source, target, values, coefficients, output, gradient,
        rows, scores, source_gradient, target_gradient, value_gradient,
    )  # fmt: skip
    return value_gradient, source_gradient, target_gradient


def attention_peak(source: Tensor, target: Tensor, offsets: Tensor, indices: Tensor, slope: float) -> Tensor:
    """Return the greatest score of all incidences, (heads,)."""
    source, target = source.contiguous(), target.contiguous()
    targets, heads = target.shape
    peak = source.new_empty(heads)
    _call("attention_peak", source.dtype, targets, heads, slope, offsets, indices, source, target, peak)
    return peak


def similarity_sum(directions: Tensor, delta: float, offsets: Tensor, indices: Tensor) -> Tensor:
    """Return each node's similarities to its neighbours over ``delta``, summed: (n, heads)."""
    directions = directions.contiguous()
    sums = directions.new_empty(directions.shape[:2])
    _call(
        "similarity_sum",
        directions.dtype,
        *directions.shape,
        float(delta),
        offsets,
        indices,
        directions,
        sums,
    )
    return sums


def supports_product(matrix: Tensor, columns: int) -> bool:
    """Tell whether `product` beats torch's: for single precision and four heads of eight units."""
    return supports(matrix) and matrix.dtype == torch.float32 and columns == 32 and matrix.shape[1] > 0


def product(matrix: Tensor, weight: Tensor) -> Tensor:
    """Return the product of a contiguous matrix (n, d) with a weight (d, 32)."""
    weight = weight.contiguous()
    result = weight.new_empty(len(matrix), weight.shape[1])
    _call("product", matrix.dtype, *matrix.shape, matrix, weight, result)
    return result


def head_products(values: Tensor, vectors: Tensor) -> Tensor:
    """Multiply rows (n, heads, units) with vectors (v, heads, units) of their heads: (v, n, heads)."""
    values, vectors = values.contiguous(), vectors.contiguous()
    products = values.new_empty(len(vectors), *values.shape[:2])
    _call("head_products", values.dtype, *values.shape, len(vectors), values, vectors, products)
    return products


def head_products_backward(gradient: Tensor, values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of values and of vectors."""
    gradient, values, vectors = gradient.contiguous(), values.contiguous(), vectors.contiguous()
    value_gradient, vector_gradient = torch.empty_like(values), torch.empty_like(vectors)
    _call(
        "head_products_backward", values.dtype, *values.shape, len(vectors),
        gradient, values, vectors, value_gradient, vector_gradient,
    )  # fmt: skip
    return value_gradient, vector_gradient
