import numpy as np
import pytest
import torch

from dahgnn import HGNN, Split, TrainingConfig, fit
from dahgnn.baselines.correct_and_smooth import correct_and_smooth, smooth_result
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.neighbours import knn


@pytest.fixture
def graph(blobs):
    return SimilarityGraph.from_neighbors(knn(blobs[0], 6))


def dense(probabilities, labelled, targets, graph, share, steps=50):
    """The paper's two steps, by dense matrices."""
    weights = graph.similarities.toarray()
    root = np.diag(1 / np.sqrt(weights.sum(1)))
    matrix = root @ weights @ root

    def spread(start):
        values = start
        for _ in range(steps):
            values = share * matrix @ values + (1 - share) * start
        return values

    errors = np.zeros_like(probabilities)
    errors[labelled] = targets - probabilities[labelled]
    size = np.abs(errors[labelled]).sum() / len(labelled)
    around = spread(errors)
    corrected = probabilities.copy()
    for node, row in enumerate(around):
        if np.abs(row).sum() > 1e-12:
            corrected[node] += min(size / np.abs(row).sum(), 1000) * row
    corrected[labelled] = targets
    return spread(corrected)


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_both_steps_are_those_of_the_paper(blobs, blob_split, graph, share):
    labels = blobs[1].numpy()
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), len(labels))
    labelled = blob_split.train.numpy()
    targets = np.eye(3)[labels[labelled]]
    found = correct_and_smooth(probabilities, labelled, targets, graph, share)
    np.testing.assert_allclose(found, dense(probabilities, labelled, targets, graph, share), atol=1e-8)


def test_a_network_gets_better_and_test_labels_are_not_read(blobs, blob_hypergraph, blob_split, graph):
    features, labels = blobs
    model = HGNN(6, 3, hidden=4, generator=torch.Generator().manual_seed(0))
    result = fit(model, features, blob_hypergraph, labels, blob_split, TrainingConfig(max_epochs=3))
    smoothed = smooth_result(result, labels, blob_split, graph)
    hidden = labels.clone()
    hidden[blob_split.test] = -1
    assert torch.equal(smooth_result(result, hidden, blob_split, graph).predictions, smoothed.predictions)
    assert smoothed.accuracy(labels, blob_split.test) >= result.accuracy(labels, blob_split.test)
    without = Split(train=blob_split.train, validation=[], test=blob_split.test)
    assert smooth_result(result, labels, without, graph).accuracy(labels, blob_split.test) > 0.8
