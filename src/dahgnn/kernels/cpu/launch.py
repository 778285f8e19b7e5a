"""Launch the compiled CPU kernels; this module fulfils the protocol `Kernels`, described there."""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dahgnn.kernels.cpu.memory import new_tensor
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import Forest, Mask, MessageSettings, Places, Vectors

_SUFFIXES = {torch.float32: "float32", torch.float64: "float64"}


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled library, or None if it was not built or does not load."""
    # It depends on no version of Python, and its name says so; one that names a version is of an older build.
    for ending in reversed(importlib.machinery.EXTENSION_SUFFIXES):
        path = Path(__file__).with_name("_kernels" + ending)
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


def _loaded() -> ctypes.CDLL:
    loaded = library()
    if loaded is None:
        raise RuntimeError("A kernel was called although `supports` says that there is none.")
    return loaded


@cache
def _function(name: str, dtype: torch.dtype, kinds: tuple[type, ...]) -> Callable[..., None]:
    """Find a kernel and tell ctypes what it takes: the number of threads, then arguments of such types."""
    words: dict[type, Any] = {int: ctypes.c_int64, float: ctypes.c_double, bool: ctypes.c_int}
    function = _loaded()[f"dahgnn_{name}_{_SUFFIXES[dtype]}"]
    function.argtypes = [ctypes.c_int, *(words.get(kind, ctypes.c_void_p) for kind in kinds)]
    function.restype = None
    return function


def _call(name: str, dtype: torch.dtype, *arguments: Tensor | float | None) -> None:
    """Call a kernel; tensors go as their addresses, which are of contiguous memory."""
    kinds = tuple(map(type, arguments))
    addresses = (each.data_ptr() if isinstance(each, Tensor) else each for each in arguments)
    _function(name, dtype, kinds)(torch.get_num_threads(), *addresses)


def gather_sum(
    values: Tensor, forward: Segments, source_scale: Tensor | None, target_scale: Tensor | None
) -> Tensor:
    """Sum the scaled sources of each segment, then scale the sums: (s, width) → (targets, width)."""
    values = values.contiguous()
    sums = new_tensor(values, len(forward), values.shape[1])
    _call(
        "gather_sum", values.dtype, *sums.shape, forward.offsets, forward.indices,
        _contiguous(source_scale), _contiguous(target_scale), values, sums,
    )  # fmt: skip
    return sums


def grouped_product(rows: Tensor, weights: Tensor) -> Tensor:
    """Multiply each group's part of a row with the group's matrix: (n, g, i), (g, i, o) → (n, g, o)."""
    rows, weights = rows.contiguous(), weights.contiguous()
    products = new_tensor(rows, *rows.shape[:2], weights.shape[2])
    _call("grouped_product", rows.dtype, len(rows), *weights.shape, rows, weights, products)
    return products


def grouped_product_backward(gradient: Tensor, rows: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of rows and of weights."""
    gradient, rows, weights = gradient.contiguous(), rows.contiguous(), weights.contiguous()
    rows_gradient, weights_gradient = new_tensor(rows, *rows.shape), torch.empty_like(weights)
    _call(
        "grouped_product_backward", rows.dtype, len(rows), *weights.shape, gradient, rows, weights,
        rows_gradient, weights_gradient,
    )  # fmt: skip
    return rows_gradient, weights_gradient


def supports_product(matrix: Tensor, columns: int) -> bool:
    """Tell whether `product` beats torch's: for single precision and fours of heads with eight units."""
    small = columns % 32 == 0 and columns > 0 and matrix.shape[1] > 0
    return small and matrix.dtype == torch.float32 and supports(matrix)


def has_long_vectors() -> bool:
    """Tell whether the kernels compute with vectors of 512 bits."""
    return bool(_loaded().dahgnn_level(-1) == 2)


def product(matrix: Tensor, weight: Tensor) -> Tensor:
    """Return the product of a contiguous matrix (n, d) with a weight (d, columns)."""
    weight = weight.contiguous()
    result = new_tensor(weight, len(matrix), weight.shape[1])
    _call("product", matrix.dtype, *matrix.shape, weight.shape[1], matrix, weight, result)
    return result


def dropout(
    values: Tensor, seeds: Tensor, epochs: Tensor, site: int, rate: float, numbers: Tensor | None = None
) -> Tensor:
    """Drop units of values (n, r, units); see `Kernels.dropout`."""
    assert numbers is None  # noqa: S101, see there
    values = values.contiguous()
    result = new_tensor(values, *values.shape)
    seeds, epochs = seeds.contiguous(), epochs.contiguous()
    _call("dropout", values.dtype, *values.shape, seeds, epochs, site, float(rate), values, result)
    return result


def squared_distances(points: Tensor, here: Tensor, there: Tensor, scale: float) -> Tensor:
    """Return squared distances of pairs of points (n, d) in float64; here and there are (p,)."""
    points, here, there = points.contiguous(), here.contiguous(), there.contiguous()
    squares = points.new_empty(len(here), dtype=torch.float64)
    _call(
        "squared_distances", points.dtype, len(here), points.shape[1], points, here, there, float(scale),
        squares,
    )  # fmt: skip
    return squares


def row_hashes(rows: Tensor, factors: Tensor) -> Tensor:
    """Return a number for each row (n, d), given a factor for each column; see `dahgnn.ops.hashes`."""
    rows, hashes = rows.contiguous(), torch.empty(len(rows), dtype=torch.int64)
    _call("row_hashes", rows.dtype, *rows.shape, rows, factors.contiguous(), hashes)
    return hashes


def tree_means(rows: Tensor, forest: Forest) -> Tensor:
    """Return the mean of the leaves that rows (n, d) of float32 come to, (n, parts, c) of float64."""
    rows, classes = rows.contiguous(), forest.distributions.shape[1]
    means = rows.new_empty((len(rows), len(forest.roots), classes), dtype=torch.float64)
    _call(
        "tree_means", torch.float32, *rows.shape, len(forest.columns), *forest.roots.shape, classes,
        *(each.contiguous() for each in forest), rows, means,
    )  # fmt: skip
    return means


def multiplies_pairs() -> bool:
    """Tell whether the processor has an instruction for products of bfloat16."""
    return bool(_loaded().dahgnn_multiplies_pairs())


def lowest_products(
    rows: Tensor, panels: Tensor, n_points: int, length: int, left_out: Tensor | None
) -> tuple[Tensor, Tensor]:
    """List the lowest products of rows with points; see `dahgnn.ops.lowest`."""
    rows, panels = rows.contiguous(), panels.contiguous()
    products = torch.empty(len(rows), length)
    points = torch.empty(len(rows), length, dtype=torch.int64)
    _call(
        "lowest_products", torch.float32, len(rows), length, panels.shape[1], n_points, rows, panels,
        _contiguous(left_out), products, points,
    )  # fmt: skip
    return products, points


def sparse_product(offsets: Tensor, columns: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    """Multiply a sparse matrix, in rows of int32 places and weights (t,), with values (n, width)."""
    values = values.contiguous()
    products = new_tensor(values, len(offsets) - 1, values.shape[1])
    _call("sparse_product", values.dtype, *products.shape, offsets, columns, weights, values, products)
    return products


def activated_product(
    rows: Tensor, weights: Tensor, activation: bool, mask: Mask | None, chosen: Tensor | None
) -> Tensor:
    """Multiply rows (n, g, i), behind ELU and dropout, with the matrices (g, i, o) of their groups.

    Parameters
    ----------
    rows, weights : Tensor, (n, g, i), (g, i, o)
        See `grouped_product`.
    activation : bool
        Whether the rows pass an ELU.
    mask : Mask or None
        What decides which units fall, of a rate below one; None if none does.
    chosen : Tensor of int64, (s,), or None
        Different rows, which alone are multiplied; None if all are.

    Returns
    -------
    Tensor, (s, g, o) or (n, g, o)
    """
    rows, weights = rows.contiguous(), weights.contiguous()
    count = len(rows) if chosen is None else len(chosen)
    products = new_tensor(rows, count, rows.shape[1], weights.shape[2])
    _call(
        "activated_product", rows.dtype, count, *weights.shape,
        *_activation(activation, mask, chosen), rows, weights, products,
    )  # fmt: skip
    return products


def activated_product_backward(
    gradient: Tensor,
    rows: Tensor,
    weights: Tensor,
    activation: bool,
    mask: Mask | None,
    chosen: Tensor | None,
    rows_gradient: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of rows and of weights; ``rows_gradient``, if given, is added to in place."""
    gradient, rows, weights = gradient.contiguous(), rows.contiguous(), weights.contiguous()
    count = len(rows) if chosen is None else len(chosen)
    add = rows_gradient is not None or chosen is not None
    if rows_gradient is None:
        rows_gradient = new_tensor(rows, *rows.shape)
        if chosen is not None:
            rows_gradient.zero_()
    weights_gradient = torch.empty_like(weights)
    _call(
        "activated_product_backward", rows.dtype, count, *weights.shape,
        *_activation(activation, mask, chosen), rows, weights, gradient, add, rows_gradient,
        weights_gradient,
    )  # fmt: skip
    return rows_gradient, weights_gradient


def convolved_product(
    matrix: Tensor, weight: Tensor, second: Tensor, activation: bool, mask: Mask | None
) -> tuple[Tensor, Tensor]:
    """Multiply rows with a weight, and what comes behind ELU and dropout with a second one.

    Parameters
    ----------
    matrix, weight, second : Tensor of float32, (n, d), (d, hidden), (hidden, outer)
        The hidden columns are a multiple of 32, see `supports_product`.
    activation, mask
        See `activated_product`; the mask names no rows.

    Returns
    -------
    products : Tensor, (n, outer)
    between : Tensor, (n, hidden)
        What the second weight was multiplied with. Units that fell are zeros with a sign, and no others are.
    """
    weight, second = weight.contiguous(), second.contiguous()
    shape = (*matrix.shape, *second.shape)
    between, products = (new_tensor(matrix, len(matrix), columns) for columns in second.shape)
    _call(
        "convolved_product", matrix.dtype, *shape, *_activation(activation, mask, None)[:-1],
        matrix, weight, second, between, products,
    )  # fmt: skip
    return products, between


def convolved_product_backward(
    gradient: Tensor, matrix: Tensor, between: Tensor, second: Tensor, activation: bool, mask: Mask | None
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the weight and of the second one; see `convolved_product`."""
    gradient, second = gradient.contiguous(), second.contiguous()
    first_gradient, second_gradient = second.new_empty(matrix.shape[1], len(second)), torch.empty_like(second)
    _call(
        "convolved_product_backward", matrix.dtype, *matrix.shape, *second.shape,
        *_activation(activation, mask, None)[:-1], matrix, second, between, gradient, first_gradient,
        second_gradient,
    )  # fmt: skip
    return first_gradient, second_gradient


def _activation(
    activation: bool, mask: Mask | None, chosen: Tensor | None
) -> tuple[Tensor | float | None, ...]:
    """Return the arguments that say what the rows pass, and which of them."""
    seeds, epochs, site, rate, numbers = (None, None, 0, 0.0, None) if mask is None else mask
    dropping = _contiguous(seeds), _contiguous(epochs), site, float(rate), _contiguous(numbers)
    return activation, *dropping, _contiguous(chosen)


def messages_forward(
    wx: Tensor,
    e_term: Tensor,
    vectors: Vectors,
    to_hyperedges: Incidence,
    to_nodes: Incidence,
    neighbours: Segments | None,
    settings: MessageSettings,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Pass messages to the hyperedges and on to the nodes; see `Kernels.messages_forward`."""
    wx, e_term = wx.contiguous(), e_term.contiguous()
    chosen = settings.chosen
    nodes = new_tensor(wx, len(wx) if chosen is None else len(chosen), *wx.shape[1:])
    hyperedges = new_tensor(wx, len(e_term), *wx.shape[1:])
    sizes = _message_sizes(wx, e_term, _kept_targets(len(nodes), len(e_term), settings))
    kept, scratch = new_tensor(wx, sizes[0]), new_tensor(wx, sizes[1])
    around = (None, None) if neighbours is None else (neighbours.offsets, neighbours.indices)
    delta = 0.0 if settings.delta is None else float(settings.delta)
    _call(
        "messages_forward", wx.dtype,
        *_messages(wx, e_term, vectors, to_hyperedges.forward, to_nodes.forward, settings),
        *around, delta, settings.tolerance, nodes, hyperedges, kept, scratch, None,
    )  # fmt: skip
    return nodes, hyperedges, (kept,)


def messages_backward(
    nodes_gradient: Tensor,
    hyperedges_gradient: Tensor | None,
    wx: Tensor,
    e_term: Tensor,
    vectors: Vectors,
    nodes: Tensor,
    hyperedges: Tensor,
    kept: tuple[Tensor, ...],
    to_hyperedges: Incidence,
    to_nodes: Incidence,
    settings: MessageSettings,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of wx, e_term and the vectors; see `Kernels.messages_backward`."""
    del hyperedges  # they are among what was kept
    wx, e_term = wx.contiguous(), e_term.contiguous()
    gradients = new_tensor(wx, *wx.shape), new_tensor(wx, *e_term.shape), wx.new_empty(3, *wx.shape[1:])
    scratch = new_tensor(wx, _message_sizes(wx, e_term, 0)[2])
    _call(
        "messages_backward", wx.dtype,
        *_messages(wx, e_term, vectors, to_hyperedges.forward, to_nodes.forward, settings),
        nodes_gradient.contiguous(), _contiguous(hyperedges_gradient), nodes, *kept, scratch, *gradients,
    )  # fmt: skip
    return gradients


def attend(
    values: Tensor,
    vector: Tensor,
    target: Tensor,
    bias: Tensor | None,
    incidence: Incidence,
    slope: float,
    *,
    activation: bool = True,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Sum the sources of each target by attention; see `Kernels.attend`."""
    assert activation  # noqa: S101, see there
    # Nodes that send to hyperedges, and none that receives: half of a whole pass.
    values, target = values.contiguous(), target.contiguous()
    sums = new_tensor(values, len(target), *values.shape[1:])
    sizes = _message_sizes(values, target, len(target))
    kept = new_tensor(values, sizes[0])
    _call(
        "messages_forward", values.dtype, *_one_way(values, vector, target, incidence, slope),
        None, None, 0.0, 0.0, None, sums, kept, None, _contiguous(bias),
    )  # fmt: skip
    return sums, (kept,)


def attend_backward(
    gradient: Tensor,
    values: Tensor,
    vector: Tensor,
    target: Tensor,
    kept: Sequence[Tensor],
    incidence: Incidence,
    slope: float,
    *,
    activation: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the values, the vector and the target; see `Kernels.attend_backward`."""
    assert activation  # noqa: S101, see there
    values, target = values.contiguous(), target.contiguous()
    of_values, of_target = new_tensor(values, *values.shape), new_tensor(values, *target.shape)
    of_vectors = values.new_empty(3, *values.shape[1:])
    scratch = new_tensor(values, _message_sizes(values, target, 0)[2])
    _call(
        "messages_backward", values.dtype, *_one_way(values, vector, target, incidence, slope),
        None, gradient.contiguous(), None, *kept, scratch, of_values, of_target, of_vectors,
    )  # fmt: skip
    return of_values, of_vectors[0], of_target


def _one_way(
    values: Tensor, vector: Tensor, target: Tensor, incidence: Incidence, slope: float
) -> tuple[Tensor | float | None, ...]:
    """Return the arguments with which a whole pass begins, for its way to the targets alone."""
    # The way there reads the order of the targets alone.
    backward = incidence.forward if incidence.backward is None else incidence.backward
    nobody = torch.empty(0, dtype=torch.int64)
    settings = MessageSettings(slope=slope, delta=None, tolerance=0.0, activation=True, chosen=nobody)
    none = torch.zeros_like(vector)
    return _messages(values, target, Vectors(vector, none, none), incidence.forward, backward, settings)


def similarity_sum(directions: Tensor, delta: float, neighbours: Segments) -> Tensor:
    """Sum the cosines over ``delta`` of rows with their neighbours; see `Kernels.similarity_sum`."""
    directions = directions.contiguous()
    sums = new_tensor(directions, len(neighbours), directions.shape[1])
    _call(
        "similarity_sum", directions.dtype, len(neighbours), *directions.shape[1:],
        neighbours.offsets, neighbours.indices, float(delta), directions, sums,
    )  # fmt: skip
    return sums


def _messages(
    wx: Tensor,
    e_term: Tensor,
    vectors: Vectors,
    by_hyperedge: Segments,
    by_node: Segments,
    settings: MessageSettings,
) -> tuple[Tensor | float | None, ...]:
    """Return the arguments that both directions begin with."""
    lists = by_hyperedge.offsets, by_hyperedge.indices, by_node.offsets, by_node.indices
    sizes = len(wx), *e_term.shape, wx.shape[2]
    receivers = len(wx) if settings.chosen is None else len(settings.chosen)
    rows = wx, e_term, torch.stack(vectors)
    kept = *_kept(settings.kept_nodes, receivers), *_kept(settings.kept_hyperedges, len(e_term))
    chosen = receivers, _contiguous(settings.chosen)
    return *sizes, settings.slope, settings.activation, *lists, *rows, *chosen, *kept


def _kept(places: Places | None, targets: int) -> tuple[int, Tensor | None]:
    """Return of how many targets sums are kept, and their places."""
    return (targets, None) if places is None else (places.total, places.numbers.contiguous())


def _kept_targets(receivers: int, hyperedges: int, settings: MessageSettings) -> int:
    """Return how many receivers and hyperedges have their sums kept."""
    return _kept(settings.kept_nodes, receivers)[0] + _kept(settings.kept_hyperedges, hyperedges)[0]


def _message_sizes(wx: Tensor, e_term: Tensor, targets: int) -> list[int]:
    """Return how many numbers are kept for the gradient, and how many each direction needs for itself.

    The first depends on how many targets have their sums kept.
    """
    sizes = (ctypes.c_int64 * 3)()
    counts = len(wx), len(e_term), targets, *wx.shape[1:]
    _loaded().dahgnn_message_sizes(*map(ctypes.c_int64, counts), sizes)
    return list(sizes)


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()
