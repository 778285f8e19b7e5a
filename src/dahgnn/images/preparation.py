"""Prepare the features of a dataset: get its images, train the CNN, and keep what it makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dahgnn.checks import check_choice
from dahgnn.images.cnn import CONFIGS
from dahgnn.images.cnn_features import make_features
from dahgnn.images.datasets import TITLES, load_images
from dahgnn.images.downloads import fetch
from dahgnn.progress import Observer, tell_cnn_epochs, tell_downloads


def prepare_features(
    dataset: str,
    folder: Path,
    observer: Observer,
    *,
    seed: int = 0,
    epochs: int | None = None,
    device: str = "cpu",
    offline: bool = False,
) -> Path:
    """Return the file of features; see `make_features`, which makes nothing a second time.

    Parameters
    ----------
    dataset : {"cifar10", "svhn"}
        Whose images.
    folder : Path
        The data folder, of the images and of the features.
    observer : Observer
        Sees the downloads, the reading and the training.
    seed, epochs : int, int or None
        The seed of the training, and its passes over the images; those of ``CONFIGS`` if None.
    device : str
        The device to train on.
    offline : bool
        Whether to do without the network; the images must be in the folder then.
    """
    check_choice("dataset", dataset, tuple(CONFIGS), "features")
    config = replace(CONFIGS[dataset], seed=seed)
    if epochs is not None:
        config = replace(config, epochs=epochs)
    with tell_downloads(observer) as progress:
        fetch(dataset, folder, progress=progress, offline=offline)
    with observer.phase(f"Read {TITLES[dataset]}"):
        train, test = (load_images(dataset, folder, part) for part in ("train", "test"))
    with observer.phase(f"Train the CNN on {len(train.labels):,} images") as phase:
        callback = tell_cnn_epochs(phase)
        return make_features(dataset, train, test, folder, config, device=device, callback=callback)
