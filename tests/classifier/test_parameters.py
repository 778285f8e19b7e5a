"""What the parameters of a classifier ask for."""

import os

import numpy as np
import pytest
import torch

from dahgnn import DAHGNNClassifier
from dahgnn.classifier.parameters import Parameters
from dahgnn.classifier.plan import BATCH
from dahgnn.config import PRESETS, ModelConfig, ResourceConfig
from dahgnn.world import ALONE, World

LABELS = torch.tensor([0, 1, -1, -1])


def parameters(**values):
    return Parameters.of(DAHGNNClassifier(**values))


def test_what_is_left_out_is_that_of_the_default_preset():
    assert parameters().model == PRESETS["default"].model
    assert parameters().training == PRESETS["default"].training
    assert parameters(model=ModelConfig(hidden=8)).model.hidden == 8


def test_settings_of_another_kind_are_refused_by_name():
    with pytest.raises(
        TypeError, match="'model' parameter of DAHGNNClassifier must be a ModelConfig or None"
    ):
        parameters(model={"hidden": 8})
    with pytest.raises(TypeError, match="'resources' parameter"):
        parameters(resources=8)


@pytest.mark.parametrize(
    ("n_jobs", "threads"), [(None, None), (1, 1), (3, 3), (9, 4), (-1, 4), (-2, 3), (-9, 1)]
)
def test_negative_numbers_of_threads_count_from_all_cores(monkeypatch, n_jobs, threads):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert parameters(n_jobs=n_jobs).threads == threads


def test_a_device_is_asked_for_when_it_is_needed():
    somewhere = parameters(device="cuda:7")  # as in a file that was written on another machine
    with pytest.raises(ValueError, match="'device' parameter"):
        _ = somewhere.device
    assert parameters(device="cpu").device == torch.device("cpu")


def test_neighbours_are_at_most_a_quarter_of_the_rows():
    assert [parameters(k=10).count_neighbours(n) for n in (2, 12, 39, 40, 400)] == [1, 3, 9, 10, 10]


def test_rows_that_are_named_are_not_learned_from():
    assert parameters(validation=0.2).refit
    assert not parameters(validation=np.array([3, 4])).refit


class Two(World):
    """Two processes, of which this is the first."""

    size = 2


def test_processes_that_train_together_divide_batches():
    alone, together = (parameters().plan(200, 4, 2, 50, world) for world in (ALONE, Two()))
    assert (alone.batch, together.batch) == (0, BATCH)
    chosen = parameters(resources=ResourceConfig(batch=64)).plan(200, 4, 2, 50, Two())
    assert chosen.batch == 64


def test_a_fit_is_named_by_what_changes_it():
    def digest(labels=LABELS, weights=None, **values):
        asked = parameters(**values)
        return asked.digest(labels, weights, asked.plan(4, 2, 2, 2, ALONE))

    assert digest() == digest(n_jobs=2, verbose=1, device="cpu", random_state=5)
    others = [
        digest(labels=LABELS.flip(0)),
        digest(weights=[1, 2, 1, 1]),
        digest(k=3),
        digest(class_prior=[0.3, 0.7]),
        digest(resources=ResourceConfig(batch=64)),
    ]
    assert len({digest(), *others}) == 1 + len(others)
