import numpy as np
import pytest
from PIL import Image
from rights import plain_user

from dahgnn.tables.sources import Reading
from dahgnn.tables.table import read_table


@pytest.fixture
def photos(tmp_path):
    """Make a folder of pictures: pixels (4, 5, 3) of random numbers by the name of the file."""
    pixels = {}

    def photos(*names):
        for name in names:
            path = tmp_path / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels[name] = np.random.default_rng(len(pixels)).integers(0, 256, (4, 5, 3), dtype=np.uint8)
            Image.fromarray(pixels[name]).save(path)
        return tmp_path / "photos", pixels

    return photos


def test_folders_are_labels_and_paths_are_ids(photos):
    folder, pixels = photos(
        "dog/b.png", "cat/a.png", "cat/2020/c.bmp", "unlabelled/d.png", "Unlabeled/e.PNG", "f.tif"
    )
    table = read_table(folder)
    assert table.ids == (
        "Unlabeled/e.PNG",
        "cat/2020/c.bmp",
        "cat/a.png",
        "dog/b.png",
        "f.tif",
        "unlabelled/d.png",
    )
    assert table.labels == (None, "cat", "cat", "dog", None, None)
    assert table.features.dtype == np.float32
    assert np.array_equal(table.features, [pixels[name].ravel() for name in table.ids])
    assert table.source.shape == (4, 5, 3)
    assert "3 of 6 rows are labelled by their folders, with 2 classes: 'cat' (2), 'dog' (1)." in table.notes
    assert "6 pictures were read, each as 4 × 5 × 3 numbers from 0 to 255." in table.notes


def test_words_for_missing_are_classes(photos):
    folder, _ = photos("None/a.png", "NA/b.png")
    assert read_table(folder).labels == ("NA", "None")


def test_other_files_and_hidden_ones_are_left_out(photos):
    folder, _ = photos("cat/a.png", "dog/b.png", ".trash/c.png")
    (folder / "cat" / "notes.txt").write_text("x")
    (folder / ".DS_Store").write_text("x")
    table = read_table(folder)
    assert table.ids == ("cat/a.png", "dog/b.png")
    assert "1 files that are no pictures were ignored: 'cat/notes.txt'." in table.notes


def test_links_count_as_what_they_lead_to(photos, tmp_path):
    folder, pixels = photos("cat/a.png", "../elsewhere/b.png")
    (folder / "dog").symlink_to(tmp_path / "elsewhere")
    table = read_table(folder)
    assert (table.ids, table.labels) == (("cat/a.png", "dog/b.png"), ("cat", "dog"))
    assert np.array_equal(table.features[1], pixels["../elsewhere/b.png"].ravel())
    (tmp_path / "elsewhere" / "back").symlink_to(folder)
    with pytest.raises(ValueError, match="photos/dog/back must not be a link to one that it is in"):
        read_table(folder)


def test_new_pictures_get_the_shape_of_the_fitted_ones(photos, tmp_path):
    folder, _ = photos("cat/a.png", "dog/b.png")
    fitted = read_table(folder)
    new = tmp_path / "new"
    new.mkdir()
    Image.fromarray(np.full((50, 40), 77, dtype=np.uint8)).save(new / "x.png")
    table = read_table(new, columns=fitted.columns, reading=Reading(shape=fitted.source.shape))
    assert (table.features == 77).all()
    assert table.features.shape[1] == fitted.features.shape[1]
    assert (table.labels, table.ids) == (None, ("x.png",))
    with pytest.raises(ValueError, match="must have 60 columns, as at the fit. Got 2000"):
        read_table(new, columns=fitted.columns)


def test_a_shape_can_be_chosen(photos):
    folder, _ = photos("cat/a.png", "dog/b.png")
    assert read_table(folder, reading=Reading(shape=(2, 3))).source.shape == (2, 3)


@pytest.mark.parametrize("shape", [(2,), (2, 3, 4), (0, 3), (200, 200), (2.5, 3), (True, True), (), 5, "ab"])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"The 'shape' parameter of Reading must be \(height, width\) or"):
        Reading(shape=shape)


@pytest.mark.parametrize("role", ["label", "id"])
def test_columns_are_refused(photos, role):
    folder, _ = photos("cat/a.png")
    with pytest.raises(
        ValueError, match=f"The {role}s of a folder .* must be the names in it. Got --{role} 'q'"
    ):
        read_table(folder, **{role: "q"})


def test_a_folder_without_pictures_is_told_before_a_label(tmp_path):
    with pytest.raises(ValueError, match=r"must have pictures in it.* Got none"):
        read_table(tmp_path, label="q")


def test_options_of_files_are_refused(photos):
    folder, _ = photos("cat/a.png")
    with pytest.raises(ValueError, match="'encoding' .* must be left out for folders of pictures"):
        read_table(folder, reading=Reading(encoding="utf-8"))
    with pytest.raises(IsADirectoryError, match="must be a file. Got a folder"):
        read_table(folder, reading=Reading(format="csv"))


def test_folders_without_pictures_and_with_bad_ones_are_refused(photos, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ValueError, match="must have pictures in it, .* Got none that end in one of .png, .jpg"
    ):
        read_table(tmp_path / "empty")
    folder, _ = photos("cat/a.png", "dog/b.png")
    (folder / "dog" / "c.png").write_bytes((folder / "dog" / "b.png").read_bytes()[:50])
    (folder / "d.jpg").write_text("no picture")
    with pytest.raises(
        ValueError, match=r"All 4 pictures must be files .* Got 2 that cannot: .*d.jpg.*c.png"
    ):
        read_table(folder)


def test_a_folder_that_cannot_be_read_is_refused(photos):
    folder, _ = photos("cat/a.png", "dog/b.png")
    (folder / "cat").chmod(0)
    try:
        with plain_user(), pytest.raises(PermissionError):
            read_table(folder)
    finally:
        (folder / "cat").chmod(0o755)
