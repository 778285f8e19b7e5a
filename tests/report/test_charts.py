"""What the charts of a report are given to draw."""

import pytest
from report_cases import make_line, make_spec, make_trained_lines

from dahgnn.report.charts import class_names, confusions, curves, figures, shown_methods, shown_pairs
from dahgnn.report.summary import summarise

pytest.importorskip("plotly")


@pytest.fixture
def lines():
    return make_trained_lines()


def test_charts_hold_means_bands_and_printed_numbers(lines):
    found = figures(summarise(lines, make_spec()))
    band, ours, printed, *_ = found["labels-0"]["data"]
    assert ours["x"] == [20]
    assert ours["y"] == pytest.approx([91])
    assert band["y"] == pytest.approx([92, 90])
    assert band["legendgroup"] == ours["legendgroup"] != printed["legendgroup"]
    assert (printed["y"], printed["line"]["dash"]) == ([90], "dash")
    assert found["pairs-0"]["data"][0]["y"] == pytest.approx([1])
    times = found["times-all"]
    assert times["layout"]["xaxis"]["type"] == "log"
    assert times["data"][0]["x"] == [2, 2]


def many(count, hidden=()):
    """A summary of so many methods, the first and the third of which are ours; the third is printed."""
    names = [f"m{place}" for place in range(count)]
    methods = [
        {"name": name, "title": name, "ours": name in ("m0", "m2", "m4"), "hidden_at_first": name in hidden}
        for name in names
    ]
    spec = make_spec(
        methods=methods,
        published={"mnist": {"m2": {"20": [90.0, 0.5]}}},
        comparisons=[["m0", name] for name in names[1:]],
    )
    lines = [make_line(name, run, 0.8 + 0.01 * place) for place, name in enumerate(names) for run in range(2)]
    return summarise(lines, spec)


def test_charts_begin_with_few_methods():
    assert shown_methods(many(6)) == ["m0", "m1", "m2", "m3", "m4", "m5"]
    # Our first, ours that is printed, and the four most accurate of the others.
    assert shown_methods(many(9)) == ["m0", "m2", "m5", "m6", "m7", "m8"]
    assert shown_methods(many(9, hidden=("m0", "m8"))) == ["m1", "m2", "m3", "m5", "m6", "m7"]
    assert shown_pairs(many(9)) == [("m0", name) for name in ("m2", "m5", "m6", "m7", "m8")]
    assert len(shown_pairs(many(9, hidden=("m0",)))) == 6  # none of them is of two that are shown


def test_what_a_chart_begins_without_is_there_to_be_brought_in():
    found = figures(many(9))
    visible = {trace["legendgroup"]: trace["visible"] for trace in found["labels-0"]["data"]}
    assert [visible[f"ours-{place}"] for place in range(9)] == [
        place in (0, 2, 5, 6, 7, 8) for place in range(9)
    ]
    assert visible["paper-2"]
    assert [trace["visible"] for trace in found["pairs-0"]["data"]] == [
        place in (2, 5, 6, 7, 8) for place in range(1, 9)
    ]
    assert found["times-all"]["data"][0]["y"] == ["m0", "m2", "m5", "m6", "m7", "m8"]


def test_curves_are_medians_over_the_runs_that_still_train(lines):
    found = curves(lines, summarise(lines, make_spec()))
    assert list(found) == ["0/0/20"]
    curve = found["0/0/20"]
    middle = dict(zip(curve["epoch"], curve["validation_accuracy"][1], strict=True))
    assert middle[0] == 0.91  # runs 0, 1, 2
    assert middle[next(epoch for epoch in curve["epoch"] if 40 < epoch <= 60)] == pytest.approx(
        0.915
    )  # 1 and 2
    assert middle[80] == 0.92
    low, _, high = (dict(zip(curve["epoch"], row, strict=True)) for row in curve["validation_accuracy"])
    assert (low[0], high[0]) == (0.905, 0.915)
    assert dict(zip(curve["epoch"], curve["train_loss"][1], strict=True))[80] == pytest.approx(1.2)
    assert curve["validation_loss"][1][0] is None


def test_confusion_matrices_are_sums_over_runs(lines):
    found = confusions(lines, summarise(lines, make_spec()))
    assert found == {"0/0/20": [[1230, 270], [0, 1500]], "0/1/20": [[1200, 300], [0, 1500]]}


def test_long_names_of_classes_are_cut_and_their_marks_escaped(lines):
    spec = make_spec()
    spec["datasets"][0]["classes"] = ["<b>", "a very long name of a class"]
    assert class_names(spec, summarise(lines, spec)) == [["&lt;b&gt;", "a very long nam…"]]
