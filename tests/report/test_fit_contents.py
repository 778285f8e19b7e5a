"""What the page of a fit gets to show, by ``dahgnn fit`` as a user calls it."""

import json

import numpy as np
import pytest
from report_cases import Reader

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.explanation import explain
from dahgnn.classifier.stacking import say_combination
from dahgnn.cli.commands import main
from dahgnn.report import fit_contents
from dahgnn.report.fit_contents import MAPS, _own_hyperedges

pytest.importorskip("openTSNE")


@pytest.mark.parametrize("shape", [(8, 8), (64,), (8, 6), (6, 8, 3)], ids=str)
def test_images_are_seen_as_such(tmp_path, shape):
    """Rows of grey or coloured pixels become pictures on the page, also where some pixels never change."""
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 2
    images = generator.integers(0, 100, size=(40, *shape)) + 100 * labels.reshape(-1, *[1] * len(shape))
    images[:, :2] = 0
    np.savez(tmp_path / "pictures.npz", X=images.astype(np.uint8), y=np.where(np.arange(40) < 20, labels, -1))
    command = ["fit", str(tmp_path / "pictures.npz"), "--label", "y", "--out", str(tmp_path / "out")]
    assert main([*command, "--map", "pca", "--networks", "1"]) == 0
    images = Reader((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).data()["images"]
    assert images["sheets"][0].startswith("data:image/png")


def test_numbers_that_are_no_pixels_are_no_images(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 2
    np.savez(tmp_path / "numbers.npz", X=generator.normal(size=(40, 8, 8)), y=labels)
    command = ["fit", str(tmp_path / "numbers.npz"), "--label", "y", "--out", str(tmp_path / "out")]
    assert main([*command, "--map", "pca", "--networks", "1"]) == 0
    assert Reader((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).data()["images"] is None


def test_the_page_says_whom_the_labels_come_from(tmp_path):
    features = np.random.default_rng(0).normal(size=(40, 3)) + 3 * (np.arange(40) % 2)[:, None]
    np.savez(tmp_path / "numbers.npz", X=features, y=np.where(np.arange(40) < 20, np.arange(40) % 2, -1))
    command = ["fit", str(tmp_path / "numbers.npz"), "--label", "y", "--out", str(tmp_path / "out")]
    assert main([*command, "--map", "none", "--networks", "1"]) == 0
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["decision"].endswith(f"labels come from {say_combination(metrics['combination'])}")
    text = Reader((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).text
    assert f"Decided from the data{metrics['decision']}" in " ".join(text.split())


def test_the_page_says_that_no_label_was_held_out(tmp_path):
    """One label a class leaves none to hold out."""
    features = np.random.default_rng(0).normal(size=(20, 3)) + 3 * (np.arange(20) % 2)[:, None]
    np.savez(tmp_path / "numbers.npz", X=features, y=np.where(np.arange(20) < 2, np.arange(20) % 2, -1))
    command = ["fit", str(tmp_path / "numbers.npz"), "--label", "y", "--out", str(tmp_path / "out")]
    assert main([*command, "--map", "pca", "--networks", "1"]) == 0
    text = Reader((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).text
    assert "as no label could be held out" in " ".join(text.split())


@pytest.mark.parametrize(
    ("kind", "rows", "words"),
    [
        ("auto", 60, "principal components"),
        ("auto", 100, "t-SNE"),
        ("tsne", 60, "t-SNE"),
        ("pca", 100, "principal components"),
    ],
)
def test_the_page_says_how_the_map_was_made(tmp_path, kind, rows, words):
    assert kind in MAPS
    labels = np.arange(rows) % 2
    features = np.random.default_rng(0).normal(size=(rows, 3)) + 3 * labels[:, None]
    np.savez(tmp_path / "numbers.npz", X=features, y=labels)
    command = ["fit", str(tmp_path / "numbers.npz"), "--label", "y", "--out", str(tmp_path / "out")]
    assert main([*command, "--map", kind, "--networks", "1"]) == 0
    text = Reader((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).text
    assert f"placed by {words} so that" in " ".join(text.split())


def test_the_page_says_how_the_fit_was_made_and_what_was_understood(tmp_path):
    labels = np.arange(60) % 2
    cells = [f"{3 * label},{row % 7},{label if row % 3 else ''}" for row, label in enumerate(labels)]
    (tmp_path / "small.csv").write_text("a,b,y\n" + "\n".join(cells))
    command = ["fit", str(tmp_path / "small.csv"), "--label", "y", "--out", str(tmp_path / "out")]
    assert main([*command, "--map", "pca", "--networks", "1", "--seed", "3", "-k", "5"]) == 0
    reader = Reader((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    words = " ".join(reader.text.split())
    assert "Neighbours of a row (k)5 Seed3 Versiondahgnn" in words
    assert "small.csv has 60 rows" in words
    assert reader.data()["details"] | {"rows": []} == {"columns": ["a", "b"], "rows": [], "of": 2}


ROWS = np.random.default_rng(0).normal(size=(30, 3)) + 3 * (np.arange(30) % 2)[:, None]
GIVEN = np.where(np.arange(30) < 14, np.arange(30) % 2, -1)


def fitted(hypergraph=None):
    return DAHGNNClassifier(k=4, networks=1, random_state=0).fit(ROWS, GIVEN, hypergraph=hypergraph)


def test_the_hyperedge_of_a_row_is_the_one_around_it():
    classifier = fitted()
    members, weights = _own_hyperedges(classifier)
    for row in range(30):
        own = next(each for each in explain(classifier, row).hyperedges if each.centre == row)
        expected = {share.row: share.weight for share in own.members}
        others = sorted(set(expected) - {row})
        assert members[row].tolist() == [row, *others]
        np.testing.assert_allclose(weights[row], [expected[member] for member in members[row]], rtol=1e-5)


@pytest.mark.parametrize("most", [64, 3])
def test_the_hyperedge_of_a_row_among_given_ones_is_the_one_it_attends_to_most(monkeypatch, most):
    """Rows 24 to 29 are in none of them, and row 0 is in many."""
    monkeypatch.setattr(fit_contents, "_MOST_MEMBERS", most)
    hyperedges = [[0, *range(first, first + 8)] for first in (1, 5, 9, 16)] + [[23, 22]]
    classifier = fitted(Hypergraph.from_hyperedges(hyperedges, n_nodes=30))
    members, weights = _own_hyperedges(classifier)
    assert members.shape == weights.shape == (30, min(9, most))
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    for row in range(30):
        own = explain(classifier, row).hyperedges[0]
        expected = {share.row: share.weight for share in own.members}
        shown = [member for member in members[row].tolist() if member >= 0]
        strongest = [share.row for share in own.members if share.row != row][: most - 1]
        assert shown[0] == row
        assert set(shown[1:]) == set(strongest)
        share = np.array([expected[member] for member in shown])
        np.testing.assert_allclose(weights[row, : len(shown)], share / share.sum(), rtol=1e-5)
        assert not weights[row, len(shown) :].any()


def test_more_hyperedges_than_one_around_a_row_are_given_ones():
    hypergraph = Hypergraph.from_hyperedges(
        [[0, 1, 2], [0, 3], *([row, row - 1] for row in range(1, 30))],
        n_nodes=30,
        centres=[0, 0, *range(1, 30)],
    )
    members, _ = _own_hyperedges(fitted(hypergraph))
    assert (members[:, 0] == np.arange(30)).all()


def test_the_page_of_given_hyperedges(tmp_path, capsys):
    lines = [
        f"r{row},{x:.3f},{y:.3f},{label if label >= 0 else ''}"
        for row, ((x, y, _), label) in enumerate(zip(ROWS, GIVEN, strict=True))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["id,x,y,kind", *lines]))
    pairs = [f"r{row},{'</script>' if row % 2 else 'even'}" for row in range(25)]
    (tmp_path / "p.csv").write_text("\n".join(["id,group", *pairs]))
    command = [
        "fit",
        str(tmp_path / "t.csv"),
        "--label",
        "kind",
        "--id",
        "id",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*command, "--hyperedges", str(tmp_path / "p.csv"), "--map", "pca", "--networks", "1"]) == 0
    words = " ".join(Reader((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).text.split())
    assert (
        "Hyperedgesp.csv; of a row the page shows the one that it attends to most, with at most 64" in words
    )
    assert "Neighbours of a new row (k)7" in words
    assert "p.csv has 2 hyperedges of 12 to 13 rows." in words
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    assert "given hyperedges" in metrics["decision"] or "nearest neighbours" in metrics["decision"]
    assert metrics["decision"] in capsys.readouterr().out
