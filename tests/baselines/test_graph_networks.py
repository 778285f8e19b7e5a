import pytest
import torch

from dahgnn import Hypergraph, TrainingConfig, fit
from dahgnn.baselines.graph_networks import GAT, GCN, neighbour_graph


@pytest.fixture
def pyg():
    return pytest.importorskip("torch_geometric")


@pytest.mark.usefixtures("pyg")
@pytest.mark.parametrize("kind", [GCN, GAT])
def test_the_networks_of_pyg_learn_the_blobs(blobs, blob_hypergraph, blob_split, kind):
    features, labels = blobs
    model = kind(6, 3, generator=torch.Generator().manual_seed(0))
    result = fit(model, features, blob_hypergraph, labels, blob_split, TrainingConfig(learning_rate=0.01))
    assert result.accuracy(labels, blob_split.test) > 0.9


@pytest.mark.usefixtures("pyg")
@pytest.mark.parametrize("kind", [GCN, GAT])
def test_a_generator_makes_the_networks_of_pyg_repeatable(blobs, blob_hypergraph, kind):
    features = blobs[0]
    first, again, other = (
        kind(6, 3, generator=torch.Generator().manual_seed(seed)).eval() for seed in (1, 1, 2)
    )
    assert kind(**first.settings).settings == first.settings
    assert torch.equal(first(features, blob_hypergraph), again(features, blob_hypergraph))
    assert not torch.equal(first(features, blob_hypergraph), other(features, blob_hypergraph))
    assert not torch.equal(first.train()(features, blob_hypergraph), first(features, blob_hypergraph))


@pytest.mark.usefixtures("pyg")
def test_gcn_is_its_formula():
    features = torch.rand(12, 4, dtype=torch.float64)
    hypergraph = Hypergraph.from_features(features, k=3)
    model = GCN(4, 2, hidden=5).double().eval()
    dense = torch.eye(12, dtype=torch.float64)
    source, target = neighbour_graph(hypergraph)
    dense[source, target] = 1
    assert torch.equal(dense, dense.T)
    scale = dense.sum(1).rsqrt()
    adjacency = scale[:, None] * dense * scale
    hidden = (adjacency @ features @ model.layer1.lin.weight.T + model.layer1.bias).relu()
    expected = adjacency @ hidden @ model.layer2.lin.weight.T + model.layer2.bias
    torch.testing.assert_close(model(features, hypergraph), expected)


@pytest.mark.usefixtures("pyg")
def test_the_graph_joins_each_node_to_its_nearest_in_both_directions():
    features = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
    edges = neighbour_graph(Hypergraph.from_features(features, k=1))
    assert sorted(map(tuple, edges.T.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]


@pytest.mark.usefixtures("pyg")
@pytest.mark.parametrize(
    ("kind", "settings"), [(GCN, {"hidden": 0}), (GAT, {"heads": 0}), (GAT, {"dropout": 2})]
)
def test_bad_settings_of_graph_networks_are_refused(kind, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(6, 3, **settings)


@pytest.mark.usefixtures("pyg")
@pytest.mark.parametrize("kind", [GCN, GAT])
def test_weights_are_drawn_as_pyg_draws_them(kind):
    """As widely, each of them: a uniform draw of so many numbers comes near its bound."""
    torch.manual_seed(0)
    theirs = dict(kind(300, 40).named_parameters())
    for name, weight in kind(300, 40, generator=torch.Generator().manual_seed(0)).named_parameters():
        if name.endswith("bias"):
            assert not weight.any()
            assert not theirs[name].any()
        else:
            assert weight.abs().max().item() == pytest.approx(theirs[name].abs().max().item(), rel=0.1)
            assert not torch.equal(weight, theirs[name])
