"""The classifier beyond scikit-learn's own checks (see test_estimator_checks)."""

import copy
import logging
import os
import pickle
import signal
import threading
import time
from dataclasses import replace
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.stacking import EXPERT_TITLES, say_combination
from dahgnn.classifier.stages import _FIRST, stage_ends
from dahgnn.config import PRESETS, ModelConfig, TrainingConfig
from dahgnn.graph.neighbours import knn
from dahgnn.images.datasets import load_mnist
from dahgnn.threads import threads_for
from dahgnn.training import updates
from dahgnn.training.splits import sample_per_class

MODEL, TRAINING = PRESETS["default"].model, PRESETS["default"].training
MOST = _FIRST + 8  # two stages
QUICK = {"training": replace(TRAINING, max_epochs=MOST), "networks": 2, "random_state": 0}


class Colour(Enum):
    RED = 1
    BLUE = 0
    GREEN = 2


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def coded():
    """Rows of three classes with eight columns of codes, which any numbers may stand for, and their classes.

    A class prefers two of six categories in each column, so that columns tell of each other.
    """
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, size=300)
    own = 2 * labels[:, None] + generator.integers(0, 2, size=(300, 8))
    categories = np.where(generator.random((300, 8)) < 0.5, generator.integers(0, 6, size=(300, 8)), own)
    numbers = np.stack([generator.permutation(6) for _ in range(8)])
    return numbers[np.arange(8), categories].astype(float), labels


def hide(y, keep=10, seed=0, missing=-1):
    """Leave some labels of each class."""
    generator = np.random.default_rng(seed)
    shown = np.concatenate(
        [generator.permutation(np.flatnonzero(y == label))[:keep] for label in np.unique(y)]
    )
    hidden = np.full(len(y), missing, dtype=object if missing is None else np.asarray(y).dtype)
    hidden[shown] = np.asarray(y)[shown]
    return hidden


@pytest.fixture(scope="module")
def fitted(iris):
    features, labels = iris
    return DAHGNNClassifier(**QUICK | {"networks": 5}).fit(features, hide(labels))


def test_it_learns_from_few_labels(iris, fitted):
    features, labels = iris
    assert fitted.score(features, labels) > 0.9
    assert fitted.transduction_.shape == labels.shape
    assert fitted.label_distributions_.shape == (150, 3)
    np.testing.assert_allclose(fitted.label_distributions_.sum(1), 1)
    assert ((fitted.density_ >= 0) & (fitted.density_ <= fitted.k_ + 1e-3)).all()
    assert len(fitted.labelled_indices_) == 30


def test_each_network_has_its_history_and_holds_out_other_rows(iris, fitted):
    _, labels = iris
    assert len(fitted.networks_) == 5
    stages = sorted({entry["epoch"] for entry in fitted.history_})
    assert stages == [_FIRST, MOST][: len(stages)] == stage_ends(MOST)[: len(stages)]
    assert [(entry["epoch"], entry["network"]) for entry in fitted.history_] == [
        (epoch, number) for epoch in stages for number in range(5)
    ]
    # Each holds out six labels, so that the mean over networks is that over labels.
    losses = {
        epoch: np.mean([entry["validation_loss"] for entry in fitted.history_ if entry["epoch"] == epoch])
        for epoch in stages
    }
    assert fitted.best_epoch_ == min(losses, key=losses.get)
    assert fitted.n_iter_ == stages[-1]
    assert fitted.stopped_ == ("max_epochs" if fitted.best_epoch_ == MOST else "held_out")
    # Five times a fifth is every labelled row once.
    np.testing.assert_array_equal(fitted.held_out_indices_, fitted.labelled_indices_)
    held = fitted.held_out_distributions_
    np.testing.assert_allclose(held.sum(1), 1)
    assert not np.allclose(held, fitted.label_distributions_[fitted.held_out_indices_])
    assert (held.argmax(1) == labels[fitted.held_out_indices_]).mean() > 0.8


def test_it_says_how_right_it_is(iris, fitted):
    _, labels = iris
    told = fitted.estimate_
    assert told.n == 30
    assert 0 <= told.low < told.accuracy < told.high <= 1
    unlabelled = np.setdiff1d(np.arange(150), fitted.labelled_indices_)
    true = (fitted.transduction_ == labels)[unlabelled].mean()
    assert told.low <= true <= told.high


def test_the_experts_share_the_labels(fitted):
    assert set(fitted.combination_) <= set(EXPERT_TITLES)
    assert sum(fitted.combination_.values()) == pytest.approx(1)
    assert min(fitted.combination_.values()) > 0


def test_the_networks_are_averaged(iris):
    features, labels = iris
    validation = np.flatnonzero(hide(labels) >= 0)[::4]
    classifier = DAHGNNClassifier(**QUICK, validation=validation, scale="none")
    classifier.fit(features, hide(labels))
    rows = torch.from_numpy(np.hstack([features, np.ones((150, 1))])).float()
    with torch.no_grad():
        logits = [network(rows, classifier.hypergraph_).numpy() for network in classifier.networks_]
    assert not np.allclose(*logits, atol=1e-2)
    # Equal rows share their mean.
    _, places, counts = np.unique(features, axis=0, return_inverse=True, return_counts=True)
    unequal = counts[places.ravel()] == 1
    np.testing.assert_allclose(
        classifier.embedding_[unequal], np.mean(logits, 0)[unequal], rtol=1e-4, atol=1e-4
    )
    np.testing.assert_array_equal(classifier.held_out_indices_, validation)


def test_a_number_of_networks_is_kept_to(iris):
    assert len(DAHGNNClassifier(**QUICK | {"networks": 1}).fit(iris[0], hide(iris[1])).networks_) == 1


def test_fitted_rows_get_what_the_fit_gave_them(iris, fitted):
    features, _ = iris
    np.testing.assert_array_equal(fitted.predict(features), fitted.transduction_)
    np.testing.assert_array_equal(fitted.predict_proba(features), fitted.label_distributions_)
    np.testing.assert_array_equal(fitted.transform(features), fitted.embedding_)


@pytest.mark.filterwarnings("error")
def test_logarithms_of_probabilities(iris, fitted, monkeypatch):
    features = iris[0] + 0.01
    np.testing.assert_array_equal(fitted.predict_log_proba(features), np.log(fitted.predict_proba(features)))
    monkeypatch.setattr(DAHGNNClassifier, "predict_proba", lambda *_: np.array([[0.0, 1.0]]))
    assert fitted.predict_log_proba(features).tolist() == [[-np.inf, 0.0]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_cuda_device_gives_what_the_cpu_gives():
    features, labels = load_digits(return_X_y=True)
    seen, unseen, hidden = features[:1500], features[1500:], hide(labels[:1500])
    on_cpu, on_cuda = (
        DAHGNNClassifier(**QUICK, model=replace(MODEL, dropout=0.0), device=device).fit(seen, hidden)
        for device in ("cpu", "cuda")
    )
    assert (on_cpu.predict(unseen) == on_cuda.predict(unseen)).mean() > 0.97
    np.testing.assert_allclose(on_cpu.density_, on_cuda.density_, atol=0.5)
    np.testing.assert_array_equal(on_cuda.predict_proba(seen), on_cuda.label_distributions_)
    copy = pickle.loads(pickle.dumps(on_cuda))  # noqa: S301
    np.testing.assert_array_equal(copy.predict(unseen), on_cuda.predict(unseen))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_ctrl_c_on_a_cuda_device_leaves_experts_beside_the_networks_that_there_are(iris):
    features, labels = iris

    def press(number, _):
        if number == 1:
            raise KeyboardInterrupt

    classifier = DAHGNNClassifier(**QUICK | {"networks": 5, "device": "cuda"})
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        classifier.fit(features, hide(labels), callback=press)
    whole = DAHGNNClassifier(**QUICK | {"networks": 5, "device": "cuda"}).fit(features, hide(labels))
    assert (len(classifier.networks_), len(whole.networks_)) == (2, 5)
    assert 0 < len(classifier.held_out_indices_) < len(whole.held_out_indices_)
    assert classifier.score(features, labels) > 0.6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_what_fails_beside_the_networks_of_a_cuda_device_ends_the_fit(iris, monkeypatch):
    features, labels = iris

    def fail(*_):
        raise ValueError("bad rows")

    monkeypatch.setattr("dahgnn.classifier.experts.KernelExpert.choose", fail)
    classifier = DAHGNNClassifier(**QUICK | {"device": "cuda"})
    with pytest.raises(ValueError, match="bad rows"):
        classifier.fit(features, hide(labels))
    assert vars(classifier) == classifier.get_params()


@pytest.mark.parametrize("n", [6, 12, 20])
def test_a_few_rows_have_fewer_neighbours(n):
    generator = np.random.default_rng(0)
    labels = np.arange(n) % 2
    features = 20.0 * labels[:, None] + generator.normal(size=(n, 3))
    classifier = DAHGNNClassifier(**QUICK).fit(features, labels)
    assert classifier.k_ == max(1, n // 4)
    assert classifier.score(features, labels) == 1


def test_equal_rows_get_equal_labels(iris):
    features, labels = iris
    twice = np.concatenate([features, features[:75]])
    classifier = DAHGNNClassifier(**QUICK).fit(twice, np.concatenate([hide(labels), np.full(75, -1)]))
    np.testing.assert_array_equal(classifier.embedding_[:75], classifier.embedding_[150:])
    np.testing.assert_array_equal(classifier.transform(twice), classifier.embedding_)


def test_new_rows_get_labels_without_a_new_fit():
    features, labels = load_digits(return_X_y=True)
    old, new = slice(0, 1300), slice(1300, None)
    classifier = DAHGNNClassifier(**QUICK).fit(features[old], hide(labels[old], 20))
    before = {name: weight.clone() for name, weight in classifier.networks_[0].state_dict().items()}
    accuracy = (classifier.predict(features[new]) == labels[new]).mean()
    transductive = (classifier.transduction_ == labels[old]).mean()
    assert accuracy > 0.88
    assert accuracy > transductive - 0.06  # other people wrote the last ones
    for name, weight in classifier.networks_[0].state_dict().items():
        assert torch.equal(weight, before[name])
    together = classifier.predict_proba(features[new][:50])
    alone = np.concatenate([classifier.predict_proba(row[None]) for row in features[new][:50]])
    np.testing.assert_allclose(alone, together, atol=1e-5)


@pytest.mark.filterwarnings("ignore:10 rows have the label '':UserWarning")
@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (np.array(["one", "two", "three"]), None),
        (np.array(["a", "b", "c"], dtype=object), float("nan")),
        (np.array([10, 20, 30]), -1),
        (np.array([1.0, 2.0, 3.0]), float("nan")),
        (np.array(["</script><script>alert(1)</script>", "", "c"]), None),
    ],
)
def test_labels_of_any_type(iris, names, missing):
    features, labels = iris
    given = np.array([names[label] for label in labels], dtype=object)
    shown = hide(labels) >= 0
    given[~shown] = missing
    if names.dtype.kind in "if":
        given = given.astype(names.dtype)
    classifier = DAHGNNClassifier(**QUICK).fit(features, given)
    assert classifier.classes_.tolist() == sorted(names.tolist())
    assert (classifier.transduction_ == names[labels]).mean() > 0.8


@pytest.mark.parametrize("names", [list(Colour), [Fraction(1, 3), Fraction(1, 2), Fraction(2)]])
def test_labels_that_numpy_does_not_know(iris, names):
    features, labels = iris
    given = [names[label] if shown >= 0 else None for label, shown in zip(labels, hide(labels), strict=True)]
    plain = DAHGNNClassifier(**QUICK).fit(features, hide(labels))
    classifier = DAHGNNClassifier(**QUICK, class_prior=dict.fromkeys(names, 1)).fit(features, given)
    assert classifier.classes_.tolist() == names
    assert {type(label) for label in classifier.transduction_} == {type(names[0])}
    assert classifier.predict(features).tolist() == classifier.transduction_.tolist()
    right = [label is names[true] for label, true in zip(classifier.transduction_, labels, strict=True)]
    assert classifier.score(features, [names[label] for label in labels]) == pytest.approx(np.mean(right))
    assert np.mean(right) == pytest.approx(plain.score(features, labels), abs=0.05)


def test_two_values_and_nothing_else(iris):
    features, labels = iris
    given = np.array([bool(label) for label in labels], dtype=object)
    given[::2] = None
    classifier = DAHGNNClassifier(**QUICK).fit(features, given)
    assert classifier.classes_.tolist() == [False, True]


def test_a_frame_and_its_names(iris):
    pandas = pytest.importorskip("pandas")
    features, labels = iris
    frame = pandas.DataFrame(features, columns=["a", "b", "c", "d"])
    names = pandas.Series(np.array(["x", "y", "z"])[labels]).where(hide(labels) >= 0)
    classifier = DAHGNNClassifier(**QUICK).fit(frame, names)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert classifier.predict(frame).tolist() == classifier.transduction_.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame[["b", "a", "c", "d"]])


def test_sparse_and_dense_are_the_same(iris):
    features, labels = iris
    given = hide(labels)
    dense, sparse = (DAHGNNClassifier(**QUICK).fit(rows, given) for rows in (features, csr_array(features)))
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_, atol=1e-5)


def test_surroundings_give_the_fit_that_a_search_gives(iris):
    rows, y = iris
    classifier = DAHGNNClassifier(random_state=0)
    around = classifier.surroundings(rows)
    searched = DAHGNNClassifier(random_state=0).fit(rows, y)
    again = classifier.fit(rows, y, neighbors=around)
    np.testing.assert_array_equal(again.label_distributions_, searched.label_distributions_)
    np.testing.assert_array_equal(
        again.predict_proba(rows[:9] + 0.01), searched.predict_proba(rows[:9] + 0.01)
    )


def test_surroundings_of_other_rows_are_refused(iris):
    rows, y = iris
    around = DAHGNNClassifier().surroundings(rows[:20])
    with pytest.raises(ValueError, match=r"'neighbors' parameter of fit must be of 150 rows\. Got 20"):
        DAHGNNClassifier().fit(rows, y, neighbors=around)
    with pytest.raises(ValueError, match="not both"):
        DAHGNNClassifier().fit(rows, y, neighbors=around, hypergraph=around.hypergraph)


def test_known_neighbours_and_hypergraphs(iris):
    features, labels = iris
    given = hide(labels)
    found = DAHGNNClassifier(k=5, scale="columns", metric="euclidean", **QUICK).fit(features, given)
    neighbors = knn(found.ensemble_.features, 5)
    unequal = np.unique(features, axis=0, return_inverse=True, return_counts=True)
    unequal = unequal[2][unequal[1].ravel()] == 1  # given neighbours may tell equal rows apart
    for each in (neighbors.indices.numpy(), neighbors):
        known = DAHGNNClassifier(**QUICK, scale="columns").fit(features, given, neighbors=each)
        np.testing.assert_allclose(known.embedding_[unequal], found.embedding_[unequal], atol=1e-6)
        np.testing.assert_allclose(
            known.label_distributions_[unequal], found.label_distributions_[unequal], atol=1e-5
        )
        assert known.k_ == 5
    hypergraph = Hypergraph.from_hyperedges([range(i, i + 5) for i in range(0, 150, 5)], n_nodes=150)
    own = DAHGNNClassifier(**QUICK).fit(features, given, hypergraph=hypergraph)
    given_ones = [own.hypergraph_.members(number).tolist() for number in range(30)]
    assert given_ones == [hypergraph.members(number).tolist() for number in range(30)]
    assert own.hypergraph_.n_hyperedges in (30, 180)
    assert own.predict(features + 0.01).shape == (150,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"neighbors": [[0]]}, "must be of 150 rows"),
        ({"neighbors": np.empty((150, 0), dtype=int)}, "must be of 150 rows"),
        ({"neighbors": np.full((150, 3), 150)}, "between 0 and"),
        ({"hypergraph": Hypergraph.from_hyperedges([[0, 1]], n_nodes=2)}, "of 150 nodes. Got 2"),
    ],
)
def test_neighbours_that_do_not_fit_are_refused(iris, arguments, message):
    features, labels = iris
    with pytest.raises(ValueError, match=message):
        DAHGNNClassifier(**QUICK).fit(features, labels, **arguments)


def test_held_out_rows_can_be_named(iris):
    features, labels = iris
    given = hide(labels)
    shown = np.flatnonzero(given >= 0)
    named = DAHGNNClassifier(**QUICK, validation=shown[::5]).fit(features, given)
    assert named.held_out_indices_.tolist() == shown[::5].tolist()
    none = DAHGNNClassifier(**QUICK, validation=np.array([], dtype=int)).fit(features, given)
    assert len(none.held_out_indices_) == len(none.held_out_distributions_) == 0
    assert none.labelled_indices_.tolist() == shown.tolist()


def test_nobody_learns_from_named_rows(iris):
    features, labels = iris
    given = hide(labels)
    named = np.flatnonzero(given >= 0)[::5]
    swapped = given.copy()
    swapped[named] = (given[named] + 1) % 3
    first, other = (
        DAHGNNClassifier(**QUICK | {"training": replace(TRAINING, max_epochs=_FIRST)}, validation=named).fit(
            features, each
        )
        for each in (given, swapped)
    )
    np.testing.assert_array_equal(first.embedding_, other.embedding_)
    models = [each.ensemble_.combined.models for each in (first, other)]
    shared = models[0].keys() & models[1].keys()
    assert shared
    for name in shared:
        said = [each[name].predict(torch.from_numpy(features).float()) for each in models]
        assert said[0].shape == (150, 1, 3)
        np.testing.assert_array_equal(*said)
    assert (first.held_out_distributions_.argmax(1) == labels[named]).mean() > 0.8


def test_copies_of_named_rows_do_not_tell_their_labels():
    generator = np.random.default_rng(0)
    labels, rows = generator.integers(0, 3, 200), generator.normal(size=(200, 8))
    given = np.where(np.arange(200) < 90, labels, -1)
    classifier = DAHGNNClassifier(**QUICK, validation=range(60))
    classifier.fit(np.vstack([rows, rows[:60]]), np.r_[given, given[:60]])
    assert classifier.estimate_.accuracy < 0.6
    assert classifier.held_out_indices_.tolist() == [*range(60), *range(200, 260)]


def test_huge_values_without_a_scale_are_refused_in_words(iris):
    features, labels = iris
    wide = np.tile(features, 8) * 1e20
    with pytest.raises(ValueError, match="finite"):
        DAHGNNClassifier(**QUICK, scale="none").fit(wide, hide(labels))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"validation": [0, 1]}, "labelled rows. Got row"),
        ({"validation": 1.5}, "'validation' parameter"),
        ({"validation": [2, 2]}, "of DAHGNNClassifier must be different rows. Got row 2 more than once"),
        ({"validation": [2.5]}, "'validation' parameter of DAHGNNClassifier must be integers"),
        ({"validation": [-1]}, "of DAHGNNClassifier must be indices between 0 and n_rows - 1 = 149. Got -1"),
        ({"scale": "colums"}, "'scale' parameter .* Did you mean 'columns'"),
        ({"k": 0}, "'k' parameter"),
        ({"verbose": None}, "'verbose' parameter"),
        ({"metric": "euclidian"}, "'metric' parameter .* Did you mean 'euclidean'"),
        ({"model": {"dropout": 0.5}}, "'model' parameter .* ModelConfig or None. Got dict"),
        ({"training": ModelConfig()}, "'training' parameter .* TrainingConfig or None. Got ModelConfig"),
        ({"networks": "many"}, "'networks' parameter"),
        ({"networks": 0}, "'networks' parameter"),
        ({"networks": 10**11}, "'networks' parameter of DAHGNNClassifier must be at most 1000. Got 10{11}."),
        ({"warm_start": "yes"}, "'warm_start' parameter"),
        ({"device": "abacus"}, "abacus"),
        ({"n_jobs": 0}, "'n_jobs' parameter"),
    ],
)
def test_wrong_parameters_are_named(iris, change, message):
    features, labels = iris
    given = hide(labels)
    given[:2] = -1
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        DAHGNNClassifier(**{**QUICK, **change}).fit(features, given)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1] * 150, "at least two classes. Got no labelled row"),
        ([1] * 150, "at least two classes. Got 1 class"),
        (np.linspace(0, 1, 150), "Unknown label type: continuous"),
        ([0, 1], "as many rows. Got 150 and 2"),
        (np.array(["a", 1] * 75, dtype=object), "labels of one type"),
    ],
)
def test_labels_that_teach_nothing_are_refused(iris, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DAHGNNClassifier(**QUICK).fit(iris[0], y)


def test_numbers_that_are_none_are_refused(iris):
    features, labels = iris
    for wrong in (np.nan, np.inf, 1e39):
        rows = features.copy()
        rows[3, 2] = wrong
        with pytest.raises(ValueError, match="NaN|infinity|float32"):
            DAHGNNClassifier(**QUICK).fit(rows, labels)


def test_weights_and_classes_that_count_more(iris):
    features, labels = iris
    given = hide(labels)
    # Without dropout, which a CUDA device draws otherwise when there are weights.
    still = {**QUICK, "model": replace(MODEL, dropout=0.0)}
    plain = DAHGNNClassifier(**still).fit(features, given)
    for weight in (1.0, 1e9):  # proportions count
        same = DAHGNNClassifier(**still).fit(features, given, sample_weight=np.full(150, weight))
        np.testing.assert_allclose(same.embedding_, plain.embedding_, atol=1e-3)
        np.testing.assert_allclose(same.label_distributions_, plain.label_distributions_, atol=1e-3)
    plain = DAHGNNClassifier(**QUICK).fit(features, given)
    heavy = DAHGNNClassifier(**QUICK, class_weight={0: 1, 1: 100, 2: 1}).fit(features, given)
    assert (heavy.transduction_ == 1).sum() > (plain.transduction_ == 1).sum()
    balanced = DAHGNNClassifier(**QUICK, class_weight="balanced").fit(features, given)
    assert (balanced.transduction_ == labels).mean() > 0.85


def test_a_warm_start_goes_on(iris):
    features, labels = iris
    given = hide(labels)
    classifier = DAHGNNClassifier(**QUICK, warm_start=True).fit(features, given)
    networks = len(classifier.networks_)
    cold, warm = [], []
    DAHGNNClassifier(**QUICK).fit(features, given, callback=lambda _, update: cold.append(update))
    classifier.fit(features, given, callback=lambda _, update: warm.append(update))
    first = [[update.train_loss for update in heard if update.epoch == 1] for heard in (cold, warm)]
    assert [len(losses) for losses in first] == [networks, networks]
    assert np.mean(first[1]) < np.mean(first[0]) / 2


def test_the_same_seed_gives_the_same(iris):
    features, labels = iris
    given = hide(labels)
    first, again = (DAHGNNClassifier(**QUICK).fit(features, given) for _ in range(2))
    np.testing.assert_array_equal(first.embedding_, again.embedding_)
    other = DAHGNNClassifier(**{**QUICK, "random_state": 1}).fit(features, given)
    assert not np.array_equal(other.embedding_, first.embedding_)


def test_it_lives_with_the_rest_of_scikit_learn(iris):
    features, labels = iris
    pipeline = make_pipeline(StandardScaler(), DAHGNNClassifier(**QUICK))
    assert cross_val_score(pipeline, features, labels, cv=3).mean() > 0.8
    search = GridSearchCV(DAHGNNClassifier(**QUICK), {"k": [3, 7]}, cv=2, n_jobs=2)
    # Unlabelled rows are in the folds, too; they do not count in the score.
    search.fit(features, hide(labels, 20))
    assert search.best_score_ > 0.85
    assert clone(search.best_estimator_).get_params()["k"] == search.best_params_["k"]


def test_a_copy_by_pickle_predicts_the_same(iris, fitted):
    rows = iris[0] + 0.05
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301, our own
    np.testing.assert_array_equal(copy.predict_proba(rows), fitted.predict_proba(rows))


def test_it_says_what_it_does(iris, caplog):
    features, labels = iris
    classifier = DAHGNNClassifier(**QUICK, verbose=1).fit(features, hide(labels))
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "Find the neighbours of 150 rows"
    assert said[1].startswith("Network 1, epoch 1: loss")
    assert said[-1] == classifier.decision_
    combined = say_combination(classifier.combination_)
    assert classifier.decision_ == (
        "Columns have one scale; the 10 nearest neighbours by local scale come from an exact search; "
        "2 networks trained on all rows at once; "
        f"{len(classifier.held_out_indices_)} of {len(classifier.labelled_indices_)} labels were held out; "
        f"labels come from {combined}"
    )


def test_it_is_silent_unless_asked(iris, caplog, capsys):
    with caplog.at_level(logging.INFO):
        DAHGNNClassifier(**QUICK).fit(iris[0], hide(iris[1]))
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_each_epoch_of_each_network_is_heard(iris):
    features, labels = iris
    heard = []
    classifier = DAHGNNClassifier(**QUICK)
    classifier.fit(features, hide(labels), callback=lambda *news: heard.append(news))
    for number in (0, 1):
        assert [update.epoch for each, update in heard if each == number] == [
            *range(1, classifier.n_iter_ + 1)
        ]
    last = {}
    for number, epoch in heard:
        last[number] = epoch
    for entry in classifier.history_[-2:]:
        assert last[entry["network"]].train_loss == pytest.approx(entry["train_loss"])


def test_a_constant_column_changes_nothing(iris):
    features, labels = iris
    given = hide(labels)
    wider = np.concatenate([features, np.full((150, 1), 12345.678)], 1)
    for scale in ("columns", "whole"):
        plain, more = (DAHGNNClassifier(**QUICK, scale=scale).fit(rows, given) for rows in (features, wider))
        assert (plain.transduction_ == more.transduction_).mean() > 0.95
        assert np.isfinite(more.embedding_).all()


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_columns_far_from_zero_count(iris, dtype):
    """A difference of a minute between times of a billion seconds."""
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 3
    times = (1_700_000_000 + 600 * labels + generator.integers(0, 60, 120)).astype(dtype)
    classifier = DAHGNNClassifier(**QUICK).fit(times[:, None], np.where(np.arange(120) < 60, labels, -1))
    assert classifier.score(times[:, None], labels) > 0.95


def test_zeros_of_either_sign_are_one_row():
    generator = np.random.default_rng(0)
    half = generator.normal(size=(20, 3))
    rows = np.concatenate([half, half])
    rows[:20, 0], rows[20:, 0] = 0.0, -0.0
    for scale in ("auto", "none"):
        classifier = DAHGNNClassifier(**QUICK, scale=scale).fit(rows, np.repeat([0, 1], 20))
        np.testing.assert_array_equal(classifier.predict(rows), classifier.transduction_)
        found = classifier.evaluate(rows)
        np.testing.assert_array_equal(found.distributions, classifier.label_distributions_)
        np.testing.assert_array_equal(found.density, classifier.density_)


@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e30])
def test_the_unit_of_a_table_changes_nothing(iris, fitted, factor):
    features, labels = iris
    other = DAHGNNClassifier(**QUICK | {"networks": 5}).fit(features * factor, hide(labels))
    np.testing.assert_allclose(other.label_distributions_, fitted.label_distributions_, atol=1e-3)
    new = features + 0.05
    np.testing.assert_allclose(other.predict_proba(new * factor), fitted.predict_proba(new), atol=1e-3)


def test_tiny_and_huge_columns_are_scaled(iris):
    features, labels = iris
    given = hide(labels)
    for factor in (1e-42, 1e30):
        classifier = DAHGNNClassifier(**QUICK).fit(features * factor, given)
        assert classifier.score(features * factor, labels) > 0.8


def test_a_fit_that_fails_leaves_the_last_one(iris):
    features, labels = iris
    classifier = DAHGNNClassifier(**QUICK).fit(features, hide(labels))
    before = classifier.predict(features + 0.1)
    names = np.array(["x", "y", "z"])[labels]
    with pytest.raises(ValueError, match="of 150 rows"):
        classifier.fit(features, names, neighbors=[[0]])
    np.testing.assert_array_equal(classifier.predict(features + 0.1), before)

    def stop(number, epoch):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        classifier.set_params(warm_start=True).fit(features, hide(labels), callback=stop)
    np.testing.assert_array_equal(classifier.predict(features + 0.1), before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("place", ["fitting.learn_stack", "decision.say_combination"])
def test_a_fit_that_ends_after_its_networks_leaves_the_last_one(iris, monkeypatch, error, place):
    features, labels = iris
    classifier = DAHGNNClassifier(**QUICK).fit(features, hide(labels))
    before = dict(vars(classifier))

    def end(*_):
        raise error

    monkeypatch.setattr(f"dahgnn.classifier.{place}", end)
    names = np.array(["x", "y", "z"])[labels]
    with pytest.raises(error):
        classifier.fit(features[:, :3], names)
    assert vars(classifier).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(classifier).items())
    fresh = DAHGNNClassifier(**QUICK)
    with pytest.raises(error):
        fresh.fit(features, names)
    assert vars(fresh) == DAHGNNClassifier(**QUICK).get_params()


def test_it_fits_where_nothing_is_to_be_trained(iris, fitted):
    features, labels = iris
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            inside = DAHGNNClassifier(**QUICK | {"networks": 5}).fit(features, hide(labels))
            copied = copy.deepcopy(inside)
        np.testing.assert_array_equal(inside.label_distributions_, fitted.label_distributions_)
        again = copied.set_params(warm_start=True).fit(features, hide(labels))
        assert again.score(features, labels) > 0.8


@pytest.mark.parametrize(
    ("most", "why"),
    [(_FIRST, "max_epochs"), (12, "max_epochs"), (13, "nothing_held_out"), (32, "nothing_held_out")],
)
def test_it_says_why_it_ended_where_nothing_is_held_out(iris, most, why):
    features, labels = iris
    training = replace(TRAINING, max_epochs=most)
    classifier = DAHGNNClassifier(**QUICK | {"training": training}, validation=0).fit(features, hide(labels))
    assert (classifier.n_iter_, classifier.stopped_) == (min(most, 12), why)


def test_weights_of_classes_do_not_bend_the_estimate():
    """The rare class counts a tenth, and most of it is missed: by bent shares 96 % were stated."""
    stated, right = [], []
    for seed in range(3):
        generator = np.random.default_rng(seed)
        labels = (generator.random(500) < 0.1).astype(int)
        features = generator.normal(size=(500, 4)) + 1.2 * labels[:, None] * [1, 1, 0, 0]
        given = np.where(generator.permutation(500) < 150, labels, -1)
        classifier = DAHGNNClassifier(**QUICK, class_weight={0: 1, 1: 0.1}).fit(features, given)
        stated.append(classifier.estimate_.accuracy)
        right.append((classifier.transduction_ == labels)[given < 0].mean())
    assert np.mean(stated) == pytest.approx(np.mean(right), abs=0.03)
    assert np.mean(right) < 0.93


@pytest.mark.parametrize(
    ("stage", "pressed", "kept"), [(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 0, 3), (1, 2, 3)]
)
def test_ctrl_c_leaves_a_fitted_classifier_and_warns(iris, stage, pressed, kept):
    features, labels = iris

    def press(number, epoch):
        if epoch.epoch == _FIRST * stage + 4 and number == pressed:
            raise KeyboardInterrupt

    classifier = DAHGNNClassifier(**QUICK | {"networks": 3})
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        classifier.fit(features, hide(labels), callback=press)
    assert classifier.stopped_ == "interrupted"
    assert classifier.best_epoch_ == (4 if (stage, pressed) == (0, 0) else _FIRST)
    # In the first stage those that began; later the whole stage before.
    assert len(classifier.networks_) == kept
    assert len(classifier.held_out_indices_) == 6 * kept
    assert classifier.score(features, labels) > 0.8
    np.testing.assert_array_equal(classifier.predict(features), classifier.transduction_)


@pytest.fixture
def two_cores(monkeypatch):
    """There are two cores, and Ctrl-C is heard, which is not so for whatever runs in the background."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def raise_ctrl_c():
    raise KeyboardInterrupt


def send_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("press", [raise_ctrl_c, send_ctrl_c])
def test_ctrl_c_ends_networks_that_train_side_by_side(iris, monkeypatch, press):
    features, labels = iris
    monkeypatch.setattr("dahgnn.classifier.stages._FIRST", 500)  # long enough to hear of it
    heard, pressed, threads = {}, [], torch.get_num_threads()

    def listen(number, update):
        assert threading.current_thread() is not threading.main_thread()
        heard[number] = update.epoch
        time.sleep(0.01)
        if len(heard) == 2 and min(heard.values()) > 3 and not pressed:
            pressed.append(number)
            press()

    classifier = DAHGNNClassifier(
        **QUICK | {"networks": 3, "training": replace(TRAINING, max_epochs=500)}, n_jobs=2
    )
    try:
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            classifier.fit(features, hide(labels), callback=listen)
    except KeyboardInterrupt:  # which would end pytest
        pytest.fail("It goes on up.")
    assert classifier.stopped_ == "interrupted"
    assert pressed
    assert set(heard) == {0, 1}
    assert classifier.best_epoch_ <= max(heard.values()) + 1  # the last update may not have been heard
    assert max(heard.values()) < 500
    assert len(classifier.networks_) == 2
    assert len(classifier.held_out_indices_) == 12
    np.testing.assert_array_equal(classifier.predict(features), classifier.transduction_)
    assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("two_cores")
def test_an_error_in_a_callback_ends_networks_that_train_side_by_side(iris):
    features, labels = iris
    classifier = DAHGNNClassifier(**QUICK, n_jobs=2).fit(features, hide(labels))
    before, running, threads = (
        classifier.predict_proba(features + 0.1),
        threading.active_count(),
        torch.get_num_threads(),
    )

    def stop(number, update):
        if (number, update.epoch) == (1, 2):
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="^enough$"):
        classifier.fit(features, hide(labels, seed=1), callback=stop)
    assert (threading.active_count(), torch.get_num_threads()) == (running, threads)
    np.testing.assert_array_equal(classifier.predict_proba(features + 0.1), before)  # the last fit is whole


def test_ctrl_c_before_a_network_has_begun_leaves_those_before_it(iris, monkeypatch):
    features, labels = iris
    seen, advance = [], updates._PlainUpdates.advance

    def pressed(*arguments):
        seen.append(arguments)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return advance(*arguments)

    monkeypatch.setattr(updates._PlainUpdates, "advance", pressed)
    classifier = DAHGNNClassifier(**QUICK)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        classifier.fit(features, hide(labels))
    assert (len(classifier.networks_), classifier.stopped_) == (1, "interrupted")
    assert classifier.score(features, labels) > 0.6
    seen[:] = [None]
    fresh = DAHGNNClassifier(**QUICK)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(features, hide(labels))
    assert not hasattr(fresh, "networks_")


def first_loss(classifier, *data):
    """The loss of the first network when a fit starts."""
    heard = []
    classifier.fit(*data, callback=lambda _, epoch: heard.append(epoch))
    return heard[0].train_loss


@pytest.mark.parametrize(
    ("change", "names", "warm"),
    [
        ({}, None, True),
        ({"k": 7}, None, True),
        ({"networks": 3}, None, False),
        ({"model": replace(MODEL, hidden=32)}, None, False),
        ({}, np.array(["c", "b", "a"]), False),
    ],
)
def test_a_warm_start_needs_the_same_networks_and_classes(iris, change, names, warm):
    features, labels = iris
    given = hide(labels)
    then = given if names is None else np.where(given >= 0, names[given], None)
    classifier = DAHGNNClassifier(**QUICK, warm_start=True).fit(features, given)
    again = first_loss(classifier.set_params(**change), features, then)
    cold = first_loss(DAHGNNClassifier(**QUICK | change), features, then)
    if warm:
        assert again < cold - 0.1
    else:
        assert again == pytest.approx(cold, rel=1e-6)
    assert len(classifier.networks_) == change.get("networks", 2)


def test_rows_of_no_weight_are_unlabelled(iris):
    features, labels = iris
    given = hide(labels)
    weights = np.where(np.arange(150) % 50 < 40, 1.0, 0.0)
    unlabelled = np.where(weights > 0, given, -1)
    first = DAHGNNClassifier(**QUICK).fit(features, given, sample_weight=weights)
    second = DAHGNNClassifier(**QUICK).fit(features, unlabelled, sample_weight=np.ones(150))
    np.testing.assert_allclose(first.embedding_, second.embedding_)
    with pytest.raises(ValueError, match="'sample_weight' parameter of fit must be positive"):
        DAHGNNClassifier(**QUICK).fit(features, given, sample_weight=(labels > 0).astype(float))


def test_neighbours_of_any_integers_and_with_themselves(iris):
    features, labels = iris
    given = hide(labels)
    found = DAHGNNClassifier(k=5, metric="euclidean", **QUICK).fit(features, given)
    neighbors = knn(found.ensemble_.features, 5).indices.numpy()
    with_self = np.concatenate([np.arange(150)[:, None], neighbors], 1).astype(np.uint8)
    same = DAHGNNClassifier(**QUICK).fit(features, given, neighbors=with_self)
    assert same.k_ == 5
    np.testing.assert_allclose(
        same.predict_proba(features + 0.1), found.predict_proba(features + 0.1), atol=1e-5
    )


@pytest.mark.slow
def test_unseen_images_are_labelled_as_well_as_those_of_the_fit(mnist_folder):
    """MNIST: 10,000 images with 1,000 labels, then the 10,000 test images."""
    train, test = (load_mnist(mnist_folder, part) for part in ("train", "test"))
    rows = sample_per_class(train.labels, 1000, seed=0).numpy()
    features, labels = train.features.numpy()[rows], train.labels.numpy()[rows]
    given = hide(labels, 100)
    classifier = DAHGNNClassifier(random_state=0).fit(features, given)
    hidden = given < 0
    transductive = (classifier.transduction_[hidden] == labels[hidden]).mean()
    unseen = classifier.score(test.features.numpy(), test.labels.numpy())
    assert unseen > transductive - 0.01


def test_equal_rows_are_told_apart_by_a_hypergraph_of_ones_own():
    generator = np.random.default_rng(0)
    y = np.arange(120) % 3
    rows = generator.integers(0, 2, size=(120, 2)).astype(float)  # four kinds of rows, of all classes
    groups = [generator.permutation(np.flatnonzero(y == label))[:6] for label in (0, 1, 2) for _ in range(40)]
    hypergraph = Hypergraph.from_hyperedges(groups, n_nodes=120)
    classifier = DAHGNNClassifier(random_state=0, networks=1).fit(rows, hide(y), hypergraph=hypergraph)
    assert (classifier.transduction_ == y).mean() > 0.9
    predicted = classifier.predict_proba(rows)
    for row in np.unique(rows, axis=0):  # new rows have nothing but their features
        assert len(np.unique(predicted[(row == rows).all(1)], axis=0)) == 1


def test_a_fit_that_is_refused_leaves_the_columns_of_the_last(iris):
    classifier = DAHGNNClassifier(**QUICK).fit(iris[0], hide(iris[1]))
    before = classifier.predict(iris[0])
    with pytest.raises(ValueError, match="two classes"):
        classifier.fit(np.ones((5, 9)), np.zeros(5, dtype=int))
    assert classifier.n_features_in_ == 4
    assert (classifier.predict(iris[0]) == before).all()


def test_fitted_rows_are_known_in_single_precision_too(iris):
    rows = 1.1 * iris[0]  # which float32 rounds
    classifier = DAHGNNClassifier(**QUICK).fit(rows, hide(iris[1]))
    assert np.array_equal(classifier.predict_proba(rows), classifier.label_distributions_)
    assert np.array_equal(classifier.predict_proba(rows.astype(np.float32)), classifier.label_distributions_)


def blobs(n, n_classes=3, d=4, seed=0, distance=4.0):
    """Rows of classes that are apart."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    centres = distance * generator.normal(size=(n_classes, d))
    return centres[labels] + generator.normal(size=(n, d)), labels


def check_whole(classifier, rows):
    """A fit gave numbers, and new rows get some, too."""
    for each in (classifier.label_distributions_, classifier.embedding_, classifier.density_):
        assert np.isfinite(each).all()
    np.testing.assert_allclose(classifier.label_distributions_.sum(1), 1)
    new = classifier.predict_proba(rows + 0.01)
    assert np.isfinite(new).all()
    np.testing.assert_allclose(new.sum(1), 1)


@pytest.mark.parametrize("metric", ["local-scale", "euclidean"])
def test_duplicate_rows_have_neighbours_and_labels(metric):
    """Each row comes twenty times, so that the mean distance to its ten nearest is zero."""
    few, kinds = blobs(9)
    rows, labels = np.repeat(few, 20, 0), np.repeat(kinds, 20)
    given = np.where(np.arange(180) % 20 < 2, labels, -1)
    classifier = DAHGNNClassifier(**QUICK, metric=metric).fit(rows, given)
    check_whole(classifier, rows)
    assert (classifier.transduction_ == labels).mean() > 0.95
    for kind in range(9):
        assert len(np.unique(classifier.label_distributions_[20 * kind : 20 * kind + 20], axis=0)) == 1
    if metric == "local-scale":
        assert (classifier.ensemble_.scales > 0).all()


def test_half_of_the_rows_are_one_and_the_same(iris):
    features, labels = iris
    rows = np.concatenate([features, np.tile(features[:1], (150, 1))])
    given = np.concatenate([hide(labels), np.full(150, -1)])
    classifier = DAHGNNClassifier(**QUICK).fit(rows, given)
    check_whole(classifier, rows)
    assert (classifier.transduction_[:150] == labels).mean() > 0.85
    assert (classifier.transduction_[150:] == classifier.transduction_[0]).all()


def test_equal_rows_with_contrary_labels_are_undecided():
    rows, labels = np.ones((24, 3)), np.arange(24) % 2
    classifier = DAHGNNClassifier(**QUICK).fit(rows, np.where(np.arange(24) < 12, labels, -1))
    check_whole(classifier, rows)
    np.testing.assert_allclose(classifier.label_distributions_, 0.5, atol=0.1)
    # Rows that differ where the fitted ones do not, are nowhere else.
    np.testing.assert_array_equal(classifier.predict_proba(5 * rows), classifier.label_distributions_)


def test_all_rows_equal_have_the_shares_of_their_labels():
    given = np.where(np.arange(30) < 20, (np.arange(30) % 4 == 0).astype(int), -1)
    classifier = DAHGNNClassifier(**QUICK, validation=np.array([], dtype=int)).fit(np.zeros((30, 2)), given)
    check_whole(classifier, np.zeros((30, 2)))
    assert len(np.unique(classifier.label_distributions_, axis=0)) == 1
    assert (classifier.transduction_ == 0).all()


@pytest.mark.parametrize("n", [2, 3, 4, 7, 11, 30, 49, 50, 51, 52])
def test_fewer_rows_than_candidates_of_neighbours(n):
    rows, labels = blobs(n, 2, distance=9.0)
    given = np.where(np.arange(n) < max(2, n // 2), labels, -1)
    classifier = DAHGNNClassifier(**QUICK).fit(rows, given)
    check_whole(classifier, rows)
    assert classifier.k_ == min(10, max(1, n // 4))
    assert (classifier.transduction_ == labels).mean() > 0.9


def test_a_class_with_one_label_keeps_it():
    rows, labels = blobs(90)
    given = np.where(np.arange(90) < 30, labels, -1)
    given[(given == 2) & (np.arange(90) != 2)] = -1
    classifier = DAHGNNClassifier(**QUICK | {"networks": 5}).fit(rows, given)
    check_whole(classifier, rows)
    assert 2 not in classifier.held_out_indices_
    assert len(classifier.held_out_indices_) == 20
    assert classifier.transduction_[2] == 2
    assert (classifier.transduction_ == labels).mean() > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_label_a_class_holds_out_none(n_classes):
    rows, labels = blobs(90, n_classes)
    given = hide(labels, 1)
    classifier = DAHGNNClassifier(**QUICK).fit(rows, given)
    check_whole(classifier, rows)
    assert len(classifier.labelled_indices_) == n_classes
    assert classifier.held_out_indices_.tolist() == []
    assert classifier.held_out_distributions_.shape == (0, n_classes)
    assert classifier.estimate_ is None
    assert set(classifier.combination_) == {"poisson", "linear"}
    assert (classifier.best_epoch_, classifier.stopped_) == (MOST, "max_epochs")
    assert all(np.isnan(entry["validation_loss"]) for entry in classifier.history_)
    assert (classifier.transduction_ == labels).mean() > 0.9
    assert (classifier.predict(blobs(90, n_classes)[0] + 0.05) == labels).mean() > 0.9


def test_a_component_without_a_label_is_labelled_by_its_features():
    """Three groups far from each other; the third has no label, and its neighbours are all in it."""
    generator = np.random.default_rng(0)
    group = np.arange(120) % 3
    rows = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 40.0]])[group] + generator.normal(size=(120, 2))
    given = np.where((group < 2) & (np.arange(120) < 60), group, -1)
    for metric in ("local-scale", "euclidean"):
        classifier = DAHGNNClassifier(k=5, metric=metric, scale="columns", **QUICK).fit(rows, given)
        check_whole(classifier, rows)
        members = classifier.hypergraph_.by_hyperedge.indices.reshape(120, 6).numpy()
        assert (group[members] == group[:, None]).all()  # so they are components
        known = group < 2
        assert (classifier.transduction_[known] == group[known]).all()
        assert (classifier.transduction_[~known] == 1).mean() > 0.9  # which it stands beside
        sure = classifier.label_distributions_.max(1)
        assert sure[~known].mean() < sure[known].mean()


def test_labels_spread_over_a_hypergraph_of_ones_own_as_far_as_it_tells_something():
    rows, labels = blobs(90)
    noise = Hypergraph.from_hyperedges([range(i, i + 6) for i in range(0, 90, 6)], n_nodes=90)
    order = np.argsort(labels, kind="stable").reshape(-1, 6)
    truth = Hypergraph.from_hyperedges(order.tolist(), n_nodes=90)
    junk = np.random.default_rng(0).normal(size=(90, 4))
    for keep in (1, 8):
        misled = DAHGNNClassifier(**QUICK).fit(rows, hide(labels, keep), hypergraph=noise)
        check_whole(misled, rows)
        assert misled.ensemble_.radius is None
        # With one label a class nothing is held out, and nobody can tell that the hyperedges are noise.
        assert keep == 1 or (misled.transduction_ == labels).mean() > 0.9
        assert keep == 1 or (misled.predict(rows + 0.01) == labels).mean() > 0.9
    led = DAHGNNClassifier(**QUICK).fit(junk, hide(labels, 8), hypergraph=truth)
    assert (led.transduction_ == labels).mean() > 0.9
    assert led.decision_.startswith(
        "Columns have one scale; no row got the 10 nearest neighbours by local scale beside the given "
        "hyperedges; Poisson learning on neighbours by plain distance has no part; 2 networks trained"
    )


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.5], "3 positive shares, one for each class"),
        ([[0.5, 0.3, 0.2]], "3 positive shares"),
        ([0.5, 0.5, 0.0], "3 positive shares"),
        ([0.5, 0.6, -0.1], "3 positive shares"),
        ([0.5, 0.5, np.nan], "3 positive shares"),
        ([0.5, 0.5, np.inf], "3 positive shares"),
        ({0: 0.5, 1: 0.3, 7: 0.2}, "a share for each class, 0, 1, 2. Got .*7"),
        ({0: 0.5, 1: 0.5}, "a share for each class, 0, 1, 2"),
        ({0: 0.5, 1: 0.3, 2: 0.0}, "3 positive shares"),
    ],
)
def test_class_shares_that_are_none_are_refused(iris, prior, message):
    with pytest.raises(ValueError, match=f"'class_prior' parameter of DAHGNNClassifier must be .*{message}"):
        DAHGNNClassifier(**QUICK, class_prior=prior).fit(iris[0], hide(iris[1]))


def test_known_class_shares_move_the_labels(iris):
    features, labels = iris
    names = np.array(["a", "b", "c"])[labels]
    shown = hide(labels) >= 0
    given = np.where(shown, names, None)
    plain = DAHGNNClassifier(**QUICK).fit(features, given)
    shares = {"c": 3.0, "a": 1.0, "b": 1.0}  # shares are proportions, in any order
    moved = DAHGNNClassifier(**QUICK, class_prior=shares).fit(features, given)
    np.testing.assert_allclose(moved.label_distributions_.mean(0), [0.2, 0.2, 0.6], atol=0.01)
    assert (moved.transduction_ == "c").sum() > (plain.transduction_ == "c").sum()
    same = DAHGNNClassifier(**QUICK, class_prior=[1, 1, 3]).fit(features, given)
    np.testing.assert_allclose(same.label_distributions_, moved.label_distributions_)
    # New rows have the same factors.
    new = features + 0.02
    assert moved.predict_proba(new)[:, 2].mean() > plain.predict_proba(new)[:, 2].mean() + 0.1
    np.testing.assert_array_equal(moved.predict_proba(features), moved.label_distributions_)


def test_right_class_shares_help_where_labels_are_few_and_misleading():
    generator = np.random.default_rng(0)
    labels = (np.arange(200) % 10 == 0).astype(int)  # one of ten
    rows = 1.5 * labels[:, None] * np.ones(3) + generator.normal(size=(200, 3))
    given = hide(labels, 4)
    plain, informed = (
        DAHGNNClassifier(**QUICK, class_prior=prior).fit(rows, given) for prior in (None, [0.9, 0.1])
    )
    assert informed.score(rows, labels) > plain.score(rows, labels)


def test_a_heavy_label_counts_more():
    rows, labels = blobs(60, 2, distance=0.6)
    given = np.where(np.arange(60) < 20, labels, -1)
    heavy = np.where(labels == 1, 20.0, 1.0)
    plain, more = (
        DAHGNNClassifier(**QUICK).fit(rows, given, sample_weight=weights) for weights in (None, heavy)
    )
    assert more.label_distributions_[:, 1].mean() > plain.label_distributions_[:, 1].mean()
    by_class = DAHGNNClassifier(**QUICK, class_weight={0: 1.0, 1: 20.0}).fit(rows, given)
    np.testing.assert_allclose(by_class.label_distributions_, more.label_distributions_, atol=1e-5)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        DAHGNNClassifier(**QUICK).fit(rows, given, sample_weight=-heavy)


@pytest.mark.parametrize("n_classes", [2, 30])
def test_two_and_many_classes(n_classes):
    rows, labels = blobs(12 * n_classes, n_classes, d=8)
    classifier = DAHGNNClassifier(**QUICK).fit(rows, hide(labels, 5))
    check_whole(classifier, rows)
    assert classifier.classes_.tolist() == list(range(n_classes))
    assert classifier.label_distributions_.shape == (12 * n_classes, n_classes)
    assert (classifier.transduction_ == labels).mean() > 0.95
    held = classifier.held_out_distributions_
    assert (held.argmax(1) == labels[classifier.held_out_indices_]).mean() > 0.9


def test_constant_columns_alone_tell_nothing():
    rows = np.tile([1.0, -7.0, 0.0], (40, 1))
    classifier = DAHGNNClassifier(**QUICK).fit(rows, np.where(np.arange(40) < 20, np.arange(40) % 2, -1))
    check_whole(classifier, rows)
    assert len(np.unique(classifier.label_distributions_, axis=0)) == 1


def test_more_columns_than_rows():
    generator = np.random.default_rng(0)
    rows, labels = blobs(45, d=200, distance=0.5)
    rows[:, 100:] = generator.normal(size=(45, 1))  # many of them the same
    classifier = DAHGNNClassifier(**QUICK).fit(rows, hide(labels, 6))
    check_whole(classifier, rows)
    assert (classifier.transduction_ == labels).mean() > 0.8


@pytest.mark.parametrize(("n_jobs", "threads"), [(None, None), (1, 1), (2, 2), (-1, 4), (-2, 3), (-9, 1)])
def test_threads_change_nothing_but_the_time(iris, fitted, monkeypatch, n_jobs, threads):
    features, labels = iris
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    wanted = []

    def watched(rows, count=None):
        wanted.append((rows, count))
        return threads_for(rows, count)

    monkeypatch.setattr("dahgnn.classifier.estimator.threads_for", watched)
    before = torch.get_num_threads()
    classifier = DAHGNNClassifier(**QUICK | {"networks": 5}, n_jobs=n_jobs).fit(features, hide(labels))
    classifier.predict(features[:3])
    assert wanted == [(150, threads), (3, threads)]
    assert torch.get_num_threads() == before
    np.testing.assert_allclose(classifier.label_distributions_, fitted.label_distributions_, atol=1e-3)


def test_epochs_are_counted_through_all_stages(iris):
    features, labels = iris
    told = []
    training = TrainingConfig(max_epochs=_FIRST + 12, learning_rate=0.001)
    classifier = DAHGNNClassifier(networks=2, training=training, random_state=0)
    classifier.fit(features, labels, callback=lambda network, epoch: told.append((network, epoch.epoch)))
    assert {network for network, _ in told} == {0, 1}
    assert max(epoch for _, epoch in told) == classifier.n_iter_
    assert classifier.n_iter_ > _FIRST


def test_the_estimate_knows_the_class_shares():
    generator = np.random.default_rng(3)
    labels = (np.arange(600) % 10 == 0).astype(int)
    rows = generator.normal(size=(600, 4)) + 1.2 * labels[:, None]
    known = np.concatenate([np.flatnonzero(labels == label)[:20] for label in (0, 1)])
    given = np.where(np.isin(np.arange(600), known), labels, -1)
    classifier = DAHGNNClassifier(**QUICK, class_prior=[0.9, 0.1]).fit(rows, given)
    right = (classifier.transduction_ == labels)[given < 0].mean()
    assert right > 0.85
    assert abs(classifier.estimate_.accuracy - right) < 0.12


def test_nothing_is_held_out_if_so_wanted(iris):
    features, labels = iris
    classifier = DAHGNNClassifier(**QUICK, validation=0).fit(features, hide(labels))
    assert len(classifier.held_out_indices_) == 0
    assert classifier.estimate_ is None
    assert set(classifier.combination_) == {"poisson", "linear"}


def test_copies_of_labelled_rows_do_not_tell_their_labels():
    generator = np.random.default_rng(0)
    labels, rows = generator.integers(0, 3, 200), generator.normal(size=(200, 8))
    given = np.where(np.arange(200) < 60, labels, -1)
    classifier = DAHGNNClassifier(**QUICK).fit(np.vstack([rows, rows[:60]]), np.r_[given, given[:60]])
    assert classifier.estimate_.accuracy < 0.6
    held = classifier.held_out_indices_
    np.testing.assert_array_equal(held[held < 200] + 200, held[held >= 200])  # with their copies


def test_tables_of_few_different_rows_are_not_judged_as_if_rows_had_no_copies():
    """Rows are one of twenty, and 80 % of each have its class: 78 % of the others are right, with luck 80."""
    generator = np.random.default_rng(0)
    kinds = generator.normal(size=(20, 6))
    own = generator.integers(0, 20, 600)
    labels = np.where(generator.random(600) < 0.8, own % 2, 1 - own % 2)
    given = np.where(np.arange(600) < 150, labels, -1)
    classifier = DAHGNNClassifier(**QUICK).fit(kinds[own], given)
    right = (classifier.transduction_ == labels)[150:].mean()
    assert right > 0.7
    assert abs(classifier.estimate_.accuracy - right) < 0.12


def test_classes_that_are_never_held_out_leave_the_accuracy_open():
    rows, labels = blobs(300, n_classes=6)
    given = np.full(300, -1)
    for label in range(6):
        given[np.flatnonzero(labels == label)[: 12 if label < 2 else 1]] = label
    classifier = DAHGNNClassifier(**QUICK).fit(rows, given)
    assert len(classifier.held_out_indices_) > 6
    assert classifier.estimate_ is None


def test_each_row_as_its_own_neighbour_is_refused(iris):
    with pytest.raises(ValueError, match="'neighbors' parameter of fit must be other rows"):
        DAHGNNClassifier(**QUICK).fit(iris[0], hide(iris[1]), neighbors=np.arange(150)[:, None])


def test_no_more_threads_than_cores_are_asked_for(iris):
    assert DAHGNNClassifier(**QUICK, n_jobs=10**9).fit(iris[0], hide(iris[1])).score(*iris) > 0.8


def test_codes_of_categories_get_a_column_each(coded, caplog):
    rows, labels = coded
    given = hide(labels, keep=5)
    with caplog.at_level(logging.INFO, logger="dahgnn"):
        found = DAHGNNClassifier(**QUICK, verbose=1).fit(rows, given)
    assert found.decision_.startswith("8 of 8 columns hold codes of categories (0, 1, 2, 3, 4, …)")
    assert found.decision_ in caplog.text
    plain = DAHGNNClassifier(**QUICK, scale="whole").fit(rows, given)
    assert plain.decision_.startswith("Columns have one scale; the 10 nearest neighbours by local scale")
    unknown = given < 0
    right, before = (np.mean(each.transduction_[unknown] == labels[unknown]) for each in (found, plain))
    assert right > before + 0.1
    np.testing.assert_array_equal(found.predict(rows), found.transduction_)
    other = DAHGNNClassifier(**QUICK, scale="categories").fit(rows, given)
    np.testing.assert_array_equal(other.label_distributions_, found.label_distributions_)


def test_other_numbers_for_the_same_categories_change_nothing(coded):
    """What the codes are is an accident; rows of unknown codes are predicted all the same."""
    rows, labels = coded
    given = hide(labels, keep=5)
    found = DAHGNNClassifier(**QUICK).fit(rows, given)
    again = DAHGNNClassifier(**QUICK).fit(2 * rows - 7, given)
    np.testing.assert_array_equal(again.label_distributions_, found.label_distributions_)
    new = rows[:20].copy()
    new[:, 0] = 99
    np.testing.assert_allclose(found.predict_proba(new).sum(1), 1)
    assert np.mean(found.predict(new) == labels[:20]) > 0.6


def test_surroundings_of_codes_are_those_of_a_fit(coded):
    rows, labels = coded
    given = hide(labels, keep=5)
    around = DAHGNNClassifier(**QUICK).surroundings(rows)
    found = DAHGNNClassifier(**QUICK).fit(rows, given)
    again = DAHGNNClassifier(**QUICK).fit(rows, given, neighbors=around)
    np.testing.assert_array_equal(again.label_distributions_, found.label_distributions_)


def test_categories_need_whole_numbers(coded):
    rows, labels = coded
    with pytest.raises(
        ValueError, match="2 to 30 different whole numbers where scale='categories'. Got none"
    ):
        DAHGNNClassifier(**QUICK, scale="categories").fit(rows / 7, labels)
