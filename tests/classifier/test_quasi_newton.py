"""The compact matrix beside the update of the inverse Hessian as Nocedal wrote it, and on a quadratic function."""

import torch

from dahgnn.classifier import quasi_newton as module
from dahgnn.classifier.quasi_newton import InverseHessian

PROBLEMS, SIZE = 3, 25


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_updates(curvature, pairs):
    """H ← (I − s yᵀ / sᵀy) H (I − y sᵀ / sᵀy) + s sᵀ / sᵀy over the last pairs, from γC on: one problem."""
    if not pairs:
        return curvature.diag()
    step, change = pairs[-1]
    matrix = (step @ change / (change @ (curvature * change)) * curvature).diag()
    eye = torch.eye(SIZE, dtype=torch.float64)
    for step, change in pairs:
        product = step @ change
        left = eye - torch.outer(step, change) / product
        matrix = left @ matrix @ left.T + torch.outer(step, step) / product
    return matrix


def test_it_is_the_matrix_of_the_updates():
    """More pairs than are remembered. On a way up, or without a step, nothing is learned or forgotten."""
    curvature = draw(PROBLEMS, SIZE).abs() + 0.1
    inverse, gradient = InverseHessian(curvature), draw(PROBLEMS, SIZE, seed=1)
    torch.testing.assert_close(inverse.apply(gradient), curvature * gradient)
    pairs = [[] for _ in range(PROBLEMS)]
    for number in range(3 * module._MEMORY + 1):
        step = draw(PROBLEMS, SIZE, seed=2 + number)
        change = step + 0.3 * draw(PROBLEMS, SIZE, seed=100 + number)
        if number % 4 == 0:
            change[1] *= -1
        if number % 3 == 0:
            step[2] = change[2] = 0
        inverse.remember(step, change)
        found = inverse.apply(gradient)
        for problem, own in enumerate(pairs):
            if step[problem] @ change[problem] > 0:
                own.append((step[problem], change[problem]))
            expected = by_updates(curvature[problem], own[-module._MEMORY :]) @ gradient[problem]
            torch.testing.assert_close(found[problem], expected, rtol=1e-8, atol=1e-10)
    assert len({len(own) for own in pairs}) == PROBLEMS


def test_some_of_the_problems_go_on_as_among_all():
    inverse, gradient = InverseHessian(torch.ones(PROBLEMS, SIZE)), draw(PROBLEMS, SIZE).float()
    step = draw(PROBLEMS, SIZE, seed=1).float()
    inverse.remember(step, 2 * step + 0.1)
    some = torch.tensor([True, False, True])
    few = inverse.take(some)
    for each, chosen in ((inverse, slice(None)), (few, some)):
        each.remember(step.flip(1)[chosen], step.flip(1)[chosen] + 0.1)
    torch.testing.assert_close(few.apply(gradient[some]), inverse.apply(gradient)[some])


def test_what_is_no_number_teaches_nothing():
    inverse, gradient = InverseHessian(torch.ones(1, SIZE)), draw(1, SIZE).float()
    step = draw(1, SIZE, seed=1).float()
    inverse.remember(step, step * float("nan"))
    torch.testing.assert_close(inverse.apply(gradient), gradient)
