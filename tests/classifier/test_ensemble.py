"""A fitted ensemble: what it says of fitted rows and of new ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from dahgnn import DAHGNNClassifier
from dahgnn.classifier import ensemble as module
from dahgnn.classifier.ensemble import Combined, Evaluation, equal_rows, mean_distributions
from dahgnn.classifier.opinions import potential_distributions, usual_potential
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
        return np.tile(self.shares, (len(features), 1))


NEIGHBORS = Neighbors(torch.tensor([[0, 2], [1, 3]]), torch.tensor([[1.0, 2.0], [0.5, 0.5]]))
FITTED = np.array([[1.0, 0.0], [0.3, 0.7], [0.4, 0.6], [0.0, 1.0]])
NETWORKS = np.array([[0.8, 0.2], [0.1, 0.9]])


def around(values):
    """The mean of the neighbours' values by their similarity, exp(−4 d² / d_k²), row by row."""
    first = np.exp(-1.0) * values[0] + np.exp(-4.0) * values[2]
    return np.array([first / (np.exp(-1.0) + np.exp(-4.0)), (values[1] + values[3]) / 2])


@pytest.mark.parametrize("strength", [0.0, 0.1, 3.0, np.inf])
@pytest.mark.parametrize("expert", ["networks", "linear", "laplace", "poisson"])
def test_new_rows_stand_between_an_expert_and_their_neighbours(expert, strength):
    candidate = Candidate(expert, strength)
    potentials = np.array([[2.0, -2.0], [-1.0, 1.0], [0.5, -0.5], [-3.0, 3.0]])
    combined = Combined(
        Plain(candidate), {"linear": Constant([0.25, 0.75])}, {candidate: FITTED}, potentials=potentials
    )
    prior = {
        "networks": NETWORKS,
        "linear": np.array([[0.25, 0.75]] * 2),
        "laplace": np.full((2, 2), 0.5),
        "poisson": potential_distributions(around(potentials), usual_potential(potentials)),
    }[expert]
    expected = prior if strength == np.inf else (around(FITTED) + strength * prior) / (1 + strength)
    found = combined.for_new(np.zeros((2, 3)), NETWORKS, NEIGHBORS)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_is_not_needed_need_not_be_there():
    combined = Combined(Plain(Candidate("networks", np.inf)), {}, {})
    np.testing.assert_allclose(combined.for_new(np.zeros((2, 3)), NETWORKS, NEIGHBORS), NETWORKS)


def test_factors_multiply_the_classes():
    combined = Combined(Plain(Candidate("networks", np.inf)), {}, {}, factors=np.array([1.0, 0.25]))
    expected = NETWORKS * [1.0, 0.25]
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(combined.for_new(np.zeros((2, 3)), NETWORKS, NEIGHBORS), expected)
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
    expected = (softmax([[1.0, 0.0]], 1) + softmax([[-2.0, 3.0]], 1)) / 2
    np.testing.assert_allclose(mean_distributions(logits), expected)
