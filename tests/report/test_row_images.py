"""Tables whose rows are images."""

import numpy as np
import pytest

from dahgnn.report.row_images import row_images
from dahgnn.tables.array_files import array_source
from dahgnn.tables.sources import Source


@pytest.mark.parametrize("shape", [(8, 8), (5, 9), (4, 6, 3)], ids=str)
def test_pixels_of_an_array_keep_their_places(shape):
    images = np.random.default_rng(0).integers(0, 256, (7, *shape)).astype(np.uint8)
    np.testing.assert_array_equal(row_images(array_source(images)), images)


def test_a_flat_table_is_square_or_as_it_is_said():
    flat = np.arange(2 * 64, dtype=np.uint8).reshape(2, 64)
    source = Source(n_rows=2, cells={f"p{place}": flat[:, place] for place in range(64)})
    np.testing.assert_array_equal(row_images(source), flat.reshape(2, 8, 8))
    np.testing.assert_array_equal(row_images(source, (4, 16)), flat.reshape(2, 4, 16))
    assert row_images(source, (4, 15)) is None


def test_shares_become_grey_values():
    shares = np.zeros((2, 8, 8))
    shares[0, 0, 0], shares[1, 3, 4] = 1, 0.5
    found = row_images(array_source(shares))
    assert (found[0, 0, 0], found[1, 3, 4], found.sum()) == (255, 127, 255 + 127)


@pytest.mark.parametrize("value", [-1, 256, 0.5 + 100, np.nan], ids=str)
def test_other_numbers_are_no_pixels(value):
    numbers = np.full((2, 8, 8), 100.0)
    numbers[1, 2, 3] = value
    assert row_images(array_source(numbers)) is None


def test_text_among_the_cells_is_no_pixel():
    cells = {f"p{place}": np.zeros(2, np.uint8) for place in range(63)}
    words = np.array(["a", "b"], dtype=object)
    assert row_images(Source(n_rows=2, cells=cells | {"word": words})) is None
