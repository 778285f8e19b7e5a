"""How the GPU kernels divide their work."""

import pytest
import torch

from dahgnn.kernels.gpu.programs import divide, power_of_two
from dahgnn.kernels.incidence import Segments


@pytest.mark.parametrize(("number", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (1024, 1024), (1025, 2048)])
def test_power_of_two(number, power):
    assert power_of_two(number) == power


@pytest.mark.parametrize("rows", [1, 7, 10_000, 1_000_000])
@pytest.mark.parametrize(
    ("heads", "units"), [(1, 1), (4, 8), (1, 10), (40, 8), (10, 10), (7, 5), (784, 1), (3, 200)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_cover_all_rows_and_heads(rows, heads, units, dtype):
    for mean in (1, 11, 500):
        segments = Segments(mean * torch.arange(rows + 1), torch.empty(1).expand(mean * rows))
        blocks = divide(torch.empty(0, heads, units, dtype=dtype), segments)
        block_heads, block_units, threads = blocks.sizes["layout"][2:]
        assert blocks.blocks * blocks.sizes["block_rows"] >= rows
        assert blocks.grid[0] <= blocks.blocks
        assert blocks.grid[1] * block_heads >= heads
        assert block_units >= units
        assert threads <= block_units
        # One row at a time has no other way to walk a long segment.
        assert blocks.sizes["block_rows"] > 1 or blocks.sizes["longest"] is None


@pytest.mark.parametrize("lengths", [(64, 1), (1, 64, 0), (65, 1), (2, 3, 1000)])
def test_long_segments_are_set_apart_where_there_are_some(lengths):
    short = Segments(torch.arange(len(lengths) + 1), torch.zeros(len(lengths)))
    ragged = Segments(torch.tensor([0, *lengths]).cumsum(0), torch.zeros(30 * len(lengths)))
    for segments in ((ragged,), (short, ragged), (ragged, short)):
        sizes = divide(torch.empty(0, 4, 8), *segments).sizes
        assert (sizes["longest"] is None) == (max(lengths) <= 64)
