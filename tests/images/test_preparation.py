"""From the name of a dataset to its features, with the small images that stand for it."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from small_images import SMALL, TEST, TRAIN

from dahgnn.images.cnn_features import load_features, read_header
from dahgnn.images.preparation import prepare_features
from dahgnn.progress import SilentObserver


class Recorder:
    """An observer that remembers the phases, and how many epochs it heard of."""

    def __init__(self):
        self.phases, self.heard = [], []

    @contextmanager
    def phase(self, name):
        self.phases.append(name)
        yield lambda *news, **_: self.heard.append(news)


@pytest.fixture
def fetched(monkeypatch):
    calls = []

    def fetch(name, folder, *, progress, offline):
        calls.append((name, folder, offline))
        progress("images.bin", 1 << 20, 2 << 20)

    monkeypatch.setattr("dahgnn.images.preparation.fetch", fetch)
    parts = {"train": TRAIN, "test": TEST}
    monkeypatch.setattr("dahgnn.images.preparation.load_images", lambda _, __, part: parts[part])
    monkeypatch.setattr("dahgnn.images.preparation.CONFIGS", {"cifar10": SMALL})
    return calls


def test_images_are_fetched_read_and_trained_on(fetched, tmp_path):
    recorder = Recorder()
    path = prepare_features("cifar10", tmp_path, recorder, seed=3, epochs=1, offline=True)
    assert fetched == [("cifar10", tmp_path, True)]
    assert recorder.phases == ["Download images.bin", "Read CIFAR-10", "Train the CNN on 40 images"]
    assert len(recorder.heard) > 1
    assert load_features(path, "cifar10").features.shape == (15, 128)
    wanted = replace(SMALL, seed=3, epochs=1)
    assert {name: getattr(wanted, name) for name in ("seed", "epochs", "width")}.items() <= (
        read_header(path, "cifar10").config.items()
    )


def test_without_epochs_they_are_those_of_the_dataset(fetched, tmp_path):
    path = prepare_features("cifar10", tmp_path, SilentObserver())
    assert read_header(path, "cifar10").config["epochs"] == SMALL.epochs


def test_an_unknown_dataset_is_refused_before_anything_is_fetched(fetched, tmp_path):
    with pytest.raises(ValueError, match="'dataset' parameter of features must be .*'cifar10'"):
        prepare_features("cifar", tmp_path, SilentObserver())
    assert not fetched
