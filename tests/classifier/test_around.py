"""A linear model of what surrounds a row."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from dahgnn.classifier import around as module
from dahgnn.classifier.around import learn_around, suits_around
from dahgnn.classifier.experts import LinearExpert
from dahgnn.classifier.known import Known
from dahgnn.graph.diffusion import SimilarityGraph

N, CLASSES = 40, 3


@pytest.fixture
def problem():
    """Rows of noise, whose neighbours tell their class."""
    generator = np.random.default_rng(0)
    labels = np.arange(N) % CLASSES
    features = torch.from_numpy(generator.normal(size=(N, 5)).astype(np.float32))
    similar = generator.random((N, N)) * (labels[:, None] == labels) * (generator.random((N, N)) < 0.4)
    similar = np.triu(similar, 1)
    known = Known(np.arange(21), labels[:21], np.ones(21), CLASSES, [np.arange(6), np.arange(6, 12)])
    return features, known, SimilarityGraph.from_matrix(csr_array(similar + similar.T))


def test_it_is_a_linear_model_of_the_means_around(problem):
    """P X A + P² X B + b by dense matrices, with coefficients of the expert's own."""
    features, known, graph = problem
    dense = graph.similarities.toarray()
    means = np.divide(
        dense, dense.sum(1, keepdims=True), where=dense.sum(1, keepdims=True) > 0, out=0 * dense
    )
    once = means @ features.double().numpy()
    both = np.concatenate([once, means @ once], 1)
    both *= 3 / np.sqrt((both**2).sum(1).mean())
    seen = []
    fit = LinearExpert.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinearExpert, "fit", lambda *arguments: seen.append(fit(*arguments)) or seen[-1])
        found = learn_around(features, known, graph)
    (model,) = seen
    expected = model.predict(torch.from_numpy(both.astype(np.float32)))
    assert found.priors.shape == (N, 3, CLASSES)
    torch.testing.assert_close(found.priors, expected, rtol=1e-3, atol=1e-4)


def test_the_mean_of_the_scores_around_a_row_is_its_own(problem):
    features, known, graph = problem
    found = learn_around(features, known, graph)
    connected = np.asarray(graph.similarities.sum(axis=1)).ravel() > 0
    scores = torch.from_numpy(graph.average(found.scores)[connected])
    torch.testing.assert_close(scores.softmax(1), found.priors[connected, -1].double(), rtol=1e-3, atol=1e-4)


def test_a_fold_is_not_seen(problem):
    """What is said without a fold does not depend on its labels, and what is said by all does."""
    features, known, graph = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinearExpert, "choose", lambda *_: 1.0)
        before = learn_around(features, known, graph).priors
        labels = known.labels.copy()
        labels[:6] = (labels[:6] + 1) % CLASSES
        other = Known(known.rows, labels, known.weights, CLASSES, known.folds)
        after = learn_around(features, other, graph).priors
    torch.testing.assert_close(after[:, 0], before[:, 0], rtol=1e-3, atol=1e-4)
    assert (after[:, -1] - before[:, -1]).abs().max() > 0.05


def test_rows_without_surroundings_are_all_alike(problem):
    features, known, _ = problem
    found = learn_around(features, known, SimilarityGraph.from_matrix(csr_array((N, N))))
    assert (found.priors - found.priors[:1]).abs().max() < 1e-6


def test_more_than_memory_holds_is_left_out(monkeypatch):
    assert suits_around(torch.zeros(5, 4))
    monkeypatch.setattr(module, "_MOST_NUMBERS", 39)
    assert not suits_around(torch.zeros(5, 4))
