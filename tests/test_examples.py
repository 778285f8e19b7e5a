"""The examples and the code of the docs run, and find what they should."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _one_thread():
    """Small data gain nothing by more, and on a busy machine threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(name: str) -> dict[str, object]:
    return runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


def accuracies(shown: str) -> list[float]:
    """Return the percentages in the lines that speak of accuracy."""
    lines = [line for line in shown.splitlines() if line.startswith("Accuracy")]
    return [float(number) for line in lines for number in re.findall(r"([\d.]+)%", line)]


def test_digits(capsys):
    run("digits.py")
    rest, new = accuracies(capsys.readouterr().out)
    assert rest > 90
    assert new > 90


def test_text(capsys):
    run("text.py")
    shown = capsys.readouterr().out
    (rest,) = accuracies(shown)
    assert rest > 90
    assert "cooking: Who burnt the rice?" in shown
    assert "football: Our captain scored twice." in shown


def test_table(capsys):
    pytest.importorskip("pandas")
    names = run("table.py")
    shown = capsys.readouterr().out
    rest, new = accuracies(shown)
    assert rest > 85
    assert new > 75
    assert "1 column is text, with one feature for each value: 'strength' ('light', 'strong')." in shown
    *_, header, first, _, _ = shown.splitlines()
    assert header.split("  ") == ["row", "grower 1", "grower 2", "grower 3"]
    expected = names["classifier"].predict_proba(names["new"].features)[0]
    np.testing.assert_allclose([float(cell[:-1]) for cell in first.split()[1:]], 100 * expected, atol=0.06)


def test_own_hypergraph(capsys, monkeypatch):
    monkeypatch.delenv("DAHGNN_TEST_HYPERGRAPHS", raising=False)
    run("own_hypergraph.py")
    shown = capsys.readouterr().out
    by_citations, by_neighbours = accuracies(shown)
    assert by_citations > 85
    assert by_citations > by_neighbours + 20
    assert "n_nodes=600" in shown


def test_own_hypergraph_reads_a_file(capsys, monkeypatch, tmp_path):
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 2
    words = csr_array(
        (generator.random((120, 30)) < 0.1 + 0.2 * (np.arange(30) % 2 == labels[:, None])) * 1.0
    )
    np.savez(
        tmp_path / "cocitation_cora.npz",
        node=np.concatenate([generator.permutation(np.flatnonzero(labels == j % 2))[:4] for j in range(60)]),
        hyperedge=np.arange(60).repeat(4),
        labels=labels.astype(np.int16),
        feature_data=words.data,
        feature_indices=words.indices,
        feature_indptr=words.indptr,
        feature_shape=words.shape,
    )
    monkeypatch.setenv("DAHGNN_TEST_HYPERGRAPHS", str(tmp_path))
    run("own_hypergraph.py")
    shown = capsys.readouterr().out
    assert "n_nodes=120" in shown
    assert accuracies(shown)[0] > 80


def test_pytorch_layers(capsys):
    pytest.importorskip("torch_geometric")
    names = run("pytorch_layers.py")
    (rest,) = accuracies(capsys.readouterr().out)
    assert rest > 88
    assert len(names["result"].history) > 10


def test_every_example_has_a_test_and_a_line_in_the_docs():
    examples = {path.name for path in (ROOT / "examples").glob("*.py")}
    tested = set(re.findall(r'run\("(\w+\.py)"\)', Path(__file__).read_text(encoding="utf-8")))
    page = (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8")
    assert examples == tested
    assert examples == set(re.findall(r"\]\(\.\./examples/(\w+\.py)\)", page))


TRUTH = np.arange(150) % 3


@pytest.fixture
def known(tmp_path, monkeypatch):
    """What the pages say that a reader has: names, and files in the folder."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    rows = 4 * generator.standard_normal((3, 8))[TRUTH] + generator.standard_normal((150, 8))
    names = np.array(["red", "green", "blue"])[TRUTH]
    for file, labels in (
        ("data.csv", [name if row < 60 else "" for row, name in enumerate(names)]),
        ("new.csv", names),
    ):
        lines = [f"{a},{b},{label}" for (a, b, *_), label in zip(rows, labels, strict=True)]
        Path(file).write_text("\n".join(["a,b,colour", *lines]))
    cells = [
        f"{a:.3f};{b:.3f};{label}".replace(".", ",") for (a, b, *_), label in zip(rows, names, strict=True)
    ]
    Path("export.csv").write_text("\n".join(["Länge;Breite;art", *cells]), encoding="cp1252")
    members = [(row, f"{name}-{row % 6}") for row, name in enumerate(names)]
    Path("pairs.csv").write_text("\n".join(["row,group", *(f"{row},{group}" for row, group in members)]))
    return {
        "X": rows,
        "y": np.where(np.arange(150) < 60, TRUTH, -1),
        "X_new": rows[::2] + 0.01,
        "sentences": [f"a {name} thing, number {row}" for row, name in enumerate(names)],
        "new_sentences": ["one red thing", "another blue thing"],
        "topics": [name if row < 60 else None for row, name in enumerate(names)],
        "papers": generator.permuted(np.arange(150).reshape(50, 3).T, axis=1).flatten(),
        "groups": np.arange(150) % 50,
        "n_groups": 50,
    }


def run_page(name, known):
    """Run all code of a page, from top to bottom, as one program."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, known)  # noqa: S102, it is our own


def test_the_code_of_the_how_to_runs(known):
    run_page("how-to.md", known)
    assert np.mean(known["labels"] == TRUTH) > 0.9
    assert np.mean(known["new_labels"] == TRUTH[::2]) > 0.9
    assert known["new_topics"].tolist() == ["red", "blue"]
    assert known["table"].names == ("a", "b")
    assert known["result"].accuracy(TRUTH, np.arange(60, 150)) > 0.9
    expected = np.zeros((150, 50))
    expected[known["papers"], known["groups"]] = 1
    np.testing.assert_array_equal(known["matrix"].toarray(), expected)
    assert known["again"].n_incidences == 150
    assert known["nodes"].shape == (150, 16)


def test_the_code_on_tables_runs(known):
    run_page("tables.md", known)
    assert known["table"].names == ("a", "b")
    predicted = known["classifier"].classes_[known["probabilities"].argmax(1)]
    assert np.mean(predicted == np.array(["red", "green", "blue"])[TRUTH]) > 0.8
    assert np.mean(known["grouped"].transduction_ == np.array(["red", "green", "blue"])[TRUTH]) > 0.9
    assert known["given"].hypergraph.n_hyperedges == 6
    assert known["export"].names == ("Länge", "Breite")
    assert known["export"].features[0, 0] == pytest.approx(known["X"][0, 0], abs=0.001)
