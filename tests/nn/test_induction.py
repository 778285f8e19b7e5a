"""New nodes in a trained network."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dahgnn import DAHGNN, Hypergraph, ModelConfig
from dahgnn.graph.neighbours import Neighbors, knn, nearest
from dahgnn.nn.induction import Induction, evaluate_all
from dahgnn.ops.backend import using

N, K = 14, 4


def ring(n: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    """Neighbours and distances on a ring, where who has whom as a neighbour is mutual."""
    steps = torch.tensor([-1, 1, -2, 2])
    return (torch.arange(n).unsqueeze(1) + steps) % n, steps.abs().double().expand(n, -1)


@pytest.fixture
def features():
    return torch.randn(N, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def model(**changes) -> DAHGNN:
    generator = torch.Generator().manual_seed(2)
    config = ModelConfig(hidden=6, heads=2, units=4, **changes)
    return DAHGNN(5, 3, config, generator=generator).double().eval()


def logits(induction, features, neighbors):
    return induction.evaluate(features, neighbors)[0]


SETTINGS = [
    {},
    {"density": False},
    {"neighbourhood": "shared"},
    {"convolution": "printed"},
    {"final_activation": False},
    {"activation": True, "shortcut": True, "dropout": 0.5},
]


# A copy shares hyperedges with its original, which has itself not in its neighbourhood.
@pytest.mark.parametrize("changes", [each for each in SETTINGS if "neighbourhood" not in each])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_copy_of_a_node_gets_what_the_node_has(features, changes, weighted):
    """On a ring it stands in the same hyperedges, and its own is the copy of the node's."""
    indices, distances = ring()
    weights = torch.tensor([0.5, 1] * (N // 2)) if weighted else None
    hypergraph = Hypergraph.from_neighbors(indices, weights=weights)
    network = model(**changes)
    induction = Induction(network, features, hypergraph, distances[:, -1])
    expected, density = network(features, hypergraph), induction.density()
    for node in range(N):
        copy = Neighbors(indices[node : node + 1], distances[node : node + 1])
        # The copy's own hyperedge weighs one: only a node whose hyperedge does, too, is the same.
        if weights is None or weights[node] == 1:
            got, dense = induction.evaluate(features[node : node + 1], copy)
            torch.testing.assert_close(got, expected[node : node + 1])
            torch.testing.assert_close(dense, density[node : node + 1])


@pytest.mark.parametrize("changes", SETTINGS)
def test_the_trace_is_the_network(features, changes):
    indices, distances = ring()
    hypergraph = Hypergraph.from_neighbors(indices)
    network = model(**changes)
    induction = Induction(network, features, hypergraph, distances[:, -1])
    sums = induction.second.to_nodes.sums.flatten(1)
    if network.shortcut is not None:
        nodes = network.convolution(features, hypergraph)[0]
        sums = sums + torch.nn.functional.elu(nodes) @ network.shortcut
    torch.testing.assert_close(sums, network(features, hypergraph))
    for step, incidence in (
        (induction.first.to_hyperedges, hypergraph.to_hyperedges),
        (induction.second.to_nodes, hypergraph.to_nodes),
    ):
        sums = torch.zeros(N, step.source.shape[1], dtype=torch.float64)
        sums.index_add_(0, incidence.owners, step.coefficients(incidence))
        torch.testing.assert_close(sums, torch.ones_like(sums))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_new_node_gets_the_same_in_any_company(data):
    seed = data.draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(30, 5, generator=generator, dtype=torch.float64)
    new = torch.randn(data.draw(st.integers(1, 12)), 5, generator=generator, dtype=torch.float64)
    neighbors = knn(points, K)
    induction = Induction(model(), points, Hypergraph.from_neighbors(neighbors), neighbors.distances[:, -1])
    found = nearest(new, points, K)
    together = logits(induction, new, found)
    order = torch.randperm(len(new), generator=generator)
    shuffled = logits(induction, new[order], Neighbors(found.indices[order], found.distances[order]))
    torch.testing.assert_close(shuffled, together[order])
    for row in range(len(new)):
        one = Neighbors(found.indices[row : row + 1], found.distances[row : row + 1])
        torch.testing.assert_close(logits(induction, new[row : row + 1], one), together[row : row + 1])


def test_a_far_node_joins_nobody(features):
    """Nobody has it among its nearest, so that its own hyperedge is all it has."""
    neighbors = knn(features, K)
    hypergraph = Hypergraph.from_neighbors(neighbors)
    far = features[:2] + 1000
    found = nearest(far, features, K)
    with_radius = Induction(model(), features, hypergraph, neighbors.distances[:, -1])
    without = Induction(model(), features, hypergraph)
    assert torch.equal(logits(with_radius, far, found), logits(without, far, found))
    assert not torch.equal(
        logits(with_radius, features[:2], nearest(features[:2], features, K)),
        logits(without, features[:2], nearest(features[:2], features, K)),
    )


def test_a_hypergraph_without_centres_takes_new_nodes(features):
    hypergraph = Hypergraph.from_hyperedges(
        [[0, 1, 2, 3], [3, 4, 5], [6, 7, 8, 9, 10, 11, 12, 13]], n_nodes=N
    )
    induction = Induction(model(), features, hypergraph, torch.ones(N))
    got = logits(induction, features[:3], nearest(features[:3], features, 2))
    assert got.shape == (3, 3)
    assert torch.isfinite(got).all()


def test_the_density_of_a_newcomer_stays_in_the_scale(features):
    """A node in a crowd is no denser than the densest that the network knows."""
    indices, distances = ring()
    network = model()
    induction = Induction(network, features, Hypergraph.from_neighbors(indices), distances[:, -1])
    crowded = Neighbors(torch.zeros(1, K, dtype=torch.int64), torch.zeros(1, K, dtype=torch.float64))
    assert torch.isfinite(logits(induction, features[:1], crowded)).all()


@pytest.mark.parametrize("changes", SETTINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_several_networks_together_say_what_each_does_in_plain_pytorch(changes, dtype):
    features, new = torch.randn(260, 5, generator=torch.Generator().manual_seed(3), dtype=dtype).split(
        (200, 60)
    )
    found = knn(features, K)
    hypergraph, radius = Hypergraph.from_neighbors(found), found.distances[:, -1]
    networks = [model(**changes).to(dtype) for _ in range(3)]
    with torch.no_grad():
        for number, network in enumerate(networks):
            for weight in network.parameters():
                weight *= 1 + 0.2 * number
    neighbors = nearest(new, features, K)
    inductions = [Induction(network, features, hypergraph, radius) for network in networks]
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    for network, (logits, density) in zip(networks, evaluate_all(inductions, new, neighbors), strict=True):
        with using("reference"):
            expected = Induction(network, features, hypergraph, radius).evaluate(new, neighbors)
        torch.testing.assert_close(logits, expected[0], **near)
        torch.testing.assert_close(density, expected[1], **near)
