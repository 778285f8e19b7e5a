"""The examples and the code of the docs run, and find what they should."""

import ast
import os
import re
import runpy
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient
from page_blocks import blocks_of, run_page
from PIL import Image
from scipy.sparse import csr_array

from dahgnn import Hypergraph

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
NAMES = np.array(["red", "green", "blue"])[TRUTH]


@pytest.fixture
def known(tmp_path, monkeypatch):
    """What the pages say that a reader has: names, and files in the folder."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    rows = 4 * generator.standard_normal((3, 8))[TRUTH] + generator.standard_normal((150, 8))
    write_files(rows)
    return {
        "X": rows,
        "y": np.where(np.arange(150) < 60, TRUTH, -1),
        "X_new": rows[::2] + 0.01,
        "sentences": [f"a {name} thing, number {row}" for row, name in enumerate(NAMES)],
        "new_sentences": ["one red thing", "another blue thing"],
        "topics": [name if row < 60 else None for row, name in enumerate(NAMES)],
        "images": rows.reshape(150, 2, 4),
        "network": lambda images: images.reshape(len(images), -1),
        "names": np.where(np.arange(150) < 60, NAMES, ""),
        "papers": generator.permuted(np.arange(150).reshape(50, 3).T, axis=1).flatten(),
        "groups": np.arange(150) % 50,
        "n_groups": 50,
    }


def write_files(rows: np.ndarray) -> None:
    """Write the files that the pages name into this folder: tables in several forms, and pictures."""
    import pandas as pd

    partly = np.where(np.arange(150) < 60, NAMES, "")
    table = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1]})
    table.assign(colour=partly).to_csv("data.csv", index=False)
    table.assign(species=partly).to_csv("flowers.csv", index=False)
    table.assign(species=partly).to_csv("big.csv.gz", index=False)
    table.assign(species=partly).to_excel("book.xlsx", sheet_name="2024", index=False)
    table.assign(colour=NAMES).to_csv("new.csv", index=False)
    plants = table.assign(species=partly, name=[f"plant {row}" for row in range(150)])
    for folder in ("plants", "new-plants"):
        Path(folder).mkdir()
        for part in range(3):
            plants[50 * part : 50 * part + 50].to_parquet(f"{folder}/part-{part:05d}.parquet", index=False)
    export = table.set_axis(["Länge", "Breite"], axis=1).assign(art=NAMES)
    export.to_csv("export.csv", sep=";", decimal=",", encoding="cp1252", index=False, float_format="%.3f")
    groups = [f"{name}-{row % 6}" for row, name in enumerate(NAMES)]
    pairs = pd.DataFrame({"row": range(150), "group": groups})
    pairs.to_csv("pairs.csv", index=False)
    table.assign(topic=partly, paper=range(150)).to_csv("papers.csv", index=False)
    numbers = pairs["group"].astype("category").cat.codes.to_numpy()
    Hypergraph.from_incidence(range(150), numbers, n_nodes=150, n_hyperedges=6).to_hif("graph.hif.json")
    texts = [f"This {name} thing is number {row}, and it is good." for row, name in enumerate(NAMES)]
    pd.DataFrame({"text": texts, "opinion": partly}).to_csv("reviews.csv", index=False)
    for number, name in enumerate(NAMES[:40]):
        for folder in ("photos/" + (name if number < 20 else "unlabelled"), "more-photos"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4), name).save(Path(folder) / f"{number}.png")


def fitted_rows_are_right(known):
    assert np.mean(known["classifier"].transduction_ == TRUTH) > 0.9


def check_how_to(known):
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


def check_tables(known):
    assert known["table"].names == ("a", "b")
    predicted = known["classifier"].classes_[known["probabilities"].argmax(1)]
    assert np.mean(predicted == NAMES) > 0.8
    assert np.mean(known["grouped"].transduction_ == NAMES) > 0.9
    assert known["given"].hypergraph.n_hyperedges == 6
    assert known["export"].names == ("Länge", "Breite")
    assert known["export"].features[0, 0] == pytest.approx(known["X"][0, 0], abs=0.001)
    for name in ("flowers.csv", "export.csv", "book.xlsx", "photos", "big"):
        assert (Path("runs") / name / "predictions.csv").is_file(), name


def check_text(known):
    assert known["new_topics"].tolist() == ["red", "blue"]
    assert Path("runs/reviews/predictions.csv").is_file()


def check_images(known):
    assert np.mean(known["labels"] == TRUTH) > 0.9
    lines = Path("runs/features/predictions.csv").read_text().splitlines()[1:]
    assert np.mean([line.split(",")[1] == name for line, name in zip(lines, NAMES, strict=True)]) > 0.9


def check_start(known):
    assert len(known["table"].labels) == 130
    assert len(Path("runs/flowers/new-predictions.csv").read_text().splitlines()) == 21


def check_gpu(known):
    fitted_rows_are_right(known)
    assert known["result"].accuracy(TRUTH, np.arange(60, 150)) > 0.9


# What must have come of the code of a page; pages that only name commands have nothing to look at.
CHECKS = {
    "docs/index.md": check_start,
    "docs/how-to.md": check_how_to,
    "docs/tables.md": check_tables,
    "docs/guides/text.md": check_text,
    "docs/guides/images.md": check_images,
    "docs/guides/hypergraph.md": fitted_rows_are_right,
    "docs/guides/large-data.md": fitted_rows_are_right,
    "docs/guides/gpu.md": check_gpu,
}
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if blocks_of(page)
]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page, known, capsys):
    run_page(ROOT / page, known, capsys)
    if page in CHECKS:
        CHECKS[page](known)


def test_pages_with_code_are_looked_at():
    assert CHECKS.keys() <= set(PAGES)
    with_code = {
        page for page in PAGES if any(language == "python" for language, _ in blocks_of(ROOT / page))
    }
    assert with_code - {"README.md"} == CHECKS.keys()  # that of the README has a test in test_docs.py


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def statements(code: str) -> list[str]:
    return [ast.dump(statement) for statement in ast.parse(code).body]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_all_that_its_script_has(path):
    """So that the two do not drift apart; the notebook may have more, and words between."""
    cells = nbformat.read(path, 4).cells
    code = [line for cell in cells if cell.cell_type == "code" for line in statements(cell.source)]
    _, *script = statements(path.with_suffix(".py").read_text(encoding="utf-8"))
    assert [line for line in script if line not in code] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_says_what_it_says(path, tmp_path, monkeypatch):
    paths = os.pathsep.join(each for each in sys.path if each)
    monkeypatch.setenv("PYTHONPATH", paths)  # the kernel is a process of its own
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("DAHGNN_TEST_HYPERGRAPHS", raising=False)
    kept = nbformat.read(path, 4)
    ran = NotebookClient(
        nbformat.from_dict(kept), timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    for before, after in zip(kept.cells, ran.cells, strict=True):
        assert_alike(printed(before), printed(after))


def printed(cell) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", ()))


def assert_alike(told: str, found: str) -> None:
    """Compare word by word, and percentages within some points: another processor rounds otherwise."""
    assert not re.search(r"/(home|root|tmp|usr)/", told), "a path of the machine where it was written"
    percent = r"\d+\.\d%"
    assert re.sub(rf"\s*{percent}", " %", told) == re.sub(rf"\s*{percent}", " %", found)
    for before, after in zip(re.findall(percent, told), re.findall(percent, found), strict=True):
        assert float(before[:-1]) == pytest.approx(float(after[:-1]), abs=8)


def test_every_notebook_is_linked_from_a_guide():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    for path in NOTEBOOKS:
        assert any(f"examples/{path.name})" in page for page in pages), path.name
