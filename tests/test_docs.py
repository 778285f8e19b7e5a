"""The README and the docs say what is there."""

import json
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
import torch

from dahgnn.experiments.lines import read_lines
from dahgnn.report.demo import markdown_table
from dahgnn.report.summary import read_spec, summarise
from dahgnn.report.tables import markdown

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_the_table_of_the_readme_is_that_of_its_run_lines():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    record = ROOT / re.search(r"\]\((records/.*_demo/runs\.jsonl)\)", readme)[1]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert markdown_table(lines) in readme


def test_the_first_table_of_the_readme_is_that_of_its_record():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    record = ROOT / re.search(r"\]\((records/.*_table2)/report\.md\)", readme)[1]
    summary = summarise(read_lines(record / "runs.jsonl"), read_spec(record / "spec.json"))
    columns = [(dataset, labels) for dataset in ("mnist", "cifar10", "svhn") for labels in (500, 4000)]
    expected = {
        method.title: [
            f"{(cell := summary.cells[dataset, method.name, labels]).mean:.2f} ± {cell.deviation:.2f}"
            for dataset, labels in columns
        ]
        for method in summary.methods
    }
    printed = [summary.printed[dataset, "da-hgnn", labels] for dataset, labels in columns]
    expected["DA-HGNN, printed"] = [f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in printed]
    table = readme[readme.index("| Test accuracy") :].split("\n\n")[0].replace("*", "")
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]
    assert len(rows) == 10
    assert {title: cells for title, *cells in rows}.items() <= expected.items()
    assert (record / "report.md").read_text(encoding="utf-8") == markdown(summary)


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


def test_the_page_on_few_labels_has_the_figures_of_its_run_lines():
    page = (ROOT / "docs" / "when-to-use.md").read_text(encoding="utf-8")
    record = ROOT / "docs" / re.search(r"\]\(([^)]*few-labels/runs\.jsonl)\)", page)[1]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    titles = sorted({(line["dataset"], line["nodes"]) for line in lines})
    assert len(titles) == 11
    for dataset, nodes in titles:
        head, *rows = rows_of(page.split(f"### {dataset}, {nodes:,} rows\n")[1].split("\n\n")[1])
        assert len(rows) == 1 + 6
        for method, *cells in rows[1:]:
            for count, cell in zip(head[1:], cells, strict=True):
                place = (dataset, nodes, method, int(count))
                found = [
                    100 * line["accuracy"]
                    for line in lines
                    if (line["dataset"], line["nodes"], line["method"], line["per_class"]) == place
                ]
                expected = f"{statistics.mean(found):.1f} ± {statistics.stdev(found):.1f}"
                assert cell.replace("*", "") == expected, place
    for title, *cells in rows_of(page.split("### Seconds\n\n")[1].split("\n\n")[0])[2:]:
        mine = [line for line in lines if f"{line['dataset']}, {line['nodes']:,} rows" == title]
        methods = list(dict.fromkeys(row[0] for row in rows[1:]))
        for method, cell in zip(methods, cells, strict=True):
            seconds = [line["cpu_seconds"] for line in mine if line["method"] == method]
            assert cell == f"{statistics.median(seconds):.2f} ({max(seconds):.2f})"


def test_the_code_of_the_readme_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 2
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(150) % 10
    features = 4 * torch.randn(10, 8, generator=generator)[labels] + torch.randn(150, 8, generator=generator)
    names = {"X": features.numpy(), "labelled": range(50), "held_out": range(50, 100)}
    for block in blocks:
        known = 100 if "Classifier" in block else 150
        names |= {"y": np.where(np.arange(150) < known, labels, -1), "X_new": features.numpy()[:3] + 0.1}
        exec(block, names)  # noqa: S102, it is our own
    assert (names["classifier"].transduction_ == labels.numpy()).mean() > 0.8
    assert names["result"].accuracy(labels, range(100, 150)) > 0.8


def test_the_readme_names_every_room():
    table = PAGES[0].read_text(encoding="utf-8").split("## How to read the code")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)/?`", table))
    source = ROOT / "src" / "dahgnn"
    rooms = {path.name for path in source.iterdir() if (path / "__init__.py").exists()}
    assert rooms | {path.stem for path in source.glob("[!_]*.py")} <= named
