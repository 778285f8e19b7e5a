"""Ray Train starts the processes, and `join_world` finds them."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torchrun_programs import classify, run_classifier, run_train, train

from dahgnn.training.ray_train import train_on_ray

TESTS = Path(__file__).parents[1]


def test_wrong_numbers_are_refused_before_anything(tmp_path):
    with pytest.raises(ValueError, match="'workers' parameter of train_on_ray must be at least 1"):
        train_on_ray(print, 0, folder=tmp_path)
    with pytest.raises(TypeError, match="'gpu' parameter of train_on_ray must be True or False"):
        train_on_ray(print, 1, folder=tmp_path, gpu="yes")


@pytest.fixture
def _importable(monkeypatch):
    """Let workers of a new Ray cluster import what they are to do."""
    pytest.importorskip("pydantic", reason="Ray Train needs it")
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("DAHGNN_TEST_RAY") != "1", reason="needs a quiet machine: DAHGNN_TEST_RAY=1"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's, of itself
@pytest.mark.usefixtures("_importable")
def test_workers_of_ray_fit_a_classifier_together_though_one_is_killed(tmp_path):
    alone_epochs, alone = classify(tmp_path / "alone")
    train_on_ray(partial(run_classifier, tmp_path), 2, folder=tmp_path / "ray")
    first, second = (json.loads((tmp_path / f"classifier-{rank}.json").read_text()) for rank in (0, 1))
    assert (tmp_path / "killed").exists()
    assert first == second
    epochs, found = first
    assert epochs[0] in (3, 4)  # it goes on after the last checkpoint
    assert epochs == alone_epochs[-len(epochs) :]
    np.testing.assert_allclose(found, alone, atol=1e-3)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's, of itself
@pytest.mark.usefixtures("_importable")
def test_workers_of_ray_learn_what_one_process_does(tmp_path):
    alone, _ = train(tmp_path / "alone")
    train_on_ray(partial(run_train, tmp_path), 2, folder=tmp_path / "ray")
    first, second = (json.loads((tmp_path / f"train-{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    torch.testing.assert_close(torch.tensor(first[0]), torch.tensor(alone), rtol=1e-5, atol=1e-6)


def test_what_ray_train_lacks_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.train", None)
    with pytest.raises(ModuleNotFoundError, match="dahgnn's extra 'cluster'"):
        train_on_ray(print, 2, folder=tmp_path)
