"""Memory for what kernels write: used again only while something is repeated, and never while it is in use."""

import threading

import pytest
import torch

from dahgnn.kernels.cpu import memory
from dahgnn.kernels.cpu.memory import kept_memory, new_tensor, release_memory

LARGE = memory._LARGE // 4  # numbers of single precision
LIKE = torch.empty(0)


def test_a_tensor_has_the_shape_and_the_precision_asked_for():
    for shape in ((3, 5), (LARGE, 2), ()):
        for dtype in (torch.float32, torch.float64):
            tensor = new_tensor(torch.empty(0, dtype=dtype), *shape)
            assert (tensor.shape, tensor.dtype) == (shape, dtype)
            tensor.fill_(7)
            assert bool((tensor == 7).all())


def test_memory_is_used_again_within_the_block_alone():
    with kept_memory():
        first = new_tensor(LIKE, 2 * LARGE).data_ptr()
        assert len(memory._shelf.blocks) == 1
        assert new_tensor(LIKE, 2 * LARGE - 9).data_ptr() == first
    assert not memory._shelf.blocks
    new_tensor(LIKE, LARGE)
    assert not memory._shelf.blocks


def test_memory_that_a_view_or_a_graph_still_needs_is_left_alone():
    with kept_memory():
        view = new_tensor(LIKE, LARGE, 2)[5:, 1].fill_(3)
        weight = torch.tensor(2.0, requires_grad=True)
        values = new_tensor(LIKE, LARGE).fill_(1)
        loss = (values * weight).sum()
        del values
        for _ in range(3):
            new_tensor(LIKE, 2 * LARGE).fill_(9), new_tensor(LIKE, LARGE).fill_(9)
        loss.backward()
        assert weight.grad.item() == pytest.approx(LARGE)
        assert bool((view == 3).all())


def test_a_tensor_may_outlive_the_block():
    with kept_memory():
        tensor = new_tensor(LIKE, LARGE).fill_(4)
    assert bool((tensor == 4).all())
    del tensor
    assert not memory._shelf.blocks


def test_a_block_much_too_large_is_not_taken():
    with kept_memory():
        large = new_tensor(LIKE, 5 * LARGE).data_ptr()
        assert new_tensor(LIKE, LARGE).data_ptr() != large
        assert {len(block) for block in memory._shelf.blocks} == {20 * LARGE, 4 * LARGE}


def test_sizes_that_change_leave_no_more_blocks_than_are_needed_at_a_time():
    generator = torch.Generator().manual_seed(0)
    with kept_memory():
        for _ in range(60):  # two tensors of about the same size live at a time
            sizes = (LARGE * (1 + torch.rand(2, generator=generator))).int().tolist()
            pair = [new_tensor(LIKE, size).fill_(5) for size in sizes]
            assert all(bool((each == 5).all()) for each in pair)
            del pair
        assert len(memory._shelf.blocks) == 2
        before = {len(block) for block in memory._shelf.blocks}
        for size in sorted(before):
            new_tensor(LIKE, size // 4)
        assert {len(block) for block in memory._shelf.blocks} == before


def test_freed_memory_can_be_given_to_the_system():
    pieces = [torch.ones(8000) for _ in range(2000)]
    assert sum(float(piece[0]) for piece in pieces) == 2000
    del pieces
    release_memory()


def test_blocks_within_blocks_end_with_the_outer_one():
    with kept_memory():
        with kept_memory():
            new_tensor(LIKE, LARGE)
        assert memory._shelf.blocks
    assert not memory._shelf.blocks


def test_threads_keep_memory_for_themselves():
    seen = []
    with kept_memory():
        new_tensor(LIKE, LARGE)
        thread = threading.Thread(target=lambda: seen.append(list(memory._shelf.blocks)))
        thread.start()
        thread.join()
    assert seen == [[]]
