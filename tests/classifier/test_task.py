"""The steps of a fit, and what each of them refuses."""

import logging

import numpy as np
import pytest
import torch

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.labels import encode_labels
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.task import LabelledTable, begin
from dahgnn.classifier.verbosity import Teller
from dahgnn.config import ModelConfig, ResourceConfig, TrainingConfig
from dahgnn.graph.neighbours import knn

SILENT = Teller(logging.getLogger("nobody"), 0)
SMALL = {
    "model": ModelConfig(hidden=4, heads=1, units=4, activation=True, shortcut=True),
    "training": TrainingConfig(max_epochs=4),
    "networks": 2,
    "random_state": 0,
}


@pytest.fixture
def table(blobs):
    rows, labels = (each.numpy() for each in blobs)
    return make_table(rows, np.where(np.arange(len(rows)) < 60, labels, -1))


def make_table(rows, labels, **given):
    classes, numbers = encode_labels(labels, len(rows))
    beside = {"sample_weight": None, "neighbors": None, "hypergraph": None} | given
    return LabelledTable(rows=rows, classes=classes, labels=numbers, **beside)


def start(table, **values):
    return begin(Parameters.of(DAHGNNClassifier(**SMALL | values)), table, SILENT)


def run(task, last=None):
    with task.work(None) as workplace:
        splits = task.split()
        adopted = task.surround(splits, workplace)
        return task.train(adopted, splits, workplace, last, lambda *_: None)


def test_its_steps_are_those_of_a_classifier(table):
    with start(table) as task:
        fit = run(task)
    fitted = DAHGNNClassifier(**SMALL).fit(table.rows, np.where(table.labels < 0, -1, table.labels))
    np.testing.assert_array_equal(fit.ensemble.fitted.distributions, fitted.label_distributions_)


def test_networks_of_the_same_kind_are_gone_on_with_and_left_as_they_are(table):
    with start(table) as task:
        last = list(run(task).ensemble.networks)
        before = [{name: each.clone() for name, each in one.state_dict().items()} for one in last]
        made = task._make_networks(7, 2, last)
    assert all(torch.equal(a, b) for a, b in zip(made[0].parameters(), last[0].parameters(), strict=True))
    made[0].load_state_dict({name: each + 1 for name, each in before[0].items()})
    assert all(torch.equal(last[0].state_dict()[name], each) for name, each in before[0].items())


@pytest.mark.parametrize(("width", "count"), [(8, 2), (7, 3)])
def test_networks_of_another_kind_begin_anew(table, width, count):
    with start(table) as task:
        last = list(run(task).ensemble.networks)
        made = task._make_networks(width, count, last)
    assert [each.settings["in_features"] for each in made] == [width] * count
    assert all(each is not old for each, old in zip(made, last, strict=False))


def test_a_short_fit_keeps_nothing_on_the_disk_and_a_long_one_does(table, tmp_path):
    with start(table) as task, task.work(None) as workplace:
        assert workplace.folder is None
    resources = ResourceConfig(batch=16, folder=str(tmp_path))
    with start(table, resources=resources) as task, task.work(None) as workplace:
        assert workplace.folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def folder_of(table, parent):
    """Return the name of the folder in which a long fit keeps what it has done."""
    resources = ResourceConfig(batch=16, folder=str(parent))
    with start(table, resources=resources) as task, task.work(None) as workplace:
        return workplace.folder.name


def test_a_long_fit_that_does_not_search_keeps_something_too(table, tmp_path):
    hypergraph = Hypergraph.from_features(torch.from_numpy(table.rows), k=5)
    given = make_table(table.rows, table.labels.numpy(), hypergraph=hypergraph)
    resources = ResourceConfig(batch=16, folder=str(tmp_path))
    with start(given, resources=resources) as task, task.work(None) as workplace:
        splits = task.split()
        adopted = task.surround(splits, workplace)
        assert not adopted.surroundings.searched
        assert adopted.decision
        task.train(adopted, splits, workplace, None, lambda *_: None)
        assert list(workplace.folder.rglob("network-*.safetensors"))
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_that_of_what_was_given(table, tmp_path):
    """Another neighbour, hyperedge or weight leads to another folder, and the same to the same."""
    labels, neighbors = table.labels.numpy(), knn(torch.from_numpy(table.rows), 5).indices
    other = neighbors.clone()
    other[0, 0] = neighbors[0, 0] + 1
    hypergraph = Hypergraph.from_neighbors(neighbors)
    weights = torch.ones(hypergraph.n_hyperedges)
    weights[0] = 2
    given = [{}, {"neighbors": neighbors}, {"neighbors": other}, {"hypergraph": hypergraph}]
    given.append({"hypergraph": Hypergraph.from_neighbors(neighbors, weights=weights)})
    lists = [hypergraph.members(number).tolist() for number in range(hypergraph.n_hyperedges)]
    given.append(
        {"hypergraph": Hypergraph.from_hyperedges(lists, n_nodes=len(table.rows))}
    )  # without centres
    names = [folder_of(make_table(table.rows, labels, **each), tmp_path) for each in given]
    assert len(set(names)) == len(names)
    assert names == [folder_of(make_table(table.rows, labels, **each), tmp_path) for each in given]


def test_a_fit_to_given_neighbours_that_was_ended_goes_on_from_its_last_epoch(table, tmp_path):
    neighbors = knn(torch.from_numpy(table.rows), 5).indices
    labels = np.where(table.labels < 0, -1, table.labels)

    def fit(folder, listen):
        resources = ResourceConfig(batch=16, folder=str(tmp_path / folder))
        classifier = DAHGNNClassifier(**SMALL | {"networks": 1}, resources=resources)
        return classifier.fit(table.rows, labels, neighbors=neighbors, callback=listen)

    def end(_, update):
        if update.epoch == 2:
            raise RuntimeError("ended")

    with pytest.raises(RuntimeError, match="ended"):
        fit("work", end)
    epochs = []
    found = fit("work", lambda _, update: epochs.append(update.epoch))
    assert epochs[0] == 3
    expected = fit("other", lambda *_: None)
    np.testing.assert_array_equal(found.label_distributions_, expected.label_distributions_)


def test_neighbours_and_a_hypergraph_at_once_are_refused(table):
    hypergraph = Hypergraph.from_features(torch.from_numpy(table.rows), k=5)
    both = make_table(
        table.rows, table.labels.numpy(), hypergraph=hypergraph, neighbors=np.zeros((120, 1), np.int64)
    )
    with (
        start(both) as task,
        task.work(None) as workplace,
        pytest.raises(ValueError, match="Give 'neighbors' or 'hypergraph', not both"),
    ):
        task.surround(task.split(), workplace)
