"""Numbers for the content of rows: the kernel beside its twin, and the twin beside the sum as it is written."""

import struct

import numpy as np
import pytest
import torch

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.ops import hashes as module
from dahgnn.ops.backend import using
from dahgnn.ops.hashes import row_hashes

built = pytest.mark.skipif(cpu_kernels.library() is None, reason="the kernels were not built")
WHOLE = 2**64


def make_rows(count: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    rows = torch.randn(count, width, generator=torch.Generator().manual_seed(count), dtype=dtype)
    rows[::3] = rows[::3].round()  # whole numbers, and both zeros
    return rows


def hash_slowly(row: list[float], code: str, factors: list[int]) -> int:
    """What `row_hashes` says of one row, by Python's own numbers, of which 64 bits are kept."""
    total = 0
    for number, factor in zip(row, factors, strict=True):
        bits = int.from_bytes(struct.pack(f"<{code}", number + 0.0), "little")
        bits = (bits ^ (bits >> 17)) * 0x9E3779B97F4A7C15 % WHOLE
        total += (bits ^ (bits >> 29)) * factor
    return total % WHOLE


@pytest.mark.parametrize(("dtype", "code"), [(torch.float32, "f"), (torch.float64, "d")])
def test_a_number_is_the_sum_of_mixed_bits_times_factors(dtype, code):
    rows = make_rows(20, 7, dtype)
    factors = np.random.default_rng(7).integers(0, WHOLE, 7, np.uint64, endpoint=False)
    odd = [factor | 1 for factor in factors.tolist()]
    with using("reference"):
        found = row_hashes(rows)
    assert [number % WHOLE for number in found.tolist()] == [
        hash_slowly(row, code, odd) for row in rows.tolist()
    ]


@built
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "width"), [(1, 1), (50, 3), (33, 16), (17, 785)])
def test_the_kernel_gives_the_bits_of_its_twin(count, width, dtype, level):
    rows = make_rows(count, width, dtype)
    with using("reference"):
        expected = row_hashes(rows)
    try:
        cpu_kernels.library().dahgnn_level(level)
        with using("kernel"):
            assert torch.equal(row_hashes(rows), expected)
            assert torch.equal(row_hashes(rows.T.contiguous().T), expected)
    finally:
        cpu_kernels.library().dahgnn_level(2)


def test_blocks_change_no_number(monkeypatch):
    rows = make_rows(50, 3, torch.float32)
    with using("reference"):
        whole = row_hashes(rows)
        monkeypatch.setattr(module, "_NUMBERS", 7)
        assert torch.equal(row_hashes(rows), whole)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_zero_without_its_sign_makes_no_difference(backend):
    with using(backend):
        first, second, other = row_hashes(torch.tensor([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])).tolist()
    assert first == second != other
