"""One direction of a layer on a GPU or in Triton's interpreter, against plain PyTorch: values and gradients."""

import pytest
import torch
from message_cases import CASES, DEVICE, assert_near, make_paths, needs_gpu, needs_kernels
from oracles import normal

from dahgnn.kernels.gpu import launch as gpu_kernels
from dahgnn.kernels.gpu.programs import varying_sizes
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.ops import sparse as ops

SLOPE = ops.NEGATIVE_SLOPE


def leaves_of(paths, heads, units, dtype, *, bias=True):
    """Return values, vector, target, bias and a gradient of the sums; the bias grows to the size of scores."""
    sources, targets = len(paths.to_nodes.forward), len(paths.to_hyperedges.forward)
    shapes = [(sources, heads, units), (heads, units), (targets, heads), (sources, heads)]
    leaves = [normal(*shape, seed=seed).to(DEVICE, dtype) for seed, shape in enumerate(shapes)]
    leaves[3] = 3 * leaves[3].abs() - 1 if bias else None
    return leaves, normal(targets, heads, units, seed=9).to(DEVICE, dtype)


def by_kernels(leaves, gradient, incidence, activation):
    values, vector, target, bias = leaves
    given = values, vector, target
    sums, kept = gpu_kernels.attend(*given, bias, incidence, SLOPE, activation=activation)
    gradients = gpu_kernels.attend_backward(gradient, *given, kept, incidence, SLOPE, activation=activation)
    return sums, *gradients


def by_plain_steps(leaves, gradient, incidence, activation):
    """In float64: far more exact than what is compared with it."""
    values, vector, target = (each.double().requires_grad_() for each in leaves[:3])
    bias = None if leaves[3] is None else leaves[3].double()
    sums = ops.attend(values, (values * vector).sum(-1), target, bias, incidence, activation=activation)
    gradients = torch.autograd.grad((sums * gradient.double()).sum(), (values, vector, target))
    return sums.detach(), *gradients


def compare(shape, heads, units, *, dtype=torch.float32, bias=True, activation=True):
    paths = make_paths(shape)
    leaves, gradient = leaves_of(paths, heads, units, dtype, bias=bias)
    found = by_kernels(leaves, gradient, paths.to_hyperedges, activation)
    expected = by_plain_steps(leaves, gradient, paths.to_hyperedges, activation)
    for actual, other in zip(found, expected, strict=True):
        assert actual.shape == other.shape
        assert_near(actual, other)


@needs_kernels
@pytest.mark.parametrize(("shape", "heads", "units"), CASES)
def test_the_sums_are_those_of_plain_steps(shape, heads, units):
    compare(shape, heads, units)


@needs_kernels
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_and_without_bias_and_activation(bias, activation, dtype):
    compare("empty segments", 3, 5, dtype=dtype, bias=bias, activation=activation)


@needs_kernels
def test_without_a_gradient_there_is_no_order_of_the_sources():
    paths = make_paths("ragged")
    (values, vector, target, bias), _ = leaves_of(paths, 2, 3, torch.float32)
    whole = paths.to_hyperedges
    alone = Incidence.forward_only(whole.forward, whole.owners)
    given = values, vector, target, bias
    for actual, other in zip(
        gpu_kernels.attend(*given, alone, SLOPE), gpu_kernels.attend(*given, whole, SLOPE), strict=True
    ):
        first, second = (each if isinstance(each, torch.Tensor) else each[0] for each in (actual, other))
        assert torch.equal(first, second)


@needs_kernels
@pytest.mark.parametrize(("shape", "heads", "units"), [*CASES[:9], ("short and long", 5, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_similarities_of_some_rows_are_those_of_plain_steps(shape, heads, units, dtype):
    near = make_paths(shape).neighbours
    some = max(len(near) // 2, 1)  # the first rows alone have neighbours, which may be any
    offsets = near.offsets[: some + 1]
    first = Segments(offsets, near.indices[: int(offsets[-1])])
    directions = ops.unit_rows(normal(len(near), heads, units).to(DEVICE, dtype))
    found = gpu_kernels.similarity_sum(directions, 0.15, first)
    exact = directions.double()
    expected = (exact[:some] * ops.sum_similar(exact, exact, 0.15, first)).sum(-1)
    assert found.shape == (some, heads)
    assert_near(found, expected)


@needs_gpu
def test_kernels_that_are_compiled_for_any_size_give_the_same():
    with varying_sizes():
        for shape in ("uniform", "one node", "short and long"):
            compare(shape, 4, 8)
