"""From features and labels to an ensemble: neighbours, folds, and what is said of held-out rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.fitting import (
    Fitter,
    GivenRows,
    check_hypergraph,
    find_surroundings,
    measure_neighbors,
)
from dahgnn.config import PRESETS, ModelConfig
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.neighbours import build_search, knn
from dahgnn.graph.scaling import choose_scaling
from dahgnn.nn.model import DAHGNN
from dahgnn.training.splits import Split

QUICK = replace(PRESETS["default"].training, max_epochs=8)
SMALL = ModelConfig(hidden=8, heads=1, units=4, activation=True, shortcut=True)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def features():
    return choose_scaling(np.random.default_rng(0).normal(size=(60, 4)), "columns").apply(
        np.random.default_rng(0).normal(size=(60, 4))
    )


def make_fitter(n=60, known=24, **changes):
    """Three classes, of which the first rows have labels."""
    generator = np.random.default_rng(0)
    labels = np.arange(n) % 3
    rows = 2 * generator.normal(size=(3, 4))[labels] + generator.normal(size=(n, 4))
    scaling = choose_scaling(rows, "columns")
    given = GivenRows(
        scaling=scaling,
        features=scaling.apply(rows),
        classes=np.arange(3),
        labels=torch.from_numpy(np.where(np.arange(n) < known, labels, -1)),
        weights=None,
        class_prior=None,
    )
    surroundings = find_surroundings(given.features, 5, "local-scale", None, CPU)
    given = replace(given, **changes)
    return Fitter(given=given, surroundings=surroundings, training=QUICK, device=CPU, merge_equal=True)


def run(fitter, held):
    known = np.flatnonzero(fitter.given.labels.numpy() >= 0)
    splits = [Split(train=np.setdiff1d(known, each), validation=each, test=[]) for each in held]
    networks = [
        DAHGNN(5, 3, SMALL, generator=torch.Generator().manual_seed(seed)) for seed in range(len(held))
    ]
    return fitter.run(networks, splits, range(len(held)), lambda *_: None)


def test_neighbours_are_found_by_the_metric(features):
    for metric, search in (
        ("euclidean", build_search(features)),
        ("local-scale", LocalScale(build_search(features))),
    ):
        found = search.among(5)
        around = find_surroundings(features, 5, metric, None, CPU)
        expected = Hypergraph.from_neighbors(found)
        assert torch.equal(around.hypergraph.by_hyperedge.indices, expected.by_hyperedge.indices)
        np.testing.assert_allclose(
            around.graph.similarities.toarray(), SimilarityGraph.from_neighbors(found).similarities.toarray()
        )
        assert around.k == 5
        assert torch.equal(around.radius, found.distances.amax(1))
        assert (around.scales is None) == (metric == "euclidean")
    assert torch.equal(around.scales, search.scales)


def test_known_neighbours_are_measured(features):
    found = knn(features, 4)
    for given in (found, found.indices, found.indices.numpy().astype(np.int16)):
        measured = measure_neighbors(given, features)
        assert torch.equal(measured.indices, found.indices)
        np.testing.assert_allclose(measured.distances, found.distances, rtol=1e-5)
    around = find_surroundings(features, 9, "local-scale", found, CPU)
    assert (around.k, around.scales) == (4, None)


def test_known_neighbours_in_any_order_are_sorted_by_distance(features):
    found = knn(features, 4)
    measured = measure_neighbors(found.indices[:, [2, 0, 3, 1]], features)
    assert torch.equal(measured.indices, found.indices)
    np.testing.assert_allclose(measured.distances, found.distances, rtol=1e-5)
    plain, shuffled = (
        find_surroundings(features, 4, "euclidean", each, CPU)
        for each in (found.indices, found.indices[:, [2, 0, 3, 1]])
    )
    assert torch.equal(plain.hypergraph.by_node.indices, shuffled.hypergraph.by_node.indices)
    assert (plain.graph.similarities != shuffled.graph.similarities).nnz == 0


def test_a_row_among_its_own_neighbours_makes_no_difference(features):
    found = knn(features, 4)
    with_self = torch.cat([torch.arange(60)[:, None], found.indices], 1)
    plain, more = (find_surroundings(features, 4, "euclidean", each, CPU) for each in (found, with_self))
    assert plain.k == more.k == 4
    np.testing.assert_allclose(more.graph.similarities.toarray(), plain.graph.similarities.toarray())
    np.testing.assert_allclose(more.graph.degrees, plain.graph.degrees)
    assert torch.equal(more.radius, plain.radius)


@pytest.mark.parametrize(
    ("hypergraph", "neighbors", "error", "message"),
    [
        (Hypergraph.from_hyperedges([[0, 1]], n_nodes=2), None, ValueError, "of 3 nodes. Got 2"),
        (Hypergraph.from_hyperedges([[0, 1]], n_nodes=3), [[1]], ValueError, "not both"),
        ([[0, 1]], None, TypeError, "a Hypergraph. Got list"),
    ],
)
def test_hypergraphs_that_do_not_fit_are_refused(hypergraph, neighbors, error, message):
    with pytest.raises(error, match=message):
        check_hypergraph(hypergraph, neighbors, 3)


def test_folds_are_the_rows_that_networks_have_not_seen():
    fitter = make_fitter()
    held = [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    splits = [Split(train=np.setdiff1d(np.arange(24), each), validation=each, test=[]) for each in held]
    known, by_fold = fitter._known(splits, 3, 3)
    assert [fold.tolist() for fold in known.folds] == [[0, 1, 2], [3, 4, 5]]
    assert by_fold == [[0, 2], [1]]
    assert known.rows.tolist() == list(range(24))
    assert known.weights.tolist() == [1.0] * 24
    # After an interruption there are fewer networks, and fewer folds.
    known, by_fold = fitter._known(splits, 1, 3)
    assert [fold.tolist() for fold in known.folds] == [[0, 1, 2]]
    assert by_fold == [[0]]


def test_a_network_that_has_seen_all_labels_makes_no_fold():
    fitter = make_fitter()
    splits = [
        Split(train=range(24), validation=[], test=[]),
        Split(train=range(3, 24), validation=[0, 1, 2], test=[]),
    ]
    known, by_fold = fitter._known(splits, 2, 3)
    assert [fold.tolist() for fold in known.folds] == [[0, 1, 2]]
    assert by_fold == [[1]]


def test_weights_count_by_their_proportions():
    plain, heavy = (make_fitter(weights=np.linspace(0.5, 2, 60) * factor) for factor in (1.0, 1e6))
    held = [[0, 1, 2], [3, 4, 5]]
    first, second = run(plain, held), run(heavy, held)
    np.testing.assert_allclose(
        first.ensemble.fitted.distributions, second.ensemble.fitted.distributions, atol=1e-4
    )


@pytest.mark.parametrize(
    "held", [[[0, 1, 2], [3, 4, 5]], [[0, 1, 5], [2, 3, 5], [4, 5]], [[1, 4, 8]] * 2, [[], []]]
)
def test_each_held_out_row_is_judged_once(held):
    found = run(make_fitter(), held)
    assert found.held_out.tolist() == sorted({row for each in held for row in each})
    assert found.held_out_distributions.shape == (len(found.held_out), 3)
    np.testing.assert_allclose(found.held_out_distributions.sum(1), 1)
    fitted = found.ensemble.fitted.distributions
    assert fitted.shape == (60, 3)
    np.testing.assert_allclose(fitted.sum(1), 1)
    assert found.epochs == 8
    assert not found.interrupted


def test_a_class_prior_is_the_mean_of_the_fitted_rows():
    prior = np.array([0.6, 0.3, 0.1])
    found = run(make_fitter(class_prior=prior), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_allclose(found.ensemble.fitted.distributions.mean(0), prior, atol=1e-3)


def test_on_noise_the_held_out_accuracy_is_that_of_a_guess():
    """Labels have nothing to do with the features, so whoever says more than a third has seen them."""
    correct, told = [], []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        rows = generator.normal(size=(200, 5))
        given = np.full(200, -1)
        given[generator.permutation(200)[:30]] = np.repeat([0, 1, 2], 10)
        classifier = DAHGNNClassifier(training=QUICK, model=SMALL, networks=5, random_state=seed)
        classifier.fit(rows, given)
        held = classifier.held_out_indices_
        assert len(held) == 30
        correct.append((classifier.held_out_distributions_.argmax(1) == given[held]).mean())
        told.append(classifier.estimate_.accuracy)
    # The deviation of the mean is 0.02. It is rather below a third: a class has fewer labels where one of it
    # is held out.
    assert 0.25 < np.mean(correct) < 0.37
    assert 0.25 < np.mean(told) < 0.39
