"""From features and labels to an ensemble: neighbours, folds, and what is said of held-out rows."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from dahgnn import DAHGNNClassifier
from dahgnn.classifier import fitting
from dahgnn.classifier.fitting import (
    Fitter,
    GivenRows,
)
from dahgnn.classifier.opinions import Opinions
from dahgnn.classifier.plan import make_plan
from dahgnn.classifier.stacking import CANDIDATES, SECOND_CANDIDATES
from dahgnn.classifier.stages import _FIRST
from dahgnn.classifier.surroundings import find_surroundings
from dahgnn.classifier.workplace import Workplace
from dahgnn.config import PRESETS, ModelConfig, ResourceConfig
from dahgnn.graph.scaling import choose_scaling
from dahgnn.nn.model import DAHGNN
from dahgnn.threads import threads_for
from dahgnn.training.splits import Split

# One stage, so that nobody chooses among several.
QUICK = replace(PRESETS["default"].training, max_epochs=_FIRST)
SMALL = ModelConfig(hidden=8, heads=1, units=4, activation=True, shortcut=True)
CPU = torch.device("cpu")
HERE = Workplace(plan=make_plan(60, 4, 3, 5, ResourceConfig(), CPU))


def make_fitter(n=60, known=24, metric="local-scale", **changes):
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
        rows=rows,
    )
    surroundings = find_surroundings(given.features, 5, metric, None, HERE)
    given = replace(given, **changes)
    return Fitter(
        given=given, surroundings=surroundings, training=QUICK, device=CPU, merge_equal=True, workplace=HERE
    )


def run(fitter, held, listen=lambda *_: None):
    known = np.flatnonzero(fitter.given.labels.numpy() >= 0)
    splits = [Split(train=np.setdiff1d(known, each), validation=each, test=[]) for each in held]
    networks = [
        DAHGNN(5, 3, SMALL, generator=torch.Generator().manual_seed(seed)) for seed in range(len(held))
    ]
    return fitter.run(networks, splits, range(len(held)), listen)


@pytest.mark.parametrize("metric", ["local-scale", "euclidean"])
def test_nobody_says_the_same_twice(metric, monkeypatch):
    """By plain distance the chosen neighbours are the plain ones."""
    seen, learn = [], fitting.learn_stack

    def watched(candidates, *arguments):
        seen.extend(candidates)
        return learn(candidates, *arguments)

    monkeypatch.setattr(fitting, "learn_stack", watched)
    run(make_fitter(metric=metric), [[0, 1, 2], [3, 4, 5]])
    absent = {"around", "plain-poisson"} if metric == "euclidean" else {"around"}
    left_out = {each for each in CANDIDATES if each.expert in absent}
    assert seen == [each for each in (*CANDIDATES, *SECOND_CANDIDATES) if each not in left_out]


@pytest.mark.parametrize(("threads", "networks", "workers"), [(1, 2, 1), (2, 1, 1), (2, 3, 2), (4, 3, 3)])
def test_networks_train_in_as_many_threads_as_torch_has(threads, networks, workers, monkeypatch):
    seen, train = [], fitting.train_in_stages

    def watched(*arguments):
        seen.append(arguments[-1])
        return train(*arguments)

    monkeypatch.setattr(fitting, "train_in_stages", watched)
    with threads_for(0, threads):
        run(make_fitter(), [[0, 1, 2], [3, 4, 5], [6, 7, 8]][:networks])
    assert seen == [workers]


def test_folds_are_the_rows_that_networks_have_not_seen():
    fitter = make_fitter()
    held = [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    splits = [Split(train=np.setdiff1d(np.arange(24), each), validation=each, test=[]) for each in held]
    known, by_fold = fitter._known(splits, 3)
    assert [fold.tolist() for fold in known.folds] == [[0, 1, 2], [3, 4, 5]]
    assert by_fold == [[0, 2], [1]]
    assert known.rows.tolist() == list(range(24))
    assert known.weights.tolist() == [1.0] * 24
    # After an interruption there are fewer networks, and fewer folds.
    known, by_fold = fitter._known(splits[:1], 3)
    assert [fold.tolist() for fold in known.folds] == [[0, 1, 2]]
    assert by_fold == [[0]]


@contextlib.contextmanager
def slowly_beside(_, work):
    """Stands for a GPU's second thread, in which the experts take longer than the networks."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(lambda: (time.sleep(0.3), work())[1]).result


@pytest.mark.parametrize("pressed", [False, True])
def test_experts_beside_the_networks_say_the_same_and_nobody_asks_twice_at_a_time(pressed, monkeypatch):
    asked, under_way = [], threading.Lock()

    class Watched(Opinions):
        def __init__(self, features, known, **others):
            assert under_way.acquire(blocking=False)
            asked.append(len(known.folds))
            super().__init__(features, known, **others)
            under_way.release()

    def listen(number, _):
        if pressed and number == 1:
            raise KeyboardInterrupt

    held = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    monkeypatch.setattr(fitting, "Opinions", Watched)
    with threads_for(0, 1):  # so that the networks train in turn, and Ctrl-C comes at the same place
        in_turn = run(make_fitter(), held, listen)
        monkeypatch.setattr(fitting, "beside", slowly_beside)
        at_once = run(make_fitter(), held, listen)
    kept = len(in_turn.ensemble.networks)
    assert asked == ([kept, 3, kept] if pressed else [3, 3])
    assert (kept < 3) is pressed
    for fit in (in_turn, at_once):
        assert (len(fit.ensemble.networks), fit.interrupted) == (kept, pressed)
    first, second = (fit.ensemble.fitted.distributions for fit in (in_turn, at_once))
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.parametrize(("rows", "taken"), [(60, True), (59, False)])
def test_experts_learn_beside_the_networks_where_rows_are_few(rows, taken, monkeypatch):
    seen, beside = [], fitting.beside
    monkeypatch.setattr(fitting, "beside", lambda *given: seen.append(given) or beside(*given))
    monkeypatch.setattr(fitting, "_MOST_ROWS_BESIDE", rows)
    run(make_fitter(), [[0, 1, 2]])
    assert bool(seen) is taken


def test_a_network_that_has_seen_all_labels_makes_no_fold():
    fitter = make_fitter()
    splits = [
        Split(train=range(24), validation=[], test=[]),
        Split(train=range(3, 24), validation=[0, 1, 2], test=[]),
    ]
    known, by_fold = fitter._known(splits[:2], 3)
    assert [fold.tolist() for fold in known.folds] == [[0, 1, 2]]
    assert by_fold == [[1]]


def test_weights_count_by_their_proportions():
    held, weights = [[0, 1, 2], [3, 4, 5]], np.linspace(0.5, 2, 60)
    plain, heavy, rounded = (
        run(make_fitter(weights=weights * factor), held).ensemble for factor in (1.0, 2.0**20, 1e6)
    )
    # A power of two rounds nothing. Trees take either of two equally good splits for the last bit of a weight.
    np.testing.assert_allclose(plain.fitted.distributions, heavy.fitted.distributions, atol=1e-6)
    np.testing.assert_allclose(plain.fitted.embedding, rounded.fitted.embedding, atol=1e-4)
    linear = [each.combined.models["linear"].predict(each.features[:, :-1]) for each in (plain, rounded)]
    np.testing.assert_allclose(*linear, atol=1e-4)
    unlike = run(make_fitter(weights=weights[::-1].copy()), held).ensemble
    assert not np.allclose(plain.fitted.embedding, unlike.fitted.embedding, atol=1e-2)


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
    assert found.epochs == QUICK.max_epochs
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
