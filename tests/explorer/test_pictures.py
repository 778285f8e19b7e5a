"""Pictures of rows, from pixels and from files."""

import io

import numpy as np
import pytest

from dahgnn.explorer.pictures import FilePictures, ImagePictures, as_png

Image = pytest.importorskip("PIL.Image")


def opened(content):
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)], ids=str)
def test_pixels_come_back_from_the_png(shape):
    images = np.random.default_rng(0).integers(0, 256, (3, *shape)).astype(np.uint8)
    pictures = ImagePictures(images)
    assert [pictures.has(row) for row in (-1, 0, 2, 3)] == [False, True, True, False]
    np.testing.assert_array_equal(opened(as_png(pictures.pixels(1, 320))), images[1])


def test_a_large_file_is_made_smaller_and_keeps_its_proportions(tmp_path):
    Image.new("RGB", (800, 400), (200, 10, 30)).save(tmp_path / "wide.png")
    pictures = FilePictures([tmp_path / "wide.png", None])
    assert (pictures.has(0), pictures.has(1)) == (True, False)
    found = pictures.pixels(0, 100)
    assert found.shape == (50, 100, 3)
    assert found[20, 40].tolist() == [200, 10, 30]
    with pytest.raises(LookupError, match="no picture"):
        pictures.pixels(1, 100)


@pytest.mark.parametrize("content", [b"", b"no picture", None], ids=["empty", "text", "missing"])
def test_a_file_that_is_no_picture_is_told_by_its_name_alone(tmp_path, content):
    if content is not None:
        (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(ValueError, match="'a.png' cannot be read") as told:
        FilePictures([tmp_path / "a.png"]).pixels(0, 100)
    assert str(tmp_path) not in str(told.value)
