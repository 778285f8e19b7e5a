import csv
import io
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest
from report_cases import OURS, make_line, make_lines, make_spec

from dahgnn.experiments.lines import read_lines
from dahgnn.experiments.spec_file import read_spec
from dahgnn.report import tables
from dahgnn.report.summary import summarise
from dahgnn.report.tables import (
    Table,
    accuracy_tables,
    agreement_table,
    comparison_tables,
    csv_text,
    latex,
    markdown,
    merge_notes,
    signed,
    time_tables,
)

HOSTILE = 'a|b_c%d&e<f>\\{$#^~\n"g'


@pytest.fixture
def lines():
    return make_lines()


@pytest.mark.parametrize(
    ("printed", "agrees"), [(88.77, True), (88.76, False), (93.23, True), (93.24, False)]
)
def test_two_joint_deviations_are_the_limit(lines, printed, agrees):
    # Our mean is 91, and 2 sqrt(1² + 0.5²) = 2.2360….
    spec = make_spec(published={"mnist": {"ours": {"20": [printed, 0.5]}}})
    summary = summarise(lines, spec)
    assert summary.cells["mnist", "ours", 20].agrees is agrees
    assert agreement_table(summary).rows[0][2] == f"{int(agrees)} of 1 cells"
    assert accuracy_tables(summary)[0].rows[2][1].endswith("≈" if agrees else "≠")


def test_a_single_run_has_no_deviation_and_agrees_with_nothing():
    summary = summarise([make_line()], make_spec())
    cell = summary.cells["mnist", "ours", 20]
    assert (cell.deviation, cell.agrees) == (None, None)
    rows = accuracy_tables(summary)[0].rows
    assert rows[0] == ("Ours", "90.00 (1 of 3)")
    assert rows[2] == ("difference", "0.00")
    assert rows[3] == ("Other", "–")


def test_the_table_has_the_paper_below_and_the_best_in_bold(lines):
    table = accuracy_tables(summarise(lines, make_spec()))[0]
    assert table.head == ("Method", "20")
    assert table.rows == (
        ("Ours", "91.00 ± 1.00"),
        ("in the paper", "90.00 ± 0.50"),
        ("difference", "+1.00 ≈"),
        ("Other", "90.00 ± 1.00"),
    )
    assert table.strong == {(0, 1)}
    assert table.lesser == {1, 2}


def test_incomplete_cells_say_so_and_their_column_has_no_best(lines):
    table = accuracy_tables(summarise(lines[1:], make_spec()))[0]
    assert table.rows[0] == ("Ours", "91.50 ± 0.71 (2 of 3)")
    assert table.strong == set()
    # A method that was not run at all does not keep the others from being compared.
    assert accuracy_tables(summarise(lines[:3], make_spec()))[0].strong == {(0, 1)}


def test_equal_means_are_both_bold(lines):
    for line in lines:
        line["metrics"]["test_accuracy"] = 0.9 + 1e-7 * (line["method"] == "ours")
    assert accuracy_tables(summarise(lines, make_spec()))[0].strong == {(0, 1), (3, 1)}


def test_agreement_counts_what_is_printed_run_or_not(lines):
    published = {"mnist": {"ours": {"20": [90, 0.5], "60": [91, 0.5]}}, "svhn": {"ours": {"20": [1, 0]}}}
    methods = [
        {"name": "new", "title": "New", "ours": True},
        {"name": "ours", "title": "Ours", "ours": True},
        {"name": "other", "title": "Other"},
    ]
    datasets = [{"name": "mnist", "title": "MNIST"}, {"name": "svhn", "title": "SVHN"}]
    spec = make_spec(published=published, methods=methods, datasets=datasets, labels=[10, 30])
    news = [make_line("new", run, 0.99 + 0.001 * run) for run in range(3)]
    summary = summarise(lines + news, spec)
    new, ours = summary.agreements
    assert (new.method, new.against, new.within, new.above, new.measured, new.cells) == (
        "new",
        "ours",
        0,
        1,
        1,
        3,
    )
    assert (ours.method, ours.against, ours.within, ours.above) == ("ours", "ours", 1, 1)
    assert summary.absent == ("SVHN",)
    assert agreement_table(summary).rows[0] == (
        "New", "Ours", "0 of 3 cells", "1 of 3 cells", "1 of 3 cells", "2"
    )  # fmt: skip


@pytest.mark.parametrize(("accuracy", "ahead"), [(0.5, 1), (0.99, 0), (None, None)])
def test_agreement_counts_where_a_method_is_ahead_of_every_baseline(lines, accuracy, ahead):
    ours = [line for line in lines if line["method"] == "ours"]
    weak = [make_line("other", run, 0.1 + 0.1 * run) for run in range(3)]
    spec = make_spec(
        methods=[
            {"name": "ours", "title": "Ours", "ours": True},
            {"name": "other", "title": "Other"},
            {"name": "third", "title": "Third"},
        ],
        comparisons=[],
    )
    rivals = [] if accuracy is None else [*weak, make_line("third", 0, accuracy)]
    assert summarise(ours + rivals, spec).agreements[0].ahead == ahead


def test_without_printed_numbers_there_is_nothing_to_agree_with(lines):
    assert agreement_table(summarise(lines, make_spec(published={}))) is None


def test_the_table_of_comparisons_says_why_there_is_no_test(lines):
    table = comparison_tables(summarise(lines, make_spec()))[0]
    assert table.rows[0][0] == "Ours less Other"
    assert table.rows[1][:3] == ("20", "3", "+1.00")
    assert table.rows[1][-1] == "no test with 3 of at least 5 pairs"
    assert "Wilcoxon" in table.note
    assert "t-test" in table.note
    assert "Holm" in table.note


def test_times_are_seconds_and_epochs(lines):
    lines[0]["seconds"] = 296.0
    rows = time_tables(summarise(lines, make_spec()))[0].rows
    assert rows == (("Ours", "100 s / 100"), ("Other", "2.00 s"))


def test_state_names_hardware_and_the_time_between(lines):
    # In UTC this is the earliest, though not the first in the alphabet.
    lines[0]["finished"] = "2026-01-01T05:00:00+09:00"
    lines[1]["device"] = {"type": "cuda", "name": "NVIDIA H200"}
    lines[1]["versions"] = {"dahgnn": "0.2.0"}
    lines[2]["device"] = {"type": "cuda", "name": "NVIDIA H200", "processes": 8}
    lines[3]["cnn"] = {"digest": "12", "test_accuracy": 0.9451}
    summary = summarise(lines, make_spec())
    assert summary.first == "2026-01-01T05:00:00+09:00"
    assert summary.last == "2026-01-03T00:00:00+00:00"
    devices = {"CPU x86_64, 2 threads": 4, "NVIDIA H200": 1, "NVIDIA H200, 8 processes": 1}
    assert summary.devices == devices
    assert "The CNN behind the features of MNIST is right for 94.51 % of the test images." in markdown(
        summary
    )
    assert summary.versions == {"dahgnn": "0.1.0 and 0.2.0"}
    assert "6 of 6 runs." in markdown(summary)


def hostile_summary(lines):
    spec = make_spec(title=HOSTILE)
    spec["methods"][0]["title"] = HOSTILE
    spec["datasets"][0]["title"] = HOSTILE
    return summarise(lines, spec)


def test_markdown_escapes_names_and_keeps_its_columns(lines):
    text = markdown(hostile_summary(lines))
    escaped = r"a\|b\_c%d&amp;e&lt;f&gt;\\{\$\#^\~ " + '"g'
    assert text.startswith(f"# {escaped}\n")
    assert f"| {escaped} | **91.00 ± 1.00** |" in text
    tables = [row for row in text.splitlines() if row.startswith("|")]
    widths = {row.replace(r"\|", "").count("|") for row in tables}
    assert widths == {3, 7, 10}  # accuracy and times, agreement, comparisons with a remark


def test_a_note_of_several_tables_stands_below_the_last(lines):
    a, b, c = (Table(title="", note=note, head=(), rows=()) for note in ("x", "x", "y"))
    assert [table.note for table in merge_notes([a, b, c])] == ["", "x", "y"]


def test_latex_escapes_names(lines):
    text = latex(hostile_summary(lines))
    escaped = (
        r"a\textbar{}b\_c\%d\&e\textless{}f\textgreater{}\textbackslash{}\{\$\#\textasciicircum{}"
        r"\textasciitilde{} \textquotedbl{}g"
    )
    assert rf"{escaped} & \textbf{{91.00 $\pm$ 1.00}} \\" in text
    assert r"\quad\textit{difference} & +1.00 $\approx$ \\" in text
    assert rf"\multicolumn{{9}}{{l}}{{\textbf{{{escaped} less Other}}}} \\" in text


def set_by_latex(folder, text):
    """Return what pdflatex says of a report in a plain article."""
    (folder / "report.tex").write_text(text, encoding="utf-8")
    (folder / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs,graphicx}\n"
        "\\begin{document}\\input{report}\\end{document}\n"
    )
    done = subprocess.run(
        [shutil.which("pdflatex"), "-halt-on-error", "-interaction=nonstopmode", "paper.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "paper.pdf").stat().st_size > 1000
    return done.stdout


NEEDS_LATEX = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


@NEEDS_LATEX
def test_latex_compiles(tmp_path, lines):
    assert "Output written on paper.pdf" in set_by_latex(tmp_path, latex(hostile_summary(lines)))


@NEEDS_LATEX
def test_the_tables_of_the_paper_fit_their_pages(tmp_path):
    record = next((Path(__file__).parents[2] / "records").glob("*_table2"))
    summary = summarise(read_lines(record / "runs.jsonl"), read_spec(record / "spec.json"))
    said = set_by_latex(tmp_path, latex(summary))
    assert "Float too large" not in said
    assert "Overfull" not in said


def test_a_long_table_is_cut_between_groups():
    groups = [(("A", ""), *((str(row), "1") for row in range(20))) for _ in range(3)]
    whole = Table(title="T", note="N", head=("", ""), rows=sum(groups, ()), strong=frozenset({(22, 1)}))
    parts = tables._parts(whole)
    assert [len(part.rows) for part in parts] == [21, 21, 21]
    assert [part.title for part in parts] == ["T", "T, continued", "T, continued"]
    assert [part.note for part in parts] == ["", "", "N"]
    assert (1, 1) in parts[1].strong


def test_csv_reads_back_with_raw_numbers(lines):
    for line in lines[:3]:
        line["method"] = HOSTILE
    spec = make_spec(published={"mnist": {HOSTILE: {"20": [90.0, 0.5]}}}, comparisons=[])
    spec["methods"][0]["name"] = HOSTILE
    rows = list(csv.DictReader(io.StringIO(csv_text(summarise(lines, spec)), newline="")))
    assert [row["method"] for row in rows] == [HOSTILE, "other"]
    assert [float(value) for value in rows[0]["values"].split()] == [100 * value for value in OURS]
    assert float(rows[0]["mean"]) == statistics.fmean(100 * value for value in OURS)
    assert float(rows[0]["deviation"]) == pytest.approx(1)
    assert (rows[0]["printed_mean"], rows[0]["within_two_joint_deviations"]) == ("90.0", "True")
    assert (rows[1]["printed_mean"], rows[1]["difference"], rows[1]["epochs"]) == ("", "", "")
    assert (rows[1]["runs"], rows[1]["expected_runs"]) == ("3", "3")


def test_the_order_of_lines_does_not_matter(lines):
    summary, other = summarise(lines, make_spec()), summarise(lines[::-1], make_spec())
    for write_text in (markdown, latex, csv_text):
        assert write_text(summary) == write_text(other)


def test_differences_have_a_sign():
    assert [signed(value) for value in (0.5, -0.5, 0.004, -0.004)] == ["+0.50", "−0.50", "0.00", "0.00"]
