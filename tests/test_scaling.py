"""Scales of tables."""

import numpy as np
import pytest
import torch

from dahgnn.scaling import choose_scaling


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    return (generator.normal(size=(200, 3)) * [1, 10, 100] + [5, 0, -7]).astype(np.float32)


UNKNOWN = torch.full((200,), -1)


@pytest.mark.parametrize("kind", ["columns", "whole"])
def test_rows_get_mean_zero_and_one_length(rows, kind):
    scaled = choose_scaling(rows, UNKNOWN, kind).apply(rows).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    assert np.mean(np.sum(scaled**2, 1)) == pytest.approx(9, rel=1e-4)


def test_columns_get_one_deviation(rows):
    scaled = choose_scaling(rows, UNKNOWN, "columns").apply(rows).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.std(0), 3**0.5, rtol=1e-5)


def test_the_whole_keeps_the_shape(rows):
    scaled = choose_scaling(rows, UNKNOWN, "whole").apply(rows).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.std(0) / scaled.std(0)[0], rows.std(0) / rows.std(0)[0], rtol=1e-4)


def test_ones_come_last(rows):
    scaled = choose_scaling(rows, UNKNOWN, "columns").apply(rows)
    assert scaled.shape == (200, 4)
    assert (scaled[:, -1] == 1).all()


def test_none_is_none(rows):
    assert np.array_equal(choose_scaling(rows, UNKNOWN, "none").apply(rows).numpy()[:, :-1], rows)


def test_auto_takes_what_brings_labels_together(rows):
    """The first column tells the class, and the third drowns it unless columns are scaled."""
    by_first = torch.from_numpy((rows[:, 0] > 5).astype(np.int64))
    scaled = choose_scaling(rows, by_first, "auto").apply(rows).numpy()[:, :-1]
    np.testing.assert_allclose(scaled.std(0), 3**0.5, rtol=1e-5)
    by_third = torch.from_numpy((rows[:, 2] > -7).astype(np.int64))
    scaled = choose_scaling(rows, by_third, "auto").apply(rows).numpy()[:, :-1]
    assert scaled.std(0)[2] > 10 * scaled.std(0)[0]


def test_a_constant_column_stays_out_of_the_way(rows):
    wider = np.concatenate([rows, np.full((200, 1), 0.1, dtype=np.float32)], 1)
    scaled = choose_scaling(wider, UNKNOWN, "columns").apply(wider).numpy()[:, :-1]
    assert np.abs(scaled[:, 3]).max() == 0
    new = wider[:1].copy()
    new[0, 3] = 1e6  # nothing is known of how such a column varies
    assert choose_scaling(wider, UNKNOWN, "columns").apply(new)[0, 3] == 0
    constant = np.full((10, 2), 3.0, dtype=np.float32)
    for kind in ("columns", "whole"):
        assert torch.isfinite(choose_scaling(constant, UNKNOWN[:10], kind).apply(constant)).all()


def test_few_or_no_labels_are_enough(rows):
    for labels in (UNKNOWN, torch.cat([torch.tensor([1]), UNKNOWN[1:]])):
        assert torch.isfinite(choose_scaling(rows, labels, "auto").apply(rows)).all()


def test_a_wrong_word_is_named(rows):
    with pytest.raises(ValueError, match="'scale' parameter"):
        choose_scaling(rows, UNKNOWN, "rows")
