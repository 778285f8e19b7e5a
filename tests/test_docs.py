"""The README and the docs say what is there."""

import json
import re
import statistics
from pathlib import Path

import pytest

from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.spec_file import read_spec
from dahgnn.report.demo import markdown_table
from dahgnn.report.summary import summarise
from dahgnn.report.tables import markdown, signed

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


@pytest.fixture(scope="module")
def table2():
    """The folder of the record of Table 2, and its summary, which takes seconds for its tests."""
    record = linked_record(REPRODUCTION, "[^)]*_table2")
    return record, summarise(read_lines(record / "runs.jsonl"), read_spec(record / "spec.json"))


def test_the_table_of_the_reproduction_is_that_of_its_record(table2):
    page = REPRODUCTION.read_text(encoding="utf-8")
    record, summary = table2
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
def test_the_tables_of_the_default_are_those_of_its_record(page, columns, table2):
    _, summary = table2
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


class Stated:
    """The fits of a cell, a dataset with a number of labels a class: what they stated, and what was right."""

    def __init__(self, lines):
        self.metrics = [line["metrics"] for line in lines]

    def __len__(self):
        return len(self.metrics)

    def mean(self, name):
        return 100 * statistics.mean(each[name] for each in self.metrics)

    @property
    def held(self):
        return sum(
            each["stated_low"] <= each["test_accuracy"] <= each["stated_high"] for each in self.metrics
        )

    @property
    def too_much(self):
        """The mean of what is stated minus what is right, and its standard error."""
        misses = [100 * (each["stated_accuracy"] - each["test_accuracy"]) for each in self.metrics]
        return statistics.mean(misses), statistics.stdev(misses) / len(misses) ** 0.5


@pytest.fixture(scope="module")
def stated():
    """The records of the stated accuracy: the titles of the datasets, and the fits of each cell."""
    page, titles, cells = ROOT / "docs" / "notes" / "default.md", {}, {}
    for name in ("stated", "stated-noise"):
        record = linked_record(page, rf"[^)]*_{name}/report\.md")
        titles |= {
            each["name"]: each["title"] for each in read_spec(record.with_name("spec.json"))["datasets"]
        }
        for line in read_lines(record.with_name("runs.jsonl")):
            cells.setdefault((line["dataset"], line["labels"] // len(line["confusion"])), []).append(line)
    return titles, {cell: Stated(lines) for cell, lines in sorted(cells.items())}


def test_how_often_the_stated_accuracy_holds_is_what_its_run_lines_say(stated):
    text = (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8")
    digits = stated[1]["digits", 10]
    assert f"right in {digits.held} of {len(digits)} draws" in text
    of_digits = (
        f"it stated was {digits.mean('stated_accuracy'):.1f} %, and {digits.mean('test_accuracy'):.1f} %"
    )
    assert of_digits in text
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"in {len(digits)} such draws it did [{digits.held} times]" in readme


def test_the_table_of_the_stated_accuracy_is_that_of_its_records(stated):
    titles, cells = stated
    page = (ROOT / "docs" / "notes" / "default.md").read_text(encoding="utf-8")
    _, *rows = table_under(page, "## How true the stated accuracy is")
    expected = []
    for dataset, title in titles.items():
        for (name, count), cell in cells.items():
            if name == dataset:
                miss, error = cell.too_much
                means = (f"{cell.mean(each):.1f}" for each in ("stated_accuracy", "test_accuracy"))
                expected.append([title, str(count), *means, f"{signed(round(miss, 1))[:-1]} ± {error:.1f}"])
                expected[-1].append(f"{cell.held} of {len(cell)}")
    assert rows == expected


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


FEW = ROOT / "docs" / "when-to-use.md"
OURS = "classifier"


class FewLabels:
    """The record behind the page on few labels. A cell is a dataset and a number of labels a class."""

    def __init__(self) -> None:
        self.record = linked_record(FEW, r"[^)]*_few/runs\.jsonl")
        self.lines = read_lines(self.record)
        self.summary = summarise(self.lines, read_spec(self.record.with_name("spec.json")))
        self.titles = {method.name: method.title for method in self.summary.methods}
        self.classes = {line["dataset"]: len(line["confusion"]) for line in self.lines}
        self.cells = [
            (dataset, count // self.classes[dataset])
            for dataset, counts in self.summary.label_counts.items()
            for count in counts
        ]

    def at(self, cell, method):
        """The mean and deviation of a method."""
        return self.summary.cells[cell[0], method, cell[1] * self.classes[cell[0]]]

    def lead(self, cell, method=OURS):
        """What a method has ahead of the best other in points, and the title of that."""
        best = max(set(self.titles) - {method}, key=lambda name: self.at(cell, name).mean)
        return self.at(cell, method).mean - self.at(cell, best).mean, self.titles[best]

    def stated(self, cell=None):
        """The metrics of our fits that state an accuracy, in one cell or in all."""
        return [
            line["metrics"]
            for line in self.lines
            if "stated_accuracy" in line["metrics"]
            and cell in (None, (line["dataset"], line["labels"] // self.classes[line["dataset"]]))
        ]


@pytest.fixture(scope="module")
def few():
    return FewLabels()


@pytest.fixture(scope="module")
def few_page():
    return FEW.read_text(encoding="utf-8")


def table_under(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, its head among them but not the line below that."""
    section = page.split(f"\n{heading}\n")[1].split("\n#")[0]
    head, _, *rows = rows_of(section[section.index("\n|") + 1 :].split("\n\n")[0])
    return [head, *rows]


def test_the_accuracies_with_few_labels_are_those_of_the_record(few, few_page):
    assert few.summary.n_lines == few.summary.expected == 3200
    assert few_page.count("\n### ") == len(few.summary.datasets) == 8
    for dataset, title in few.summary.datasets.items():
        cells = [cell for cell in few.cells if cell[0] == dataset]
        best = [max(round(few.at(cell, name).mean, 1) for name in few.titles) for cell in cells]
        expected = [["Labels a class", *(str(count) for _, count in cells)]]
        for name in few.titles:
            found = [few.at(cell, name) for cell in cells]
            bold = ["**" * (round(cell.mean, 1) == top) for cell, top in zip(found, best, strict=True)]
            texts = [
                f"{b}{cell.mean:.1f}{b} ± {cell.deviation:.1f}" for b, cell in zip(bold, found, strict=True)
            ]
            expected.append([few.titles[name], *texts])
        assert table_under(few_page, f"### {title}") == expected
        split = next(line["split"] for line in few.lines if line["dataset"] == dataset)
        size = f"{split['train'] + split['test']:,} rows, "
        assert few_page.split(f"\n### {title}\n\n")[1].startswith(size)
    report = few.record.with_name("report.md").read_text(encoding="utf-8")
    assert report == markdown(few.summary)


def test_where_few_labels_leave_us_behind_is_said(few, few_page):
    leads = {cell: few.lead(cell) for cell in few.cells}
    rows = []
    for title, counts in (("1", {1}), ("5 or more", {5, 20, 100, 400})):
        found = [lead for (_, count), (lead, _) in leads.items() if count in counts]
        ahead, behind = sum(lead > 0.5 for lead in found), sum(lead < -0.5 for lead in found)
        rows.append(
            [title, *(str(count) for count in (len(found), ahead, len(found) - ahead - behind, behind))]
        )
    assert table_under(few_page, "## Ahead, equal, behind")[1:] == rows
    behind = []
    for dataset, title in few.summary.datasets.items():
        worse = [
            f"{signed(lead)} with {count} ({best})"
            for (name, count), (lead, best) in leads.items()
            if name == dataset and lead < -0.5
        ]
        behind += [f"- {title}: {', '.join(worse)}"] if worse else []
    assert re.findall(r"^- .*: −.*$", few_page, re.MULTILINE) == behind
    spread = max(few.at(cell, OURS).deviation for cell in few.cells if cell[1] == 1)
    assert f"by up to ± {spread:.1f} points" in few_page


def test_the_short_answer_on_few_labels_follows_from_the_record(few, few_page):
    answer = " ".join(few_page.split("## In short")[1].split("\n## ")[0].split())
    five_or_more = [cell for cell in few.cells if cell[1] > 1]

    def leads(dataset):
        return [few.lead(cell)[0] for cell in five_or_more if cell[0] == dataset]

    def span(values):
        return f"{min(values):.1f} to {max(values):.1f}"

    worst = {name: max(-few.lead(cell, name)[0] for cell in five_or_more) for name in few.titles}
    digits = [cell for cell in five_or_more if cell[0] == "digits"]
    laplace = [few.at(cell, OURS).mean - few.at(cell, "laplace").mean for cell in digits]
    alone = [few.lead(cell)[0] for cell in few.cells if cell[1] == 1]
    for sentence in (
        f"by {span(leads('mnist-digits'))} points, and on 20 newsgroups by {span(leads('newsgroups'))}.",
        f"at most {worst.pop(OURS):.1f} points behind the best, and each of the nine is somewhere behind "
        f"by {min(worst.values()):.1f} or more",
        f"ahead by {-leads('mushroom')[0]:.1f} points with 5 labels a class and by "
        f"{-leads('mushroom')[1]:.1f} with 20",
        f"another is ahead by up to {-min(leads('breast-cancer')):.1f} points",
        f"on wine with 20 labels support vectors are ahead by {-leads('wine')[1]:.1f}",
        f"the two differ by {max(map(abs, laplace)):.1f} points at most",
        f"within {max(map(abs, leads('cifar10') + leads('svhn'))):.1f} points of the best",
        f"behind in {sum(lead < -0.5 for lead in alone)} of {len(alone)} cells, by up to {-min(alone):.1f}",
    ):
        assert sentence in answer
    for title, accuracy in few.summary.cnn.items():
        assert f"{100 * accuracy:.2f} % ({title})" in few_page


def test_the_seconds_with_few_labels_are_those_of_the_record(few, few_page):
    head, *rows = table_under(few_page, "## Seconds")
    assert head[1:] == list(few.summary.datasets.values())
    expected = []
    for name, title in few.titles.items():
        seconds = [
            [line["seconds"] for line in few.lines if (line["dataset"], line["method"]) == (dataset, name)]
            for dataset in few.summary.datasets
        ]
        expected.append([title, *(f"{statistics.median(each):.2f}" for each in seconds)])
    assert rows == expected


def test_how_true_the_stated_accuracy_was_with_few_labels(few, few_page):
    def mean(found, name):
        return 100 * statistics.mean(each[name] for each in found)

    head, *rows = table_under(few_page, "## How true the stated accuracy was")
    expected = [
        [
            title,
            *(
                f"{mean(found, 'stated_accuracy'):.1f} / {mean(found, 'test_accuracy'):.1f}" if found else "–"
                for found in (few.stated((dataset, int(count))) for count in head[1:])
            ),
        ]
        for dataset, title in few.summary.datasets.items()
    ]
    assert rows == expected
    assert not any(few.stated(cell) for cell in few.cells if cell[1] == 1)
    found = few.stated()
    above = sum(each["test_accuracy"] > each["stated_high"] for each in found)
    below = sum(each["test_accuracy"] < each["stated_low"] for each in found)
    less = mean(found, "test_accuracy") - mean(found, "stated_accuracy")
    end = " ".join(few_page.split("\n\n")[-1].split())
    assert f"held the truth in {len(found) - above - below} of {len(found)} fits" in end
    assert (
        f"instead of {0.95 * len(found):.0f}. In {above} more was right than it said, and in {below} less"
        in end
    )
    assert f"it states {less:.1f} points too little" in end


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


def test_the_table_of_the_labelling_order_is_that_of_its_record():
    page = ROOT / "docs" / "notes" / "labelling.md"
    lines = [
        json.loads(line)
        for line in linked_record(page, "[^)]*label_order/runs.jsonl").read_text().splitlines()
    ]
    rows = re.findall(r"^\| (.+?) \| (random|the queue) \| (.+) \|$", page.read_text(), flags=re.MULTILINE)
    assert len(rows) == 12
    for data, order, cells in rows:
        runs = [line for line in lines if (line["data"], line["order"]) == (data, order.removeprefix("the "))]
        assert len(runs) == 5
        for count, cell in zip((20, 50, 100), cells.split(" | "), strict=True):
            values = [100 * run["accuracy"][run["labels"].index(count)] for run in runs]
            assert cell == f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def test_no_entry_of_the_changelog_comes_twice():
    """Branches that both add entries are merged with the lines of both, which may double some."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    begins = [" ".join(entry.split())[:50] for entry in re.split(r"^- ", text, flags=re.MULTILINE)[1:]]
    assert [begin for begin in begins if begins.count(begin) > 1] == []


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


GIVEN = ROOT / "docs" / "notes" / "given.md"
CITATIONS = ("cocitation-cora", "cocitation-citeseer", "coauthorship-cora")


@pytest.mark.parametrize(
    ("first", "records", "columns"),
    [
        ("| | Cora, co-citation, 140", ("given", "given-random"), CITATIONS),
        ("| | newsgroups 5", ("given-few",), ("newsgroups", "mushroom")),
    ],
)
def test_the_tables_of_given_hypergraphs_are_those_of_their_records(first, records, columns):
    page = GIVEN.read_text(encoding="utf-8")
    expected: dict[str, list[str]] = {}
    for name in records:
        record = linked_record(GIVEN, rf"[^)]*_{name}/report\.md").parent
        summary = summarise(read_lines(record / "runs.jsonl"), read_spec(record / "spec.json"))
        assert (record / "report.md").read_text(encoding="utf-8") == markdown(summary)
        assert summary.n_lines == summary.expected
        for method in summary.methods:
            cells = [
                summary.cells[dataset, method.name, count]
                for dataset in columns
                for count in summary.label_counts[dataset]
            ]
            shown = [f"{cell.mean:.2f} ± {cell.deviation:.2f}" for cell in cells]
            expected[method.title] = [*expected.get(method.title, []), *shown]
    rows = rows_of(page[page.index(first) :].split("\n\n")[0])[2:]
    assert {title: cells for title, *cells in rows} == expected


def test_the_table_of_labelling_is_that_of_its_run_lines():
    from labelling import table, times

    page = ROOT / "docs" / "notes" / "labelling.md"
    text = page.read_text(encoding="utf-8")
    lines = [
        json.loads(line)
        for line in linked_record(page, r"[^)]*_labelling/runs\.jsonl").read_text().splitlines()
    ]
    assert table(lines) in text
    medians = [float(said.split()[0]) for said in times(lines).splitlines()]
    assert f"next card: {medians[0]:.1f} ms (median of 450" in text
    assert f"knows the label: {medians[1]:.1f} s (median of 450" in text
