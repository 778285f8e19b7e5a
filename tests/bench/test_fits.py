"""Whole fits: every method gets the same rows and labels, and learns from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dahgnn.bench import fits
from dahgnn.bench.fits import FITS, Task
from dahgnn.config import PRESETS
from dahgnn.images.datasets import Dataset

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def task() -> Task:
    return fits.random_task(200, 64, 8, CPU)


def test_a_task_tells_some_labels_of_each_class(task):
    assert task.rows.shape == task.new_rows.shape == (200, 64)
    told = task.known[task.known >= 0]
    assert np.bincount(told).tolist() == [8] * 10
    assert (task.known[task.labelled] == task.labels[task.labelled]).all()
    assert len(told) == len(task.labelled) == 80
    assert not np.array_equal(task.rows, task.new_rows)


def test_a_task_repeats(task):
    again = fits.random_task(200, 64, 8, CPU)
    for name in ("rows", "labels", "labelled", "new_rows", "new_labels"):
        assert np.array_equal(getattr(task, name), getattr(again, name))


def test_images_are_fitted_and_test_images_are_new(monkeypatch):
    parts = []

    def load(folder, part="train"):
        parts.append((folder, part))
        count = 300 if part == "train" else 50
        features = torch.arange(count).float()[:, None] + (1000 if part == "test" else 0)
        return Dataset("images", features, torch.arange(count) % 10)

    monkeypatch.setattr(fits, "load_mnist", load)
    task = fits.mnist_task(Path("images"), 120, 3, CPU)
    assert parts == [(Path("images"), "train"), (Path("images"), "test")]
    assert np.bincount(task.labels).tolist() == [12] * 10
    assert np.array_equal(task.rows[:, 0] % 10, task.labels)  # rows and labels belong together
    assert np.bincount(task.known[task.known >= 0]).tolist() == [3] * 10
    assert task.new_rows[:, 0].tolist() == list(range(1000, 1050))
    assert np.array_equal(task.new_rows[:, 0] % 10, task.new_labels)


# In the order of the table: how many of the unlabelled rows are right at least; chance is a tenth.
ACCURACY = {
    "default": 0.8,
    "label-spreading": 0.6,
    "laplace": 0.7,
    "hgnn": 0.7,
    "gcn": 0.7,
    "gat": 0.2,
    "pyg": 0.2,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", FITS)
def test_a_method_learns_from_the_labels_that_it_is_told(task, key):
    method = FITS[key]
    if method.package is not None:
        pytest.importorskip(method.package, exc_type=ImportError)
    # Whoever reads a label that is not told, or the wrong one, gets this wrong.
    hidden = task.known < 0
    fitted = method.fit(task)
    assert fitted.predictions.shape == (200,)
    assert (fitted.predictions == task.labels)[hidden].mean() > ACCURACY[key]


def test_labels_that_are_not_told_change_nothing(task):
    wrong = task.labels.copy()
    wrong[task.known < 0] = 0
    for key in ("default", "label-spreading", "laplace", "hgnn"):
        fit = FITS[key].fit
        assert np.array_equal(fit(task).predictions, fit(replace(task, labels=wrong)).predictions)


@pytest.mark.parametrize("key", ["default", "label-spreading"])
def test_new_rows_are_predicted(task, key):
    predicted = FITS[key].fit(task).predict(task.new_rows)
    assert (predicted == task.labels).mean() > 0.5  # new rows have the classes of the fitted ones


def test_a_network_has_no_say_of_new_rows(task):
    assert FITS["laplace"].fit(task).predict is None


def test_peers_have_as_many_networks_and_epochs_as_the_classifier(task, monkeypatch):
    calls = []

    def make(hypergraph, in_features, *, hidden):
        assert hidden == PRESETS["default"].model.hidden
        assert hypergraph.n_nodes == 200
        network = torch.nn.Linear(in_features, 10)
        network.register_forward_hook(lambda module, *_: calls.append(id(module)))
        return network

    monkeypatch.setattr(fits, "make_pyg", make)
    fits._fit_pyg(task)
    epochs = PRESETS["default"].training.max_epochs
    assert len(set(calls)) == PRESETS["default"].networks
    assert len(calls) == PRESETS["default"].networks * (epochs + 1)  # and what they say at the end


def test_networks_of_ours_have_as_many_epochs_too(task, monkeypatch):
    given = []

    def fit_many(models, features, hypergraph, labels, splits, config):
        given.append((len(models), len(splits), config))
        return real(models, features, hypergraph, labels, splits, config)

    real = fits.fit_many
    monkeypatch.setattr(fits, "fit_many", fit_many)
    FITS["hgnn"].fit(task)
    preset = PRESETS["default"]
    epochs = preset.training.max_epochs
    assert given == [(preset.networks, preset.networks, replace(preset.training, patience=epochs))]
