import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import normal

from dahgnn.kernels.cpu import launch as cpu_kernels
from dahgnn.ops.backend import lowest_kernel_for, using
from dahgnn.ops.lowest import lowest_products, pack_points

built = pytest.mark.skipif(cpu_kernels.library() is None, reason="the kernels were not built")


def draw(rows: int, points: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and points of whole numbers, whose products are exact, so that many of them tie."""
    generator = torch.Generator().manual_seed(rows + points * width)
    return tuple(
        torch.randint(-3, 4, (count, width), generator=generator).to(torch.bfloat16)
        for count in (rows, points)
    )


def by_sorting(rows, points, length, left_out) -> tuple[list[list[float]], list[list[int]]]:
    """One row and point at a time: sort all products, then the numbers of the points."""
    products, numbers = [], []
    for i, row in enumerate(rows.double().tolist()):
        pairs = [
            (sum(a * b for a, b in zip(row, point, strict=True)), j)
            for j, point in enumerate(points.double().tolist())
            if left_out is None or j != left_out[i]
        ]
        products.append([product for product, _ in sorted(pairs)[:length]])
        numbers.append([number for _, number in sorted(pairs)[:length]])
    return products, numbers


@pytest.mark.parametrize("backend", ["reference", "auto"])
@settings(max_examples=30)
@given(
    rows=st.integers(1, 27),
    points=st.integers(2, 70),
    width=st.integers(1, 5).map(lambda half: 2 * half),
    data=st.data(),
)
def test_the_lowest_products_are_those_of_a_sorted_list(backend, rows, points, width, data):
    some, them = draw(rows, points, width)
    length = data.draw(st.integers(1, points - 1))
    numbers = st.integers(-1, points + 40)
    left_out = data.draw(st.none() | st.lists(numbers, min_size=rows, max_size=rows))
    with using(backend):
        found = lowest_products(
            some, pack_points(them), points, length, None if left_out is None else torch.tensor(left_out)
        )
    expected = by_sorting(some, them, length, left_out)
    assert (found[0].tolist(), found[1].tolist()) == expected


@built
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("rows", "points", "width", "length"),
    [(1, 1, 2, 1), (5, 33, 6, 33), (13, 1000, 18, 40), (500, 700, 200, 3), (250, 64, 1500, 64)],
)
def test_the_kernel_gives_what_its_twin_does(rows, points, width, length, level):
    some, them = normal(rows, width, seed=1).bfloat16(), normal(points, width, seed=2).bfloat16()
    panels = pack_points(them)
    try:
        cpu_kernels.library().dahgnn_level(level)
        actual = lowest_products(some, panels, points, length)
    finally:
        cpu_kernels.library().dahgnn_level(2)
    with using("reference"):
        expected = lowest_products(some, panels, points, length)
    # Sums of other orders are rounded otherwise, and products that are nearly equal may change places.
    near = {"rtol": 1e-5, "atol": 1e-5 * width}
    torch.testing.assert_close(actual[0], expected[0], **near)
    theirs = (some.double() @ them.double().T).gather(1, actual[1]).float()
    torch.testing.assert_close(actual[0], theirs, **near)
    assert all(len(set(each)) == length for each in actual[1].tolist())


@built
def test_the_number_of_threads_changes_no_product():
    some, them = normal(3000, 40, seed=3).bfloat16(), normal(900, 40, seed=4).bfloat16()
    panels, before = pack_points(them), torch.get_num_threads()
    found = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        found.append(lowest_products(some, panels, 900, 20))
    torch.set_num_threads(before)
    assert all(torch.equal(*each) for later in found[1:] for each in zip(found[0], later, strict=True))


@built
def test_the_reference_has_no_kernel():
    rows = torch.zeros(1, 2, dtype=torch.bfloat16)
    assert lowest_kernel_for(rows) is cpu_kernels.lowest_products
    with using("reference"):
        assert lowest_kernel_for(rows) is None
