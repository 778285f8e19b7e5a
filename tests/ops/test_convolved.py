"""Convolution and projection in one pass, against the same steps one by one: values, gradients, odd shapes."""

import pytest
import torch
from oracles import normal
from torch.nn.functional import elu

from dahgnn.kernels.cpu import launch
from dahgnn.kernels.protocol import Mask
from dahgnn.ops.backend import using
from dahgnn.ops.convolved import Convolved
from dahgnn.ops.dropout import drop_units
from dahgnn.ops.fused import Factor
from dahgnn.ops.propagated import PropagatedFeatures

needs_kernels = pytest.mark.skipif(launch.library() is None, reason="the CPU kernels are not built")

# Rows, columns, hidden and outer units.
SHAPES = [(1, 1, 32, 1), (7, 5, 32, 3), (300, 65, 64, 32), (129, 12, 32, 10), (5000, 17, 96, 4)]


def mask_of(rate=0.4):
    return Mask(torch.tensor([3]), torch.tensor([6]), 1, rate)


def features_of(rows, columns, dtype=torch.float64):
    features = normal(rows, columns)
    features[::5] = 0  # then nothing but zeros comes to the ELU, and stays or falls
    features[:, 0] *= 30
    return PropagatedFeatures(features.to(dtype), lambda given: given)


def some_of(rows):
    """Return about a third of the rows, in no order."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(0))[: -(-rows // 3)]


def drawn(shape, dtype=torch.float64):
    _, columns, hidden, outer = shape
    sizes = (1, columns, hidden), (1, hidden, outer), (1, hidden, 3)
    return [normal(*size, seed=seed).to(dtype).requires_grad_() for seed, size in enumerate(sizes)]


def one_by_one(features, leaves, chosen, activation, mask):
    """Compute what `Convolved.products` says it does in its own words."""
    weight, first, second = leaves
    rows = (
        features.matrix @ weight[0][features.used if features.used is not None else slice(None)]
    ).unsqueeze(1)
    active = elu(rows) if activation else rows
    active = active if mask is None else drop_units(active, mask)
    return active @ first, active[chosen] @ second


def compare(shape, activation, mask, given=lambda gradient: gradient):
    rows, columns, *_ = shape
    chosen, results = some_of(rows), []
    for dtype in (torch.float64, torch.float32):
        features, leaves = features_of(rows, columns, dtype), drawn(shape, dtype)
        if dtype == torch.float64:
            with using("reference"):
                products = one_by_one(features, leaves, chosen, activation, mask)
        else:
            factors = Factor(leaves[1]), Factor(leaves[2], chosen)
            products = Convolved(features, leaves[0]).products(factors, activation=activation, mask=mask)
        wanted = [given(normal(*each.shape, seed=9)).to(dtype) for each in products]
        results.append((*products, *torch.autograd.grad(products, leaves, wanted)))
    for expected, actual in zip(*results, strict=True):
        scale = max(1.0, expected.abs().max().item())
        assert (actual - expected).abs().max().item() <= 2e-4 * scale


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", [False, True])
@pytest.mark.parametrize("dropping", [False, True])
def test_the_kernel_gives_what_the_steps_give(shape, activation, dropping):
    compare(shape, activation, mask_of() if dropping else None)


@needs_kernels
@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_instruction_set_gives_the_same(level):
    library = launch.library()
    before = library.dahgnn_level(-1)
    try:
        library.dahgnn_level(level)
        for shape in SHAPES:
            compare(shape, True, mask_of())
    finally:
        library.dahgnn_level(before)


@needs_kernels
@pytest.mark.parametrize("every", [2, 7, 10_000])
def test_rows_without_a_gradient_may_be_left_out(every):
    def some(gradient):
        gradient[torch.arange(len(gradient)) % every > 0] = 0
        return gradient

    compare((5000, 17, 32, 4), True, mask_of(), some)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("kind", ["doubles", "two runs", "all fall", "numbered", "chosen first"])
def test_what_the_kernel_does_not_know_goes_one_by_one(backend, kind):
    rows, runs, dtype = 40, 2 if kind == "two runs" else 1, torch.float64 if kind == "doubles" else None
    dtype = dtype or torch.float32
    features = features_of(rows, 6, dtype)
    weight, factor = normal(runs, 6, 32).to(dtype), normal(runs, 32, 3, seed=1).to(dtype)
    mask = Mask(torch.arange(runs), torch.full((runs,), 6), 1, 1.0 if kind == "all fall" else 0.4)
    if kind == "numbered":
        mask = mask._replace(numbers=torch.arange(rows))
    chosen = torch.tensor([3, 1]) if kind == "chosen first" else None
    with using(backend):
        (product,) = Convolved(features, weight).products(
            [Factor(factor, chosen)], activation=True, mask=mask
        )
    dropped = drop_units(elu(torch.einsum("nd,rdh->nrh", features.matrix, weight)), mask)
    expected = torch.einsum("nrh,rho->nro", dropped, factor)
    expected = expected if chosen is None else expected[chosen]
    torch.testing.assert_close(product, expected, rtol=1e-5, atol=1e-3)


@needs_kernels
@pytest.mark.parametrize("activation", [False, True])
def test_what_falls_is_a_zero_with_a_sign_and_nothing_else_is(activation):
    # A zero with a sign that stays would lose its gradient.
    matrix, weight = -torch.zeros(64, 3), torch.ones(3, 32)
    _, between = launch.convolved_product(matrix, weight, torch.ones(32, 1), activation, mask_of(0.5))
    fallen = drop_units(torch.ones(64, 1, 32), mask_of(0.5)).squeeze(1) == 0
    assert torch.equal(between, torch.zeros(64, 32))
    assert torch.equal(between.signbit(), fallen)


@needs_kernels
def test_a_product_that_nobody_uses_gets_no_gradient():
    features, (weight, first, second) = features_of(9, 4, torch.float32), drawn((9, 4, 32, 2), torch.float32)
    _, product = Convolved(features, weight).products(
        [Factor(first), Factor(second, torch.tensor([2, 6]))], activation=False, mask=None
    )
    product.sum().backward()
    assert first.grad is None
    assert weight.grad.any()


@needs_kernels
def test_the_number_of_threads_never_changes_a_bit():
    rows, weight, second = normal(40_000, 9).float(), normal(9, 32).float(), normal(32, 10).float()
    gradient, mask = normal(40_000, 10, seed=5).float(), mask_of()
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            products, between = launch.convolved_product(rows, weight, second, True, mask)
            both = launch.convolved_product_backward(gradient, rows, between, second, True, mask)
            results.append((products, between, *both))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))
