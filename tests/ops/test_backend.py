"""Which kernels compute, and who may choose."""

import pytest
import torch

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.ops.backend import has_gpu_kernels, kernels_for, product_kernel_for, using

needs_library = pytest.mark.skipif(cpu_kernels.library() is None, reason="the kernels were not built")


@needs_library
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernels_of_the_cpu_are_taken_where_they_are_built(dtype):
    assert kernels_for(torch.empty(0, dtype=dtype)) is cpu_kernels
    assert kernels_for(torch.empty(0, dtype=dtype), "kernel") is cpu_kernels
    assert kernels_for(torch.empty(0, dtype=dtype), "reference") is None


@pytest.mark.parametrize(("device", "dtype"), [("cpu", torch.float16), ("meta", torch.float32)])
def test_other_tensors_have_no_kernel(device, dtype):
    tensor = torch.empty(0, device=device, dtype=dtype)
    assert kernels_for(tensor) is None
    with pytest.raises(ValueError, match=f"There must be a kernel for {dtype} on {device}. Got none"):
        kernels_for(tensor, "kernel")


@needs_library
def test_a_choice_holds_within_its_block():
    tensor = torch.empty(0)
    with using("reference"):
        assert kernels_for(tensor) is None
        with using("auto"):
            assert kernels_for(tensor) is cpu_kernels
        assert kernels_for(tensor) is None
        assert kernels_for(tensor, "kernel") is cpu_kernels
    with pytest.raises(RuntimeError), using("reference"):
        raise RuntimeError
    assert kernels_for(tensor) is cpu_kernels


def test_an_unknown_choice_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'reference'"), using("referenc"):
        pass
    with pytest.raises(ValueError, match="Did you mean 'kernel'"):
        kernels_for(torch.empty(0), "kernels")


@needs_library
def test_a_product_has_a_kernel_for_fours_of_heads_with_eight_units():
    matrix = torch.rand(20, 5)
    assert product_kernel_for(matrix, 32) is cpu_kernels.product
    assert product_kernel_for(matrix, 31) is None
    assert product_kernel_for(matrix.double(), 32) is None
    with using("reference"):
        assert product_kernel_for(matrix, 32) is None


def test_a_tensor_of_the_cpu_has_no_gpu_kernels():
    assert not has_gpu_kernels(torch.empty(0))
