"""The registry of methods: one entry each, and nothing that an unknown name falls through to."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dahgnn import HGNN, Split
from dahgnn.baselines import registry
from dahgnn.baselines.registry import (
    DirectKind,
    NetworkKind,
    Problem,
    all_kinds,
    check_parameters,
    find_kind,
    register_estimator,
    register_function,
    register_network,
)


@pytest.fixture
def problem(blobs, blob_split):
    features, labels = blobs
    return Problem(features=features.numpy(), labels=labels.numpy(), split=blob_split, k=7, seed=3)


@pytest.fixture
def empty(monkeypatch):
    """A registry in which the modules have registered, and whose changes are undone."""
    monkeypatch.setattr(registry, "_KINDS", all_kinds())


def test_every_method_is_there_once():
    kinds = all_kinds()
    networks = {name for name, kind in kinds.items() if isinstance(kind, NetworkKind)}
    assert networks >= {"DAHGNN", "HGNN", "GCN", "GAT"}
    assert kinds.keys() - networks >= {
        "DAHGNNClassifier",
        "KNeighbors",
        "LabelSpreading",
        "LaplaceLearning",
        "LogisticRegression",
        "RandomForest",
        "SVC",
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LaplaceLerning", "Did you mean 'LaplaceLearning'"),
        ("xyz", "must be one of .*'DAHGNN', 'DAHGNNClassifier'"),
    ],
)
def test_an_unknown_name_is_refused(name, words):
    with pytest.raises(ValueError, match=words):
        find_kind(name)


def test_the_labels_that_a_method_may_know(problem):
    known = problem.known_labels()
    assert np.flatnonzero(known >= 0).tolist() == problem.split.train.tolist()
    both = problem.known_labels(validation=True)
    assert (both >= 0).sum() == len(problem.split.train) + len(problem.split.validation)
    assert (both[problem.split.test] == -1).all()
    assert (both[problem.split.validation] == problem.labels[problem.split.validation]).all()


@pytest.mark.usefixtures("empty")
def test_a_function_becomes_a_method_with_its_own_parameters(problem):
    heard = []

    @register_function("Majority")
    def majority(features, labels, split, *, k, seed, weight=1.0):
        heard.append((features.shape, k, seed, weight))
        probabilities = torch.zeros(len(features), 3)
        probabilities[:, int(labels[split.train].max())] = weight
        return probabilities, {"weight": weight}

    kind = find_kind("Majority")
    check_parameters(kind, {"weight": 2.0}, "It")
    with pytest.raises(ValueError, match="It has no parameter 'wieght'. Did you mean 'weight'"):
        check_parameters(kind, {"wieght": 2.0}, "It")
    answer = kind.solve(problem, {"weight": 2.0})
    assert heard == [(problem.features.shape, 7, 3, 2.0)]
    assert answer.predictions.unique().tolist() == [2]
    assert answer.chosen == {"weight": 2.0}


@pytest.mark.usefixtures("empty")
def test_an_estimator_sees_labelled_rows_alone_and_gets_the_seed(problem):
    register_estimator("Tree", "sklearn.tree.DecisionTreeClassifier", defaults={"max_depth": 3})
    kind = find_kind("Tree")
    assert "min_samples_leaf" in kind.list_parameters()
    from sklearn.tree import DecisionTreeClassifier

    train = problem.split.train.numpy()
    expected = DecisionTreeClassifier(max_depth=3, random_state=3).fit(
        problem.features[train], problem.labels[train]
    )
    assert kind.solve(problem, {}).predictions.numpy().tolist() == expected.predict(problem.features).tolist()
    stump = kind.solve(problem, {"max_depth": 1})
    assert len(stump.predictions.unique()) == 2


@pytest.mark.usefixtures("empty")
def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="'HGNN' is registered twice"):
        register_network(HGNN)


def test_a_network_completes_its_settings_and_refuses_wrong_ones():
    kind = find_kind("HGNN")
    assert kind.settings == {"hidden", "dropout"}
    assert kind.complete({"hidden": 5})["hidden"] == 5
    assert kind.complete({}).keys() == {"hidden", "dropout"}
    with pytest.raises(ValueError, match="'hidden'"):
        kind.complete({"hidden": 0})
    made = kind.make(6, 3, {"hidden": 5}, torch.Generator().manual_seed(1))
    same = HGNN(6, 3, hidden=5, generator=torch.Generator().manual_seed(1))
    for one, other in zip(made.parameters(), same.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", [name for name, kind in all_kinds().items() if isinstance(kind, DirectKind)])
def test_no_method_reads_test_labels(blobs, blob_hypergraph, blob_split, name):
    features, labels = blobs
    wrong = labels.clone()
    wrong[blob_split.test] = (labels[blob_split.test] + 1) % 3
    parameters = {"networks": 1, "training": {"max_epochs": 8}} if name == "DAHGNNClassifier" else {}
    problem = Problem(
        features=features.numpy(), labels=labels.numpy(), split=blob_split, hypergraph=blob_hypergraph
    )
    first, second = (
        find_kind(name).solve(replace(problem, labels=given.numpy()), parameters).predictions
        for given in (labels, wrong)
    )
    assert torch.equal(first, second)


def test_few_labelled_rows_have_fewer_neighbours(blobs):
    features, labels = blobs
    train = [int((labels == label).nonzero()[0]) for label in range(3)]
    split = Split(train=train, validation=[], test=[each for each in range(len(labels)) if each not in train])
    problem = Problem(features=features.numpy(), labels=labels.numpy(), split=split)
    assert len(find_kind("KNeighbors").solve(problem, {}).predictions) == len(labels)
