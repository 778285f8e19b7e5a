"""Threads for a block, and what was before behind it."""

import pytest
import torch

from dahgnn import DAHGNN, ModelConfig, TrainingConfig, fit
from dahgnn.threads import FEW_ROWS, threads_for


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("rows", "wanted", "expected"),
    [(FEW_ROWS - 1, None, 1), (FEW_ROWS, None, 3), (FEW_ROWS - 1, 2, 2), (FEW_ROWS, 2, 2)],
)
def test_few_rows_have_one_thread_unless_more_are_wanted(rows, wanted, expected):
    with threads_for(rows, wanted):
        assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == 3


def test_the_threads_are_back_after_an_error():
    with pytest.raises(KeyboardInterrupt), threads_for(1):
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 3


def test_a_small_fit_has_one_thread(blobs, blob_hypergraph, blob_split):
    seen = []
    model = DAHGNN(6, 3, ModelConfig(hidden=16), generator=torch.Generator().manual_seed(0))
    inputs = blobs[0], blob_hypergraph, blobs[1], blob_split
    fit(
        model, *inputs, TrainingConfig(max_epochs=2), callback=lambda *_: seen.append(torch.get_num_threads())
    )
    assert set(seen) == {1}
    assert torch.get_num_threads() == 3
