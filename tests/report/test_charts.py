"""What the charts of a report are given to draw."""

import pytest
from report_cases import make_spec, make_trained_lines

from dahgnn.report.charts import class_names, confusions, curves, figures
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
