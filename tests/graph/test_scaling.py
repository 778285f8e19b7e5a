"""Scales of tables."""

import numpy as np
import pytest
import torch

from dahgnn.files.scratch import Scratch
from dahgnn.graph import scaling
from dahgnn.graph.scaling import choose_scaling, counts_words
from dahgnn.threads import threads_for


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    return (generator.normal(size=(200, 3)) * [1, 10, 100] + [5, 0, -7]).astype(np.float32)


@pytest.mark.parametrize("kind", ["columns", "whole"])
def test_rows_get_mean_zero_and_one_length(rows, kind):
    scaled = choose_scaling(rows, kind).apply(rows).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    assert np.mean(np.sum(scaled**2, 1)) == pytest.approx(9, rel=1e-4)


def test_columns_get_one_deviation(rows):
    scaled = choose_scaling(rows, "columns").apply(rows).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.std(0), 3**0.5, rtol=1e-5)


def test_the_whole_keeps_the_shape(rows):
    scaled = choose_scaling(rows, "whole").apply(rows).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.std(0) / scaled.std(0)[0], rows.std(0) / rows.std(0)[0], rtol=1e-4)


def test_ones_come_last(rows):
    scaled = choose_scaling(rows, "columns").apply(rows)
    assert scaled.shape == (200, 4)
    assert (scaled[:, -1] == 1).all()


def test_none_is_none(rows):
    assert np.array_equal(choose_scaling(rows, "none").apply(rows).numpy()[:, :-1], rows)


def test_auto_takes_columns_where_units_differ(rows):
    """One column has nearly all of the variance of these, and of others each has its share."""
    wide = np.concatenate([rows, rows[:, :2], rows[:, :2]], 1)
    scaled = choose_scaling(wide, "auto").apply(wide).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.std(0), 3 / 7**0.5, rtol=1e-5)
    alike = np.random.default_rng(0).normal(size=(200, 7)).astype(np.float32) * [1, 2, 1, 2, 1, 2, 1]
    scaled = choose_scaling(alike, "auto").apply(alike).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.std(0) / scaled.std(0)[0], alike.std(0) / alike.std(0)[0], rtol=1e-5)


def test_a_constant_column_stays_out_of_the_way(rows):
    wider = np.concatenate([rows, np.full((200, 1), 0.1, dtype=np.float32)], 1)
    scaled = choose_scaling(wider, "columns").apply(wider).numpy()[:, :-1]
    assert np.abs(scaled[:, 3]).max() == 0
    new = wider[:1].copy()
    new[0, 3] = 1e6  # nothing is known of how such a column varies
    assert choose_scaling(wider, "columns").apply(new)[0, 3] == 0
    constant = np.full((10, 2), 3.0, dtype=np.float32)
    for kind in ("columns", "whole"):
        assert torch.isfinite(choose_scaling(constant, kind).apply(constant)).all()


@pytest.mark.parametrize("kind", ["auto", "columns", "whole"])
@pytest.mark.parametrize("power", [-1000, -500, 100])
def test_the_size_of_the_numbers_does_not_matter(rows, kind, power):
    """By powers of two nothing is rounded, so that the scaled rows are the same bit by bit."""
    wide = rows.astype(np.float64)
    scaled = choose_scaling(np.ldexp(wide, power), kind).apply(np.ldexp(wide, power))
    assert torch.equal(scaled, choose_scaling(wide, kind).apply(wide))


def test_tiny_columns_stand_beside_others(rows):
    mixed = rows * np.array([1e-300, 1, 1e30])
    scaled = choose_scaling(mixed, "columns").apply(mixed)
    torch.testing.assert_close(scaled, choose_scaling(rows, "columns").apply(rows))


def test_a_column_of_rests_alone_is_constant(rows):
    """What is left where numbers have run out of digits tells nothing, and its factor would be infinite."""
    wide = np.concatenate([rows, np.where(np.arange(200) % 2, 1e-320, 0.0)[:, None]], 1)
    scaled = choose_scaling(wide, "columns").apply(wide)
    assert (scaled[:, 3] == 0).all()
    assert torch.isfinite(scaled).all()


def test_tiny_numbers_without_a_scale_are_refused(rows):
    with pytest.raises(ValueError, match=r"Got .*e-2\d at most. Take scale='auto'."):
        choose_scaling(rows * 1e-25, "none")
    for kind in ("columns", "whole"):
        with pytest.raises(ValueError, match=r"of larger numbers. Got .*e-3\d\d at most. Multiply it"):
            choose_scaling(rows.astype(np.float64) * 1e-315, kind)
    nothing = np.zeros((3, 2))
    assert (choose_scaling(nothing, "none").apply(nothing)[:, :-1] == 0).all()


def test_a_wrong_word_is_named(rows):
    with pytest.raises(ValueError, match="'scale' parameter"):
        choose_scaling(rows, "rows")


WORDS = np.array([[2, 0, 1, 0], [0, 0, 3, 0], [1, 1, 1, 0], [0, 0, 0, 0]], dtype=float)


def test_words_count_by_how_rare_they_are():
    """As scikit-learn's TfidfTransformer has it, then of mean zero and one length in the mean."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    expected = text.TfidfTransformer().fit_transform(WORDS).toarray()
    expected -= expected.mean(0)
    expected *= 3 / np.sqrt((expected**2).sum(1).mean())
    scaling = choose_scaling(WORDS, "words")
    np.testing.assert_allclose(scaling.apply(WORDS).numpy()[:, :-1], expected, atol=1e-6)


def test_new_rows_of_words_get_the_weights_of_the_old_ones():
    scaling = choose_scaling(WORDS, "words")
    longer, old = scaling.apply(7 * WORDS[:1]), scaling.apply(WORDS)[:1]
    torch.testing.assert_close(longer, old)  # the length of a text does not matter
    empty = scaling.apply(np.zeros((1, 4)))
    torch.testing.assert_close(empty, scaling.apply(WORDS)[3:])
    assert np.isfinite(empty.numpy()).all()


def test_negative_numbers_are_no_words(rows):
    with pytest.raises(
        ValueError, match="'X' parameter of DAHGNNClassifier must be without negative numbers"
    ):
        choose_scaling(rows - rows.max(), "words")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows, True),
        (lambda rows: 3 * rows, True),
        (lambda rows: -rows, False),
        (lambda rows: 0.5 * rows, False),
        (lambda rows: 1 - rows, False),  # words that nearly all rows have
        (lambda rows: 0 * rows, False),
        (lambda rows: rows[:0], False),
    ],
)
def test_words_are_known_by_whole_numbers_that_are_rarely_there(change, expected):
    rows = np.zeros((20, 30))
    rows[np.arange(20), np.arange(20)] = 1
    assert counts_words(change(rows)) is expected


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("part", [1, 7, 1000])
def test_parts_and_threads_make_no_difference(rows, part, threads, monkeypatch):
    expected = choose_scaling(rows, "columns")
    monkeypatch.setattr(scaling, "_ROWS_A_PART", part)
    with threads_for(0, threads):
        found = choose_scaling(rows, "columns")
    np.testing.assert_allclose(found.shift, rows.mean(0, dtype=np.float64), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.factor, expected.factor, rtol=1e-12)


def test_many_rows_are_scaled_in_blocks(rows, monkeypatch, tmp_path):
    whole = choose_scaling(rows, "columns")
    monkeypatch.setattr(scaling, "_NUMBERS_AT_ONCE", 2 * rows.shape[1])
    parts = choose_scaling(rows, "columns")
    torch.testing.assert_close(parts.factor, whole.factor, rtol=1e-13, atol=0)
    with Scratch(tmp_path, large=1) as scratch:
        torch.testing.assert_close(whole.apply(rows, scratch), whole.apply(rows), rtol=0, atol=0)


@pytest.fixture
def mixed(rows):
    """Three measures in their own units, a column of four codes, and one of two."""
    codes = np.random.default_rng(1).choice(4, size=200, p=[0.5, 0.3, 0.15, 0.05])
    return np.concatenate([rows[:, :2], codes[:, None], rows[:, 2:], (codes > 0)[:, None]], 1)


def test_categories_count_as_much_as_measures(mixed):
    """Two rows of other categories have the squared distance 2 there, two measures in the mean as well."""
    scaled = choose_scaling(mixed, "categories").apply(mixed).numpy()[:, :-1].astype(float)
    assert scaled.shape == (200, 3 + 4 + 2)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    assert np.mean(np.sum(scaled**2, 1)) == pytest.approx(9, rel=1e-5)
    unit = scaled[:, 0].std()
    np.testing.assert_allclose(scaled[:, :3].std(0), unit, rtol=1e-5)
    apart = (scaled[:, None, 3:7] - scaled[None, :, 3:7]) / unit
    expected = 2 * (mixed[:, None, 2] != mixed[None, :, 2])
    np.testing.assert_allclose((apart**2).sum(2), expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["columns", "whole", "categories"])
def test_a_scale_is_undone(mixed, kind):
    scaling = choose_scaling(mixed, kind)
    assert scaling.n_columns == 5
    np.testing.assert_allclose(scaling.undo(scaling.apply(mixed)), mixed, rtol=1e-4, atol=1e-3)


def test_a_measure_that_does_not_vary_stays_out_of_the_way_of_categories(mixed):
    constant = np.concatenate([mixed, np.full((200, 1), 0.5)], 1)
    scaled = choose_scaling(constant, "categories").apply(constant)
    assert (scaled[:, 3] == 0).all()
    assert torch.equal(scaled[:, [0, 1, 2, *range(4, 11)]], choose_scaling(mixed, "categories").apply(mixed))
