"""The two layers against dense matrices and loops, in value and in gradient."""

import math

import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    FEATURES,
    HYPERGRAPHS,
    SQUARE,
    assert_close,
    assert_same_gradients,
    hypergraph_parts,
    make_rows,
    normal,
    renumbered_parts,
)

from dahgnn import DensityAwareAttention, Hypergraph, HypergraphConvolution, ModelConfig
from dahgnn.config import AttentionConfig

WIDTH, UNITS = 4, 3


@pytest.fixture(params=HYPERGRAPHS)
def hypergraph(request):
    return HYPERGRAPHS[request.param]()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make_layer(heads=2, seed=0, **switches):
    return DensityAwareAttention(WIDTH, UNITS, heads=heads, generator=seeded(seed), **switches).double()


def make_inputs(hypergraph, kind="random"):
    return make_rows(kind, hypergraph.n_nodes, WIDTH), make_rows(kind, hypergraph.n_hyperedges, WIDTH, 1)


def check_layer(hypergraph, kind="random", heads=2, **switches):
    layer = make_layer(heads, **switches)
    x, e = make_inputs(hypergraph, kind)
    actual = layer(x, e, hypergraph)
    expected = oracles.attention_layer(x, e, layer, hypergraph, **switches)
    assert_same_gradients(actual, expected, [x, e, *layer.parameters()])


def outputs_of(hypergraph, **switches):
    return make_layer(**switches)(*make_inputs(hypergraph), hypergraph)


def gradient_of(hypergraph, **switches):
    x, e = make_inputs(hypergraph)
    return oracles.gradients(make_layer(**switches)(x, e, hypergraph), [x])


class LargestResult(torch.utils._python_dispatch.TorchDispatchMode):
    """Remembers the size of the largest tensor that an operation returns."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, _types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if torch.is_tensor(leaf)]
        self.numel = max([self.numel, *(tensor.numel() for tensor in tensors)])
        return result


@pytest.mark.parametrize("features", FEATURES)
def test_typed_convolution_is_equations_1_and_2(hypergraph, features):
    layer = HypergraphConvolution(WIDTH, UNITS).double()
    x, _ = make_inputs(hypergraph, features)
    expected = oracles.convolution(x, layer.weight, hypergraph)
    assert [len(rows) for rows in expected] == [hypergraph.n_nodes, hypergraph.n_hyperedges]
    assert_same_gradients(layer(x, hypergraph), expected, [x, layer.weight])


@pytest.mark.parametrize("name", SQUARE)
def test_printed_convolution_exchanges_the_names(name):
    hypergraph = HYPERGRAPHS[name]()
    layer = HypergraphConvolution(WIDTH, UNITS, convolution="printed").double()
    x, _ = make_inputs(hypergraph)
    expected = oracles.convolution(x, layer.weight, hypergraph, "printed")
    assert_same_gradients(layer(x, hypergraph), expected, [x, layer.weight])


def test_typed_convolution_is_hgnn():
    hypergraph = HYPERGRAPHS["uniform, weighted"]()
    layer = HypergraphConvolution(WIDTH, UNITS).double()
    x, _ = make_inputs(hypergraph)
    h, weights = oracles.incidence_matrix(hypergraph), torch.diag(hypergraph.weights.double())
    root = torch.diag((h @ weights).sum(1) ** -0.5)
    expected = root @ h @ weights @ torch.diag(1 / h.sum(0)) @ h.T @ root @ x @ layer.weight
    assert_close(layer(x, hypergraph)[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_keep_the_type_of_their_input(dtype):
    hypergraph = HYPERGRAPHS["uniform, weighted"]()
    x = normal(hypergraph.n_nodes, WIDTH).to(dtype)
    nodes, hyperedges = HypergraphConvolution(WIDTH, WIDTH).to(dtype)(x, hypergraph)
    attended = DensityAwareAttention(WIDTH, UNITS).to(dtype)(nodes, hyperedges, hypergraph)
    assert [rows.dtype for rows in (nodes, hyperedges, *attended)] == [dtype] * 4


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("features", FEATURES)
def test_attention_is_equations_3_to_11(hypergraph, features, heads):
    check_layer(hypergraph, features, heads)


@pytest.mark.parametrize("density_gradient", [False, True])
@pytest.mark.parametrize("neighbourhood", ["centre", "shared"])
@pytest.mark.parametrize("delta", [0.0, 0.9])
def test_attention_with_each_form_of_density(hypergraph, delta, neighbourhood, density_gradient):
    check_layer(
        hypergraph, delta=delta, neighbourhood=neighbourhood, density_gradient=density_gradient, heads=1
    )


@pytest.mark.parametrize("delta", [-1.0, -0.3, 0.4])
def test_attention_with_more_thresholds(delta):
    check_layer(HYPERGRAPHS["uniform"](), delta=delta, density_gradient=True)


@pytest.mark.parametrize("final_activation", [False, True])
def test_attention_without_density_or_outer_activation(hypergraph, final_activation):
    check_layer(hypergraph, density=False, final_activation=final_activation)


@pytest.mark.parametrize("features", FEATURES)
def test_attention_without_outer_activation(features):
    check_layer(HYPERGRAPHS["isolated"](), features, final_activation=False)


def test_attention_where_no_attention_value_is_positive():
    hypergraph = HYPERGRAPHS["uniform"]()
    layer = make_layer(density_gradient=True)
    with torch.no_grad():
        layer.weight.abs_()
        layer.attention_node.copy_(-layer.attention_node.abs())
    x, e = (rows.detach().abs().requires_grad_() for rows in make_inputs(hypergraph))
    expected = oracles.attention_layer(x, e, layer, hypergraph, density_gradient=True)
    assert_same_gradients(layer(x, e, hypergraph), expected, [x, e, *layer.parameters()])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("density", (True, False)),
        ("delta", (0.0, 0.9)),
        ("neighbourhood", ("centre", "shared")),
        ("final_activation", (True, False)),
    ],
)
def test_every_switch_reaches_the_nodes(name, values):
    hypergraph = HYPERGRAPHS["uniform"]()
    first, second = (outputs_of(hypergraph, **{name: value})[0] for value in values)
    assert not torch.allclose(first, second)


def test_density_gradient_changes_the_gradient_alone():
    hypergraph = HYPERGRAPHS["uniform"]()
    with_gradient, without = ({"density_gradient": value} for value in (True, False))
    assert_close(outputs_of(hypergraph, **with_gradient), outputs_of(hypergraph, **without))
    gradients = [gradient_of(hypergraph, **switches)[0] for switches in (with_gradient, without)]
    assert not torch.allclose(*gradients)


def test_density_gradient_without_density_changes_nothing():
    hypergraph = HYPERGRAPHS["uniform"]()
    gradients = [gradient_of(hypergraph, density=False, density_gradient=value) for value in (True, False)]
    assert_close(*gradients)


def test_isolated_nodes_get_zeros():
    hypergraph = HYPERGRAPHS["isolated"]()
    x, e = make_inputs(hypergraph)
    convolved, _ = HypergraphConvolution(WIDTH, UNITS).double()(x, hypergraph)
    attended, _ = make_layer()(x, e, hypergraph)
    for nodes in (convolved, attended):
        zero = (nodes == 0).all(1).nonzero().flatten()
        assert zero.tolist() == [3, 7, 10]


@settings(max_examples=25, deadline=None)
@given(
    case=renumbered_parts(),
    seed=st.integers(0, 1000),
    density=st.booleans(),
    neighbourhood=st.sampled_from(["centre", "shared"]),
)
def test_renumbering_renumbers_the_attention(case, seed, density, neighbourhood):
    parts, nodes, hyperedges, renumbered = case
    layer = make_layer(seed=seed, density=density, neighbourhood=neighbourhood)
    x = normal(len(nodes), WIDTH, seed=seed)
    e = normal(len(hyperedges), WIDTH, seed=seed + 1)
    before = layer(x, e, Hypergraph.from_hyperedges(**parts, cover_isolated=False))
    after = layer(x[nodes], e[hyperedges], Hypergraph.from_hyperedges(**renumbered, cover_isolated=False))
    assert_close(after, (before[0][nodes], before[1][hyperedges]))


@settings(max_examples=25, deadline=None)
@given(case=renumbered_parts(), seed=st.integers(0, 1000))
def test_renumbering_renumbers_the_convolution(case, seed):
    parts, nodes, hyperedges, renumbered = case
    layer = HypergraphConvolution(WIDTH, UNITS, generator=seeded(seed)).double()
    x = normal(len(nodes), WIDTH, seed=seed)
    before = layer(x, Hypergraph.from_hyperedges(**parts, cover_isolated=False))
    after = layer(x[nodes], Hypergraph.from_hyperedges(**renumbered, cover_isolated=False))
    assert_close(after, (before[0][nodes], before[1][hyperedges]))


@settings(max_examples=25, deadline=None)
@given(parts=hypergraph_parts(), seed=st.integers(0, 1000), density=st.booleans())
def test_coefficients_sum_to_one(parts, seed, density):
    """The mean of equal rows is that row, whatever the coefficients."""
    hypergraph = Hypergraph.from_hyperedges(**parts)
    layer = make_layer(seed=seed, density=density)
    row = normal(WIDTH, seed=seed)
    e = normal(hypergraph.n_hyperedges, WIDTH, seed=seed + 1)
    nodes, hyperedges = layer(row.expand(hypergraph.n_nodes, -1), e, hypergraph)
    expected = oracles.elu(torch.cat([row @ weight for weight in layer.weight]))
    assert_close(hyperedges, expected.expand_as(hyperedges))
    assert_close(nodes, oracles.elu(expected).expand_as(nodes))


@settings(max_examples=25, deadline=None)
@given(parts=hypergraph_parts(), seed=st.integers(0, 1000))
def test_density_off_is_density_zero(parts, seed):
    hypergraph = Hypergraph.from_hyperedges(**parts)
    x = normal(hypergraph.n_nodes, WIDTH, seed=seed)
    e = normal(hypergraph.n_hyperedges, WIDTH, seed=seed + 1)
    nothing_counts = make_layer(seed=seed, delta=1)(x, e, hypergraph)
    assert_close(nothing_counts, make_layer(seed=seed, density=False)(x, e, hypergraph))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), delta=st.sampled_from([-0.5, 0.0, 0.4]))
def test_orthogonal_rows_have_no_density(seed, delta):
    hypergraph = HYPERGRAPHS["ragged"]()
    width = hypergraph.n_nodes
    e = normal(hypergraph.n_hyperedges, width, seed=seed)
    outputs = []
    for density in (True, False):
        layer = DensityAwareAttention(width, width, density=density, delta=delta, generator=seeded(seed))
        torch.nn.init.eye_(layer.double().weight[0].data)
        outputs.append(layer(torch.diag(normal(width, seed=seed)), e, hypergraph))
    assert_close(*outputs)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), k=st.integers(1, 5))
def test_equal_densities_change_nothing(seed, k):
    """Parallel rows have k neighbours of similarity one each, up to rounding."""
    features = normal(9, WIDTH, seed=seed)
    hypergraph = Hypergraph.from_features(features, k=k)
    x = features[:1] * torch.arange(1, 10)[:, None]
    e = normal(9, WIDTH, seed=seed + 1)
    outputs = [make_layer(seed=seed, density=density)(x, e, hypergraph)[1] for density in (True, False)]
    assert_close(*outputs)


@settings(max_examples=25, deadline=None)
@given(
    parts=hypergraph_parts(),
    zero=st.sets(st.integers(0, 8)),
    cover=st.booleans(),
    density_gradient=st.booleans(),
)
def test_zero_rows_and_isolated_nodes_stay_finite(parts, zero, cover, density_gradient):
    hypergraph = Hypergraph.from_hyperedges(**parts, cover_isolated=cover)
    layer = make_layer(density_gradient=density_gradient)
    x, e = normal(hypergraph.n_nodes, WIDTH), normal(hypergraph.n_hyperedges, WIDTH, seed=1)
    x[[node for node in zero if node < len(x)]] = 0
    outputs = layer(x.requires_grad_(), e, hypergraph)
    everything = [*outputs, *oracles.gradients(outputs, [x, *layer.parameters()])]
    assert all(torch.isfinite(tensor).all() for tensor in everything)


def test_shapes_of_parameters_and_results():
    hypergraph = HYPERGRAPHS["ragged"]()
    layer = DensityAwareAttention(WIDTH, UNITS, heads=5)
    shapes = {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}
    assert shapes == {
        "weight": (5, WIDTH, UNITS),
        "attention_node": (5, 2 * UNITS),
        "attention_hyperedge": (5, 2 * UNITS),
    }
    convolution = HypergraphConvolution(WIDTH, UNITS)
    assert {name: tuple(p.shape) for name, p in convolution.named_parameters()} == {"weight": (WIDTH, UNITS)}
    x, e = (rows.float() for rows in make_inputs(hypergraph))
    nodes, hyperedges = layer(x, e, hypergraph)
    assert nodes.shape == (hypergraph.n_nodes, 5 * UNITS)
    assert hyperedges.shape == (hypergraph.n_hyperedges, 5 * UNITS)


def assert_uniform(parameter, bound):
    """Check that values fill (−bound, bound) evenly."""
    parameter = parameter.detach()
    assert 0.9 * bound < parameter.max() <= bound
    assert -bound <= parameter.min() < -0.9 * bound
    assert parameter.mean().abs() < 0.2 * bound
    assert parameter.std() == pytest.approx(bound / math.sqrt(3), rel=0.2)


def test_initial_weights_are_xavier_uniform_for_each_head():
    layer = DensityAwareAttention(200, 100, heads=4, generator=seeded())
    for head in range(4):
        assert_uniform(layer.weight[head], math.sqrt(6 / (200 + 100)))
        assert_uniform(layer.attention_node[head], math.sqrt(6 / (2 * 100 + 1)))
        assert_uniform(layer.attention_hyperedge[head], math.sqrt(6 / (2 * 100 + 1)))
    convolution = HypergraphConvolution(200, 100, generator=seeded())
    assert_uniform(convolution.weight, math.sqrt(6 / (200 + 100)))


def test_the_number_of_heads_leaves_the_initial_bounds_alone():
    layer = DensityAwareAttention(20, 50, heads=100, generator=seeded())
    assert_uniform(layer.weight, math.sqrt(6 / (20 + 50)))
    assert_uniform(layer.attention_node, math.sqrt(6 / (2 * 50 + 1)))
    assert_uniform(layer.attention_hyperedge, math.sqrt(6 / (2 * 50 + 1)))


@pytest.mark.parametrize("make", [HypergraphConvolution, DensityAwareAttention])
def test_the_seed_of_the_generator_decides_the_weights(make):
    first, same, other = (list(make(9, 5, generator=seeded(seed)).parameters()) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, same))
    assert not any(map(torch.equal, first, other))


@pytest.mark.parametrize("make", [HypergraphConvolution, DensityAwareAttention])
def test_reset_parameters_draws_anew(make):
    layer = make(9, 5, generator=seeded(1))
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    layer.reset_parameters(seeded(2))
    assert not any(map(torch.equal, before, layer.parameters()))
    layer.reset_parameters(seeded(1))
    assert all(map(torch.equal, before, layer.parameters()))


def test_nothing_of_size_nodes_times_hyperedges_is_needed():
    n_nodes = 200_000
    neighbors = torch.randint(n_nodes, (n_nodes, 3), generator=seeded())
    hypergraph = Hypergraph.from_neighbors(neighbors)
    layer = DensityAwareAttention(4, 2, generator=seeded())
    x, e = torch.randn(2, n_nodes, 4, generator=seeded()).unbind()
    with torch.no_grad():
        outputs = layer(x, e, hypergraph)
    assert [rows.shape for rows in outputs] == [(n_nodes, 2)] * 2
    assert all(torch.isfinite(rows).all() for rows in outputs)


def test_no_operation_makes_a_tensor_of_size_nodes_times_hyperedges():
    n_nodes = 2000
    hypergraph = Hypergraph.from_features(normal(n_nodes, 3), k=3)
    layer = make_layer(heads=1, density_gradient=True)
    x = normal(n_nodes, WIDTH).requires_grad_()
    largest = LargestResult()
    with largest:
        outputs = layer(x, x, hypergraph)
        oracles.gradients(outputs, [x, *layer.parameters()])
    assert 0 < largest.numel < n_nodes * 100


@pytest.mark.parametrize(
    ("x_shape", "e_shape", "message"),
    [
        ((8, 4), (8, 4), r"'x' .* must be of shape \(9, 4\)\. Got shape \(8, 4\)"),
        ((9, 3), (8, 4), r"'x' .* must be of shape \(9, 4\)\. Got shape \(9, 3\)"),
        ((9,), (8, 4), r"'x' .* must be of shape \(9, 4\)\. Got shape \(9,\)"),
        ((9, 4), (9, 4), r"'e' .* must be of shape \(8, 4\)\. Got shape \(9, 4\)"),
        ((9, 4), (8, 5), r"'e' .* must be of shape \(8, 4\)\. Got shape \(8, 5\)"),
    ],
)
def test_attention_refuses_wrong_shapes(x_shape, e_shape, message):
    with pytest.raises(ValueError, match=message):
        make_layer()(normal(*x_shape), normal(*e_shape), HYPERGRAPHS["ragged"]())


@pytest.mark.parametrize("shape", [(8, 4), (9, 5), (9,), (9, 4, 1)])
def test_convolution_refuses_wrong_shapes(shape):
    layer = HypergraphConvolution(4, 2).double()
    with pytest.raises(ValueError, match=r"'x' parameter of HypergraphConvolution .* shape \(9, 4\)"):
        layer(normal(*shape), HYPERGRAPHS["ragged"]())


@pytest.mark.parametrize(
    ("settings_", "error", "message"),
    [
        ({"heads": 0}, ValueError, "'heads' parameter of DensityAwareAttention must be at least 1. Got 0"),
        ({"heads": 1.5}, TypeError, "'heads' .* must be an integer. Got 1.5"),
        ({"delta": 1.01}, ValueError, "'delta' .* at least -1 and at most 1. Got 1.01"),
        ({"delta": -1.01}, ValueError, "'delta' .* at least -1 and at most 1. Got -1.01"),
        ({"delta": math.nan}, ValueError, "'delta' .* finite number.* Got nan"),
        ({"delta": "0.4"}, TypeError, "'delta' .* must be a number. Got '0.4'"),
        ({"neighbourhood": "center"}, ValueError, r"Got 'center'\. Did you mean 'centre'\?"),
        ({"neighbourhood": None}, ValueError, "must be one of 'centre', 'shared'. Got None"),
        ({"density": 1}, TypeError, "'density' .* must be True or False. Got 1"),
        ({"density_gradient": "no"}, TypeError, "'density_gradient' .* must be True or False. Got 'no'"),
        ({"final_activation": None}, TypeError, "'final_activation' .* must be True or False. Got None"),
    ],
)
def test_attention_refuses_wrong_settings(settings_, error, message):
    with pytest.raises(error, match=message):
        DensityAwareAttention(4, 2, **settings_)


def test_a_layer_keeps_its_switches_as_one_value():
    switches = {
        "delta": 0.1,
        "density": False,
        "neighbourhood": "shared",
        "density_gradient": True,
        "final_activation": False,
    }
    config = AttentionConfig(**switches)
    one_by_one = DensityAwareAttention(4, 2, heads=3, generator=seeded(), **switches)
    whole = DensityAwareAttention.from_config(4, 2, config, heads=3, generator=seeded())
    assert one_by_one.config == whole.config == config
    assert DensityAwareAttention(4, 2).config == AttentionConfig()
    assert all(map(torch.equal, one_by_one.parameters(), whole.parameters()))


def test_an_error_names_whose_switch_is_wrong():
    with pytest.raises(ValueError, match="'delta' parameter of DensityAwareAttention must be"):
        DensityAwareAttention(4, 2, delta=2)
    with pytest.raises(ValueError, match="'delta' parameter of ModelConfig must be"):
        ModelConfig(delta=2)


@pytest.mark.parametrize("make", [HypergraphConvolution, DensityAwareAttention])
@pytest.mark.parametrize(("sizes", "name"), [((0, 2), "in_features"), ((2, 0), "out_features")])
def test_layers_refuse_empty_sizes(make, sizes, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of {make.__name__} must be at least 1. Got 0"):
        make(*sizes)


def test_convolution_refuses_an_unknown_kind():
    with pytest.raises(ValueError, match=r"Got 'print'\. Did you mean 'printed'\?"):
        HypergraphConvolution(4, 2, convolution="print")


def test_printed_convolution_refuses_unequal_numbers():
    layer = HypergraphConvolution(WIDTH, 2, convolution="printed").double()
    with pytest.raises(ValueError, match=r"as many hyperedges as nodes.*n_nodes=9, n_hyperedges=8"):
        layer(normal(9, WIDTH), HYPERGRAPHS["ragged"]())
