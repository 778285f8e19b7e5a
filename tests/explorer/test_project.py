"""A project as a whole: what is opened, where things go, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from label_server import options, write_blobs

from dahgnn.explorer.project import LabelOptions, default_journal, open_project
from dahgnn.explorer.session import Action
from dahgnn.explorer.trainer import StoppedError
from dahgnn.progress import SilentObserver
from dahgnn.report.fit_folder import FitOptions
from dahgnn.report.fitted_folder import FittedFolder


def opened(path, chosen=None):
    return open_project(path, chosen or options(), SilentObserver())


@pytest.fixture
def fruit(tmp_path):
    write_blobs(tmp_path / "fruit.csv", n=30, given=(0, 1, 2))
    return tmp_path / "fruit.csv"


def test_the_users_file_is_never_written(fruit):
    before = fruit.read_bytes(), fruit.stat().st_mtime_ns
    project = opened(fruit)
    project.start()
    project.stop()
    assert (fruit.read_bytes(), fruit.stat().st_mtime_ns) == before
    assert default_journal(fruit).name == "fruit.csv.labels.sqlite"
    assert default_journal(fruit).exists()


def test_a_second_program_on_the_same_rows_is_refused(fruit):
    project = opened(fruit)
    with pytest.raises(ValueError, match="Another process has the journal"):
        opened(fruit)
    project.session.journal.close()
    opened(fruit).session.journal.close()


def test_rows_may_be_added_where_they_have_names(fruit):
    project = opened(fruit)
    project.session.journal.close()
    fruit.write_text(fruit.read_text() + "row-new,0.1,4.0,0.2,\n")
    again = opened(fruit)
    assert len(again.session.rows) == 31
    again.session.journal.close()


def test_rows_without_names_may_not_change(fruit):
    chosen = options(id=None)
    opened(fruit, chosen).session.journal.close()
    fruit.write_text(fruit.read_text() + "row-new,0.1,4.0,0.2,\n")
    with pytest.raises(ValueError, match="other data|other rows"):
        opened(fruit, chosen)


def test_known_neighbours_are_taken(fruit, tmp_path):
    neighbors = (np.arange(30)[:, None] + np.arange(1, 4)) % 30
    np.save(tmp_path / "near.npy", neighbors)
    project = opened(fruit, replace(options(), neighbors=tmp_path / "near.npy"))
    hypergraph = project.session._surroundings.hypergraph
    assert hypergraph.members(5).tolist() == [5, 6, 7, 8]
    project.session.journal.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((30, 3)), "whole numbers"),
        (np.zeros((29, 3), int), "of 30 rows. Got 29"),
        (np.full((30, 3), 30), "n_nodes"),
        (b"no array", "must be an NPY file"),
        (None, "There is no file"),
    ],
    ids=["decimal", "other rows", "out of range", "text", "missing"],
)
def test_neighbours_that_are_none_are_refused_and_the_journal_is_free_again(
    fruit, tmp_path, content, message
):
    path = tmp_path / "near.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises((ValueError, OSError), match=message):
        opened(fruit, replace(options(), neighbors=path))
    opened(fruit).session.journal.close()


def test_one_row_is_no_project(tmp_path):
    (tmp_path / "one.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="must have a column that can be a feature"):
        opened(tmp_path / "one.csv", LabelOptions())


def test_a_better_map_comes_once_and_is_kept(tmp_path):
    pytest.importorskip("openTSNE")
    write_blobs(tmp_path / "fruit.csv", n=120)
    project = opened(tmp_path / "fruit.csv", options(map="auto"))
    first = project.places
    project._improve_map()
    assert (project.map_kind, project.map_version) == ("tsne", 2)
    assert not np.allclose(project.places, first)
    project.session.journal.close()
    again = opened(tmp_path / "fruit.csv", options(map="auto"))
    again._hear = None  # whoever computes anew would call it
    again._improve_map()
    np.testing.assert_array_equal(again.places, project.places)
    again._stopping.set()
    with pytest.raises(StoppedError):
        type(again)._hear(again, 1, 2)
    again.session.journal.close()


def test_what_a_fit_left_behind_begins_with_its_model(tmp_path, fruit):
    from dahgnn.cli.commands import main

    pytest.importorskip("openTSNE")
    command = ["fit", str(fruit), "--label", "fruit", "--id", "name", "--out", str(tmp_path / "out")]
    assert main([*command, "--networks", "1", "--map", "none"]) == 0
    chosen = LabelOptions(fit=FitOptions(networks=1, map="pca"))
    project = opened(tmp_path / "out", chosen)
    assert project.session.model.number == 1
    assert project.session.model.guess(0) == "apple"
    assert project.session.labels.n_labelled == 3
    assert project.session.journal.path == (tmp_path / "out" / "labels.sqlite").resolve()
    project.session.journal.close()


def label_all(project, truth):
    """Label half of the rows, and write the folder of a fit."""
    session = project.session
    for number, word in enumerate(sorted(set(truth))):
        rows = [row for row in range(0, len(truth), 2) if truth[row] == word]
        session.label(Action(window="w", key=f"k{number}", rows=rows, way="map", seen=number), word)
    return project.write_fit()


def test_the_fit_folder_of_pictures_with_features_of_ones_own(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    pytest.importorskip("openTSNE")
    (tmp_path / "photos").mkdir()
    truth = ["dark" if row < 20 else "light" for row in range(40)]
    for row in range(40):
        pil.new("L", (9, 6), 6 * row).save(tmp_path / "photos" / f"{row:02}.png")
    features = np.random.default_rng(0).normal(size=(40, 4)) + 4 * (np.arange(40) >= 20)[:, None]
    np.save(tmp_path / "features.npy", features)
    chosen = LabelOptions(
        fit=FitOptions(networks=1, map="pca"), features=tmp_path / "features.npy", folder=tmp_path / "out"
    )
    project = opened(tmp_path / "photos", chosen)
    assert "model.safetensors" in label_all(project, truth)
    project.session.journal.close()
    from dahgnn.cli.commands import main

    assert main(["predict", str(tmp_path / "out"), str(tmp_path / "features.npy")]) == 0


def test_the_fit_folder_of_a_fit_keeps_its_ids_and_settings(tmp_path, fruit):
    from dahgnn.cli.commands import main

    pytest.importorskip("openTSNE")
    command = ["fit", str(fruit), "--label", "fruit", "--id", "name", "--out", str(tmp_path / "first")]
    assert main([*command, "--networks", "1", "--map", "none", "-k", "5"]) == 0
    chosen = LabelOptions(fit=FitOptions(map="pca"), folder=tmp_path / "second")
    project = opened(tmp_path / "first", chosen)
    label_all(project, ["apple", "pear", "plum"] * 10)
    project.session.journal.close()
    again = FittedFolder.open(tmp_path / "second")
    assert (again.id, again.classifier.k, again.classifier.networks) == ("name", 5, 1)
    assert again.ids[3] == "row-3"
    assert main(["predict", str(tmp_path / "second"), str(fruit)]) == 0
