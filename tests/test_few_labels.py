import importlib
import json
import re
import sys
from pathlib import Path

import pytest
import torch

METHODS = ("LabelSpreading", "LogisticRegression")


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    script = importlib.import_module("few_labels")

    def main(*words):
        monkeypatch.setattr(sys, "argv", ["few_labels.py", *map(str, words)])
        script.main()

    threads = torch.get_num_threads()
    yield main
    torch.set_num_threads(threads)


def test_runs_resume_and_become_tables(run, tmp_path, capsys):
    file = tmp_path / "runs.jsonl"
    words = ("--out", file, "--sets", "wine", "--labels", 5, 20, 40, "--seeds", 2, "--methods")
    run(*words, "LabelSpreading")
    once = file.read_text()
    run(*words, *METHODS)
    assert file.read_text().startswith(once)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # 40 labels would leave too few of the 48 rows of the smallest class.
    cells = [(line["per_class"], line["seed"], line["method"]) for line in lines]
    assert sorted(cells) == sorted((c, s, m) for c in (5, 20) for s in (0, 1) for m in METHODS)
    assert {(line["per_class"], line["tested"]) for line in lines} == {(5, 178 - 15), (20, 178 - 60)}
    assert len({line["split"] for line in lines}) == 4
    capsys.readouterr()
    run("--report", file)
    rows = [row.split(" | ") for row in capsys.readouterr().out.splitlines()]
    assert ["| Labels a class", "5", "20 |"] in rows
    means = {
        m: sum(50 * line["accuracy"] for line in lines if line["method"] == m and line["per_class"] == 20)
        for m in METHODS
    }
    for method, mean in means.items():
        shown = next(row[2] for row in rows if row[0] == f"| {method}")
        assert f"{mean:.1f}" in shown
        assert ("**" in shown) == (mean == max(means.values()))


def test_ours_runs_and_is_counted(run, tmp_path, capsys):
    file = tmp_path / "runs.jsonl"
    words = ("--sets", "wine", "--labels", 20, "--seeds", 1)
    run("--out", file, *words, "--methods", "DA-HGNN", "HistGradientBoosting")
    mine, other = (100 * json.loads(line)["accuracy"] for line in file.read_text().splitlines())
    assert mine > 90
    run("--report", file)
    verdict = [0, 0, 0]
    verdict[0 if mine - other > 0.5 else 1 if mine - other >= -0.5 else 2] = 1
    assert (
        f"| HistGradientBoosting | {' | '.join(map(str, verdict))} | 0 | 0 | 0 |" in capsys.readouterr().out
    )


def test_a_set_without_its_folder_is_left_out(run, tmp_path, capsys):
    run("--out", tmp_path / "runs.jsonl", "--sets", "mushroom", "--methods", "KNeighbors")
    assert "mushroom is left out: it needs --hypergraphs" in capsys.readouterr().out


def test_a_report_of_nothing_says_so(run, tmp_path):
    (tmp_path / "runs.jsonl").touch()
    with pytest.raises(SystemExit, match="few_labels: The file of --report must have lines. Got none."):
        run("--report", tmp_path / "runs.jsonl")


def test_the_page_has_the_tables_of_its_run_lines(run, capsys):
    root = Path(__file__).parents[1]
    page = (root / "docs" / "when-to-use.md").read_text(encoding="utf-8")
    run("--report", root / "docs" / re.search(r"\]\(([^)]*few-labels/runs\.jsonl)\)", page)[1])
    assert capsys.readouterr().out in page
