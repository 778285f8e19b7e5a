"""Labels of any type."""

import datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction

import numpy as np
import pytest

from dahgnn.classifier.labels import (
    encode_labels,
    hold_out,
    join_copies,
    known_labels,
    number_labels,
    weigh_rows,
)


class Colour(Enum):
    RED = "r"
    GREEN = "g"
    BLUE = "b"


class Size(IntEnum):
    UNKNOWN = -1
    SMALL = 3
    LARGE = 1


class Word(StrEnum):
    YES = "yes"
    NO = "no"


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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("Int64", [7, 2, 7]),
        ("UInt8", [7, 2, 7]),
        ("boolean", [True, False, True]),
        ("string", ["b", "a", "b"]),
        ("category", [7, 2, 7]),
        ("category", ["b", "a", "b"]),
        ("category", [True, False, True]),
        ("Float64", [7.0, 2.0, 7.0]),
    ],
)
def test_types_of_pandas_come_back_as_they_are(dtype, values):
    pandas = pytest.importorskip("pandas")
    whole = pandas.Series(values).astype(dtype)
    gap = whole.reindex([0, 5, 1, 2])
    assert gap.dtype == dtype
    for series in (whole, gap, gap.to_frame()):
        classes, encoded = encode_labels(series, len(series))
        assert classes.tolist() == sorted(set(values))
        assert {type(label) for label in classes.tolist()} == {type(values[0])}
        assert encoded.tolist() == ([1, 0, 1] if series is whole else [1, -1, 0, 1])


@pytest.mark.parametrize(
    ("y", "classes", "encoded"),
    [
        (
            [Fraction(1, 2), None, Fraction(1, 3), Fraction(-1)],
            [Fraction(1, 3), Fraction(1, 2)],
            [1, -1, 0, -1],
        ),
        ([Fraction(1, 2), 1, Fraction(2, 2), -1], [Fraction(1, 2), 1], [0, 1, 1, -1]),
        (
            [Decimal("0.1"), Decimal("NaN"), Decimal("0.10"), Decimal(-1), Decimal("0.2")],
            [Decimal("0.1"), Decimal("0.2")],
            [0, -1, 0, -1, 1],
        ),
        ([Colour.BLUE, None, Colour.RED, float("nan")], [Colour.RED, Colour.BLUE], [1, -1, 0, -1]),
        ([Size.SMALL, Size.UNKNOWN, Size.LARGE], [Size.LARGE, Size.SMALL], [1, -1, 0]),
        ([Word.YES, None, Word.NO], [Word.NO, Word.YES], [1, -1, 0]),
        (
            [datetime.date(2026, 1, 2), None, datetime.date(2026, 1, 1)],
            [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)],
            [1, -1, 0],
        ),
        ([2**80, -1, 2**80 + 1, -5], [-5, 2**80, 2**80 + 1], [1, -1, 2, 0]),
        ([2**63, -1, 2**63 + 1, -5], [-5, 2**63, 2**63 + 1], [1, -1, 2, 0]),  # not rounded
    ],
)
def test_labels_of_any_type_stay_what_they_are(y, classes, encoded):
    for given in (y, np.array([*y, None], dtype=object)[:-1]):
        found, numbers = encode_labels(given, len(y))
        assert found.tolist() == classes
        assert [type(label) for label in found.tolist()] == [type(label) for label in classes]
        assert numbers.tolist() == encoded


def test_labels_that_cannot_be_classes_are_refused():
    with pytest.raises(TypeError, match="labels that have a hash"):
        encode_labels(np.array([{}, {}, None], dtype=object), 3)
    with pytest.raises(TypeError, match="labels of one type. Got Fraction, str"):
        encode_labels([Fraction(1, 2), "1/2"], 2)
    with pytest.raises(ValueError, match="infinity"):
        encode_labels([Decimal("Infinity"), Decimal(1)], 2)


@pytest.mark.parametrize("classes", [["a", "c"], [1, 4], [Colour.RED, Colour.BLUE]])
def test_labels_that_are_in_no_class_have_no_number(classes):
    other = {"a": "b", 1: 9, Colour.RED: Colour.GREEN}[classes[0]]
    labels = np.array([classes[1], other, classes[0]])
    assert number_labels(labels, np.array(classes)).tolist() == [1, -1, 0]


def test_classes_of_any_type_have_weights():
    classes, encoded = encode_labels([Colour.RED, Colour.BLUE, Colour.BLUE, Colour.BLUE, None], 5)
    balanced = weigh_rows(None, "balanced", classes, encoded)
    np.testing.assert_allclose(balanced, [1, 1 / 3, 1 / 3, 1 / 3, 1])
    given = weigh_rows(None, {Colour.BLUE: 3, Colour.RED: 5}, classes, encoded)
    np.testing.assert_allclose(given, [1, 0.6, 0.6, 0.6, 1])
    with pytest.raises(ValueError, match="of classes that occur. Got <Colour.GREEN: 'g'>"):
        weigh_rows(None, {Colour.GREEN: 3}, classes, encoded)


@pytest.mark.parametrize("factor", [5e-324, 1e-300, 1.0, 1e308])
def test_weights_have_no_unit(factor):
    classes, encoded = encode_labels([0, 1, 1, 0, -1], 5)
    weights = weigh_rows(
        np.array([1.0, 0.5, 1.0, 0.0, 1.0]) * factor, {0: 1e-300, 1: 4e-300}, classes, encoded
    )
    halved = 0.0 if factor == 5e-324 else 0.5  # it has no half
    np.testing.assert_allclose(weights[:3], [0.25, halved, 1.0])
    assert encoded.tolist() == [0, 1 if halved else -1, 1, -1, -1]


def test_rows_that_hardly_count_lose_their_labels():
    classes, encoded = encode_labels([0, 1, 1, 0], 4)
    weigh_rows([1.0, 1e-29, 1e-31, 1e-300], None, classes, encoded)
    assert encoded.tolist() == [0, 1, -1, -1]
    with pytest.raises(
        ValueError, match="'sample_weight' .* at least 1e-30 of the largest. Got none such of 1"
    ):
        weigh_rows([1.0, 1e-31, 1e-31, 1.0], None, *encode_labels([0, 1, 1, 0], 4))
    with pytest.raises(
        ValueError, match="'class_weight' .* at least 1e-30 of the largest. Got none such of 0"
    ):
        weigh_rows(None, {0: 1, 1: 1e300}, *encode_labels([0, 1, 1, 0], 4))


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
def test_weights_of_classes_that_are_none_are_refused(wrong):
    with pytest.raises(
        ValueError, match=f"'class_weight' .* must be positive and finite. Got {float(wrong)} for b"
    ):
        weigh_rows(None, {"a": 1, "b": wrong}, *encode_labels(["a", "b"], 2))


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


def test_rows_that_only_labelled_ones_repeat_are_held_out_together():
    groups = np.r_[0, 1, 0, 1, 2, 2, 3:50]
    encoded = np.full(len(groups), -1)
    encoded[:7] = [0, 1, 0, 1, 1, 0, 0]
    numbers = join_copies(groups, encoded)
    assert numbers[2] == numbers[0]
    assert numbers[3] == numbers[1]
    assert numbers[4] != numbers[5]  # of two classes: neither tells the other's label
    assert len(np.unique(numbers)) == len(groups) - 2


def test_copies_that_all_rows_have_as_often_are_held_out_one_by_one():
    generator = np.random.default_rng(0)
    groups = generator.integers(0, 20, 400)
    encoded = np.where(np.arange(400) < 60, groups % 2, -1)
    assert len(np.unique(join_copies(groups, encoded))) == 400
    everybody = join_copies(groups, groups % 2)  # nobody without a label can tell how common copies are
    assert len(np.unique(everybody)) == 20


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


@pytest.mark.parametrize("word", ["", "-1", "nan", "None"])
@pytest.mark.parametrize("kind", [str, object])
def test_a_word_that_looks_like_no_label_is_a_class_with_a_warning(word, kind):
    labels = np.array(["cat", "dog", word, word], dtype=kind)
    with pytest.warns(UserWarning, match=f"^2 rows have the label {word!r}, which is taken for a class"):
        classes, numbers = encode_labels(labels, 4)
    assert sorted(classes) == sorted(["cat", "dog", word])
    assert (numbers >= 0).all()
