"""Rows in clusters, in which approximate searches are at home."""

import torch
from torch import Tensor


def clustered(n: int, d: int = 8, seed: int = 0) -> Tensor:
    """Return n rows around n / 100 centres."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(max(1, n // 100), d, generator=generator)
    own = torch.randint(len(centres), (n,), generator=generator)
    return centres[own] + 0.4 * torch.randn(n, d, generator=generator)
