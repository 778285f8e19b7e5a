"""Densities (3) and (9) and their scaling (5), against loops over pairs of nodes."""

import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import FEATURES, HYPERGRAPHS, assert_close, assert_same_gradients, make_rows, normal

from dahgnn import Hypergraph
from dahgnn.nn.density import hyperedge_density, node_density, scale_density

DELTAS = (-0.5, 0.0, 0.4, 0.9)
KINDS = ("centre", "shared")


@pytest.fixture(params=HYPERGRAPHS)
def hypergraph(request):
    return HYPERGRAPHS[request.param]()


def by_head(function, *tensors):
    """Apply an oracle to each head, the second dimension, and stack what it returns."""
    heads = range(tensors[0].shape[1])
    return torch.stack([function(*(tensor[:, head] for tensor in tensors)) for head in heads], 1)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", DELTAS)
def test_node_density_is_equation_3(hypergraph, features, kind, delta):
    projected = make_rows(features, hypergraph.n_nodes, 6).reshape(-1, 2, 3)
    expected = by_head(lambda rows: oracles.node_density(rows, hypergraph, delta, kind), projected)
    assert_close(node_density(projected, hypergraph, delta, kind), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gradient_of_node_density(hypergraph, kind, delta):
    rows = make_rows("random", hypergraph.n_nodes, 6)
    projected = rows.reshape(-1, 2, 3)
    expected = by_head(lambda rows: oracles.node_density(rows, hypergraph, delta, kind), projected)
    actual = node_density(projected, hypergraph, delta, kind)
    assert_same_gradients([actual], [expected], [rows])


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_node_density_where_rows_are_zero_is_finite(hypergraph, kind):
    rows = make_rows("zero rows", hypergraph.n_nodes, 6)
    density = node_density(rows.reshape(-1, 2, 3), hypergraph, 0.0, kind)
    assert all(torch.isfinite(gradient).all() for gradient in oracles.gradients([density], [rows]))


def test_hyperedge_density_is_equation_9(hypergraph):
    density = make_rows("random", hypergraph.n_nodes, 3)
    expected = by_head(lambda density: oracles.hyperedge_density(density, hypergraph), density)
    assert_same_gradients([hyperedge_density(density, hypergraph)], [expected], [density])


@pytest.mark.parametrize("shift", [-1.0, 0.0, 5.0])
def test_scale_density_per_head(shift):
    density, attention = make_rows("random", 9, 3), make_rows("random", 14, 3, seed=1)
    moved = density + shift
    expected = by_head(oracles.scaled_density, moved, attention)
    assert_same_gradients([scale_density(moved, attention)], [expected], [density, attention])


def test_scaled_densities_fill_the_range_of_the_attention():
    density, attention = normal(9, 2), normal(14, 2, seed=1)
    scaled = scale_density(density, attention)
    assert_close(scaled.amin(0), torch.zeros(2, dtype=torch.float64))
    assert_close(scaled.amax(0), attention.amax(0))


def test_negative_attention_scales_to_zero():
    attention = -normal(14, 2, seed=1).abs()
    assert scale_density(normal(9, 2), attention).abs().max() == 0


def test_heads_are_scaled_separately():
    density = torch.tensor([[0.0, 3.0], [4.0, 3.0], [1.0, 3.0]])
    attention = torch.tensor([[2.0, -1.0], [-8.0, 5.0]])
    assert scale_density(density, attention).tolist() == [[0.0, 0.0], [2.0, 0.0], [0.5, 0.0]]


@pytest.mark.parametrize("value", [0.0, 0.1, 7.0])
def test_equal_densities_scale_to_zero(value):
    density = torch.full((5, 2), value, dtype=torch.float64)
    assert scale_density(density, torch.ones(5, 2)).abs().max() == 0


def test_densities_equal_up_to_rounding_scale_to_zero():
    total = torch.tensor([0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1], dtype=torch.float64)[:, None]
    assert total[0] != total[1]
    assert scale_density(total, torch.ones(2, 1)).abs().max() == 0


def test_a_similarity_of_exactly_delta_does_not_count():
    projected = torch.tensor([[[1.0, 1.0, 1.0, 1.0]], [[1.0, 0.0, 0.0, 0.0]]])
    hypergraph = Hypergraph.from_hyperedges([[0, 1]], n_nodes=2)
    assert node_density(projected, hypergraph, 0.5, "shared").tolist() == [[0.0], [0.0]]
    assert node_density(projected, hypergraph, 0.49, "shared").tolist() == [[0.5], [0.5]]


def test_a_neighbour_in_two_hyperedges_counts_once():
    hypergraph = Hypergraph.from_hyperedges([[0, 1], [0, 1], [0, 1, 2]], n_nodes=3, centres=[0, 0, 2])
    projected = torch.ones(3, 1, 1, dtype=torch.float64)
    assert_close(node_density(projected, hypergraph, 0.4, "shared").flatten(), torch.full((3,), 2.0).double())
    centred = node_density(projected, hypergraph, 0.4, "centre").flatten()
    assert_close(centred, torch.tensor([1.0, 0.0, 2.0]).double())


def test_without_centres_the_neighbourhood_is_shared():
    hypergraph = HYPERGRAPHS["ragged"]()
    projected = normal(hypergraph.n_nodes, 2, 3)
    shared = node_density(projected, hypergraph, 0.4, "shared")
    assert torch.equal(node_density(projected, hypergraph, 0.4, "centre"), shared)


def test_the_neighbourhoods_differ_where_there_are_centres():
    hypergraph = HYPERGRAPHS["uniform"]()
    projected = normal(hypergraph.n_nodes, 2, 3)
    shared = node_density(projected, hypergraph, 0.4, "shared")
    assert not torch.allclose(node_density(projected, hypergraph, 0.4, "centre"), shared)


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 1000))
def test_density_ignores_the_length_of_rows(scale, seed):
    hypergraph = HYPERGRAPHS["uniform"]()
    projected = normal(hypergraph.n_nodes, 2, 3, seed=seed)
    density = node_density(projected, hypergraph, 0.4, "centre")
    assert_close(node_density(scale * projected, hypergraph, 0.4, "centre"), density)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_density_bears_tiny_and_huge_rows(scale):
    hypergraph = HYPERGRAPHS["uniform"]()
    projected = normal(hypergraph.n_nodes, 2, 3)
    density = node_density(projected, hypergraph, 0.4, "centre")
    assert_close(node_density(scale * projected, hypergraph, 0.4, "centre"), density)


def test_orthogonal_rows_have_equal_densities_at_a_threshold_of_zero():
    generator = torch.Generator().manual_seed(0)
    rows, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=generator))
    hypergraph = Hypergraph.from_hyperedges([range(6)], n_nodes=6)
    density = node_density(rows.unsqueeze(1), hypergraph, 0.0, "shared")
    assert (scale_density(density, torch.ones(6, 1, dtype=torch.float64)) == 0).all()


@pytest.mark.parametrize("seed", range(8))
def test_no_similarity_is_greater_than_one(seed):
    row = torch.randn(1, 1, 7, generator=torch.Generator().manual_seed(seed))
    hypergraph = Hypergraph.from_hyperedges([range(5)], n_nodes=5)
    assert (node_density(row.expand(5, 1, 7), hypergraph, 1.0, "shared") == 0).all()


@pytest.mark.parametrize("scale", [1e-36, 1e-25, 1e20, 1e36])
def test_the_density_does_not_see_the_scale_in_single_precision(scale):
    rows = torch.rand(9, 2, 4, generator=torch.Generator().manual_seed(0))
    hypergraph = Hypergraph.from_hyperedges([range(9)], n_nodes=9)
    plain, scaled = (node_density(each, hypergraph, 0.4, "shared") for each in (rows, scale * rows))
    torch.testing.assert_close(plain, scaled)
