import math
import statistics

import pytest
from scipy import stats

from dahgnn.report.significance import compare_runs, holm

FIRST = (0.912, 0.905, 0.921, 0.930, 0.899, 0.917, 0.908)
SECOND = (0.905, 0.907, 0.911, 0.918, 0.899, 0.910, 0.904)


def runs_of(values):
    return {
        run: {"metrics": {"test_accuracy": value}, "split": {"digest": f"split-{run}"}}
        for run, value in enumerate(values)
    }


def compared(first, second):
    return compare_runs(runs_of(first), runs_of(second))


def test_a_comparison_is_scipys_paired_tests():
    entry = compared(FIRST, SECOND)
    differences = [round(100 * (a - b), 9) for a, b in zip(FIRST, SECOND, strict=True)]
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(7)
    assert (entry.n, entry.difference) == (7, pytest.approx(mean))
    assert entry.wilcoxon == stats.wilcoxon(differences).pvalue
    assert entry.t_test == pytest.approx(stats.ttest_rel(FIRST, SECOND).pvalue)
    # 2.4469 is the 97.5 % quantile of t with six degrees of freedom.
    assert entry.low == pytest.approx(mean - 2.4469 * error, abs=1e-4)
    assert entry.high == pytest.approx(mean + 2.4469 * error, abs=1e-4)


def test_all_wins_of_six_give_the_exact_p_of_a_sixteenth_of_a_half():
    # All six ranks positive: one sign pattern of 64 on each side.
    first = (0.91, 0.93, 0.96, 0.92, 0.97, 0.95)
    assert compared(first, [0.9 + 0.001 * run for run in range(6)]).wilcoxon == pytest.approx(2 / 64)


def test_rounding_noise_does_not_hide_ties():
    # 0.3 - 0.2 and 0.9 - 0.8 differ in the last bit; both are ten points.
    entry = compared((0.3, 0.9, 0.5, 0.6, 0.8), (0.2, 0.8, 0.4, 0.5, 0.7))
    assert entry.note == "no t-test, all differences are equal"
    assert entry.t_test is None
    assert entry.wilcoxon == stats.wilcoxon([10.0] * 5).pvalue
    assert (entry.low, entry.high) == (10, 10)


def test_only_runs_on_the_same_split_are_pairs():
    first, second = runs_of(FIRST), runs_of(SECOND)
    second[1]["split"]["digest"] = "elsewhere"
    del first[0]
    entry = compare_runs(first, second)
    assert entry.n == 5
    assert entry.difference == pytest.approx(100 * (sum(FIRST[2:]) - sum(SECOND[2:])) / 5)


def test_few_pairs_and_equal_values_are_not_tested():
    few = compared(FIRST[:4], SECOND[:4])
    assert (few.n, few.wilcoxon, few.t_test) == (4, None, None)
    assert few.note == "no test with 4 of at least 5 pairs"
    assert few.difference is not None
    one = compared(FIRST[:1], SECOND[:1])
    assert (one.n, one.low, one.note) == (1, None, "no test with 1 of at least 5 pairs")
    same = compared(FIRST, FIRST)
    assert (same.difference, same.wilcoxon, same.note) == (0, None, "no test, all differences are zero")


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1, and never under the one before.
    assert holm([0.5, 0.02, 0.01, 0.03]) == pytest.approx([0.5, 0.06, 0.04, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([None, 0.2]) == [None, 0.2]
    assert holm([]) == []
