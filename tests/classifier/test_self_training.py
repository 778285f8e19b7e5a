"""A kernel model that learns from the combination, and what it says of rows without their own name."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from dahgnn.classifier import experts
from dahgnn.classifier import self_training as module
from dahgnn.classifier.known import Known
from dahgnn.classifier.opinions import Graphs, Opinions
from dahgnn.classifier.self_training import Lesson, fit_kernel, learn_again
from dahgnn.classifier.stacking import CANDIDATES, SECOND_CANDIDATES, SELF_TRAINED, Candidate, Stack
from dahgnn.graph.diffusion import SimilarityGraph
from dahgnn.graph.neighbours import knn

N, LABELLED, CLASSES = 60, 24, 3
FOLDS = ((0, 1, 2, 9), (3, 4, 5, 9))
WIDTH, RIDGE = 0.2, 0.05
ALONE = Candidate(SELF_TRAINED, np.inf)


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    labels = np.arange(N) % CLASSES
    features = 2 * generator.normal(size=(CLASSES, 4))[labels] + generator.normal(size=(N, 4))
    return torch.tensor(features, dtype=torch.float32), labels


def hear(table, labels=None, folds=FOLDS, refit=True, count=LABELLED, graph=True):
    """The opinions of the first round."""
    features, true = table
    labels = true if labels is None else labels
    folds = [np.array(fold) for fold in folds]
    known = Known(np.arange(count), labels[:count], np.ones(count), CLASSES, folds, refit)
    said = [np.random.default_rng(1).dirichlet(np.ones(CLASSES), N)] * (len(folds) + 1)
    graphs = Graphs(SimilarityGraph.from_neighbors(knn(features, 5), dtype=torch.float32)) if graph else None
    opinions = Opinions(features, known, graphs)
    opinions.hear_networks(said)
    return opinions


def make_lesson(weights=None):
    """Eight rows with a label, of which the first part has not seen two, and five with a name."""
    generator = np.random.default_rng(3)
    seen = torch.ones(2, 13, dtype=torch.bool)
    seen[0, [1, 4]] = False
    return Lesson(
        torch.tensor(generator.normal(size=(13, 4)), dtype=torch.float32),
        torch.from_numpy(np.eye(CLASSES)[generator.integers(CLASSES, size=(2, 13))]),
        seen,
        np.ones(13) if weights is None else weights,
    )


def solve(features, targets, mean, weights):
    """Coefficients of kernel ridge regression, by the dense system of these rows alone."""
    squares = ((features[:, None] - features) ** 2).sum(2)
    system = np.exp(-WIDTH * squares) + np.diag(RIDGE / weights)
    return np.linalg.solve(system, targets - mean)


@pytest.mark.parametrize("weights", [None, np.linspace(0.3, 2, 13)])
def test_each_part_solves_its_own_dense_system(weights):
    lesson = make_lesson(weights)
    model, _ = fit_kernel(lesson, (WIDTH, RIDGE))
    features = lesson.features.double().numpy()
    for part in range(2):
        own = lesson.seen[part].numpy()
        targets = lesson.targets[part].numpy()[own]
        expected = np.zeros((13, CLASSES))
        expected[own] = solve(features[own], targets, targets.mean(0), lesson.weights[own])
        np.testing.assert_allclose(model.coefficients[:, part], expected, atol=1e-4)
        np.testing.assert_allclose(model.intercepts[part], targets.mean(0), rtol=1e-5)


@pytest.mark.parametrize("weights", [None, np.linspace(0.3, 2, 13)])
def test_a_row_is_said_by_a_model_that_was_fitted_without_it(weights):
    lesson = make_lesson(weights)
    _, left_out = fit_kernel(lesson, (WIDTH, RIDGE))
    features = lesson.features.double().numpy()
    for part in range(2):
        own = np.flatnonzero(lesson.seen[part].numpy())
        targets = lesson.targets[part].numpy()
        mean = targets[own].mean(0)
        for row in own:
            others = own[own != row]
            solved = solve(features[others], targets[others], mean, lesson.weights[others])
            near = np.exp(-WIDTH * ((features[row] - features[others]) ** 2).sum(1))
            expected = softmax(experts._SHARPNESS * (near @ solved + mean))
            np.testing.assert_allclose(left_out[row, part], expected, atol=1e-5)


def test_all_names_count_as_much_as_all_labels_but_none_more_than_one(table):
    known = hear(table).known
    for count, expected in ((36, 24 / 36), (6, 1.0)):
        rows = np.arange(LABELLED, LABELLED + count)
        lesson = module._prepare(table[0], known, rows, [np.zeros(count, np.int64)] * 3)
        np.testing.assert_allclose(lesson.weights, [*np.ones(LABELLED), *np.full(count, expected)])


def test_the_combinations_opinion_is_learned_from(table):
    found = hear(table)
    learn_again(found)
    assert found.candidates[-2:] == list(SECOND_CANDIDATES)
    names = np.stack([found.of(each) for each in found.candidates[:-2]]).mean(0).argmax(1)
    others = np.arange(LABELLED, N)
    assert (found.of(ALONE).argmax(1) == names)[others].mean() > 0.9
    # For new rows it is the model of all labels and names, which has learned from these rows.
    again = found.models[SELF_TRAINED].predict(table[0])[:, 0].numpy()
    assert again.shape == (N, CLASSES)
    np.testing.assert_allclose(again[:LABELLED], found.of(ALONE)[:LABELLED], atol=1e-5)
    assert np.abs(again[LABELLED:] - found.of(ALONE)[LABELLED:]).max() > 0.01


@pytest.mark.parametrize("folds", [FOLDS, FOLDS[:1]])
def test_a_fold_is_hidden_from_the_model_that_judges_it(table, folds, monkeypatch):
    """All that may tell it of these labels are the weights of the combination, which are fixed here."""
    fixed = Stack((Candidate("linear", np.inf), Candidate("laplace", 0.0)), (0.5, 0.5))
    monkeypatch.setattr(module, "learn_without", lambda *_: fixed)
    monkeypatch.setattr(experts.KernelExpert, "choose", lambda *_: (WIDTH, RIDGE))
    monkeypatch.setattr(experts.LinearExpert, "choose", lambda *_: 3.0)
    before = hear(table, folds=folds)
    learn_again(before)
    flipped = table[1].copy()
    fold = list(folds[0])
    flipped[fold] = (flipped[fold] + 1) % CLASSES
    after = hear(table, flipped, folds)
    learn_again(after)
    for candidate in SECOND_CANDIDATES:
        change = np.abs(after.held_out(candidate) - before.held_out(candidate))
        assert change[: len(fold)].max() < 1e-3, candidate
        assert np.abs(after.of(candidate) - before.of(candidate)).max() > 0.05, candidate


def test_the_combination_that_names_has_not_seen_the_fold(table, monkeypatch):
    asked, learn = [], module.learn_without

    def watched(candidates, held, known, unseen=None, near=None):
        asked.append(None if unseen is None else known.rows[unseen].tolist())
        return learn(candidates, held, known, unseen, near)

    monkeypatch.setattr(module, "learn_without", watched)
    learn_again(hear(table))
    assert asked == [None, *map(list, FOLDS)]


def test_labels_that_judge_alone_are_not_learned_from(table):
    found = hear(table, refit=False)
    learn_again(found)
    held = np.unique(np.concatenate(FOLDS))
    centres = found.models[SELF_TRAINED].centres
    assert len(centres) == N - len(held)
    assert not (centres[:, None] == table[0][held]).all(2).any()
    assert found.held_out(ALONE).shape == (8, CLASSES)


@pytest.mark.parametrize(
    "case",
    [{"folds": ()}, {"count": N}, {"most": LABELLED - 1}],
    ids=["no fold", "no other row", "many labels"],
)
def test_nobody_learns_again_where_it_cannot_pay(table, case, monkeypatch):
    monkeypatch.setattr(module, "_MOST_LABELS", case.pop("most", LABELLED + N))
    found = hear(table, **case)
    before = list(found.candidates)
    learn_again(found)
    assert found.candidates == before
    assert SELF_TRAINED not in found.models


def test_few_of_many_rows_are_named(table, monkeypatch):
    monkeypatch.setattr(module, "_MOST_NAMED", 7)
    found = hear(table)
    learn_again(found)
    assert len(found.models[SELF_TRAINED].centres) == LABELLED + 7


def test_without_a_graph_it_is_not_made_smooth(table):
    found = hear(table, graph=False)
    learn_again(found)
    assert [each for each in found.candidates if each.expert == SELF_TRAINED] == [ALONE]
    assert not any(each in CANDIDATES for each in SECOND_CANDIDATES)


def test_equal_rows_can_be_named(table):
    features, labels = table
    twice = features.clone()
    twice[LABELLED:] = features[LABELLED]
    found = hear((twice, labels))
    learn_again(found)
    assert np.isfinite(found.of(ALONE)).all()
    np.testing.assert_allclose(found.of(ALONE).sum(1), 1, rtol=1e-5)
