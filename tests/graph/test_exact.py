import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dahgnn.graph import exact as module
from dahgnn.graph.neighbours import knn, nearest


def brute_force(points, k: int) -> list[list[int]]:
    """Sort all others by distance, then by index: one node at a time, in float64."""
    points = np.asarray(points, dtype=np.float64)
    found = []
    for i, point in enumerate(points):
        squares = [(float(((point - other) ** 2).sum()), j) for j, other in enumerate(points) if j != i]
        found.append([j for _, j in sorted(squares)[:k]])
    return found


def points_of(draw_from, most_rows=14, most_columns=4):
    shape = st.tuples(st.integers(2, most_rows), st.integers(1, most_columns))
    return shape.flatmap(
        lambda size: st.lists(
            st.lists(draw_from, min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0]
        )
    )


# Small integers give many equal rows and many ties, all of them exact.
@given(points=points_of(st.integers(-2, 2)), data=st.data())
def test_ties_go_to_the_lower_index(points, data):
    k = data.draw(st.integers(1, len(points) - 1))
    for dtype in (np.float32, np.float64):
        assert knn(np.array(points, dtype), k).indices.tolist() == brute_force(points, k)


@given(points=points_of(st.floats(-1e3, 1e3, width=32)), data=st.data(), tile=st.integers(1, 20))
def test_neighbours_equal_a_brute_force_search_for_any_tile(points, data, tile):
    k = data.draw(st.integers(1, len(points) - 1))
    points = np.array(points, np.float32)
    assert knn(points, k, tile=tile).indices.tolist() == brute_force(points, k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "d", "k"), [(2, 1, 1), (97, 5, 10), (300, 40, 299), (500, 64, 7)])
def test_random_points(n, d, k, dtype):
    points = torch.randn(n, d, dtype=dtype, generator=torch.Generator().manual_seed(n))
    before = points.clone()
    found = knn(points, k)
    assert torch.equal(points, before)
    assert found.indices.tolist() == brute_force(points, k)
    expected = (points[:, None].double() - points[found.indices].double()).square().sum(-1).sqrt()
    torch.testing.assert_close(found.distances, expected.to(dtype))
    assert found.distances.dtype == dtype


@pytest.mark.parametrize("tile", [1, 7, 64, 299, 300, 1000])
def test_the_tile_never_changes_a_bit(tile):
    points = torch.randn(300, 33, generator=torch.Generator().manual_seed(1)).round(decimals=1)
    reference, tiled = knn(points, 12), knn(points, 12, tile=tile)
    assert torch.equal(reference.indices, tiled.indices)
    assert torch.equal(reference.distances, tiled.distances)


# 16 columns of whole numbers: nearly every row has ties, at the k-th place too.
@pytest.mark.parametrize("k", [1, 10, 95, 98])
@pytest.mark.parametrize("tile", [1, 97, 130])
def test_ties_in_many_tiles_and_a_last_one_that_is_not_full(k, tile):
    points = torch.randint(0, 2, (99, 16), generator=torch.Generator().manual_seed(k)).float()
    points[40:50] = points[0]
    assert knn(points, k, tile=tile).indices.tolist() == brute_force(points, k)


@pytest.mark.parametrize("order", [False, True])
def test_rows_in_the_order_of_their_length(order):
    points = torch.randn(400, 30, generator=torch.Generator().manual_seed(9))
    points *= torch.rand(400, 1, generator=torch.Generator().manual_seed(10))
    points = points[points.norm(dim=1).argsort(descending=order)]
    assert knn(points, 6, tile=1).indices.tolist() == brute_force(points, 6)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7])
def test_a_large_common_offset_costs_no_neighbour(offset):
    points = (torch.randn(200, 8, generator=torch.Generator().manual_seed(2)) + offset).float()
    assert knn(points, 5).indices.tolist() == brute_force(points, 5)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (1e-30, torch.float32),
        (1e30, torch.float32),
        (1e38, torch.float32),
        (1e-250, torch.float64),
        (1e140, torch.float64),
    ],
)
def test_squares_neither_overflow_nor_vanish(scale, dtype):
    points = torch.randn(100, 4, generator=torch.Generator().manual_seed(3), dtype=dtype).clamp(-1, 1)
    found = knn(points * scale, 5)
    assert found.indices.tolist() == brute_force((points * scale).double() / scale, 5)
    assert found.distances.isfinite().all()
    assert (found.distances > 0).all()


def test_a_wide_range_costs_no_neighbour():
    assert knn([[0.0], [5.0], [1.0], [1e140]], 1).indices.tolist() == [[2], [2], [0], [0]]
    assert knn(np.array([[0], [5], [1], [3e38]], np.float32), 1).indices.tolist() == [[2], [2], [0], [0]]
    assert knn([[5e-324], [0.0], [1.5e-323]], 1).indices.tolist() == [[1], [0], [0]]


def test_features_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match=r"at most 1e\+150 in size. Got 1e\+200. Scale them first"):
        knn([[0.0], [5.0], [1.0], [1e200]], 1)


def test_many_equal_rows_among_others():
    points = torch.randn(600, 3, generator=torch.Generator().manual_seed(8))
    points[torch.arange(0, 600, 2)] = 0.25
    assert knn(points, 5).indices.tolist() == brute_force(points, 5)


def test_an_outlier_costs_no_neighbour():
    points = torch.randn(200, 8, generator=torch.Generator().manual_seed(4))
    points[17] = 1e6
    assert knn(points, 5).indices.tolist() == brute_force(points, 5)


def test_equal_points_list_the_lowest_others():
    found = knn(torch.full((50, 3), 0.1), 3)
    assert found.indices[:5].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2]]
    assert (found.distances == 0).all()


@settings(max_examples=10)
@given(seed=st.integers(0, 100))
def test_lower_bounds_are_lower_bounds(seed):
    points = torch.randn(60, 50, generator=torch.Generator().manual_seed(seed)) + 3
    squares = torch.cdist(points.double(), points.double()).square()
    for dtype in (torch.float32, torch.float64):
        found = module._LowerBounds(points, dtype, 1.0)
        bounds = found.tile(found.left(torch.arange(60)), 0, 64).double() / found.shrink**2
        assert (bounds[:, 60:] == torch.inf).all()
        bounds = bounds[:, :60].fill_diagonal_(-1)
        assert (bounds <= squares).all()
        # … and not so low that they would be of no use.
        assert (bounds >= squares - 0.1).fill_diagonal_(True).all()


def test_columns_that_are_the_same_everywhere_are_no_part_of_the_product():
    points = torch.randn(80, 6, generator=torch.Generator().manual_seed(3))
    wider = torch.zeros(80, 9)
    wider[:, [0, 2, 3, 5, 6, 8]], wider[:, 4], wider[:, 7] = points, 1e6, 0.1
    found, expected = (module._LowerBounds(each, torch.float32, 1.0) for each in (wider, points))
    assert torch.equal(found.right, expected.right)
    assert knn(wider, 7).indices.tolist() == brute_force(points, 7)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e15])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1e3])
def test_lower_bounds_hold_for_rows_of_very_different_length(scale, spread):
    points = torch.randn(64, 9, generator=torch.Generator().manual_seed(11))
    points = (points * torch.logspace(0, 6, 64)[:, None] * spread + 1) * scale
    squares = torch.cdist(
        points.double(), points.double(), compute_mode="donot_use_mm_for_euclid_dist"
    ).square()
    for dtype in (torch.float32, torch.float64):
        found = module._LowerBounds(points, dtype, 1.0)
        bounds = found.tile(found.left(slice(0, 64)), 0, 64).double() / found.shrink**2
        assert (bounds <= squares).all()


@given(
    # Few values give ties within and between the tiles; all of one column is lower than the rest.
    values=st.lists(st.integers(0, 9), min_size=8, max_size=8),
    length=st.integers(1, 100),
    step=st.sampled_from([32, 64, 192]),
    flipped=st.booleans(),
    falling=st.booleans(),
)
def test_a_shortlist_holds_the_lowest_bounds(values, length, step, flipped, falling):
    generator = torch.Generator().manual_seed(sum(values))
    bounds = torch.tensor(values, dtype=torch.float32)[torch.randint(8, (96, 192), generator=generator)]
    if falling:  # the worst order: each tile replaces all that was found before
        bounds = bounds - torch.arange(192)
    bounds[torch.arange(96), torch.arange(96)] = torch.inf
    found = module._Shortlist(96, length, bounds)
    for start in range(0, 192, step):
        tile = bounds[:, start : start + step].contiguous()
        for row in (0, 32, 64):
            some = tile[row : row + 32]
            found.offer(row, some.T.contiguous().T if flipped else some, start)
    assert torch.equal(found.values, bounds.sort(1).values[:, :length])
    assert torch.equal(bounds.gather(1, found.columns), found.values)
    assert all(len(set(columns)) == length for columns in found.columns.tolist())


def test_coarse_float32_products_do_not_change_the_result():
    points = torch.randn(150, 20, generator=torch.Generator().manual_seed(5))
    reference = knn(points, 5).indices
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert torch.equal(knn(points, 5).indices, reference)
    finally:
        torch.set_float32_matmul_precision(before)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(knn(points, 5).indices, reference)


def test_a_precision_that_torch_refuses_to_tell_is_taken_for_coarse(monkeypatch):
    def refuse():
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    assert module.working_precision(torch.float32) == torch.float64
    assert knn([[0.0], [1.0], [3.0]], 1).indices.tolist() == [[1], [0], [1]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_device_never_changes_a_neighbour(dtype):
    points = torch.randn(3000, 50, dtype=dtype, generator=torch.Generator().manual_seed(6)).round(decimals=1)
    reference, found = knn(points, 10), knn(points.cuda(), 10)
    assert torch.equal(reference.indices, found.indices.cpu())
    # The squares are equal to the bit; devices round their roots differently.
    torch.testing.assert_close(
        reference.distances, found.distances.cpu(), rtol=1e-15 if dtype.itemsize == 8 else 0, atol=0
    )


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_nearest_points_of_queries_are_those_of_brute_force(data):
    n, q, d = (data.draw(st.integers(1, most)) for most in (60, 40, 5))
    k = data.draw(st.integers(1, n))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**16)))
    # Few values: many ties, and queries that are points.
    points, queries = (torch.randint(0, 3, (rows, d), generator=generator).double() for rows in (n, q))
    found = nearest(queries, points, k, tile=data.draw(st.sampled_from([None, 16, 40])))
    distances = (queries.unsqueeze(1) - points).square().sum(-1).sqrt()
    values, indices = distances.sort(dim=1, stable=True)
    assert torch.equal(found.indices, indices[:, :k])
    torch.testing.assert_close(found.distances, values[:, :k])
