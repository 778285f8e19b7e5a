"""The peers' networks have the shapes of ours; each test is skipped where its library is missing."""

import pytest
import torch

from dahgnn import Hypergraph
from dahgnn.bench.peers import IN_FEATURES, N_CLASSES, make_dhg, make_gat, make_pyg


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("package", "make"), [("torch_geometric", make_pyg), ("torch_geometric", make_gat), ("dhg", make_dhg)]
)
def test_a_peer_classifies_and_learns(package, make):
    pytest.importorskip(package, exc_type=ImportError)
    features = torch.rand(40, IN_FEATURES, generator=torch.Generator().manual_seed(0))
    network = make(Hypergraph.from_features(features, k=4))
    logits = network(features)
    assert logits.shape == (40, N_CLASSES)
    (logits * torch.arange(N_CLASSES)).sum().backward()
    for weight in network.parameters():
        assert weight.grad.isfinite().all()
        assert weight.grad.any()
