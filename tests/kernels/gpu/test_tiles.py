"""The sums of what the programs of GPU kernels leave."""

import pytest
import torch
from message_cases import DEVICE, needs_kernels

from dahgnn.kernels.gpu.tiles import column_sums


@needs_kernels
@pytest.mark.parametrize("width", [1, 8, 33])
@pytest.mark.parametrize("counts", [(1, 1), (300, 5), (5, 700)])
def test_column_sums(width, counts):
    count, last = counts
    partial = torch.randn(2 * count + last, width, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    sums = torch.full((3, width), torch.nan, device=DEVICE)
    column_sums(partial, sums, count, last)
    expected = torch.stack([part.double().sum(0) for part in partial.split([count, count, last])])
    torch.testing.assert_close(sums.double(), expected, rtol=1e-5, atol=1e-4)
