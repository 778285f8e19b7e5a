"""The README and the docs say what is there."""

import json
import re
import statistics
from pathlib import Path

import pytest

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
    for link in re.findall(r"(?:\]\(|src=\")([^)#\"]+)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_into_pages_lead_to_a_heading(page):
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in anchors(page.parent / link if link else page), f"{link}#{anchor}"


REPRODUCTION = ROOT / "docs" / "notes" / "reproduction.md"


def linked_record(page: Path, pattern: str) -> Path:
    """The file or folder under records/ that a page links to."""
    return page.parent / re.search(rf"\]\(([./]*records/{pattern})", page.read_text(encoding="utf-8"))[1]


def test_every_record_is_behind_a_page():
    links = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"(?:\]\(|src=\")([^)#\"]+)", page.read_text(encoding="utf-8"))
    }
    for record in (ROOT / "records").iterdir():
        assert any(record in (link, *link.parents) for link in links), record.name


def test_the_table_of_the_demonstration_is_that_of_its_run_lines():
    record = linked_record(REPRODUCTION, r"[^)]*_demo/runs\.jsonl")
    methods = read_spec(record.with_name("spec.json"))["methods"]
    titles = {method["name"]: method["title"] for method in methods}
    assert markdown_table(read_lines(record), titles) in REPRODUCTION.read_text(encoding="utf-8")


def test_the_table_of_the_reproduction_is_that_of_its_record():
    page = REPRODUCTION.read_text(encoding="utf-8")
    record = linked_record(REPRODUCTION, "[^)]*_table2")
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
    table = page[page.index("| Test accuracy") :].split("\n\n")[0].replace("*", "")
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]
    assert len(rows) == 10
    assert {title: cells for title, *cells in rows}.items() <= expected.items()
    assert (record / "report.md").read_text(encoding="utf-8") == markdown(summary)


@pytest.mark.parametrize(("page", "columns"), [("README.md", 4), ("docs/notes/reproduction.md", 5)])
def test_the_tables_of_the_default_are_those_of_its_record(page, columns):
    record = ROOT / "records" / "2026-11-16_table2"
    summary = summarise(read_lines(record / "runs.jsonl"), read_spec(record / "spec.json"))
    text = (ROOT / page).read_text(encoding="utf-8")
    start = text.find("### MNIST") if columns == 5 else 0
    table = text[text.index("| dahgnn |", start) :].split("\n\n")[0]
    counts = (500, 1000, 2000, 4000) if columns == 4 else (500, 1000, 2000, 3000, 4000)
    titles = {method.title: method.name for method in summary.methods}
    rows = rows_of(table)
    assert len(rows) >= 4
    for title, *cells in rows:
        found = [summary.cells["mnist", titles[title], count] for count in counts]
        assert cells == [f"{cell.mean:.2f} ± {cell.deviation:.2f}" for cell in found]
    assert (record / "report.md").read_text(encoding="utf-8") == markdown(summary)


def test_how_often_the_stated_accuracy_holds_is_what_its_run_lines_say():
    page = ROOT / "docs" / "how-to.md"
    text = page.read_text(encoding="utf-8")
    record = linked_record(page, r"[^)]*_stated/runs\.jsonl")
    found = [line["metrics"] for line in read_lines(record)]
    held = [each["stated_low"] <= each["test_accuracy"] <= each["stated_high"] for each in found]
    assert f"right in {sum(held)} of {len(held)} draws" in text
    stated, right = (
        100 * statistics.mean(each[name] for each in found) for name in ("stated_accuracy", "test_accuracy")
    )
    assert f"it stated was {stated:.1f} %, and {right:.1f} % were right" in text
    assert f"in {len(held)} such draws it did [{sum(held)} times]" in (ROOT / "README.md").read_text()


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


def test_the_code_of_the_readme_prints_what_it_says(capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 1
    exec(blocks[0], {})  # noqa: S102, it is our own
    printed = capsys.readouterr().out
    said = re.search(r"```\n(\d.*%.*\n)```", readme)[1]
    percent = r"\d+\.\d%"
    assert re.sub(percent, "", said) == re.sub(percent, "", printed)
    # Another processor rounds otherwise, which may turn a row or two of those that labels are judged by.
    for told, found in zip(re.findall(percent, said), re.findall(percent, printed), strict=True):
        assert float(told[:-1]) == pytest.approx(float(found[:-1]), abs=2)


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert lines.index("```python") < 30


def test_contributing_names_every_room():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.split("## How the code is laid out")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)/?`", table))
    source = ROOT / "src" / "dahgnn"
    rooms = {path.name for path in source.iterdir() if (path / "__init__.py").exists()}
    assert rooms | {path.stem for path in source.glob("[!_]*.py")} <= named
