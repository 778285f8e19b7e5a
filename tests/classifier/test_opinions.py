"""What candidates say of fitted rows, with and without a fold."""

import numpy as np
import pytest
from scipy.special import softmax

from dahgnn.classifier import opinions as module
from dahgnn.classifier.opinions import (
    FEATURE_EXPERTS,
    Known,
    Opinions,
    balance,
    potential_distributions,
    smooth_new,
    spread_labels,
    usual_potential,
)
from dahgnn.classifier.stacking import CANDIDATES, Candidate
from dahgnn.graph.diffusion import SimilarityGraph, similarities_of
from dahgnn.graph.neighbours import build_search

N, CLASSES = 60, 3


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    labels = np.arange(N) % CLASSES
    return 2 * generator.normal(size=(CLASSES, 4))[labels] + generator.normal(size=(N, 4)), labels


@pytest.fixture(scope="module")
def graph(table):
    return SimilarityGraph.from_neighbors(build_search(table[0]).among(5))


def know(labels, folds=((0, 1, 2, 9), (3, 4, 5, 9)), count=24, weights=None):
    rows = np.arange(count)
    weights = np.ones(count) if weights is None else weights
    return Known(rows, labels[:count], weights, CLASSES, [np.array(fold) for fold in folds])


def say(count):
    """Distributions of networks, which a test may choose as it likes."""
    generator = np.random.default_rng(1)
    return [generator.dirichlet(np.ones(CLASSES), N) for _ in range(count)]


@pytest.fixture
def fixed_settings(monkeypatch):
    """Take the same settings whatever the labels are: their choice is one for all folds."""
    monkeypatch.setattr(type(FEATURE_EXPERTS["linear"]), "choose", lambda *_: 3.0)
    monkeypatch.setattr(type(FEATURE_EXPERTS["kernel"]), "choose", lambda *_: (0.1, 0.1))


def test_places_of_folds():
    known = Known(np.array([2, 5, 7, 11]), np.array([0, 1, 0, 1]), np.ones(4), 2, [np.array([5, 11])])
    assert known.seen(None).tolist() == [0, 1, 2, 3]
    assert known.seen(0).tolist() == [0, 2]
    assert [places.tolist() for places in known.held_places] == [[1, 3]]
    several = Known(known.rows, known.labels, known.weights, 2, [np.array([5]), np.array([5, 7])])
    assert several.seen(0, 1).tolist() == [0, 3]
    assert several.seen(0, None).tolist() == [0, 2, 3]


@pytest.mark.usefixtures("fixed_settings")
def test_nobody_sees_the_labels_of_a_fold(table, graph):
    features, labels = table
    said = say(3)
    before = Opinions(features, know(labels), said, graph)
    for number, fold in enumerate(know(labels).folds):
        flipped = labels.copy()
        flipped[fold] = (flipped[fold] + 1) % CLASSES
        after = Opinions(features, know(flipped), said, graph)
        start = sum(len(each) for each in know(labels).folds[:number])
        of_fold = slice(start, start + len(fold))
        for candidate in before.candidates:
            np.testing.assert_array_equal(
                after.held_out(candidate)[of_fold], before.held_out(candidate)[of_fold]
            )
            np.testing.assert_array_equal(after.of(candidate, number), before.of(candidate, number))
        seen = [each for each in before.candidates if each.expert != "networks"]
        assert all(not np.array_equal(after.of(each), before.of(each)) for each in seen)


@pytest.mark.usefixtures("fixed_settings")
def test_the_weight_of_a_held_out_row_says_nothing_of_the_others(table, graph):
    features, labels = table
    heavy = np.where(np.isin(np.arange(24), [0, 1, 2, 9]), 9.0, 1.0)
    plain, other = (
        Opinions(features, know(labels, weights=weights), say(3), graph) for weights in (None, heavy)
    )
    for candidate in plain.candidates:
        np.testing.assert_array_equal(other.of(candidate, 0), plain.of(candidate, 0))
    assert not np.allclose(other.potentials, plain.potentials)


def test_held_out_rows_come_fold_by_fold(table, graph):
    features, labels = table
    known = know(labels)
    found = Opinions(features, known, say(3), graph)
    for candidate in found.candidates:
        expected = [found.of(candidate, number)[fold] for number, fold in enumerate(known.folds)]
        np.testing.assert_array_equal(found.held_out(candidate), np.concatenate(expected))


def test_networks_that_have_not_seen_a_fold_speak_for_it(table, graph):
    features, labels = table
    said = say(3)
    found = Opinions(features, know(labels), said, graph)
    alone = next(each for each in CANDIDATES if each.expert == "networks" and each.strength == np.inf)
    for fold, expected in zip((0, 1, None), said, strict=True):
        np.testing.assert_array_equal(found.of(alone, fold), expected)


def test_a_model_without_a_fold_is_the_experts_own(table, graph):
    features, labels = table
    known = know(labels)
    found = Opinions(features, known, say(3), graph)
    for name, expert in FEATURE_EXPERTS.items():
        alone = next(each for each in CANDIDATES if each.expert == name and each.strength == np.inf)
        everybody = module.LabelledRows(features[:24], labels[:24], CLASSES, np.ones(24))
        settings = expert.choose(everybody)
        rest = everybody.take(np.setdiff1d(np.arange(24), known.folds[1]))
        np.testing.assert_array_equal(found.of(alone, 1), expert.fit(rest, settings).predict(features))
        np.testing.assert_array_equal(found.of(alone), expert.fit(everybody, settings).predict(features))
        np.testing.assert_array_equal(found.models[name].predict(features), found.of(alone))


def test_smooth_candidates_fix_the_seen_labels_and_no_others(table, graph):
    features, labels = table
    found = Opinions(features, know(labels), say(3), graph)
    for candidate in found.candidates:
        if candidate.strength < np.inf:
            seen = know(labels).rows[know(labels).seen(0)]
            said = found.of(candidate, 0)
            np.testing.assert_array_equal(said[seen], np.eye(CLASSES)[labels[seen]])
            assert (said[know(labels).folds[0]].max(1) < 1).all()
        np.testing.assert_allclose(found.of(candidate).sum(1), 1)


def test_poisson_learning_is_that_of_the_graph(table, graph):
    features, labels = table
    weights = np.linspace(0.5, 2, 24)
    found = Opinions(features, know(labels, weights=weights), say(3), graph)
    similarities = graph.similarities.toarray()
    laplacian = np.diag(1.01 * similarities.sum(1)) - similarities
    targets = np.eye(CLASSES)[labels[:24]]
    sources = np.zeros((N, CLASSES))
    sources[:24] = weights[:, None] * (targets - weights @ targets / weights.sum())
    expected = np.linalg.solve(laplacian, sources)
    np.testing.assert_allclose(found.potentials, expected, atol=1e-3 * np.abs(expected).max())


def test_labels_spread_as_the_favourite_candidate_has_it(table, graph):
    features, labels = table
    known = know(labels)
    found = Opinions(features, known, say(3), graph)
    for fold in (0, 1, None):
        np.testing.assert_array_equal(
            spread_labels(known, graph, known.seen(fold)), found.of(Candidate("poisson", 0.1), fold)
        )


def test_without_a_graph_nothing_spreads(table):
    features, labels = table
    found = Opinions(features, know(labels), say(3), None)
    assert {each.expert for each in found.candidates} == {"networks", "linear", "kernel", "trees"}
    assert all(each.strength == np.inf for each in found.candidates)
    assert found.potentials is None
    assert all(found.held_out(each).shape == (8, CLASSES) for each in found.candidates)


def test_without_folds_nothing_is_held_out(table, graph):
    features, labels = table
    found = Opinions(features, know(labels, folds=()), say(1), graph)
    for candidate in found.candidates:
        assert found.held_out(candidate).shape == (0, CLASSES)
        assert found.of(candidate).shape == (N, CLASSES)


def test_potentials_become_distributions():
    potentials = np.array([[1.0, -1.0, 0.0], [3.0, 2.0, 2.0], [0.5, 0.0, 0.0]])
    assert usual_potential(potentials) == 1.0
    expected = softmax(module._SHARPNESS * potentials, axis=1)
    np.testing.assert_allclose(potential_distributions(potentials, 1.0), expected)
    np.testing.assert_allclose(
        potential_distributions(7 * potentials, usual_potential(7 * potentials)), expected
    )


def test_potentials_without_a_size_say_nothing():
    assert usual_potential(np.zeros((4, 2))) == 1.0
    np.testing.assert_allclose(potential_distributions(np.zeros((4, 2)), 1.0), 0.5)
    enormous = potential_distributions(np.array([[1e300, -1e300]]), 1.0)
    assert np.isfinite(enormous).all()
    assert enormous[0, 0] > 0.999


@pytest.mark.parametrize("strength", [0.03, 0.1, 1.0])
def test_a_new_row_gets_what_smoothing_would_give_it(table, graph, strength):
    """The system of `SimilarityGraph.smooth`, with one node more, of which all others are fixed."""
    features, _ = table
    generator = np.random.default_rng(2)
    fitted, new = generator.dirichlet(np.ones(CLASSES), N), generator.normal(size=(7, 4))
    prior = generator.dirichlet(np.ones(CLASSES), 7)
    found = build_search(features).query(new, 5)
    similarities = similarities_of(found)
    given = smooth_new(similarities, fitted[found.indices.numpy()], prior, strength)
    for row in range(7):
        matrix = np.zeros((N + 1, N + 1))
        matrix[:N, :N] = graph.similarities.toarray()
        matrix[N, found.indices[row]] = matrix[found.indices[row], N] = similarities[row]
        degrees = matrix.sum(1)
        system = np.diag((1 + strength) * degrees) - matrix
        # The last equation, with the values of the fitted rows known.
        right = strength * degrees[N] * prior[row] - system[N, :N] @ fitted
        np.testing.assert_allclose(given[row], right / system[N, N])
    np.testing.assert_allclose(given.sum(1), 1)


def test_a_new_row_without_anybody_similar_has_its_prior():
    given = smooth_new(np.zeros((1, 2)), np.ones((1, 2, 2)) / 2, np.array([[0.9, 0.1]]), 1e12)
    np.testing.assert_allclose(given, [[0.9, 0.1]])


@pytest.mark.parametrize("shares", [[1, 1, 1], [0.7, 0.2, 0.1], [10, 1, 4]])
def test_balance_reaches_the_shares(shares):
    distributions = np.random.default_rng(0).dirichlet([3.0, 1.0, 0.5], 300)
    factors = balance(distributions, np.array(shares, dtype=float))
    scaled = distributions * factors
    found = (scaled / scaled.sum(1, keepdims=True)).mean(0)
    np.testing.assert_allclose(found, np.array(shares) / sum(shares), atol=1e-4)
    assert (factors > 0).all()


def test_balance_leaves_what_is_balanced():
    distributions = np.random.default_rng(0).dirichlet([3.0, 1.0, 0.5], 300)
    np.testing.assert_allclose(balance(distributions, distributions.mean(0)), 1, atol=1e-6)
