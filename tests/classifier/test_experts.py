"""The linear and the kernel model beside solutions by other means."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from dahgnn.classifier import experts
from dahgnn.classifier.experts import KernelExpert, LabelledRows, LinearExpert, LinearModel
from dahgnn.classifier.opinions import FEATURE_EXPERTS


def make(n=40, d=5, n_classes=3, seed=0, weights=None):
    """Rows of overlapping classes."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    features = generator.normal(size=(n_classes, d))[labels] + generator.normal(size=(n, d))
    return LabelledRows(features, labels, n_classes, np.ones(n) if weights is None else weights)


def gaussian(here, there, width):
    """The kernel pair by pair."""
    return np.array([[np.exp(-width * ((x - y) ** 2).sum()) for y in there] for x in here])


@pytest.fixture
def precise(monkeypatch):
    """Let the linear model find its optimum, so that two ways to it can be compared."""
    monkeypatch.setattr(experts, "_STEPS", 10_000)
    monkeypatch.setattr(experts, "_GRADIENT", 1e-9)


def test_rows_are_sampled_evenly_from_the_classes():
    rows = make(n=90)
    few = rows.sample(30)
    assert np.bincount(few.labels).tolist() == [10, 10, 10]
    assert len({tuple(row) for row in few.features}) == 30
    assert rows.sample(90) is rows
    there = {tuple(row): label for row, label in zip(rows.features, rows.labels, strict=True)}
    assert all(there[tuple(row)] == label for row, label in zip(few.features, few.labels, strict=True))


def test_targets_are_one_at_the_class():
    rows = make(n=6)
    assert rows.targets.tolist() == [[float(label == c) for c in range(3)] for label in rows.labels]


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("d", [5, 60])  # fewer columns than rows, and more
def test_the_linear_model_is_logistic_regression(n_classes, d):
    generator = np.random.default_rng(1)
    rows = make(42, d, n_classes, weights=generator.uniform(0.2, 3, 42))
    new = generator.normal(size=(11, d))
    found = LinearExpert().fit(rows, 0.7).predict(new)
    expected = LogisticRegression(C=0.7, max_iter=10_000, tol=1e-10)
    expected.fit(rows.features, rows.labels, sample_weight=rows.weights)
    np.testing.assert_allclose(found, expected.predict_proba(new), atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1)


@pytest.mark.usefixtures("precise")
def test_a_row_of_weight_two_counts_as_two_rows_in_the_linear_model():
    rows = make()
    weights = np.where(np.arange(40) < 9, 2.0, 1.0)
    heavy = LabelledRows(rows.features, rows.labels, 3, weights)
    twice = rows.take(np.concatenate([np.arange(40), np.arange(9)]))
    expert = LinearExpert()
    np.testing.assert_allclose(
        expert.fit(heavy, 3.0).predict(rows.features),
        expert.fit(twice, 3.0).predict(rows.features),
        atol=1e-5,
    )


def test_a_training_that_ends_early_says_nothing(monkeypatch):
    monkeypatch.setattr(experts, "_STEPS", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        LinearExpert().fit(make(), 30.0)


def cross_validated_loss(rows, penalty):
    from sklearn.model_selection import StratifiedKFold

    total = 0.0
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(rows.features, rows.labels):
        regression = LogisticRegression(C=penalty, max_iter=10_000, tol=1e-8)
        regression.fit(rows.features[train], rows.labels[train], sample_weight=rows.weights[train])
        chances = regression.predict_proba(rows.features[test])[np.arange(len(test)), rows.labels[test]]
        total -= (rows.weights[test] * np.log(chances)).sum()
    return total


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("distance", [0.0, 1.0, 8.0])
def test_the_penalty_of_the_least_cross_validated_loss_is_chosen(distance):
    generator = np.random.default_rng(3)
    labels = np.arange(45) % 3
    features = distance * generator.normal(size=(3, 4))[labels] + generator.normal(size=(45, 4))
    rows = LabelledRows(features, labels, 3, generator.uniform(0.5, 2, 45))
    losses = {penalty: cross_validated_loss(rows, penalty) for penalty in experts._PENALTIES}
    assert LinearExpert().choose(rows) == min(losses, key=losses.get)


def test_noise_has_a_strong_penalty_and_clear_classes_a_weak_one():
    noise, clear = make(n=60, seed=5), make(n=60, seed=5)
    noise = LabelledRows(np.random.default_rng(0).normal(size=(60, 5)), noise.labels, 3, noise.weights)
    clear = LabelledRows(9 * np.eye(5)[clear.labels], clear.labels, 3, clear.weights)
    assert LinearExpert().choose(noise) == min(experts._PENALTIES)
    assert LinearExpert().choose(clear) == max(experts._PENALTIES)


@pytest.mark.parametrize("rare", [0, 1, 2])
def test_a_class_of_one_row_leaves_nothing_to_choose_by(rare):
    labels = np.array([rare, *[c for c in range(3) if c != rare] * 5])
    features = np.random.default_rng(0).normal(size=(11, 3))
    rows = LabelledRows(features, labels, 3, np.ones(11))
    assert LinearExpert().choose(rows) in experts._PENALTIES
    assert LinearExpert().fit(rows, 3.0).predict(features).shape == (11, 3)


@pytest.mark.parametrize("rare", [0, 1, 2])
def test_a_class_that_the_sample_misses_leaves_nothing_to_choose_by(monkeypatch, rare):
    monkeypatch.setattr(experts, "_MOST_TO_CHOOSE", 6)
    labels = np.array([c for c in range(3) if c != rare] * 20)
    labels[20] = rare
    rows = LabelledRows(np.random.default_rng(0).normal(size=(40, 3)), labels, 3, np.ones(40))
    assert LinearExpert().choose(rows) in experts._PENALTIES
    width, ridge = KernelExpert().choose(rows)
    assert ridge in experts._RIDGES
    assert width > 0


def test_settings_are_chosen_by_so_many_rows_at_the_most(monkeypatch):
    monkeypatch.setattr(experts, "_MOST_TO_CHOOSE", 30)
    rows = make(n=90)
    for expert in FEATURE_EXPERTS.values():
        assert expert.choose(rows) == expert.choose(rows.sample(30))
    seen = []
    fit = LinearExpert.fit
    monkeypatch.setattr(LinearExpert, "fit", lambda *given: seen.append(len(given[1])) or fit(*given))
    LinearExpert().choose(rows)
    assert max(seen) == 20  # two of three parts


@pytest.mark.parametrize(("width", "ridge"), [(0.05, 1e-3), (0.3, 0.1), (2.0, 1.0)])
def test_the_kernel_model_solves_the_dense_system(width, ridge):
    generator = np.random.default_rng(0)
    weights = generator.uniform(0.3, 3, 40)
    rows = make(weights=weights)
    mean = np.bincount(rows.labels) / 40
    matrix = gaussian(rows.features, rows.features, width) + np.diag(ridge / weights)
    coefficients = np.linalg.solve(matrix, np.eye(3)[rows.labels] - mean)
    new = generator.normal(size=(9, 5))
    scores = gaussian(new, rows.features, width) @ coefficients + mean
    model = KernelExpert().fit(rows, (width, ridge))
    np.testing.assert_allclose(model.predict(new), softmax(experts._SHARPNESS * scores, axis=1), atol=1e-9)


def test_a_heavier_row_is_fitted_more_closely_by_the_kernel_model():
    rows = make()
    heavy = LabelledRows(rows.features, rows.labels, 3, np.where(np.arange(40) == 7, 50.0, 1.0))
    expert, here = KernelExpert(), rows.features[7:8]
    plain, more = (expert.fit(each, (0.1, 1.0)).predict(here)[0, rows.labels[7]] for each in (rows, heavy))
    assert more > plain


def test_the_kernel_models_errors_are_those_of_rows_really_left_out():
    rows = make(n=24)
    targets = rows.targets - rows.targets.mean(0)
    spread = ((rows.features - rows.features.mean(0)) ** 2).sum(1).mean()
    errors = {}
    for width in experts._WIDTHS:
        matrix = gaussian(rows.features, rows.features, width / spread)
        for ridge in experts._RIDGES:
            total = 0.0
            for out in range(24):
                rest = np.arange(24) != out
                system = matrix[np.ix_(rest, rest)] + ridge * np.eye(23)
                told = matrix[out, rest] @ np.linalg.solve(system, targets[rest])
                total += ((told - targets[out]) ** 2).sum()
            errors[width, ridge] = total
    width, ridge = KernelExpert().choose(rows)
    best = min(errors, key=errors.get)
    assert (width * spread, ridge) == pytest.approx(best)
    assert len({round(error, 6) for error in errors.values()}) == len(errors)  # no tie could hide an error


def test_the_kernel_has_so_many_centres_at_the_most(monkeypatch):
    monkeypatch.setattr(experts, "_MOST_CENTRES", 12)
    rows = make(n=60)
    model = KernelExpert().fit(rows, (0.2, 0.1))
    assert model.centres.shape == (12, 5)
    some = KernelExpert().fit(rows.sample(12), (0.2, 0.1))
    np.testing.assert_array_equal(model.predict(rows.features), some.predict(rows.features))


def test_many_rows_are_predicted_in_parts():
    model = KernelExpert().fit(make(), (0.2, 0.1))
    many = np.random.default_rng(0).normal(size=((1 << 24) // 40 + 5, 5)).astype(np.float32)
    found = model.predict(many)
    np.testing.assert_allclose(found[-9:], model.predict(many[-9:]), atol=1e-6)
    np.testing.assert_allclose(found[:9], model.predict(many[:9]), atol=1e-6)


def test_equal_rows_of_different_classes_are_undecided():
    rows = LabelledRows(np.ones((6, 3)), np.arange(6) % 3, 3, np.ones(6))
    for expert in FEATURE_EXPERTS.values():
        settings = expert.choose(rows)
        # Trees draw their rows, so that they are about undecided.
        np.testing.assert_allclose(expert.fit(rows, settings).predict(np.ones((1, 3))), 1 / 3, atol=0.05)


@pytest.mark.parametrize("name", list(FEATURE_EXPERTS))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_come_back_from_their_arrays(name, n_classes):
    rows, expert = make(n_classes=n_classes), FEATURE_EXPERTS[name]
    model = expert.fit(rows, expert.choose(rows))
    again = expert.from_arrays({part: np.array(values) for part, values in model.as_arrays().items()})
    np.testing.assert_array_equal(again.predict(rows.features), model.predict(rows.features))


def test_a_linear_model_by_hand():
    model = LinearModel(np.array([[1.0, -1.0]]), np.array([0.0, 0.5]))
    expected = np.exp(2.0) / (np.exp(2.0) + np.exp(-1.5))
    assert model.predict(np.array([[2.0]]))[0, 0] == pytest.approx(expected)
