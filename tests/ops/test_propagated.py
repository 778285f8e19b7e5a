"""Propagated features and their products, against torch's."""

import pytest
import torch
from oracles import assert_close, normal

from dahgnn.ops import propagated
from dahgnn.ops.propagated import PropagatedFeatures


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("zeros", [[], [0, 4], list(range(9))])
def test_propagated_features_are_multiplied_without_their_columns_of_zeros(dtype, zeros):
    features = normal(30, 9).to(dtype)
    features[:, zeros] = 0
    weight = normal(9, 32, seed=1).to(dtype).requires_grad_()
    fixed = PropagatedFeatures(features, lambda rows: 2 * rows[:20])
    assert fixed.matrix.shape == (20, 9 - len(zeros))
    product, expected = fixed @ weight, 2 * features[:20] @ weight
    torch.testing.assert_close(product, expected)
    gradient = normal(20, 32, seed=2).to(dtype)
    gradients = [torch.autograd.grad(each, weight, gradient)[0] for each in (product, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("inner", [8, 9, 11])
def test_a_product_in_parts_is_the_product(inner):
    matrix, weight = normal(5, inner), normal(inner, 3, seed=1)
    assert_close(propagated._split_product(matrix, weight), matrix @ weight)


def test_leading_directions_leave_little_out():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(300, 5, generator=generator) @ torch.randn(5, 90, generator=generator)
    rows += 0.01 * torch.randn(300, 90, generator=generator)
    whole = PropagatedFeatures(rows, lambda values: values)
    fewer = PropagatedFeatures(rows, lambda values: values, leave_out=0.01)
    assert fewer.matrix.shape == (300, 16)
    torch.testing.assert_close(fewer.directions.T @ fewer.directions, torch.eye(16), rtol=1e-5, atol=1e-5)
    weight = torch.randn(90, 32, generator=generator, requires_grad=True)
    products = [each @ weight for each in (whole, fewer)]
    torch.testing.assert_close(*products, rtol=0, atol=0.5)
    slopes = torch.randn(300, 32, generator=generator)
    exact, reduced = (torch.autograd.grad(product, weight, slopes)[0] for product in products)
    # The gradient is the exact one along the directions, and none lies across.
    torch.testing.assert_close(reduced, fewer.directions @ (fewer.directions.T @ exact), rtol=1e-3, atol=1e-2)


def test_directions_that_are_not_much_fewer_are_not_taken():
    rows = torch.randn(200, 40, generator=torch.Generator().manual_seed(0))
    assert PropagatedFeatures(rows, lambda values: values, leave_out=0.01).directions is None


@pytest.mark.parametrize("columns", [1, 63, 64, 65, 150])
def test_any_number_of_columns_is_propagated_in_pieces_of_one_width(columns):
    features = torch.randn(9, columns, generator=torch.Generator().manual_seed(0))
    mixing = torch.randn(5, 9, generator=torch.Generator().manual_seed(1))
    widths = set()

    def propagate(rows):
        widths.add(rows.shape[1])
        return mixing @ rows

    torch.testing.assert_close(PropagatedFeatures(features, propagate).matrix, mixing @ features)
    assert widths == {min(columns, 64)}


@pytest.mark.parametrize("leave_out", [0.0, 0.01])
def test_a_further_map_is_that_of_what_was_propagated(leave_out):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(200, 3, generator=generator) @ torch.randn(3, 70, generator=generator)
    features = features.double()
    features[:, 5] = 0  # a column that is not used
    mixing = torch.randn(60, 200, generator=generator).double()
    once = PropagatedFeatures(features, lambda rows: 2 * rows, leave_out=leave_out)
    _ = once.transposed
    twice = once.then(lambda rows: mixing @ rows)
    assert (once.directions is not None) == bool(leave_out)
    torch.testing.assert_close(twice.matrix, mixing @ once.matrix)
    weight = torch.randn(70, 4, generator=generator).double().requires_grad_()
    torch.testing.assert_close(twice @ weight, mixing @ (once @ weight))
    (expected,) = torch.autograd.grad((mixing @ (once @ weight)).square().sum(), weight)
    (found,) = torch.autograd.grad((twice @ weight).square().sum(), weight)
    torch.testing.assert_close(found, expected)
