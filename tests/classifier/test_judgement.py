"""How right an ensemble is, by labels that nobody who judges them has seen."""

import math

import numpy as np
import pytest

from dahgnn.classifier import judgement
from dahgnn.classifier.judgement import (
    Claim,
    Estimate,
    Judged,
    add_gain,
    as_if_unseen,
    claim_accuracy,
    count_held_out,
    estimate_accuracy,
    judge_held_out,
    without_weights,
)
from dahgnn.classifier.known import Known
from dahgnn.classifier.stacking import CANDIDATES, Stack, learn_stack

# All labels gain nothing.
NOTHING = Claim(0.9, 0.9)


def judge(rows, said, known=None):
    """What is said of held-out rows, the same by the combination of all labels unless that is given."""
    return Judged(rows, said, said if known is None else known)


def test_a_label_held_out_several_times_counts_once():
    places = np.array([0, 1, 0, 2, 0, 1])
    known = Known(np.arange(3), np.array([0, 1, 0]), np.array([1.0, 1.0, 3.0]), 2, [])
    counts = count_held_out(known, places)
    np.testing.assert_allclose(np.bincount(places, counts), [1, 1, 3])
    np.testing.assert_allclose(counts, [1 / 3, 1 / 2, 1 / 3, 3, 1 / 3, 1 / 2])


@pytest.mark.parametrize(
    "folds", [[[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 1, 2, 9], [3, 4, 9], [5, 6, 9]], [[0, 3, 4, 5, 7, 8, 9]]]
)
def test_a_combination_never_sees_the_label_that_it_judges(monkeypatch, folds):
    """Whoever learns a combination is watched: the rows that it then speaks of are not among its labels."""
    n_classes = 3
    labels = np.arange(10) % n_classes
    known = Known(np.arange(10), labels, np.ones(10), n_classes, [np.array(fold) for fold in folds])
    places = np.concatenate(known.held_places)
    candidates = list(CANDIDATES[:2])
    # Each opinion names its row, so that one can see whom a combination is learnt from.
    named = np.column_stack([places, np.zeros(len(places)), np.zeros(len(places))]).astype(float)
    seen, told = [], []
    whole = Stack(tuple(candidates), (0.5, 0.5))

    def learn(_, opinions, given, counts, near):
        rows = opinions[0][:, 0].astype(int)
        assert given.tolist() == labels[rows].tolist()
        assert len(counts) == len(rows)
        assert near is whole
        seen.append(set(rows.tolist()))

    def apply(_, __, opinions):
        told.append(set(opinions[0][:, 0].astype(int).tolist()))
        return np.full((len(opinions[0]), n_classes), 1 / n_classes)

    monkeypatch.setattr(judgement, "learn_stack", learn)
    monkeypatch.setattr(judgement, "_apply", apply)
    rows, shares, _ = judge_held_out(candidates, [named, named], known, places, whole)
    assert len(seen) == len(told) - 1 >= len(folds)
    for learnt, judged in zip(seen, told, strict=False):  # the last who speaks is that of all labels
        assert not learnt & judged
    assert set.union(*told) == set(rows.tolist()) == set(places.tolist())
    np.testing.assert_allclose(shares, 1 / n_classes)


@pytest.mark.parametrize("folds", [[], [[0, 1, 2]]])
def test_a_judgement_may_have_nothing_or_little_to_judge(folds):
    labels = np.arange(9) % 3
    known = Known(np.arange(9), labels, np.ones(9), 3, [np.array(fold) for fold in folds])
    places = np.concatenate([np.empty(0, np.int64), *known.held_places])
    said = [np.full((len(places), 3), 1 / 3)] * len(CANDIDATES)
    whole = learn_stack(CANDIDATES, said, labels[places])
    judged = judge_held_out(list(CANDIDATES), said, known, places, whole)
    assert judged.rows.tolist() == places.tolist()
    for shares in judged[1:]:
        np.testing.assert_allclose(shares, np.full((len(places), 3), 1 / 3))


def make(n_known):
    """Labels of two classes in turn."""
    return Known(np.arange(n_known), np.arange(n_known) % 2, np.ones(n_known), 2, [])


def wilson(accuracy, n):
    """The interval of Wilson (1927) for 95 % confidence, as a textbook has it."""
    z = 1.959963984540054
    centre = (accuracy + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(accuracy * (1 - accuracy) / n + z**2 / (4 * n**2))
    return centre - half, centre + half


def test_classes_count_by_their_shares_among_all_rows():
    known = make(10)
    right = np.array([1, 1, 1, 0, 1, 0, 1, 0, 1, 0], dtype=bool)  # all of class 0, one of five of class 1
    said = np.eye(2)[np.where(right, known.labels, 1 - known.labels)]
    everybody = np.eye(2)[[0] * 45 + [1] * 15]
    found = estimate_accuracy(known, judge(np.arange(10), said), everybody, NOTHING)
    assert found.accuracy == pytest.approx(0.75 * 1.0 + 0.25 * 0.2)
    assert found.n == 10
    # The weights of the ten are worth eight, which err together, and 50 others may differ from what is usual.
    assert (found.low, found.high) == pytest.approx(wilson(0.8, 1 / (2 / 8 + 1 / 50)))


def test_with_all_rows_labelled_the_interval_is_that_of_such_rows():
    known = make(10)
    found = estimate_accuracy(
        known, judge(np.arange(10), np.eye(2)[known.labels]), np.eye(2)[known.labels], NOTHING
    )
    assert (found.low, found.high) == pytest.approx(wilson(1.0, 10 / 2))


def test_who_gives_all_rows_to_one_class_is_not_right_for_it():
    known = make(12)
    said, everybody = np.tile([0.51, 0.49], (12, 1)), np.tile([0.51, 0.49], (60, 1))
    found = estimate_accuracy(known, judge(np.arange(12), said), everybody, NOTHING)
    assert found.accuracy == pytest.approx(0.51)


def test_rows_without_a_held_out_label_are_not_judged():
    known = make(20)
    held = np.arange(3, 11)
    said = np.eye(2)[known.labels[held]]
    said[0] = said[0, ::-1]
    found = estimate_accuracy(known, judge(held, said), np.eye(2)[np.arange(60) % 2], NOTHING)
    assert found.accuracy == pytest.approx(0.5 * 1 + 0.5 * 3 / 4)
    assert found.n == 8


@pytest.mark.parametrize("n", [0, 1, 5])
def test_too_few_labels_tell_nothing(n):
    known = make(20)
    judged = judge(np.arange(n), np.eye(2)[known.labels[:n]])
    assert estimate_accuracy(known, judged, np.ones((60, 2)), NOTHING) is None


def test_a_class_that_is_never_held_out_is_left_out_if_it_is_small():
    labels = np.array([0, 1] * 4 + [2])
    known = Known(np.arange(9), labels, np.ones(9), 3, [])
    said = np.eye(3)[labels[:8]]
    said[0] = said[1]
    small, large = (np.eye(3)[[0] * 20 + [1] * 20 + [2] * count] for count in (4, 20))
    found = estimate_accuracy(known, judge(np.arange(8), said), small, NOTHING)
    assert found.accuracy == pytest.approx(7 / 8)
    assert found.low < found.accuracy < found.high
    assert estimate_accuracy(known, judge(np.arange(8), said), large, NOTHING) is None


@pytest.mark.parametrize(("gain", "expected"), [(0.1, 0.9), (0.0, 0.8), (0.4, 1.0)])
def test_what_all_labels_gain_is_added(gain, expected):
    known = make(10)
    said = np.eye(2)[known.labels]
    said[:2] = said[:2, ::-1]  # one of each class is wrong
    claim = Claim(0.6, 0.6 + gain)
    found = estimate_accuracy(known, judge(np.arange(10), said), np.eye(2)[np.arange(60) % 2], claim)
    assert found.accuracy == pytest.approx(expected)
    assert 0 <= found.low <= found.accuracy <= found.high <= 1


def test_a_gain_counts_as_far_as_the_claim_is_true():
    claim = Claim(0.7, 0.8)
    assert add_gain(0.7, claim, 2) == pytest.approx(0.8)
    assert add_gain(0.6, claim, 2) == pytest.approx(0.6 + 0.1 / 2)  # half of what is claimed above chance
    assert add_gain(0.5, claim, 2) == 0.5
    assert add_gain(0.4, claim, 2) == pytest.approx(0.4 - 0.1 / 2)
    assert add_gain(0.9, claim, 2) == pytest.approx(1.0)
    assert add_gain(0.0, claim, 2) == pytest.approx(-0.1)
    assert add_gain(0.9, Claim(0.5, 0.6), 2) == 0.9


def test_a_claim_is_how_likely_the_classes_are():
    whole = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]])
    same, other = whole.copy(), np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert claim_accuracy(whole, [same], whole) == pytest.approx((0.6, 0.6))
    assert claim_accuracy(whole, [other], whole) == pytest.approx((0.3, 0.6))
    assert claim_accuracy(whole, [same, other], whole) == pytest.approx((0.45, 0.6))
    # Weights may have made the final classes less likely than the others are.
    likely = np.array([[0.3, 0.6, 0.1], [0.1, 0.5, 0.4]])
    assert claim_accuracy(whole, [other], likely) == pytest.approx((0.5, 0.4))


@pytest.mark.parametrize("refit", [True, False])
def test_what_a_combination_knows_of_the_labels_is_taken_off(refit):
    labels = np.arange(8) % 2
    known = Known(np.arange(8), labels, np.ones(8), 2, [np.arange(4), np.arange(4, 8)], refit)
    without, within = np.eye(2)[labels], np.eye(2)[labels]
    without[:4], within[:2] = without[:4, ::-1], within[:2, ::-1]
    judged = Judged(np.arange(8), without, within)
    found = estimate_accuracy(known, judged, np.eye(2)[np.arange(60) % 2], NOTHING)
    assert found.accuracy == pytest.approx(2 * 0.5 - 0.75 if refit else 0.5)


def smooth_without(kernel, targets, here, unseen):
    """What a smoother that has not seen some labels says of a row, label by label."""
    others = [there for there in range(len(targets)) if there not in unseen]
    return sum(kernel[here, there] * targets[there] for there in others)


def test_two_smoothers_of_one_label_know_it_twice():
    """How well a smoother does, by labels that its judges have not seen at all, is told without such judges."""
    generator = np.random.default_rng(0)
    kernel, targets = generator.normal(size=(12, 12)), generator.normal(size=12)
    kernel += kernel.T
    folds = np.arange(12).reshape(4, 3)
    for out in folds:
        rows = [(here, fold) for fold in folds for here in fold]
        worth = {here: targets[here] * smooth_without(kernel, targets, here, fold) for here, fold in rows}
        clean = sum(
            targets[here] * smooth_without(kernel, targets, here, [*fold, *out])
            for here, fold in rows
            if here not in out
        )
        without = sum(value for here, value in worth.items() if here not in out)
        assert as_if_unseen(without, sum(worth.values())) == pytest.approx(clean)


def state_on_noise(seed, n_classes=3, count=5):
    """What is stated of labels that nothing tells, by opinions of smoothers; and without what is taken off."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), count)
    folds = [np.arange(fold, len(labels), count) for fold in range(count)]  # one label of each class
    known = Known(np.arange(len(labels)), labels, np.ones(len(labels)), n_classes, folds)
    places = np.concatenate(folds)
    candidates, held = list(CANDIDATES[:8]), []
    for _ in candidates:
        columns = generator.normal(size=(len(labels), 4))
        kernel = columns @ columns.T
        scores = []
        for fold in folds:
            seen = np.setdiff1d(np.arange(len(labels)), fold)
            scores.append(kernel[np.ix_(fold, seen)] @ (np.eye(n_classes)[labels[seen]] - 1 / n_classes))
        likely = np.exp(0.3 * np.concatenate(scores))
        held.append(likely / likely.sum(1, keepdims=True))
    judged = judge_held_out(candidates, held, known, places, learn_stack(candidates, held, labels[places]))
    everybody = np.full((60, n_classes), 1 / n_classes)
    both = (judged, judged._replace(known=judged.said))
    return [estimate_accuracy(known, each, everybody, NOTHING).accuracy for each in both]


def test_noise_is_not_praised():
    stated, before = np.mean([state_on_noise(seed) for seed in range(150)], 0)
    assert abs(stated - 1 / 3) < 0.03
    assert before > 1 / 3 + 0.08


def test_what_labels_tell_each_other_counts_as_far_as_they_agree_by_chance():
    labels = np.arange(20) % 2
    known = Known(np.arange(20), labels, np.ones(20), 2, [np.arange(10), np.arange(10, 20)])
    everybody = np.full((60, 2), 0.5)

    def state(without, within):
        said = [np.eye(2)[np.where(np.arange(20) < count, labels, 1 - labels)] for count in (without, within)]
        return estimate_accuracy(known, Judged(np.arange(20), *said), everybody, NOTHING).accuracy

    assert state(10, 14) == pytest.approx(0.5 - 0.2)  # all of it: half are right by chance
    assert state(16, 18) == pytest.approx(0.8 - 0.4 * 0.1)
    assert state(18, 20) == pytest.approx(0.9 - 0.2 * 0.1)
    assert state(20, 20) == 1


def test_weights_are_taken_out_of_distributions():
    known = Known(np.arange(4), np.array([0, 0, 1, 2]), np.array([1.0, 3.0, 1.0, 8.0]), 3, [])
    true = np.array([[0.5, 0.3, 0.2], [0.0, 0.9, 0.1]])
    bent = true * [2, 1, 8]
    bent /= bent.sum(1, keepdims=True)
    np.testing.assert_allclose(without_weights(bent, known), true)


def test_without_rows_or_parts_there_is_no_gain():
    nothing = np.empty((0, 3))
    for claim in (claim_accuracy(nothing, [nothing], nothing), claim_accuracy(np.eye(3), [], np.eye(3))):
        assert add_gain(0.7, claim, 3) == 0.7


def test_an_estimate_is_a_value():
    assert Estimate(0.5, 0.4, 0.6, 10) == Estimate(accuracy=0.5, low=0.4, high=0.6, n=10)
