import math

import numpy as np
import pytest

from dahgnn.report.fit_charts import (
    HEIGHT,
    WIDTH,
    Bin,
    Chart,
    calibration_error,
    curve_chart,
    curves,
    reliability,
    reliability_chart,
    ticks,
)


def test_bins_hold_rows_of_like_confidence():
    place = np.arange(40)
    top = np.where(place % 2 == 0, 0.95, 0.65)
    labels = np.where(place % 2 == 0, 0, place // 2 % 2)
    bins = reliability(np.stack([top, 1 - top], 1), labels)
    assert [(round(each.confidence, 6), each.right, each.n) for each in bins] == [
        (0.65, 10, 20),
        (0.95, 20, 20),
    ]
    assert calibration_error(bins) == pytest.approx((0.15 + 0.05) / 2)


def test_a_confidence_of_one_is_in_the_last_bin():
    assert reliability(np.array([[1.0, 0.0]]), np.array([1])) == [Bin(1.0, 0, 1)]


def test_the_reliability_chart_has_a_dot_and_an_interval_for_each_bin():
    chart = reliability_chart([Bin(0.65, 10, 20), Bin(0.95, 20, 20)])
    assert [line.kind for line in chart.lines] == ["ideal", "main"]
    first, last = chart.dots
    assert (first.x, first.y) == (chart.x(65), chart.y(50))
    # Wilson's intervals of 10 in 20 and of 20 in 20.
    assert (first.low, first.high) == (chart.y(29.93), chart.y(70.07))
    assert (last.low, last.high) == (chart.y(83.89), chart.y(100))
    assert chart.lines[1].path == f"M{first.x:g} {first.y:g}L{last.x:g} {last.y:g}"
    assert first.text == "confidence 65.0 %: 50.0 % of 20 rows right"


def test_axes_end_at_the_frame():
    chart = Chart(title="", x_title="", y_title="", x_range=(2, 4), y_range=(-1, 1))
    left, top, right, bottom = chart.frame
    assert (chart.x(2), chart.x(4), chart.y(1), chart.y(-1)) == (left, right, top, bottom)
    assert 0 < left < right < WIDTH
    assert 0 < top < bottom < HEIGHT
    assert chart.x(3) == (left + right) / 2


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 100, ["0", "20", "40", "60", "80", "100"]),
        (0, 4, ["0", "1", "2", "3", "4"]),
        (0.0, 0.1, ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]),
        (47.5, 52.5, ["48", "49", "50", "51", "52"]),
        (0, 1800, ["0", "500", "1,000", "1,500"]),
        (-0.3, 0.3, ["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3"]),
        (1e-9, 5e-9, ["0.000000001", "0.000000002", "0.000000003", "0.000000004", "0.000000005"]),
    ],
)
def test_ticks_are_round_numbers(low, high, texts):
    assert [text for _, text in ticks(low, high)] == texts


HISTORY = [
    {"network": 0, "epoch": 0, "train_loss": 2.0, "validation_loss": math.nan, "train_accuracy": 0.5},
    {"network": 0, "epoch": 1, "train_loss": 1.0, "validation_loss": 3.0},
    {"network": 2, "epoch": 0, "train_loss": math.inf, "validation_loss": 4.0},
]


def test_curves_leave_out_what_is_not_finite():
    assert curves(HISTORY, "train_loss") == [([0, 1], [2.0, 1.0])]
    assert curves(HISTORY, "validation_loss") == [([1], [3.0]), ([], []), ([0], [4.0])]
    assert curves(HISTORY, "train_accuracy") == [([0], [50.0])]
    assert curves(HISTORY, "validation_accuracy") == []


def test_a_curve_has_a_dot_at_its_best_epoch():
    chart = curve_chart("loss", {"main": curves(HISTORY, "train_loss")}, [1])
    low, high = chart.y_range
    assert low < 1 < 2 < high
    assert chart.lines[0].path == f"M{chart.x(0):g} {chart.y(2):g}L{chart.x(1):g} {chart.y(1):g}"
    assert [(dot.x, dot.y, dot.text) for dot in chart.dots] == [
        (chart.x(1), chart.y(1), "network 1, epoch 1: 1")
    ]
    assert curve_chart("loss", {"main": []}, []) is None


def test_long_curves_are_thinned_but_keep_their_ends():
    chart = curve_chart("loss", {"main": [(list(range(5000)), [1.0] * 5000)]}, [4999])
    assert chart.lines[0].path.count("L") < 130
    assert chart.lines[0].path.endswith(f"L{chart.x(4999):g} {chart.y(1):g}")
    assert chart.y_range == (0.95, 1.05)
