"""Decision trees as an expert: what scikit-learn's forest says, from arrays that a file can hold."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from dahgnn.classifier import trees
from dahgnn.classifier.experts import LabelledRows
from dahgnn.classifier.trees import TreesExpert, TreesModel


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = (generator.normal(size=(90, 4)) + labels[:, None] * [1, 0, 2, 0]).astype(np.float32)
    return LabelledRows(torch.from_numpy(features), labels, 3, np.ones(90))


def make(rows, parts=None):
    return TreesExpert().fit(rows, [np.arange(len(rows))] if parts is None else parts, None)


def forest_of(rows, part):
    """What scikit-learn grows from a part of the rows, by the variance of the classes' indicators."""
    forest = ExtraTreesRegressor(50, max_features="sqrt", random_state=0)
    return forest.fit(rows.features[part].numpy(), rows.targets[part], sample_weight=rows.weights[part])


PARTS = [np.arange(30, 90), np.flatnonzero(np.arange(90) % 4 > 0), np.arange(90)]


@pytest.mark.parametrize("weighted", [False, True])
def test_it_says_what_the_forest_says(rows, weighted):
    weights = np.random.default_rng(1).uniform(0.1, 3, 90) if weighted else np.ones(90)
    rows = LabelledRows(rows.features, rows.labels, 3, weights)
    found = make(rows, PARTS)
    assert found.roots.shape == (3, 50)
    new = torch.tensor(np.random.default_rng(2).normal(size=(200, 4)) * 3, dtype=torch.float32)
    said = found.predict(new)
    assert said.dtype == torch.float32
    for number, part in enumerate(PARTS):
        expected = forest_of(rows, part).predict(new.numpy())
        np.testing.assert_allclose(said[:, number], expected, rtol=1e-6, atol=1e-7)
        exact = found.predict(new.double())[:, number]  # the same numbers, in more digits
        np.testing.assert_allclose(exact, expected, atol=1e-12)


def test_it_is_a_forest_by_gini_impurity_up_to_ties(rows):
    # Rounding decides among splits of the same impurity, so that trees differ, and what they say hardly does.
    new = torch.tensor(np.random.default_rng(2).normal(size=(200, 4)) * 3, dtype=torch.float32)
    forest = ExtraTreesClassifier(50, random_state=0).fit(rows.features.numpy(), rows.labels)
    difference = np.abs(make(rows).predict(new)[:, 0].numpy() - forest.predict_proba(new.numpy()))
    assert difference.mean() < 0.02
    assert np.median(difference) < 1e-6


def test_the_last_part_stands_alone(rows):
    model = make(rows, PARTS[::-1])
    last = model.last()
    alone = make(rows, PARTS[:1])
    for name, values in alone.as_arrays().items():
        np.testing.assert_array_equal(last.as_arrays()[name], values)
    assert torch.equal(last.predict(rows.features)[:, 0], model.predict(rows.features)[:, 2])
    assert len(last.columns) < len(model.columns)


def test_the_order_of_a_column_is_all_that_counts(rows):
    steep = LabelledRows(torch.exp(3 * rows.features), rows.labels, 3, rows.weights)
    same = make(rows).predict(rows.features).argmax(2) == make(steep).predict(steep.features).argmax(2)
    assert same.double().mean() > 0.95


def test_a_model_comes_back_from_its_arrays(rows):
    model = make(rows, PARTS)
    for each in (model, model.last()):
        again = TreesExpert().from_arrays({name: values.copy() for name, values in each.as_arrays().items()})
        assert torch.equal(again.predict(rows.features), each.predict(rows.features))


@pytest.mark.parametrize("place", ["back", "self", "nowhere", "root"])
def test_trees_that_lead_back_or_nowhere_are_refused(rows, place):
    arrays = {name: values.copy() for name, values in make(rows).as_arrays().items()}
    inner = int(np.flatnonzero(arrays["columns"] >= 0)[1])
    if place == "root":
        arrays["roots"][0, 1] = len(arrays["columns"])
    else:
        arrays["children"][inner, 1] = {"back": 0, "self": inner, "nowhere": 10**6}[place]
    with pytest.raises(ValueError, match="must"):
        TreesExpert().from_arrays(arrays)


def test_rows_of_fewer_columns_are_refused(rows):
    with pytest.raises(ValueError, match="of 4 columns or more"):
        make(rows).predict(rows.features[:, :2])


def test_wide_rows_have_none():
    for columns, suits in ((100, True), (101, False)):
        rows = LabelledRows(torch.zeros(4, columns), np.array([0, 1, 0, 1]), 2, np.ones(4))
        assert TreesExpert().suits(rows) is suits


def test_a_single_leaf_is_a_tree():
    model = TreesModel(
        columns=np.array([-1]),
        thresholds=np.zeros(1),
        children=np.full((1, 2), -1),
        distributions=np.array([[0.25, 0.75]]),
        roots=np.array([[0, 0]]),
    )
    np.testing.assert_allclose(model.predict(torch.zeros(3, 2)), [[[0.25, 0.75]]] * 3)


def test_a_tree_by_hand():
    model = TreesModel(
        columns=np.array([1, -1, -1, -1]),
        thresholds=np.array([0.5, 0, 0, 0]),
        children=np.array([[1, 2], [-1, -1], [-1, -1], [-1, -1]]),
        distributions=np.array([[0.5, 0.5], [1, 0], [0, 1], [0.25, 0.75]]),
        roots=np.array([[0, 3], [3, 3]]),
    )
    said = model.predict(torch.tensor([[9.0, 0.5], [0.0, 0.6]]))
    np.testing.assert_allclose(said[:, 0], [[0.625, 0.375], [0.125, 0.875]])
    np.testing.assert_allclose(said[:, 1], [[0.25, 0.75]] * 2)


def test_a_rare_class_is_not_lost_among_many_labels(monkeypatch):
    monkeypatch.setattr(trees, "_MOST_ROWS", 500)
    labels = np.r_[np.zeros(300, int), [1], np.full(300, 2)]
    features = torch.tensor(np.random.default_rng(0).normal(size=(601, 2)) + labels[:, None]).float()
    rows = LabelledRows(features, labels, 3, np.ones(601))
    assert 300 in rows.sample(500)
    said = make(rows, [np.arange(601), np.flatnonzero(labels != 1)]).predict(features)
    assert said.shape == (601, 2, 3)
    assert said[300, 0, 1] > 0.5
    assert not said[:, 1, 1].any()
    np.testing.assert_allclose(said.sum(2), 1, rtol=1e-6)


def test_trees_grow_from_so_many_rows_at_the_most(rows, monkeypatch):
    monkeypatch.setattr(trees, "_MOST_ROWS", 30)
    found = make(rows, PARTS).predict(rows.features)
    for number, part in enumerate(PARTS):
        some = np.intersect1d(part, rows.sample(30))
        assert len(some) < len(part)
        expected = forest_of(rows, some).predict(rows.features.numpy())
        np.testing.assert_allclose(found[:, number], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("distributions", lambda values: -values),
        ("distributions", lambda values: 5 * values),
        ("roots", lambda values: values[:0]),
        ("roots", lambda values: values[0]),
        ("roots", lambda values: values + 0.5),
        ("children", lambda values: np.hstack([values, values])),
        ("thresholds", lambda values: values[:-1]),
    ],
)
def test_arrays_that_are_no_trees_are_refused(rows, name, change):
    arrays = make(rows).as_arrays()
    with pytest.raises(ValueError, match="must"):
        TreesExpert().from_arrays(arrays | {name: change(arrays[name])})
