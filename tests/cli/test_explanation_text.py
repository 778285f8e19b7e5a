from types import SimpleNamespace

import numpy as np

from dahgnn.classifier.explanation import Explanation, HyperedgeAttention, RowAttention
from dahgnn.cli.explanation_text import describe

FITTED = SimpleNamespace(
    ids=["a", "b\r", "c"],
    labels=["red", None, None],
    name_hyperedge={5: "club\x1b"}.get,
    classifier=SimpleNamespace(
        classes_=np.array(["blue", "red"]),
        label_distributions_=np.array([[0.1, 0.9], [0.25, 0.75], [0.6, 0.4]]),
        transduction_=np.array(["red", "red", "blue"]),
        combination_={"linear": 0.4, "networks": 0.6},
    ),
)


def test_an_explanation_is_ranked_and_names_rows_by_id():
    hyperedge = HyperedgeAttention(
        hyperedge=4,
        centre=0,
        weight=0.5,
        members=(RowAttention(row=0, weight=0.7), RowAttention(row=2, weight=0.3)),
    )
    explanation = Explanation(row=1, hyperedges=(hyperedge,), labelled=(RowAttention(row=0, weight=0.125),))
    assert describe(explanation, FITTED).splitlines() == [
        "Row b\N{REPLACEMENT CHARACTER}: red 75.0 %, blue 25.0 %.",
        "Labels come from the networks 60 %, a linear model 40 %. The rest tells of the networks alone.",
        "",
        "Labelled rows that its attention came from (all of them: 12.5 %):",
        "  12.50 %  a: red",
        "",
        "Hyperedges that it listened to in the last layer, and who spoke most in each:",
        "  50.00 %  hyperedge around a: a (red) 70 %, c (predicted blue) 30 %",
    ]


def test_a_hyperedge_is_called_as_the_user_calls_it():
    hyperedge = HyperedgeAttention(
        hyperedge=5, centre=None, weight=1.0, members=(RowAttention(row=0, weight=1),)
    )
    said = describe(Explanation(row=1, hyperedges=(hyperedge,), labelled=()), FITTED).splitlines()
    assert said[-1] == "  100.00 %  hyperedge club\N{REPLACEMENT CHARACTER}: a (red) 100 %"


def test_a_given_label_is_said_and_no_labelled_row_too():
    said = describe(Explanation(row=0, hyperedges=(), labelled=()), FITTED)
    assert "Its given label is red." in said
    assert "none: no labelled row is within reach of two layers." in said


def test_networks_without_a_part_in_the_labels_are_said():
    classifier = SimpleNamespace(**vars(FITTED.classifier) | {"combination_": {"linear": 1.0}})
    fitted = SimpleNamespace(**vars(FITTED) | {"classifier": classifier})
    said = describe(Explanation(row=1, hyperedges=(), labelled=()), fitted).splitlines()
    assert said[1] == (
        "Labels come from a linear model 100 %. The networks, of which the rest tells, had no part in them."
    )
