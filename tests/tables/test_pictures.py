import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from dahgnn.tables.pictures import PICTURE_ENDINGS, read_pictures

COLOURS = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)


@pytest.fixture
def draw(tmp_path):
    """Write an array as a picture."""

    def draw(array, name="a.png", mode=None, **settings):
        image = Image.fromarray(np.asarray(array))
        (image if mode is None else image.convert(mode)).save(tmp_path / name, **settings)
        return tmp_path / name

    return draw


@pytest.mark.parametrize("ending", [".png", ".bmp", ".tif", ".ppm", ".PNG"])
def test_pictures_of_one_size_keep_their_pixels(draw, ending):
    paths = [draw(COLOURS + 10 * n, f"{n}{ending}") for n in range(3)]
    assert np.array_equal(read_pictures(paths), np.stack([COLOURS + 10 * n for n in range(3)]))


@pytest.mark.parametrize("ending", PICTURE_ENDINGS)
def test_every_ending_is_read(draw, ending):
    grey = draw(np.full((8, 8), 90, dtype=np.uint8), f"a{ending}")
    pictures = read_pictures([grey])
    assert pictures.shape == (1, 8, 8)
    assert abs(pictures.astype(int) - 90).max() <= 2


def test_pictures_without_a_colour_are_grey_however_they_are_stored(draw):
    grey = COLOURS[..., 0]
    paths = [draw(grey, "a.png"), draw(grey, "b.png", "RGB"), draw(grey, "c.png", "P")]
    assert np.array_equal(read_pictures(paths), np.stack([grey] * 3))
    both = read_pictures([*paths, draw(COLOURS, "d.png")])
    assert both.shape == (4, 5, 4, 3)
    assert np.array_equal(both[0], np.stack([grey] * 3, axis=-1))


def test_a_fitted_shape_decides_size_and_colour(draw):
    path = draw(COLOURS)
    lightness = np.rint(COLOURS @ [0.299, 0.587, 0.114])
    assert np.array_equal(read_pictures([path], (5, 4))[0], lightness)
    assert read_pictures([draw(COLOURS[..., 0])], (5, 4, 3)).shape == (1, 5, 4, 3)
    assert read_pictures([path], (2, 3)).shape == (1, 2, 3)


def test_other_sizes_become_the_usual_one(draw):
    flat = [draw(np.full((40, 80, 3), (9, 99, 199), dtype=np.uint8), "a.png"), draw(COLOURS, "b.png")]
    pictures = read_pictures(flat)
    assert pictures.shape == (2, 32, 32, 3)
    assert (pictures[0] == (9, 99, 199)).all()
    assert read_pictures(flat[:1]).shape == (1, 32, 32, 3)  # 80 is too long a side
    assert read_pictures([draw(np.zeros((64, 64), np.uint8))]).shape == (1, 64, 64)


def test_large_pictures_become_small_ones_of_the_same_look(draw):
    ramp = np.tile(np.linspace(0, 255, 1000).astype(np.uint8), (700, 1))
    for name in ("a.jpg", "a.png"):
        small = read_pictures([draw(ramp, name)])[0]
        assert small.shape == (32, 32)
        assert abs(small.astype(float) - (np.arange(32) + 0.5) * 255 / 32).max() < 4


def test_pictures_are_turned_as_their_data_say(draw):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter, clockwise
    turned = draw(COLOURS, exif=exif)
    assert np.array_equal(read_pictures([turned])[0], np.rot90(COLOURS, -1))


def test_what_is_transparent_becomes_white(draw):
    alpha = np.dstack([COLOURS, np.zeros((5, 4), np.uint8)])
    alpha[0, 0, 3] = 255
    picture = read_pictures([draw(alpha)])[0]
    assert picture[0, 0].tolist() == COLOURS[0, 0].tolist()
    assert (picture[1:] == 255).all()


def test_sixteen_bits_become_eight(draw):
    deep = np.array([[0, 257, 65_535], [514, 30_000, 40_000]], dtype=np.uint16)
    assert read_pictures([draw(deep)]).tolist() == [[[0, 1, 255], [2, 116, 155]]]


def test_all_files_that_cannot_be_read_are_named_at_once(draw, write, tmp_path):
    good = draw(np.random.default_rng(0).integers(0, 255, (30, 30, 3), dtype=np.uint8))
    cut = write(good.read_bytes()[:900], "cut.png")
    (tmp_path / "folder.png").mkdir()
    floats = tmp_path / "floats.tif"
    Image.fromarray(np.ones((3, 3), np.float32)).save(floats)
    bad = [cut, write(b"", "empty.png"), write("a,b\n", "text.png"), tmp_path / "none.png"]
    with pytest.raises(ValueError, match="All 7 pictures must be files that can be read. Got 6") as caught:
        read_pictures([good, *bad, tmp_path / "folder.png", floats], (30, 30, 3))
    for words in (
        r"cut.png' (image file is truncated",
        "empty.png' (empty)",
        "text.png' (no picture of a kind that is read)",
        "none.png' (no such file)",
        "folder.png' (no regular file)",
        "floats.tif' (it has numbers for colours)",
    ):
        assert words in str(caught.value)
    with pytest.raises(ValueError, match="Got 4 that cannot"):
        read_pictures([good, *bad, *bad])


def test_a_small_file_of_many_pixels_is_refused(write):
    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", 20_000, 10_000, 8, 0, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    for shape in (None, (8, 8)):
        with pytest.raises(ValueError, match="more than 89,478,485 pixels"):
            read_pictures([write(bomb, "bomb.png")], shape)


def test_none_at_all_is_refused():
    with pytest.raises(ValueError, match="The 'paths' parameter of read_pictures must be not empty"):
        read_pictures([])
