import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from dahgnn import DAHGNNClassifier
from dahgnn.graph.scaling import choose_scaling
from dahgnn.report.assessment import BASELINES, _cross_validate, _shorten, assess, held_out_opinions


def judged(features, held, said, factors=None):
    """What `assess` reads of a fitted classifier."""
    scaling = choose_scaling(features, "auto")
    return SimpleNamespace(
        held_out_indices_=np.array(held, dtype=np.int64),
        held_out_distributions_=np.array(said, dtype=float),
        ensemble_=SimpleNamespace(
            scaling=scaling,
            features=scaling.apply(np.asarray(features)),
            combined=SimpleNamespace(factors=factors),
        ),
    )


def test_counts_shares_and_doubts_are_those_of_the_held_out_labels():
    labels = np.array(["a", "a", "a", "b", "b", "c", None, "a"], dtype=object)
    said = [
        [0.8, 0.1, 0.1],  # a, and called so
        [0.1, 0.9, 0.0],  # a, but b is likely: 0.1 is under a quarter of a's share, 4 / 7
        [0.2, 0.45, 0.35],  # a, but b a little: nothing to doubt
        [0.1, 0.8, 0.1],
        [0.97, 0.03, 0.0],  # b, but a is likelier still
    ]
    features = np.arange(16.0).reshape(8, 2)
    found = assess(judged(features, [0, 1, 2, 3, 4], said), features, labels)
    assert found.classes == ("a", "b", "c")
    assert found.given == (4, 2, 1)
    assert found.confusion == ((1, 2, 0), (1, 1, 0), (0, 0, 0))
    assert found.recall == (1 / 3, 1 / 2, None)
    assert found.precision == (1 / 2, 1 / 3, None)
    assert found.accuracy == 2 / 5
    assert [(each.row, each.given, each.opinion) for each in found.doubtful] == [(4, "b", "a"), (1, "a", "b")]
    assert found.doubtful[0].probability == 0.97
    assert found.doubtful[0].given_probability == 0.03
    assert found.baselines == dict.fromkeys(BASELINES)  # five labels are too few
    written = json.loads(json.dumps(found.as_dict([f"r{row}" for row in range(8)])))
    assert written["doubtful_count"] == 2
    assert written["doubtful"][0]["id"] == "r4"
    assert written["confusion"][0] == [1, 2, 0]


def test_an_opinion_no_rarer_than_usual_is_no_doubt():
    # Features that tell nothing: each row gets the shares of the classes, and no label is to be doubted.
    labels = np.array(["a"] * 9 + ["b"], dtype=object)
    features = np.arange(10.0)[:, None]
    found = assess(judged(features, list(range(10)), [[0.9, 0.1]] * 10), features, labels)
    assert found.confusion == ((9, 0), (1, 0))
    assert found.doubtful == ()


def test_known_shares_of_all_rows_are_taken_out_for_the_labels():
    # With b ten times as common as its labels, all rows are called b; by the labels alone, two are right.
    labels = np.array(["a", "b"], dtype=object)
    features = np.arange(2.0)[:, None]
    classifier = judged(features, [0, 1], [[2 / 7, 5 / 7], [1 / 41, 40 / 41]], np.array([0.1, 1.0]))
    np.testing.assert_allclose(held_out_opinions(classifier), [[0.8, 0.2], [0.2, 0.8]])
    found = assess(classifier, features, labels)
    assert found.confusion == ((1, 0), (0, 1))
    assert found.doubtful == ()


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    truth = np.arange(120) % 3
    features = 2.5 * np.eye(3)[truth] @ generator.normal(size=(3, 5)) + generator.normal(size=(120, 5))
    labels = np.array([str(label) for label in truth], dtype=object)
    labels[60:] = None
    return features, labels


def test_baselines_are_judged_by_labels_that_they_have_not_seen(table):
    features, labels = table
    noise = np.random.default_rng(1).normal(size=features.shape)
    held = list(range(60))
    found = assess(judged(noise, held, np.eye(3)[np.zeros(60, int)]), noise, labels)
    # A nearest neighbour that had seen a label would know it.
    assert all(found.baselines[name] < 0.6 for name in BASELINES)
    found = assess(judged(features, held, np.eye(3)[np.zeros(60, int)]), features, labels)
    assert found.baselines["majority"] == pytest.approx(1 / 3)
    assert found.baselines["logistic_regression"] > 0.8
    assert found.baselines["nearest_neighbours"] > 0.8
    assert found.baseline_labels == 60


def test_a_fold_is_what_scikit_learn_says_of_it(table):
    rows = table[0][:60]
    labels = np.arange(60) % 3
    train, test = np.arange(40), np.arange(40, 60)
    models = {"nearest_neighbours": KNeighborsClassifier(5), "logistic_regression": LogisticRegression()}
    for name, model in models.items():
        expected = model.fit(rows[train], labels[train]).predict_proba(rows[test])
        said = _cross_validate(name, rows, labels, [(train, test)])
        np.testing.assert_allclose(said[test], expected, atol=0.02)
        assert not said[train].any()


def test_wide_rows_keep_their_products():
    rows = np.random.default_rng(0).normal(size=(7, 30))
    short = _shorten(rows)
    assert short.shape == (7, 7)
    np.testing.assert_allclose(short @ short.T, rows @ rows.T, atol=1e-10)
    np.testing.assert_array_equal(_shorten(rows.T), rows.T)


def test_a_wrong_label_of_a_real_fit_is_doubted(table):
    features, labels = table
    generator = np.random.default_rng(3)
    centres = 12 * np.eye(3)[np.arange(120) % 3] @ generator.normal(size=(3, 5))
    features = centres + generator.normal(size=(120, 5))
    wrong = labels.copy()
    wrong[4] = "2"  # it is 1
    classifier = DAHGNNClassifier(random_state=0).fit(features, wrong)
    found = assess(classifier, features, wrong)
    assert sum(map(sum, found.confusion)) == len(classifier.held_out_indices_) == 60
    assert [(label.row, label.opinion) for label in found.doubtful] == [(4, "1")]
    assert found.accuracy == pytest.approx(59 / 60)


def test_without_held_out_labels_nothing_is_known(table):
    features, labels = table
    found = assess(judged(features, [], np.empty((0, 3))), features, labels)
    assert found.accuracy is None
    assert found.recall == found.precision == (None, None, None)
    assert found.baselines == dict.fromkeys(BASELINES)


def test_of_many_labels_baselines_learn_from_some(monkeypatch, table):
    monkeypatch.setattr("dahgnn.report.assessment._MOST_LABELS", 30)
    features, labels = table
    found = assess(judged(features, list(range(60)), np.eye(3)[np.zeros(60, int)]), features, labels)
    assert found.baseline_labels == 30
    assert found.baselines["logistic_regression"] > 0.6
    assert sum(map(sum, found.confusion)) == 60
