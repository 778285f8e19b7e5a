"""How many threads torch has for a piece of work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# Two threads do fewer rows up to a fifth faster; where other programs keep the cores busy, they wait for each
# other, and take thirty times as long.
FEW_ROWS = 2048


@contextlib.contextmanager
def threads_for(rows: int, wanted: int | None = None) -> Iterator[None]:
    """Give torch so many threads for the block; by default one for few rows, and else what it has."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or (1 if rows < FEW_ROWS else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
