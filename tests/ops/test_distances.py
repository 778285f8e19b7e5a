import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.ops import distances as module
from dahgnn.ops.backend import using
from dahgnn.ops.distances import squared_distances

built = pytest.mark.skipif(cpu_kernels.library() is None, reason="the kernels were not built")


def make_pairs(rows: int, width: int, dtype: torch.dtype, count: int = 200):
    generator = torch.Generator().manual_seed(rows * width)
    points = torch.randn(rows, width, generator=generator, dtype=dtype)
    return points, *torch.randint(0, rows, (2, count), generator=generator)


@given(width=st.integers(1, 150), rows=st.integers(0, 5))
def test_the_order_of_summation_is_fixed(width, rows):
    terms = torch.rand(rows, width, generator=torch.Generator().manual_seed(width), dtype=torch.float64)
    expected = []
    for row in terms.tolist():
        while len(row) > 1:
            half = (len(row) + 1) // 2
            row = [low + high for low, high in zip(row, [*row[half:], 0.0], strict=False)][:half]
        expected.append(row[0])
    assert module._fold(terms).tolist() == expected


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_distance_is_the_sum_of_squared_differences(backend, scale):
    points, here, there = make_pairs(40, 33, torch.float64)
    with using(backend):
        found = squared_distances(points, here, there, scale)
    expected = (scale * (points[here] - points[there])).square().sum(1)
    torch.testing.assert_close(found, expected)


@built
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (5, 2), (9, 3), (50, 15), (50, 16), (80, 17), (70, 785)])
def test_the_kernel_gives_the_bits_of_its_twin(rows, width, level, dtype):
    points, here, there = make_pairs(rows, width, dtype, count=3000)
    try:
        cpu_kernels.library().dahgnn_level(level)
        actual = squared_distances(points, here, there, 0.5)
    finally:
        cpu_kernels.library().dahgnn_level(2)
    with using("reference"):
        assert torch.equal(actual, squared_distances(points, here, there, 0.5))


@built
def test_the_kernel_takes_views_and_no_pairs():
    points, here, there = make_pairs(30, 24, torch.float32)
    view = points[:, ::2]
    with using("reference"):
        expected = squared_distances(view, here[::3], there[::3])
    assert torch.equal(squared_distances(view, here[::3], there[::3]), expected)
    assert squared_distances(points, here[:0], there[:0]).shape == (0,)
