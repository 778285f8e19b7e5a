"""Columns of codes: recognised by the other columns, and a column for each category in their place."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import OneHotEncoder

from dahgnn.graph.categories import Categories, find_categories, recognise_categories, roughness


@pytest.fixture
def groups():
    """What tells the columns apart: rows of six kinds, which every column shows in its own way."""
    return np.random.default_rng(0).integers(0, 6, size=600)


def noisy(columns, n_codes=6, share=0.3, seed=1):
    """Replace some numbers by any."""
    generator = np.random.default_rng(seed)
    wrong = generator.random(columns.shape) < share
    return np.where(wrong, generator.integers(0, n_codes, columns.shape), columns).astype(float)


@pytest.fixture
def coded(groups):
    """Six columns of codes, whose numbers were given to the kinds in any order."""
    generator = np.random.default_rng(2)
    return noisy(np.stack([generator.permutation(6)[groups] for _ in range(6)], 1))


@pytest.fixture
def graded(groups):
    """Six columns of grades, which rise or fall with the kind, and are a little wrong."""
    steps = np.random.default_rng(3).integers(-1, 2, size=(600, 6))
    rising = np.clip(groups[:, None] + steps, 0, 5)
    return np.where(np.arange(6) % 2, 5 - rising, rising).astype(float)


def test_codes_are_told_from_grades(coded, graded):
    categories = recognise_categories(coded)
    assert categories is not None
    assert categories.columns.tolist() == np.repeat(range(6), 6).tolist()
    assert categories.codes.tolist() == 6 * list(range(6))
    assert categories.measured.tolist() == []
    assert recognise_categories(graded) is None


def test_other_numbers_for_the_same_grades_are_codes(graded):
    """The numbers alone make the difference, as where words are numbered in the order of the alphabet."""
    shuffled = np.array([3, 0, 5, 1, 4, 2])[graded.astype(int)]
    assert recognise_categories(shuffled.astype(float)) is not None


def test_columns_that_know_nothing_of_each_other_stay():
    """Whether their order means something nobody could tell."""
    independent = np.random.default_rng(0).integers(0, 5, size=(1000, 6)).astype(float)
    assert recognise_categories(independent) is None
    every = np.stack(np.meshgrid(*[range(3)] * 6), -1).reshape(-1, 6).astype(float)
    assert recognise_categories(every) is None


@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
def test_measures_and_pixels_are_no_codes(load):
    assert recognise_categories(load().data) is None


def test_what_is_no_code_stays(coded):
    measured = coded[:, :1] + np.random.default_rng(0).normal(size=(600, 1))
    categories = recognise_categories(np.concatenate([measured, coded, coded[:, :1] / 2], 1))
    assert categories.measured.tolist() == [0, 7]  # halves are not whole
    flags = (coded > 2).astype(float)
    assert recognise_categories(flags) is None  # two numbers have no order
    assert recognise_categories(np.concatenate([coded, flags], 1)).measured.tolist() == []
    measures = np.random.default_rng(0).normal(size=(600, 7))
    assert recognise_categories(np.concatenate([measures, coded], 1)) is None  # more than codes
    assert recognise_categories(np.concatenate([measures[:, 1:], coded], 1)) is not None
    assert recognise_categories(coded[:, 1:]) is None  # too few columns to tell
    assert recognise_categories(np.concatenate([coded[:, 1:], flags], 1)) is None
    assert recognise_categories(coded[:29]) is None  # too few rows to tell
    assert recognise_categories(np.tile(coded, (1, 101))) is None  # too many columns
    assert recognise_categories(np.zeros((600, 3))) is None


def test_the_order_of_rows_and_columns_does_not_matter(coded, graded):
    generator = np.random.default_rng(0)
    for table in (coded, graded):
        mixed = table[generator.permutation(600)][:, generator.permutation(6)]
        assert (recognise_categories(mixed) is None) == (recognise_categories(table) is None)


def test_roughness_is_what_it_says(coded):
    """Looped, pair by pair; one feature is a measure."""
    categories = find_categories(coded)
    features = np.concatenate([categories.expand(coded), np.random.default_rng(0).normal(size=(600, 1))], 1)
    groups = [np.flatnonzero(categories.columns.numpy() == column) for column in range(6)]
    found = expected = near = anybody = 0.0
    for column in range(6):
        others = np.delete(features, groups[column], axis=1)
        rows = [others[coded[:, column] == code] for code in range(6)]
        within = sum(((each - each.mean(0)) ** 2).sum() for each in rows) / (600 - 6)
        pairs = {}
        for a in range(6):
            for b in range(a + 1, 6):
                weight = len(rows[a]) * len(rows[b]) / (len(rows[a]) + len(rows[b]))
                distance = ((rows[a].mean(0) - rows[b].mean(0)) ** 2).sum()
                pairs[a, b] = weight, weight * distance
        found += sum(distance for _, distance in pairs.values())
        expected += len(pairs) * within
        neighbours = [pairs[a, a + 1] for a in range(5)]
        near += sum(distance - within for _, distance in neighbours)
        mean = sum(distance - within for _, distance in pairs.values()) / sum(w for w, _ in pairs.values())
        anybody += sum(weight for weight, _ in neighbours) * mean
    np.testing.assert_allclose(roughness(features, groups), (found / expected, near / anybody), rtol=1e-9)


def test_three_equal_steps_are_half_as_rough():
    """A feature that rises with the code in three equal steps, all codes as frequent and nothing by chance."""
    codes = np.repeat(np.eye(3), 200, axis=0)
    features = np.concatenate([codes, codes @ [[0.0], [1.0], [2.0]]], 1)
    assert roughness(features, [np.arange(3)])[1] == pytest.approx(0.5, abs=1e-9)


def test_expanded_rows_are_scikit_learns(coded):
    categories = find_categories(coded)
    expected = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(coded)
    np.testing.assert_array_equal(categories.expand(coded), expected.transform(coded))
    new = coded[:3].copy()
    new[0, 1] = 17  # which no row had
    np.testing.assert_array_equal(categories.expand(new), expected.transform(new))
    np.testing.assert_array_equal(categories.collapse(categories.expand(coded)), coded)
    assert categories.n_columns == 6


def test_found_categories_ask_for_no_order(coded, graded):
    several = np.concatenate([graded, np.arange(600.0)[:, None], coded / 2], 1)
    assert find_categories(several).measured.tolist() == list(range(6, 13))
    assert find_categories(np.arange(600.0)[:, None]) is None


def test_they_are_described():
    categories = Categories(
        torch.tensor([1]), torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 5.0]).double()
    )
    assert categories.describe().startswith("2 of 3 columns hold codes of categories (0, 2): ")
    alone = Categories(torch.tensor([], dtype=torch.int64), torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
    assert alone.describe().startswith("1 of 1 columns hold")
