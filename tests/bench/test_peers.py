"""The peers' networks have the shapes of ours; each test is skipped where its library is missing."""

import pytest
import torch

from dahgnn import Hypergraph
from dahgnn.bench.peers import N_CLASSES, make_dhg, make_gat, make_pyg, train_plainly


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("package", "make"), [("torch_geometric", make_pyg), ("torch_geometric", make_gat), ("dhg", make_dhg)]
)
@pytest.mark.parametrize("columns", [784, 9])
def test_a_peer_classifies_and_learns(package, make, columns):
    pytest.importorskip(package, exc_type=ImportError)
    features = torch.rand(40, columns, generator=torch.Generator().manual_seed(0))
    network = make(Hypergraph.from_features(features, k=4), columns)
    logits = network(features)
    assert logits.shape == (40, N_CLASSES)
    (logits * torch.arange(N_CLASSES)).sum().backward()
    for weight in network.parameters():
        assert weight.grad.isfinite().all()
        assert weight.grad.any()


def test_the_hidden_units_of_hypergraph_attention_can_be_chosen():
    pytest.importorskip("torch_geometric", exc_type=ImportError)
    hypergraph = Hypergraph.from_features(torch.rand(20, 5), k=3)
    assert [make_pyg(hypergraph, 5, hidden=hidden).first.out_channels for hidden in (64, 256)] == [64, 256]
    assert make_pyg(hypergraph, 5).first.out_channels == 256


def test_the_plain_loop_updates_once_an_item_and_learns_from_its_nodes():
    generator = torch.Generator().manual_seed(0)
    features, network = torch.rand(30, 4, generator=generator), torch.nn.Linear(4, 2)
    nodes, targets = torch.tensor([3, 7, 8]), torch.tensor([0, 1, 1])
    calls = []
    network.register_forward_hook(lambda *_: calls.append(1))
    updates = train_plainly(network, features, nodes, targets)

    def loss() -> float:
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(network(features)[nodes], targets))

    first = loss()
    for _ in range(50):
        next(updates)
    assert len(calls) == 51
    assert loss() < first
