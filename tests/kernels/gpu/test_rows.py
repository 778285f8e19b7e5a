"""Each row-wise GPU kernel against plain PyTorch."""

import pytest
import torch
from message_cases import DEVICE, needs_kernels

from dahgnn import Hypergraph
from dahgnn.kernels.gpu import rows as kernels_rows
from dahgnn.kernels.incidence import Segments

pytestmark = needs_kernels


def draw(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def dense_sum(values, segments, source_scale, target_scale):
    """The product with the matrix of ones, between the diagonal matrices."""
    matrix = torch.zeros(len(segments), len(values), dtype=torch.float64, device=DEVICE)
    places = segments.owners(), segments.indices
    matrix.index_put_(places, torch.ones((), dtype=torch.float64, device=DEVICE), accumulate=True)
    source = 1 if source_scale is None else source_scale.double()
    target = 1 if target_scale is None else target_scale.double().unsqueeze(1)
    return target * ((matrix * source) @ values.double())


@pytest.mark.parametrize(
    ("width", "scaled"),
    [
        (1, (False, True)),
        (4, (True, True)),
        (10, (False, False)),
        (32, (True, True)),
        (33, (True, False)),
        (130, (True, True)),
        (320, (True, True)),
        (784, (False, False)),
    ],
)
def test_sums_over_segments(width, scaled):
    generator = torch.Generator().manual_seed(0)
    lists = [torch.randint(0, 90, (size,), generator=generator) for size in (1, 16, 17, 90, 3)]
    hypergraph = Hypergraph.from_hyperedges(lists, n_nodes=101, cover_isolated=False).to(DEVICE)
    for segments in (hypergraph.by_hyperedge, hypergraph.by_node):
        other = hypergraph.n_nodes if segments is hypergraph.by_hyperedge else hypergraph.n_hyperedges
        values, sizes = draw(other, width, seed=1), (other, len(segments))
        scales = [draw(size, seed=2) if wanted else None for size, wanted in zip(sizes, scaled, strict=True)]
        expected = dense_sum(values, segments, *scales)
        actual = kernels_rows.gather_sum(values, segments, *scales)
        torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_over_long_segments_and_of_views(dtype):
    lengths = torch.tensor([0, 2000, 3, 0, 65, 64])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    indices = torch.randint(50, (int(offsets[-1]),), generator=torch.Generator().manual_seed(3))
    segments = Segments(offsets, indices).to(DEVICE)
    values = draw(7, 50, seed=1, dtype=dtype).t()
    actual = kernels_rows.gather_sum(values, segments, None, None)
    torch.testing.assert_close(actual.double(), dense_sum(values, segments, None, None), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("rows", "groups", "inner", "outer"),
    [
        (1, 1, 1, 1),
        (300, 1, 32, 10),
        (130, 10, 32, 10),
        (130, 10, 32, 1),
        (65, 40, 8, 1),
        (70, 3, 128, 10),
        (33, 2, 100, 1),
        (64, 2, 7, 2),
        (20, 2, 130, 33),
        (5, 2, 3, 200),
    ],
)
def test_grouped_products_and_their_gradients(rows, groups, inner, outer, dtype):
    left, right = (
        draw(rows, groups, inner, seed=1, dtype=dtype),
        draw(groups, inner, outer, seed=2, dtype=dtype),
    )
    gradient = draw(rows, groups, outer, seed=3, dtype=dtype)
    check_product(left, right, gradient)


def check_product(left, right, gradient):
    leaves = [left.double().requires_grad_(), right.double().requires_grad_()]
    expected = torch.einsum("ngi,gio->ngo", *leaves)
    actual = kernels_rows.grouped_product(left, right)
    gradients = kernels_rows.grouped_product_backward(gradient, left, right)
    tolerance = 1e-5 if left.dtype == torch.float32 else 1e-12
    for got, wanted in zip(
        (actual, *gradients),
        (expected.detach(), *torch.autograd.grad(expected, leaves, gradient.double())),
        strict=True,
    ):
        assert got.dtype == left.dtype
        torch.testing.assert_close(
            got.double(), wanted, rtol=tolerance, atol=tolerance * float(wanted.abs().max())
        )


@pytest.mark.parametrize("outer", [1, 10])
def test_grouped_products_of_views(outer):
    left = draw(12, 3, 70, seed=1).permute(2, 1, 0)  # (70, 3, 12)
    right = draw(outer, 12, 3, seed=2).permute(2, 1, 0)
    gradient = draw(1, 3, outer, seed=3).expand(70, 3, outer)
    check_product(left, right, gradient)


@pytest.mark.parametrize("outer", [1, 10])
def test_programs_that_take_several_blocks_sum_all_rows(outer, monkeypatch):
    monkeypatch.setattr(kernels_rows, "_PROGRAMS", 2)
    check_product(draw(700, 2, 8, seed=1), draw(2, 8, outer, seed=2), draw(700, 2, outer, seed=3))


def test_the_same_bits_twice():
    left, right, gradient = draw(700, 2, 8, seed=1), draw(2, 8, 10, seed=2), draw(700, 2, 10, seed=3)
    for first, second in zip(
        kernels_rows.grouped_product_backward(gradient, left, right),
        kernels_rows.grouped_product_backward(gradient, left, right),
        strict=True,
    ):
        assert torch.equal(first, second)
