"""The search for settings: by validation nodes alone, resumed, and never mixed."""

import json

import pytest
import torch
from small_experiment import TABLE, small_spec, small_task

from dahgnn import HGNN, Hypergraph, TrainingConfig, fit, split_per_class
from dahgnn.experiments.tuning import run_search

SPACE = {
    "model.hidden": [4, 8],
    "model.dropout": {"low": 0.0, "high": 0.5},
    "training.max_epochs": {"low": 1, "high": 6},
    "training.learning_rate": {"low": 0.001, "high": 0.1, "log": True},
}


def searching(trials=4, more=None, **changes):
    search = {"method": "hgnn", "trials": trials, "space": SPACE, **changes}
    return small_spec(**({"search": search, "labels": [4], "runs": 2} | (more or {})))


@pytest.fixture(scope="module")
def task():
    return small_task()


def test_a_search_tries_and_ranks(tmp_path, task):
    heard = []
    lines = run_search(searching(), tmp_path, {"mnist": task}, progress=lambda *news: heard.append(news[:2]))
    assert heard == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    objectives = [line["objective"] for line in lines]
    assert objectives == sorted(objectives, reverse=True)
    for line in lines:
        assert line["values"].keys() == SPACE.keys()
        assert line["values"]["model.hidden"] in (4, 8)
        assert 0.001 <= line["values"]["training.learning_rate"] <= 0.1
        assert line["objective"] == pytest.approx(line["cells"]["mnist 4"])
    assert len((tmp_path / "trials.jsonl").read_text().splitlines()) == 4


def test_the_objective_is_the_validation_accuracy(tmp_path, task):
    """Computed once more by hand for the first trial."""
    line = run_search(searching(trials=1), tmp_path, {"mnist": task})[0]
    values = line["values"]
    config = TrainingConfig(
        max_epochs=values["training.max_epochs"], learning_rate=values["training.learning_rate"]
    )
    shape = {"hidden": values["model.hidden"], "dropout": values["model.dropout"]}
    hypergraph = Hypergraph.from_neighbors(task.neighbours)
    accuracies = []
    for seed in range(2):
        split = split_per_class(task.labels, train=4, validation=5, seed=seed)
        model = HGNN(6, 3, **shape, generator=torch.Generator().manual_seed(seed))
        result = fit(model, task.features, hypergraph, task.labels, split, config, seed=seed)
        accuracies.append(result.accuracy(torch.from_numpy(task.labels), split.validation))
    assert line["objective"] == pytest.approx(sum(accuracies) / 2)


def test_a_search_goes_on(tmp_path, task):
    run_search(searching(trials=2), tmp_path, {"mnist": task})
    before = (tmp_path / "trials.jsonl").read_text()
    lines = run_search(searching(trials=5), tmp_path, {"mnist": task})
    after = (tmp_path / "trials.jsonl").read_text()
    assert after.startswith(before)
    assert [json.loads(line)["number"] for line in after.splitlines()] == [0, 1, 2, 3, 4]
    assert len({json.dumps(line["values"]) for line in lines}) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"search": {"seed": 3}},
        {"validation": 6},
        {"k": 4},
        {"runs": 1},
        {"labels": [5]},
        {"data": 1},
        {"hidden": 9},
    ],
    ids=str,
)
def test_trials_of_another_search_are_refused(tmp_path, task, change):
    run_search(searching(trials=1), tmp_path, {"mnist": task})
    change = dict(change)
    other = small_task(seed=change.pop("data", 0))
    if "hidden" in change:
        method = TABLE["method"]["hgnn"] | {"model": {"hidden": change.pop("hidden")}}
        change["method"] = TABLE["method"] | {"hgnn": method}
    with pytest.raises(ValueError, match="is of another search"):
        run_search(searching(trials=1, **change.pop("search", {}), more=change), tmp_path, {"mnist": other})


def test_a_spec_without_a_search_is_refused(tmp_path, task):
    with pytest.raises(ValueError, match="has no search"):
        run_search(small_spec(), tmp_path, {"mnist": task})
