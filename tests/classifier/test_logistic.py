"""Several problems of logistic regression at a time beside scikit-learn's, one at a time."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from dahgnn.classifier import logistic
from dahgnn.classifier.logistic import fit_logistic

N = 42


@pytest.fixture
def precise(monkeypatch):
    """Let the optimum be found, so that two ways to it can be compared."""
    monkeypatch.setattr(logistic, "_STEPS", 5000)
    monkeypatch.setattr(logistic, "_GRADIENT", 1e-10)


def make(d=5, n_classes=3, n=N, seed=0):
    """Rows of overlapping classes, as arrays."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    return generator.normal(size=(n_classes, d))[labels] + generator.normal(size=(n, d)), labels


def fit(features, labels, counts=None, penalties=(0.7,), n_classes=3, dtype=torch.float64):
    """Fit problems given by arrays; one that counts all rows once by default."""
    counts = np.ones((len(penalties), len(labels))) if counts is None else np.asarray(counts)
    return fit_logistic(
        torch.tensor(features, dtype=dtype),
        torch.tensor(labels),
        n_classes,
        torch.tensor(counts),
        torch.tensor(penalties, dtype=torch.float64),
    )


def predict(found, features, problem=0):
    coefficients, intercepts = (each.double().numpy() for each in found)
    return softmax(features @ coefficients[:, problem] + intercepts[problem], axis=1)


def regression_of(features, labels, penalty, weights=None):
    regression = LogisticRegression(C=penalty, max_iter=1000, tol=1e-8, solver="newton-cholesky")
    return regression.fit(features, labels, sample_weight=weights)


def mean_loss(found, features, labels, weights, penalty):
    """What is minimised, divided by the weights, for three classes or more."""
    coefficients, intercepts = (each.double().numpy()[..., 0, :] for each in found)
    scores = features @ coefficients + intercepts
    own = np.log(softmax(scores, axis=1))[np.arange(len(labels)), labels]
    return (-weights @ own + (coefficients**2).sum() / (2 * penalty)) / weights.sum()


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("d", [5, 60])  # fewer columns than rows, and more
@pytest.mark.parametrize("penalty", [0.03, 0.7, 30.0])
def test_it_is_logistic_regression(n_classes, d, penalty):
    features, labels = make(d, n_classes)
    weights = np.random.default_rng(1).uniform(0.2, 3, N)
    found = fit(features, labels, weights[None], (penalty,), n_classes)
    expected = regression_of(features, labels, penalty, weights)
    coefficients, intercepts = found[0][:, 0].T.numpy(), found[1][0].numpy()
    assert coefficients.dtype == intercepts.dtype == np.float64
    if n_classes == 2:  # scikit-learn then has one column, the second class against the first
        coefficients, intercepts = coefficients[1:] - coefficients[:1], intercepts[1:] - intercepts[:1]
    else:  # a number that all intercepts have more makes no difference
        intercepts = intercepts - intercepts.mean() + expected.intercept_.mean()
    np.testing.assert_allclose(coefficients, expected.coef_, atol=2e-5)
    np.testing.assert_allclose(intercepts, expected.intercept_, atol=2e-5)
    new = np.random.default_rng(2).normal(size=(11, d))
    np.testing.assert_allclose(predict(found, new), expected.predict_proba(new), atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [5, 60])
@pytest.mark.parametrize("penalty", [0.03, 0.7, 30.0])
def test_the_usual_precision_is_near_the_least_loss(d, penalty, dtype):
    features, labels = make(d)
    weights = np.random.default_rng(1).uniform(0.2, 3, N)
    found = fit(features, labels, weights[None], (penalty,), dtype=dtype)
    assert found[0].dtype == found[1].dtype == dtype
    expected = regression_of(features, labels, penalty, weights)
    best = torch.tensor(expected.coef_.T[:, None]), torch.tensor(expected.intercept_[None])
    loss, least = (mean_loss(each, features, labels, weights, penalty) for each in (found, best))
    assert least - 1e-6 <= loss <= least + 1e-3
    nothing = torch.zeros_like(best[0]), torch.zeros_like(best[1])
    assert loss < 0.95 * mean_loss(nothing, features, labels, weights, penalty)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("d", [5, 60])
def test_single_precision_is_near_double(d):
    features, labels = make(d)
    single = fit(features, labels, penalties=(0.3,), dtype=torch.float32)
    assert single[0].dtype == torch.float32
    expected = predict(fit(features, labels, penalties=(0.3,)), features)
    np.testing.assert_allclose(predict(single, features), expected, atol=2e-3)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("d", [5, 60])
def test_a_row_of_no_weight_is_absent_and_one_of_two_is_there_twice(d):
    features, labels = make(d)
    features[3] *= 50  # where it counted, one would see it
    counts = np.where(np.arange(N) < 9, 2.0, 1.0)
    counts[[3, 11, 20]] = 0
    there = np.repeat(np.arange(N), counts.astype(int))
    assert len(there) == N - 3 + 8
    found, expected = fit(features, labels, counts[None]), fit(features[there], labels[there])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert not np.allclose(found[0], fit(features, labels)[0], atol=1e-2)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("d", [5, 60])
def test_problems_at_a_time_are_those_alone(d, n_classes):
    """They differ in rows, weights and penalties, so that they are solved after different numbers of steps."""
    features, labels = make(d, n_classes)
    generator = np.random.default_rng(3)
    counts = np.stack(
        [np.ones(N), generator.uniform(0, 4, N), np.arange(N) % 5 > 0, np.arange(N) < 12, np.zeros(N)]
    )
    penalties = (30.0, 0.03, 0.3, 3.0, 1.0)
    together = fit(features, labels, counts, penalties, n_classes)
    assert together[0].shape == (d, 5, n_classes)
    assert together[1].shape == (5, n_classes)
    for number, penalty in enumerate(penalties):
        alone = fit(features, labels, counts[number : number + 1], (penalty,), n_classes)
        np.testing.assert_allclose(together[0][:, number], alone[0][:, 0], atol=1e-5)
        np.testing.assert_allclose(together[1][number], alone[1][0], atol=1e-5)
        if counts[number].any():
            own = counts[number] > 0
            expected = regression_of(features[own], labels[own], penalty, counts[number, own])
            said = predict(together, features, number)
            np.testing.assert_allclose(said, expected.predict_proba(features), atol=2e-5)
    assert not together[0][:, -1].any()  # no row counts in the last
    assert not together[1][-1].any()


@pytest.mark.usefixtures("precise")
def test_a_problem_does_not_see_the_labels_that_count_in_others_only():
    features, labels = make()
    counts = np.stack([np.arange(N) >= 10, np.ones(N)])
    flipped = np.where(np.arange(N) < 10, (labels + 1) % 3, labels)
    before, after = (fit(features, each, counts, (0.7, 0.7)) for each in (labels, flipped))
    np.testing.assert_allclose(after[0][:, 0], before[0][:, 0], atol=1e-6)
    np.testing.assert_allclose(after[1][0], before[1][0], atol=1e-6)
    assert not np.allclose(after[0][:, 1], before[0][:, 1], atol=1e-2)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("d", [5, 60])
def test_columns_that_say_nothing_get_no_coefficient(d):
    features, labels = make(d)
    more = np.hstack([features, np.zeros((N, 3))])
    found, expected = fit(more, labels), fit(features, labels)
    np.testing.assert_allclose(found[0][:d], expected[0], atol=1e-5)
    np.testing.assert_allclose(found[0][d:], 0, atol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)


@pytest.mark.usefixtures("precise")
def test_constant_and_equal_columns_are_no_trouble():
    features, labels = make()
    more = np.hstack([features, np.full((N, 1), 3.0), features[:, :1]])
    expected = regression_of(more, labels, 0.7)
    found = fit(more, labels)
    np.testing.assert_allclose(found[0][:, 0].T, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(predict(found, more), expected.predict_proba(more), atol=1e-5)
    np.testing.assert_allclose(found[0][0], found[0][-1], atol=1e-8)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("d", [4, 60])
def test_rows_of_zeros_have_the_shares_of_the_classes(d):
    labels = np.repeat([0, 1, 2], [20, 15, 7])
    weights = np.random.default_rng(0).uniform(0.5, 2, N)
    found = fit(np.zeros((N, d)), labels, weights[None])
    assert found[0].shape == (d, 1, 3)
    assert not found[0].any()
    shares = np.bincount(labels, weights) / weights.sum()
    np.testing.assert_allclose(predict(found, np.ones((2, d))), [shares, shares], atol=1e-8)


@pytest.mark.parametrize("d", [5, 60])
def test_a_class_that_no_counted_row_has_is_unlikely(d):
    """The others are as they would be without it. How unlikely depends on when the steps end."""
    features, labels = make(d, 4)
    counts = np.stack([np.ones(N), labels != 2])
    found = fit(features, labels, counts, (0.3, 0.3), 4)
    assert all(bool(each.isfinite().all()) for each in found)
    said = predict(found, features, 1)
    own = labels != 2
    assert said[own, 2].mean() < 2 * logistic._GRADIENT
    assert predict(found, features)[own, 2].mean() > 5e-3
    expected = regression_of(features[own], labels[own], 0.3).predict_proba(features[own])
    np.testing.assert_allclose(said[own][:, [0, 1, 3]], expected, atol=5e-3)


def test_a_class_that_no_row_has_at_all():
    features, labels = make()
    said = predict(fit(features, labels, n_classes=5), features)
    assert said[:, 3:].mean() < 2 * logistic._GRADIENT
    np.testing.assert_allclose(
        said[:, :3], regression_of(features, labels, 0.7).predict_proba(features), atol=5e-3
    )


def test_one_class_alone_is_certain():
    features, _ = make()
    said = predict(fit(features, np.ones(N, np.int64), n_classes=2), features)
    assert said[:, 1].mean() > 0.999


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [5, 60])
@pytest.mark.parametrize("penalty", [0.03, 30.0])
def test_huge_features_give_numbers_that_separate(d, penalty, dtype):
    features, labels = make(d)
    features *= 1e3
    found = fit(features, labels, penalties=(penalty,), dtype=dtype)
    assert all(bool(each.isfinite().all()) for each in found)
    expected = regression_of(features / 1e3, labels, penalty * 1e6)  # the same problem
    right, best = (
        (each.argmax(1) == labels).mean()
        for each in (predict(found, features), expected.predict_proba(features / 1e3))
    )
    assert right >= best - 0.05


@pytest.mark.parametrize("d", [5, 60])
def test_huge_features_and_one_far_row(d):
    features, labels = make(d)
    features[0] *= 1e6
    found = fit(features, labels, dtype=torch.float32)
    assert all(bool(each.isfinite().all()) for each in found)


@pytest.mark.usefixtures("precise")
def test_the_order_of_rows_and_columns_makes_no_difference():
    features, labels = make()
    generator = np.random.default_rng(5)
    rows, columns = generator.permutation(N), generator.permutation(5)
    first, second = fit(features, labels), fit(features[rows][:, columns], labels[rows])
    np.testing.assert_allclose(second[0], first[0][columns], atol=1e-6)
    np.testing.assert_allclose(second[1], first[1], atol=1e-6)


def test_what_comes_out_is_at_a_stop_of_the_gradient():
    """At the usual settings, by automatic differentiation of the loss as it is written in the docstring."""
    features, labels = make()
    weights = np.random.default_rng(1).uniform(0.2, 3, N)
    coefficients, intercepts = (
        each[..., 0, :].requires_grad_() for each in fit(features, labels, weights[None])
    )
    scores = torch.tensor(features) @ coefficients + intercepts
    losses = torch.nn.functional.cross_entropy(scores, torch.tensor(labels), reduction="none")
    (torch.tensor(weights) @ losses + coefficients.square().sum() / (2 * 0.7)).backward()
    # The rotation may bring the greatest number of a column to another, by no more than the root of five.
    bound = logistic._GRADIENT * weights.sum()
    assert coefficients.grad.abs().max() <= np.sqrt(5) * bound
    assert intercepts.grad.abs().max() <= bound * (1 + 1e-9)


def test_a_larger_gradient_may_be_left_which_takes_fewer_steps(monkeypatch):
    features, labels = make(60)
    steps, step = [], logistic._Descent.step
    monkeypatch.setattr(logistic._Descent, "step", lambda descent: steps.append(1) or step(descent))
    given = torch.tensor(features), torch.tensor(labels), 3, torch.ones(1, N), torch.tensor([3.0])
    exact, taken = fit_logistic(*given), len(steps)
    rough = fit_logistic(*given, looseness=30)
    assert len(steps) - taken < taken
    assert not torch.equal(exact[0], rough[0])
    np.testing.assert_allclose(predict(rough, features), predict(exact, features), atol=0.1)


def test_training_that_ends_early_says_nothing_and_stays_finite(monkeypatch):
    monkeypatch.setattr(logistic, "_STEPS", 1)
    features, labels = make()
    weights = np.ones(N)
    found = fit(features, labels, penalties=(30.0,))  # a warning would be an error
    nothing = torch.zeros_like(found[0]), torch.zeros_like(found[1])
    least, most = (mean_loss(each, features, labels, weights, 30.0) for each in (found, nothing))
    assert least < most


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("d", [5, 60])
def test_a_cuda_device_finds_the_same(d):
    features, labels = make(d)
    given = [torch.tensor(each) for each in (features.astype(np.float32), labels)]
    counts, penalties = torch.ones(2, N), torch.tensor([0.3, 30.0])
    there = fit_logistic(given[0].cuda(), given[1].cuda(), 3, counts.cuda(), penalties.cuda())
    here = fit_logistic(*given, 3, counts, penalties)
    np.testing.assert_allclose(
        predict([each.cpu() for each in there], features), predict(here, features), atol=2e-3
    )


def test_a_descent_in_place_finds_what_the_loop_finds():
    """What a CUDA device captures, here as it is: among the problems one is solved at once, others later."""
    features, labels = make(60)
    counts = np.stack([np.ones(N), np.arange(N) % 3 > 0, np.zeros(N)])
    directions, squares = logistic.rotate(torch.tensor(features))
    problem = logistic._Problem(
        torch.tensor(features) @ directions,
        squares,
        torch.tensor(labels),
        3,
        torch.tensor(counts),
        1 / torch.tensor([30.0, 0.3, 1.0], dtype=torch.float64),
        logistic._GRADIENT,
    )
    descent, looks = logistic._Descent(problem), 0
    while bool(descent.under_way):
        descent.take_steps()
        looks += 1
    assert 1 < looks < logistic._STEPS // logistic._STEPS_A_LOOK
    torch.testing.assert_close(descent.point.weights, logistic._minimise(problem), rtol=1e-6, atol=1e-8)
    assert not descent.point.weights[2].any()


def test_problems_whose_first_step_is_too_long_hold_up_nobody():
    """A row far away makes the first step of one problem too long, while the others go on as they do alone."""
    features, labels = make()
    features[0] *= 1e3
    counts = np.stack([np.ones(N), np.arange(N) > 0])
    found = fit(features, labels, counts, (30.0, 30.0))
    alone = fit(features, labels, counts[1:], (30.0,))
    np.testing.assert_allclose(predict(found, features[1:], 1), predict(alone, features[1:]), atol=1e-3)
    expected = regression_of(features, labels, 30.0).predict_proba(features)
    assert (predict(found, features).argmax(1) == expected.argmax(1)).mean() > 0.9
