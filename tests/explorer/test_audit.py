"""What rows drawn at random tell, and what suggested rows would."""

import numpy as np
import pytest

from dahgnn.explorer.audit import (
    FEW_CHANGES,
    FEWEST_AUDITS,
    LOOKBACK,
    AuditEstimate,
    Change,
    ChangeWindow,
    describe_progress,
    estimate_accuracy,
    more_labels_help,
)


def test_few_audits_tell_nothing():
    assert estimate_accuracy([True] * (FEWEST_AUDITS - 1)) is None
    assert estimate_accuracy([True] * FEWEST_AUDITS) == AuditEstimate(
        accuracy=1.0, low=pytest.approx(0.5655, abs=1e-4), high=1.0, n=5
    )


def test_the_interval_is_where_the_share_would_be_rejected():
    """Wilson's ends solve (p̂ − p)² = z² p (1 − p) / n."""
    estimate = estimate_accuracy([True] * 17 + [False] * 5)
    for end in (estimate.low, estimate.high):
        assert (estimate.accuracy - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / 22)


@pytest.mark.parametrize("audits", [5, 10, 20, 50])
def test_the_interval_holds_the_truth_of_random_audits_in_95_of_100_cases(audits):
    generator = np.random.default_rng(audits)
    truths = generator.uniform(0.6, 1.0, size=4000)
    held = []
    for truth in truths:
        estimate = estimate_accuracy(generator.random(audits) < truth)
        held.append(estimate.low <= truth <= estimate.high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)


def test_suggested_rows_would_bias_the_estimate():
    """A calibrated model that is right in nine of ten rows: its least certain 10 % are right far less often."""
    generator = np.random.default_rng(0)
    held = {"audit": [], "suggested": []}
    said = {"audit": [], "suggested": []}
    for _ in range(300):
        confidence = generator.beta(4.5, 0.5, size=2000)  # of mean 0.9
        right = generator.random(2000) < confidence
        for way, rows in (
            ("audit", generator.choice(2000, 30, replace=False)),
            ("suggested", generator.choice(np.argsort(confidence)[:200], 30, replace=False)),
        ):
            estimate = estimate_accuracy(right[rows])
            held[way].append(estimate.low <= right.mean() <= estimate.high)
            said[way].append(estimate.accuracy)
    assert np.mean(said["audit"]) == pytest.approx(0.9, abs=0.01)
    assert np.mean(held["audit"]) > 0.92
    assert np.mean(said["suggested"]) < 0.65
    assert np.mean(held["suggested"]) < 0.05


def test_changes_are_counted_from_the_newest_model_that_is_old_enough():
    window, n = ChangeWindow(), 100
    classes = np.zeros(n, dtype=int)
    found = {}
    for labels in range(5, 61, 5):
        classes = classes.copy()
        classes[labels - 5 : labels] = 1  # five more rows change with each model
        found[labels] = window.add(labels, classes)
    assert all(found[labels] is None for labels in range(5, 5 + LOOKBACK, 5))
    for labels in range(5 + LOOKBACK, 61, 5):
        assert found[labels] == Change(labels=LOOKBACK, share=pytest.approx(LOOKBACK / n))


def test_rows_that_flip_to_and_fro_count_once():
    window = ChangeWindow()
    for labels in range(10, 41, 2):
        classes = np.zeros(50, dtype=int)
        classes[:5] = labels // 2 % 2
        change = window.add(labels, classes)
    assert change == Change(labels=30, share=pytest.approx(0.1))


def test_models_between_are_not_all_kept():
    window = ChangeWindow()
    for labels in range(1, 400):
        window.add(labels, np.zeros(3))
    assert len(window._models) <= LOOKBACK // 5 + 2


def test_labels_that_are_taken_back_take_their_models_with_them():
    window = ChangeWindow()
    window.add(10, np.zeros(4))
    window.add(45, np.ones(4))
    assert window.add(39, np.zeros(4)) is None
    assert window.add(40, np.array([0, 0, 0, 1])) == Change(labels=30, share=0.25)


def test_the_given_classes_may_be_reused_by_the_caller():
    window, classes = ChangeWindow(), np.zeros(4)
    window.add(0, classes)
    classes[:] = 1
    assert window.add(30, classes) == Change(labels=30, share=1.0)


def test_more_labels_help_until_little_changes():
    assert more_labels_help(None) is None
    assert more_labels_help(Change(labels=30, share=FEW_CHANGES)) is True
    assert more_labels_help(Change(labels=30, share=FEW_CHANGES / 2)) is False


@pytest.mark.parametrize(
    ("audits", "right", "change", "expected"),
    [
        (
            3,
            [],
            None,
            "Every tenth row is drawn at random, to tell how many labels are right. 3 of such audit rows are "
            "labelled; it takes 5.",
        ),
        (
            11,
            [True] * 10 + [False],
            Change(labels=34, share=0.051),
            "About 91 % of the labels are right (62 to 98 %), told by 11 audit rows, which were drawn at "
            "random. The last 34 labels changed 5.1 % of the rows: more labels will change more.",
        ),
        (
            12,
            [True] * 12,
            Change(labels=30, share=0.0),
            "All 12 audit rows, which were drawn at random, are right. At least 76 % of the labels should be. "
            "The last 30 labels changed 0.0 % of the rows: more labels of this kind will change little.",
        ),
    ],
)
def test_words_for_the_person(audits, right, change, expected):
    assert describe_progress(audits, estimate_accuracy(right), change) == expected
