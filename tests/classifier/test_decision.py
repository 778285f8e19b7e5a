"""What a fit says that it decided."""

import numpy as np
import pytest

from dahgnn import DAHGNNClassifier, Hypergraph
from dahgnn.classifier.decision import say_held_out, say_networks


@pytest.mark.parametrize(
    ("held", "refit", "wanted", "expected"),
    [
        (9, True, True, "each label was held out in turn"),
        (1_200, True, True, "1,200 of 1,500 labels were held out"),
        (8, False, True, "8 of 9 labels were held out, and judge alone"),
        (9, False, True, "9 of 9 labels were held out, and judge alone"),
        (0, True, True, "no label could be held out"),
        (0, True, False, "no label was held out"),
    ],
)
def test_it_is_said_how_many_labels_were_held_out(held, refit, wanted, expected):
    labelled = 1_500 if held > 9 else 9
    assert say_held_out(held, labelled, refit=refit, wanted=wanted) == expected


@pytest.mark.parametrize(
    ("shares", "end"),
    [
        ({"networks": 0.2, "linear": 0.8}, ""),
        ({"networks": 0.004, "linear": 0.996}, ", without a weight of their own in the labels"),
        ({"linear": 1.0}, ", without a weight of their own in the labels"),
    ],
)
def test_networks_that_nobody_asks_are_said_to_be_such(shares, end):
    assert say_networks("2 networks trained", 2, shares) == f"2 networks trained{end}"
    assert say_networks("1 network trained", 1, shares) == f"1 network trained{end.replace('their', 'its')}"


@pytest.fixture
def fit(blobs):
    def fit_some(labels_a_class, *, given=None, **settings):
        rows, labels = (each.numpy() for each in blobs)
        partly = np.where(np.arange(120) < 3 * labels_a_class, labels, -1)
        return DAHGNNClassifier(random_state=0, **settings).fit(rows, partly, **(given or {}))

    return fit_some


def test_with_one_label_a_class_nothing_is_held_out_and_no_network_counts(fit):
    assert fit(1, networks=2).decision_ == (
        "Columns have one scale; the 10 nearest neighbours by local scale come from an exact search; "
        "2 networks trained on all rows at once, without a weight of their own in the labels; "
        "no label could be held out; "
        "labels come from Poisson learning 75 %, a linear model 25 %"
    )


def test_the_distance_and_what_was_held_out_are_those_of_the_fit(fit):
    found = fit(10, k=4, metric="euclidean")
    assert "; the 4 nearest neighbours by plain distance come from an exact search;" in found.decision_
    assert "; each label was held out in turn; labels come from" in found.decision_
    judged = fit(10, networks=1, validation=np.arange(12))
    assert "; 12 of 30 labels were held out, and judge alone;" in judged.decision_
    unjudged = fit(10, networks=1, validation=0)
    assert "; no label was held out; labels come from" in unjudged.decision_


def test_neighbours_and_hyperedges_that_are_given_are_said_to_be_so(fit):
    near = np.random.default_rng(0).permuted(np.tile(np.arange(120), (120, 1)), axis=1)[:, :5]
    assert "; neighbours are as given;" in fit(4, networks=1, given={"neighbors": near}).decision_
    groups = Hypergraph.from_hyperedges([range(i, i + 6) for i in range(0, 120, 6)], n_nodes=120)
    found = fit(4, networks=1, given={"hypergraph": groups})
    assert " the 10 nearest neighbours by local scale beside the given hyperedges; " in found.decision_
    assert "; Poisson learning on neighbours by plain distance has no part; " in found.decision_
