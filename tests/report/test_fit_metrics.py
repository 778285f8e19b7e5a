import hashlib

import numpy as np
import pytest

from dahgnn import DAHGNNClassifier, __version__
from dahgnn.report.fit_metrics import check_class_weight, gather_metrics, gather_origin


def test_an_origin_names_the_file_the_settings_and_the_command(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n")
    classifier = DAHGNNClassifier(k=7, random_state=3, class_weight="balanced")
    found = gather_origin(tmp_path / "table.csv", ["1 row."], classifier, "dahgnn fit table.csv")
    assert found == {
        "version": __version__,
        "command": "dahgnn fit table.csv",
        "file": "table.csv",
        "sha256": hashlib.sha256(b"a,b\n").hexdigest(),
        "notes": ["1 row."],
        "seed": 3,
        "settings": {
            "k": 7,
            "networks": "auto",
            "validation": 0.2,
            "scale": "auto",
            "class_weight": "balanced",
            "class_prior": None,
            "device": "auto",
        },
    }
    assert gather_origin(tmp_path, [], classifier, None)["sha256"] is None


def test_metrics_count_held_out_labels_that_were_found():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(40, 2)) + 5 * (np.arange(40) % 2)[:, None]
    labels = np.array(["u", "v"] * 10 + [None] * 20, dtype=object)
    classifier = DAHGNNClassifier(random_state=0, networks=5).fit(features, labels)
    found = gather_metrics(classifier, labels, 1.23456)
    right = classifier.classes_[classifier.held_out_distributions_.argmax(1)] == labels[:20]
    assert found["held_out_accuracy"] == right.mean()
    assert (found["rows"], found["labelled"], found["held_out"], found["k"]) == (40, 20, 20, 10)
    assert found["seconds"] == 1.235


def test_weights_are_of_classes_that_there_are():
    check_class_weight(None, ["a", None])
    check_class_weight("balanced", ["a", None])
    check_class_weight({"ant": 2.0}, ["ant", None])
    with pytest.raises(ValueError, match="must name a class. Got 'aunt'. Did you mean 'ant'?"):
        check_class_weight({"aunt": 2.0}, ["ant", "bee", None])
