"""A fitted ensemble: what it says of fitted rows and of new ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from dahgnn import DAHGNNClassifier
from dahgnn.classifier import ensemble as module
from dahgnn.classifier.ensemble import Combined, Evaluation, equal_rows, mean_distributions
from dahgnn.classifier.opinions import _SHARPNESS
from dahgnn.classifier.stacking import Candidate
from dahgnn.config import PRESETS
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.neighbours import ExactSearch, Neighbors

QUICK = replace(PRESETS["default"].training, max_epochs=8)


def make_rows(n, seed):
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    centres = 2 * np.random.default_rng(99).normal(size=(3, 5))
    return centres[labels] + generator.normal(size=(n, 5)), labels


@pytest.fixture(scope="module", params=["local-scale", "euclidean", "prior"])
def fitted(request):
    """A classifier of each metric, and one with known class shares."""
    rows, labels = make_rows(90, 0)
    rows[80:] = rows[:10]  # some rows come twice
    metric, prior = (request.param, None) if request.param != "prior" else ("local-scale", [0.5, 0.3, 0.2])
    classifier = DAHGNNClassifier(
        k=6, metric=metric, class_prior=prior, training=QUICK, networks=2, random_state=0
    )
    return rows, classifier.fit(rows, np.where(np.arange(90) < 30, labels, -1))


def same(found, expected, rows=slice(None), **tolerance):
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(here, there[rows], **{"rtol": 0, "atol": 0} | tolerance)


def test_fitted_rows_get_what_the_fit_gave_them(fitted):
    rows, classifier = fitted
    ensemble = classifier.ensemble_
    same(ensemble.evaluate(rows), ensemble.fitted)
    order = np.random.default_rng(0).permutation(90)[:40]
    same(ensemble.evaluate(rows[order]), ensemble.fitted, order)
    same(ensemble.evaluate(rows.astype(np.float32)), ensemble.fitted)
    new = make_rows(20, 1)[0]
    same([each[::2] for each in ensemble.evaluate(np.repeat(rows[:20], 2, 0))], ensemble.fitted, slice(20))
    mixed = ensemble.evaluate(np.concatenate([new, rows]))
    same([each[20:] for each in mixed], ensemble.fitted)


def test_new_rows_get_the_same_in_any_company_and_order(fitted, monkeypatch):
    rows, classifier = fitted
    ensemble = classifier.ensemble_
    new = make_rows(30, 1)[0]
    together = ensemble.evaluate(new)
    order = np.random.default_rng(0).permutation(30)
    same(ensemble.evaluate(new[order]), together, order, atol=1e-5)
    for row in (0, 13, 29):
        same(ensemble.evaluate(new[row : row + 1]), together, slice(row, row + 1), atol=1e-5)
    mixed = ensemble.evaluate(np.concatenate([rows, new, new]))
    same([each[90:120] for each in mixed], together, atol=1e-5)
    same([each[120:] for each in mixed], together, atol=1e-5)
    monkeypatch.setattr(module, "_BATCH", 7)
    same(ensemble.evaluate(new), together, atol=1e-5)


def test_new_rows_have_distributions(fitted):
    _, classifier = fitted
    new, labels = make_rows(60, 1)
    found = classifier.ensemble_.evaluate(new)
    np.testing.assert_allclose(found.distributions.sum(1), 1)
    assert (found.distributions >= 0).all()
    assert (found.distributions.argmax(1) == labels).mean() > 0.7
    assert found.embedding.shape == (60, 3)
    assert ((found.density >= 0) & (found.density <= 6 + 1e-3)).all()


def test_a_row_beside_a_fitted_one_gets_nearly_the_same(fitted):
    """A new row has no label of its own, so that this holds where the fitted one has none either."""
    rows, classifier = fitted
    some = slice(30, 80)
    found = classifier.ensemble_.evaluate(rows[some] + 1e-3)
    expected = classifier.ensemble_.fitted.distributions[some]
    assert not np.array_equal(found.distributions, expected)
    assert np.median(np.abs(found.distributions - expected)) < 0.05
    assert (found.distributions.argmax(1) == expected.argmax(1)).mean() > 0.9


def test_rows_that_come_twice_have_the_same(fitted):
    _, classifier = fitted
    for each in classifier.ensemble_.fitted:
        np.testing.assert_array_equal(each[80:], each[:10])


def test_the_search_is_that_of_the_fit(fitted):
    _, classifier = fitted
    ensemble = classifier.ensemble_
    local = classifier.metric == "local-scale"
    assert isinstance(ensemble.search, LocalScale if local else ExactSearch)
    if local:
        assert torch.equal(ensemble.search.scales, ensemble.scales)
        assert (ensemble.scales > 0).all()


def test_the_embedding_is_the_mean_of_the_networks(fitted):
    _, classifier = fitted
    ensemble = classifier.ensemble_
    with torch.no_grad():
        logits = [network(ensemble.features, ensemble.hypergraph).numpy() for network in ensemble.networks]
    np.testing.assert_allclose(ensemble.fitted.embedding[10:80], np.mean(logits, 0)[10:80], atol=1e-4)


class Plain:
    """Stands for a stack: it has candidates, and gives the mean of what they say."""

    def __init__(self, *candidates):
        self.candidates = candidates

    def combine(self, opinions):
        return np.mean(opinions, 0)


class Constant:
    """A model that says the same of all rows."""

    def __init__(self, shares):
        self.shares = np.asarray(shares)

    def predict(self, features):
        return torch.from_numpy(self.shares).float().expand(len(features), 1, -1)


NEIGHBORS = Neighbors(torch.tensor([[0, 2], [1, 3]]), torch.tensor([[1.0, 2.0], [0.5, 0.5]]))
BY_PLAIN_DISTANCE = Neighbors(torch.tensor([[4, 1], [2, 0]]), torch.tensor([[1.0, 1.0], [0.5, 2.0]]))
FITTED = np.array([[1.0, 0.0], [0.3, 0.7], [0.4, 0.6], [0.0, 1.0], [0.9, 0.1]])
NETWORKS = np.array([[0.8, 0.2], [0.1, 0.9]])
ROWS = torch.zeros(2, 3)


def around(values, neighbors):
    """The mean of the neighbours' values by their similarity, exp(−4 d² / d_k²), row by row."""
    means = []
    for indices, distances in zip(neighbors.indices.tolist(), neighbors.distances.tolist(), strict=True):
        weights = [np.exp(-4 * distance**2 / distances[-1] ** 2) for distance in distances]
        total = sum(weight * values[index] for weight, index in zip(weights, indices, strict=True))
        means.append(total / sum(weights))
    return np.array(means)


def by_potential(potentials, neighbors):
    """What the neighbours' potentials, in units of the median of their maxima, say by a softmax."""
    usual = np.median(potentials.max(1))
    return softmax(_SHARPNESS * around(potentials, neighbors) / usual, axis=1)


@pytest.mark.parametrize("strength", [0.0, 0.1, 3.0, np.inf])
@pytest.mark.parametrize("expert", ["networks", "linear", "laplace", "poisson", "plain-poisson", "around"])
def test_new_rows_stand_between_an_expert_and_their_neighbours(expert, strength):
    candidate = Candidate(expert, strength)
    potentials = np.array([[2.0, -2.0], [-1.0, 1.0], [0.5, -0.5], [-3.0, 3.0], [0.1, -0.1]])
    others = np.array([[0.2, -0.2], [-4.0, 4.0], [-0.7, 0.7], [1.0, -1.0], [3.0, -3.0]])
    combined = Combined(
        Plain(candidate),
        {"linear": Constant([0.25, 0.75])},
        {candidate: FITTED},
        potentials={"poisson": potentials, "plain-poisson": others, "around": others},
    )
    neighbors = BY_PLAIN_DISTANCE if expert == "plain-poisson" else NEIGHBORS
    prior = {
        "networks": NETWORKS,
        "linear": np.array([[0.25, 0.75]] * 2),
        "laplace": np.full((2, 2), 0.5),
        "poisson": by_potential(potentials, NEIGHBORS),
        "plain-poisson": by_potential(others, BY_PLAIN_DISTANCE),
        "around": softmax(around(others, NEIGHBORS), axis=1),
    }[expert]
    smooth = (around(FITTED, neighbors) + strength * prior) / (1 + strength) if strength < np.inf else prior
    found = combined.for_new(ROWS, NETWORKS, NEIGHBORS, BY_PLAIN_DISTANCE)
    np.testing.assert_allclose(found, smooth, rtol=1e-6)


def test_candidates_of_both_neighbourhoods_stand_side_by_side():
    pair = Candidate("laplace", 0.0), Candidate("plain-poisson", 0.0)
    combined = Combined(Plain(*pair), {}, dict.fromkeys(pair, FITTED), potentials={"plain-poisson": FITTED})
    expected = (around(FITTED, NEIGHBORS) + around(FITTED, BY_PLAIN_DISTANCE)) / 2
    found = combined.for_new(ROWS, NETWORKS, NEIGHBORS, BY_PLAIN_DISTANCE)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def nearest_by_plain_distance(ensemble, features):
    """The k nearest fitted rows, by all distances."""
    distances, indices = torch.cdist(features.double(), ensemble.features.double()).sort(dim=1, stable=True)
    return Neighbors(indices[:, : ensemble.k], distances[:, : ensemble.k])


@pytest.mark.parametrize("expert", ["poisson", "plain-poisson"])
def test_shifted_rows_go_through_the_neighbours_of_their_expert(fitted, expert):
    rows, classifier = fitted
    generator = np.random.default_rng(0)
    values, potentials = generator.dirichlet([1, 1, 1], 90), generator.normal(size=(90, 3))
    for each in (values, potentials):
        each[80:] = each[:10]  # as rows that come twice have it
    candidate = Candidate(expert, 0.1)
    combined = Combined(Plain(candidate), {}, {candidate: values}, {expert: potentials})
    ensemble = replace(classifier.ensemble_, combined=combined)
    shifted = rows + 0.05
    features = ensemble.scaling.apply(shifted)
    chosen, plain = (
        ensemble.search.query(features, ensemble.k),
        nearest_by_plain_distance(ensemble, features),
    )
    neighbors = plain if expert == "plain-poisson" else chosen
    maxima = np.sort(potentials.max(1))
    prior = softmax(_SHARPNESS * around(potentials, neighbors) / maxima[44], axis=1)  # the lower of the two
    expected = (around(values, neighbors) + 0.1 * prior) / 1.1
    np.testing.assert_allclose(ensemble.evaluate(shifted).distributions, expected, atol=1e-5)
    same_rows = np.array_equal(*((each.indices % 80).sort(1).values for each in (chosen, plain)))
    assert same_rows == (classifier.metric == "euclidean")


def test_what_is_not_needed_need_not_be_there():
    combined = Combined(Plain(Candidate("networks", np.inf)), {}, {})
    found = combined.for_new(ROWS, NETWORKS, NEIGHBORS, BY_PLAIN_DISTANCE)
    np.testing.assert_allclose(found, NETWORKS)


def test_factors_multiply_the_classes():
    combined = Combined(Plain(Candidate("networks", np.inf)), {}, {}, factors=np.array([1.0, 0.25]))
    expected = NETWORKS * [1.0, 0.25]
    expected /= expected.sum(1, keepdims=True)
    found = combined.for_new(ROWS, NETWORKS, NEIGHBORS, BY_PLAIN_DISTANCE)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(combined.finish([NETWORKS]), expected)


def test_groups_have_their_mean():
    generator = np.random.default_rng(0)
    given = Evaluation(generator.random((5, 2)), generator.random((5, 2)), generator.random(5))
    found = given.averaged(np.array([0, 1, 0, 2, 0]))
    for here, there in zip(found, given, strict=True):
        assert here.shape == there.shape
        np.testing.assert_allclose(here[0], there[[0, 2, 4]].mean(0))
        np.testing.assert_array_equal(here[[2, 4]], here[[0, 0]])
        np.testing.assert_array_equal(here[[1, 3]], there[[1, 3]])


def test_the_mean_of_equal_values_is_this_value():
    value = Evaluation(np.full((3, 2), 0.1), np.full((3, 2), 0.7), np.full(3, 0.3))
    for here, there in zip(value.averaged(np.zeros(3, dtype=int)), value, strict=True):
        np.testing.assert_array_equal(here, there)


def test_equal_rows_have_one_number():
    rows = torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.0, 0.0]])
    assert equal_rows(rows).tolist() == [0, 1, 0, 2]


def test_networks_share_by_the_mean_of_their_distributions():
    logits = [torch.tensor([[1.0, 0.0]]), torch.tensor([[-2.0, 3.0]])]
    first, second = softmax([[1.0, 0.0]], 1), softmax([[-2.0, 3.0]], 1)
    found = mean_distributions(logits, [[0], [1, 0], [1]])
    for mean, expected in zip(found, (first, (first + second) / 2, second), strict=True):
        np.testing.assert_allclose(mean, expected)


def test_equal_rows_are_told_apart_also_where_chance_gives_them_one_key(monkeypatch):
    rows = torch.randint(3, (200, 3), generator=torch.Generator().manual_seed(0)).float()
    expected = {}
    for row in rows.tolist():
        expected.setdefault(tuple(row), len(expected))
    numbers = [expected[tuple(row)] for row in rows.tolist()]
    assert equal_rows(rows).tolist() == numbers
    monkeypatch.setattr(module, "hash_rows", lambda features: np.zeros(len(features), np.uint64))
    assert equal_rows(rows).tolist() == numbers


def test_many_rows_are_combined_in_blocks_of_them(monkeypatch):
    stack = module.Stack((Candidate("linear", np.inf), Candidate("laplace", 0.0)), (0.7, 0.4))
    combined = Combined(stack=stack, models={}, fitted={}, factors=np.array([1.0, 2.0, 0.5]))
    opinions = [np.random.default_rng(seed).dirichlet(np.ones(3), 50).astype(np.float32) for seed in (0, 1)]
    logits = [torch.randn(50, 3, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    groups = [[0], [0, 1]]
    whole = combined.finish(opinions), *mean_distributions(logits, groups), module.mean_logits(logits)
    monkeypatch.setattr(module, "_BATCH", 7)
    parts = combined.finish(opinions), *mean_distributions(logits, groups), module.mean_logits(logits)
    for here, there in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(here, there)
