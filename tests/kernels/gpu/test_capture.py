"""Work that is recorded and done again, on a CUDA device."""

import gc

import pytest
import torch

from dahgnn.kernels.gpu import capture as module
from dahgnn.kernels.gpu.capture import capture

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@needs_cuda
@pytest.mark.parametrize("passes", [0, 2])
def test_cuda_does_the_work_again_at_each_replay(passes):
    number = torch.zeros(3, device="cuda")
    graph = capture(lambda: number.add_(1), passes)
    assert number.tolist() == [passes] * 3  # a capture does nothing itself
    for _ in range(4):
        graph.replay()
    assert number.tolist() == [passes + 4.0] * 3


@needs_cuda
def test_cuda_work_that_fails_leaves_the_device_usable():
    number = torch.zeros(3, device="cuda")

    def fail():
        number.add_(1)
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        capture(fail)
    assert float(torch.ones(2, device="cuda").sum()) == 2


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_waits_until_the_end(collects):
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ValueError, match="on purpose"), module._without_garbage():
            assert not gc.isenabled()
            raise ValueError("on purpose")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
