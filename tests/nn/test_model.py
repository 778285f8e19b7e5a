"""The whole network against dense matrices and loops, in value and in gradient."""

import math
from dataclasses import asdict, replace

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

from dahgnn import DAHGNN, Hypergraph, ModelConfig
from dahgnn.config import PRESETS
from dahgnn.graph.gradients import reached_from
from dahgnn.ops.backend import using
from dahgnn.ops.dropout import CounterDropout

IN_FEATURES, N_CLASSES = 5, 3


@pytest.fixture(params=HYPERGRAPHS)
def hypergraph(request):
    return HYPERGRAPHS[request.param]()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make_model(seed=0, heads=2, **switches):
    config = ModelConfig(hidden=6, units=2, heads=heads, **switches)
    return DAHGNN(IN_FEATURES, N_CLASSES, config, generator=seeded(seed)).double()


def check_network(hypergraph, kind="random", heads=2, convolution="typed", **switches):
    model = make_model(heads=heads, convolution=convolution, **switches)
    features = make_rows(kind, hypergraph.n_nodes, IN_FEATURES)
    expected = oracles.network(features, model, hypergraph, kind=convolution, **switches)
    assert_same_gradients([model(features, hypergraph)], [expected], [features, *model.parameters()])


@pytest.mark.parametrize("features", FEATURES)
def test_network_is_convolution_and_two_attention_layers(hypergraph, features):
    check_network(hypergraph, features)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("final_activation", [False, True])
def test_network_with_switches(heads, density, final_activation):
    check_network(HYPERGRAPHS["uniform"](), heads=heads, density=density, final_activation=final_activation)


@pytest.mark.parametrize("density_gradient", [False, True])
@pytest.mark.parametrize("neighbourhood", ["centre", "shared"])
@pytest.mark.parametrize("delta", [0.0, 0.9])
def test_network_with_each_form_of_density(delta, neighbourhood, density_gradient):
    check_network(
        HYPERGRAPHS["centred"](), delta=delta, neighbourhood=neighbourhood, density_gradient=density_gradient
    )


@pytest.mark.parametrize("name", SQUARE)
def test_network_with_printed_convolution(name):
    check_network(HYPERGRAPHS[name](), convolution="printed")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("density", (True, False)),
        ("delta", (0.0, 0.9)),
        ("neighbourhood", ("centre", "shared")),
        ("convolution", ("typed", "printed")),
        ("final_activation", (True, False)),
    ],
)
def test_every_switch_reaches_the_logits(name, values):
    hypergraph = HYPERGRAPHS["uniform"]()
    features = normal(hypergraph.n_nodes, IN_FEATURES)
    first, second = (make_model(**{name: value})(features, hypergraph) for value in values)
    assert not torch.allclose(first, second)


def test_the_gradient_of_the_density_reaches_the_parameters():
    hypergraph = HYPERGRAPHS["uniform"]()
    features = normal(hypergraph.n_nodes, IN_FEATURES)
    gradients = []
    for density_gradient in (True, False):
        model = make_model(density_gradient=density_gradient)
        gradients.append(oracles.gradients([model(features, hypergraph)], [model.convolution.weight])[0])
    assert not torch.allclose(*gradients)


def test_defaults_are_the_papers():
    model = DAHGNN(in_features=784, n_classes=10)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {
        "convolution.weight": (784, 256),
        "attention1.weight": (4, 256, 8),
        "attention1.attention_node": (4, 16),
        "attention1.attention_hyperedge": (4, 16),
        "attention2.weight": (1, 32, 10),
        "attention2.attention_node": (1, 20),
        "attention2.attention_hyperedge": (1, 20),
    }
    hypergraph = HYPERGRAPHS["uniform"]()
    features = normal(hypergraph.n_nodes, 784)
    expected = oracles.network(features, model.double(), hypergraph)
    assert_close(model(features, hypergraph), expected)


def test_the_last_activation_alone_is_removed():
    hypergraph = HYPERGRAPHS["uniform"]()
    features = normal(hypergraph.n_nodes, IN_FEATURES)
    with_activation, without = (
        make_model(final_activation=flag)(features, hypergraph) for flag in (True, False)
    )
    assert bool((without < 0).any())
    assert_close(with_activation, oracles.elu(without))


def test_the_seed_of_the_generator_decides_the_weights():
    first, same, other = (list(make_model(seed).parameters()) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, same))
    assert not any(map(torch.equal, first, other))


def test_the_network_has_its_config_whole():
    config = ModelConfig(
        hidden=7, heads=3, units=2, delta=0.1, density=False, neighbourhood="shared",
        density_gradient=True, convolution="printed", final_activation=False,
    )  # fmt: skip
    model = DAHGNN(5, 4, config, generator=seeded())
    assert model.config is config
    assert model.attention2.config is config
    assert model.attention1.config == replace(config, final_activation=True)
    assert model.settings == {"in_features": 5, "n_classes": 4, **asdict(config)}


def test_without_a_config_the_network_is_the_papers():
    assert DAHGNN(5, 4).config == ModelConfig()


@pytest.mark.parametrize("wrong", [7, {"hidden": 7}])
def test_something_else_as_config_is_refused(wrong):
    with pytest.raises(TypeError, match="'config' parameter of DAHGNN must be a ModelConfig. Got"):
        DAHGNN(5, 4, wrong)


def test_settings_make_the_same_network_again():
    model = make_model(delta=0.1, neighbourhood="shared", final_activation=False)
    again = DAHGNN.from_settings(model.settings).double()
    again.load_state_dict(model.state_dict())
    hypergraph = HYPERGRAPHS["uniform"]()
    features = normal(hypergraph.n_nodes, IN_FEATURES)
    assert torch.equal(again(features, hypergraph), model(features, hypergraph))


@settings(max_examples=25, deadline=None)
@given(case=renumbered_parts(), seed=st.integers(0, 1000), cover=st.booleans())
def test_renumbering_renumbers_the_logits(case, seed, cover):
    parts, nodes, _, renumbered = case
    model = make_model(seed)
    features = normal(len(nodes), IN_FEATURES, seed=seed)
    before = model(features, Hypergraph.from_hyperedges(**parts, cover_isolated=cover))
    after = model(features[nodes], Hypergraph.from_hyperedges(**renumbered, cover_isolated=cover))
    assert_close(after, before[nodes])


@settings(max_examples=25, deadline=None)
@given(parts=hypergraph_parts(), zero=st.sets(st.integers(0, 8)), cover=st.booleans())
def test_zero_rows_and_isolated_nodes_stay_finite(parts, zero, cover):
    hypergraph = Hypergraph.from_hyperedges(**parts, cover_isolated=cover)
    features = normal(hypergraph.n_nodes, IN_FEATURES)
    features[[node for node in zero if node < len(features)]] = 0
    model = make_model(density_gradient=True)
    logits = model(features, hypergraph)
    everything = [logits, *oracles.gradients([logits], list(model.parameters()))]
    assert all(torch.isfinite(tensor).all() for tensor in everything)


@pytest.mark.parametrize("shape", [(8, 5), (9, 4), (9,)])
def test_wrong_shape_of_features(shape):
    with pytest.raises(ValueError, match=r"must be of shape \(9, 5\)\. Got shape"):
        make_model()(normal(*shape), HYPERGRAPHS["ragged"]())


def test_printed_convolution_refuses_unequal_numbers():
    with pytest.raises(ValueError, match=r"as many hyperedges as nodes.*n_nodes=9, n_hyperedges=8"):
        make_model(convolution="printed")(normal(9, IN_FEATURES), HYPERGRAPHS["ragged"]())


@pytest.mark.parametrize("n_classes", [1, 0, -1])
def test_fewer_than_two_classes(n_classes):
    with pytest.raises(ValueError, match=f"'n_classes' .* must be at least 2. Got {n_classes}"):
        DAHGNN(5, n_classes)


@pytest.mark.parametrize(
    ("settings_", "error", "message"),
    [
        ({"hidden": 0}, ValueError, "'hidden' .* must be at least 1. Got 0"),
        ({"heads": 0}, ValueError, "'heads' .* must be at least 1. Got 0"),
        ({"units": 0}, ValueError, "'units' .* must be at least 1. Got 0"),
        ({"delta": 2}, ValueError, "'delta' .* at least -1 and at most 1. Got 2"),
        ({"delta": math.nan}, ValueError, "'delta' .* Got nan"),
        ({"neighbourhood": "share"}, ValueError, r"Got 'share'\. Did you mean 'shared'\?"),
        ({"convolution": "type"}, ValueError, r"Got 'type'\. Did you mean 'typed'\?"),
        ({"density": 0}, TypeError, "'density' .* must be True or False. Got 0"),
        ({"density_gradient": 1}, TypeError, "'density_gradient' .* must be True or False. Got 1"),
        ({"final_activation": "yes"}, TypeError, "'final_activation' .* must be True or False. Got 'yes'"),
    ],
)
def test_wrong_settings(settings_, error, message):
    with pytest.raises(error, match=message):
        DAHGNN(5, 3, ModelConfig(**settings_))


@pytest.mark.parametrize("convolution", ["typed", "printed"])
@pytest.mark.parametrize("density", [True, False])
@pytest.mark.parametrize(
    "more", [{}, {"activation": True}, {"shortcut": True}, {"activation": True, "shortcut": True}], ids=str
)
@pytest.mark.parametrize("many", [1, 31], ids=["propagated twice", "propagated once"])
def test_the_folded_network_is_the_network(monkeypatch, convolution, density, more, many):
    monkeypatch.setattr("dahgnn.nn.model._MANY_HYPEREDGES", many)
    features = normal(30, 9)
    features[:, 4] = 0  # a column that reaches nothing
    hypergraph = Hypergraph.from_features(features, k=4, weights=torch.rand(30, dtype=torch.float64) + 0.5)
    config = ModelConfig(hidden=7, convolution=convolution, density=density, **more)
    model = DAHGNN(9, 3, config).double()
    weights = {name: weight.unsqueeze(0) for name, weight in model.named_parameters()}
    plain = model(features, hypergraph)
    folded, trained = model.fold(features, hypergraph)(weights, None)
    assert trained is folded
    folded = folded.squeeze(1)
    assert_close(folded, plain)
    weight = normal(30, 3, seed=1)
    parameters = list(model.parameters())
    expected = torch.autograd.grad((plain * weight).sum(), parameters)
    actual = torch.autograd.grad((folded * weight).sum(), parameters)
    for first, second in zip(actual, expected, strict=True):
        assert_close(first, second)


@pytest.mark.parametrize("more", [{}, {"activation": True, "shortcut": True}], ids=str)
def test_networks_side_by_side_are_the_networks_alone(more):
    features = normal(40, 6)
    hypergraph = Hypergraph.from_features(features, k=4)
    models = [
        DAHGNN(6, 3, ModelConfig(hidden=7, **more), generator=torch.Generator().manual_seed(seed)).double()
        for seed in range(3)
    ]
    named = [dict(model.named_parameters()) for model in models]
    weights = {name: torch.stack([each[name] for each in named]) for name in named[0]}
    together, _ = models[0].fold(features, hypergraph)(weights, None)
    weight = normal(40, 3, 3, seed=1)
    gradients = torch.autograd.grad((together * weight).sum(), [w for each in named for w in each.values()])
    for run, model in enumerate(models):
        alone = model(features, hypergraph)
        assert_close(together[:, run], alone)
        expected = torch.autograd.grad((alone * weight[:, run]).sum(), list(named[run].values()))
        count = len(expected)
        for first, second in zip(gradients[count * run : count * (run + 1)], expected, strict=True):
            assert_close(first, second)


@pytest.mark.parametrize("activation", [True, False])
@pytest.mark.parametrize("shortcut", [True, False])
def test_what_the_paper_has_not_stands_where_it_is_said_to(activation, shortcut):
    features = normal(20, 6)
    hypergraph = Hypergraph.from_features(features, k=3)
    model = DAHGNN(6, 3, ModelConfig(hidden=5, activation=activation, shortcut=shortcut)).double()
    x, e = oracles.convolution(features, model.convolution.weight, hypergraph)
    if activation:
        x, e = oracles.elu(x), oracles.elu(e)
    hidden, hidden_e = oracles.attention_layer(x, e, model.attention1, hypergraph)
    logits, _ = oracles.attention_layer(hidden, hidden_e, model.attention2, hypergraph)
    if shortcut:
        logits = logits + x @ model.shortcut
    assert_close(model(features, hypergraph), logits)


def test_units_drop_in_training_alone_and_at_four_sites():
    features = normal(30, 6)
    hypergraph = Hypergraph.from_features(features, k=3)
    model = DAHGNN(6, 3, ModelConfig(hidden=8, dropout=0.5, shortcut=True)).double()
    weights = {name: weight.unsqueeze(0) for name, weight in model.named_parameters()}
    asked = []

    def drop(values, rate, site):
        asked.append((site, rate, tuple(values.shape)))
        return values * (torch.arange(values.shape[2]) % 2) * 2

    evaluated, trained = model.fold(features, hypergraph)(weights, drop)
    assert asked == [(0, 0.5, (30, 1, 8)), (1, 0.5, (30, 1, 8)), (2, 0.5, (30, 1, 32)), (3, 0.5, (30, 1, 32))]
    assert not evaluated.requires_grad
    assert_close(evaluated.squeeze(1), model.eval()(features, hypergraph))
    assert not torch.equal(evaluated, trained)
    # Units that are always dropped are as good as weights of zero.
    kept = torch.arange(8) % 2 * 2.0
    with torch.no_grad():
        model.attention1.weight *= kept.unsqueeze(1)
        model.attention2.weight *= (torch.arange(32) % 2 * 2.0).unsqueeze(1)
        model.shortcut *= kept.unsqueeze(1)
    assert_close(trained.squeeze(1), model(features, hypergraph))


def test_a_network_with_dropout_differs_from_pass_to_pass_in_training():
    features = normal(30, 6).float()
    hypergraph = Hypergraph.from_features(features, k=3)
    model = DAHGNN(6, 3, ModelConfig(hidden=8, dropout=0.5))
    assert not torch.equal(model(features, hypergraph), model(features, hypergraph))
    model.eval()
    assert torch.equal(model(features, hypergraph), model(features, hypergraph))


@pytest.mark.parametrize("config", [ModelConfig(), PRESETS["default"].model], ids=["paper", "default"])
@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("many", [1, 41], ids=["propagated twice", "propagated once"])
@pytest.mark.parametrize("evaluate", [True, False])
def test_logits_of_chosen_nodes_are_those_among_all(monkeypatch, config, backend, dtype, many, evaluate):
    monkeypatch.setattr("dahgnn.nn.model._MANY_HYPEREDGES", many)
    features = normal(40, 6).to(dtype)
    hypergraph = Hypergraph.from_features(features, k=3)
    model = DAHGNN(6, 3, config).to(dtype)
    drop = CounterDropout(torch.tensor([4]), torch.tensor([2]))
    nodes, results = torch.tensor([3, 8, 39]), []
    for chosen in (None, nodes):
        weights = {name: weight.unsqueeze(0) for name, weight in model.named_parameters()}
        with using(backend):
            if chosen is None:
                both = model.fold(features, hypergraph)(weights, drop)
            else:
                reached = reached_from(chosen, hypergraph)
                folded = model.fold(features, hypergraph)
                both = folded(weights, drop, evaluate=evaluate, nodes=chosen, reached=reached)
            evaluated, trained = (each if chosen is not None else each[nodes] for each in both)
            gradients = torch.autograd.grad(trained.square().sum(), list(model.parameters()))
        results.append((evaluated if evaluate else trained, trained, *gradients))
    for expected, actual in zip(*results, strict=True):
        tolerance = 1e-10 if dtype == torch.float64 else 1e-4
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
