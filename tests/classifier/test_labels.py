"""Labels of any type."""

import numpy as np
import pytest

from dahgnn.classifier.labels import encode_labels, hold_out, known_labels


@pytest.mark.parametrize(
    ("y", "values", "known"),
    [
        ([0, -1, 2], [0, 2], [True, False, True]),
        ([0.0, float("nan"), 2.0, -1.0], [0.0, 2.0], [True, False, True, False]),
        (["a", None, "b"], ["a", "b"], [True, False, True]),
        (["a", float("nan"), ""], ["a", ""], [True, False, True]),
        ([1, None, -1, 3], [1, 3], [True, False, False, True]),
        ([True, None, False], [True, False], [True, False, True]),
        ([True, False], [True, False], [True, True]),
        (["-1", "1"], ["-1", "1"], [True, True]),
    ],
)
def test_what_is_known(y, values, known):
    got = known_labels(y)
    assert got[0].tolist() == values
    assert got[1].tolist() == known


def test_pandas_has_a_missing_of_its_own():
    pandas = pytest.importorskip("pandas")
    values, known = known_labels(pandas.Series(["a", pandas.NA, "b"], dtype="string"))
    assert values.tolist() == ["a", "b"]
    assert known.tolist() == [True, False, True]


def test_a_share_of_each_class_is_held_out():
    encoded = np.array([0] * 10 + [1] * 2 + [2] + [-1] * 5)
    (held,) = hold_out(encoded, 0.3, 1, np.random.RandomState(0))
    assert np.bincount(encoded[held], minlength=3).tolist() == [3, 1, 0]
    assert held.tolist() == sorted(held)
    (all_but_one,) = hold_out(encoded, 1.0, 1, np.random.RandomState(0))
    assert np.bincount(encoded[all_but_one], minlength=3).tolist() == [9, 1, 0]


def test_another_share_is_held_out_each_time():
    encoded = np.array([0] * 10 + [1] * 2 + [2] + [-1] * 5)
    parts = hold_out(encoded, 0.2, 5, np.random.RandomState(0))
    assert sorted(row for part in parts for row in part if encoded[row] == 0) == list(range(10))
    assert sorted(np.bincount(np.concatenate(parts))[10:12].tolist()) == [2, 3]  # one of two, in turn
    assert all(np.bincount(encoded[part], minlength=3).tolist() == [2, 1, 0] for part in parts)


@pytest.mark.parametrize("n", [5, 6, 7, 8, 11, 12, 13, 99])
def test_five_fifths_are_every_row_once(n):
    parts = hold_out(np.zeros(n, dtype=int), 0.2, 5, np.random.RandomState(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert {len(part) for part in parts} <= {n // 5, n // 5 + 1}


def test_words_that_numpy_cannot_tell_apart_are_refused():
    with pytest.raises(ValueError, match="words without the character NUL"):
        known_labels(["a", "a\0", "b"])


def test_one_class_says_what_unlabelled_is():
    with pytest.raises(ValueError, match="Got 1 class. Unlabelled is -1 among numbers, and None or NaN."):
        encode_labels([-1, 1, 1], 3)


def test_a_time_that_is_none_is_unlabelled():
    days = np.array(["2026-01-01", "NaT", "2026-01-02", "NaT"], dtype="datetime64[D]")
    classes, encoded = encode_labels(days, 4)
    assert len(classes) == 2
    assert encoded.tolist() == [0, -1, 1, -1]
    pandas = pytest.importorskip("pandas")
    assert encode_labels(np.array(["a", pandas.NaT, "b"], dtype=object), 3)[1].tolist() == [0, -1, 1]
