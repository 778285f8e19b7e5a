"""Each row-wise GPU kernel against its twin, the plain PyTorch of `ops`."""

import os

import pytest
import torch

from dahgnn import Hypergraph, kernels_gpu, kernels_rows, ops

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = pytest.mark.skipif(
    kernels_gpu.triton is None or not (torch.cuda.is_available() or INTERPRETED),
    reason="there is neither a GPU with Triton nor TRITON_INTERPRET=1",
)

SHAPES = [(1, 1, 1), (1, 1, 10), (7, 4, 8), (300, 4, 8), (257, 3, 5), (65, 40, 8), (33, 2, 64)]


def draw(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("width", [1, 4, 10, 32, 33, 130])
def test_sums_over_segments(width):
    generator = torch.Generator().manual_seed(0)
    lists = [torch.randint(0, 90, (size,), generator=generator) for size in (1, 16, 17, 80, 3)]
    hypergraph = Hypergraph.from_hyperedges(lists, n_nodes=101, cover_isolated=False).to(DEVICE)
    for incidence in (hypergraph.to_hyperedges, hypergraph.to_nodes):
        values = draw(len(incidence.backward), width, seed=1)
        actual = kernels_rows.gather_sum(values, incidence.forward.indices, incidence.forward.offsets)
        with ops.using("reference"):
            expected = ops.gather_sum(values, incidence)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_unit_rows(shape):
    values = draw(*shape, seed=1) * 10.0 ** torch.randint(-30, 30, (shape[0], 1, 1), device=DEVICE)
    values[::3] = 0
    with ops.using("reference"):
        expected = ops.unit_rows(values)
    torch.testing.assert_close(kernels_rows.unit_rows(values), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_head_products_and_their_gradients(shape, count):
    rows, vectors = draw(*shape, seed=1), draw(count, *shape[1:], seed=2)
    gradient = draw(count, *shape[:2], seed=3)
    actual = kernels_rows.head_products(rows, vectors)
    leaves = [rows.double().requires_grad_(), vectors.double().requires_grad_()]
    expected = torch.einsum("nhu,vhu->vnh", *leaves)
    torch.testing.assert_close(actual.double(), expected.detach(), rtol=1e-4, atol=1e-4)
    for got, wanted in zip(
        kernels_rows.head_products_backward(gradient, rows, vectors),
        torch.autograd.grad((expected * gradient).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 255, 256, 257, 1000])
@pytest.mark.parametrize("heads", [1, 3, 4])
def test_scaling_between(rows, heads):
    values, peak = draw(rows, heads, seed=1), draw(heads, seed=2)
    values[:, 0] = 0.3  # equal densities
    with ops.using("reference"):
        expected = ops.scale_between(values, peak, 1e-5)
    torch.testing.assert_close(kernels_rows.scale_density(values, peak, 1e-5), expected)
