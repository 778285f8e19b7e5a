"""Training by updates alone: the same updates as the plain loop makes, as many as asked for."""

import pytest
import torch
from torch import nn

from dahgnn.config import ModelConfig, TrainingConfig
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.nn.induction import Induction
from dahgnn.nn.model import DAHGNN
from dahgnn.ops.dropout import Mask, drop_units
from dahgnn.training import updates
from dahgnn.training.run import Labelled
from dahgnn.training.updates import Classroom

CONFIG = TrainingConfig(learning_rate=0.02, weight_decay=1e-3, decay=0.5, decay_every=7, max_epochs=40)
MODEL = ModelConfig(hidden=8, heads=2, units=4, activation=True, dropout=0.5, shortcut=True)
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    features = torch.randn(90, 6, generator=generator) + 2 * nn.functional.one_hot(labels, 6)
    return features, Hypergraph.from_features(features, k=5), labels


def make(seed=1):
    return DAHGNN(6, 3, MODEL, generator=torch.Generator().manual_seed(seed))


def labelled(labels, weights=None):
    return Labelled(torch.arange(12), labels[:12], weights)


def advance(data, epochs, *, device="cpu", weights=None, heard=None):
    """Train for these numbers of epochs; return the network, its logits and the last update."""
    features, hypergraph, labels = data
    network = make()
    training = Classroom(features, hypergraph, CONFIG, torch.device(device)).enter(
        network, labelled(labels, weights), seed=5
    )
    for some in epochs:
        last = training.advance(some, [].append if heard is None else heard.append)
    return network, training.evaluate(), last


def reference(data, epochs, weights=None):
    """Adam of torch on the plain forward pass, with the dropout that seed and epoch say."""
    features, hypergraph, labels = data
    network = make()
    optimizer = torch.optim.Adam(
        network.parameters(), lr=CONFIG.learning_rate, weight_decay=CONFIG.weight_decay
    )
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = CONFIG.learning_rate * CONFIG.decay ** (epoch // CONFIG.decay_every)
        stacked = {name: weight.unsqueeze(0) for name, weight in network.named_parameters()}

        def drop(values, rate, site, epoch=epoch):
            return drop_units(values, Mask(torch.tensor([5]), torch.tensor([epoch - 1]), site, rate))

        logits = network.fold(features, hypergraph)(stacked, drop)[1].squeeze(1)[:12]
        losses = nn.functional.cross_entropy(logits, labels[:12], reduction="none")
        loss = losses.mean() if weights is None else losses @ weights / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network, loss.item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
def test_updates_are_those_of_the_plain_loop(data, device, weighted, monkeypatch):
    monkeypatch.setattr(updates, "LEAVE_OUT", 0.0)
    weights = torch.rand(12, generator=torch.Generator().manual_seed(2)) if weighted else None
    expected, loss = reference(data, 20, weights)
    network, logits, last = advance(data, [20], device=device, weights=weights)
    assert (last.epoch, last.interrupted) == (20, False)
    assert last.train_loss == pytest.approx(loss, rel=1e-3)
    torch.testing.assert_close(logits, expected.eval()(*data[:2]).detach(), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(network.eval()(*(each.to(device) for each in data[:2])).cpu(), logits)


@pytest.mark.parametrize("device", DEVICES)
def test_parts_are_as_good_as_the_whole(data, device):
    _, whole, _ = advance(data, [24], device=device)
    _, parts, last = advance(data, [8, 1, 15], device=device)
    assert last.epoch == 24
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_leading_directions_train_nearly_the_same(data, device, monkeypatch):
    features, hypergraph, labels = data
    directions = torch.randn(6, 80, generator=torch.Generator().manual_seed(3))
    noise = 0.1 * torch.randn(90, 80, generator=torch.Generator().manual_seed(4))
    wide = (features @ directions + noise) / 20
    results = []
    for leave_out in (0.0, 0.01):
        monkeypatch.setattr(updates, "LEAVE_OUT", leave_out)
        network = DAHGNN(80, 3, MODEL, generator=torch.Generator().manual_seed(1))
        training = Classroom(wide, hypergraph, CONFIG, torch.device(device)).enter(
            network, labelled(labels), 5
        )
        training.advance(30, lambda _: None)
        results.append(training.evaluate())
    assert not torch.equal(*results)
    assert (results[0].argmax(1) == results[1].argmax(1)).double().mean() > 0.9


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ahead", [False, True])
def test_networks_that_train_in_turn_do_not_disturb_each_other(data, ahead, device):
    """They share a captured epoch on a CUDA device if they have about as many labels, and else have two.

    Where they begin ahead, the device trains all of them before the host asks for the first.
    """
    features, hypergraph, labels = data
    parts = [torch.arange(12), torch.arange(20, 34), torch.arange(5, 80)]

    def enter(room, number):
        network = make(seed=number)
        return network, room.enter(network, Labelled(parts[number], labels[parts[number]]), seed=5 + number)

    def rooms():
        return Classroom(features, hypergraph, CONFIG, torch.device(device))

    room = rooms()
    together = [enter(room, number) for number in range(3)]
    for epochs in (4, 20):  # on a CUDA device the second has two looks at the loss
        for _, training in together if ahead else ():
            training.begin(epochs)
        last = [training.advance(epochs, lambda _: None) for _, training in together]
        said = [training.evaluate() for _, training in together]
    for number, (network, _) in enumerate(together):
        other, alone = enter(rooms(), number)
        expected = alone.advance(24, lambda _: None)
        assert last[number].train_loss == pytest.approx(expected.train_loss, rel=1e-5)
        torch.testing.assert_close(said[number], alone.evaluate(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(network.state_dict(), other.state_dict(), rtol=1e-5, atol=1e-5)
        assert last[number].epoch == 24
    assert not torch.allclose(said[0], said[1], atol=0.01)


@pytest.mark.parametrize("device", DEVICES)
def test_the_density_is_that_of_the_first_attention_layer(data, device):
    features, hypergraph, _ = data
    network = make().to(device)
    room = Classroom(features, hypergraph, CONFIG, torch.device(device))
    induction = Induction(make(), features, hypergraph)
    expected = induction.first.to_hyperedges.density.mean(1)
    torch.testing.assert_close(room.measure_density(network), expected, rtol=1e-4, atol=1e-4)


def test_every_epoch_is_told(data):
    heard = []
    advance(data, [3, 2], heard=heard)
    assert [update.epoch for update in heard] == [1, 2, 3, 4, 5]
    assert all(update.train_loss > 0 for update in heard)


@pytest.mark.parametrize("device", DEVICES)
def test_an_interruption_keeps_the_weights_so_far(data, device):
    features, hypergraph, labels = data

    def press(update):
        if update.epoch >= 16:
            raise KeyboardInterrupt

    network = make()
    room = Classroom(features, hypergraph, CONFIG, torch.device(device))
    training = room.enter(network, labelled(labels), seed=5)
    last = training.advance(40, press)
    assert (last.epoch, last.interrupted) == (16, True)
    torch.testing.assert_close(
        training.evaluate(), advance(data, [16], device=device)[1], rtol=1e-5, atol=1e-5
    )


def test_an_interruption_before_the_first_update_goes_on_up(data, monkeypatch):
    features, hypergraph, labels = data

    def press(*_):
        raise KeyboardInterrupt

    training = Classroom(features, hypergraph, CONFIG, torch.device("cpu")).enter(make(), labelled(labels), 5)
    monkeypatch.setattr(updates, "cross_entropy_of", press)
    with pytest.raises(KeyboardInterrupt):
        training.advance(3, lambda _: None)


def test_a_node_that_is_named_twice_counts_twice(data):
    features, hypergraph, labels = data
    room = Classroom(features, hypergraph, CONFIG, torch.device("cpu"))
    networks = []
    for nodes, weights in (([7, 3, 7], None), ([3, 7], torch.tensor([1.0, 2.0]))):
        network, nodes = make(), torch.tensor(nodes)
        room.enter(network, Labelled(nodes, labels[nodes], weights), seed=5).advance(4, [].append)
        networks.append(network)
    for twice, weighted in zip(*(each.parameters() for each in networks), strict=True):
        torch.testing.assert_close(twice, weighted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_networks_of_a_room_are_judged_one_by_one(data, device):
    features, hypergraph, labels = data
    room = Classroom(features, hypergraph, CONFIG, torch.device(device))
    networks = [make(seed) for seed in (1, 2, 3)]
    trainings = [room.enter(network, labelled(labels), seed=5) for network in networks]
    for _ in range(2):
        said = []
        for training in trainings:
            training.advance(2, [].append)
            said.append(training.evaluate())
        for network, logits in zip(networks, said, strict=True):
            with torch.no_grad():
                expected = network.cpu().eval()(features, hypergraph)
            network.to(device)
            torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert not torch.equal(said[0], said[1])
