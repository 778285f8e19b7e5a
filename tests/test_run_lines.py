"""What a run line says."""

import json

import pytest
import torch

from dahgnn import HGNN, TrainingConfig, fit
from dahgnn.run_lines import compose_line, describe_training


def test_a_line_counts_what_was_right_and_what_was_taken_for_what(blobs, blob_split):
    labels = blobs[1]
    predictions = labels.clone()
    wrong = blob_split.test[:5]
    predictions[wrong] = (labels[wrong] + 1) % 3
    line = compose_line(blob_split, labels, predictions, 1.23456, "cpu")
    count = len(blob_split.test)
    assert line["metrics"] == {
        "train_accuracy": 1.0,
        "validation_accuracy": 1.0,
        "test_accuracy": pytest.approx(1 - 5 / count),
    }
    confusion = torch.tensor(line["confusion"])
    assert confusion.sum().item() == count
    assert confusion.diagonal().sum().item() == count - 5
    for node in wrong.tolist():
        assert confusion[labels[node], predictions[node]] > 0
    assert line["split"] == {"digest": blob_split.digest, "train": 15, "validation": 24, "test": count}
    assert (line["labels"], line["seconds"], line["epochs"]) == (15, 1.2346, None)
    assert line["device"]["type"] == "cpu"
    assert {"dahgnn", "python", "torch"} <= line["versions"].keys()
    json.dumps(line)


@pytest.mark.parametrize("epochs", [1, 30, 400])
def test_a_curve_keeps_the_first_and_the_last_epoch(blobs, blob_hypergraph, blob_split, epochs):
    config = TrainingConfig(max_epochs=epochs, patience=epochs)
    result = fit(HGNN(6, 3, hidden=4), blobs[0], blob_hypergraph, blobs[1], blob_split, config)
    line = describe_training(result)
    curve = line["history"]
    assert (line["epochs"], line["stopped"]) == (epochs, "max_epochs")
    assert curve["epoch"][0] == 0
    assert curve["epoch"][-1] == epochs
    assert len(set(curve["epoch"])) == len(curve["epoch"]) == min(epochs + 1, 40)
    for name in ("train_loss", "validation_loss", "validation_accuracy"):
        expected = [getattr(result.history[place], name) for place in curve["epoch"]]
        assert curve[name] == pytest.approx(expected, abs=1e-4)
