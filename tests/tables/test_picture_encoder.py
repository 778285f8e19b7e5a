import numpy as np
import pytest
from PIL import Image

from dahgnn.tables.picture_encoder import PictureEncoder, look_like_pictures
from dahgnn.tables.table import read_table

PIXELS = {"a": [[0, 51], [102, 255]], "b": [[255, 51], [0, 255]], "c": [[51, 51], [51, 255]]}


@pytest.fixture
def table(tmp_path, write):
    """A table of the paths of three grey pictures, one row without."""
    (tmp_path / "pictures").mkdir()
    for name, pixels in PIXELS.items():
        Image.fromarray(np.array(pixels, dtype=np.uint8)).save(tmp_path / "pictures" / f"{name}.png")
    return write("p,n\npictures/a.png,1\n pictures/b.png,2\n,4\npictures/c.png,9\n")


def test_paths_of_pictures_become_their_pixels(table, write):
    found = read_table(table)
    assert [column.kind for column in found.columns] == ["picture", "number"]
    assert found.names == ("p[0]", "p[1]", "p[2]", "p[3]", "n")
    want = [[0, 0.2, 0.4, 1], [1, 0.2, 0, 1], [0.4, 0.2, 0.2, 1], [0.2, 0.2, 0.2, 1]]
    assert np.allclose(found.features[:, :4], want)
    assert "The column 'p' has paths of pictures; their 4 pixels are features." in found.notes
    assert "1 missing pictures of 'p' became the mean." in found.notes
    new = read_table(write("p,n\n,1\npictures/b.png,3\n", "new.csv"), columns=found.columns)
    assert np.allclose(new.features[:, :4], [want[2], want[1]])


def test_a_picture_that_is_not_there_is_refused_by_name(table, write):
    columns = read_table(table).columns
    path = write("p,n\npictures/q.png,1\npictures/a.png,2\n", "new.csv")
    for arguments in ({}, {"columns": columns}):
        with pytest.raises(ValueError, match="pictures must be files .* Got 1 that cannot: '.*q.png' "):
            read_table(path, **arguments)


def test_a_column_is_of_pictures_if_it_is_asked_for(write, tmp_path):
    text = "p,n\nq.png,1\nr.png,2\n"
    assert read_table(write(text)).columns[0].kind == "category"
    with pytest.raises(ValueError, match="Got 2 that cannot"):
        read_table(write(text), picture=["p"])
    with pytest.raises(ValueError, match="must have a column 'q' for --picture"):
        read_table(write(text), picture=["q"])
    assert read_table(write("p,n\n,1\n,2\n"), picture=["p"]).names == ("n",)


def test_only_names_that_end_so_and_are_there_look_like_pictures(table):
    folder = table.parent
    assert look_like_pictures(["pictures/a.png", None, "gone.JPG"], folder)
    assert not look_like_pictures(["pictures/a.png", "data.csv"], folder)
    assert not look_like_pictures(["gone.png"], folder)
    assert not look_like_pictures([None, " "], folder)
    assert not look_like_pictures(["x" * 5000 + ".png"], folder)


def test_damaged_parts_are_refused():
    mean = np.zeros(4, dtype=np.float32)
    for settings in (
        {"shape": (2, 3), "mean": mean},
        {"shape": (4,), "mean": mean},
        {"shape": (2, 0), "mean": mean},
        {"shape": (2, 2), "mean": mean * np.nan},
    ):
        with pytest.raises(ValueError, match="parameter of PictureEncoder"):
            PictureEncoder(**settings)
