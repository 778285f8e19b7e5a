"""What other commands find in the folder of a fit; `test_fit_folder` calls them as a user does."""

import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from dahgnn.classifier.saving import load_saved, save_classifier
from dahgnn.progress import SilentObserver
from dahgnn.report.fit_folder import FitOptions, fit_table, survey_fit
from dahgnn.report.fitted_folder import FittedFolder, FittedHyperedges, predict_table
from dahgnn.tables.sources import Reading

pytest.importorskip("pandas")
pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("fitted")
    rows = np.random.default_rng(0).normal(size=(24, 2)) + 4 * (np.arange(24) % 2)[:, None]
    lines = [f"r{row},{x:.3f},{y:.3f},{'uv'[row % 2] if row < 12 else ''}" for row, (x, y) in enumerate(rows)]
    (base / "table.csv").write_text("name,x,y,kind\n" + "\n".join(lines) + "\n")
    options = FitOptions(label="kind", id="name", networks=1, map="pca")
    fit_table(base / "table.csv", base / "fit", options, SilentObserver())
    return base


def test_what_was_fitted_is_read_back(base):
    fitted = FittedFolder.open(base / "fit")
    assert fitted.ids[:2] == ["r0", "r1"]
    assert fitted.labels[:2] == ["u", "v"]
    assert fitted.labels[12] is None
    assert fitted.row("r7") == 7


def test_an_unknown_row_is_told_that_ids_are_numbers(base):
    fitted = FittedFolder.open(base / "fit")
    with pytest.raises(ValueError, match="Got 'r70'. Did you mean 'r"):
        fitted.row("r70")
    numbered = replace(fitted, ids=[str(row) for row in range(24)])
    with pytest.raises(
        ValueError, match="Got 'r7'. Ids are the numbers 0 to 23: the fit had no column of names"
    ):
        numbered.row("r7")


def test_files_of_two_fits_are_noticed(base, tmp_path):
    shutil.copytree(base / "fit", tmp_path / "fit")
    metrics = tmp_path / "fit" / "metrics.json"
    content = json.loads(metrics.read_text())
    metrics.write_text(json.dumps(content | {"fit": "of another"}))
    with pytest.raises(ValueError, match=r"metrics.json and model.safetensors in .* are of different fits"):
        FittedFolder.open(tmp_path / "fit")
    metrics.unlink()
    assert FittedFolder.open(tmp_path / "fit").ids[0] == "r0"


def test_an_exchange_that_was_cut_off_is_finished(base, tmp_path):
    shutil.copytree(base / "fit", tmp_path / "fit")
    ready = tmp_path / "fit" / ".ready"
    ready.mkdir()
    for name in ("model.safetensors", "predictions.csv"):
        (tmp_path / "fit" / name).rename(ready / name)
    plan = {"arriving": ["model.safetensors", "predictions.csv"], "leaving": []}
    (ready / "plan.json").write_text(json.dumps(plan))
    assert FittedFolder.open(tmp_path / "fit").ids[0] == "r0"
    assert (tmp_path / "fit" / "predictions.csv").exists()
    assert not ready.exists()


def test_a_model_that_may_not_be_read_is_not_missing(base, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("dahgnn.report.fitted_folder.readable", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        FittedFolder.open(base / "fit")


def test_ids_of_a_column_that_is_not_there_are_refused_if_it_was_named(base):
    with pytest.raises(ValueError, match="must have a column 'nme' for --id. .* Did you mean 'name'?"):
        predict_table(base / "fit", base / "table.csv", "nme", SilentObserver())
    found = predict_table(base / "fit", base / "table.csv", None, SilentObserver())
    assert found.ids[:2] == ("r0", "r1")
    assert found.classes == ["u", "v"]
    assert found.predicted[:2] == ["u", "v"]


class Told(SilentObserver):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_another_file_is_read_as_the_fitted_one_was_unless_it_says_otherwise(base, tmp_path):
    content = (base / "table.csv").read_text().replace("name", "größe").replace(",", "|").replace(".", ",")
    (tmp_path / "table.csv").write_bytes(content.encode("cp1252"))
    reading = Reading(encoding="cp1252", delimiter="|", decimal=",", format="csv")
    options = FitOptions(label="kind", id="größe", networks=1, map="pca", reading=reading)
    fit_table(tmp_path / "table.csv", tmp_path / "fit", options, SilentObserver())
    fitted = FittedFolder.open(tmp_path / "fit")
    assert fitted.reading == Reading(encoding="cp1252", delimiter="|", decimal=",")
    told = Told()
    again = predict_table(tmp_path / "fit", tmp_path / "table.csv", None, told)
    assert again.ids == tuple(fitted.ids)
    kept = "--encoding 'cp1252', --delimiter '|', --decimal ','"
    assert f"table.csv is read as at the fit, with {kept}." in told.notes
    (tmp_path / "new.txt").write_text(content)
    own = Reading(encoding="utf-8", format="csv")
    other = predict_table(tmp_path / "fit", tmp_path / "new.txt", None, SilentObserver(), own)
    assert other.ids == again.ids
    assert np.array_equal(other.probabilities, again.probabilities)


@pytest.fixture(scope="module")
def grouped(base):
    """The same table, with hyperedges of the user's own for all rows but the last two."""
    pairs = [f"r{row},{'uv'[row % 2]}{row % 4},{1 + row % 3}" for row in range(22)]
    (base / "pairs.csv").write_text("\n".join(["name,group,weight", *pairs]))
    options = FitOptions(label="kind", id="name", networks=1, map="none", hyperedges=base / "pairs.csv")
    metrics = fit_table(base / "table.csv", base / "grouped", options, SilentObserver())
    return base / "grouped", metrics


def test_given_hyperedges_are_those_of_the_classifier(base, grouped):
    folder, metrics = grouped
    fitted = FittedFolder.open(folder)
    assert fitted.hyperedges == FittedHyperedges("pairs.csv", ("u0", "v1", "u2", "v3"))
    hypergraph = fitted.classifier.hypergraph_
    assert hypergraph.members(1).tolist() == [1, 5, 9, 13, 17, 21]
    assert hypergraph.incidence_weights[:3].tolist() == [1, 2, 3]
    assert [fitted.name_hyperedge(number) for number in (1, 4)] == ["v1", None]
    digest = hashlib.sha256((base / "pairs.csv").read_bytes()).hexdigest()
    assert metrics["hyperedges"] == {"file": "pairs.csv", "sha256": digest}
    assert "pairs.csv has 4 hyperedges of 5 to 6 rows." in metrics["notes"]
    assert "2 of 24 rows are in no hyperedge of pairs.csv." in metrics["notes"]
    assert FittedFolder.open(base / "fit").hyperedges is None


def test_new_rows_of_a_fit_with_given_hyperedges_join_their_neighbours(base, grouped):
    told = Told()
    found = predict_table(grouped[0], base / "table.csv", None, told)
    assert told.notes[0] == (
        "New rows are in none of the hyperedges that the fit had from pairs.csv: each joins its 6 nearest "
        "fitted rows by its features."
    )
    assert found.predicted[:2] == ["u", "v"]
    told = Told()
    predict_table(base / "fit", base / "table.csv", None, told)
    assert not any("nearest fitted rows" in note for note in told.notes)


def test_a_fit_with_given_hyperedges_explains_and_suggests(grouped):
    fitted = FittedFolder.open(grouped[0])
    found = {fitted.name_hyperedge(each.hyperedge): each for each in fitted.explain("r4").hyperedges}
    assert "u0" in found  # beside it there may be nearest neighbours, which have no name
    assert {fitted.ids[share.row] for share in found["u0"].members} == {f"r{row}" for row in range(0, 22, 4)}
    alone = fitted.explain("r23").hyperedges
    assert {fitted.name_hyperedge(each.hyperedge) for each in alone} == {None}
    assert {row.id for row in fitted.suggest(12)} == {f"r{row}" for row in range(12, 24)}


@pytest.mark.parametrize(
    "kept", ["pairs.csv", {"file": 3, "names": []}, {"file": "p", "names": [1]}, {"file": "p", "names": ["x"] * 99}, {"file": "p"}]
)  # fmt: skip
def test_damaged_names_of_hyperedges_are_refused(grouped, tmp_path, monkeypatch, kept):
    saved = load_saved(grouped[0] / "model.safetensors")
    arrays = {name: tensor.numpy() for name, tensor in saved.tensors.items()}
    save_classifier(
        saved.classifier, tmp_path / "model.safetensors", saved.notes | {"hyperedges": kept}, arrays
    )
    with pytest.raises(ValueError, match="was not written by 'dahgnn fit', or is damaged"):
        FittedFolder.open(tmp_path)


def test_hyperedges_that_cannot_be_used_leave_no_folder(base, tmp_path):
    (tmp_path / "pairs.csv").write_text("name,group\nr0,x\nr99,x\n")
    options = FitOptions(label="kind", id="name", hyperedges=tmp_path / "pairs.csv")
    with pytest.raises(ValueError, match="Got 'r99' in line 3 of the file. Did you mean"):
        fit_table(base / "table.csv", tmp_path / "fit", options, SilentObserver())
    assert not (tmp_path / "fit").exists()
    survey = survey_fit(base / "table.csv", options)
    assert survey.table is None
    assert "r99" in survey.problems[0]
    (tmp_path / "fit").mkdir()
    shutil.copy(base / "pairs.csv", tmp_path / "fit" / "predictions.csv")
    inside = replace(options, hyperedges=tmp_path / "fit" / "predictions.csv")
    with pytest.raises(ValueError, match="The results in .* would replace predictions.csv"):
        fit_table(base / "table.csv", tmp_path / "fit", inside, SilentObserver())


def test_a_folder_of_pictures_is_fitted_and_predicted(tmp_path):
    for row in range(24):
        kind = ("dark", "light", "unlabelled")[row % 3]
        (tmp_path / "photos" / kind).mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(row).integers(0, 60, (6, 6))
        light = row % 3 == 1 or (kind == "unlabelled" and row % 2)
        Image.fromarray((noise + 150 * light).astype(np.uint8)).save(
            tmp_path / "photos" / kind / f"{row}.png"
        )
    options = FitOptions(networks=1, map="pca")
    fit_table(tmp_path / "photos", tmp_path / "fit", options, SilentObserver())
    fitted = FittedFolder.open(tmp_path / "fit")
    assert fitted.reading == Reading(shape=(6, 6))
    (tmp_path / "new").mkdir()
    for name, value in (("a", 20), ("b", 180)):
        Image.fromarray(np.full((40, 30, 3), value, dtype=np.uint8)).save(tmp_path / "new" / f"{name}.jpg")
    found = predict_table(tmp_path / "fit", tmp_path / "new", None, SilentObserver())
    assert found.ids == ("a.jpg", "b.jpg")
    assert [found.classes[place] for place in found.probabilities.argmax(1)] == ["dark", "light"]


def test_a_file_needs_the_name_of_its_labels(base, tmp_path):
    with pytest.raises(
        ValueError, match="A column of .*table.csv must have the labels. Got none. Name it with --label"
    ):
        fit_table(base / "table.csv", tmp_path / "fit", FitOptions(), SilentObserver())
    assert not (tmp_path / "fit").exists()
