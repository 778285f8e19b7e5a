import json

import pytest
from report_cases import make_line, make_lines, make_spec

from dahgnn.report.significance import holm
from dahgnn.report.summary import summarise


def write(path, lines, end="\n"):
    path.write_text("\n".join(json.dumps(line) for line in lines) + end)
    return path


@pytest.fixture
def lines():
    return make_lines()


def test_a_cell_holds_mean_deviation_and_the_printed_numbers(lines):
    cell = summarise(lines[::-1], make_spec()).cells["mnist", "ours", 20]
    assert cell.runs == (0, 1, 2)
    assert cell.values == pytest.approx((90, 91, 92))
    assert (cell.mean, cell.deviation, cell.n) == (pytest.approx(91), pytest.approx(1), 3)
    assert (cell.seconds, cell.epochs, cell.published) == (2, 100, (90, 0.5))
    assert cell.difference == pytest.approx(1)
    assert cell.agrees  # 1 <= 2 sqrt(1 + 0.25) = 2.236


def test_columns_are_what_was_run_and_what_is_asked_for(lines):
    # Two classes in the confusion matrix, so 10 and 30 a class are 20 and 60.
    assert summarise(lines, make_spec(labels=[30, 10])).label_counts == {"mnist": (20, 60)}
    assert summarise([make_line(labels=7, confusion=None)], make_spec()).label_counts == {"mnist": (7,)}


def test_unknown_methods_and_datasets_are_left_out_with_a_warning(lines, caplog):
    more = [make_line("gone"), make_line("ours", 5, dataset="gone")]
    assert summarise(lines + more, make_spec()).n_lines == 6
    assert "2 lines are of no method or dataset" in caplog.text


def test_lines_of_changed_settings_never_mix(lines):
    with pytest.raises(ValueError, match="Run 1 of ours on mnist with 20 labels must have one line"):
        summarise([*lines, make_line("ours", 1, key="changed")], make_spec())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            make_line(run=3),
            r"Run 3 of ours on mnist with 20 labels is not one of spec.json, .* 3 runs with 20 ",
        ),
        (make_line(labels=22), "with 22 labels is not one of spec.json"),
        (make_line(run=3, labels=7, confusion=None), "which asks for 3 runs. Runs are counted from 0"),
    ],
)
def test_runs_and_label_counts_that_the_spec_has_not_are_refused(lines, line, words):
    with pytest.raises(ValueError, match=words):
        summarise([*lines, line], make_spec())


def test_no_lines_are_an_error():
    with pytest.raises(ValueError, match="must be at least one run line"):
        summarise([], make_spec())


def test_a_comparison_of_no_method_is_an_error(lines):
    with pytest.raises(ValueError, match="Did you mean 'ours'"):
        summarise(lines, make_spec(comparisons=[["our", "other"]]))


FIRST = (0.912, 0.905, 0.921, 0.930, 0.899, 0.917, 0.908)


def test_holm_is_over_the_label_counts_of_a_pair():
    spec = make_spec(labels=[10, 20, 30], runs=len(FIRST))
    lines = []
    for labels, gap in ((20, 0.001), (40, 0.01), (60, 0.0)):
        lines += [make_line("ours", run, value + gap, labels=labels) for run, value in enumerate(FIRST)]
        lines += [make_line("other", run, value, labels=labels) for run, value in enumerate(FIRST[::-1])]
    entries = summarise(lines, spec).comparisons
    assert [entry.n_labelled for entry in entries] == [20, 40, 60]
    assert [entry.wilcoxon_holm for entry in entries] == holm([entry.wilcoxon for entry in entries])
    assert [entry.t_test_holm for entry in entries] == holm([entry.t_test for entry in entries])
    assert entries[1].t_test_holm == pytest.approx(3 * entries[1].t_test)


def test_a_method_without_a_printed_row_is_held_against_the_best_of_ours(lines):
    methods = [{"name": name, "title": name, "ours": True} for name in ("weak", "strong", "short", "new")]
    rows = {
        "weak": {"20": [80, 1], "40": [80, 1]},
        "strong": {"20": [90, 1], "40": [90, 1]},
        "short": {"20": [99, 1]},
    }
    spec = make_spec(methods=methods, published={"mnist": rows}, labels=[10, 20], comparisons=[])
    summary = summarise([make_line("new")], spec)
    assert {entry.method: entry.against for entry in summary.agreements}["new"] == "strong"
    assert {entry.method: entry.against for entry in summary.agreements}["weak"] == "weak"
