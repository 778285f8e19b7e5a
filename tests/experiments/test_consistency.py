import pytest
from report_cases import make_line

from dahgnn.experiments.consistency import Agreement, contradiction, identity_key


def test_an_honest_line_has_no_contradiction():
    assert contradiction(make_line()) == ""
    assert contradiction(make_line(confusion=None, labels=7, best_epoch=100)) == ""
    stated = {"test_accuracy": 0.9, "stated_low": 0.8, "stated_accuracy": 1.0, "stated_high": 1.0 - 1e-9}
    assert contradiction(make_line(metrics=stated)) == ""


METRICS = {"train_accuracy": 1.0, "validation_accuracy": 0.8, "test_accuracy": 0.9}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"metrics": METRICS | {"test_accuracy": 0.95}},
            "0.95, but 900 of 1000 right in its confusion matrix",
        ),
        ({"confusion": [[400, 100], [1, 499]]}, "0.9, but 899 of 1000 right"),
        (
            {"confusion": [[400, 100], [0, 501]]},
            "counts 1001 test nodes in its confusion matrix, but has 1000",
        ),
        ({"confusion": [[0, 0], [0, 0]], "split": {"digest": "a"}}, "but 0 of 0 right"),
        ({"labels": 21, "split": {"digest": "a", "train": 20}}, "has 21 labels, but a split of 20 training"),
        ({"seed": 5}, "has the seed 5 of another run than 0"),
        ({"labels": 21}, "has 21 labels, which are not as many of each of 2 classes"),
        (
            {"metrics": METRICS | {"validation_accuracy": 0.85}},
            "'validation_accuracy' of 0.85, which no number",
        ),
        ({"metrics": METRICS | {"train_accuracy": 0.99}}, "of 0.99, which no number of its 20 nodes gives"),
        (
            {"metrics": METRICS | {"stated_low": 0.8, "stated_accuracy": 0.95, "stated_high": 0.9}},
            "states an accuracy of 0.95 outside its own interval from 0.8 to 0.9",
        ),
        ({"best_epoch": 101}, "has the best epoch 101 of 100"),
        ({"best_epoch": 3, "epochs": None}, "has the best epoch 3 of None"),
        ({"key": "0123456789abcdef"}, "key '0123456789abcdef', which is not that of its settings, data"),
    ],
)
def test_a_line_that_contradicts_itself_is_named(changes, words):
    assert words in contradiction(make_line(**changes))


@pytest.mark.parametrize("name", ["experiment", "dataset", "data", "method", "run", "settings"])
def test_nothing_that_makes_a_measurement_changes_without_its_key(name):
    line = make_line()
    line |= {name: 5, "seed": 5 if name == "run" else 0}
    assert "which is not that of its settings" in contradiction(line)


def test_the_key_is_that_of_sorted_json():
    assert identity_key({"b": 1, "a": [2]}) == identity_key({"a": [2], "b": 1}) == "41ff4104bc489a1b"


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (make_line("other", data="other digits"), "data"),
        (make_line("other", split={"digest": "b"}), "splits of the same run"),
        (make_line("other", confusion=[[401, 50], [50, 499]]), "test nodes of each class"),
        (make_line("other", 1, confusion=[[900, 0, 0], [0, 0, 100], [0, 0, 0]]), "classes"),
        (make_line("ours", 0, 0.91), "results of the same run"),
    ],
)
def test_lines_that_cannot_be_true_together(other, what):
    agreement = Agreement()
    assert agreement.conflict(4, make_line()) == ""
    assert agreement.conflict(5, make_line("another")) == ""
    assert agreement.conflict(9, other) == f"has other {what} than line 4"
