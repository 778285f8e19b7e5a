"""Labelled rows in folds: who sees which label."""

import numpy as np

from dahgnn.classifier.known import Known


def test_places_of_folds():
    known = Known(np.array([2, 5, 7, 11]), np.array([0, 1, 0, 1]), np.ones(4), 2, [np.array([5, 11])])
    assert known.seen().tolist() == [0, 1, 2, 3]
    assert known.seen(0).tolist() == [0, 2]
    assert [places.tolist() for places in known.held_places] == [[1, 3]]
    assert [part.tolist() for part in known.parts] == [[0, 2], [0, 1, 2, 3]]
    several = Known(known.rows, known.labels, known.weights, 2, [np.array([5]), np.array([5, 7])])
    assert [part.tolist() for part in several.parts] == [[0, 2, 3], [0, 3], [0, 1, 2, 3]]


def test_folds_that_judge_alone_are_in_no_part():
    known = Known(
        np.array([2, 5, 7, 11]), np.arange(4) % 2, np.ones(4), 2, [np.array([5]), np.array([7])], refit=False
    )
    assert known.seen().tolist() == known.seen(1).tolist() == [0, 3]
    assert [part.tolist() for part in known.parts] == [[0, 3]]


def test_given_rows_are_those_of_the_places():
    known = Known(np.array([2, 5, 7]), np.array([0, 1, 2]), np.array([1.0, 2.0, 3.0]), 3, [])
    nodes, values, weights = known.given(np.array([2, 0]))
    assert nodes.tolist() == [7, 2]
    assert values.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert weights.tolist() == [3, 1]
