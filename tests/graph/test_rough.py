import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dahgnn.graph import exact
from dahgnn.graph.nearest import knn, nearest
from dahgnn.graph.rough import RoughBounds
from dahgnn.kernels.cpu import launch as cpu_kernels


def all_bounds(points: torch.Tensor, among: int, scale: float = 1.0) -> torch.Tensor:
    """The bounds of all points and of the first ones, each in its place; zero for a point itself."""
    rows = torch.arange(len(points))
    values, others = RoughBounds(points, among, scale).lowest(rows, among - 1)
    bounds = torch.zeros(len(points), among, dtype=torch.float64)
    bounds.scatter_(1, others, values)
    assert (values.diff(dim=1) >= 0).all()
    return bounds


def true_squares(points: torch.Tensor, among: int) -> torch.Tensor:
    points = points.double()
    return torch.stack([(point - points[:among]).square().sum(1) for point in points])


@settings(max_examples=20)
@given(seed=st.integers(0, 100), d=st.integers(1, 90), offset=st.sampled_from([0.0, 3.0, -1e4]))
def test_rough_bounds_are_lower_bounds(seed, d, offset):
    points = torch.randn(60, d, generator=torch.Generator().manual_seed(seed)) + offset
    squares = true_squares(points, 60)
    for some in (points, points.double()):
        bounds = all_bounds(some, 60)
        assert (bounds <= squares).all()
        # … and not so low that they would be of no use.
        lengths = (points - points.mean(0)).double().square().sum(1)
        assert (bounds >= squares - 0.05 * (lengths[:, None] + lengths)).all()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e25])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
def test_rough_bounds_hold_for_rows_of_very_different_length(scale, spread):
    points = torch.randn(64, 9, generator=torch.Generator().manual_seed(11))
    points = (points * torch.logspace(-6, 3, 64)[:, None] * spread + 1) * scale
    assert (all_bounds(points, 50) <= true_squares(points, 50)).all()


def test_columns_that_are_the_same_everywhere_take_no_room():
    points = torch.randn(80, 6, generator=torch.Generator().manual_seed(3))
    wider = torch.zeros(80, 9)
    wider[:, [0, 2, 3, 5, 6, 8]], wider[:, 4], wider[:, 7] = points, 1e6, 0.1
    assert torch.equal(all_bounds(wider, 80), all_bounds(points, 80))


def looked_at(monkeypatch) -> list[int]:
    """How many rows each list of rough bounds is for, from now on."""
    monkeypatch.setattr(exact, "multiplies_pairs", lambda _: True)
    rows, listed = [], exact.ExhaustiveSearch._list_roughly
    monkeypatch.setattr(
        exact.ExhaustiveSearch,
        "_list_roughly",
        lambda search, some, times: rows.append(len(some)) or listed(search, some, times),
    )
    return rows


# With equal points and ties, in one cluster or many, and so near each other that rough bounds tell nothing.
@pytest.mark.parametrize("kind", ["normal", "whole numbers", "clusters", "one line", "equal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_search_with_rough_bounds_finds_the_same(kind, dtype, monkeypatch):
    generator = torch.Generator().manual_seed(7)
    points = torch.randn(700, 40, generator=generator, dtype=dtype)
    if kind == "whole numbers":
        points = points.round()
        points[300:330] = points[0]
    elif kind == "clusters":
        points = 1e-4 * points + 10 * points[torch.randint(5, (700,), generator=generator)]
    elif kind == "one line":
        points = torch.linspace(0, 1, 700, dtype=dtype)[:, None] * points[0]
    elif kind == "equal":
        points = points[torch.randint(3, (700,), generator=generator)]
    monkeypatch.setattr(exact, "multiplies_pairs", lambda _: False)
    expected = knn(points, 5), nearest(points[:90], points[90:], 6)
    rows = looked_at(monkeypatch)
    found = knn(points, 5), nearest(points[:90], points[90:], 6)
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine.indices, theirs.indices)
        assert torch.equal(mine.distances, theirs.distances)
    assert (max(rows) == 700) == (kind in ("normal", "whole numbers"))


def test_rows_that_rough_bounds_leave_open_get_a_longer_list(monkeypatch):
    points = torch.randn(900, 40, generator=torch.Generator().manual_seed(1))
    points[100:150] = points[17] + 1e-5 * points[100:150]  # more than are listed at first
    monkeypatch.setattr(exact, "multiplies_pairs", lambda _: False)
    expected = knn(points, 3)
    rows = looked_at(monkeypatch)
    found = knn(points, 3)
    assert torch.equal(found.indices, expected.indices)
    assert torch.equal(found.distances, expected.distances)
    assert rows[-2] == 900
    assert 51 <= rows[-1] < 100


def test_few_columns_or_points_have_no_rough_bounds(monkeypatch):
    rows = looked_at(monkeypatch)
    knn(torch.randn(500, 31, generator=torch.Generator().manual_seed(2)), 3)
    knn(torch.randn(80, 40, generator=torch.Generator().manual_seed(2)), 3)
    assert rows == []


@pytest.mark.skipif(cpu_kernels.library() is None, reason="the kernels were not built")
def test_the_processor_decides_whether_bounds_are_rough():
    points = torch.zeros(1)
    library = cpu_kernels.library()
    try:
        library.dahgnn_level(1)  # which has no such instruction
        assert not exact.multiplies_pairs(points)
    finally:
        library.dahgnn_level(2)
    assert exact.multiplies_pairs(points) == bool(library.dahgnn_multiplies_pairs())
