import pytest
import torch
from oracles import convolution

from dahgnn import HGNN, Hypergraph


def test_hgnn_is_two_convolutions(blobs, blob_hypergraph):
    features = blobs[0].double()
    model = HGNN(6, 3, hidden=5).double().eval()
    hidden, _ = convolution(features, model.convolution1.weight, blob_hypergraph)
    expected, _ = convolution(hidden.relu(), model.convolution2.weight, blob_hypergraph)
    torch.testing.assert_close(model(features, blob_hypergraph), expected, rtol=0, atol=1e-10)


def test_hgnn_drops_out_while_training_alone(blobs, blob_hypergraph):
    model = HGNN(6, 3, dropout=0.5)
    first, second = (model.train()(blobs[0], blob_hypergraph) for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (model.eval()(blobs[0], blob_hypergraph) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"dropout": 1.5}, "'dropout'"), ({"n_classes": 1}, "'n_classes'"), ({"hidden": 0}, "'hidden'")],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        HGNN(**{"in_features": 6, "n_classes": 3, **settings})


def test_hgnn_checks_its_input():
    with pytest.raises(ValueError, match=r"'x' parameter of HypergraphConvolution must be of shape \(2, 6\)"):
        HGNN(6, 3)(torch.ones(2, 5), Hypergraph.from_hyperedges([[0, 1]], n_nodes=2))


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_folded_hgnn_is_the_hgnn(blobs, blob_hypergraph, rate):
    models = [
        HGNN(6, 3, hidden=5, dropout=rate, generator=torch.Generator().manual_seed(seed)).double().eval()
        for seed in range(2)
    ]
    features = blobs[0].double()
    named = [dict(model.named_parameters()) for model in models]
    weights = {name: torch.stack([each[name] for each in named]) for name in named[0]}
    evaluated, trained = models[0].fold(features, blob_hypergraph)(weights, lambda values, *_: values)
    torch.testing.assert_close(evaluated, trained, rtol=0, atol=1e-12)
    for run, model in enumerate(models):
        plain = model(features, blob_hypergraph)
        torch.testing.assert_close(evaluated[:, run], plain, rtol=0, atol=1e-10)
        parameters = list(named[run].values())
        expected, actual = (
            torch.autograd.grad(each.square().sum(), parameters, retain_graph=True)
            for each in (plain, trained[:, run])
        )
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-8)


def test_the_folded_hgnn_drops_units_in_training_alone(blobs, blob_hypergraph):
    model = HGNN(6, 3, hidden=5, dropout=0.3)
    weights = {name: weight.unsqueeze(0) for name, weight in model.named_parameters()}
    asked = []

    def drop(values, rate, site):
        asked.append((tuple(values.shape), rate))
        return values * 0

    evaluated, trained = model.fold(blobs[0], blob_hypergraph)(weights, drop)
    assert asked == [((120, 1, 5), 0.3)]
    assert not trained.any()
    torch.testing.assert_close(evaluated.squeeze(1), model.eval()(blobs[0], blob_hypergraph))
    assert not evaluated.requires_grad
