"""Turn what users pass into tensors, or say what is wrong with it.

Every message has one grammar: what was expected, what came, and the way out where there is one.
``owner`` is the name of the function or class that the user called.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

# An upper bound of indices that bounds nothing.
ANY = 2**63 - 1

# The most units of a layer, and the most networks of a fit: more would fill any memory.
_MOST_UNITS = 65_536
MOST_NETWORKS = 1_000

# Numbers that are looked at at a time, where there may be more of them than memory has room for copies.
_NUMBERS = 1 << 24

# float32 holds these exactly; wider integers go to float64.
_EXACT_IN_FLOAT32 = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16)


def bad_value(name: str, owner: str, expected: str, got: object, remedy: str = "") -> ValueError:
    """Compose the error for a parameter of a wrong value."""
    return ValueError(_sentence(name, owner, expected, got, remedy))


def bad_type(name: str, owner: str, expected: str, got: object, remedy: str = "") -> TypeError:
    """Compose the error for a parameter of a wrong type."""
    return TypeError(_sentence(name, owner, expected, got, remedy))


def _sentence(name: str, owner: str, expected: str, got: object, remedy: str) -> str:
    return f"The '{name}' parameter of {owner} must be {expected}. Got {got}.{' ' + remedy if remedy else ''}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a did-you-mean sentence for an unknown name, or nothing when no name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean '{near[0]}'?" if near else ""


def check_choice(name: str, value: object, choices: Sequence[str], owner: str) -> None:
    """Refuse a value that is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        expected = "one of " + ", ".join(f"'{choice}'" for choice in choices)
        raise bad_value(name, owner, expected, repr(value), did_you_mean(str(value), choices))


def check_flag(name: str, value: object, owner: str) -> None:
    """Refuse anything but True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise bad_type(name, owner, "True or False", repr(value))


def check_count(name: str, value: object, owner: str, *, low: int = 1, high: int | None = None) -> None:
    """Refuse anything but an integer of at least ``low``, and at most ``high`` if there is such."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise bad_type(name, owner, "an integer", repr(value))
    if value < low:
        raise bad_value(name, owner, f"at least {low}", value)
    if high is not None and int(value) > high:
        raise bad_value(name, owner, f"at most {high}", value)


def check_units(name: str, value: object, owner: str) -> None:
    """Refuse anything but a size that a layer of a network may have."""
    check_count(name, value, owner)
    if int(value) > _MOST_UNITS:  # type: ignore[call-overload]
        remedy = "Each row has so many numbers in a layer: 10,000 rows would have more than 2.6 GB."
        raise bad_value(name, owner, f"at most {_MOST_UNITS}", value, remedy)


def _as_float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def check_number(
    name: str,
    value: object,
    owner: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
) -> None:
    """Refuse anything but a finite number between ``low`` (excluded if ``open_low``) and ``high``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise bad_type(name, owner, "a number", repr(value))
    number = _as_float(value)
    if not math.isfinite(number) or number < low or number > high or (open_low and number == low):
        over = f"greater than {low:g}" if open_low else f"at least {low:g}"
        expected = over if high == math.inf else f"{over} and at most {high:g}"
        raise bad_value(name, owner, "a finite number, " + expected, value)


def check_seed(seed: object, owner: str) -> None:
    """Refuse anything but a whole number that torch's generators take."""
    check_count("seed", seed, owner, low=0)
    if int(seed) >= 2**63:  # type: ignore[call-overload]
        raise bad_value("seed", owner, "under 2**63", seed)


def check_neighbours(k: object, n_nodes: int, owner: str) -> None:
    """Refuse a number of neighbours that n nodes have not."""
    check_count("k", k, owner, low=0)
    if not 1 <= int(k) <= n_nodes - 1:  # type: ignore[call-overload]
        expected = f"between 1 and n_nodes - 1 = {n_nodes - 1}"
        raise bad_value("k", owner, expected, k)


def as_tensor(value: object, name: str, owner: str) -> Tensor:
    """Return a tensor over the user's numbers, copied only if torch cannot share them.

    Raises
    ------
    TypeError
        If the value is not an array of numbers.
    """
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_quantized:
            raise bad_type(name, owner, "a dense tensor", f"one of layout {value.layout}")
        wide = value.dtype in (torch.uint16, torch.uint32, torch.uint64)
        return value.detach().to(torch.int64) if wide else value.detach()
    if np.ma.is_masked(value):
        raise bad_value(name, owner, "without masked entries", "some", "Impute or drop them first.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise bad_type(name, owner, "an array of numbers", f"rows of unequal length ({error})") from error
    if array.dtype.kind not in "biuf":
        raise bad_type(name, owner, "an array of numbers", f"an array of {array.dtype}")
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)  # torch computes little with wide unsigned integers
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(np.require(native, requirements=["C", "W"]))


def as_features(features: object, owner: str, name: str = "features") -> Tensor:
    """Return finite float32 or float64 features, shape (n, d).

    Raises
    ------
    ValueError
        If the features are empty, not two-dimensional, or hold NaN or infinities.
    """
    tensor = as_tensor(features, name, owner)
    if tensor.dim() != 2:
        remedy = "Use features.reshape(-1, 1) for a single column." if tensor.dim() == 1 else ""
        raise bad_value(name, owner, "two-dimensional, (n, d)", f"shape {tuple(tensor.shape)}", remedy)
    if tensor.numel() == 0:
        raise bad_value(name, owner, "non-empty", f"shape {tuple(tensor.shape)}")
    if tensor.is_complex():
        raise bad_type(name, owner, "real numbers", tensor.dtype)
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32 if tensor.dtype in _EXACT_IN_FLOAT32 else torch.float64)
    _check_finite(tensor, name, owner)
    return tensor


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check_finite(tensor: Tensor, name: str, owner: str) -> None:
    # A sum is finite only if all its terms are, and needs no memory; a few large terms may make it infinite.
    if bool(torch.isfinite(tensor.sum())):
        return
    first, count, start = (-1, -1), 0, 0
    for block in tensor.split(max(1, _NUMBERS // tensor.shape[1])):
        bad = torch.nonzero(~torch.isfinite(block))
        if len(bad) and count == 0:
            first = (start + int(bad[0, 0]), int(bad[0, 1]))
        count, start = count + len(bad), start + len(block)
    if count:
        row, column = first
        got = f"{tensor[row, column].item()} at row {row}, column {column} ({count} such values in all)"
        raise bad_value(name, owner, "finite", got, "Impute or drop these rows first.")


def as_indices(indices: object, name: str, owner: str, *, below: int, what: str = "n_nodes") -> Tensor:
    """Return one-dimensional int64 indices, each at least 0 and under ``below``.

    Raises
    ------
    ValueError
        If the shape is wrong or an index is out of range.
    """
    tensor = as_tensor(indices, name, owner)
    if tensor.dim() != 1:
        raise bad_value(name, owner, "one-dimensional", f"shape {tuple(tensor.shape)}")
    check_in_range(tensor, name, owner, below=below, what=what)
    return tensor.to(torch.int64)


def check_in_range(tensor: Tensor, name: str, owner: str, *, below: int, what: str) -> None:
    """Refuse indices that are no integers, negative, or not under ``below``."""
    # An empty list becomes an array of floats; it holds no index that could be wrong.
    if tensor.numel() == 0:
        return
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        remedy = "Use numpy.flatnonzero(mask) for a mask." if tensor.dtype == torch.bool else ""
        raise bad_type(name, owner, "integers", f"an array of {_name(tensor.dtype)}", remedy)
    low, high = int(tensor.min()), int(tensor.max())
    if low < 0 or high >= below:
        expected = (
            f"indices between 0 and {what} - 1 = {below - 1}" if below < ANY else "indices of at least 0"
        )
        raise bad_value(name, owner, expected, low if low < 0 else high)


def as_labels(labels: object, owner: str, *, n_nodes: int | None = None) -> Tensor:
    """Return one-dimensional int64 labels; −1 marks a node whose label is not known.

    Raises
    ------
    ValueError
        If there are none, their number is wrong, or one is under −1.
    """
    tensor = as_tensor(labels, "labels", owner)
    if tensor.dim() != 1 or tensor.numel() == 0:
        raise bad_value("labels", owner, "one-dimensional and non-empty", f"shape {tuple(tensor.shape)}")
    if tensor.is_floating_point() or tensor.is_complex():
        raise bad_type("labels", owner, "integers", f"an array of {_name(tensor.dtype)}")
    if n_nodes is not None and len(tensor) != n_nodes:
        raise bad_value("labels", owner, f"of length n_nodes = {n_nodes}", f"length {len(tensor)}")
    if int(tensor.min()) < -1:
        raise bad_value("labels", owner, "0, 1, … or -1 for unknown", int(tensor.min()))
    return tensor.to(torch.int64)


def check_device(device: torch.device | str, owner: str) -> torch.device:
    """Return the device with its number, or say that there is none."""
    try:
        where = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise bad_value("device", owner, "one that torch has here", f"'{device}' ({reason})") from error
    if where.type == "meta":  # has shapes alone
        raise bad_value("device", owner, "one that computes", "'meta'")
    return where
