"""A world of one process leaves everything as it is."""

import torch

from dahgnn.world import ALONE


def test_one_process_is_its_own_mean_and_its_own_extremes():
    rows = torch.tensor([1.0, 2.0])
    ALONE.average_([rows], 0.5)
    ALONE.combine_(rows, rows)
    ALONE.barrier()
    assert (ALONE.rank, ALONE.size, rows.tolist()) == (0, 1, [1.0, 2.0])
