"""How the Triton kernels are compiled and started, and how their work is divided among programs.

A program takes a block of rows for a block of heads, which never mix. It walks the segments of its rows
side by side, some members of each at a time: tiles of (members, rows, heads, units), in which a few threads
hold a row's units and each thread its members one after the other, so that a sum over members stays within
a thread. Rows with longer segments come afterwards, one by one, many members at a time. Each output is
written by one program in a fixed order and nothing waits for the host, so that results repeat bit for bit
and a CUDA graph can hold them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dahgnn.kernels.incidence import Segments

try:
    import triton
except ImportError:
    triton = None

_PRECISIONS = (torch.float32, torch.float64)

# What makes kernels ready that are being compiled, while nothing is started.
_pending: ContextVar[_Pending | None] = ContextVar("pending", default=None)

# Whether sizes differ from launch to launch.
_varying: ContextVar[bool] = ContextVar("varying", default=False)

# Numbers of a row that a program takes: 128 bytes in float32 at the least, so that a gather takes full lines.
_NARROW, _WIDE = 32, 64
# Rows of a program at the most, and members of each that are under way at once.
_ROWS, _MEMBERS = 16, 4
# Members up to which a segment is walked beside others; and the mean from which on each has a program of its
# own, of so many warps, with so many numbers of a tile for each.
_LONG, _LONG_MEAN, _LONG_WARPS, _TILE = 64, 32, 4, 512
# Registers of a thread at the most, in single precision, and the programs of one warp that then run at once
# on a multiprocessor. There are not more programs than run at once: each takes blocks of rows in turn.
_REGISTERS, AT_ONCE = 96, 20


def jit(function: Callable[..., Any]) -> Any:
    """Make a Triton kernel; without Triton the function stays as it is and nobody calls it."""
    return function if triton is None else triton.jit(function)


def jit_for_any(*arguments: str) -> Callable[[Callable[..., Any]], Any]:
    """Make a Triton kernel that is not compiled anew for ones or multiples of 16 among these arguments."""

    def make(function: Callable[..., Any]) -> Any:
        return function if triton is None else triton.jit(function, do_not_specialize=arguments)

    return make


def supports(tensor: Tensor) -> bool:
    """Tell whether there is a kernel for tensors of this device and precision.

    Triton's interpreter, ``TRITON_INTERPRET=1`` before the import, also takes tensors of the CPU: for tests.
    """
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    device = tensor.is_cuda or (tensor.device.type == "cpu" and interpreted)
    return triton is not None and device and tensor.dtype in _PRECISIONS


def power_of_two(number: int) -> int:
    """Return the least power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


class Blocks(NamedTuple):
    """How a launch divides its work.

    Attributes
    ----------
    grid : tuple of int
        Programs: for rows × for blocks of heads.
    blocks : int
        Blocks of rows; the programs take them in turn.
    warps : int
        Warps of a program.
    sizes : dict
        What the compiler knows: the layout, the rows of a block, the members of each that are taken at a
        time, and the length up to which a segment is walked beside others, None if all are. The layout is
        heads and units as given, the powers of two that hold a program's share of each, and the threads that
        share a head.
    """

    grid: tuple[int, int]
    blocks: int
    warps: int
    sizes: dict[str, Any]


@cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def divide(values: Tensor, *segments: Segments, at_once: int = AT_ONCE) -> Blocks:
    """Choose the blocks from what the host knows.

    Parameters
    ----------
    values : Tensor, (…, heads, units)
        What is gathered.
    *segments : Segments
        What each row gathers. Of several kinds of segments, each row has one of each.
    at_once : int
        Programs that run at once on a multiprocessor.
    """
    rows, incidences = len(segments[0]), max(len(each.indices) for each in segments)
    heads, units = values.shape[-2:]
    block_units = power_of_two(units)
    block_heads, wider = (
        min(power_of_two(heads), max(1, width // block_units)) for width in (_NARROW, _WIDE)
    )
    if heads % wider == 0:  # otherwise some threads of the last block would have nothing to do
        block_heads = wider
    width = block_heads * block_units
    # A thread loads 16 bytes at once, or what divides the numbers that are side by side.
    side_by_side = units if units < block_units else heads * units
    vector = math.gcd(side_by_side * values.element_size(), 16) // values.element_size()
    warps, block_rows, members = 1, min(max(32 * vector // width, 1), _ROWS), _MEMBERS
    if incidences > _LONG_MEAN * rows:
        warps, block_rows, members = _LONG_WARPS, 1, max(_LONG_WARPS * _TILE // width, 1)
    # What no segment needs is not compiled, which would take as long as all the rest.
    side_by_side_only = block_rows == 1 or max(each.longest for each in segments) <= _LONG
    # Of few numbers Triton has each thread load its own anyway.
    few = members * block_rows * block_heads < 32 * warps
    sizes = {
        "layout": (heads, units, block_heads, block_units, 1 if few else max(block_units // vector, 1)),
        "block_rows": block_rows,
        "block_members": members,
        "longest": None if side_by_side_only else _LONG,
    }
    count, head_blocks = -(-rows // block_rows), -(-heads // block_heads)
    most = max(_multiprocessors(values.device) * at_once // (warps * head_blocks), 1)
    turns = -(-count // most)
    return Blocks((-(-count // turns), head_blocks), count, warps, sizes)


@cache
def _can_overlap(device: torch.device) -> bool:
    """Tell whether a kernel can get ready before the one in front of it has ended: on Hopper and later."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    *arguments: Any,
    warps: int,
    registers: int = _REGISTERS,
    **constants: Any,
) -> None:
    """Start a kernel on the device of its first tensor; the constants are compiled in.

    A program of one warp gets so many registers a thread at the most, unless it computes in double precision.
    """
    first = next(each for each in arguments if isinstance(each, Tensor))
    if first.is_cuda and _varying.get():
        names = zip(kernel.arg_names, arguments, strict=False)  # constants stand behind
        kernel = _for_any(kernel, tuple(name for name, each in names if isinstance(each, int)))
    overlap = _can_overlap(first.device)
    options: dict[str, Any] = {"num_warps": warps, "num_stages": 1, "enable_fp_fusion": True}
    if overlap:
        options["launch_pdl"] = True
    double = any(getattr(each, "dtype", None) == torch.float64 for each in arguments)
    if warps == 1 and first.is_cuda and not double:
        options["maxnreg"] = registers
    with torch.cuda.device_of(first):
        pending = _pending.get()
        if pending is not None:
            compiled = kernel.warmup(*arguments, grid=grid, **constants, overlap=overlap, **options)
            pending.add(first.device, compiled)
        else:
            kernel[grid](*arguments, **constants, overlap=overlap, **options)


@cache
def _for_any(kernel: Any, numbers: tuple[str, ...]) -> Any:
    """Return a kernel that is compiled once for all values of some numbers."""
    return triton.jit(kernel.fn, do_not_specialize=numbers)


@contextmanager
def varying_sizes() -> Iterator[None]:
    """Compile each kernel once for all sizes that come within the block.

    Otherwise Triton compiles it anew for the first size that is a multiple of 16, and for the first that is
    none, in each of its arguments. That suits a hypergraph that stays, and not batches of ever other sizes.
    """
    token = _varying.set(True)
    try:
        # A gradient stays in this thread, as in `compiling`.
        with torch.autograd.set_multithreading_enabled(False):
            yield
    finally:
        _varying.reset(token)


@contextmanager
def compiling() -> Iterator[None]:
    """Compile what is launched within the block, side by side in threads, and start nothing.

    What the kernels should have written is undefined then. A Triton that cannot compile in threads starts
    them instead. One after the other, the kernels of an epoch would take half a minute; once compiled they
    are kept on disk.
    """
    mode = getattr(triton, "AsyncCompileMode", None)
    if mode is None:
        yield
        return
    # Half of the threads may wait for the others.
    with ThreadPoolExecutor(max_workers=2 * (os.cpu_count() or 1)) as executor:
        pending = _Pending(executor)
        token = _pending.set(pending)
        try:
            # A gradient stays in this thread: autograd's own threads would know nothing of the mode.
            with torch.autograd.set_multithreading_enabled(False), mode(executor):
                yield
        finally:
            _pending.reset(token)
        pending.wait()


# Kinds of work whose kernels were compiled in this process.
_compiled: set[Hashable] = set()


def compile_ahead(work: Callable[[], None], kind: Hashable) -> None:
    """Compile what some work launches, unless such work was compiled before in this process.

    To ask all kernels whether they are there takes as long as many epochs. Those that are not there after
    all, because the kind does not tell all that kernels depend on, are compiled one by one when they are
    launched, which takes longer.

    Parameters
    ----------
    work : callable
        What launches the kernels.
    kind : hashable
        The same for work that launches the same ones.
    """
    if kind in _compiled:
        return
    with compiling():
        work()
    _compiled.add(kind)


class _Pending:
    """Kernels that threads compile and make ready.

    A thread takes up a kernel's making ready after its compilation, so that what it waits for is under way.
    """

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.executor = executor
        self.kernels: dict[int, tuple[Any, Future[None]]] = {}

    def add(self, device: torch.device, kernel: Any) -> None:
        """Make a kernel ready, or one that is being compiled, as soon as it is."""
        if id(kernel) not in self.kernels:
            self.kernels[id(kernel)] = kernel, self.executor.submit(_make_ready, device, kernel)

    def wait(self) -> None:
        """Wait until all kernels are ready."""
        for _, ready in self.kernels.values():
            ready.result()


def _make_ready(device: torch.device, compiled: Any) -> None:
    """Have Triton make and load what starts a kernel, for which it calls a C compiler."""
    with torch.cuda.device(device):
        getattr(compiled, "result", lambda: compiled)().run  # noqa: B018 (made when first asked for)
