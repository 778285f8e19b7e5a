"""Decision trees as an expert: what scikit-learn's forest says, from arrays that a file can hold."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from dahgnn.classifier.experts import LabelledRows
from dahgnn.classifier.trees import TreesExpert, TreesModel


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = (generator.normal(size=(90, 4)) + labels[:, None] * [1, 0, 2, 0]).astype(np.float32)
    return LabelledRows(features, labels, 3, np.ones(90))


def make(rows):
    return TreesExpert().fit(rows, None)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_says_what_the_forest_says(rows, weighted):
    weights = np.random.default_rng(1).uniform(0.1, 3, 90) if weighted else np.ones(90)
    rows = LabelledRows(rows.features, rows.labels, 3, weights)
    forest = RandomForestClassifier(50, random_state=0).fit(rows.features, rows.labels, sample_weight=weights)
    new = np.random.default_rng(2).normal(size=(200, 4)) * 3
    np.testing.assert_allclose(make(rows).predict(new), forest.predict_proba(new), atol=1e-12)


def test_the_order_of_a_column_is_all_that_counts(rows):
    steep = LabelledRows(np.exp(3 * rows.features), rows.labels, 3, rows.weights)
    same = make(rows).predict(rows.features).argmax(1) == make(steep).predict(steep.features).argmax(1)
    assert same.mean() > 0.95


def test_a_model_comes_back_from_its_arrays(rows):
    model = make(rows)
    again = TreesExpert().from_arrays(model.as_arrays())
    assert np.array_equal(again.predict(rows.features), model.predict(rows.features))


@pytest.mark.parametrize("place", ["back", "self", "nowhere", "root"])
def test_trees_that_lead_back_or_nowhere_are_refused(rows, place):
    arrays = {name: values.copy() for name, values in make(rows).as_arrays().items()}
    inner = int(np.flatnonzero(arrays["columns"] >= 0)[1])
    if place == "root":
        arrays["roots"][0] = len(arrays["columns"])
    else:
        arrays["children"][inner, 1] = {"back": 0, "self": inner, "nowhere": 10**6}[place]
    with pytest.raises(ValueError, match="must"):
        TreesExpert().from_arrays(arrays)


def test_wide_rows_have_none():
    for columns, suits in ((100, True), (101, False)):
        rows = LabelledRows(np.zeros((4, columns)), np.array([0, 1, 0, 1]), 2, np.ones(4))
        assert TreesExpert().suits(rows) is suits


def test_a_single_leaf_is_a_tree():
    model = TreesModel(
        columns=np.array([-1]),
        thresholds=np.zeros(1),
        children=np.full((1, 2), -1),
        distributions=np.array([[0.25, 0.75]]),
        roots=np.array([0]),
    )
    np.testing.assert_allclose(model.predict(np.zeros((3, 2))), [[0.25, 0.75]] * 3)


def test_a_rare_class_is_not_lost_among_many_labels():
    labels = np.r_[np.zeros(3000, int), [1], np.full(3000, 2)]
    features = np.random.default_rng(0).normal(size=(6001, 2)) + labels[:, None]
    rows = LabelledRows(features, labels, 3, np.ones(6001))
    assert 1 in rows.sample(5000).labels
    assert make(rows).predict(features[:4]).shape == (4, 3)
    absent = LabelledRows(features[labels != 1], labels[labels != 1], 3, np.ones(6000))
    assert not make(absent).predict(features[:4])[:, 1].any()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("distributions", lambda values: -values),
        ("distributions", lambda values: 5 * values),
        ("roots", lambda values: values[:0]),
        ("roots", lambda values: values + 0.5),
        ("children", lambda values: np.hstack([values, values])),
        ("thresholds", lambda values: values[:-1]),
    ],
)
def test_arrays_that_are_no_trees_are_refused(rows, name, change):
    arrays = make(rows).as_arrays()
    with pytest.raises(ValueError, match="must"):
        TreesExpert().from_arrays(arrays | {name: change(arrays[name])})
