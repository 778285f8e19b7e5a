"""`dahgnn fit`, `predict`, `explain` and `suggest`, as a user calls them."""

import csv
import errno
import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from report_cases import Reader

from dahgnn.cli.commands import main
from dahgnn.files.jsonl import lock_folder
from dahgnn.progress import tell_ensemble_epochs

pytest.importorskip("pandas")
pytest.importorskip("openTSNE")

NAMES = ["ant", "</script><script>alert(1)</script>", "cat, black"]


def write(path, rows=90, labelled=30, seed=0, delimiter=",", ends="\n", bom=False):
    """Three kinds of animal by four measures and a colour."""
    generator = np.random.default_rng(seed)
    kinds = np.arange(rows) % 3
    centres = np.random.default_rng(7).normal(size=(3, 4))
    measures = 4 * centres[kinds] + generator.normal(size=(rows, 4))
    lines = [["name", "a", "b", "c", "d", "colour", "constant", "kind"]]
    for row, (kind, values) in enumerate(zip(kinds, measures, strict=True)):
        label = NAMES[kind] if row < labelled else ""
        lines.append([f"x{row}", *(f"{value:.4f}" for value in values), ["red", "blue"][row % 2], "1", label])
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator=ends).writerows(lines)
    return [NAMES[kind] for kind in kinds]


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("own")
    write(base / "animals.csv")
    command = [
        "fit",
        str(base / "animals.csv"),
        "--label",
        "kind",
        "--id",
        "name",
        "--out",
        str(base / "fit"),
    ]
    assert main([*command, "--map", "pca", "-k", "5"]) == 0
    return base / "fit"


def test_a_fit_fills_its_folder(folder, capsys):
    assert {path.name for path in folder.iterdir()} >= {
        "model.safetensors",
        "predictions.csv",
        "metrics.json",
        "report.html",
    }
    rows = read(folder / "predictions.csv")
    names = ["id", "class", "predicted", "probability", "margin", "density", "given"]
    assert list(rows[0]) == [*names, *(f"p:{name}" for name in sorted(NAMES))]
    assert [row["id"] for row in rows] == [f"x{i}" for i in range(90)]
    right = np.mean([row["class"] == NAMES[i % 3] for i, row in enumerate(rows)])
    assert right > 0.9
    assert all(0 <= float(row["margin"]) <= float(row["probability"]) <= 1 for row in rows)
    assert [row["given"] for row in rows[:4]] == [NAMES[0], NAMES[1], NAMES[2], NAMES[0]]
    assert rows[50]["given"] == ""
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["labelled"] == 30
    assert metrics["held_out"] == 30  # each of the five networks held out another fifth
    assert metrics["networks"] == 5
    assert 0 < metrics["best_epoch"] <= metrics["epochs"]
    assert metrics["held_out_accuracy"] > 0.8
    assert metrics["assessment"]["accuracy"] == metrics["held_out_accuracy"]
    assert [sum(counts) for counts in metrics["assessment"]["confusion"]] == [10, 10, 10]
    assert metrics["assessment"]["baselines"]["logistic_regression"] > 0.8
    page = (folder / "report.html").read_text()
    assert "<script>alert(1)" not in page


def test_it_says_what_it_understood(tmp_path, capsys):
    write(tmp_path / "animals.csv")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--out", str(tmp_path / "out")]
    assert main([*command, "--drop", "name", "--map", "pca"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "animals.csv has 90 rows" in said
    assert "30 of 90 rows are labelled in 'kind', with 3 classes" in said
    assert "1 column ('constant') was left out" in said
    assert "held out are right" not in said


@pytest.mark.parametrize(
    "form",
    [{"delimiter": ";"}, {"ends": "\r\n"}, {"bom": True}, {"delimiter": "\t", "ends": "\r\n", "bom": True}],
)
def test_new_rows_of_any_form(folder, tmp_path, form, capsys):
    kinds = write(tmp_path / "new.csv", rows=60, labelled=0, seed=1, **form)
    target = tmp_path / "deep" / "new-labels.csv"
    assert main(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(target)]) == 0
    rows = read(target)
    names = ["id", "class", "predicted", "probability", "margin", "density"]
    assert list(rows[0]) == [*names, *(f"p:{name}" for name in sorted(NAMES))]
    assert np.mean([row["class"] == kind for row, kind in zip(rows, kinds, strict=True)]) > 0.9
    assert "60 rows. Written to" in capsys.readouterr().out


def test_fitted_rows_are_predicted_as_they_were(folder, tmp_path):
    write(tmp_path / "same.csv")
    assert main(["predict", str(folder), str(tmp_path / "same.csv"), "--out", str(tmp_path / "same")]) == 0
    before, after = read(folder / "predictions.csv"), read(tmp_path / "same")
    for old, new in zip(before, after, strict=True):
        assert new.pop("class") == old["predicted"]
        assert {name: old[name] for name in new} == new


def test_a_row_is_explained(folder, capsys):
    assert main(["explain", str(folder), "--row", "x40"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Row x40: ")
    assert "Labelled rows that its attention came from" in said
    assert "hyperedge around x" in said
    assert main(["explain", str(folder), "--row", "x400"]) == 2
    error = capsys.readouterr().err
    assert "must be an id of a fitted row. Got 'x400'. Did you mean 'x40'?" in error


def test_rows_are_suggested(folder, capsys):
    assert main(["suggest", str(folder), "-n", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "margin", "density", "predicted"]
    names = [line.split()[0] for line in lines[1:]]
    assert len(set(names)) == 4
    assert all(int(name[1:]) >= 30 for name in names)


def test_whoever_asks_for_more_rows_than_there_are_is_told(folder, capsys):
    assert main(["suggest", str(folder), "-n", "999"]) == 0
    said = capsys.readouterr()
    assert f"No more than {len(said.out.splitlines()) - 1} rows are unlabelled." in said.err


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("", "kind", "empty"),
        ("a,kind\n", "kind", "row"),
        ("a,kind\n1,x\n2,y\n", "knd", "Did you mean 'kind'"),
        ("a,kind\n1,x\n2,\n3,\n", "kind", "at least two classes. Got one class alone, 'x'"),
        ("a,kind\n1,\n2,\n", "kind", "at least two classes. Got no label at all"),
        ("a,kind\nhello,x\n2,y\n3,x\n4,y\n5,x\n6,y\n", "kind", "hello"),
        ("a,b,kind\n1,2,x\n1,2,y\n1,2,x\n", "kind", "column that can be a feature"),
    ],
)
def test_a_file_that_teaches_nothing_is_named(tmp_path, text, label, message, capsys):
    (tmp_path / "data.csv").write_text(text)
    out = tmp_path / "out"
    assert main(["fit", str(tmp_path / "data.csv"), "--label", label, "--out", str(out)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_fit_that_fails_leaves_the_last_one(folder, tmp_path, capsys):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (tmp_path / "bad.csv").write_text("a,kind\n1,x\n2,\n")
    assert main(["fit", str(tmp_path / "bad.csv"), "--label", "kind", "--out", str(folder)]) == 2
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_without_a_fit(tmp_path, capsys):
    for command in (["explain", str(tmp_path), "--row", "0"], ["suggest", str(tmp_path)]):
        assert main(command) == 2
        assert "Make one with 'dahgnn fit'" in capsys.readouterr().err
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    assert main(["suggest", str(tmp_path)]) == 2
    assert "cut, damaged or not safetensors" in capsys.readouterr().err


def test_the_page_shows_the_cells_of_a_row(folder):
    details = Reader((folder / "report.html").read_text(encoding="utf-8")).data()["details"]
    assert details["columns"] == ["a", "b", "c", "d", "colour", "constant"]
    first = read(folder.parent / "animals.csv")[0]
    assert details["rows"][0] == [first[name] or "–" for name in details["columns"]]


@pytest.mark.parametrize("rows", [4, 6, 8])
def test_a_few_rows_are_enough(tmp_path, rows):
    lines = ["a,b,kind"] + [f"{row % 2},{row},{'xy'[row % 2] if row < 4 else ''}" for row in range(rows)]
    (tmp_path / "few.csv").write_text("\n".join(lines) + "\n")
    for kind in ("auto", "pca"):
        command = ["fit", str(tmp_path / "few.csv"), "--label", "kind", "--out", str(tmp_path / kind)]
        assert main([*command, "--map", kind]) == 0
        assert len(read(tmp_path / kind / "predictions.csv")) == rows


def test_nothing_replaces_what_it_is_made_from(folder, tmp_path, capsys):
    write(tmp_path / "new.csv", rows=10)
    own = ("model.safetensors", "predictions.csv", "metrics.json", "report.html")
    (tmp_path / "link.csv").symlink_to(tmp_path / "new.csv")
    (tmp_path / "page.html").hardlink_to(folder / "report.html")
    before = [path.read_bytes() for path in (tmp_path / "new.csv", *(folder / name for name in own))]
    targets = {tmp_path / "new.csv": "made from", tmp_path / "link.csv": "made from"}
    targets |= {folder / name: "belongs to the fit" for name in (*own, "predictions.parquet")}
    for target, words in (targets | {tmp_path / "page.html": "belongs to the fit"}).items():
        assert main(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(target)]) == 2
        assert words in capsys.readouterr().err
    write(tmp_path / "predictions.csv")
    assert (
        main(
            [
                "fit",
                str(tmp_path / "predictions.csv"),
                "--label",
                "kind",
                "--drop",
                "name",
                "--out",
                str(tmp_path),
            ]
        )
        == 2
    )
    assert "would replace predictions.csv" in capsys.readouterr().err
    assert before == [path.read_bytes() for path in (tmp_path / "new.csv", *(folder / name for name in own))]


def test_a_folder_that_cannot_be_written_is_named_before_the_fit(tmp_path, capsys):
    write(tmp_path / "animals.csv")
    (tmp_path / "file").write_text("here")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--drop", "name"]
    assert main([*command, "--out", str(tmp_path / "file")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "cannot be written to" in said
    assert "Fit 90 rows" not in said


def test_ids_are_those_of_the_new_file(tmp_path, capsys):
    generator = np.random.default_rng(0)
    labels = np.arange(30) % 2
    np.save(tmp_path / "old.npy", generator.normal(size=(30, 2)) + 4 * labels[:, None])
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "ids.npy", np.array([f"old{i}" for i in range(30)]))
    paths = {name: str(tmp_path / f"{name}.npy") for name in ("old", "labels", "ids")}
    command = ["fit", paths["old"], "--label", paths["labels"], "--id", paths["ids"]]
    assert main([*command, "--out", str(tmp_path / "fit"), "--map", "pca"]) == 0
    assert read(tmp_path / "fit" / "predictions.csv")[3]["id"] == "old3"
    assert main(["predict", str(tmp_path / "fit"), paths["old"], "--out", str(tmp_path / "new.csv")]) == 0
    assert read(tmp_path / "new.csv")[3]["id"] == "3"


def test_a_new_file_without_the_ids_is_numbered(folder, tmp_path, capsys):
    write(tmp_path / "new.csv", rows=5)
    lines = [line.split(",", 1)[1] for line in (tmp_path / "new.csv").read_text().splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    assert main(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out")]) == 0
    assert [row["id"] for row in read(tmp_path / "out")] == ["0", "1", "2", "3", "4"]
    assert "no column 'name' for the ids" in " ".join(capsys.readouterr().err.split())


def test_names_steer_neither_terminal_nor_lines(tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    bad = "\x1b]0;pwned\x07\x1b[2J"
    frame = pandas.DataFrame(
        {"a": np.arange(12.0) ** 2, "kind": [f"{bad}x", "y"] * 6, "id": [f"r\r{i}" for i in range(12)]}
    )
    frame.loc[6:, "kind"] = None
    frame.to_parquet(tmp_path / "bad.parquet")
    command = [
        "fit",
        str(tmp_path / "bad.parquet"),
        "--label",
        "kind",
        "--id",
        "id",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(command) == 0
    assert main(["explain", str(tmp_path / "out"), "--row", "r\r7"]) == 0
    assert main(["suggest", str(tmp_path / "out"), "-n", "3"]) == 0
    said = "".join(capsys.readouterr())
    assert "\x1b]0;" not in said
    assert "\r7" not in said
    assert len(read(tmp_path / "out" / "predictions.csv")) == 12


def test_who_is_interrupted_at_the_map_has_the_rest(tmp_path, monkeypatch):
    def press(view):
        raise KeyboardInterrupt

    monkeypatch.setattr("dahgnn.report.fit_folder.fit_page", press)
    write(tmp_path / "animals.csv")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html").write_text("of another fit")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--drop", "name", "--networks", "1"]
    assert main([*command, "--out", str(tmp_path / "out"), "--map", "pca"]) == 130
    names = {path.name for path in (tmp_path / "out").iterdir()} - {".lock"}
    assert names == {"model.safetensors", "predictions.csv", "metrics.json"}
    assert main(["suggest", str(tmp_path / "out"), "-n", "2"]) == 0


@pytest.mark.parametrize("step", ["assess", "replace_metrics"])
def test_who_is_interrupted_at_the_comparison_has_predictions_and_model(tmp_path, monkeypatch, step):
    def press(*_):
        raise KeyboardInterrupt

    write(tmp_path / "animals.csv")
    out = tmp_path / "out"
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--id", "name", "--networks", "1"]
    command += ["--map", "pca", "--out", str(out)]
    assert main([*command, "-k", "3"]) == 0
    earlier = json.loads((out / "metrics.json").read_text())
    monkeypatch.setattr(f"dahgnn.report.fit_folder.{step}", press)
    assert main(command) == 130
    names = {path.name for path in out.iterdir()} - {".lock"}
    assert names == {
        "model.safetensors",
        "predictions.csv",
        "metrics.json",
    }  # the page was of the earlier fit
    metrics = json.loads((out / "metrics.json").read_text())
    assert (earlier["k"], metrics["k"]) == (3, 10)
    assert metrics["fit"] == hashlib.sha256((out / "predictions.csv").read_bytes()).hexdigest()
    assert "assessment" in earlier
    assert "assessment" not in metrics
    assert [row["id"] for row in read(out / "predictions.csv")] == [f"x{row}" for row in range(90)]
    # These refuse a model and predictions that are not of one fit.
    assert main(["suggest", str(out), "-n", "2"]) == 0
    assert main(["explain", str(out), "--row", "x40"]) == 0
    assert main(["predict", str(out), str(tmp_path / "animals.csv"), "--out", str(tmp_path / "new.csv")]) == 0


def test_an_interrupted_fit_leaves_the_best_so_far_but_no_older_fit(tmp_path, monkeypatch, capsys):
    write(tmp_path / "animals.csv")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--drop", "name", "--map", "pca"]
    command += ["--out", str(tmp_path / "out")]

    def press(*arguments):
        tell = tell_ensemble_epochs(*arguments)

        def hear(network, epoch):
            if epoch.epoch == 3:
                signal.raise_signal(signal.SIGINT)
            tell(network, epoch)

        return hear

    monkeypatch.setattr("dahgnn.report.fit_folder.tell_ensemble_epochs", press)
    assert main(command) == 130
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["stopped"] == "interrupted"
    monkeypatch.setattr("dahgnn.report.fit_folder.tell_ensemble_epochs", tell_ensemble_epochs)
    assert main(command) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    capsys.readouterr()
    monkeypatch.setattr("dahgnn.report.fit_folder.tell_ensemble_epochs", press)
    assert main(command) == 130
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert "stays." in capsys.readouterr().err


def test_without_held_out_rows_no_accuracy_is_known(tmp_path, capsys):
    write(tmp_path / "animals.csv")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--drop", "name", "--networks", "2"]
    assert main([*command, "--out", str(tmp_path / "out"), "--map", "pca", "--validation", "0"]) == 0
    assert "No label was held out to tell" in capsys.readouterr().out
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (metrics["held_out"], metrics["held_out_accuracy"], metrics["networks"]) == (0, None, 2)


@pytest.mark.parametrize("step", ["as_csv", "write_json", "save_classifier"])
def test_a_disk_that_is_full_leaves_the_last_fit_whole(folder, tmp_path, monkeypatch, capsys, step):
    shutil.copytree(folder, tmp_path / "fit")
    before = {path.name: path.read_bytes() for path in (tmp_path / "fit").iterdir()}

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"dahgnn.report.fit_folder.{step}", fail)
    command = [
        "fit",
        str(folder.parent / "animals.csv"),
        "--label",
        "kind",
        "--id",
        "name",
        "--networks",
        "1",
    ]
    assert main([*command, "--map", "pca", "--out", str(tmp_path / "fit")]) == 2
    assert "The disk is full" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in (tmp_path / "fit").iterdir()} == before


def test_a_second_fit_into_the_same_folder_is_refused_before_it_reads(tmp_path, capsys):
    with lock_folder(tmp_path):
        assert main(["fit", "nothing.csv", "--label", "kind", "--out", str(tmp_path)]) == 2
    assert f"Another process works in {tmp_path}" in capsys.readouterr().err


def test_a_file_whose_name_is_no_text_is_fitted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    write(path)
    command = ["fit", str(path), "--label", "kind", "--drop", "name", "--networks", "1", "--map", "pca"]
    assert main(command) == 0
    out = tmp_path / "runs" / "caf?.csv"
    assert {each.name for each in out.iterdir()} > {"predictions.csv", "model.safetensors", "report.html"}
    assert main(["suggest", str(out), "-n", "1"]) == 0
    assert main([*command, "--out", str(tmp_path / os.fsdecode(b"\xff"))]) == 2
    assert "must have a name in UTF-8" in capsys.readouterr().err


def test_tables_of_one_name_have_folders_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(12, 2)) + 4 * (np.arange(12) % 2)[:, None]
    np.savez(tmp_path / "a.npz", X=rows, y=np.arange(12) % 2)
    lines = [f"{x},{row % 2}" for row, (x, _) in enumerate(rows)]
    (tmp_path / "a.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    for name in ("a.npz", "a.csv"):
        words = ["fit", name, "--label", "y", "--networks", "1", "--map", "pca", "--parquet"]
        assert main(words) == 0
        assert f"Written to {Path('runs', name)}: " in capsys.readouterr().out
        frame = pytest.importorskip("pandas").read_parquet(Path("runs", name, "predictions.parquet"))
        assert frame["id"].tolist() == [row["id"] for row in read(Path("runs", name, "predictions.csv"))]


def test_parquet_of_an_earlier_fit_does_not_stay(tmp_path):
    write(tmp_path / "animals.csv")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--drop", "name", "--networks", "1"]
    command += ["--map", "pca", "--out", str(tmp_path / "out")]
    assert main([*command, "--parquet"]) == 0
    assert (tmp_path / "out" / "predictions.parquet").exists()
    assert main(command) == 0
    assert not (tmp_path / "out" / "predictions.parquet").exists()


def test_a_given_label_stays_and_a_wrong_one_is_doubted(tmp_path):
    write(tmp_path / "animals.csv")
    lines = (tmp_path / "animals.csv").read_text().splitlines()
    assert lines[1].endswith(",ant")
    lines[1] = lines[1].removesuffix("ant") + '"cat, black"'  # it is no cat
    (tmp_path / "animals.csv").write_text("\n".join(lines) + "\n")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--id", "name", "--map", "pca"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    first = read(tmp_path / "out" / "predictions.csv")[0]
    assert first["class"] == first["given"] == "cat, black"
    probabilities = {name: float(first[f"p:{name}"]) for name in NAMES}
    assert float(first["probability"]) == max(probabilities.values()) == probabilities[first["predicted"]]
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [label["id"] for label in metrics["assessment"]["doubtful"]][:1] == ["x0"]


def test_json_is_one_object_on_standard_output(folder, tmp_path, capsys):
    write(tmp_path / "animals.csv")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--id", "name", "--networks", "1"]
    assert main([*command, "--map", "none", "--json", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    fitted = json.loads(said.out)
    assert "Fit 90 rows" in said.err
    assert fitted["folder"] == str(tmp_path / "out")
    assert fitted["files"] == ["model.safetensors", "metrics.json", "predictions.csv", "report.html"]
    kept = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert {**kept, "folder": fitted["folder"], "files": fitted["files"]} == fitted
    assert fitted["command"].startswith("dahgnn fit ")
    assert fitted["sha256"] == hashlib.sha256((tmp_path / "animals.csv").read_bytes()).hexdigest()
    assert (fitted["seed"], fitted["k"]) == (0, 10)
    assert any("90 rows" in note for note in fitted["notes"])
    new = ["predict", str(folder), str(tmp_path / "animals.csv"), "--out", str(tmp_path / "new.csv")]
    assert main([*new, "--json"]) == 0
    predicted = json.loads(capsys.readouterr().out)
    assert (predicted["rows"], sum(predicted["classes"].values())) == (90, 90)
    assert predicted["file"] == str(tmp_path / "new.csv")
    assert main(["suggest", str(folder), "-n", "3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 3
    assert main(["explain", str(folder), "--row", "x40", "--row", "x3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["id"], row["given"]) for row in rows] == [("x40", None), ("x3", NAMES[0])]
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1)


def test_several_rows_are_explained_in_turn(folder, capsys):
    assert main(["explain", str(folder), "--row", "x40", "--row", "x3"]) == 0
    said = capsys.readouterr().out
    assert said.index("Row x40: ") < said.index("Row x3: ")


def test_predictions_go_to_standard_output(folder, tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "new.csv", rows=5)
    command = ["predict", str(folder), "new.csv", "--out"]
    assert main([*command, "same.csv"]) == 0
    capfdbinary.readouterr()
    assert main([*command, "-"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "same.csv").read_bytes()
    assert not (tmp_path / "-").exists()
    assert main([*command, "-", "--json"]) == 2
    assert b"Got both" in capfdbinary.readouterr().err


def test_known_shares_of_classes_are_met(tmp_path, capsys):
    # Two kinds that cannot be told apart: the share decides.
    rows = np.random.default_rng(0).normal(size=(60, 2))
    lines = [f"{x:.3f},{y:.3f},{'uv'[n % 2] if n < 40 else ''}" for n, (x, y) in enumerate(rows)]
    (tmp_path / "t.csv").write_text("a,b,kind\n" + "\n".join(lines) + "\n")
    command = [
        "fit",
        str(tmp_path / "t.csv"),
        "--label",
        "kind",
        "--map",
        "none",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*command, "--class-prior", "u=0.9"]) == 0
    said = capsys.readouterr()
    assert "class by class" not in said.err
    assert "of the held-out labels, which need not have the shares of --class-prior, were found" in said.out
    unlabelled = read(tmp_path / "out" / "predictions.csv")[40:]
    assert np.mean([float(row["p:u"]) for row in unlabelled]) > 0.8
    kept = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert kept["settings"]["class_prior"] == pytest.approx({"u": 0.9, "v": 0.1})
    assert main([*command, "--dry-run"]) == 0
    assert "All classes have 20 labels each" in capsys.readouterr().out
    for word, message in (
        ("u", "NAME=SHARE with a share above 0. Got 'u'"),
        ("w=2", "--class-prior must name a class. Got 'w'"),
    ):
        assert main([*command, "--class-prior", word]) == 2
        assert message in capsys.readouterr().err


def test_classes_may_count_more_or_less(tmp_path, capsys):
    # Two kinds that cannot be told apart: who counts 20 times as much gets the rows.
    rows = np.random.default_rng(0).normal(size=(60, 2))
    lines = [f"{x:.3f},{y:.3f},{'uv'[n % 2] if n < 40 else ''}" for n, (x, y) in enumerate(rows)]
    (tmp_path / "t.csv").write_text("a,b,kind\n" + "\n".join(lines) + "\n")
    command = ["fit", str(tmp_path / "t.csv"), "--label", "kind", "--map", "none"]
    shares = {}
    for weights in (["u=20"], ["v=20", "u=1"], ["balanced"]):
        words = [word for weight in weights for word in ("--class-weight", weight)]
        assert main([*command, *words, "--out", str(tmp_path / "out")]) == 0
        found = read(tmp_path / "out" / "predictions.csv")
        shares[weights[0]] = np.mean([float(row["p:u"]) for row in found])
    assert shares["u=20"] > 0.8
    assert 0.4 < shares["balanced"] < 0.6
    assert shares["v=20"] < 0.2
    kept = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert kept["settings"]["class_weight"] == "balanced"
    capsys.readouterr()
    for word, message in (
        ("w=2", "must name a class. Got 'w'"),
        ("u=0", "a weight above 0. Got 'u=0'"),
        ("u", "NAME=WEIGHT with a weight above 0. Got 'u'"),
        ("u=much", "Got 'u=much'"),
    ):
        assert main([*command, "--class-weight", word, "--out", str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "-1"], "The option --seed must be between 0 and 2**32 - 1. Got -1."),
        (["--validation", "2"], "The option --validation must be a finite number"),
        (["-k", "0"], "The option -k must be at least 1. Got 0."),
    ],
)
def test_errors_name_the_option(tmp_path, capsys, words, message):
    write(tmp_path / "animals.csv")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--drop", "name"]
    assert main([*command, "--out", str(tmp_path / "out"), *words]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert message in said
    assert "parameter of" not in said


def test_the_summary_has_baselines_and_doubtful_labels(tmp_path, capsys):
    write(tmp_path / "animals.csv")
    lines = (tmp_path / "animals.csv").read_text().splitlines()
    lines[1] = lines[1].removesuffix("ant") + '"cat, black"'  # it is no cat
    (tmp_path / "animals.csv").write_text("\n".join(lines) + "\n")
    command = ["fit", str(tmp_path / "animals.csv"), "--label", "kind", "--id", "name", "--map", "none"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert (
        "96.7 % of the held-out labels were found; on the same labels: always the commonest class 3" in said
    )
    assert "%, logistic regression 9" in said
    assert "1 given label is doubtful: report.html and metrics.json list" in said
