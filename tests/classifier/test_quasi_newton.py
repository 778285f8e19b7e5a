"""The compact matrix beside the update of the inverse Hessian as Nocedal wrote it, and on a quadratic function."""

import torch

from dahgnn.classifier import quasi_newton as module
from dahgnn.classifier.quasi_newton import InverseHessian

PROBLEMS, SIZE = 3, 25


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_updates(curvature, pairs):
    """H ← (I − s yᵀ / sᵀy) H (I − y sᵀ / sᵀy) + s sᵀ / sᵀy over the last pairs, from γC on: one problem."""
    step, change = pairs[-1]
    size = step @ change / (change @ (curvature * change)) if step @ change > 0 else 1.0
    matrix, eye = size * curvature.diag(), torch.eye(SIZE, dtype=torch.float64)
    for step, change in (pair for pair in pairs if pair[0] @ pair[1] > 0):
        product = step @ change
        left = eye - torch.outer(step, change) / product
        matrix = left @ matrix @ left.T + torch.outer(step, step) / product
    return matrix


def test_it_is_the_matrix_of_the_updates():
    """More pairs than are remembered, some of them on a way up, which teach nothing."""
    curvature = draw(PROBLEMS, SIZE).abs() + 0.1
    inverse, gradient = InverseHessian(curvature), draw(PROBLEMS, SIZE, seed=1)
    torch.testing.assert_close(inverse.apply(gradient), curvature * gradient)
    pairs = []
    for number in range(3 * module._MEMORY + 1):
        step = draw(PROBLEMS, SIZE, seed=2 + number)
        change = step + 0.3 * draw(PROBLEMS, SIZE, seed=100 + number)
        if number % 7 == 3:
            change[1] *= -1
        inverse.remember(step, change)
        pairs.append((step, change))
        found = inverse.apply(gradient)
        for problem in range(PROBLEMS):
            own = [(each[0][problem], each[1][problem]) for each in pairs[-module._MEMORY :]]
            expected = by_updates(curvature[problem], own) @ gradient[problem]
            torch.testing.assert_close(found[problem], expected, rtol=1e-8, atol=1e-10)


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
