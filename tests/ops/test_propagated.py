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
