"""The methods without a network."""

import numpy as np
import pytest
import torch

from dahgnn import Hypergraph, Split, split_per_class
from dahgnn.baselines.classical import (
    hypergraph_spreading,
    label_spreading,
    laplace_learning,
    logistic_regression,
    poisson_learning,
)
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.neighbours import ExactSearch, knn

METHODS = [label_spreading, logistic_regression, laplace_learning, poisson_learning]
ON_NEIGHBOURS = [label_spreading, laplace_learning, poisson_learning]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_learns_the_blobs(blobs, blob_split, method):
    features, labels = blobs
    probabilities, chosen = method(features, labels, blob_split)
    assert (probabilities.argmax(1) == labels)[blob_split.test].double().mean() > 0.9
    torch.testing.assert_close(probabilities.sum(1), torch.ones(len(labels)))
    assert (probabilities >= 0).all()
    assert all(isinstance(value, float) for value in chosen.values())


@pytest.mark.parametrize("method", METHODS)
def test_a_method_never_reads_test_labels(blobs, blob_split, method):
    features, labels = blobs
    hidden = labels.clone()
    hidden[blob_split.test] = -1
    known, unknown = (method(features, given, blob_split)[0] for given in (labels, hidden))
    assert torch.equal(known, unknown)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train": []}, "one with train nodes. Got none"),
        ({"train": [0, 2]}, "each of the 3 classes has a labelled node. Got none of class 1"),
        ({"test": [120]}, "Got test node 120"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_refuses_what_cannot_be_learned(blobs, blob_split, method, change, words):
    parts = {"train": blob_split.train, "validation": blob_split.validation, "test": []}
    others = [node for node in blob_split.test.tolist() if node not in (0, 2)]
    split = Split(**{**parts, **change, **({"validation": others[:9]} if "train" in change else {})})
    with pytest.raises(ValueError, match=words):
        method(*blobs, split)


def test_laplace_learning_is_harmonic(blobs, blob_split):
    """The dense system of the paper, solved at once."""
    features, labels = (each[:60] for each in blobs)
    split = split_per_class(labels, train=3, validation=3, seed=1)
    probabilities, _ = laplace_learning(features.double(), labels, split, k=4)
    distances = torch.cdist(features.double(), features.double())
    weights = torch.zeros(60, 60, dtype=torch.float64)
    for node in range(60):
        near = distances[node].argsort(stable=True)
        near = near[near != node][:4]
        weights[node, near] = (-4 * (distances[node, near] / distances[node, near[-1]]) ** 2).exp()
    weights = (weights + weights.T) / 2
    laplacian = weights.sum(1).diag() - weights
    free = torch.tensor([node for node in range(60) if node not in split.train.tolist()])
    given = torch.nn.functional.one_hot(labels[split.train], 3).double()
    solution = torch.linalg.solve(laplacian[free][:, free], weights[free][:, split.train] @ given)
    expected = solution / solution.sum(1, keepdim=True)
    torch.testing.assert_close(probabilities[free].double(), expected, rtol=1e-3, atol=1e-4)
    assert torch.equal(probabilities[split.train].argmax(1), labels[split.train])


def test_laplace_learning_says_nothing_of_nodes_without_a_way_to_a_label():
    features = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [50.0], [50.1], [50.2]])
    labels = [0, 0, 0, 1, 1, 1, -1, -1, -1]
    split = Split(train=[0, 3], validation=[1, 4], test=[2, 5])
    probabilities, _ = laplace_learning(features, labels, split, k=2)
    assert probabilities.argmax(1)[:6].tolist() == [0, 0, 0, 1, 1, 1]
    assert probabilities[6:].tolist() == [[0.5, 0.5]] * 3


@pytest.mark.parametrize(
    ("method", "default"), [(label_spreading, {"alpha": 0.2}), (logistic_regression, {"C": 1.0})]
)
def test_without_validation_nodes_the_default_of_scikit_learn_is_taken(blobs, blob_split, method, default):
    features, labels = blobs
    split = Split(train=blob_split.train, validation=[], test=blob_split.test)
    probabilities, chosen = method(features, labels, split)
    assert chosen == default
    assert (probabilities.argmax(1) == labels)[split.test].double().mean() > 0.9


@pytest.mark.parametrize("method", ON_NEIGHBOURS)
def test_given_neighbours_are_those_that_would_be_found(blobs, blob_split, method):
    labels = blobs[1]
    noise = torch.randn(blobs[0].shape, generator=torch.Generator().manual_seed(0))
    features = 0.3 * blobs[0] + noise  # of one component, so that neighbours matter
    found = method(features, labels, blob_split, k=6)[0]
    given = method(features, labels, blob_split, k=6, neighbors=knn(features, 6))[0]
    torch.testing.assert_close(given, found)
    other = method(features, labels, blob_split, k=6, neighbors=LocalScale(ExactSearch(features)).among(6))[0]
    assert not torch.equal(other, found)


def test_label_spreading_is_that_of_scikit_learn(blobs, blob_split):
    from sklearn.semi_supervised import LabelSpreading

    features, labels = blobs
    split = Split(train=blob_split.train, validation=[], test=blob_split.test)
    given = torch.full_like(labels, -1)
    given[split.train] = labels[split.train]
    theirs = LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.2, max_iter=1000).fit(features, given)
    ours = label_spreading(features, labels, split, k=7)[0]
    np.testing.assert_allclose(ours.numpy(), theirs.label_distributions_, atol=1e-5)


def test_poisson_learning_balances_what_flows_in(blobs):
    """Without damping, D u − W u is the sources, and they sum to zero."""
    features, labels = (each[:60] for each in blobs)
    split = split_per_class(labels, train=2, validation=3, seed=1)
    probabilities, _ = poisson_learning(features, labels, split, k=20)
    assert (probabilities.argmax(1) == labels)[split.test].double().mean() > 0.8
    with pytest.raises(ValueError, match="'damping'"):
        poisson_learning(features, labels, split, damping=0.0)


def test_labels_spread_over_a_hypergraph_by_its_formula():
    """(I − αΘ)⁻¹ (1 − α) y with dense matrices."""
    groups, labels = [[0, 1, 2], [2, 3], [4, 5, 6], [6, 7, 3]], np.array([0, 0, 0, 1, 1, 1, 0, 1, 1, 0])
    hypergraph = Hypergraph.from_hyperedges(groups, n_nodes=10, weights=[1.0, 2.0, 0.5, 1.0])
    split = Split(train=[0, 4], validation=[], test=[1, 2, 3, 5, 6, 7, 8, 9])
    features = np.zeros((10, 1))
    found, chosen = hypergraph_spreading(features, labels, split, hypergraph=hypergraph)
    assert chosen == {"alpha": 0.8}
    h = np.zeros((10, hypergraph.n_hyperedges))
    for number in range(hypergraph.n_hyperedges):
        h[hypergraph.members(number).numpy(), number] = 1
    weights = hypergraph.weights.numpy()
    root = np.diag((h @ weights) ** -0.5)
    operator = root @ h @ np.diag(weights / h.sum(0)) @ h.T @ root
    start = np.zeros((10, 2))
    start[0, 0] = start[4, 1] = 1
    expected = np.linalg.solve(np.eye(10) - 0.8 * operator, 0.2 * start)
    connected = expected.sum(1) > 0
    assert connected.sum() == 8
    expected[connected] /= expected[connected].sum(1, keepdims=True)
    np.testing.assert_allclose(found[connected], expected[connected], rtol=1e-5)
    np.testing.assert_array_equal(found[~connected], 0.5)
    judged = Split(train=[0, 4], validation=[1, 5], test=[2, 3])
    assert hypergraph_spreading(features, labels, judged, hypergraph=hypergraph)[1]["alpha"] == 0.2


def test_labels_do_not_spread_without_a_hypergraph(blobs, blob_split):
    with pytest.raises(
        ValueError, match="'hypergraph' parameter of hypergraph_spreading must be that of the"
    ):
        hypergraph_spreading(*blobs, blob_split)
