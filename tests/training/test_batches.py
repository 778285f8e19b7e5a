"""Training by batches: that of all rows at once where the batch is everything, and the same in any company."""

import threading
from dataclasses import replace

import pytest
import torch
from oracles import lists_of
from torch import nn

from dahgnn.config import ModelConfig, TrainingConfig
from dahgnn.files.scratch import Scratch
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.kernels.gpu.programs import varying_sizes
from dahgnn.nn.induction import Induction
from dahgnn.nn.model import DAHGNN
from dahgnn.ops.backend import using
from dahgnn.training.batches import BatchRoom
from dahgnn.training.run import Labelled
from dahgnn.training.sampling import Sampling
from dahgnn.training.updates import Classroom
from dahgnn.world import ALONE

CONFIG = TrainingConfig(learning_rate=0.02, weight_decay=1e-3, decay=0.5, decay_every=3, max_epochs=40)
OURS = ModelConfig(hidden=8, heads=2, units=4, activation=True, dropout=0.5, shortcut=True)
MODELS = {
    "ours": OURS,
    "paper": ModelConfig(hidden=8, heads=2, units=4),
    "others": ModelConfig(
        hidden=8, heads=3, units=3, convolution="printed", neighbourhood="shared", final_activation=False
    ),
    "no density": ModelConfig(hidden=8, density=False, dropout=0.2),
}
N = 90
EVERYTHING = Sampling(batch=N, fan_out=((None, None), (None, None)))
SOME = Sampling(batch=16, fan_out=((2, 4), (3, None)))
BOUNDED = replace(SOME, updates=2)  # an epoch ends before all have had their turn
CPU = torch.device("cpu")
CUDA = torch.device("cuda")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(N) % 3
    features = torch.randn(N, 6, generator=generator) + 2 * nn.functional.one_hot(labels, 6)
    return features.double(), Hypergraph.from_features(features, k=5), labels


def make(config=OURS):
    return DAHGNN(6, 3, config, generator=torch.Generator().manual_seed(1)).double()


def enter(data, sampling, *, network=None, count=N, weights=None, device=CPU, **settings):
    features, hypergraph, labels = data
    room = BatchRoom(features, hypergraph, CONFIG, device, sampling=sampling, **settings)
    network = make() if network is None else network
    return room.enter(network, Labelled(torch.arange(count), labels[:count], weights), seed=5)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_of_everything_trains_as_all_rows_at_once_do(data, model, backend, weighted):
    features, hypergraph, labels = data
    weights = torch.rand(N, generator=torch.Generator().manual_seed(2)) + 0.1 if weighted else None
    networks, told = [make(MODELS[model]) for _ in range(2)], ([], [])
    with using(backend):
        room = Classroom(features, hypergraph, CONFIG, CPU)
        whole = room.enter(networks[0], Labelled(torch.arange(N), labels, weights), seed=5)
        batches = enter(data, EVERYTHING, network=networks[1], weights=weights)
        for training, heard in zip((whole, batches), told, strict=True):
            training.advance(5, heard.append)
        assert [each.epoch for each in told[1]] == [1, 2, 3, 4, 5]
        losses = [[each.train_loss for each in heard] for heard in told]
        assert losses[1] == pytest.approx(losses[0], rel=1e-6)
        # Weights that count less than one are kept in double precision on one side alone.
        tolerance = {"rtol": 1e-6, "atol": 1e-6}
        torch.testing.assert_close(networks[1].state_dict(), networks[0].state_dict(), **tolerance)
        torch.testing.assert_close(batches.evaluate(), whole.evaluate(), **tolerance)
    torch.testing.assert_close(
        BatchRoom(features, hypergraph, CONFIG, CPU, sampling=SOME).measure_density(networks[0]),
        Induction(networks[0], features, hypergraph).density(),
    )


@pytest.mark.parametrize(("neighbours", "few"), [(None, False), (16, True), (256, False)])
def test_a_batch_reads_no_more_neighbours_of_a_hub_than_it_may(neighbours, few):
    """Node 0 is in a hyperedge with each of 200 others; all training nodes hear of it, none of most others."""
    hypergraph = Hypergraph.from_hyperedges([[0, i] for i in range(1, 201)], n_nodes=201)
    labels, features = torch.arange(201) % 3, torch.randn(201, 6, generator=torch.Generator().manual_seed(3))
    sampling = Sampling(batch=2, fan_out=((1, None), (1, None)), neighbours=neighbours)
    room = BatchRoom(features.double(), hypergraph, CONFIG, CPU, sampling=sampling)
    training = [room.enter(make(), Labelled(torch.arange(1, 5), labels[1:5]), seed=seed) for seed in range(2)]
    found = set()
    for reach in (each.prepare(step).reaches[1] for each in training for step in range(2)):
        assert (len(reach.nodes) < 25) == few
        near = lists_of(reach.neighbours, reach.nodes)[reach.nodes[: reach.senders].tolist().index(0)]
        assert len(near) == (16 if few else 200)
        found.add(tuple(near))
    assert len(found) == 1  # in all batches and for all networks
    told = []
    training[0].advance(2, told.append)
    assert all(0 < each.train_loss < 5 for each in told)


class Pair:
    """Two processes as two threads, which wait for each other."""

    def __init__(self):
        self.wait, self.given = threading.Barrier(2, timeout=60), [None, None]

    def exchange(self, rank, value):
        self.given[rank] = value
        self.wait.wait()
        both = list(self.given)
        self.wait.wait()
        return both


class Half:
    """One of two processes."""

    size = 2

    def __init__(self, pair, rank):
        self.pair, self.rank = pair, rank

    def average_(self, tensors, weight):
        both = self.pair.exchange(self.rank, (weight, [each.clone() for each in tensors]))
        total = sum(each for each, _ in both)
        for place, tensor in enumerate(tensors):
            tensor.copy_(sum(each * values[place] for each, values in both) / total)

    def combine_(self, minimum, maximum):
        both = self.pair.exchange(self.rank, (minimum.clone(), maximum.clone()))
        minimum.copy_(torch.minimum(both[0][0], both[1][0]))
        maximum.copy_(torch.maximum(both[0][1], both[1][1]))

    def barrier(self):
        self.pair.wait.wait()


# The last batch of 33 has one node, so that one process has none.
@pytest.mark.parametrize(("count", "sampling"), [(N, SOME), (33, SOME), (33, BOUNDED)])
def test_two_processes_train_as_one_does(data, count, sampling):
    alone, heard = make(), []
    enter(data, sampling, network=alone, count=count).advance(3, heard.append)
    networks, told, pair = [make(), make()], ([], []), Pair()

    def train(rank):
        training = enter(data, sampling, network=networks[rank], count=count, world=Half(pair, rank))
        training.advance(3, told[rank].append)

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in range(2):
        losses = [each.train_loss for each in told[rank]]
        assert losses == pytest.approx([each.train_loss for each in heard], rel=1e-9)
        torch.testing.assert_close(networks[rank].state_dict(), alone.state_dict(), rtol=1e-8, atol=1e-8)


def test_neither_files_nor_threads_nor_parts_make_a_difference(data, tmp_path):
    features, hypergraph, labels = data
    expected = make()
    enter(data, Sampling(batch=16, fan_out=SOME.fan_out, prefetch=0), network=expected).advance(4, [].append)
    for workers in (1, 3):
        network, sampling = make(), replace(SOME, workers=workers)
        with Scratch(tmp_path, large=1) as scratch:
            kept = scratch.store(features), hypergraph, labels
            training = enter(kept, sampling, network=network, scratch=scratch)
            for epochs in (1, 3):
                last = training.advance(epochs, [].append)
        assert (last.epoch, last.interrupted) == (4, False)
        assert all(map(torch.equal, network.state_dict().values(), expected.state_dict().values()))


def test_threads_that_prepare_leave_the_number_of_threads_as_it_was(data):
    before = torch.get_num_threads()
    enter(data, replace(SOME, workers=4, prefetch=4)).advance(3, [].append)
    assert torch.get_num_threads() == before


def test_every_labelled_node_is_a_target_once_an_epoch(data):
    training = enter(data, SOME, count=50)
    for epoch in range(2):
        batches = [training.prepare(step) for step in range(4 * epoch, 4 * epoch + 4)]
        targets = [batch.reaches[1].nodes[batch.reaches[1].receivers] for batch in batches]
        assert torch.cat(targets).sort().values.tolist() == list(range(50))
        assert sum(batch.share for batch in batches) == pytest.approx(1)
    assert not torch.equal(targets[0], training.prepare(0).reaches[1].nodes[:16])


def test_an_epoch_of_few_updates_goes_on_where_the_last_one_ended(data):
    training = enter(data, BOUNDED, count=35)  # batches of 16, 16 and 3 are a turn
    assert training.updates_an_epoch == 2
    batches = [training.prepare(step) for step in range(6)]
    targets = [batch.reaches[1].nodes[batch.reaches[1].receivers] for batch in batches]
    assert [len(each) for each in targets] == [16, 16, 3] * 2
    for turn in (targets[:3], targets[3:]):
        assert torch.cat(turn).sort().values.tolist() == list(range(35))
    assert not torch.equal(targets[0].sort().values, targets[3].sort().values)
    shares = [batch.share for batch in batches]
    assert shares == pytest.approx([1 / 2, 1 / 2, 3 / 19, 16 / 19, 16 / 19, 3 / 19])
    losses = []
    training.advance(3, losses.append)
    assert [each.epoch for each in losses] == [1, 2, 3]
    assert training.optimizer.done == 6


def test_a_bound_that_is_not_reached_changes_nothing(data):
    networks = [make(), make()]
    for network, sampling in zip(networks, (SOME, replace(SOME, updates=4)), strict=True):
        enter(data, sampling, network=network, count=50).advance(3, [].append)
    assert all(map(torch.equal, networks[0].state_dict().values(), networks[1].state_dict().values()))


@pytest.mark.parametrize("sampling", [SOME, BOUNDED])
def test_a_training_goes_on_from_its_state(data, sampling):
    expected, heard = make(), []
    enter(data, sampling, network=expected).advance(5, heard.append)
    first = enter(data, sampling)
    first.advance(2, [].append)
    first.update(first.prepare(first.optimizer.done))  # in the middle of an epoch
    state = first.state()
    network = DAHGNN(6, 3, OURS, generator=torch.Generator().manual_seed(9)).double()
    second = enter(data, sampling, network=network)
    second.restore(state)
    told = []
    assert second.advance(3, told.append).epoch == 5
    assert all(map(torch.equal, network.state_dict().values(), expected.state_dict().values()))
    assert [each.train_loss for each in told] == [each.train_loss for each in heard[2:]]


def test_the_state_of_another_kind_is_refused(data):
    state = enter(data, SOME, network=make(MODELS["no density"])).state()
    with pytest.raises(
        ValueError, match="The 'state' parameter of restore must be that of a training of the"
    ):
        enter(data, SOME).restore(state)


def test_an_interruption_keeps_the_weights_so_far(data):
    def press(update):
        if update.epoch == 2:
            raise KeyboardInterrupt

    network, expected = make(), make()
    training = enter(data, SOME, network=network)
    last = training.advance(9, press)
    assert (last.epoch, last.interrupted) == (2, True)
    enter(data, SOME, network=expected).advance(2, [].append)
    assert all(map(torch.equal, network.state_dict().values(), expected.state_dict().values()))


def test_an_interruption_before_the_first_update_goes_on_up(data, monkeypatch):
    training = enter(data, SOME)

    def press(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "update", press)
    with pytest.raises(KeyboardInterrupt):
        training.advance(1, [].append)


def test_rows_that_count_nothing_are_no_targets(data):
    weights = (torch.arange(N) % 2).double()
    training = enter(data, SOME, weights=weights)
    assert training.updates_an_epoch == 3
    assert (training.labelled.nodes % 2 == 1).all()


def test_a_gradient_through_the_density_is_refused(data):
    with pytest.raises(ValueError, match="The 'density_gradient' parameter of BatchRoom must be False"):
        enter(data, SOME, network=make(ModelConfig(hidden=8, density_gradient=True)))


def test_small_batches_learn(data):
    labels = data[2]
    training = enter(data, SOME, count=45, world=ALONE)
    training.advance(20, [].append)
    assert (training.evaluate()[45:].argmax(1) == labels[45:]).double().mean() > 0.7


@needs_cuda
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("sampling", [EVERYTHING, SOME, replace(SOME, prefetch=0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_cuda_device_trains_as_the_cpu_does(data, model, backend, sampling, weighted):
    weights = torch.rand(N, generator=torch.Generator().manual_seed(2)) + 0.1 if weighted else None
    networks, told, said = [make(MODELS[model]) for _ in range(2)], ([], []), []
    for device, network, heard in zip((CPU, CUDA), networks, told, strict=True):
        with using("auto" if device == CPU else backend):
            training = enter(data, sampling, network=network, weights=weights, device=device)
            training.advance(3, heard.append)
            said.append(training.evaluate())
    losses = [[each.train_loss for each in heard] for heard in told]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    assert all(weight.is_cuda for weight in networks[1].parameters())
    torch.testing.assert_close(networks[1].cpu().state_dict(), networks[0].state_dict(), **tolerance)
    torch.testing.assert_close(said[1], said[0], **tolerance)


@needs_cuda
def test_a_cuda_device_goes_on_from_its_state_and_repeats_its_bits(data):
    expected = make()
    enter(data, SOME, network=expected, device=CUDA).advance(5, [].append)
    first = enter(data, SOME, device=CUDA)
    first.advance(2, [].append)
    state = first.state()
    assert all(each.device == CPU for each in state.values())
    network = make()
    second = enter(data, SOME, network=network, device=CUDA)
    second.restore(state)
    second.advance(3, [].append)
    assert all(map(torch.equal, network.state_dict().values(), expected.state_dict().values()))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
@needs_cuda
def test_an_update_never_has_the_host_wait_for_the_device(data):
    training = enter(data, SOME, device=CUDA)
    prepared = [training.prepare(step) for step in range(3)]
    with varying_sizes():
        training.update(prepared[0])  # compiles
        torch.cuda.synchronize()
        try:
            torch.cuda.set_sync_debug_mode("error")
            for batch in prepared[1:]:
                training.update(batch)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@needs_cuda
def test_propagated_features_are_those_of_the_cpu(data):
    rooms = [enter(data, SOME, device=device).propagated for device in (CPU, CUDA)]
    assert rooms[1].nodes.device == CPU
    torch.testing.assert_close(rooms[1].nodes, rooms[0].nodes)
    torch.testing.assert_close(rooms[1].hyperedges, rooms[0].hyperedges)
