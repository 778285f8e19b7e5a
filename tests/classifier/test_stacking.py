import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dahgnn.classifier import stacking as module
from dahgnn.classifier.stacking import (
    CANDIDATES,
    EXPERT_TITLES,
    FAVOURITE,
    POISSON_EXPERTS,
    SECOND_CANDIDATES,
    Candidate,
    Stack,
    learn_stack,
    say_combination,
)

RIGHT, WRONG = Candidate("networks", math.inf), Candidate("linear", math.inf)


def opinions_of(labels, n_classes, sharpness, seed):
    """Distributions that favour the label, more so the sharper they are."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(len(labels), n_classes))
    scores[np.arange(len(labels)), labels] += sharpness
    shares = np.exp(scores)
    return shares / shares.sum(1, keepdims=True)


def pooled(weights, opinions, doubt=0.02):
    """The definition: the normalised product of distributions, each with its doubt and to its weight."""
    product = np.ones_like(opinions[0])
    for weight, opinion in zip(weights, opinions, strict=True):
        product = product * ((1 - doubt) * opinion + doubt / opinion.shape[1]) ** weight
    return product / product.sum(1, keepdims=True)


def test_the_combination_is_a_product_of_powers():
    labels = np.arange(6) % 3
    opinions = [opinions_of(labels, 3, 1.0, seed) for seed in range(2)]
    stack = Stack((RIGHT, WRONG), (0.7, 1.4))
    np.testing.assert_allclose(stack.combine(opinions), pooled((0.7, 1.4), opinions), rtol=1e-10)
    np.testing.assert_allclose(stack.combine(opinions).sum(1), 1)


def test_the_weights_are_the_likeliest_under_the_prior():
    labels = np.arange(60) % 3
    opinions = [opinions_of(labels, 3, sharpness, seed) for seed, sharpness in enumerate((2.0, 0.5))]
    counts = np.linspace(0.5, 1.5, 60)
    stack = learn_stack([RIGHT, WRONG], opinions, labels, counts)

    def loss(weights):
        likelihood = pooled(weights, opinions)[np.arange(60), labels]
        return -(counts * np.log(likelihood)).sum() + 0.1 * 2 * ((np.array(weights) - 0.5) ** 2).sum()

    expected = minimize(loss, [0.5, 0.5], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8}).x
    np.testing.assert_allclose(stack.weights, expected, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("far", [0.0, 300.0])
def test_the_weights_are_where_nobody_gains_by_more_or_less(scale, far, monkeypatch):
    """The loss does not fall in any direction that is left: its slope is zero, or up where a weight is zero.

    From far away a whole step of Newton's would make the loss greater.
    """
    labels = np.arange(90) % 3
    sharpness = (2.0, 0.5, 1.0, 0.0, -1.5)
    opinions = [opinions_of(labels, 3, each, seed) for seed, each in enumerate(sharpness)]
    counts, prior = scale * np.linspace(0.5, 1.5, 90), np.full(5, 0.2)
    loss = module._Loss(opinions, labels, counts, prior)
    looked, look = [], loss.at
    monkeypatch.setattr(loss, "at", lambda weights: looked.append(weights) or look(weights))
    weights = module._minimise(loss, prior + far * np.array([1, 0, 0, 1, 1]))
    assert len(looked) < 60

    def value(those):
        likelihood = counts @ np.log(pooled(those, opinions)[np.arange(90), labels])
        return (0.5 * ((those - prior) ** 2).sum() - likelihood) / max(scale, 1)

    slopes = np.array([(value(weights + h) - value(weights - h)) / 2e-5 for h in 1e-5 * np.eye(5)])
    assert (weights >= 0).all()
    np.testing.assert_allclose(slopes[weights > 0], 0, atol=2e-3)
    assert (slopes[weights == 0] > -1e-6).all()
    if scale == 1:
        assert (weights == 0).any()


def test_who_is_right_counts_more():
    labels = np.arange(200) % 4
    good, bad = opinions_of(labels, 4, 3.0, 0), opinions_of((labels + 1) % 4, 4, 3.0, 1)
    stack = learn_stack([RIGHT, WRONG], [good, bad], labels)
    assert stack.weight_share("networks") > 0.95
    assert (stack.combine([good, bad][: len(stack.candidates)]).argmax(1) == labels).mean() > 0.9


def test_a_modest_opinion_that_is_right_becomes_sharper():
    labels = np.arange(300) % 3
    modest = np.full((300, 3), 0.3)
    modest[np.arange(300), labels] = 0.4
    stack = learn_stack([RIGHT], [modest], labels)
    assert stack.weights[0] > 3
    assert stack.combine([modest])[0, 0] > 0.8


def test_without_labels_the_favourites_decide():
    stack = learn_stack(CANDIDATES, [np.empty((0, 3))] * len(CANDIDATES), np.empty(0, np.int64))
    assert dict(zip(stack.candidates, stack.weights, strict=True)) == {
        Candidate("poisson", 0.1): 0.75,
        Candidate("linear", 0.1): 0.25,
    }
    without_graph = [candidate for candidate in CANDIDATES if candidate.strength == math.inf]
    stack = learn_stack(without_graph, [np.empty((0, 3))] * len(without_graph), np.empty(0, np.int64))
    assert stack.candidates == tuple(without_graph)


def test_few_labels_hardly_move_the_prior():
    labels = np.array([0, 1])
    opinions = [np.full((2, 2), 0.5)] * len(CANDIDATES)
    stack = learn_stack(CANDIDATES, opinions, labels)
    weights = dict(zip(stack.candidates, stack.weights, strict=True))
    assert weights[Candidate("poisson", 0.1)] == pytest.approx(0.75 / 2 + 1 / 2 / len(CANDIDATES), abs=1e-6)
    assert sum(stack.weights) == pytest.approx(1, abs=1e-6)


def test_certain_and_impossible_opinions_are_no_trouble():
    labels = np.array([0, 1, 0])
    certain = np.eye(2)[labels]
    stack = learn_stack([RIGHT, WRONG], [certain, 1 - certain], labels)
    assert np.isfinite(stack.combine([certain, 1 - certain][: len(stack.candidates)])).all()


def test_where_nobody_is_worth_anything_all_classes_are_about_as_likely():
    labels = np.arange(200) % 2
    contrary = np.where(np.eye(2)[labels] == 1, 0.1, 0.9)
    stack = learn_stack([RIGHT, WRONG], [contrary, contrary], labels)
    assert 0 < sum(stack.weights) <= 0.01
    assert stack.weight_share("networks") + stack.weight_share("linear") == pytest.approx(1)
    np.testing.assert_allclose(stack.combine([contrary] * len(stack.candidates)), 0.5, atol=0.01)


def test_the_favourites_stay_where_nobody_is_worth_anything():
    labels = np.arange(200) % 2
    contrary = np.where(np.eye(2)[labels] == 1, 0.1, 0.9)
    stack = learn_stack(CANDIDATES, [contrary] * len(CANDIDATES), labels)
    assert set(stack.candidates) == {Candidate("poisson", 0.1), Candidate("linear", 0.1)}
    assert sum(stack.weights) <= 0.01


def test_each_candidate_is_there_once_and_has_a_title():
    everybody = (*CANDIDATES, *SECOND_CANDIDATES)
    assert len(set(everybody)) == len(everybody)
    assert {candidate.expert for candidate in everybody} == set(EXPERT_TITLES)
    assert {Candidate(expert, FAVOURITE.strength) for expert in POISSON_EXPERTS} <= set(CANDIDATES)


def test_both_kinds_of_poisson_learning_are_told_apart():
    both = (Candidate("poisson", 0.1), Candidate("plain-poisson", 0.1))
    stack = Stack(both, (0.3, 0.9))
    shares = {expert: stack.weight_share(expert) for expert in POISSON_EXPERTS}
    assert shares == pytest.approx({"poisson": 0.25, "plain-poisson": 0.75})
    expected = "Poisson learning on neighbours by plain distance 75 %, Poisson learning 25 %"
    assert say_combination(shares) == expected


def test_where_the_search_for_weights_begins_makes_no_difference():
    generator = np.random.default_rng(5)
    labels = generator.integers(3, size=80)
    opinions = []
    for noise in np.linspace(0.5, 4, len(CANDIDATES)):
        scores = 2 * np.eye(3)[labels] + noise * generator.normal(size=(80, 3))
        opinions.append(np.exp(scores) / np.exp(scores).sum(1, keepdims=True))
    expected = learn_stack(CANDIDATES, opinions, labels)
    fewer = learn_stack(CANDIDATES, [each[:60] for each in opinions], labels[:60])
    for near in (fewer, Stack((CANDIDATES[3],), (5.0,))):
        found = learn_stack(CANDIDATES, opinions, labels, None, near)
        for candidate in CANDIDATES:
            assert found.weight_of(candidate) == pytest.approx(expected.weight_of(candidate), abs=6e-3)
