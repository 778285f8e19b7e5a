"""What a run line says."""

import json
import logging
import math

import pytest
import torch
from report_cases import make_line, make_lines

from dahgnn import HGNN, TrainingConfig, fit
from dahgnn.experiments.lines import compose_line, describe_training, read_lines


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


def write(path, lines, end="\n"):
    path.write_text("\n".join(json.dumps(line) for line in lines) + end)
    return path


@pytest.fixture
def lines():
    return make_lines()


def test_lines_are_read_in_order(tmp_path, lines, caplog):
    assert read_lines(write(tmp_path / "runs.jsonl", lines)) == lines
    assert caplog.records == []


def test_a_whole_last_line_without_its_newline_counts(tmp_path, lines):
    assert read_lines(write(tmp_path / "runs.jsonl", lines, end="")) == lines


@pytest.mark.parametrize("cut", ['{"experiment": "tab', "{", '{"method": "\u00e4'])
def test_a_cut_last_line_is_left_out_with_a_warning(tmp_path, lines, caplog, cut):
    path = write(tmp_path / "runs.jsonl", lines)
    # The last byte goes, too, so that a letter of two bytes is cut in half.
    path.write_bytes(path.read_bytes() + cut.encode()[: -1 if len(cut) > 1 else None])
    with caplog.at_level(logging.WARNING):
        assert read_lines(path) == lines
    assert f"line {len(lines) + 1} is cut" in caplog.text


def test_a_cut_line_elsewhere_is_an_error(tmp_path, lines):
    path = tmp_path / "runs.jsonl"
    path.write_text(
        json.dumps(lines[0]) + "\n" + json.dumps(lines[1])[:40] + "\n" + json.dumps(lines[2]) + "\n"
    )
    with pytest.raises(ValueError, match=r"Line 2 of .*runs.jsonl must be a JSON object\. Got"):
        read_lines(path)


def test_an_unreadable_last_line_that_ends_is_an_error(tmp_path, lines):
    with pytest.raises(ValueError, match="Line 7 of"):
        read_lines(write(tmp_path / "runs.jsonl", lines, end="\n{\n"))


def test_a_line_of_another_experiment_is_an_error(tmp_path, lines):
    lines[3]["experiment"] = "table3"
    path = write(tmp_path / "runs.jsonl", lines)
    with pytest.raises(ValueError, match=r"Line 4 of .* must be of experiment 'table2'\. Got 'table3'"):
        read_lines(path)
    with pytest.raises(ValueError, match="Line 1 of .* must be of experiment 'table3'"):
        read_lines(path, "table3")


def test_of_two_lines_of_a_run_the_first_counts(tmp_path, lines, caplog):
    path = write(tmp_path / "runs.jsonl", [*lines, make_line("ours", 0, 0.9, seconds=3.0)])
    assert read_lines(path) == lines
    assert f"line 7 repeats run {lines[0]['key']}" in caplog.text
    write(path, [*lines, make_line("ours", 0, 0.1)])
    with pytest.raises(ValueError, match=r"Line 7 of .* has other results of the same run than line 1\."):
        read_lines(path)


def test_a_line_that_contradicts_itself_is_refused_with_its_number(tmp_path, lines):
    lines[2]["metrics"] |= {"test_accuracy": 0.99}
    expected = "Line 3 of .* has a 'test_accuracy' of 0.99, but 920 of 1000 right in its confusion matrix"
    with pytest.raises(ValueError, match=expected + r"\. Somebody changed it: take it out"):
        read_lines(write(tmp_path / "runs.jsonl", lines))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": {"test_accuracy": 92.0}}, "a 'test_accuracy' between 0 and 1"),
        ({"metrics": {"test_accuracy": math.nan}}, "a 'test_accuracy' between 0 and 1"),
        ({"metrics": {}}, "a 'test_accuracy' between 0 and 1"),
        ({"labels": "500"}, "an integer 'labels'"),
        ({"run": True}, "an integer 'run'"),
        ({"key": None}, "a text 'key'"),
        ({"split": {}}, "the digest of its split"),
        ({"split": {"digest": "a", "test": -1}}, "counts of nodes in its 'split'"),
        ({"metrics": {"test_accuracy": 0.5, "stated_high": 1.5}}, "'metrics' between 0 and 1, or none"),
        ({"best_epoch": 0.5}, "a count as 'best_epoch', or none"),
        ({"device": "cpu"}, "an object 'device'"),
        ({"seconds": None}, "a number of 'seconds'"),
        ({"finished": "yesterday"}, "an ISO date in 'finished'"),
    ],
)
def test_a_line_that_lacks_something_is_an_error(tmp_path, lines, changes, message):
    lines[1] |= changes
    with pytest.raises(ValueError, match=f"Line 2 of .* must be a run line with {message}"):
        read_lines(write(tmp_path / "runs.jsonl", lines))


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": -1.0},
        {"seconds": 10**400},
        {"labels": -3},
        {"epochs": "many"},
        {"confusion": 5},
        {"confusion": [[1, 2], [3]]},
        {"confusion": [[1, 10**30], [0, 1]]},
        {"history": "long"},
        {"history": {"epoch": [0, 1], "train_loss": [1.0]}},
        {"history": {"epoch": ["a"]}},
        {"cnn": "good"},
        {"cnn": {"test_accuracy": "high"}},
    ],
    ids=str,
)
def test_a_damaged_field_is_named_with_its_line(tmp_path, change):
    file = tmp_path / "runs.jsonl"
    file.write_text(
        "".join(
            json.dumps(line) + "\n"
            for line in (make_line("ours", 0, 0.9), make_line("ours", 1, 0.9, **change))
        )
    )
    with pytest.raises(ValueError, match=r"Line 2 of .* must be a run line with"):
        read_lines(file)


def test_a_nest_without_bottom_is_no_line(tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text("[" * 100_000 + "\n\n")
    with pytest.raises(ValueError, match="Line 1"):
        read_lines(file)
