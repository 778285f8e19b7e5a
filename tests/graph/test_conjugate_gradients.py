"""Conjugate gradients, also by steps in place as a CUDA device replays them, beside a dense solution."""

import logging

import pytest
import torch

from dahgnn.graph import conjugate_gradients as module
from dahgnn.graph.conjugate_gradients import CapturedSolver, can_capture, solve

N, PROBLEMS, CLASSES = 30, 3, 4
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
PRECISIONS = [(torch.float64, 1e-4), (torch.float32, 1e-3)]


def make_spread(dtype=torch.float64, device="cpu") -> torch.Tensor:
    """D^(-1/2) W D^(-1/2) of a random graph, whose eigenvalues are between −1 and 1."""
    weights = torch.rand(N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tril(-1)
    weights = weights + weights.T
    roots = weights.sum(0).sqrt()
    return (weights / roots / roots[:, None]).to(device, dtype)


def make_right(seed=0, dtype=torch.float64, device="cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    right = torch.randn(N, PROBLEMS, CLASSES, generator=generator, dtype=torch.float64)
    right[:, 1, 2] = 0  # which is solved before the first step
    return right.to(device, dtype)


def solve_densely(spread, right, strength, fixed=None):
    """Solve each problem by itself, its fixed rows without the others."""
    solved = torch.zeros_like(right)
    for problem in range(right.shape[1]):
        system = (1 + strength) * torch.eye(N).to(spread) - spread
        if fixed is not None:
            rows = fixed[0][fixed[1] == problem]
            system[rows] = (1 + strength) * torch.eye(N).to(spread)[rows]
        solved[:, problem] = torch.linalg.solve(system, right[:, problem])
    return solved


def multiply_with(spread):
    return lambda vectors: (spread @ vectors.flatten(1)).view_as(vectors)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("strength", [0.05, 2.0])
def test_it_solves_each_system(strength, dtype, tolerance, device):
    spread, right = make_spread(dtype, device), make_right(dtype=dtype, device=device)
    product = multiply_with(spread)
    expected = solve_densely(spread, right, strength)
    found = solve(lambda vectors, _: (1 + strength) * vectors - product(vectors), right)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_steps_in_place_solve_one_system_after_the_other(dtype, tolerance, device):
    """Neither the strength nor the right-hand side nor what is fixed stays from one to the next."""
    spread = make_spread(dtype, device)
    fixed = torch.tensor([[0, 7, 7, 29], [0, 0, 2, 2]], device=device).unbind()
    solver = CapturedSolver(multiply_with(spread), make_right(dtype=dtype, device=device))
    for seed, (strength, some) in enumerate([(0.05, None), (2.0, fixed), (0.0, fixed), (0.05, None)]):
        right = make_right(seed, dtype, device)
        if some is not None:
            right[some] = 0
        if strength == 0.0:
            right[:, 1] = 0  # nothing is fixed there, so that the system has no inverse
        expected = solve_densely(spread, right, max(strength, 1e-9), some)
        before = right.clone()
        found = solver.solve(right, strength, some)
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        assert torch.equal(right, before)


def test_steps_in_place_give_what_the_loop_gives(monkeypatch):
    monkeypatch.setattr(module, "_STEPS_A_LOOK", 1)  # after which the loop looks on the CPU
    spread = make_spread()
    product = multiply_with(spread)
    solver = CapturedSolver(product, make_right())
    found = solver.solve(make_right(), 0.1)
    expected = solve(lambda vectors, _: 1.1 * vectors - product(vectors), make_right())
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("captured", [False, True])
def test_too_few_steps_are_told(captured, monkeypatch, caplog):
    monkeypatch.setattr(module, "_MOST_STEPS", 2)
    monkeypatch.setattr(module, "_STEPS_A_LOOK", 1)
    product = multiply_with(make_spread())
    with caplog.at_level(logging.WARNING):
        if captured:
            CapturedSolver(product, make_right()).solve(make_right(), 0.01)
        else:
            solve(lambda vectors, _: 1.01 * vectors - product(vectors), make_right())
    assert "ended after 2 steps" in caplog.text


def test_large_systems_and_those_on_a_cpu_are_solved_as_they_are(monkeypatch):
    assert not can_capture(make_right())
    if torch.cuda.is_available():
        assert can_capture(make_right(device="cuda"))
        monkeypatch.setattr(module, "_FEW_NUMBERS", 10)
        assert not can_capture(make_right(device="cuda"))
