"""What is to be labelled: tables, folders of pictures, fits."""

import numpy as np
import pytest

from dahgnn.cli.commands import main
from dahgnn.explorer.pictures import FilePictures, ImagePictures
from dahgnn.explorer.rows import read_rows_to_label
from dahgnn.tables.planning import Choices

TABLE = "name,size,kind,fruit\na,1.5,red,apple\nb,2,green,\nc,3,,pear\n"


def test_a_table_shows_its_cells_and_knows_its_labels(write):
    rows = read_rows_to_label(write(TABLE), label="fruit", id="name")
    assert (rows.ids, rows.given) == (("a", "b", "c"), ("apple", None, "pear"))
    assert rows.cells(1) == [("size", "2"), ("kind", "green")]
    assert rows.cells(2) == [("size", "3"), ("kind", "–")]
    assert rows.numbers == {"a": 0, "b": 1, "c": 2}
    assert rows.pictures is None


def test_a_table_without_labels_or_names(write):
    rows = read_rows_to_label(write("x,y\n1,2\n3,4\n5,7\n"))
    assert (rows.ids, rows.given, rows.named) == (("0", "1", "2"), (None,) * 3, False)


def test_rows_with_names_may_change_and_those_without_may_not(write):
    named = [
        read_rows_to_label(write(text), label="fruit", id="name").identity
        for text in (TABLE, TABLE + "d,4,red,\n")
    ]
    assert named[0] == named[1]
    other = read_rows_to_label(write(TABLE), label="kind", id="name").identity
    assert other != named[0]  # labels of another column are another project
    numbered = [read_rows_to_label(write(text)).identity for text in ("x,y\n1,2\n3,4\n", "x,y\n1,2\n3,5\n")]
    assert numbered[0] != numbered[1]


def test_free_text_is_shown_whole_and_long_cells_are_cut(write):
    words = [f"word{place} again and again in a long review of thing {place}" for place in range(20)]
    long = "x" * 3000
    lines = "\n".join(f'"{text}",{row % 3},{long}{row}' for row, text in enumerate(words))
    rows = read_rows_to_label(
        write("review,size,code\n" + lines), choices=Choices(text=["review"], drop=["code"])
    )
    assert rows.texts == ("review",)
    assert rows.long_texts(3) == [("review", words[3])]
    cells = dict(rows.cells(3))
    assert cells["size"] == "0"
    assert cells["code"] == long[:2000] + "…"


def test_pixels_in_columns_are_images_by_a_shape(pack):
    images = np.random.default_rng(0).integers(0, 256, (9, 40)).astype(np.uint8)
    rows = read_rows_to_label(pack(X=images), image_shape=(5, 8))
    assert isinstance(rows.pictures, ImagePictures)
    np.testing.assert_array_equal(rows.pictures.images, images.reshape(9, 5, 8))
    assert rows.cells(0) == []
    with pytest.raises(
        ValueError, match=r"'image-shape' parameter of label must be .* Got 6 × 8 for 40 columns"
    ):
        read_rows_to_label(pack(X=images), image_shape=(6, 8))


@pytest.fixture
def photos(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    for number, folder in enumerate(["cat", "cat", "dog", "unlabelled"]):
        (tmp_path / "photos" / folder).mkdir(parents=True, exist_ok=True)
        pil.new("RGB", (20, 10), (60 * number, 9, 9)).save(tmp_path / "photos" / folder / f"{number}.png")
    return tmp_path / "photos"


def test_a_folder_of_pictures(photos):
    rows = read_rows_to_label(photos)
    assert rows.given == ("cat", "cat", "dog", None)
    assert rows.ids[3] == "unlabelled/3.png"
    assert rows.pictures.pixels(1, 320)[0, 0].tolist() == [60, 9, 9]


def test_features_of_ones_own_for_pictures_and_tables(photos, write, tmp_path):
    np.save(tmp_path / "f.npy", np.arange(8.0).reshape(4, 2))
    rows = read_rows_to_label(photos, features=tmp_path / "f.npy")
    assert rows.table.features.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert isinstance(rows.pictures, FilePictures)
    assert (rows.given[2], rows.ids[2]) == ("dog", "dog/2.png")
    with pytest.raises(
        ValueError, match="'features' parameter of label must be of 3 rows, as data.csv has. Got 4"
    ):
        read_rows_to_label(write(TABLE), label="fruit", features=tmp_path / "f.npy")


def test_a_column_of_pictures(photos, write, tmp_path):
    names = sorted(path.relative_to(tmp_path).as_posix() for path in photos.rglob("*.png"))
    path = write("file,size\n" + "\n".join(f"{name},{row}" for row, name in enumerate([*names[:3], ""])))
    rows = read_rows_to_label(path, choices=Choices(picture=["file"]))
    assert [rows.pictures.has(row) for row in range(4)] == [True, True, True, False]
    assert rows.pictures.pixels(1, 320).shape == (10, 20, 3)


def test_what_a_fit_left_behind(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 2
    images = (generator.integers(0, 100, (40, 8, 8)) + 100 * labels[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "data.npz", X=images, y=np.where(np.arange(40) < 20, labels, -1))
    folder = tmp_path / "out"
    command = ["fit", str(tmp_path / "data.npz"), "--label", "y", "--out", str(folder), "--networks", "1"]
    assert main([*command, "--map", "none"]) == 0
    rows = read_rows_to_label(folder)
    assert rows.given[:3] == ("0", "1", "0")
    assert rows.given[20] is None
    np.testing.assert_array_equal(rows.pictures.images, images)
    np.testing.assert_allclose(rows.table.features, images.reshape(40, -1), atol=1e-3)
    assert rows.fitted.classifier.classes_.tolist() == ["0", "1"]
    with pytest.raises(ValueError, match="Leave --label, --id and --features out"):
        read_rows_to_label(folder, label="y")


def test_problems_of_a_table_are_all_told(write):
    with pytest.raises(ValueError, match="no column 'fruits'|must have a column 'fruits'"):
        read_rows_to_label(write(TABLE), label="fruits")
