"""Dropout by counters: the kernel and its plain twin drop the same units, as many as asked for."""

import numpy as np
import pytest
import torch

from dahgnn.kernels.cpu import launch
from dahgnn.ops.backend import using
from dahgnn.ops.dropout import Mask, drop_units, keeps, philox

needs_kernels = pytest.mark.skipif(launch.library() is None, reason="the CPU kernels are not built")


def mask(*seeds: int, epoch: int = 0, site: int = 0, rate: float = 0.5) -> Mask:
    return Mask(torch.tensor(seeds), torch.full((len(seeds),), epoch), site, rate)


def test_philox_gives_the_published_numbers() -> None:
    # Known answers of Random123 for philox4x32-10 (Salmon et al., 2011), counter and key all zeros.
    words = philox(torch.zeros(1, dtype=torch.int64), 0, 0, 0)
    assert [f"{word:08x}" for word in words[0].tolist()] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


@needs_kernels
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 1, 5), (300, 3, 8), (5000, 1, 64), (40, 2, 33)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.73])
def test_the_kernel_drops_what_its_twin_drops(
    shape: tuple[int, int, int], dtype: torch.dtype, rate: float
) -> None:
    values = torch.randn(shape, dtype=dtype)
    chosen = mask(*range(3, 3 + shape[1]), epoch=9, site=2, rate=rate)
    with using("kernel"):
        got = drop_units(values, chosen)
    with using("reference"):
        expected = drop_units(values, chosen)
    assert torch.equal(got == 0, expected == 0)
    torch.testing.assert_close(got, expected)


@needs_kernels
@pytest.mark.parametrize("seed", [0, 2**31 - 1, 2**40 + 5])
def test_levels_of_the_processor_agree(seed: int) -> None:
    values = torch.ones(257, 2, 24)
    results = []
    library = launch.library()
    assert library is not None
    before = library.dahgnn_level(-1)
    try:
        for level in range(before + 1):
            library.dahgnn_level(level)
            results.append(drop_units(values, mask(seed, seed + 1)))
    finally:
        library.dahgnn_level(before)
    assert all(torch.equal(each, results[0]) for each in results)


def test_as_many_units_fall_as_asked_for() -> None:
    for rate in (0.1, 0.5, 0.9):
        kept = keeps(mask(1, rate=rate), 2000, 50).double().mean().item()
        assert kept == pytest.approx(1 - rate, abs=4 * np.sqrt(rate * (1 - rate) / 100_000))


def test_seeds_epochs_and_sites_drop_independently() -> None:
    first = keeps(mask(1), 1000, 16)
    for other in (mask(2), mask(1, epoch=1), mask(1, site=1)):
        equal = (keeps(other, 1000, 16) == first).double().mean().item()
        assert equal == pytest.approx(0.5, abs=0.02)


def test_the_gradient_passes_where_values_do() -> None:
    values = torch.randn(30, 2, 6, dtype=torch.float64, requires_grad=True)
    result = drop_units(values, mask(4, 5, rate=0.3))
    (gradient,) = torch.autograd.grad(result.sum(), values)
    assert torch.equal(gradient == 0, result == 0)
    torch.testing.assert_close(gradient.unique(), torch.tensor([0, 1 / 0.7], dtype=torch.float64))


def test_everything_may_fall() -> None:
    assert not drop_units(torch.full((4, 1, 3), torch.inf), mask(0, rate=1.0)).any()


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("units", [1, 8, 13, 64])
def test_some_of_many_rows_lose_what_they_lose_among_all(backend: str, units: int) -> None:
    values, numbers = torch.ones(90, 2, units), torch.tensor([71, 3, 3, 0, 89])
    whole = mask(4, 5, epoch=2, site=1)
    with using(backend):
        expected = drop_units(values, whole)[numbers]
        assert torch.equal(drop_units(values[numbers], whole._replace(numbers=numbers)), expected)
