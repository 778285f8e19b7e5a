"""The linear and the kernel model beside solutions by other means."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from dahgnn.classifier import experts, logistic
from dahgnn.classifier.experts import KernelExpert, KernelModel, LabelledRows, LinearExpert, LinearModel
from dahgnn.classifier.opinions import FEATURE_EXPERTS


def label(features, labels, n_classes=3, weights=None):
    """Labelled rows of arrays."""
    weights = np.ones(len(labels)) if weights is None else weights
    return LabelledRows(torch.tensor(features, dtype=torch.float32), labels, n_classes, weights)


def make(n=40, d=5, n_classes=3, seed=0, weights=None):
    """Rows of overlapping classes."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    features = generator.normal(size=(n_classes, d))[labels] + generator.normal(size=(n, d))
    return label(features, labels, n_classes, weights)


def draw(n, d, seed=1):
    """Rows without labels."""
    return torch.tensor(np.random.default_rng(seed).normal(size=(n, d)), dtype=torch.float32)


def fit(expert, rows, settings):
    """Fit one model to all rows."""
    return expert.fit(rows, [np.arange(len(rows))], settings)


def say(expert, rows, settings, features):
    """What a model of all rows says of others, (q, c)."""
    return fit(expert, rows, settings).predict(features)[:, 0].double().numpy()


def parts_of(n):
    """Three parts of rows that are not alike, the last of them all rows."""
    return [np.flatnonzero(np.arange(n) % 4 > 0), np.arange(n // 3, n), np.arange(n)]


def doubles(features):
    return features.double().numpy()


def gaussian(here, there, width):
    """The kernel pair by pair."""
    here, there = doubles(here), doubles(there)
    return np.array([[np.exp(-width * ((x - y) ** 2).sum()) for y in there] for x in here])


@pytest.fixture
def precise(monkeypatch):
    """Let the linear model find its optimum, so that two ways to it can be compared."""
    monkeypatch.setattr(logistic, "_STEPS", 10_000)
    monkeypatch.setattr(logistic, "_GRADIENT", 1e-9)


def test_rows_are_sampled_evenly_from_the_classes():
    rows = make(n=90)
    few = rows.sample(30)
    assert np.bincount(rows.labels[few]).tolist() == [10, 10, 10]
    assert len(set(few.tolist())) == 30
    assert few.tolist() == sorted(few)
    assert rows.sample(90).tolist() == list(range(90))


def test_a_sample_has_one_of_each_class_at_the_least():
    labels = np.r_[np.zeros(30, int), [1], np.full(30, 2)]
    for most in (3, 7, 20):
        few = label(np.zeros((61, 1)), labels).sample(most)
        assert 30 in few
        assert most <= len(few) <= most + 1


def test_some_of_the_rows_keep_what_belongs_to_them():
    rows = make(n=12, weights=np.arange(12.0))
    places = np.array([7, 2, 2, 11])
    some = rows.take(places)
    assert torch.equal(some.features, rows.features[[7, 2, 2, 11]])
    assert some.labels.tolist() == rows.labels[places].tolist()
    assert some.weights.tolist() == [7, 2, 2, 11]
    assert (len(some), some.n_classes) == (4, 3)


def test_targets_are_one_at_the_class():
    rows = make(n=6)
    assert rows.targets.tolist() == [[float(label == c) for c in range(3)] for label in rows.labels]


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("d", [5, 60])  # fewer columns than rows, and more
def test_the_linear_model_is_logistic_regression(n_classes, d):
    rows = make(42, d, n_classes, weights=np.random.default_rng(1).uniform(0.2, 3, 42))
    new, parts = draw(11, d), parts_of(42)
    found = LinearExpert().fit(rows, parts, 0.7).predict(new)
    assert found.shape == (11, 3, n_classes)
    np.testing.assert_allclose(found.sum(2), 1, rtol=1e-5)
    for number, part in enumerate(parts):
        expected = LogisticRegression(C=0.7, max_iter=10_000, tol=1e-10)
        expected.fit(doubles(rows.features[part]), rows.labels[part], sample_weight=rows.weights[part])
        np.testing.assert_allclose(found[:, number], expected.predict_proba(doubles(new)), atol=2e-3)


@pytest.mark.usefixtures("precise")
def test_a_row_of_weight_two_counts_as_two_rows_in_the_linear_model():
    rows = make()
    weights = np.where(np.arange(40) < 9, 2.0, 1.0)
    heavy = LabelledRows(rows.features, rows.labels, 3, weights)
    twice = rows.take(np.concatenate([np.arange(40), np.arange(9)]))
    found, expected, plain = (say(LinearExpert(), each, 3.0, rows.features) for each in (heavy, twice, rows))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found - plain).max() > 1e-2


@pytest.mark.parametrize("name", list(FEATURE_EXPERTS))
def test_a_part_is_fitted_as_if_it_were_alone(name):
    rows = make(n=45, weights=np.random.default_rng(4).uniform(0.5, 2, 45))
    expert, new, parts = FEATURE_EXPERTS[name], draw(30, 5), parts_of(45)
    settings = expert.choose(rows)
    together = expert.fit(rows, parts, settings).predict(new)
    assert together.shape == (30, 3, 3)
    assert together.dtype == torch.float32
    for number, part in enumerate(parts):
        alone = say(expert, rows.take(part), settings, new)
        np.testing.assert_allclose(together[:, number], alone, atol=2e-3)
    assert (together[:, 0] - together[:, 1]).abs().max() > 0.02


@pytest.mark.parametrize("name", list(FEATURE_EXPERTS))
def test_the_labels_outside_a_part_are_not_seen(name):
    rows, expert, new = make(n=45), FEATURE_EXPERTS[name], draw(30, 5)
    parts = parts_of(45)
    settings = expert.choose(rows)
    out = np.setdiff1d(np.arange(45), parts[0])
    flipped, heavy = rows.labels.copy(), rows.weights.copy()
    flipped[out], heavy[out] = (flipped[out] + 1) % 3, 9.0
    before = expert.fit(rows, parts, settings).predict(new)
    after = expert.fit(LabelledRows(rows.features, flipped, 3, heavy), parts, settings).predict(new)
    np.testing.assert_allclose(after[:, 0], before[:, 0], atol=2e-3)
    assert (after[:, 2] - before[:, 2]).abs().max() > 0.05


@pytest.mark.parametrize("name", list(FEATURE_EXPERTS))
def test_the_last_part_can_be_had_alone(name):
    rows, expert, new = make(n=45), FEATURE_EXPERTS[name], draw(30, 5)
    model = expert.fit(rows, [np.arange(45), parts_of(45)[0]], expert.choose(rows))
    last = model.last()
    assert last.predict(new).shape == (30, 1, 3)
    np.testing.assert_allclose(last.predict(new)[:, 0], model.predict(new)[:, 1], atol=1e-6)
    size = {"linear": "coefficients", "kernel": "centres", "trees": "columns"}[name]
    assert name == "linear" or len(getattr(last, size)) < len(getattr(model, size))


def test_the_last_kernel_model_has_the_centres_of_its_part():
    rows, part = make(n=45), parts_of(45)[0]
    last = KernelExpert().fit(rows, [np.arange(45), part], (0.2, 0.1)).last()
    assert torch.equal(last.centres, rows.features[part])


def test_a_kernel_model_that_says_the_same_of_all_rows_can_be_had_alone():
    rows = label(np.random.default_rng(0).normal(size=(5, 2)), np.ones(5, np.int64), 2)
    last = KernelExpert().fit(rows, [np.arange(3), np.arange(5)], (0.2, 0.1)).last()
    expected = softmax(experts._SHARPNESS * np.array([0.0, 1.0]))
    np.testing.assert_allclose(last.predict(rows.features)[:, 0], [expected] * 5, rtol=1e-5)


def test_a_training_that_ends_early_says_nothing(monkeypatch):
    monkeypatch.setattr(logistic, "_STEPS", 1)
    rows = make()
    said = say(LinearExpert(), rows, 30.0, rows.features)  # a warning would be an error
    assert (said.argmax(1) == rows.labels).mean() > 0.5


def cross_validated_loss(rows, penalty):
    from sklearn.model_selection import StratifiedKFold

    features, total = doubles(rows.features), 0.0
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(features, rows.labels):
        regression = LogisticRegression(C=penalty, max_iter=10_000, tol=1e-8)
        regression.fit(features[train], rows.labels[train], sample_weight=rows.weights[train])
        chances = regression.predict_proba(features[test])[np.arange(len(test)), rows.labels[test]]
        total -= (rows.weights[test] * np.log(chances)).sum()
    return total


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("distance", [0.0, 1.0, 8.0])
def test_the_penalty_of_the_least_cross_validated_loss_is_chosen(distance):
    generator = np.random.default_rng(3)
    labels = np.arange(45) % 3
    features = distance * generator.normal(size=(3, 4))[labels] + generator.normal(size=(45, 4))
    rows = label(features, labels, weights=generator.uniform(0.5, 2, 45))
    losses = {penalty: cross_validated_loss(rows, penalty) for penalty in experts._PENALTIES}
    assert LinearExpert().choose(rows) == min(losses, key=losses.get)


def test_noise_has_a_strong_penalty_and_clear_classes_a_weak_one():
    labels = np.arange(60) % 3
    noise = label(np.random.default_rng(0).normal(size=(60, 5)), labels)
    clear = label(9 * np.eye(5)[labels], labels)
    assert LinearExpert().choose(noise) == min(experts._PENALTIES)
    assert LinearExpert().choose(clear) == max(experts._PENALTIES)


@pytest.mark.parametrize("rare", [0, 1, 2])
def test_a_class_of_one_row_leaves_nothing_to_choose_by(rare):
    labels = np.array([rare, *[c for c in range(3) if c != rare] * 5])
    rows = label(np.random.default_rng(0).normal(size=(11, 3)), labels)
    assert LinearExpert().choose(rows) == experts._PENALTIES[2]
    # Whoever has not seen the row can still speak of it, and does not expect its class.
    said = LinearExpert().fit(rows, [np.arange(1, 11), np.arange(11)], 3.0).predict(rows.features)
    assert said.shape == (11, 2, 3)
    assert said.isfinite().all()
    assert said[1:, 0, rare].mean() < 1e-3
    assert said[0, 1, rare] > 0.1


@pytest.mark.parametrize("rare", [0, 1, 2])
def test_a_class_that_the_sample_misses_leaves_nothing_to_choose_by(monkeypatch, rare):
    monkeypatch.setattr(experts, "_MOST_TO_CHOOSE", 6)
    monkeypatch.setattr(experts, "_MOST_TO_CHOOSE_A_KERNEL", 6)
    labels = np.array([c for c in range(3) if c != rare] * 20)
    labels[20] = rare
    rows = label(np.random.default_rng(0).normal(size=(40, 3)), labels)
    assert LinearExpert().choose(rows) == experts._PENALTIES[2]
    width, ridge = KernelExpert().choose(rows)
    assert ridge in experts._RIDGES
    assert width > 0


def test_settings_are_chosen_by_so_many_rows_at_the_most(monkeypatch):
    monkeypatch.setattr(experts, "_MOST_TO_CHOOSE", 30)
    monkeypatch.setattr(experts, "_MOST_TO_CHOOSE_A_KERNEL", 21)
    rows = make(n=90)
    for name, most in (("linear", 30), ("kernel", 21)):
        expert = FEATURE_EXPERTS[name]
        assert expert.choose(rows) == expert.choose(rows.take(rows.sample(most)))
    seen, fit_all, kernel = [], experts.fit_logistic, experts.gaussian_kernel

    def watch(features, labels, n_classes, counts, *rest, **more):
        seen.append((len(features), int((counts > 0).sum(1).max())))
        return fit_all(features, labels, n_classes, counts, *rest, **more)

    monkeypatch.setattr(experts, "fit_logistic", watch)
    LinearExpert().choose(rows)
    assert seen == [(30, 20)]  # two of three parts
    monkeypatch.setattr(
        experts, "gaussian_kernel", lambda *given: seen.append(len(given[0])) or kernel(*given)
    )
    KernelExpert().choose(rows)
    assert set(seen[1:]) == {21}


@pytest.mark.parametrize(("width", "ridge"), [(0.05, 1e-3), (0.3, 0.1), (2.0, 1.0)])
def test_the_kernel_model_solves_the_dense_system(width, ridge):
    weights = np.random.default_rng(0).uniform(0.3, 3, 40)
    rows, new, parts = make(weights=weights), draw(9, 5), parts_of(40)
    found = KernelExpert().fit(rows, parts, (width, ridge)).predict(new)
    assert found.shape == (9, 3, 3)
    for number, part in enumerate(parts):
        own = rows.features[part]
        mean = np.bincount(rows.labels[part]) / len(part)
        matrix = gaussian(own, own, width) + np.diag(ridge / weights[part])
        coefficients = np.linalg.solve(matrix, np.eye(3)[rows.labels[part]] - mean)
        scores = gaussian(new, own, width) @ coefficients + mean
        expected = softmax(experts._SHARPNESS * scores, axis=1)
        np.testing.assert_allclose(found[:, number], expected, atol=1e-4 if ridge > 1e-2 else 2e-3)


def test_a_heavier_row_is_fitted_more_closely_by_the_kernel_model():
    rows = make()
    heavy = LabelledRows(rows.features, rows.labels, 3, np.where(np.arange(40) == 7, 50.0, 1.0))
    here = rows.features[7:8]
    plain, more = (say(KernelExpert(), each, (0.1, 1.0), here)[0, rows.labels[7]] for each in (rows, heavy))
    assert more > plain + 0.01


def test_the_kernel_models_errors_are_those_of_rows_really_left_out():
    rows = make(n=24)
    features, targets = doubles(rows.features), rows.targets - rows.targets.mean(0)
    spread = ((features - features.mean(0)) ** 2).sum(1).mean()
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
    assert (width * spread, ridge) == pytest.approx(best, rel=1e-5)
    assert len({round(error, 6) for error in errors.values()}) == len(errors)  # no tie could hide an error


def test_a_kernel_that_rounding_has_spoilt_is_out_of_the_question(monkeypatch):
    """The kernel of the first width has a negative eigenvalue; it would fit best if nobody looked."""
    rows, widths, kernel = make(), [], experts.gaussian_kernel

    def spoil(here, there, width):
        widths.append(width)
        matrix = kernel(here, there, width)
        return -1e6 * torch.eye(len(here)) if len(widths) == 1 else matrix

    monkeypatch.setattr(experts, "gaussian_kernel", spoil)
    width, _ = KernelExpert().choose(rows)
    assert width in widths[1:]


def test_the_kernel_has_so_many_centres_at_the_most(monkeypatch):
    monkeypatch.setattr(experts, "_MOST_CENTRES", 12)
    rows, parts = make(n=60), parts_of(60)
    model = KernelExpert().fit(rows, parts, (0.2, 0.1))
    few = rows.sample(12)
    assert torch.equal(model.centres, rows.features[few])
    # Of the centres, a part has those that are among its own rows.
    for number, part in enumerate(parts):
        own = rows.take(np.intersect1d(part, few))
        expected = say(KernelExpert(), own, (0.2, 0.1), rows.features)
        np.testing.assert_allclose(model.predict(rows.features)[:, number], expected, atol=1e-5)


def test_many_rows_are_predicted_in_parts(monkeypatch):
    model = fit(KernelExpert(), make(), (0.2, 0.1))
    many = draw(1005, 5)
    whole, seen, kernel = model.predict(many), [], experts.gaussian_kernel
    monkeypatch.setattr(
        experts, "gaussian_kernel", lambda *given: seen.append(len(given[0])) or kernel(*given)
    )
    monkeypatch.setattr(experts, "_BLOCK", 4000)  # a hundred rows by forty centres
    np.testing.assert_allclose(model.predict(many), whole, atol=1e-6)
    assert seen == [100] * 10 + [5]


def test_equal_rows_of_different_classes_are_undecided():
    rows = label(np.ones((6, 3)), np.arange(6) % 3)
    for expert in FEATURE_EXPERTS.values():
        said = say(expert, rows, expert.choose(rows), torch.ones(1, 3))
        np.testing.assert_allclose(said, np.full((1, 3), 1 / 3), atol=1e-6)


def test_the_kernel_model_does_not_mind_products_that_round_more():
    features = np.random.default_rng(0).normal(size=(300, 3))
    rows = torch.tensor(features, dtype=torch.float32)
    expected = np.exp(-0.3 * ((features[:, None] - features) ** 2).sum(2))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = experts.gaussian_kernel(rows, rows, 0.3)
    finally:
        torch.set_float32_matmul_precision(before)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_the_kernel_model_does_not_mind_where_zero_is():
    distance, rows, new = 1024.0, make(n=60), draw(20, 5)
    # Sixteenths can be added to the distance without rounding.
    near, asked = (torch.round(each * 16) / 16 for each in (rows.features, new))
    expected = say(KernelExpert(), LabelledRows(near, rows.labels, 3, rows.weights), (0.1, 1e-3), asked)
    far = LabelledRows(near + distance, rows.labels, 3, rows.weights)
    np.testing.assert_allclose(say(KernelExpert(), far, (0.1, 1e-3), asked + distance), expected, atol=5e-3)


@pytest.mark.parametrize("name", list(FEATURE_EXPERTS))
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_come_back_from_their_arrays(name, n_classes):
    rows, expert = make(n_classes=n_classes), FEATURE_EXPERTS[name]
    for parts in ([np.arange(40)], parts_of(40)):
        model = expert.fit(rows, parts, expert.choose(rows)).last()
        again = expert.from_arrays({part: np.array(values) for part, values in model.as_arrays().items()})
        np.testing.assert_array_equal(again.predict(rows.features), model.predict(rows.features))


def test_a_linear_model_by_hand():
    model = LinearModel(torch.tensor([[[1.0, -1.0], [0.0, 3.0]]]), torch.tensor([[0.0, 0.5], [1.0, 0.0]]))
    said = model.predict(torch.tensor([[2.0]]))
    assert said.shape == (1, 2, 2)
    assert said[0, 0, 0] == pytest.approx(np.exp(2.0) / (np.exp(2.0) + np.exp(-1.5)))
    assert said[0, 1, 0] == pytest.approx(np.exp(1.0) / (np.exp(1.0) + np.exp(6.0)))
    assert said.sum(2).flatten().tolist() == pytest.approx([1, 1])


def test_a_kernel_model_by_hand():
    model = KernelModel(
        centres=torch.tensor([[0.0], [2.0]]),
        coefficients=torch.tensor([[[0.5, -0.5]], [[-0.25, 0.25]]]),
        intercepts=torch.tensor([[0.5, 0.5]]),
        width=0.5,
    )
    near, far = np.exp(-0.5 * 0.25), np.exp(-0.5 * 2.25)
    expected = softmax(4 * np.array([0.5 + 0.5 * near - 0.25 * far, 0.5 - 0.5 * near + 0.25 * far]))
    np.testing.assert_allclose(model.predict(torch.tensor([[0.5]]))[0, 0], expected, rtol=1e-5)
