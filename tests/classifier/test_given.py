"""What held-out labels decide about a given hypergraph."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.special import softmax

from dahgnn import Hypergraph
from dahgnn.classifier.fitting import GivenRows
from dahgnn.classifier.given import adopt_hypergraph, spreading_loss
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.membership import share_hyperedges
from dahgnn.graph.neighbours import build_search
from dahgnn.graph.scaling import choose_scaling
from dahgnn.training.splits import Split

N, CPU = 60, torch.device("cpu")
LABELS = np.arange(N) % 3
NOISE = np.random.default_rng(0).normal(size=(N, 4))
BLOBS = 4 * np.random.default_rng(1).normal(size=(3, 4))[LABELS] + NOISE
SPLITS = [
    Split(train=[row for row in range(30) if row % 5 != part], validation=range(part, 30, 5), test=[])
    for part in range(5)
]
# Six nodes of a class each, but the last twelve nodes are in no hyperedge.
PURE = [
    np.flatnonzero((label == LABELS) & (np.arange(N) < 48))[start : start + 4]
    for label in (0, 1, 2)
    for start in (0, 4, 8, 12)
]


def rows_of(features, weights=None):
    scaling = choose_scaling(features, "auto")
    return GivenRows(
        scaling=scaling,
        features=scaling.apply(features),
        classes=np.arange(3),
        labels=torch.from_numpy(np.where(np.arange(N) < 30, LABELS, -1)),
        weights=weights,
        class_prior=None,
        rows=features,
    )


def adopt(features, hyperedges, splits=SPLITS, metric="euclidean", **settings):
    hypergraph = Hypergraph.from_hyperedges([each.tolist() for each in hyperedges], n_nodes=N)
    settings = {"choose_scale": True} | settings
    return hypergraph, adopt_hypergraph(rows_of(features), hypergraph, splits, 5, metric, CPU, **settings)


def test_nothing_is_added_where_features_are_noise():
    covered = [*PURE, *(np.flatnonzero((label == LABELS) & (np.arange(N) >= 44)) for label in (0, 1, 2))]
    given, found = adopt(NOISE, covered)
    assert found.surroundings.hypergraph is given
    assert found.decision == (
        "no row got the 5 nearest neighbours by plain distance beside the given hyperedges"
    )
    expected = share_hyperedges(given).toarray()
    np.testing.assert_allclose(found.surroundings.graphs.chosen.similarities.toarray(), expected)


def test_neighbours_are_added_where_they_help():
    mixed = [np.arange(start, start + 6) for start in range(0, N, 6)]
    given, found = adopt(BLOBS, mixed)
    assert found.decision.startswith(
        "all rows got the 5 nearest neighbours by plain distance beside the given"
    )
    assert found.surroundings.hypergraph.n_hyperedges == given.n_hyperedges + N
    near = SimilarityGraph.from_neighbors(build_search(found.given.features).among(5))
    added = near.similarities.toarray() / near.degrees.mean()
    expected = share_hyperedges(given).toarray() + added
    np.testing.assert_allclose(found.surroundings.graphs.chosen.similarities.toarray(), expected, atol=1e-6)
    assert found.surroundings.graphs.around


def test_lonely_rows_alone_get_neighbours_where_that_is_best():
    # Of the rows in hyperedges the features are noise, of the others they are not.
    features = np.where(np.arange(N)[:, None] < 20, NOISE, BLOBS)
    pure = [np.flatnonzero((label == LABELS) & (np.arange(N) < 20)) for label in (0, 1, 2)]
    given, found = adopt(features, pure)
    assert found.decision.startswith("rows that share no hyperedge got")
    added = found.surroundings.hypergraph.n_hyperedges - given.n_hyperedges
    assert added == 40
    graph = found.surroundings.graphs.chosen.similarities.toarray()
    np.testing.assert_allclose(graph[:20, :20], share_hyperedges(given).toarray()[:20, :20])
    np.testing.assert_allclose(graph, graph.T)
    assert (graph[20:].sum(1) > 0).all()


def test_the_least_loss_decides(monkeypatch):
    losses = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr("dahgnn.classifier.given.spreading_loss", lambda *_: next(losses))
    _, found = adopt(BLOBS, PURE)
    assert found.decision.startswith("rows that share no hyperedge")
    assert next(losses, None) is None


def test_without_held_out_labels_all_get_neighbours():
    _, found = adopt(NOISE, PURE, [Split(train=range(30), validation=[], test=[])])
    assert found.decision.startswith("all rows")


def test_with_local_scale_it_is_said_that_plain_neighbours_have_no_expert():
    _, found = adopt(BLOBS, PURE, metric="local-scale")
    assert found.surroundings.graphs.plain is None
    assert "nearest neighbours by local scale" in found.decision
    assert found.decision.endswith("; Poisson learning on neighbours by plain distance has no part")


def test_words_count_by_tf_idf_where_that_helps():
    generator = np.random.default_rng(0)
    rare = (generator.random((N, 60)) < np.where(np.arange(60) % 3 == LABELS[:, None], 0.2, 0.0)).astype(
        float
    )
    frequent = (generator.random((N, 12)) < 0.15) * 3.0  # which are noise, and count much
    rows = np.concatenate([rare, frequent, np.zeros((N, 30))], 1)
    pairs = [np.array([0, 1])]
    _, found = adopt(rows, pairs)
    assert found.given.scaling.describe() == "words count by tf-idf"
    assert found.given.scaling.words is not None
    np.testing.assert_array_equal(found.given.features, choose_scaling(rows, "words").apply(rows))
    _, left = adopt(rows, pairs, choose_scale=False)
    assert left.given.scaling.words is None
    assert left.given.scaling.describe() == "columns have one scale"


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_that_of_labels_that_spread(weighted):
    """Poisson learning, then smoothing, as dense systems, for each fold."""
    generator = np.random.default_rng(3)
    similar = np.triu(generator.random((N, N)) * (generator.random((N, N)) < 0.3), 1)
    similar += similar.T
    weights = generator.random(N) + 0.5 if weighted else None
    graph = SimilarityGraph.from_matrix(csr_array(similar))
    found = spreading_loss(graph, rows_of(NOISE, weights), [*SPLITS, SPLITS[0]])
    counts = np.ones(N) if weights is None else weights
    degrees = np.diag(similar.sum(1))
    total, losses = 0.0, 0.0
    for split in SPLITS:
        train, held = split.train.numpy(), split.validation.numpy()
        targets, flow = np.eye(3)[LABELS[train]], np.zeros((N, 3))
        flow[train] = counts[train, None] * (targets - counts[train] @ targets / counts[train].sum())
        potentials = np.linalg.solve(1.01 * degrees - similar, flow)
        usual = np.sort(potentials.max(1))[(N - 1) // 2]
        prior = softmax(5 * potentials / usual, axis=1)
        free = np.setdiff1d(np.arange(N), train)
        system = (1.1 * degrees - similar)[np.ix_(free, free)]
        right = similar[np.ix_(free, train)] @ targets + 0.1 * degrees[free][:, free] @ prior[free]
        values = np.zeros((N, 3))
        values[free] = np.linalg.solve(system, right)
        values /= np.maximum(values.sum(1, keepdims=True), 1e-300)
        likelihood = 0.98 * values[held, LABELS[held]] + 0.02 / 3
        losses -= counts[held] @ np.log(likelihood)
        total += counts[held].sum()
    assert found == pytest.approx(losses / total, rel=1e-3)
