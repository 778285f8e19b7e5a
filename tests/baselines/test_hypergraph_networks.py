"""Networks on a given hypergraph, of layers that are not ours."""

import pytest
import torch

from dahgnn import Hypergraph, TrainingConfig, fit
from dahgnn.baselines.hypergraph_networks import MLP, DHGHypergraph, PyGHypergraph

PACKAGES = {MLP: "torch", PyGHypergraph: "torch_geometric", DHGHypergraph: "dhg"}
KINDS = list(PACKAGES)


@pytest.mark.filterwarnings("ignore")  # which DHG raises while it is imported
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_learns_the_blobs(blobs, blob_hypergraph, blob_split, kind):
    pytest.importorskip(PACKAGES[kind])
    features, labels = blobs
    model = kind(6, 3, generator=torch.Generator().manual_seed(0))
    config = TrainingConfig(learning_rate=0.01, max_epochs=150)
    result = fit(model, features, blob_hypergraph, labels, blob_split, config)
    assert result.accuracy(labels, blob_split.test) > 0.85


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_makes_a_network_repeatable(blobs, blob_hypergraph, kind):
    pytest.importorskip(PACKAGES[kind])
    first, again, other = (
        kind(6, 3, generator=torch.Generator().manual_seed(seed)).eval() for seed in (1, 1, 2)
    )
    assert kind(**first.settings).settings == first.settings
    assert torch.equal(first(blobs[0], blob_hypergraph), again(blobs[0], blob_hypergraph))
    assert not torch.equal(first(blobs[0], blob_hypergraph), other(blobs[0], blob_hypergraph))


def test_an_mlp_sees_no_hypergraph(blobs, blob_hypergraph):
    model = MLP(6, 3).eval()
    pairs = Hypergraph.from_hyperedges([[0, 1]], n_nodes=120)
    assert torch.equal(model(blobs[0], pairs), model(blobs[0], blob_hypergraph))


def dense_means(hypergraph):
    """D_v^(-1) H D_e^(-1) Hᵀ; PyG counts the weights of hyperedges in D_v, and nowhere else."""
    h = torch.zeros(hypergraph.n_nodes, hypergraph.n_hyperedges, dtype=torch.float64)
    for number in range(hypergraph.n_hyperedges):
        h[hypergraph.members(number), number] = 1
    weights = torch.ones(hypergraph.n_hyperedges) if hypergraph.weights is None else hypergraph.weights
    return h / (h @ weights.double())[:, None] @ (h / h.sum(0)).T


@pytest.mark.parametrize("weights", [None, [2.0, 0.5, 1.0]])
def test_the_layer_of_pyg_is_a_mean_of_means(weights):
    pytest.importorskip("torch_geometric")
    hypergraph = Hypergraph.from_hyperedges([[0, 1, 2], [2, 3], [1, 3, 4]], n_nodes=6, weights=weights)
    features = torch.rand(6, 4)
    model = PyGHypergraph(4, 2, hidden=5).eval()
    means = dense_means(hypergraph).float()
    hidden = (means @ features @ model.layer1.lin.weight.T + model.layer1.bias).relu()
    expected = means @ hidden @ model.layer2.lin.weight.T + model.layer2.bias
    torch.testing.assert_close(model(features, hypergraph), expected)


@pytest.mark.filterwarnings("ignore")
def test_the_layer_of_dhg_is_its_own():
    convolutions = pytest.importorskip("dhg.nn")
    dhg = pytest.importorskip("dhg")
    groups = [[0, 1, 2], [2, 3], [1, 3, 4], [5]]
    hypergraph, features = Hypergraph.from_hyperedges(groups, n_nodes=6), torch.rand(6, 4)
    model = DHGHypergraph(4, 2, hidden=5).eval()
    theirs = convolutions.HGNNPConv(4, 5, is_last=True)
    theirs.theta.load_state_dict(model.layer1.theta.state_dict())
    structure = model._structure(hypergraph)
    expected = theirs(features, dhg.Hypergraph(6, [tuple(group) for group in groups]))
    torch.testing.assert_close(model.layer1(features, *structure), expected)
    means = dense_means(hypergraph).float()
    torch.testing.assert_close(expected, means @ theirs.theta(features))


@pytest.mark.parametrize("kind", [MLP, DHGHypergraph])
@pytest.mark.parametrize("settings", [{"hidden": 0}, {"dropout": 2}])
def test_bad_settings_are_refused(kind, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(6, 3, **settings)
