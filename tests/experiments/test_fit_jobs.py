"""Fits of networks and of other methods, one by one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_experiment import TABLE, small_spec, small_task

from dahgnn import HGNN, PRESETS, DAHGNNClassifier, Hypergraph, TrainingConfig, fit, split_per_class
from dahgnn.baselines import registry
from dahgnn.baselines.classical import laplace_learning
from dahgnn.experiments.fit_jobs import _neighbors, figure_results, fit_jobs, train
from dahgnn.experiments.jobs import Experiment, Job
from dahgnn.experiments.methods import resolve_settings
from dahgnn.graph.local_scale import LocalScale
from dahgnn.graph.neighbours import ExactSearch
from dahgnn.graph.scaling import choose_scaling

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(scope="module")
def task():
    return small_task()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
def test_several_networks_of_a_run_are_averaged(task, device):
    entry = TABLE["method"]["hgnn"] | {"scale": "columns"}
    spec = small_spec(
        method={"one": entry | {"title": "1"}, "three": entry | {"title": "3", "networks": 3}},
        comparisons=[],
        published={},
    )
    one, three = (method.settings["mnist"] for method in spec.methods)
    splits = [split_per_class(task.labels, train=3, validation=5, seed=run) for run in (0, 1)]
    averages = train(task, three, splits, [0, 1], device)
    for average, split, seed in zip(averages, splits, (0, 1), strict=True):
        alone = [train(task, one, [split], [seed + number * 2**20], device)[0] for number in range(3)]
        expected = sum(result.embedding for result in alone) / 3
        torch.testing.assert_close(average.embedding, expected, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(average.embedding, alone[0].embedding, atol=1e-3)
        torch.testing.assert_close(average.probabilities, average.embedding.softmax(1))
        assert average.predictions.equal(average.embedding.argmax(1))
        assert average.best_epoch == alone[0].best_epoch


def test_an_interruption_ends_all_networks_of_a_run(task, monkeypatch):
    begun = []

    class Pressed(HGNN):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            self.register_forward_pre_hook(lambda *_: begun.append(id(self)) or self.press())

        def press(self):
            if len(begun) == 3:
                raise KeyboardInterrupt

    entry = TABLE["method"]["hgnn"] | {"networks": 3}
    settings = small_spec(method={"hgnn": entry}, comparisons=[], published={}).methods[0].settings["mnist"]
    split = split_per_class(task.labels, train=6, validation=5, seed=0)
    monkeypatch.setitem(registry._KINDS, "HGNN", registry.NetworkKind(network=Pressed))
    with pytest.raises(KeyboardInterrupt):
        train(task, settings, [split], [0])
    assert len(set(begun)) == 1


def test_features_are_scaled_for_a_network_that_asks_for_it(task):
    entry = TABLE["method"]["hgnn"] | {"scale": "whole"}
    settings = small_spec(method={"hgnn": entry}, comparisons=[], published={}).methods[0].settings["mnist"]
    split = split_per_class(task.labels, train=6, validation=5, seed=0)
    (result,) = train(task, settings, [split], [0])
    model = HGNN(7, 3, hidden=8, generator=torch.Generator().manual_seed(0))
    features = choose_scaling(task.features, "whole").apply(task.features)
    hypergraph = Hypergraph.from_neighbors(task.neighbours)
    expected = fit(model, features, hypergraph, task.labels, split, TrainingConfig(max_epochs=5))
    torch.testing.assert_close(result.embedding, expected.embedding)


def test_a_figure_gets_each_of_its_methods(task):
    spec = small_spec(figure=["da-hgnn", "hgnn"], labels=[3], runs=1)
    split, results = figure_results(spec, task)
    assert [method.name for method, _, _ in results] == ["da-hgnn", "hgnn"]
    assert len(split.train) == 9
    for method, result, line in results:
        assert result.embedding.shape == (90, 3)
        assert line["method"] == method.name
        accuracy = result.accuracy(torch.from_numpy(task.labels), split.test)
        assert line["metrics"]["test_accuracy"] == accuracy


def one_method(entry, **changes):
    return small_spec(method={"it": entry}, comparisons=[], published={}, **changes)


def test_a_method_without_a_network_gets_the_features_of_its_scale(task):
    experiment = Experiment(one_method({"kind": "LaplaceLearning", "scale": "columns"}), {"mnist": task})
    job = Job("mnist", "it", 3, 0)
    (line,) = fit_jobs(experiment, [job], "cpu")
    scaled = (task.features - task.features.mean(0)) / task.features.std(0)
    split = experiment.split_of(job)
    expected = laplace_learning(scaled, task.labels, split, k=5)[0].argmax(1)
    nodes = split.test
    assert line["metrics"]["test_accuracy"] == np.mean(expected[nodes].numpy() == task.labels[nodes])
    assert line["settings"]["scale"] == "columns"


@pytest.mark.parametrize("kind", ["RandomForest", "SVC", "KNeighbors", "SelfTraining", "LogisticRegression"])
@pytest.mark.parametrize("validation", [0, 5])
def test_every_kind_of_method_gives_a_line_with_and_without_validation_nodes(task, kind, validation):
    experiment = Experiment(one_method({"kind": kind}, validation=validation), {"mnist": task})
    (line,) = fit_jobs(experiment, [Job("mnist", "it", 3, 1)], "cpu")
    assert line["metrics"]["test_accuracy"] > 0.7
    assert (line["metrics"]["validation_accuracy"] is None) == (validation == 0)
    assert line["split"]["validation"] == 3 * validation
    assert len(line["confusion"]) == 3


@pytest.mark.parametrize(("use", "n_labelled"), [("none", 9), ("train", 24)])
def test_the_classifier_itself_can_be_run_and_never_sees_test_labels(task, monkeypatch, use, n_labelled):
    seen = []
    whole = DAHGNNClassifier.fit

    def watched(self, features, labels, **given):
        seen.append(np.array(labels))
        return whole(self, features, labels, **given)

    monkeypatch.setattr(DAHGNNClassifier, "fit", watched)
    parameters = {"networks": 2, "training": {"max_epochs": 8}, "validation_labels": use}
    spec = one_method({"kind": "DAHGNNClassifier", "parameters": parameters})
    experiment = Experiment(spec, {"mnist": task})
    job = Job("mnist", "it", 3, 1)
    (line,) = fit_jobs(experiment, [job], "cpu")
    split = experiment.split_of(job)
    assert (seen[0][split.test] == -1).all()
    assert (seen[0] >= 0).sum() == n_labelled
    training = replace(PRESETS["default"].training, max_epochs=8)
    direct = DAHGNNClassifier(networks=2, training=training, random_state=1).fit(task.features, seen[0])
    expected = np.mean(direct.transduction_[split.test] == task.labels[split.test])
    assert line["metrics"]["test_accuracy"] == expected
    low, stated, high = (line["metrics"][f"stated_{name}"] for name in ("low", "accuracy", "high"))
    assert 0 <= low <= stated <= high <= 1
    assert line["settings"]["parameters"]["validation_labels"] == use
    assert line["settings"]["parameters"]["training"]["max_epochs"] == 8


def test_neighbours_by_local_scale_and_smoothing_change_a_method():
    task = small_task()
    split = split_per_class(torch.from_numpy(task.labels), train=3, validation=5, seed=0)
    settings = [
        resolve_settings({"kind": "HGNN", "training": {"max_epochs": 4}}, other, "The method 'it'")
        for other in ({}, {"metric": "local-scale"}, {"smoothing": "correct-and-smooth"})
    ]
    results = [train(task, each, [split], [0])[0].probabilities for each in settings]
    assert not torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    search = LocalScale(ExactSearch(task.features))
    assert torch.equal(_neighbors(task, "none", "local-scale", 5).indices, search.among(5).indices)
    assert torch.equal(_neighbors(task, "none", "euclidean", 5).indices, torch.from_numpy(task.neighbours))
