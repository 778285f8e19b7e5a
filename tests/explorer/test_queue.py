"""Which row is asked for next."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.explanation import neighbours_of, suggest, usefulness
from dahgnn.config import PRESETS
from dahgnn.explorer import queue as queue_module
from dahgnn.explorer.queue import AUDIT_EVERY, Queue, share_of_unseen

SIZES = (50, 40, 30, 20, 10)


def groups(seed=0, spread=0.1):
    """Five groups of points, the first of them the largest; (features, group of each row)."""
    generator = np.random.default_rng(seed)
    group = np.repeat(np.arange(5), SIZES)
    features = 10 * np.eye(5)[group] + spread * generator.normal(size=(len(group), 5))
    order = generator.permutation(len(group))
    return features[order], group[order]


def ways_of(features, k=4):
    return Hypergraph.from_features(features, k=k).neighbourhood("centre")


def ask(queue, count, n, *, scores=None, skipped=None, leased=None, labelled=None, start=0):
    """Ask for rows and label each; the rows and their ways."""
    none = np.zeros(n, dtype=bool)
    labelled = none.copy() if labelled is None else labelled.copy()
    rows, said = [], []
    for number in range(start, start + count):
        found = queue.next(
            labelled, none if skipped is None else skipped, none if leased is None else leased, scores, number
        )
        if found is None:
            break
        labelled[found[0]] = True
        rows.append(found[0])
        said.append(found[1])
    return rows, said


def test_each_cluster_is_asked_once_for_its_densest_row_the_largest_first():
    features, group = groups()
    rows, said = ask(Queue(features, ways_of(features), levels=(5,)), 6, len(features))
    assert said == ["diverse"] * 5 + ["random"]
    assert group[rows[:5]].tolist() == [0, 1, 2, 3, 4]
    apart = np.linalg.norm(features[:, None] - features, axis=2)
    nearest = np.sort(apart, axis=1)[:, 1:5].mean(1)  # without the row itself
    for number, row in enumerate(rows[:5]):
        assert nearest[row] == nearest[group == number].min()


def test_a_cluster_with_a_labelled_leased_or_skipped_row_is_not_asked_again():
    features, group = groups()
    labelled, leased, skipped = (
        np.isin(np.arange(150), np.flatnonzero(group == each)[:1]) for each in (0, 2, 3)
    )
    rows, said = ask(
        Queue(features, ways_of(features), levels=(5,)),
        3,
        150,
        labelled=labelled,
        leased=leased,
        skipped=skipped,
    )
    assert group[rows[:2]].tolist() == [1, 4]
    assert said == ["diverse", "diverse", "random"]


def test_every_tenth_row_is_drawn_from_all_without_a_label_by_seed_and_number():
    features, _ = groups()
    labelled = np.arange(150) % 3 == 0
    none = np.zeros(150, dtype=bool)
    leased, skipped = np.arange(150) % 3 == 1, np.arange(150) >= 120
    counts = np.zeros(150)
    queues = [Queue(features, levels=(2,), seed=seed) for seed in range(3)]
    for number in range(9, 9000, 10):
        for queue in queues:
            row, way = queue.next(labelled, skipped, leased, None, number)
            assert way == "audit"
            counts[row] += 1
    free = ~(labelled | leased | skipped)
    assert not counts[~free].any()
    # 2,700 draws from 40 rows: the statistic of χ² with 39 degrees of freedom exceeds 73 once in 1,000 times.
    expected = 2700 / free.sum()
    assert ((counts[free] - expected) ** 2 / expected).sum() < 73
    again = Queue(features, ways_of(features), seed=1)
    ask(again, 9, 150)  # what came before does not matter
    assert again.next(labelled, skipped, leased, None, 19) == Queue(features, seed=1).next(
        labelled, skipped, leased, None, 19
    )
    drawn = {queues[0].next(none, none, none, None, number)[0] for number in range(9, 300, 10)}
    assert len(drawn) > 20


def test_the_order_of_ways():
    features, _ = groups()
    scores = np.linspace(0, 1, 150)
    _, said = ask(Queue(features, ways_of(features), levels=(15,)), 40, 150, scores=scores)
    assert [number for number, way in enumerate(said) if way == "audit"] == [9, 19, 29, 39]
    others = [way for way in said if way != "audit"]
    assert others == sorted(others)  # first diverse, then uncertain
    assert 10 <= others.count("diverse") <= 15  # audit rows cover clusters, too
    assert others.count("uncertain") >= 20


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = 2 * generator.normal(size=(3, 4))[labels] + generator.normal(size=(90, 4))
    given = np.where(np.arange(90) < 24, labels, -1)
    quick = replace(PRESETS["default"].training, max_epochs=4)
    classifier = DAHGNNClassifier(k=5, training=quick, networks=2, random_state=0)
    return classifier.fit(features, given), features


def test_uncertain_rows_are_those_that_suggest_gives(fitted, monkeypatch):
    monkeypatch.setattr(queue_module, "AUDIT_EVERY", 10**9)
    classifier, features = fitted
    queue = Queue(features, classifier.hypergraph_.neighbourhood("centre"), levels=(1,))
    scores = usefulness(classifier.label_distributions_, classifier.density_)
    rows, said = ask(queue, 7, 90, scores=scores, labelled=np.arange(90) < 24)
    assert set(said) == {"uncertain"}
    assert rows == suggest(classifier, 7).tolist()


def test_no_two_alike_follow_each_other():
    """Twenty copies of each of 40 points; the model is unsure of the copies of four of them alone."""
    generator = np.random.default_rng(0)
    point = np.repeat(np.arange(40), 20)
    features = generator.normal(size=(40, 3))[point] + 1e-6 * generator.normal(size=(800, 3))
    scores = np.where(point < 4, 1.0, 0.1) + 0.01 * generator.random(800)
    rows, said = ask(Queue(features, ways_of(features, k=19), levels=(10,)), 35, 800, scores=scores)
    chosen = [point[row] for row, way in zip(rows, said, strict=True) if way != "audit"]
    assert len(chosen) == len(set(chosen)) == 32
    # With a new model the copies of the older ones may come again, those of the last twenty not.
    newer, queue = scores.copy(), Queue(features, ways_of(features, k=19), levels=(10,))
    rows, _ = ask(queue, 35, 800, scores=scores)
    labelled = np.isin(np.arange(800), rows)
    row, way = queue.next(labelled, ~labelled & False, ~labelled & False, newer, 35)
    assert way == "uncertain"
    assert point[row] in {point[each] for each in rows[:15]}
    assert point[row] not in {point[each] for each in rows[15:]}


def test_rows_near_recent_ones_come_when_no_other_is_left():
    features, _ = groups()
    ways = ways_of(features)
    queue = Queue(features, ways, levels=(1,))
    rows, _ = ask(queue, 1, 150)
    near = neighbours_of(rows[0], ways)
    labelled = ~np.isin(np.arange(150), near)
    scores = np.arange(150.0)
    assert queue.next(labelled, labelled & False, labelled & False, scores, 1) == (near.max(), "uncertain")


def test_skipped_rows_come_last_and_leased_ones_never():
    features, _ = groups()
    skipped, leased = np.arange(150) < 20, np.arange(150) >= 140
    rows, _ = ask(Queue(features, ways_of(features)), 200, 150, skipped=skipped, leased=leased)
    assert sorted(rows) == list(range(140))
    assert all(skipped[row] for row in rows[120:])
    assert not any(skipped[row] for row in rows[:120])


@pytest.mark.parametrize("scores", [None, np.ones(4)])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_and_equal_rows_all_come_once(n, scores):
    features = np.ones((n, 3))
    ways = ways_of(features, k=1) if n > 1 else None
    rows, _ = ask(Queue(features, ways), 10, n, scores=scores if scores is None else scores[:n])
    assert sorted(rows) == list(range(n))
    everything, nothing = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    queue = Queue(features, ways)
    assert queue.next(everything, nothing, nothing, None, 0) is None
    assert queue.next(nothing, nothing, everything, None, 9) is None
    assert queue.next(everything, everything, nothing, None, 9) is None
    assert queue.next(nothing, everything, nothing, None, 0)[0] in range(n)
    assert queue.next(nothing, everything, nothing, None, 9)[1] == "audit"


def test_finer_clusters_follow_while_classes_may_be_unseen():
    features, _ = groups(spread=2.0)
    ways, scores = ways_of(features), np.ones(150)
    none = np.zeros(150, dtype=bool)

    def said(counts, scores, number=3):
        queue = Queue(features, ways, levels=(3, 6, 12))
        rows, _ = ask(queue, 3, 150)
        return queue.next(np.isin(np.arange(150), rows), none, none, scores, number, counts)[1]

    assert said([1, 1, 1], scores) == "diverse"  # three classes of three labels: there may be many more
    assert said([2, 1], scores) == "diverse"
    assert said([3], scores) == "uncertain"
    assert [said([3], scores, number) for number in (4, 5, 6)] == ["uncertain", "diverse", "uncertain"]
    assert said([], scores) == "uncertain"  # nobody says what was seen
    assert said([3], None) == "diverse"  # nobody knows better
    rows, ways_said = ask(Queue(features, ways, levels=(3, 6, 8)), 9, 150)
    assert ways_said[:8] == ["diverse"] * 8
    for level in Queue(features, ways, levels=(3, 6, 8))._levels[:2]:
        assert set(level.of_row[rows[:8]]) == set(range(len(level.typical)))


def test_classes_that_are_seen_once_tell_of_those_that_are_not():
    """Draws from 30 classes: the estimate is near the share of rows whose class was not drawn."""
    generator = np.random.default_rng(0)
    shares = np.full(30, 1 / 30)
    errors = []
    for _ in range(3000):
        counts = np.bincount(generator.choice(30, size=40, p=shares), minlength=30)
        errors.append(share_of_unseen(counts) - shares[counts == 0].sum())
    assert abs(np.mean(errors)) < 0.015
    assert share_of_unseen([]) == share_of_unseen([0]) == 0
    assert share_of_unseen([1]) == 1


def test_the_seed_is_all_the_chance_there_is():
    features, _ = groups(spread=5.0)
    one, other = (ask(Queue(features, ways_of(features), seed=7), 60, 150) for _ in range(2))
    assert one == other
    assert one != ask(Queue(features, ways_of(features), seed=8), 60, 150)


def test_wrong_arguments_are_refused():
    features, _ = groups()
    with pytest.raises(ValueError, match="The 'ways' parameter of Queue must be of length 150. Got"):
        Queue(features, ways_of(features[:100]))
    with pytest.raises(ValueError, match="The 'levels' parameter of Queue must be numbers of at least 1"):
        Queue(features, levels=(4, 0))
    with pytest.raises(ValueError, match="The 'features' parameter of Queue must be finite"):
        Queue(torch.full((3, 2), float("nan")))
    assert AUDIT_EVERY == 10
